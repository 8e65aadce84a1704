"""Decoders of files that hold weights and sizes: GGUF, safetensors with config.json."""

from compiler.frontend.decoders.forms import convert

__all__ = ["convert"]
