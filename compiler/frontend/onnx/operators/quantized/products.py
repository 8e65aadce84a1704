"""Products of quantized tensors whose result is quantized.

With constant scales and zero points they are the float product between quantizations, which has an
integer form; with others the sums are integers, and what they are multiplied by is computed.
"""

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.nodes.registry import MICROSOFT, operator
from compiler.frontend.onnx.operators.matrix import gemm, product
from compiler.frontend.onnx.operators.quantized.between import Codes, between, quantized
from compiler.frontend.onnx.operators.quantized.qlinear import with_channels
from compiler.frontend.onnx.operators.quantized.integers import conv_integer, matmul_integer
from compiler.frontend.onnx.operators.windows import conv


@operator("QLinearMatMul")
def qlinear_matmul(t, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    inputs = [Codes(a, a_scale, a_zero), Codes(b, b_scale, b_zero, axis=b.rank - 1)]
    if a_scale.size == 1 and all(each.plain for each in (*inputs, Codes(a, y_scale, y_zero))):
        return between(t, lambda *numbers: product(t, *numbers), inputs, y_scale, y_zero)
    sums = matmul_integer(t, a, b, a_zero, b_zero)
    scale = a_scale.astype("float32") * b_scale.astype("float32") / y_scale.astype("float32")
    return _requantized(t, sums, scale.reshape() if scale.size == 1 else scale, y_zero.reshape())


@operator("QLinearConv")
def qlinear_conv(t, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b=None, *,
                 auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None, pads=None,
                 strides=None):
    window = {"auto_pad": auto_pad, "dilations": dilations, "group": group,
              "kernel_shape": kernel_shape, "pads": pads, "strides": strides}
    inputs = [Codes(x, x_scale, x_zero), Codes(w, w_scale, w_zero)]
    result = Codes(x, y_scale, y_zero)
    if all(each.plain for each in (*inputs, result)) and x_scale.size == 1:
        bias = None if b is None else _bias(b, x_scale.reshape() * w_scale)
        if bias is None or bias.plain:
            inputs += [bias] if bias else []
            return between(t, lambda *numbers: conv(t, *numbers, **window), inputs, y_scale, y_zero)
    sums = conv_integer(t, x, w, x_zero, w_zero, **window)
    channels = (1, -1, *(1,) * (w.rank - 2))
    if b is not None:
        sums = sums + b.reshape(*(b.size if axis < 0 else axis for axis in channels))
    scale = x_scale.reshape() * w_scale / y_scale.reshape()
    each = scale.reshape(*(scale.size if axis < 0 else axis for axis in channels))
    return _requantized(t, sums, each if scale.size > 1 else scale.reshape(), y_zero.reshape())


@operator("QLinearConv", domain=MICROSOFT)
def qlinear_conv_of_layout(t, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b=None, *,
                           auto_pad="NOTSET", channels_last=0, dilations=None, group=1,
                           kernel_shape=None, pads=None, strides=None):
    def rule(image: Value) -> Value:
        return qlinear_conv(t, image, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b,
                            auto_pad=auto_pad, dilations=dilations, group=group,
                            kernel_shape=kernel_shape, pads=pads, strides=strides)
    return with_channels(channels_last, rule)(x)


@operator("QGemm", domain=MICROSOFT)
def qgemm(t, a, a_scale, a_zero, b, b_scale, b_zero, c=None, y_scale=None, y_zero=None, *,
          alpha=1.0, transA=0, transB=0):
    if alpha <= 0:
        raise NodeRefused(f"alpha must be above 0, not {alpha!r}")
    if (y_scale is None) != (y_zero is None):
        raise NodeRefused("its result must have a scale and a zero point, or neither")
    scale = b_scale if alpha == 1 else b_scale * alpha
    inputs = [Codes(a, a_scale, a_zero), Codes(b, scale, b_zero, axis=0 if transB else 1)]
    if c is not None:
        columns = b.shape[0 if transB else 1]
        c = c.expand(*c.shape[:-1], columns) if scale.size > 1 else c
        inputs.append(_bias(c, a_scale.reshape() * scale))
    result = gemm(t, *(each.numbers(t) for each in inputs), alpha=1.0, beta=1.0, transA=transA,
                  transB=transB)
    return result if y_scale is None else quantized(t, result, y_scale, y_zero, a.dtype)


def _bias(value: Value, scale: Value) -> Codes:
    """A bias in steps of the sums, with one scale or one for each element of its last axis."""
    return Codes(value, scale, axis=value.rank - 1)


def _requantized(t, sums: Value, scale: Value, zero: Value) -> Value:
    info = np.iinfo(np.dtype(zero.dtype))
    steps = t.emit("rint", sums.astype("float32") * scale.astype("float32"))
    moved = steps + zero.astype("float32")
    return moved.maximum(float(info.min)).minimum(float(info.max)).astype(zero.dtype)
