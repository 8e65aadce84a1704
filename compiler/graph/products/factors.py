"""The integers that a product in float, or in int32, multiplies."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.quantized import QUANTIZED
from compiler.ops.records.planes import SUM_BITS, ends_of_sums, planes_for
from compiler.ops.integers.fixed_point import STORED, limits_of
from compiler.ops.registry import find

IMAGES = ("conv2d", "conv")
"""Products of windows, whose weight is [outputs, ...]."""

IN_INT32 = ("conv", "einsum")
"""Products of any type of number."""


@dataclass(frozen=True, slots=True)
class Weight:
    """The integers [outputs, ...] of a constant factor, and a scale for each output."""

    steps: np.ndarray
    scales: np.ndarray

    @property
    def totals(self) -> np.ndarray:
        """The sum of each output's integers."""
        return self.steps.reshape(len(self.steps), -1).sum(axis=1, dtype=np.int64)

    @property
    def takes_any_zero(self) -> bool:
        """True if 32 bits hold all sums of products with bytes less any zero point of theirs."""
        least, greatest = ends_of_sums(self.steps, -255, 255)
        return max(greatest, -least - 1) < 1 << SUM_BITS - 1

    def planes(self, dtype: str) -> int | None:
        """The elements of a type that hold all sums of products with such; None where 32 bits do
        not hold them."""
        least, greatest = ends_of_sums(self.steps, *limits_of(dtype))
        bound = max(greatest, -least - 1)
        return planes_for(bound, dtype) if bound < 1 << SUM_BITS - 1 else None


def dequantized_weight(graph: Graph, node: Node, producers: Mapping[str, Node]) -> Weight | None:
    """The weight of a product in float, as integers without their zero points."""
    source = producers.get(node.inputs[1])
    if source is None or source.op != "dequantizelinear" or (
            source.inputs[0] not in graph.constants):
        return None
    array, scale, zero = (graph.constants[value] for value in source.inputs)
    outputs = outputs_axis(node)
    if array.dtype.name not in QUANTIZED or array.ndim != (4 if node.op in IMAGES else 2) or (
            scale.ndim and source.attrs["axis"] != outputs):
        return None
    along = [-1 if scale.ndim and axis == outputs else 1 for axis in range(array.ndim)]
    steps = array.astype(np.int64) - zero.astype(np.int64).reshape(along)
    scales = np.broadcast_to(scale.astype(np.float64), (array.shape[outputs],))
    return narrow(steps if outputs == 0 else steps.T, scales)


def integer_weight(graph: Graph, node: Node) -> Weight | None:
    """The weight of a product in int32; those of sequences are of images of one row."""
    array = graph.constants.get(node.inputs[1])
    if array is None or array.dtype != np.int32:
        return None
    array, outputs = array[:, :, None] if array.ndim == 3 else array, outputs_axis(node)
    if array.ndim != (4 if node.op in IMAGES else 2):
        return None
    return narrow(array if outputs == 0 else array.T, np.ones(array.shape[outputs]))


def outputs_axis(node: Node) -> int:
    """The axis of a weight that has a scale for each output."""
    weights = find(node.op).weights
    return weights.scale_axis(node.attrs) if weights else 0 if node.op in IMAGES else 1


def narrow(steps: np.ndarray, scales: np.ndarray) -> Weight | None:
    """The weight in int8, or else in int16 where that holds it: bytes less a zero point have 9
    bits."""
    for dtype in STORED if steps.size else ():
        low, high = limits_of(dtype)
        if steps.min() >= low and steps.max() <= high:
            return Weight(np.ascontiguousarray(steps).astype(dtype), scales)
    return None


@dataclass(frozen=True, slots=True)
class Shifted:
    """A tensor of bytes less a number: `zero` is a value of int32, or none."""

    value: str
    zero: str | None


def scaled_bytes(graph: Graph, value: str, producers: Mapping[str, Node], rows: bool
                 ) -> tuple[Shifted, str] | None:
    """The bytes less a number, and the number that these are multiplied by, that a factor of a
    product in float is: both one of the run, or with `rows` one for each row of data.
    """
    product = producers.get(value)
    for whole, scale in (product.inputs, product.inputs[::-1]) if product is not None and (
            product.op == "mul") else ():
        cast = producers.get(whole)
        if cast is None or cast.op != "cast" or graph.values[whole].dtype != "float32" or not (
                _is_of_rows(graph, scale, whole, not rows)):
            continue
        data = shifted_bytes(graph, cast.inputs[0], producers, rows)
        if data is not None:
            return data, scale
    return None


def type_of_bytes(graph: Graph, value: str, producers: Mapping[str, Node], rows: bool
                  ) -> str | None:
    """The type of the integers that a float value is, dequantized or scaled in the run; None where
    it is none of a factor that sums in planes have."""
    stored = stored_data(graph, value, producers)
    if stored is not None:
        return graph.values[stored.inputs[0]].dtype
    return "int8" if scaled_bytes(graph, value, producers, rows) else None


def _is_of_rows(graph: Graph, value: str, data: str, image: bool) -> bool:
    """True for one number, and for one of each row where data are no image."""
    shape, whole = graph.values[value].shape, graph.values[data].shape
    return shape == () or not image and shape == (*whole[:-1], 1)


def shifted_bytes(graph: Graph, value: str, producers: Mapping[str, Node], rows: bool = False
                  ) -> Shifted | None:
    """The bytes, less one number, that a value of int32 is; with `rows` also less one of each."""
    node, zero = producers.get(value), None
    if node is not None and node.op == "sub" and _is_of_rows(graph, node.inputs[1], value,
                                                             not rows):
        zero, node = node.inputs[1], producers.get(node.inputs[0])
    if node is None or node.op != "cast" or graph.values[node.inputs[0]].dtype not in (
            "int8", "uint8"):
        return None
    return Shifted(node.inputs[0], zero)


def is_product(graph: Graph, node: Node) -> bool:
    """True for a convolution of images or sequences, and for an einsum that multiplies rows by one
    matrix."""
    if node.op in IMAGES:
        return len(graph.values[node.inputs[0]].shape) in (3, 4)
    left, arrow, result = node.attrs["equation"].partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != 2 or len(terms[1]) != 2 or len(terms[0]) < 2:
        return False
    (*rows, depth), (inner, column) = terms
    return (inner == depth and [*result] == [*rows, column] and column not in rows
            and depth not in result and len({*rows}) == len(rows))


def of_one_row(attrs: Mapping) -> dict[str, object]:
    """The attributes of a convolution of sequences for images of one row."""
    before, after = attrs["pads"]
    return {**attrs, "strides": (1, *attrs["strides"]), "dilations": (1, *attrs["dilations"]),
            "pads": (0, before, 0, after)}


def stored_data(graph: Graph, value: str, producers: Mapping[str, Node]) -> Node | None:
    """The node that dequantizes a computed tensor in stored form to this value."""
    node = producers.get(value)
    return node if node is not None and node.op == "dequantize" and (
        graph.values[node.inputs[0]].dtype in STORED
        and node.inputs[0] not in graph.constants) else None


def of_groups(array: np.ndarray, group: int, count: int) -> np.ndarray | None:
    """One number for each output: the one that all input channels of its group have; None where
    these differ, or where there is one number for all groups."""
    groups = array.reshape(group, -1) if array.size % group == 0 else array
    if array.ndim != 1 or groups.ndim != 2 or (groups != groups[:, :1]).any():
        return None
    return groups[:, 0].repeat(count // group)
