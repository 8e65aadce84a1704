"""Elements from places that are computed.

Indices below zero count from the end; what still lies outside stands for the nearest element.
"""

from math import prod

import numpy as np

from compiler import te
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Attributes, Inputs, Numbers, Operator
from compiler.ops.records.rules import Types, need, need_arity
from compiler.ops.records.sums import kept, sum_dtype
from compiler.te import Expr, Tensor

NUMBER_BYTES = 2
"""Bytes in which a number of a row is handed to `qgather`, the low one first."""

MOST_ROWS = 1 << 8 * NUMBER_BYTES
"""Rows of a table that such numbers name."""


def _within(index: Expr, extent: int) -> Expr:
    """A place from 0 to extent - 1, whatever the data."""
    index = index.astype(te.INDEX)
    return te.clamp(te.select(index < 0, index + extent, index), 0, extent - 1)


def _placed(indices: np.ndarray, extent: int) -> np.ndarray:
    indices = indices.astype(np.int64)
    return np.where(indices < 0, indices + extent, indices).clip(0, max(extent - 1, 0))


def _gather(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The slices of x along the axis with these numbers."""
    x, at = inputs
    axis, rank = _axis(attrs, x), len(at.shape)
    shape = (*x.shape[:axis], *at.shape, *x.shape[axis + 1:])
    return te.compute(shape, lambda *indices: x[(
        *indices[:axis], _within(at[indices[axis:axis + rank]], x.shape[axis]),
        *indices[axis + rank:])], name)


def _axis(attrs: Attributes, x: Tensor) -> int:
    if not 0 <= attrs["axis"] < len(x.shape):
        raise ValueError(f"axis must be 0 to {len(x.shape) - 1}, not {attrs['axis']}")
    return attrs["axis"]


def _gather_elements(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """Takes each element from its own place, except for its number along the axis."""
    x, at = inputs
    axis = _axis(attrs, x)
    return te.compute(at.shape, lambda *indices: x[(
        *indices[:axis], _within(at[indices], x.shape[axis]), *indices[axis + 1:])], name)


def _gather_elements_meaning(attrs: Attributes, x: np.ndarray, at: np.ndarray) -> np.ndarray:
    seen = x[tuple(slice(n) if axis != attrs["axis"] else slice(None)
                   for axis, n in enumerate(at.shape))]
    return np.take_along_axis(seen, _placed(at, x.shape[attrs["axis"]]), attrs["axis"])


def _gather_nd(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The slices of x whose first indices stand in the last dimension of the second input."""
    (x, at), batch = inputs, attrs["batch_dims"]
    depth, outer = int(at.shape[-1]), len(at.shape) - 1
    if batch + depth > len(x.shape) or at.shape[:batch] != x.shape[:batch]:
        raise ValueError(f"indices must lead into {x.shape} after {batch} dimensions, "
                         f"not {at.shape}")

    def element(*indices: Expr) -> Expr:
        places = [_within(at[(*indices[:outer], te.const(k, te.INDEX))], x.shape[batch + k])
                  for k in range(depth)]
        return x[(*indices[:batch], *places, *indices[outer:])]

    return te.compute((*at.shape[:-1], *x.shape[batch + depth:]), element, name)


def _gather_nd_meaning(attrs: Attributes, x: np.ndarray, at: np.ndarray) -> np.ndarray:
    batch, depth = attrs["batch_dims"], at.shape[-1]
    count = prod(x.shape[:batch])
    flat = x.reshape(count, *x.shape[batch:])
    places = at.reshape(count, -1, depth)
    where = tuple(_placed(places[..., k], flat.shape[1 + k]) for k in range(depth))
    gathered = flat[(np.arange(count)[:, None], *where)]
    return gathered.reshape(*at.shape[:-1], *x.shape[batch + depth:])


def _resample(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, places, weights = inputs
    axis, wide = _axis(attrs, x), sum_dtype(inputs[0].dtype)
    tap = te.reduce_axis(places.shape[1], f"{name}_tap")
    shape = (*x.shape[:axis], places.shape[0], *x.shape[axis + 1:])

    def element(*indices: Expr):
        at = indices[axis], tap.var
        inner = (*indices[:axis], _within(places[at], x.shape[axis]), *indices[axis + 1:])
        return te.sum(x[inner].astype(wide) * weights[at].astype(wide), tap)

    if wide == x.dtype:
        return te.compute(shape, element, name)
    acc = te.compute(shape, element, f"{name}_acc")
    return te.compute(shape, lambda *indices: acc[indices].astype(x.dtype), name)


def _resample_meaning(attrs: Attributes, x: np.ndarray, places: np.ndarray,
                      weights: np.ndarray) -> np.ndarray:
    last = np.moveaxis(x, attrs["axis"], -1).astype(np.float64)
    interpolated = (last[..., _placed(places, last.shape[-1])] * weights.astype(np.float64)).sum(-1)
    return np.moveaxis(interpolated, -1, attrs["axis"])


def _numbers_in_bytes(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The numbers of rows of a table of so many, as places are counted, in bytes."""
    at, rows = inputs[0], _table_rows(attrs)

    def byte(*indices: Expr) -> Expr:
        number = _within(at[indices[:-1]], rows).astype("int32")
        return (number >> (indices[-1].astype("int32") * 8)).astype("int8")

    return te.compute((*at.shape, NUMBER_BYTES), byte, name)


def _table_rows(attrs: Attributes) -> int:
    if not 1 <= attrs["rows"] <= MOST_ROWS:
        raise ValueError(f"rows must be 1 to {MOST_ROWS:,}, not {attrs['rows']}")
    return attrs["rows"]


def _numbers_in_bytes_meaning(attrs: Attributes, at: np.ndarray) -> np.ndarray:
    numbers = _placed(at, attrs["rows"])[..., None] >> 8 * np.arange(NUMBER_BYTES)
    return numbers.astype(np.uint8).view(np.int8)


def _qgather(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The row of a table for the number that each row of the first input is."""
    at, table = inputs

    def element(*indices: Expr) -> Expr:
        parts = [(at[(*indices[:-1], te.const(k, te.INDEX))].astype("int32") & 255) << 8 * k
                 for k in range(NUMBER_BYTES)]
        return table[_within(parts[0] + parts[1], table.shape[0]), indices[-1]]

    return te.compute((*at.shape[:-1], table.shape[1]), element, name)


def _qgather_meaning(attrs: Attributes, at: np.ndarray, table: np.ndarray) -> np.ndarray:
    numbers = at.astype(np.int64) & 255
    return table[_placed(numbers[..., 0] + (numbers[..., 1] << 8), len(table))]


def _qgather_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2)
    at, table = types
    need(at.dtype == "int8" and at.shape[-1:] == (NUMBER_BYTES,), node,
         f"input {node.inputs[0]!r} must be int8 of rows of {NUMBER_BYTES}, not {at}")
    need(table.dtype == "int8" and len(table.shape) == 2 and 1 <= table.shape[0] <= MOST_ROWS, node,
         f"input {node.inputs[1]!r} must be int8 of 1 to {MOST_ROWS:,} rows, not {table}")
    return TensorType((*at.shape[:-1], table.shape[1]), "int8")


OPERATORS = (
    Operator(
        name="gather", summary="the slices of x along an axis with these numbers",
        inputs="x, indices", attributes="axis", define=_gather,
        meaning=lambda attrs, x, at: x.take(_placed(at, x.shape[attrs["axis"]]), attrs["axis"])),
    Operator(
        name="gather_elements", inputs="x, indices", attributes="axis",
        summary="each element from its own place, but for its number along an axis",
        define=_gather_elements, meaning=_gather_elements_meaning),
    Operator(
        name="gather_nd", inputs="x, indices", attributes="batch_dims",
        summary="the slices of x whose first indices stand in the last dimension of the second",
        define=_gather_nd, meaning=_gather_nd_meaning),
    Operator(
        name="numbers_in_bytes", inputs="indices", attributes="rows, of the table",
        summary=f"the numbers of rows of a table in {NUMBER_BYTES} bytes, the low one first: the "
        "last dimension", define=_numbers_in_bytes, meaning=_numbers_in_bytes_meaning),
    Operator(
        name="qgather", inputs=f"numbers int8 [..., {NUMBER_BYTES}], table int8 [rows, elements]",
        summary="for each number in bytes that row of the table", define=_qgather,
        meaning=_qgather_meaning, type=_qgather_type, numbers=Numbers.INTEGER, by_rows=True,
        data_inputs=1),
    Operator(
        name="resample", inputs="x, places [n,k], weights [n,k]", attributes="axis",
        summary="n elements of those along an axis, each a weighted sum of k of them",
        define=_resample, meaning=kept(_resample_meaning)),
)
