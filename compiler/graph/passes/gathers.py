"""Gathering at constant places that follow each other as a slice."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code


@dataclass(frozen=True, slots=True)
class GathersAsSlices:
    """gather(x, [4, 6, 8]) -> slice(x, 4 to 9 with step 2); one place alone takes its axis away, by
    a reshape.

    Before: any graph. After: no gather whose places are constants at one distance, upwards. Every
    element is the same.
    """

    name: ClassVar[str] = "gathers-as-slices"

    def __call__(self, graph: Graph) -> Graph:
        sides = {node.name: found for node in graph.nodes if node.op == "gather"
                 and (found := _sides(graph, node)) is not None}
        if not sides:
            return graph
        builder = Builder.like(graph)
        for node in graph.nodes:
            if node.name in sides:
                _emit(builder, node, *sides[node.name])
            else:
                builder.add(node)
        return eliminate_dead_code(builder.finish(graph.outputs))


def _sides(graph: Graph, node: Node) -> tuple[int, int, int] | None:
    """Begin, end and step of the places; None where they are no slice."""
    value, places = node.inputs[0], graph.constants.get(node.inputs[1])
    if places is None or places.size == 0 or value in graph.constants:
        return None
    extent = graph.values[value].shape[node.attrs["axis"]]
    flat = places.reshape(-1).astype(np.int64)
    flat = np.where(flat < 0, flat + extent, flat).clip(0, extent - 1)
    steps = np.unique(np.diff(flat)).tolist() or [1]
    return (int(flat[0]), int(flat[-1]) + 1, steps[0]) if len(steps) == 1 and steps[0] > 0 else None


def _emit(builder: Builder, node: Node, first: int, end: int, stride: int) -> None:
    x, axis = node.inputs[0], node.attrs["axis"]
    shape, places = builder.values[x].shape, builder.values[node.inputs[1]].shape
    begin, last, step = ([0] * len(shape), [*shape], [1] * len(shape))
    begin[axis], last[axis], step[axis] = first, end, stride
    sides = {"begin": tuple(begin), "end": tuple(last), "step": tuple(step)}
    if len(places) == 1:
        builder.emit("slice", node.name, [x], node.outputs[0], **sides)
        return
    name = builder.fresh_node(f"{node.name}.slice")
    cut = builder.emit("slice", name, [x], builder.fresh(f"{name}.out"), **sides)
    builder.emit("reshape", node.name, [cut], node.outputs[0],
                 shape=(*shape[:axis], *places, *shape[axis + 1:]))
