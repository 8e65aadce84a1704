"""Functions of single elements, for every element type that they make sense of; inputs broadcast.

Each is declared once: its expression for one element and its meaning in NumPy. Integer arithmetic
wraps, integer division truncates, min and max of floats are NaN where either is.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler import te
from compiler.ops.families.products import integer_product
from compiler.ops.integers.fixed_point import add_multipliers, limits_of
from compiler.ops.records.broadcasting import broadcast, broadcast_shape
from compiler.ops.records.integer_forms import (Bounds, IntegerNode, QuantizedInputs, StaysFloat,
                                                Stored, clamp_to)
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Algebra, Attributes, Define, Inputs, Kind, Operator
from compiler.ops.records.rules import Types
from compiler.ops.records.sums import kept
from compiler.te import Call, Expr, Tensor

NUMBERS = "number"
FLOATS = "float"
WHOLE = "integer"
LOGICAL = "integer or bool"
ANY = "any"

MOST_OFF = {"int8": 1, "int16": 4}
"""Steps of its result that the multipliers of a sum may make it wrong."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of elements of one type, `kind` of types that it takes."""

    arity: int
    summary: str
    element: Callable[..., Expr]
    meaning: Callable[..., np.ndarray]
    kind: str = NUMBERS
    algebra: Algebra = Algebra()

    def takes(self, dtype: str) -> bool:
        return {NUMBERS: te.is_float(dtype) or te.is_integer(dtype), FLOATS: te.is_float(dtype),
                WHOLE: te.is_integer(dtype), LOGICAL: te.is_integer(dtype) or dtype == "bool",
                ANY: True}[self.kind]


def _call(name: str) -> Callable[..., Expr]:
    return lambda *args: Call(name, args)


def _binary(name: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: te.Binary(name, a, b)


def _power(a: Expr, b: Expr) -> Expr:
    """Powers of integers by squaring; negative ones are powers of 1 / a, rounded towards zero. From
    as many factors as the type has bits on, those of even numbers are 0, and those of odd ones but
    1 and -1 do not fit the type: what is then computed has no meaning.
    """
    if te.is_float(a.dtype):
        return Call("pow", (a, b))
    result, square, one = te.const(1, a.dtype), a, te.const(1, a.dtype)
    for bit in range(te.bits(a.dtype).bit_length() - 1):
        odd = ((b >> bit) & 1).equal(1)
        result = te.select(odd, result * square, result)
        square = square * square
    large = te.all_of(b >= te.bits(a.dtype), (a & 1).equal(0))
    result = te.select(large, te.const(0, a.dtype), result)
    if not te.is_signed(a.dtype):
        return result
    flips = te.select((b & 1).equal(1), a, one)
    below = te.select(te.any_of(a.equal(1), a.equal(-1)), flips, te.const(0, a.dtype))
    return te.select(b < 0, below, result)


def _power_meaning(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind not in "iu":
        return np.power(a, b)
    base, exponent = np.broadcast_arrays(a, b)
    below = np.where(np.abs(base) == 1, base ** (exponent & 1), 0)
    bits = 8 * base.dtype.itemsize
    above = np.where((exponent >= bits) & (base & 1 == 0), 0, base ** (exponent & bits - 1))
    return np.where(exponent < 0, below, above).astype(base.dtype)


def _remainder(a: Expr, b: Expr) -> Expr:
    """The remainder of a division, with the sign of `a`, as C has it."""
    if not te.is_signed(a.dtype):
        return a % b
    rest = te.abs(a) % te.abs(b)
    return te.select(a < 0, te.const(0, a.dtype) - rest, rest)


def _sign(x: Expr) -> Expr:
    if not te.is_signed(x.dtype):
        return te.select(x > 0, te.const(1, x.dtype), 0)
    return te.select(x > 0, te.const(1, x.dtype), te.select(x < 0, te.const(-1, x.dtype), x))


def _divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind not in "iu":
        return a / b
    rest = np.fmod(a, np.where(b == 0, 1, b)).astype(a.dtype)
    return (a - rest) // np.where(b == 0, 1, b)


def _inverted(x: Expr) -> Expr:
    if x.dtype == "bool" or not te.is_signed(x.dtype):
        return x ^ (True if x.dtype == "bool" else (1 << te.bits(x.dtype)) - 1)
    return x ^ -1


def _shape_hindrance(attrs: Attributes, shapes: Sequence[tuple[int, ...]]) -> str | None:
    first, second = shapes
    return None if first == second else f"its inputs must have one shape, not {first} and {second}"


def _add_integer(view: QuantizedInputs, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    """The sum of two tensors, or of a product's result and its bias."""
    for value, other in (node.inputs, reversed(node.inputs)):
        core = view.producer(value)
        if core is not None and core.op == "matmul" and view.is_constant(other):
            if view.is_computed(core.inputs[1]):
                raise StaysFloat("it adds a constant to a product of two computed tensors")
            return integer_product(view, core, out, bounds, transposed=True, bias=(other,))
    result = view.shape(node.outputs[0])
    shapes = [result if view.is_constant(value) else view.shape(value) for value in node.inputs]
    a, b = (_addend(view, value, result) for value in node.inputs)
    if hindrance := _shape_hindrance(node.attrs, shapes):
        raise StaysFloat(hindrance)
    ma, mb, shift = add_multipliers(a.scale / out.scale, b.scale / out.scale)
    _require_near(a, ma, b, mb, shift, out)
    clamp = clamp_to(out, bounds)
    c, whole = _of_32_bits(-(a.zp * ma + b.zp * mb), shift)
    return IntegerNode("qadd", (a.value, b.value), {
        "ma": ma, "mb": mb, "c": c, "shift": shift, **clamp, "zp": clamp["zp"] + whole})


def _require_near(a: Stored, ma: int, b: Stored, mb: int, shift: int, out: Stored) -> None:
    """StaysFloat where multipliers of 16 bits may make a sum more than `MOST_OFF` steps wrong."""
    off = sum(abs(math.ldexp(mult, -shift) - x.scale / out.scale)
              * max(abs(end - x.zp) for end in limits_of(x.dtype))
              for x, mult in ((a, ma), (b, mb)))
    most = MOST_OFF[out.dtype]
    if off > most:
        raise StaysFloat(f"multipliers of 16 bits for its scales, {a.scale / out.scale:.4g} and "
                         f"{b.scale / out.scale:.4g} steps of the result, could be {off:.3g} "
                         f"steps off, more than {most}")


def _of_32_bits(c: int, shift: int) -> tuple[int, int]:
    """A number as one of 32 bits, and an even number of steps ``2**shift``, which rounding half to
    even lets pass: zero points of 16 bits may add up to more."""
    beyond, pair = c - min(max(c, -2**31), 2**31 - 1), 2 << shift
    pairs = -(-beyond // pair) if beyond > 0 else beyond // pair
    return c - pairs * pair, 2 * pairs


def _addend(view: QuantizedInputs, value: str, shape: tuple[int, ...]) -> Stored:
    if view.is_constant(value) and _constant_hindrance(view.shape(value)):
        return view.activation(value)
    return view.operand(value, shape)


def _constant_hindrance(shape: tuple[int, ...]) -> str | None:
    """A number, or one for each channel, is no tensor: tables and convolutions add it."""
    several = sum(extent > 1 for extent in shape) > 1
    return None if several else "one of its inputs is a constant"


_ERF = np.frompyfunc(math.erf, 1, 1)
_ROUNDS = Algebra(idempotent=True)

FUNCTIONS: dict[str, Function] = {
    "add": Function(2, "a + b", _binary("add"), np.add,
                    algebra=Algebra(neutral=0, commutes=True)),
    "sub": Function(2, "a - b", _binary("sub"), np.subtract, algebra=Algebra(neutral=0)),
    "mul": Function(2, "a * b", _binary("mul"), np.multiply,
                    algebra=Algebra(neutral=1, commutes=True)),
    "div": Function(2, "a / b", _binary("div"), _divided, algebra=Algebra(neutral=1)),
    "mod": Function(2, "the rest of a / b, with the sign of b", _binary("mod"), np.mod),
    "fmod": Function(2, "the rest of a / b, with the sign of a", _remainder, np.fmod),
    "minimum": Function(2, "the smaller one", _binary("min"), np.minimum, ANY,
                        Algebra(idempotent=True)),
    "maximum": Function(2, "the greater one", _binary("max"), np.maximum, ANY,
                        Algebra(idempotent=True)),
    "pow": Function(2, "a to the power of b", _power, _power_meaning, algebra=Algebra(neutral=1)),
    "and": Function(2, "bit by bit", _binary("and"), np.bitwise_and, LOGICAL,
                    Algebra(neutral=-1, commutes=True, idempotent=True)),
    "or": Function(2, "bit by bit", _binary("or"), np.bitwise_or, LOGICAL,
                   Algebra(neutral=0, commutes=True, idempotent=True)),
    "xor": Function(2, "bit by bit", _binary("xor"), np.bitwise_xor, LOGICAL,
                    Algebra(neutral=0, commutes=True)),
    "not": Function(1, "bit by bit", _inverted, np.invert, LOGICAL, Algebra(inverse="not")),
    "shl": Function(2, "a * 2**b; shifts by the width or more leave nothing", _binary("shl"),
                    np.left_shift, WHOLE, Algebra(neutral=0)),
    "shr": Function(2, "a / 2**b, rounded down, by any b from 0 on",
                    _binary("shr"), np.right_shift, WHOLE, Algebra(neutral=0)),
    "equal": Function(2, "whether a = b", _binary("eq"), np.equal, ANY),
    "less": Function(2, "whether a < b", _binary("lt"), np.less),
    "less_equal": Function(2, "whether a <= b", _binary("le"), np.less_equal),
    "neg": Function(1, "-x", lambda x: x * -1 if te.is_float(x.dtype) else 0 - x, np.negative,
                    algebra=Algebra(inverse="neg")),
    "sign": Function(1, "-1, 0 or 1", _sign, np.sign, algebra=_ROUNDS),
    "abs": Function(1, "without its sign", _call("abs"), np.abs,
                    algebra=Algebra(idempotent=True, absorbs="neg", never_minus_zero=True)),
    "is_nan": Function(1, "whether x is no number", lambda x: x.not_equal(x), np.isnan, FLOATS),
    "erf": Function(1, "the error function", _call("erf"),
                    lambda x: np.asarray(_ERF(x), x.dtype), FLOATS),
    "exp": Function(1, "e to the power of x", _call("exp"), np.exp, FLOATS,
                    Algebra(never_minus_zero=True)),
    "floor": Function(1, "rounded down", _call("floor"), np.floor, FLOATS, _ROUNDS),
    "ceil": Function(1, "rounded up", _call("ceil"), np.ceil, FLOATS, _ROUNDS),
    "rint": Function(1, "rounded half to even", _call("rint"), np.rint, FLOATS, _ROUNDS),
} | {name: Function(1, f"{function} of x", _call(name), meaning, FLOATS)
     for name, function, meaning in (
         ("log", "natural logarithm", np.log), ("sqrt", "square root", np.sqrt),
         ("sin", "sine", np.sin), ("cos", "cosine", np.cos), ("tan", "tangent", np.tan),
         ("asin", "inverse sine", np.arcsin), ("acos", "inverse cosine", np.arccos),
         ("atan", "inverse tangent", np.arctan), ("sinh", "hyperbolic sine", np.sinh),
         ("cosh", "hyperbolic cosine", np.cosh), ("tanh", "hyperbolic tangent", np.tanh),
         ("asinh", "inverse hyperbolic sine", np.arcsinh),
         ("acosh", "inverse hyperbolic cosine", np.arccosh),
         ("atanh", "inverse hyperbolic tangent", np.arctanh))}


def _define(op: str, function: Function) -> Callable[[Attributes, Inputs, str], Tensor]:
    def define(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
        if len(inputs) != function.arity:
            raise ValueError(f"{op} must have {function.arity} inputs, not {len(inputs)}")
        dtypes = list(dict.fromkeys(x.dtype for x in inputs))
        if len(dtypes) > 1:
            raise ValueError(f"inputs of {op} must have one type, not {' and '.join(dtypes)}")
        if not function.takes(dtypes[0]):
            raise ValueError(f"inputs of {op} must be of {function.kind} type, not {dtypes[0]}")
        return _mapped(op, function.element, inputs, name)
    return define


def _mapped(op: str, element: Callable[..., Expr], inputs: Inputs, name: str) -> Tensor:
    """`element` of the elements that stand at the same place."""
    try:
        shape = broadcast_shape(*(x.shape for x in inputs))
    except ValueError:
        listed = " and ".join(f"{x.dtype}[{','.join(map(str, x.shape))}]" for x in inputs)
        raise ValueError(f"{op} inputs must broadcast, not {listed}") from None
    return te.compute(shape, lambda *indices: element(*(broadcast(x, indices) for x in inputs)),
                      name)


def unary(element: Callable[[Attributes, Expr], Expr]) -> Define:
    """The expression that applies `element` to every element of one input."""
    def define(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
        x = inputs[0]
        return te.compute(x.shape, lambda *indices: element(attrs, x[indices]), name)
    return define


def _where(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    if [len(inputs), inputs[0].dtype, inputs[1].dtype] != [3, "bool", inputs[-1].dtype]:
        raise ValueError("where must have a bool and two inputs of one type, not "
                         + ", ".join(x.dtype for x in inputs))
    return _mapped("where", te.select, inputs, name)


def _cast(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    return _mapped("cast", lambda x: x.astype(attrs["to"]), inputs, name)


def _keeps_type(attrs: Attributes, types: Types, result: TensorType) -> bool:
    return types[0] == result


def _record(name: str, function: Function) -> Operator:
    return Operator(
        name=name, summary=function.summary, inputs="x" if function.arity == 1 else "a, b",
        define=_define(name, function),
        meaning=kept(lambda attrs, *arrays: function.meaning(*arrays)), kind=Kind.ELEMENTWISE,
        algebra=function.algebra)


OPERATORS = (
    replace(_record("add", FUNCTIONS["add"]), integer=_add_integer, hindrance=_shape_hindrance,
            constants=_constant_hindrance),
    *(_record(name, function) for name, function in FUNCTIONS.items() if name != "add"),
    Operator(
        name="where", summary="a where the condition holds, else b", inputs="condition, a, b",
        define=_where, meaning=lambda attrs, condition, a, b: np.where(condition, a, b),
        kind=Kind.ELEMENTWISE, algebra=Algebra(idempotent=True)),
    Operator(
        name="cast", summary="x in another element type", inputs="x", attributes="to",
        define=_cast, meaning=lambda attrs, x: x.astype(te.numpy_dtype(attrs["to"])),
        kind=Kind.ELEMENTWISE, algebra=Algebra(unchanged=_keeps_type)),
)
