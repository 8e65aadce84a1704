"""Decoders of files that hold weights and sizes: GGUF."""

from compiler.frontend.decoders.forms import convert

__all__ = ["convert"]
