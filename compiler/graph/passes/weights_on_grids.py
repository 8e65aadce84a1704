"""Float weights that are integers times scales of channels, as dequantized integers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.constants import QuantizedConstant
from compiler.graph.passes.grids import in_groups, most_off, steps_of
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.registry import find

Array = np.ndarray

MOST = 255


@dataclass(frozen=True, slots=True)
class WeightsOnGrids:
    """conv(dequantize(x), w) -> conv(dequantize(x), dequantize(q)) where each output channel of a
    constant w is int8, or int8 less a zero point, times a number: what is left of blocks with
    scales of their own, where these are multiples of one number, and of integers that were scaled
    by arithmetic. Or int16, where it is integers of few bits times a factor of each group of
    inputs.

    Before: any graph. After: no product of a dequantized tensor has such a weight in float. Weights
    change by roundings of float32; those of groups whose factors are not exact by what makes no
    result more than a step other.
    """

    name: ClassVar[str] = "weights-on-grids"

    def __call__(self, graph: Graph) -> Graph:
        builder, producers = Builder.like(graph), graph.producers()
        integers: dict[Key, str | None] = {}
        for node in graph.nodes:
            if _reads_floats(graph, producers, node):
                node = _with_integers(builder, integers, node, most_off(graph, node))
            builder.add(node)
        same = tuple(builder.nodes) == graph.nodes
        return graph if same else eliminate_dead_code(builder.finish(graph.outputs))


def _reads_floats(graph: Graph, producers: Mapping[str, Node], node: Node) -> bool:
    """True for a product of a dequantized tensor and a constant weight."""
    weights = find(node.op).weights
    if weights is None or node.inputs[1] not in graph.constants:
        return False
    before, ndim = producers.get(node.inputs[0]), graph.constants[node.inputs[1]].ndim
    return before is not None and before.op == "dequantizelinear" and ndim >= 2 and (
        weights.biased or ndim == 2)


Key = tuple[str, int, float | None]
"""A weight, the axis of its scales and, of groups, by how much it may be off."""


def _with_integers(builder: Builder, integers: dict[Key, str | None], node: Node,
                   off: float | None) -> Node:
    """The product with a dequantized weight, or with its own where that has no scales."""
    weights, weight = find(node.op).weights, node.inputs[1]
    assert weights is not None
    axis = weights.scale_axis(node.attrs)
    array = builder.constants[weight]
    ways = (((weight, axis, None), lambda: on_grid(array, axis)),
            ((weight, axis, off or 0.0), lambda: in_groups(array, axis, off)))
    for key, made in ways:
        if key not in integers:
            integers[key] = _added(builder, weight, made())
        if (value := integers[key]) is not None:
            return replace(node, inputs=(node.inputs[0], value, *node.inputs[2:]))
    return node


def _added(builder: Builder, weight: str, made: QuantizedConstant | None) -> str | None:
    """The name of a constant that takes the place of a weight, where there is one."""
    if made is None:
        return None
    value = builder.fresh(f"{weight}_on_grid")
    made.add_to(builder, value, builder.fresh_node(value), value)
    return value


def on_grid(weight: Array, axis: int) -> QuantizedConstant | None:
    """The weight as int8 with a scale for each channel along the axis, and a zero point where it is
    wider than int8; None where it is another.
    """
    if not weight.size or not np.isfinite(weight).all():
        return None
    axis, others = axis % weight.ndim, tuple(set(range(weight.ndim)) - {axis % weight.ndim})
    steps = steps_of(weight, axis, others, MOST)
    if steps is None:
        return None
    integers = np.rint(weight / steps)
    squares, products = (np.sum(array * integers, axis=others, keepdims=True, dtype=np.float64)
                         for array in (integers, weight))
    nearest = products / np.maximum(squares, 1)
    least = nearest.min(where=squares > 0, initial=np.abs(weight).max() or 1)
    scales = np.where(squares > 0, nearest, least).astype(np.float32)
    if not (scales >= np.finfo(np.float32).tiny).all():
        return None
    least, most = (end(integers, axis=others, keepdims=True, initial=0) for end in (np.min, np.max))
    zeros = np.where((least >= -128) & (most <= 127), 0, -128 - least)
    return None if (most - least > MOST).any() else QuantizedConstant(
        (integers + zeros).astype(np.int8), scales, zeros.astype(np.int8))
