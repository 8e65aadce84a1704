"""Nodes of ONNX: what converts each, and what writes them."""
