"""The operators of ONNX, by family; to import this is to register them."""

from compiler.frontend.onnx.operators import (casts, control, data, elementwise, learning, matrix,
                                              movement, normalization, pooling, randomness,
                                              recurrent, reductions, resize, sequences, shapes,
                                              windows)
from compiler.frontend.onnx.operators.media import images, pictures, signals, text
from compiler.frontend.onnx.operators.microsoft import attention, embedding, fused
from compiler.frontend.onnx.operators.quantized import (blocks, dynamic, fake, integers, linear,
                                                        minifloats, own, products, qlinear, qonnx)
