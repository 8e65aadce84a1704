"""Importers: models of other tools become graphs."""

from compiler.frontend.onnx.importing import ImportRefused, convert, load

__all__ = ["ImportRefused", "convert", "load"]
