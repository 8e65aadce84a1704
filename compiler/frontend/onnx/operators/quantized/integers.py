"""Integer products and sums of quantized tensors."""

from compiler.frontend.building.values import Value, axes_of
from compiler.frontend.onnx.nodes.registry import MICROSOFT, operator
from compiler.frontend.onnx.operators.matrix import product
from compiler.frontend.onnx.operators.windows import check_window, convolved, padded_sides, spatial


def _shifted(t, x: Value, zero: Value | None, axis: int | None = None) -> Value:
    """The value in int32 minus its zero point, which may be one for each slice along an axis."""
    wide = x.astype("int32")
    if zero is None:
        return wide
    point = zero.astype("int32")
    if point.size == 1:
        return wide - point.reshape()
    if axis is None or point.rank > 1:
        return wide - point
    return wide - point.reshape(*(point.size if place == axis else 1 for place in range(x.rank)))


@operator("MatMulInteger")
def matmul_integer(t, a, b, a_zero=None, b_zero=None):
    rows = None if a.rank < 2 else a.rank - 2
    return product(t, _shifted(t, a, a_zero, rows), _shifted(t, b, b_zero, b.rank - 1))


@operator("ConvInteger")
def conv_integer(t, x, w, x_zero=None, w_zero=None, *, auto_pad, dilations=None, group,
                 kernel_shape=None, pads=None, strides=None):
    rank = spatial(w)
    dilations, strides = dilations or (1,) * rank, strides or (1,) * rank
    check_window(rank, kernel_shape=kernel_shape, dilations=dilations, strides=strides, pads=pads)
    reach = [(size - 1) * step + 1 for size, step in zip(w.shape[2:], dilations, strict=True)]
    sides = padded_sides(x, reach, strides, pads, auto_pad)
    return convolved(t, _shifted(t, x, x_zero, 1), _shifted(t, w, w_zero, 0), strides, sides,
                     dilations, group)


@operator("MulInteger", domain=MICROSOFT)
def mul_integer(t, a, a_zero, b, b_zero=None):
    return _shifted(t, a, a_zero) * _shifted(t, b, b_zero)


@operator("MatMulInteger16", domain=MICROSOFT)
def matmul_integer_of_words(t, a, b):
    both = "uint32" if a.dtype == b.dtype == "uint16" else "int32"
    return product(t, a.astype("int32"), b.astype("int32")).astype(both)


@operator("ReduceSumInteger", domain=MICROSOFT)
def reduce_sum_integer(t, x, *, axes=(), keepdims=1):
    places = axes_of(axes or range(x.rank), x.rank)
    wide = "uint32" if x.dtype == "uint8" else "int32"
    return x.astype(wide).sum(*places, keepdims=keepdims)
