"""The operators of ONNX, by family; to import this is to register them."""

from compiler.frontend.onnx.operators import (casts, control, data, elementwise, learning, matrix,
                                              movement, normalization, pooling, quantization,
                                              randomness, recurrent, reductions, resize, sequences,
                                              shapes, windows)
from compiler.frontend.onnx.operators.media import images, pictures, signals, text
