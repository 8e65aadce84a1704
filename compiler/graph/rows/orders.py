"""The first elements of rows in order, and their places, as integer operators of rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rows.lookups import TakesRows, every_row
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.families.orders import HIGH, LOW, NUMBERS
from compiler.ops.families.reductions import MOST_PLACES


@dataclass(frozen=True, slots=True)
class OrdersAsRows:
    """sorted_places(dequantize(q)) -> joined_bytes of qorder(q), and the elements at these places
    -> dequantize(qorder(q)): what a unit that sorts has. Exact, since multiples of a positive scale
    have the order of the integers.

    Before: what is between quantizations is an integer operator. After: places along the last axis
    of bytes, of as many as some target `takes`, are not sorted in float.
    """

    takes: TakesRows = every_row
    name: ClassVar[str] = "orders-as-rows"

    def __call__(self, graph: Graph) -> Graph:
        orders = [node for node in graph.nodes if node.op == "sorted_places"]
        return _Orders(graph, self.takes).run() if orders else graph


@dataclass(slots=True)
class _Orders:
    graph: Graph
    takes: TakesRows
    builder: Builder = field(init=False)
    producers: Mapping[str, Node] = field(init=False)
    steps: dict[str, tuple[Node, str]] = field(default_factory=dict)
    """The node that sorts, and the bytes that it sorts, of values that are places."""

    def run(self) -> Graph:
        self.builder, self.producers = Builder.like(self.graph), self.graph.producers()
        for node in self.graph.nodes:
            if not (node.op == "sorted_places" and self._places(node)
                    or node.op == "gather_elements" and self._elements(node)):
                self.builder.add(node)
        if not self.steps:
            return self.graph
        return eliminate_dead_code(self.builder.finish(self.graph.outputs))

    def _places(self, node: Node) -> bool:
        """Replaces places by those of bytes, where these are few enough for a target."""
        value, = node.inputs
        stored, shape = self._stored(value), self.graph.values[value].shape
        attrs = {"count": node.attrs["count"], "largest": node.attrs["largest"]}
        if (stored is None or node.attrs["axis"] != len(shape) - 1 or len(shape) < 2
                or shape[-1] > MOST_PLACES
                or not self.takes("qorder", shape[-1], {**attrs, "part": LOW})):
            return False
        result, count = node.outputs[0], node.attrs["count"]
        self.steps[result] = node, stored
        parts = (LOW, HIGH) if shape[-1] > 256 else (LOW,)
        bytes_ = [self._step("reshape", f"{result}_row", self._part(node, stored, part),
                             shape=(*shape[:-1], 1, count)) for part in parts]
        whole = bytes_[0] if len(bytes_) == 1 else self._step(
            "concat", f"{result}_bytes", *bytes_, axis=len(shape) - 1)
        self.builder.emit("joined_bytes", self.builder.fresh_node(f"{node.name}_joined"), [whole],
                          result, axis=len(shape) - 1, keepdims=0)
        return True

    def _elements(self, node: Node) -> bool:
        """Replaces the elements at such places."""
        value, places = node.inputs
        sorts, stored = self.steps.get(places, (None, ""))
        if sorts is None or self._stored(value) != stored or (
                node.attrs["axis"] != sorts.attrs["axis"]):
            return False
        numbers, maker = self._part(sorts, stored, NUMBERS), self.producers.get(value)
        if maker is None or maker.op != "dequantize":
            self.builder.emit("identity", node.name, [numbers], node.outputs[0])
        else:
            self.builder.emit("dequantize", node.name, [numbers], node.outputs[0], **maker.attrs)
        return True

    def _stored(self, value: str) -> str | None:
        """The bytes that a value is, or is dequantized from in steps that keep numbers apart."""
        maker = self.producers.get(value)
        if maker is not None and maker.op == "dequantize":
            if maker.attrs["scale"] >= np.finfo(np.float32).max / 255:
                return None
            value = maker.inputs[0]
        return value if self.graph.values[value].dtype == "int8" else None

    def _part(self, node: Node, stored: str, part: int) -> str:
        """The first elements of rows, or a byte of their places."""
        count, shape = node.attrs["count"], self.graph.values[stored].shape
        name = ("values", "low", "high")[part]
        value = self._step("qorder", f"{node.name}_{name}", stored, count=count,
                           largest=node.attrs["largest"], part=part)
        if count == shape[-1]:
            return value
        return self._step("slice", f"{node.name}_first_{name}", value, begin=(0,) * len(shape),
                          end=(*shape[:-1], count), step=(1,) * len(shape))

    def _step(self, op: str, stem: str, *inputs: str, **attrs: object) -> str:
        """Adds an operator under a name that is free; returns its result."""
        value = self.builder.fresh(stem)
        return self.builder.emit(op, self.builder.fresh_node(stem), inputs, value, **attrs)
