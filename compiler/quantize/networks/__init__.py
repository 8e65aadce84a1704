"""The float network as the quantizer sees it: layers, weights, functions."""
