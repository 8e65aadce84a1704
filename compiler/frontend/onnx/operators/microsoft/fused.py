"""Float operators that ONNX Runtime makes of several when it saves a network that it has optimized:
quantized ones hold them, too.
"""

from collections.abc import Callable, Sequence
from functools import partial

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.nodes.registry import MICROSOFT, operator
from compiler.frontend.onnx.operators import elementwise
from compiler.frontend.onnx.operators.matrix import gemm, product
from compiler.frontend.onnx.operators.normalization import (layer_normalization,
                                                            simplified_layer_normalization)
from compiler.frontend.onnx.operators.windows import conv


@operator("Gelu", domain=MICROSOFT)
def gelu(t, x):
    return elementwise.gelu(t, x, approximate="none")


@operator("BiasGelu", domain=MICROSOFT)
def bias_gelu(t, x, bias):
    return gelu(t, x + bias)


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(t, x, bias=None):
    return elementwise.gelu(t, x if bias is None else x + bias, approximate="tanh")


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(t, x, *, alpha=1.702):
    return x * elementwise.sigmoid(t, x * alpha)


@operator("BiasAdd", domain=MICROSOFT)
def bias_add(t, x, bias, skip):
    return x + bias + skip


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(t, x, skip, gamma, beta=None, bias=None, *, epsilon=1e-12):
    total = _total(x, skip, bias)
    return *layer_normalization(t, total, gamma, beta, axis=-1, epsilon=epsilon), total


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(t, x, skip, gamma, bias=None, *, epsilon=1e-12):
    if any(t.outputs[1:2]):
        raise NodeRefused("its mean must not be a result: it computes none")
    total = _total(x, skip, bias)
    result, inverse = simplified_layer_normalization(t, total, gamma, epsilon=epsilon)
    return result, None, inverse, total


def _total(x: Value, skip: Value, bias: Value | None) -> Value:
    return x + skip if bias is None else x + skip + bias


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(t, a, b, *, alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0):
    total = product(t, _turned(a, transA, transBatchA), _turned(b, transB, transBatchB))
    return total if alpha == 1 else total * alpha


def _turned(x: Value, last: int, batch: int) -> Value:
    """The matrices of a stack, whose rows may stand before the stack, and which may be turned."""
    if batch and x.rank > 2:
        x = x.transpose(*range(1, x.rank - 1), 0, x.rank - 1)
    if last and x.rank > 1:
        x = x.transpose(*range(x.rank - 2), x.rank - 1, x.rank - 2)
    return x


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(t, a, b, c=None, *, activation="", activation_alpha=0.01, activation_beta=0.0,
               activation_gamma=0.0, alpha=1.0, beta=1.0, transA=0, transB=0):
    numbers = (activation_alpha, activation_beta, activation_gamma)
    total = gemm(t, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return _activation(t, activation, numbers)(total)


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(t, x, w, b=None, z=None, *, activation="", activation_params=(), auto_pad="NOTSET",
               dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
    total = conv(t, x, w, b, auto_pad=auto_pad, dilations=dilations, group=group,
                 kernel_shape=kernel_shape, pads=pads, strides=strides)
    return _activation(t, activation, activation_params)(total if z is None else total + z)


def _activation(t, name: str, numbers: Sequence[float]) -> Callable[[Value], Value]:
    numbers = [*numbers, 0.0, 0.0]
    known = {
        "": lambda x: x, "Relu": partial(elementwise.relu, t), "Tanh": Value.tanh,
        "Sigmoid": partial(elementwise.sigmoid, t),
        "LeakyRelu": partial(elementwise.leaky_relu, t, alpha=numbers[0]),
        "Clip": lambda x: x.maximum(numbers[0]).minimum(numbers[1]),
        "HardSigmoid": partial(elementwise.hard_sigmoid, t, alpha=numbers[0], beta=numbers[1])}
    if name not in known:
        raise NodeRefused(f"activation must be one of {', '.join(filter(None, known))}, not "
                          f"{name!r}")
    return known[name]
