"""Float weights that are integers times scales of channels, as dequantized integers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.constants import QuantizedConstant
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.registry import find

Array = np.ndarray

MOST = 255
NEAR = np.float32(2.0**-20)
"""The part of an element that it may be off: several roundings of float32."""

FEW = 6        # elements of a channel that are tried with every scale


@dataclass(frozen=True, slots=True)
class WeightsOnGrids:
    """conv(dequantize(x), w) -> conv(dequantize(x), dequantize(q)) where each output channel of a
    constant w is int8, or int8 less a zero point, times a number: what is left of blocks with
    scales of their own, where these are multiples of one number, and of integers that were scaled
    by arithmetic.

    Before: any graph. After: no product of a dequantized tensor has such a weight in float. Weights
    change by roundings of float32.
    """

    name: ClassVar[str] = "weights-on-grids"

    def __call__(self, graph: Graph) -> Graph:
        builder, producers = Builder.like(graph), graph.producers()
        integers: dict[tuple[str, int], str] = {}
        for node in graph.nodes:
            if _reads_floats(graph, producers, node):
                node = _with_integers(builder, integers, node)
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


def _with_integers(builder: Builder, integers: dict[tuple[str, int], str], node: Node) -> Node:
    """The product with a dequantized weight, or with its own where that has no scales."""
    weights, weight = find(node.op).weights, node.inputs[1]
    assert weights is not None
    axis = weights.scale_axis(node.attrs)
    if (weight, axis) not in integers:
        made = on_grid(builder.constants[weight], axis)
        value = weight if made is None else builder.fresh(f"{weight}_on_grid")
        if made is not None:
            made.add_to(builder, value, builder.fresh_node(value), value)
        integers[weight, axis] = value
    return replace(node, inputs=(node.inputs[0], integers[weight, axis], *node.inputs[2:]))


def on_grid(weight: Array, axis: int) -> QuantizedConstant | None:
    """The weight as int8 with a scale for each channel along the axis, and a zero point where it is
    wider than int8; None where it is another.
    """
    if not weight.size or not np.isfinite(weight).all():
        return None
    axis, others = axis % weight.ndim, tuple(set(range(weight.ndim)) - {axis % weight.ndim})
    steps = _steps(weight, axis, others)
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


def _steps(weight: Array, axis: int, others: tuple[int, ...]) -> Array | None:
    """The greatest number of which each channel has multiples up to `MOST`; 1 for a channel of
    zeros.
    """
    peaks = np.abs(weight).max(axis=others)
    peaks[peaks == 0] = 1
    candidates = peaks[:, None] / np.arange(1, 1 + MOST, dtype=np.float32)
    few = np.moveaxis(weight, axis, 0).reshape(len(peaks), -1)[:, :FEW]
    fits = np.all(_are_multiples(few[:, :, None], candidates[:, None]), axis=1)
    steps, waiting = np.ones_like(peaks), np.arange(len(peaks))
    while waiting.size:
        if not fits[waiting].any(axis=1).all():
            return None
        places = fits[waiting].argmax(axis=1)
        steps[waiting], fits[waiting, places] = candidates[waiting, places], False
        part, like = weight.take(waiting, axis), np.expand_dims(steps[waiting], others)
        waiting = waiting[~_are_multiples(part, like).all(axis=others)]
    return np.expand_dims(steps, others)


def _are_multiples(numbers: Array, steps: Array) -> Array:
    multiples = numbers / steps
    return np.abs(multiples - np.rint(multiples)) <= NEAR * np.abs(multiples)
