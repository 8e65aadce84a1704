"""Moves transposes behind operators that do not care how their axes lie, so that pairs meet."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find

PER_AXIS = ("pad", "slice")
"""Operators whose tuples have an entry for each axis of the first operand."""


@dataclass(frozen=True, slots=True)
class SinkTransposes:
    """f(transpose(x)) -> transpose(f(x)) for elementwise operators, concatenations, pads, slices
    and reductions, constants transposed the other way; two transposes in a row become one, or none.
    A transpose stops where none of the readers is a transpose or such an operator, so that a pad
    stays before its convolution.

    Before: any graph. After: no such operator reads a transpose that may go on, unless another
    operand is computed in other axes; every element is the same, but sums along several axes may
    have another order.
    """

    name: ClassVar[str] = "sink-transposes"

    def __call__(self, graph: Graph) -> Graph:
        if not any(node.op == "transpose" for node in graph.nodes):
            return graph
        run = _Sinking(graph, Builder.like(graph))
        for node in graph.nodes:
            run.add(node)
        return eliminate_dead_code(run.builder.finish(graph.outputs))


@dataclass(slots=True)
class _Sinking:
    """`turned` has the values that are transposes: of what, and how."""

    graph: Graph
    builder: Builder
    turned: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    readers: dict[str, list[Node]] = field(default_factory=dict)

    def __post_init__(self):
        for node in self.graph.nodes:
            for value in node.inputs:
                self.readers.setdefault(value, []).append(node)

    def add(self, node: Node) -> None:
        inputs = tuple(self.same.get(value, value) for value in node.inputs)
        node = replace(node, inputs=inputs)
        first = next((self.turned[value] for value in inputs if value in self.turned), None)
        if node.op == "transpose":
            self._transpose(node)
        elif first is None or not self._goes_on(node) or not self._sink(node, first[1]):
            self.builder.add(node)

    def _goes_on(self, node: Node) -> bool:
        return any(reader.op == "transpose" or _sinks(reader)
                   for reader in self.readers.get(node.outputs[0], ()))

    def _transpose(self, node: Node) -> None:
        value, perm = node.inputs[0], tuple(node.attrs["perm"])
        if value in self.turned:
            value, before = self.turned[value]
            perm = tuple(before[axis] for axis in perm)
        output = node.outputs[0]
        if perm == tuple(range(len(perm))) and output not in self.graph.outputs:
            self.same[output] = value
            return
        self.builder.add(replace(node, inputs=(value,), attrs={"perm": perm}))
        self.turned[output] = value, perm

    def _sink(self, node: Node, perm: tuple[int, ...]) -> bool:
        """True if the operator reads what is transposed, and its result is transposed instead."""
        output = node.outputs[0]
        rank = len(self.graph.values[output].shape)
        if _is_elementwise(node.op) and rank == len(perm):
            return self._emit(node, self._straight(node.inputs, perm), {}, perm)
        if node.op == "concat":
            return self._emit(node, self._straight(node.inputs, perm),
                              {"axis": perm[node.attrs["axis"] % rank]}, perm)
        if node.op in PER_AXIS and node.inputs[0] in self.turned:
            changed = {name: tuple(_straightened(value, perm)) for name, value
                       in node.attrs.items() if isinstance(value, tuple)}
            straight = (self.turned[node.inputs[0]][0], *node.inputs[1:])
            return self._emit(node, straight, changed, perm)
        if _is_reduction(node):
            return self._reduce(node, perm)
        return False

    def _reduce(self, node: Node, perm: tuple[int, ...]) -> bool:
        axes = [axis % len(perm) for axis in node.attrs["axes"]]
        changed = {"axes": tuple(sorted(perm[axis] for axis in axes))}
        straight = (self.turned[node.inputs[0]][0],)
        if node.attrs["keepdims"]:
            return self._emit(node, straight, changed, perm)
        left = [place for axis, place in enumerate(perm) if axis not in axes]
        return self._emit(node, straight, changed, tuple(sorted(left).index(place)
                                                         for place in left))

    def _straight(self, inputs: Sequence[str], perm: tuple[int, ...]) -> tuple[str, ...] | None:
        """The operands in the order of axes that `perm` changes; None where one has no such form
        without copying it.
        """
        found = []
        for value in inputs:
            form = self._form(value, perm)
            if form is None:
                return None
            found.append(form)
        return tuple(found)

    def _form(self, value: str, perm: tuple[int, ...]) -> str | None:
        source, how = self.turned.get(value, ("", ()))
        if how == perm:
            return source
        shape = self.builder.values[value].shape
        if prod(shape) == 1 and len(shape) == 0:
            return value
        wide = (1,) * (len(perm) - len(shape)) + shape
        straight = tuple(_straightened(wide, perm))
        if value in self.builder.constants:
            array = self.builder.constants[value].reshape(wide)
            turned = np.ascontiguousarray(array.transpose(np.argsort(perm)))
            return self.builder.add_constant(self.builder.fresh(f"{value}.turned"), turned)
        if sum(extent > 1 for extent in shape) > 1:
            return None
        name = self.builder.fresh_node(f"{value}.turned")
        return self.builder.emit("reshape", name, [value], self.builder.fresh(name),
                                 shape=straight)

    def _emit(self, node: Node, inputs: tuple[str, ...] | None, changed: dict,
              perm: tuple[int, ...]) -> bool:
        if inputs is None:
            return False
        output = node.outputs[0]
        attrs = {**dict(node.attrs.items()), **changed}
        if perm == tuple(range(len(perm))):
            self.builder.add(replace(node, inputs=inputs, attrs=attrs))
            return True
        straight = self.builder.fresh(f"{output}.straight")
        self.builder.add(Node(node.op, node.name, inputs, (straight,), attrs))
        self.builder.emit("transpose", self.builder.fresh_node(f"{node.name}.transpose"),
                          [straight], output, perm=perm)
        self.turned[output] = straight, perm
        return True


def _is_elementwise(op: str) -> bool:
    return find(op).kind == Kind.ELEMENTWISE


def _is_reduction(node: Node) -> bool:
    return {"axes", "keepdims"} <= node.attrs.keys()


def _sinks(node: Node) -> bool:
    return (node.op == "concat" or node.op in PER_AXIS or _is_reduction(node)
            or _is_elementwise(node.op))


def _straightened(entries: Sequence, perm: Sequence[int]) -> list:
    """One entry for each axis, in the order of axes before the transpose."""
    return [entries[list(perm).index(axis)] for axis in range(len(perm))]
