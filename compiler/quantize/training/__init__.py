"""Quantized networks in training."""
