"""Products whose activations are quantized as they come: to uint8, from the least to the greatest
element and 0. Sums are integers, and scales are multiplied in float.
"""

from functools import partial

from compiler.frontend.building.values import Value
from compiler.frontend.onnx.nodes.registry import MICROSOFT, operator
from compiler.frontend.onnx.operators.quantized.integers import matmul_integer
from compiler.frontend.onnx.operators.quantized.linear import quantize_linear
from compiler.frontend.onnx.operators.recurrent import (Product, activations_of, directions_of,
                                                        part_of, require_shapes, unrolled_lstm)


def dynamically_quantized(t, x: Value) -> tuple[Value, Value, Value]:
    """The steps of a tensor, their scale and zero point; a tensor of zeros has the scale 1."""
    every = range(x.rank)
    low = t.emit("reduce_min", x, axes=tuple(every), keepdims=0).minimum(0)
    high = x.max(*every).maximum(0)
    width = (high - low) / 255
    scale = width.equal(0).where(1, width)
    zero = t.emit("rint", (-low / scale)).maximum(0).minimum(255).astype("uint8")
    return quantize_linear(t, x, scale, zero), scale, zero


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(t, a, b, a_scale, b_scale, a_zero=None, b_zero=None, bias=None):
    sums = matmul_integer(t, a, b, a_zero, b_zero).astype("float32")
    result = sums * (_number(a_scale) * _number(b_scale))
    return result if bias is None else result + bias


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(t, a, b, b_scale, b_zero=None, bias=None):
    steps, scale, zero = dynamically_quantized(t, a)
    return matmul_integer_to_float(t, steps, b, scale, b_scale, zero, b_zero, bias)


def _number(scale: Value) -> Value:
    return scale.reshape() if scale.size == 1 else scale


@operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(t, x, w, r, b, sequence_lens, initial_h, initial_c, p, w_scale, w_zero,
                          r_scale, r_zero, *, activation_alpha=None, activation_beta=None,
                          activations=None, clip=0.0, direction="forward", hidden_size,
                          input_forget=0):
    """The inputs of all steps are quantized together, and the state of each step by itself."""
    count = directions_of(direction)
    require_shapes(x, 4, count, hidden_size, 0, sequence_lens, B=b, P=p, initial_h=initial_h,
                   initial_c=initial_c)
    functions = activations_of(t, activations, activation_alpha, activation_beta,
                               ["Sigmoid", "Tanh", "Tanh"], count)

    def products(number: int) -> tuple[Product, Product]:
        of_input, of_state = (partial(_times, t, *(part_of(value, number) for value in weights))
                              for weights in ((w, w_scale, w_zero), (r, r_scale, r_zero)))
        return of_input, of_state
    return unrolled_lstm(t, x, products, b, sequence_lens, (initial_h, initial_c), p, functions,
                         clip, direction, hidden_size, input_forget)


def _times(t, w: Value, scale: Value, zero: Value, x: Value) -> Value:
    return dynamic_quantize_matmul(t, x, w, scale, zero)
