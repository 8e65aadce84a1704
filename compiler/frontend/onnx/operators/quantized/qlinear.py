"""com.microsoft's QLinear operators but products: a float operator between quantizations."""

from collections.abc import Callable
from functools import partial

from compiler.frontend.building.values import NodeRefused, Value, axes_of
from compiler.frontend.onnx.nodes.registry import operator
from compiler.frontend.onnx.operators import elementwise, movement, normalization, pooling
from compiler.frontend.onnx.operators.quantized.between import Codes, between
from compiler.frontend.onnx.operators.quantized.linear import MICROSOFT


def _binary(name: str, rule: Callable[[Value, Value], Value]) -> None:
    def binary(t, a, a_scale, a_zero, b, b_scale, b_zero, c_scale, c_zero=None):
        inputs = [Codes(a, a_scale, a_zero), Codes(b, b_scale, b_zero)]
        return between(t, rule, inputs, c_scale, c_zero)
    operator(name, domain=MICROSOFT)(binary)


_binary("QLinearAdd", lambda a, b: a + b)
_binary("QLinearMul", lambda a, b: a * b)


@operator("QLinearSigmoid", domain=MICROSOFT)
def qlinear_sigmoid(t, x, x_scale, x_zero, y_scale, y_zero=None):
    return between(t, partial(elementwise.sigmoid, t), [Codes(x, x_scale, x_zero)], y_scale,
                   y_zero)


@operator("QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_leaky_relu(t, x, x_scale, x_zero, y_scale, y_zero=None, *, alpha=0.01):
    return between(t, partial(elementwise.leaky_relu, t, alpha=alpha),
                   [Codes(x, x_scale, x_zero)], y_scale, y_zero)


@operator("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(t, x, x_scale, x_zero, y_scale, y_zero=None, *, axis=-1, opset):
    return between(t, lambda numbers: normalization.softmax_of(opset, numbers, axis),
                   [Codes(x, x_scale, x_zero)], y_scale, y_zero)


@operator("QLinearReduceMean", domain=MICROSOFT)
def qlinear_reduce_mean(t, x, x_scale, x_zero, y_scale, y_zero=None, *, axes=(), keepdims=1):
    places = axes_of(axes or range(x.rank), x.rank)
    return between(t, lambda numbers: numbers.mean(*places, keepdims=keepdims),
                   [Codes(x, x_scale, x_zero)], y_scale, y_zero)


@operator("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average_pool(t, x, x_scale, x_zero, y_scale, y_zero=None, *, channels_last=0):
    rule = with_channels(channels_last, partial(pooling.global_average_pool, t))
    return between(t, rule, [Codes(x, x_scale, x_zero)], y_scale, y_zero)


@operator("QLinearAveragePool", domain=MICROSOFT)
def qlinear_average_pool(t, x, x_scale, x_zero, y_scale, y_zero=None, *, auto_pad="NOTSET",
                         ceil_mode=0, channels_last=0, count_include_pad=0, kernel_shape, pads=None,
                         strides=None):
    rule = with_channels(channels_last, partial(
        pooling.average_pool, t, auto_pad=auto_pad, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad, kernel_shape=kernel_shape, pads=pads, strides=strides))
    return between(t, rule, [Codes(x, x_scale, x_zero)], y_scale, y_zero)


@operator("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(t, y_scale, y_zero, *inputs, axis):
    if not inputs or len(inputs) % 3:
        raise NodeRefused("behind the scale and zero point of the result must be a tensor, its "
                          f"scale and its zero point for each input, not {len(inputs)} inputs")
    parts = [Codes(*inputs[place:place + 3]) for place in range(0, len(inputs), 3)]
    return between(t, lambda *numbers: movement.concat(t, *numbers, axis=axis), parts, y_scale,
                   y_zero)


@operator("QLinearWhere", domain=MICROSOFT)
def qlinear_where(t, condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero=None):
    return between(t, condition.where, [Codes(x, x_scale, x_zero),
                                        Codes(y, y_scale, y_zero)], z_scale, z_zero)


def with_channels(last: int, rule: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """A rule for images [N,C,...], or one of images [N,...,C] alike."""
    def turned(x: Value) -> Value:
        result = rule(x.transpose(0, x.rank - 1, *range(1, x.rank - 1)))
        return result.transpose(0, *range(2, x.rank), 1)
    return turned if last else rule
