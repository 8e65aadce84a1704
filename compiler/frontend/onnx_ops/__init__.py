"""The operators of ONNX, by family; to import this is to register them."""

from compiler.frontend.onnx_ops import (casts, control, data, elementwise, images, learning, matrix,
                                        movement, normalization, pictures, pooling, quantization,
                                        randomness, recurrent, reductions, resize, sequences,
                                        shapes, signals, text, windows)
