"""The plan of quantization, and the network that says it."""
