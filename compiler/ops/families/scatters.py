"""Elements to places that are computed.

x is [a,n,b], what goes into it [a,m,b], and the places along the middle axis [a,m,b] or [a,m,1].
Places below zero count from the end; what still lies outside goes nowhere.
"""

import numpy as np

from compiler import te
from compiler.ops.families.reductions import totals
from compiler.ops.records.operator import Attributes, Inputs, Operator
from compiler.ops.records.sums import kept, narrowed, sum_dtype
from compiler.te import Expr, Tensor

REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
TOTALS = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def _counted(place: Expr, extent: int) -> Expr:
    place = place.astype(te.INDEX)
    return te.select(place < 0, place + extent, place)


def _last_places(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    at, extent = inputs[0], attrs["extent"]
    outer, count, inner = _three(at, "places")
    over = te.reduce_axis(count, f"{name}_r")
    return te.compute((outer, extent, inner), lambda i, j, k: te.max(te.select(
        _counted(at[i, over.var, k], extent).equal(j), over.var, te.const(-1, te.INDEX)), over),
        name)


def _three(x: Tensor, role: str) -> tuple[int, ...]:
    if len(x.shape) != 3:
        raise ValueError(f"{role} must have 3 dimensions, not {len(x.shape)}")
    return tuple(map(int, x.shape))


def _last_places_meaning(attrs: Attributes, at: np.ndarray) -> np.ndarray:
    outer, count, inner = at.shape
    last = np.full((outer, attrs["extent"], inner), -1, np.int64)
    within, place = _within(at, attrs["extent"])
    for number in range(count):
        where = np.nonzero(within[:, number])
        last[where[0], place[:, number][where], where[1]] = number
    return last


def _within(at: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """Which places exist, and all of them counted from the front."""
    place = np.where(at < 0, at.astype(np.int64) + extent, at.astype(np.int64))
    return (place >= 0) & (place < extent), place


def _scatter_reduced(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, at, new = inputs
    _check(attrs, *inputs)
    wide, op = sum_dtype(x.dtype), attrs["reduction"]
    over = te.reduce_axis(at.shape[1], f"{name}_r")

    def gathered(i: Expr, j: Expr, k: Expr) -> Expr:
        place = at[i, over.var, k if at.shape[2] > 1 else te.const(0, te.INDEX)]
        return te.select(_counted(place, x.shape[1]).equal(j),
                         new[i, over.var, k].astype(wide), _neutral(op, wide))

    total = totals(TOTALS[op], x.shape, gathered, (over,), f"{name}_total")
    return narrowed(x.shape, lambda *indices: _joined(op, x[indices].astype(wide), total[indices]),
                    x.dtype, name)


def _check(attrs: Attributes, x: Tensor, at: Tensor, new: Tensor) -> None:
    (a, _, b), (_, m, inner) = _three(x, "x"), _three(at, "places")
    if attrs["reduction"] not in REDUCTIONS:
        raise ValueError(f"reduction must be {', '.join(REDUCTIONS)}, not {attrs['reduction']}")
    if x.dtype != new.dtype or x.dtype == "bool":
        raise TypeError(f"x and updates must be numbers of one type, not {x.dtype} and {new.dtype}")
    if at.shape[0] != a or inner not in (1, b) or tuple(new.shape) != (a, m, b):
        raise ValueError(f"places and updates must fit {x.shape}, not {at.shape} and {new.shape}")


def _neutral(op: str, dtype: str) -> Expr:
    return te.const(1, dtype) if op == "mul" else te.neutral(TOTALS[op], dtype)


def _joined(op: str, a: Expr, b: Expr) -> Expr:
    match op:
        case "add": return a + b
        case "mul": return a * b
        case "max": return te.maximum(a, b)
    return te.minimum(a, b)


def _scatter_reduced_meaning(attrs: Attributes, x: np.ndarray, at: np.ndarray, new: np.ndarray
                             ) -> np.ndarray:
    wide = x.dtype if x.dtype.kind in "iu" else np.dtype(np.float64)
    result = x.astype(wide)
    within, place = _within(np.broadcast_to(at, new.shape), x.shape[1])
    outer, number, inner = np.nonzero(within)
    where = outer, place[outer, number, inner], inner
    REDUCTIONS[attrs["reduction"]].at(result, where, new[outer, number, inner].astype(wide))
    return result


OPERATORS = (
    Operator(
        name="last_places", inputs="places [a,m,b]", attributes="extent",
        summary="the number of the last of m that names each place of an axis, -1 where none does",
        define=_last_places, meaning=_last_places_meaning),
    Operator(
        name="scatter_reduced", inputs="x [a,n,b], places [a,m,b or 1], updates [a,m,b]",
        attributes="reduction: add, mul, max or min",
        summary="x joined with the updates at their places along the axis",
        define=_scatter_reduced, meaning=kept(_scatter_reduced_meaning)),
)
