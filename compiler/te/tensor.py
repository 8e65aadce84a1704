"""Tensors: what is computed. `placeholder` names an input, `compute` defines every element.

>>> from compiler import te
>>> x = te.placeholder((4, 8), "int8", name="x")
>>> k = te.reduce_axis(8, name="k")
>>> y = te.compute((4,), lambda i: te.sum(x[i, k].astype("int32"), axis=k), name="y")
>>> y.shape, y.dtype
((4,), 'int32')
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from .dtypes import INDEX
from .expr import Buffer, Call, Const, Expr, Binary, Read, Reduce, Select, Var, as_expr, walk

__all__ = ["Axis", "Tensor", "abs", "all_of", "any_of", "cast", "clamp", "compute", "const", "exp",
           "max", "maximum", "min", "minimum", "placeholder", "reduce_axis", "rint", "rshift_rne",
           "select", "sqrt", "sum", "tanh"]


@dataclass(frozen=True, slots=True)
class Axis:
    """An index with its extent; `kind` is ``space`` or ``reduce``."""

    var: Var
    extent: int
    kind: str = "space"

    @property
    def name(self) -> str:
        return self.var.name

    def __add__(self, other): return self.var + as_expr(other, INDEX)
    def __radd__(self, other): return as_expr(other, INDEX) + self.var
    def __mul__(self, other): return self.var * as_expr(other, INDEX)
    def __rmul__(self, other): return self.var * as_expr(other, INDEX)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A buffer and, unless it is a placeholder, the expression of each element over `axes`."""

    buffer: Buffer
    axes: tuple[Axis, ...] = ()
    body: Expr | None = None

    @property
    def name(self) -> str: return self.buffer.name
    @property
    def shape(self) -> tuple[int, ...]: return self.buffer.shape
    @property
    def dtype(self) -> str: return self.buffer.dtype

    def __getitem__(self, indices) -> Read:
        return self.buffer[indices]

    @property
    def reduce_axes(self) -> tuple[Axis, ...]:
        if not isinstance(self.body, Reduce):
            return ()
        return tuple(Axis(var, extent, "reduce") for var, extent in self.body.axes)


def placeholder(shape: tuple[int, ...], dtype: str, name: str, scope: str = "global") -> Tensor:
    """An input of the computation."""
    return Tensor(Buffer(name, tuple(shape), dtype, scope))


def reduce_axis(extent: int, name: str) -> Axis:
    """An index to reduce over, for `sum`, `max` and `min`."""
    if not isinstance(extent, int) or extent <= 0:
        raise ValueError(f"Extent of {name} must be a positive integer, not {extent!r}")
    return Axis(Var(name), extent, "reduce")


def compute(shape: tuple[int, ...], fn: Callable[..., Expr], name: str) -> Tensor:
    """Define ``name[i, j, ...] = fn(i, j, ...)``; the axes take the parameter names of `fn`.

    A function of ``*indices`` serves any number of dimensions; its axes are called i0, i1, ...

    A reduction must be the outermost operation of the body: put what follows it into a compute
    of its own, and inline that if you like.
    """
    parameters = inspect.signature(fn).parameters.values()
    names = [p.name for p in parameters]
    if [p.kind for p in parameters] == [inspect.Parameter.VAR_POSITIONAL]:
        names = [f"i{dimension}" for dimension in range(len(shape))]
    if len(names) != len(shape):
        raise ValueError(f"Body of {name} must take {len(shape)} indices, not {len(names)}")
    axes = tuple(Axis(Var(f"{name}_{n}"), extent)
                 for n, extent in zip(names, shape, strict=True))
    body = fn(*(axis.var for axis in axes))
    inner = body.value if isinstance(body, Reduce) else body
    if any(isinstance(node, Reduce) for node in walk(inner)):
        raise ValueError(f"Reduction in {name} must be the outermost operation of its body")
    buffer = Buffer(name, tuple(shape), body.dtype, definition=(axes, body))
    return Tensor(buffer, axes, body)


def _reducer(op: str):
    def reduce(value: Expr, axis: Axis | tuple[Axis, ...]) -> Reduce:
        axes = axis if isinstance(axis, tuple) else (axis,)
        for one in axes:
            if one.kind != "reduce":
                raise ValueError(f"Axis of {op} must be a reduce_axis, not {one.name!r}")
        return Reduce(op, value, tuple((one.var, one.extent) for one in axes))
    reduce.__name__, reduce.__doc__ = op, f"{op.capitalize()} of `value` over `axis`."
    return reduce


sum = _reducer("sum")               # noqa: A001 - the field's own name, always used as te.sum
max = _reducer("max")               # noqa: A001
min = _reducer("min")               # noqa: A001


def const(value, dtype: str) -> Const:
    expr = as_expr(value, dtype)
    assert isinstance(expr, Const)
    return expr


def cast(value: Expr, dtype: str) -> Expr:
    return value.astype(dtype)


def select(condition: Expr, a, b) -> Select:
    """`a` where `condition` holds, else `b`; Python numbers adopt the other side's type."""
    a = a if isinstance(a, Expr) else as_expr(a, b.dtype)
    return Select(condition, a, as_expr(b, a.dtype))


def all_of(*conditions: Expr) -> Expr:
    """Conjunction of conditions."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = Binary("and", result, condition)
    return result


def any_of(*conditions: Expr) -> Expr:
    """Disjunction of conditions."""
    result = conditions[0]
    for condition in conditions[1:]:
        result = Binary("or", result, condition)
    return result


def maximum(a: Expr, b) -> Expr:
    return Binary("max", a, as_expr(b, a.dtype))


def minimum(a: Expr, b) -> Expr:
    return Binary("min", a, as_expr(b, a.dtype))


def clamp(value: Expr, low, high) -> Expr:
    """``min(max(value, low), high)``."""
    return minimum(maximum(value, low), high)


def rshift_rne(value: Expr, amount) -> Expr:
    """``value / 2**amount``, rounded half to even, once; `amount` from 0 to 62."""
    return Binary("rshift_rne", value, as_expr(amount, value.dtype))


def abs(value: Expr) -> Call: return Call("abs", (value,))         # noqa: A001
def exp(value: Expr) -> Call: return Call("exp", (value,))
def rint(value: Expr) -> Call: return Call("rint", (value,))
def sqrt(value: Expr) -> Call: return Call("sqrt", (value,))
def tanh(value: Expr) -> Call: return Call("tanh", (value,))
