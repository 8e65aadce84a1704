"""Reductions of one's own: how two partial results, of several values each, become one.

>>> from compiler import te
>>> def later_if_larger(l, r):
...     better = te.any_of(r[0] > l[0], te.all_of(r[0].equal(l[0]), r[1] < l[1]))
...     return te.select(better, r[0], l[0]), te.select(better, r[1], l[1])
>>> argmax = te.reducer("argmax", later_if_larger, identity=(
...     te.const(-128, "int8"), te.const(2**63 - 1, "int64")))
>>> argmax.dtypes
('int8', 'int64')
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .expr import Binary, Call, Const, Expr, Read, Var, as_expr, substitute, walk
from .dtypes import bits, is_float, is_signed


@dataclass(frozen=True, slots=True)
class Reducer:
    """``(a, b) -> combined`` on tuples of values: associative and commutative by declaration.

    Parameters
    ----------
    name : what programs call it.
    left, right : variables that stand for two partial results.
    combined : the values of both together, over `left` and `right` alone.
    identity : values that any partial result combined with stays as it is.
    """

    name: str
    left: tuple[Var, ...]
    right: tuple[Var, ...]
    combined: tuple[Expr, ...]
    identity: tuple[Const, ...]

    def __post_init__(self):
        counts = {len(part) for part in (self.left, self.right, self.combined, self.identity)}
        if len(counts) != 1 or not self.left:
            raise ValueError(f"Reducer {self.name} must combine as many values as it has "
                             f"identities, not {len(self.combined)} with {len(self.identity)}")
        for place, value in enumerate(self.combined):
            if value.dtype != self.identity[place].dtype:
                raise TypeError(f"Value {place} of reducer {self.name} must be "
                                f"{self.identity[place].dtype}, not {value.dtype}")
            for node in walk(value):
                if isinstance(node, Read) or (
                        isinstance(node, Var) and node not in (*self.left, *self.right)):
                    raise ValueError(f"Reducer {self.name} must use nothing but the two partial "
                                     f"results")

    @property
    def dtypes(self) -> tuple[str, ...]:
        return tuple(value.dtype for value in self.identity)

    @property
    def rounds(self) -> bool:
        """True if the result depends on the order of combination: floats that are calculated."""
        return any(is_float(node.dtype) and (isinstance(node, Call) or (
                       isinstance(node, Binary) and node.op not in ("min", "max")))
                   for value in self.combined for node in walk(value))

    def __call__(self, values: Sequence[Any], axis: Any) -> "Reduction":
        """The reduction of `values` over one reduction axis or several: the body of a `compute` of
        as many tensors. A Python number, or an axis for its index, adopts its type."""
        axes = axis if isinstance(axis, tuple) else (axis,)
        for reduced in axes:
            if reduced.kind != "reduce":
                raise ValueError(f"Axis of {self.name} must be a reduce_axis, not {reduced.name!r}")
        exprs = tuple(as_expr(value, dtype) for value, dtype in zip(values, self.dtypes))
        if len(values) != len(self.dtypes) or tuple(e.dtype for e in exprs) != self.dtypes:
            raise TypeError(f"Values of {self.name} must be {', '.join(self.dtypes)}, "
                            f"not {', '.join(expr.dtype for expr in exprs)}")
        return Reduction(self, exprs, tuple((reduced.var, reduced.extent) for reduced in axes))

    def combine(self, left: Sequence[Expr], right: Sequence[Expr]) -> tuple[Expr, ...]:
        """The combined values of two partial results, as expressions."""
        values = dict(zip((*self.left, *self.right), (*left, *right), strict=True))
        return tuple(substitute(value, values) for value in self.combined)


@dataclass(frozen=True, slots=True)
class Reduction:
    """Several values combined by a reducer over every value of the reduction indices `axes`."""

    reducer: Reducer
    values: tuple[Expr, ...]
    axes: tuple[tuple[Var, int], ...]


def neutral(op: str, dtype: str) -> Const:
    """The value that ``sum``, ``max`` or ``min`` with any other leaves the other, to the bit: -0.0
    for a sum of floats."""
    if dtype == "bool":
        return Const(op == "min", dtype)
    if is_float(dtype):
        return Const({"sum": -0.0, "max": -float("inf"), "min": float("inf")}[op], dtype)
    low = -(1 << (bits(dtype) - 1)) if is_signed(dtype) else 0
    return Const({"sum": 0, "max": low, "min": low + (1 << bits(dtype)) - 1}[op], dtype)


Values = tuple[Var, ...]


def reducer(name: str, combine: Callable[[Values, Values], Sequence[Expr]],
            identity: Sequence[Const]) -> Reducer:
    """A reducer from a function of two tuples of values; `identity` says their types."""
    left, right = (tuple(Var(f"{side}{place}", value.dtype) for place, value in enumerate(identity))
                   for side in ("l", "r"))
    return Reducer(name, left, right, tuple(combine(left, right)), tuple(identity))
