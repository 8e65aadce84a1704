"""The first elements of rows in order, as a unit that sorts gives them."""

import numpy as np

from compiler import te
from compiler.ops.families.reductions import MOST_PLACES, places_in_order, sorted_places
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Array, Attributes, Inputs, Numbers, Operator
from compiler.ops.records.rules import Types, need, need_arity
from compiler.te import Expr, Tensor

NUMBERS, LOW, HIGH = range(3)
"""The parts of `qorder`: the elements themselves, and the bytes of their places."""


def _order(attrs: Attributes, axis: int) -> dict[str, int]:
    return {"axis": axis, "count": attrs["count"], "largest": attrs["largest"]}


def _qorder(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """A part of the first elements in order along the last axis; 0 behind them."""
    (x,), count, part = inputs, attrs["count"], attrs["part"]
    last = len(x.shape) - 1
    order = sorted_places(_order(attrs, last), inputs, f"{name}_order")

    def element(*indices: Expr) -> Expr:
        *outer, at = indices
        place = order[(*outer, te.minimum(at, count - 1))]
        number = (x[(*outer, te.clamp(place.astype(te.INDEX), 0, x.shape[last] - 1))]
                  if part == NUMBERS else (place >> 8 * (part - LOW)).astype("int8"))
        return te.select(at < count, number, 0)

    return te.compute(x.shape, element, name)


def _qorder_meaning(attrs: Attributes, x: Array) -> Array:
    order, part = places_in_order(_order(attrs, x.ndim - 1), x), attrs["part"]
    result = np.zeros_like(x)
    result[..., :attrs["count"]] = (np.take_along_axis(x, order, -1) if part == NUMBERS else
                                    (order >> 8 * (part - LOW)).astype(np.int8))
    return result


def _qorder_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    x, = types
    rank = len(x.shape)
    need(x.dtype == "int8" and rank >= 1, node,
         f"input {node.inputs[0]!r} must be int8 of rows, not {x}")
    need(x.shape[-1] <= MOST_PLACES, node,
         f"a row must have at most {MOST_PLACES:,} elements, not {x.shape[-1]:,}")
    need(1 <= node.attrs["count"] <= x.shape[-1], node,
         f"count must be 1 to {x.shape[-1]}, not {node.attrs['count']!r}")
    need(node.attrs["part"] in (NUMBERS, LOW, HIGH), node,
         f"part must be 0, 1 or 2, not {node.attrs['part']!r}")
    return x


OPERATORS = (
    Operator(
        name="qorder", summary="the first elements of rows of int8 in order, the greatest first if "
        "largest is 1, of equals the first, and 0 behind them: the elements (part 0), or the low "
        "(1) or high (2) byte of their places", inputs="x", attributes="count, largest, part",
        define=_qorder, meaning=_qorder_meaning, type=_qorder_type, numbers=Numbers.INTEGER,
        by_rows=True),
)
