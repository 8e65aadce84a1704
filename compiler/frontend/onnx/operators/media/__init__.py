"""Operators of ONNX on pictures, signals and text."""
