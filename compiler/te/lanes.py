"""Sums in lanes: an order of terms that vectors follow as it is.

>>> from compiler import te
>>> x, k = te.placeholder((8, 100), "float32", name="x"), te.reduce_axis(100, name="k")
>>> y = te.compute((8,), lambda i: te.sum(x[i, k], axis=k, lanes=16), name="y")

`y` is computed from ``y_lanes`` [8,16], whose last axis is the lane.
"""

from dataclasses import dataclass
from math import prod

from .dtypes import INDEX
from .expr import Binary, Const, Expr, Extent, Reduce, Select, Var, as_expr, substitute
from .reducer import neutral

MOST = 64


@dataclass(frozen=True, slots=True)
class LaneSum:
    """The sum of `value` over `axes` as a number of partial sums.

    Terms are numbered from 0 in the order of the axes, the last one fastest. Lane `l` adds the
    terms `l`, ``l + lanes``, ``l + 2 * lanes``, ... one after the other; one without terms is the
    neutral value. Then the upper half of the lanes is added to the lower one, lane by lane, until
    one is left.
    """

    value: Expr
    axes: tuple[tuple[Var, Extent], ...]
    lanes: int

    def __post_init__(self):
        if not isinstance(self.lanes, int) or not 2 <= self.lanes <= MOST or (
                self.lanes & self.lanes - 1):
            raise ValueError(f"Lanes of sum must be a power of two from 2 to {MOST}, "
                             f"not {self.lanes!r}")

    def partial(self, lane: Var) -> Reduce:
        """The sum of a lane."""
        count = self._together()
        outer, inner = self.axes[:-count], self.axes[-count:]
        terms = prod(extent for _, extent in inner)
        turn = Var(f"{'_'.join(var.name for var, _ in inner)}_o")
        number = turn * self.lanes + lane
        value = substitute(self.value, _places(number, inner))
        if isinstance(terms, Expr) or terms % self.lanes:
            value = Select(Binary("lt", number, as_expr(terms, INDEX)), value,
                           neutral("sum", value.dtype))
        turns = (terms + (self.lanes - 1)) // self.lanes
        return Reduce("sum", value, (*outer, (turn, turns)))

    def _together(self) -> int:
        """The number of last axes that tell the lane of a term: all, if no fewer are whole
        turns."""
        for count in range(1, len(self.axes)):
            extents = [extent for _, extent in self.axes[-count:]]
            if not all(isinstance(extent, int) for extent in extents):
                break
            if prod(extents) % self.lanes == 0:
                return count
        for var, extent in self.axes[1:]:
            if isinstance(extent, Expr):
                raise ValueError(f"Extent of {var.name} must be a number, as it is of all axes but "
                                 f"the first of a sum in lanes")
        return len(self.axes)

    def total(self, parts: list[Expr]) -> Expr:
        """The sum of all lanes."""
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [low + high for low, high in zip(parts[:half], parts[half:], strict=True)]
        return parts[0]


def _places(number: Expr, axes: tuple[tuple[Var, Extent], ...]) -> dict[Var, Expr]:
    """The axes' indices in the term of a number, the last one fastest."""
    places: dict[Var, Expr] = {}
    for var, extent in reversed(axes[1:]):
        places[var], number = number % extent, number // Const(extent, INDEX)
    return {**places, axes[0][0]: number}
