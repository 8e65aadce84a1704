"""Scales and zero points of quantized inputs and outputs, where a graph says them.
"""

from collections.abc import Mapping
from math import isfinite

import numpy as np

from compiler.exports import CArray
from compiler.graph.graph import Graph, Node

FROM_QUANTIZED, TO_QUANTIZED = "dequantizelinear", "quantizelinear"

Scales = Mapping[str, tuple[float, int]]
"""Scale and zero point of inputs and outputs, by their names."""


def scales_of(graph: Graph) -> Scales:
    """The scales of a graph's inputs and outputs.

    An input has one where nothing but dequantizations read it, all by that scale; an output where a
    quantization gives it. The graph is one as it was imported: passes that compute in integers take
    scales for their own.
    """
    producers, consumers = graph.producers(), graph.consumers()
    found: dict[str, set[tuple[float, int] | None]] = {}
    for name in graph.inputs:
        readers = consumers[name]
        if readers and all(node.op == FROM_QUANTIZED and node.inputs[0] == name
                           for node in readers):
            found[name] = {_numbers(graph, node) for node in readers}
    for name in graph.outputs:
        if name in producers and producers[name].op == TO_QUANTIZED:
            found[name] = {_numbers(graph, producers[name])}
    return {name: one for name, numbers in found.items()
            if len(numbers) == 1 and (one := next(iter(numbers))) is not None}


def described(graph: Graph, scales: Scales) -> dict[str, CArray]:
    """The inputs and outputs of a network that have a scale, as C is told of them."""
    return {name: CArray.of(name, graph.values[name].dtype, graph.values[name].shape, *numbers)
            for name, numbers in scales.items()}


def _numbers(graph: Graph, node: Node) -> tuple[float, int] | None:
    """Scale and zero point; None for several, one for each channel, and for computed ones."""
    arrays = [graph.constants.get(name) for name in node.inputs[1:]]
    if any(array is None or array.size != 1 for array in arrays):
        return None
    scale, *zero = (np.asarray(array).item() for array in arrays)
    return (float(scale), int(zero[0]) if zero else 0) if isfinite(scale) else None
