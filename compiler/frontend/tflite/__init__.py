"""TensorFlow Lite's files as ONNX models: the importer for these then builds the graph."""

import compiler.frontend.tflite.arrays
import compiler.frontend.tflite.elementwise
import compiler.frontend.tflite.movement
import compiler.frontend.tflite.recurrent
import compiler.frontend.tflite.reductions
import compiler.frontend.tflite.windows
from compiler.frontend.tflite.converter import convert

__all__ = ["convert"]
