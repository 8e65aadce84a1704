"""The operators of ONNX, by family; to import this is to register them."""

from compiler.frontend.onnx_ops import (casts, control, data, elementwise, matrix, movement,
                                        normalization, pooling, quantization, recurrent,
                                        reductions, resize, sequences, shapes, windows)
