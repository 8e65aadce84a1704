"""Functions of single elements, for every element type that they make sense of; inputs broadcast.

Each is declared once: its expression for one element and its meaning in NumPy. Integer arithmetic
wraps, integer division truncates, min and max of floats are NaN where either is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compiler import te
from compiler.ops.nchw_elementwise import broadcast, broadcast_shape
from compiler.ops.operator import Attrs, Inputs, Operator, kept
from compiler.te import Call, Expr, Tensor

__all__ = ["ELEMENTWISE"]

NUMBERS = "number"
FLOATS = "float"
WHOLE = "integer"
LOGICAL = "integer or bool"
ANY = "any"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of elements of one type, `kind` of types that it takes."""

    arity: int
    element: Callable[..., Expr]
    meaning: Callable[..., np.ndarray]
    kind: str = NUMBERS

    def takes(self, dtype: str) -> bool:
        return {NUMBERS: te.is_float(dtype) or te.is_integer(dtype), FLOATS: te.is_float(dtype),
                WHOLE: te.is_integer(dtype), LOGICAL: te.is_integer(dtype) or dtype == "bool",
                ANY: True}[self.kind]


def _call(name: str) -> Callable[..., Expr]:
    return lambda *args: Call(name, args)


def _binary(name: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: te.Binary(name, a, b)


def _power(a: Expr, b: Expr) -> Expr:
    """Powers of integers by squaring; below zero they are those of 1 / a, rounded towards zero."""
    if te.is_float(a.dtype):
        return Call("pow", (a, b))
    result, square, one = te.const(1, a.dtype), a, te.const(1, a.dtype)
    for bit in range(te.bits(a.dtype).bit_length() - 1):
        odd = ((b >> bit) & 1).equal(1)
        result = te.select(odd, result * square, result)
        square = square * square
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
    return np.where(exponent < 0, below, base ** np.maximum(exponent, 0))


def _remainder(a: Expr, b: Expr) -> Expr:
    """With the sign of a, as C has it."""
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


def _shifted(function: Callable) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Shifts by the width or more leave nothing."""
    return lambda a, b: np.where(b < a.dtype.itemsize * 8, function(a, b), 0)


_ERF = np.frompyfunc(math.erf, 1, 1)

FUNCTIONS: dict[str, Function] = {
    "add": Function(2, _binary("add"), np.add),
    "sub": Function(2, _binary("sub"), np.subtract),
    "mul": Function(2, _binary("mul"), np.multiply),
    "div": Function(2, _binary("div"), _divided),
    "mod": Function(2, _binary("mod"), np.mod),
    "fmod": Function(2, _remainder, np.fmod),
    "minimum": Function(2, _binary("min"), np.minimum, ANY),
    "maximum": Function(2, _binary("max"), np.maximum, ANY),
    "pow": Function(2, _power, _power_meaning),
    "and": Function(2, _binary("and"), np.bitwise_and, LOGICAL),
    "or": Function(2, _binary("or"), np.bitwise_or, LOGICAL),
    "xor": Function(2, _binary("xor"), np.bitwise_xor, LOGICAL),
    "not": Function(1, _inverted, np.invert, LOGICAL),
    "shl": Function(2, _binary("shl"), _shifted(np.left_shift), WHOLE),
    "shr": Function(2, _binary("shr"), _shifted(np.right_shift), WHOLE),
    "equal": Function(2, _binary("eq"), np.equal, ANY),
    "less": Function(2, _binary("lt"), np.less),
    "less_equal": Function(2, _binary("le"), np.less_equal),
    "neg": Function(1, lambda x: x * -1 if te.is_float(x.dtype) else 0 - x, np.negative),
    "sign": Function(1, _sign, np.sign),
    "abs": Function(1, _call("abs"), np.abs),
    "is_nan": Function(1, lambda x: x.not_equal(x), np.isnan, FLOATS),
    "erf": Function(1, _call("erf"), lambda x: np.asarray(_ERF(x), x.dtype), FLOATS),
} | {name: Function(1, _call(name), meaning, FLOATS) for name, meaning in {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "floor": np.floor,
    "ceil": np.ceil, "rint": np.rint, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh}.items()}


def _define(op: str, function: Function) -> Callable[[Attrs, Inputs, str], Tensor]:
    def define(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
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


def _where(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    if [len(inputs), inputs[0].dtype, inputs[1].dtype] != [3, "bool", inputs[-1].dtype]:
        raise ValueError("where must have a bool and two inputs of one type, not "
                         + ", ".join(x.dtype for x in inputs))
    return _mapped("where", te.select, inputs, name)


def _cast(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    return _mapped("cast", lambda x: x.astype(attrs["to"]), inputs, name)


ELEMENTWISE: dict[str, Operator] = {
    name: Operator(_define(name, function), kept(
        lambda attrs, *arrays, meaning=function.meaning: meaning(*arrays)))
    for name, function in FUNCTIONS.items()
} | {
    "where": Operator(_where, lambda attrs, condition, a, b: np.where(condition, a, b)),
    "cast": Operator(_cast, lambda attrs, x: x.astype(te.numpy_dtype(attrs["to"]))),
}
