"""Functions of single elements."""

from math import inf

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.nodes.registry import operator
from compiler.frontend.onnx.operators.normalization import in_single
from compiler.te import is_float, is_integer

PLAIN = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Add": "add", "And": "and", "Asin": "asin",
    "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh", "BitwiseAnd": "and", "BitwiseNot": "not",
    "BitwiseOr": "or", "BitwiseXor": "xor", "Cos": "cos", "Cosh": "cosh", "Div": "div",
    "Equal": "equal", "Erf": "erf", "Exp": "exp", "IsNaN": "is_nan", "Less": "less",
    "LessOrEqual": "less_equal", "Log": "log", "Mul": "mul", "Neg": "neg", "Not": "not",
    "Or": "or", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Sub": "sub",
    "Tan": "tan", "Tanh": "tanh", "Xor": "xor"}

ROUNDED = {"Ceil": "ceil", "Floor": "floor", "Round": "rint"}


def _register(name: str, op: str) -> None:
    def plain(t, *inputs):
        if inputs[0].dtype == "string":
            return _of_strings(t, name, inputs)
        return t.emit(op, *inputs)
    operator(name)(plain)


def _of_strings(t, name: str, inputs):
    if name == "Equal":
        a, b = (t.demand(value, "text") for value in inputs)
        return t.constant(np.asarray(a == b, bool), given=any(value.given for value in inputs))
    raise NodeRefused("its inputs must be numbers, not strings")


for _name, _op in (PLAIN | ROUNDED).items():
    _register(_name, _op)


@operator("Where")
def where(t, condition, x, y):
    if x.dtype == "string":
        arrays = [t.demand(value, "choice") for value in (condition, x, y)]
        return t.constant(np.where(*arrays), given=True)
    return condition.where(x, y)


@operator("Greater")
def greater(t, a, b):
    return b < a


@operator("GreaterOrEqual")
def greater_or_equal(t, a, b):
    return b <= a


@operator("Identity")
def identity(t, x):
    """Gives a computed value another name, except inside a function."""
    if not isinstance(x, Value) or x.array is not None or t.depth:
        return x
    return t.emit("identity", x)


@operator("Pow")
def power(t, x, y):
    """Small constant powers are products, of any type."""
    if y.constant and y.size == 1 and y.rank <= x.rank:
        factors = float(y.array.reshape(()))
        if factors in (1, 2, 3):
            product = x
            for _ in range(int(factors) - 1):
                product = product * x
            return product
        if factors == 0.5 and is_float(x.dtype):
            return x.sqrt()
    if x.dtype == y.dtype:
        return x ** y
    if is_integer(x.dtype) and is_float(y.dtype):
        return (x.astype("float64") ** y.astype("float64")).astype(x.dtype)
    return x ** y.astype(x.dtype)


@operator("Mod")
def mod(t, a, b, *, fmod):
    return t.emit("fmod" if fmod else "mod", a, b)


@operator("BitShift")
def bit_shift(t, x, y, *, direction):
    if direction not in ("LEFT", "RIGHT"):
        raise NodeRefused(f"direction must be LEFT or RIGHT, not {direction}")
    return t.emit("shl" if direction == "LEFT" else "shr", x, y)


def _folded(op: str):
    def fold(t, *inputs):
        result = inputs[0]
        for value in inputs[1:]:
            result = t.emit(op, result, value)
        return result
    return fold


operator("Max")(_folded("maximum"))
operator("Min")(_folded("minimum"))
operator("Sum")(_folded("add"))


@operator("Mean")
def mean(t, *inputs):
    return _folded("add")(t, *inputs) / len(inputs)


@operator("IsInf")
def is_inf(t, x, *, detect_negative, detect_positive):
    signs = [sign for sign, wanted in ((-inf, detect_negative), (inf, detect_positive)) if wanted]
    if len(signs) == 1:
        return x.equal(signs[0])
    either = x.equal(inf), x.equal(-inf)
    return either[0] | either[1] if signs else either[0] & either[1]


@operator("Reciprocal")
def reciprocal(t, x):
    return 1 / x


@operator("Clip")
def clip(t, x, min=None, max=None):
    bounds = [min, max]
    for role, value in zip(("min", "max"), bounds, strict=True):
        if value is not None and value.size != 1:
            raise NodeRefused(f"its {role} must be one number, not {value.size}")
    if x.dtype == "float32" and all(value is None or value.constant for value in bounds):
        lo, hi = (end if value is None else float(value.array.reshape(()))
                  for value, end in zip(bounds, (-inf, inf), strict=True))
        return t.emit("clip", x, lo=lo, hi=hi)
    clipped = x if min is None else x.maximum(min.astype(x.dtype).reshape())
    return clipped if max is None else clipped.minimum(max.astype(x.dtype).reshape())


# Activations. No step on the way to a finite result overflows, but for the power in Sigmoid.

SATURATED = 10.0
"""From here on Gelu's tanh is 1 in every type."""


@operator("Relu")
def relu(t, x):
    return t.emit("relu", x) if x.dtype == "float32" else x.maximum(0)


@operator("LeakyRelu")
def leaky_relu(t, x, *, alpha):
    return t.emit("leakyrelu", x, alpha=alpha) if x.dtype == "float32" else (
        (x < 0).where(x * alpha, x))


@operator("PRelu", since=7)
def prelu(t, x, slope):
    return (x < 0).where(x * slope, x)


@operator("PRelu", since=1)
def prelu_of_channels(t, x, slope):
    """A slope for each channel, or one for all."""
    if slope.rank > 1:
        return prelu(t, x, slope)
    places = () if slope.size == 1 else (slope.size, *(1,) * (x.rank - 2))
    return prelu(t, x, slope.reshape(*places))


@operator("Sigmoid")
def sigmoid(t, x):
    """Where the power is infinite the result is 0, as it must be: -3e38 times it is not -2."""
    return in_single(x, lambda single: 1 / ((-single).exp() + 1))


@operator("HardSigmoid")
def hard_sigmoid(t, x, *, alpha, beta):
    return (x * alpha + beta).maximum(0).minimum(1)


@operator("HardSwish")
def hard_swish(t, x):
    return x * hard_sigmoid(t, x, alpha=1 / 6, beta=0.5)


@operator("Elu")
def elu(t, x, *, alpha):
    return (x < 0).where((x.minimum(0).exp() - 1) * alpha, x)


@operator("Selu")
def selu(t, x, *, alpha, gamma):
    return (x <= 0).where((x.minimum(0).exp() - 1) * alpha, x) * gamma


@operator("Celu")
def celu(t, x, *, alpha):
    return x.maximum(0) + ((x.minimum(0) / alpha).exp() - 1) * alpha


@operator("ThresholdedRelu")
def thresholded_relu(t, x, *, alpha):
    return (x > alpha).where(x, 0)


@operator("Softplus")
def softplus(t, x):
    return ((-x.abs()).exp() + 1).log() + x.maximum(0)


@operator("Softsign")
def softsign(t, x):
    return x / (x.abs() + 1)


@operator("Mish")
def mish(t, x):
    return x * softplus(t, x).tanh()


@operator("Swish")
def swish(t, x, *, alpha):
    return x * sigmoid(t, x * alpha)


@operator("Gelu")
def gelu(t, x, *, approximate):
    if approximate == "tanh":
        near = x.maximum(-SATURATED).minimum(SATURATED)
        inner = (near * near * near * 0.044715 + near) * float(np.sqrt(2 / np.pi))
        return x * 0.5 * (inner.tanh() + 1)
    return x * 0.5 * (t.emit("erf", x * float(np.sqrt(0.5))) + 1)


@operator("Shrink")
def shrink(t, x, *, bias, lambd):
    below = (x < -lambd).where(x + bias, 0)
    return (x > lambd).where(x - bias, below)
