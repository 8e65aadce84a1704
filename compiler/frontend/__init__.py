"""Importers: models of other tools become graphs."""

from compiler.frontend.onnx_import import ImportRefused, convert, load

__all__ = ["ImportRefused", "convert", "load"]
