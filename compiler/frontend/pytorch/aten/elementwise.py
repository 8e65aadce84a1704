"""Functions of single elements."""

from math import inf, log, pi

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.operators import elementwise as onnx
from compiler.frontend.pytorch.aten.creation import filled
from compiler.frontend.pytorch.aten.registry import aten, in_kind, promoted
from compiler.te import is_float, numpy_dtype

# One operand

OF_FLOATS = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log",
             "sin", "sinh", "sqrt", "tan", "tanh")
OF_NUMBERS = ("abs", "neg", "sign")
ROUNDED = {"ceil": "ceil", "floor": "floor", "round.default": "rint"}


def _register(name: str, op: str, floats: bool) -> None:
    aten(name)(lambda t, x: t.emit(op, in_kind(x) if floats else x))


for _name in OF_FLOATS:
    _register(_name, _name, True)
for _name in OF_NUMBERS:
    _register(_name, _name, False)
for _name, _op in ROUNDED.items():
    aten(_name)(lambda t, x, op=_op: t.emit(op, x) if is_float(x.dtype) else x)

for _name, _rule in {
    "sgn": lambda x: x.tracer.emit("sign", x),
    "rsqrt": lambda x: 1 / in_kind(x).sqrt(), "reciprocal": lambda x: 1 / in_kind(x),
    "square": lambda x: x * x, "exp2": lambda x: (in_kind(x) * log(2)).exp(),
    "expm1": lambda x: in_kind(x).exp() - 1, "log2": lambda x: in_kind(x).log() / log(2),
    "log10": lambda x: in_kind(x).log() / log(10), "log1p": lambda x: (in_kind(x) + 1).log(),
    "erfc": lambda x: 1 - x.tracer.emit("erf", in_kind(x)),
    "deg2rad": lambda x: in_kind(x) * (pi / 180), "rad2deg": lambda x: in_kind(x) * (180 / pi),
    "logical_not": lambda x: ~x.astype("bool"), "bitwise_not": lambda x: ~x,
    "positive": lambda x: x,
    "isnan": lambda x: x.tracer.emit("is_nan", in_kind(x)),
    "isinf": lambda x: in_kind(x).abs().equal(inf),
    "isfinite": lambda x: in_kind(x).abs() < inf,
}.items():
    aten(_name)(lambda t, x, rule=_rule: rule(x))


@aten("trunc", "fix")
def trunc(t, x):
    if not is_float(x.dtype):
        return x
    return (x < 0).where(t.emit("ceil", x), t.emit("floor", x))


@aten("round.decimals")
def round_decimals(t, x, *, decimals):
    return t.emit("rint", x * 10.0 ** decimals) / 10.0 ** decimals


@aten("frac")
def frac(t, x):
    return x - trunc(t, x)


# Activations

for _name, _rule in {
    "relu": onnx.relu, "softsign": onnx.softsign, "mish": onnx.mish,
    "sigmoid": lambda t, x: onnx.sigmoid(t, in_kind(x)),
    "silu": lambda t, x: x * onnx.sigmoid(t, x),
    "hardsigmoid": lambda t, x: (x + 3).maximum(0).minimum(6) / 6,
    "hardswish": lambda t, x: x * (x + 3).maximum(0).minimum(6) / 6,
    "log_sigmoid": lambda t, x: -onnx.softplus(t, -x),
    "tanhshrink": lambda t, x: x - x.tanh(),
    "selu": lambda t, x: onnx.selu(t, x, alpha=1.6732632423543772, gamma=1.0507009873554805),
}.items():
    aten(_name)(_rule)


@aten("gelu")
def gelu(t, x, *, approximate="none"):
    return onnx.gelu(t, x, approximate=approximate)


@aten("elu")
def elu(t, x, alpha=1, scale=1, input_scale=1):
    below = ((x.minimum(0) * input_scale).exp() - 1) * (alpha * scale)
    return (x > 0).where(x if scale == 1 else x * scale, below)


@aten("celu")
def celu(t, x, alpha=1.0):
    return onnx.celu(t, x, alpha=alpha)


@aten("leaky_relu")
def leaky_relu(t, x, negative_slope=0.01):
    return onnx.leaky_relu(t, x, alpha=negative_slope)


@aten("rrelu")
def rrelu(t, x, lower=1 / 8, upper=1 / 3, training=False, generator=None):
    if training:
        raise NodeRefused("it draws slopes at random in training mode; call eval() before export")
    return leaky_relu(t, x, (lower + upper) / 2)


@aten("hardtanh")
def hardtanh(t, x, min_val=-1, max_val=1):
    return clamp(t, x, min_val, max_val)


@aten("relu6")
def relu6(t, x):
    return clamp(t, x, 0, 6)


@aten("softplus")
def softplus(t, x, beta=1, threshold=20):
    """Softplus, linear above the threshold."""
    scaled = x if beta == 1 else x * beta
    soft = onnx.softplus(t, scaled)
    return (scaled > threshold).where(x, soft if beta == 1 else soft / beta)


@aten("threshold")
def threshold(t, x, threshold, value):
    return (x <= threshold).where(value, x)


@aten("hardshrink")
def hardshrink(t, x, lambd=0.5):
    return (x.abs() <= lambd).where(0, x)


@aten("softshrink")
def softshrink(t, x, lambd=0.5):
    return onnx.shrink(t, x, bias=lambd, lambd=lambd)


@aten("prelu", "_prelu_kernel")
def prelu(t, x, weight):
    if weight.rank == 1 and x.rank > 1:
        weight = weight.reshape(*(weight.size if axis == 1 else 1 for axis in range(x.rank)))
    return onnx.prelu(t, x, weight)


@aten("glu")
def glu(t, x, dim=-1):
    axis, half = dim % x.rank, x.shape[dim] // 2
    return x.cut(axis, 0, half) * onnx.sigmoid(t, x.cut(axis, half, 2 * half))


# Two operands and more

def _alike(t, *operands, dtype: str | None = None) -> list[Value]:
    """Converts the operands to values of one type: the given one, or the promoted one."""
    common = dtype or promoted(*operands)
    first = next(operand for operand in operands if isinstance(operand, Value)).astype(common)
    return [operand.astype(common) if isinstance(operand, Value) else first.like(operand)
            for operand in operands]


def _floats(*operands) -> str:
    common = promoted(*operands)
    return common if is_float(common) else "float32"


def _binary(op: str):
    return lambda t, x, other: t.emit(op, *_alike(t, x, other))


for _name, _op in {
    "maximum": "maximum", "minimum": "minimum", "fmod": "fmod",
    "eq": "equal", "lt": "less", "le": "less_equal",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "__and__": "and",
    "__or__": "or", "__xor__": "xor", "bitwise_left_shift": "shl", "bitwise_right_shift": "shr",
    "__lshift__": "shl", "__rshift__": "shr",
}.items():
    aten(_name)(_binary(_op))
for _name, _op in {"fmax": "maximum", "fmin": "minimum"}.items():
    aten(_name)(lambda t, x, other, op=_op: _number_of(t, x, other, op))


def _number_of(t, x, other, op):
    """Gives the other operand where one is a NaN."""
    a, b = _alike(t, x, other)
    result = t.emit(op, a, b)
    if not is_float(a.dtype):
        return result
    result = t.emit("is_nan", a).where(b, result)
    return t.emit("is_nan", b).where(a, result)


@aten("mul", "multiply")
def mul(t, x, other):
    a, b = _alike(t, x, other)
    return a & b if a.dtype == "bool" else a * b


@aten("add")
def add(t, x, other, *, alpha=1):
    a, b = _alike(t, x, other)
    if a.dtype == "bool":
        return a | b
    return a + (b if alpha == 1 else b * alpha)


@aten("sub", "subtract")
def sub(t, x, other, *, alpha=1):
    a, b = _alike(t, x, other)
    return a - (b if alpha == 1 else b * alpha)


@aten("rsub")
def rsub(t, x, other, alpha=1):
    a, b = _alike(t, x, other)
    return b - (a if alpha == 1 else a * alpha)


@aten("div", "divide", "true_divide")
def div(t, x, other, *, rounding_mode=None):
    if rounding_mode is None:
        return t.emit("div", *_alike(t, x, other, dtype=_floats(x, other)))
    a, b = _alike(t, x, other)
    if is_float(a.dtype):
        return (trunc if rounding_mode == "trunc" else _floor)(t, a / b)
    quotient = a / b                            # integers: towards zero
    if rounding_mode == "trunc":
        return quotient
    rest = t.emit("fmod", a, b)
    apart = ((rest < 0).equal(b < 0)) | rest.equal(0)
    return apart.where(quotient, quotient - 1)


def _floor(t, x):
    return t.emit("floor", x)


@aten("floor_divide")
def floor_divide(t, x, other):
    return div(t, x, other, rounding_mode="floor")


@aten("remainder")
def remainder(t, x, other):
    """The remainder has the sign of the divisor."""
    a, b = _alike(t, x, other)
    if not is_float(a.dtype):
        return t.emit("mod", a, b)
    rest = t.emit("fmod", a, b)
    apart = rest.equal(0) | ((rest < 0).equal(b < 0))
    return apart.where(rest, rest + b)


@aten("pow")
def power(t, x, exponent):
    """Small constant powers are products."""
    if isinstance(exponent, int | float) and exponent in (1, 2, 3):
        product = base = x.astype(promoted(x, exponent))
        for _ in range(int(exponent) - 1):
            product = product * base
        return product
    if exponent == 0.5 and isinstance(exponent, float):
        return in_kind(x).sqrt()
    if exponent == -0.5 and isinstance(exponent, float):
        return 1 / in_kind(x).sqrt()
    a, b = _alike(t, x, exponent)
    return a ** b


for _name, _rule in {
    "ne": lambda a, b: ~a.equal(b), "gt": lambda a, b: b < a, "ge": lambda a, b: b <= a,
}.items():
    aten(_name)(lambda t, x, other, rule=_rule: rule(*_alike(t, x, other)))
for _name, _op in {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}.items():
    aten(_name)(lambda t, x, other, op=_op: t.emit(op, x.astype("bool"), other.astype("bool")))


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(t, condition, x, other):
    if not isinstance(x, Value) and not isinstance(other, Value):
        x = filled(t, (), x, promoted(x, other))
    return condition.astype("bool").where(*_alike(t, x, other))


@aten("masked_fill")
def masked_fill(t, x, mask, value):
    return mask.where(value.astype(x.dtype) if isinstance(value, Value) else value, x)


@aten("clamp", "clip")
def clamp(t, x, min=None, max=None):
    bounds = [bound for bound in (min, max) if bound is not None]
    if x.dtype == "float32" and not any(isinstance(bound, Value) for bound in bounds):
        if (min, max) == (0, None):
            return t.emit("relu", x)
        return t.emit("clip", x, lo=-inf if min is None else float(min),
                      hi=inf if max is None else float(max))
    values = _alike(t, x, *bounds)
    clamped, rest = values[0], iter(values[1:])
    clamped = clamped if min is None else clamped.maximum(next(rest))
    return clamped if max is None else clamped.minimum(next(rest))


@aten("clamp_min")
def clamp_min(t, x, min):
    return clamp(t, x, min, None)


@aten("clamp_max")
def clamp_max(t, x, max):
    return clamp(t, x, None, max)


@aten("lerp")
def lerp(t, x, end, weight):
    return x + (end - x) * weight


@aten("addcmul")
def addcmul(t, x, a, b, *, value=1):
    return add(t, x, mul(t, a, b), alpha=value)


@aten("addcdiv")
def addcdiv(t, x, a, b, *, value=1):
    return add(t, x, div(t, a, b), alpha=value)


@aten("nan_to_num")
def nan_to_num(t, x, nan=None, posinf=None, neginf=None):
    """Infinities become the greatest number unless told."""
    if not is_float(x.dtype):
        return x
    most = float(np.finfo(numpy_dtype(x.dtype)).max)
    posinf, neginf = (most if posinf is None else posinf), (-most if neginf is None else neginf)
    finite = t.emit("is_nan", x).where(nan or 0.0, x)
    return finite.equal(inf).where(posinf, finite.equal(-inf).where(neginf, finite))


