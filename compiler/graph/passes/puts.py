"""Choosing one computed place of an axis as putting something there."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code


@dataclass(frozen=True, slots=True)
class WheresAsPuts:
    """where(places == position, row, x) -> put_place(x, row, position): `places` are the numbers of
    the places along one axis, of which the row has one.

    Before: any graph. After: no such choice, as exporters write the new row of a cache of a fixed
    size. Every element is the same.
    """

    name: ClassVar[str] = "wheres-as-puts"

    def __call__(self, graph: Graph) -> Graph:
        producers = graph.producers()
        puts = {node.name: found for node in graph.nodes if node.op == "where"
                and (found := _put(graph, node, producers.get(node.inputs[0]))) is not None}
        if not puts:
            return graph
        builder = Builder.like(graph)
        for node in graph.nodes:
            if node.name in puts:
                axis, position = puts[node.name]
                _, row, x = node.inputs
                builder.emit("put_place", node.name, [x, row, position], node.outputs[0],
                             axis=axis)
            else:
                builder.add(node)
        return eliminate_dead_code(builder.finish(graph.outputs))


def _put(graph: Graph, node: Node, condition: Node | None) -> tuple[int, str] | None:
    """The axis, and the value that is the position; None for another choice."""
    if condition is None or condition.op != "equal":
        return None
    _, row, x = (graph.values[value] for value in node.inputs)
    for places, position in (condition.inputs, condition.inputs[::-1]):
        array = graph.constants.get(places)
        if array is None or graph.values[position].shape != (1,) or (
                graph.values[position].dtype != "int64" or position in graph.constants):
            continue
        for axis, extent in enumerate(x.shape):
            numbers = np.arange(extent).reshape(-1, *(1,) * (len(x.shape) - 1 - axis))
            whole = (*x.shape[:axis], 1, *x.shape[axis + 1:])
            shape = (1,) * (len(x.shape) - array.ndim) + array.shape
            if row.shape == whole and array.ndim <= len(x.shape) and np.array_equal(
                    array.reshape(shape), numbers.reshape((1,) * axis + numbers.shape)):
                return axis, position
    return None
