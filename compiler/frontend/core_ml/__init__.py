"""Core ML's files as ONNX models: ML programs and neural networks."""

from compiler.frontend.core_ml.files import convert

__all__ = ["convert"]
