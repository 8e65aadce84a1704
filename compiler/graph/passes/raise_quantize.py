"""Moves quantization above operators that only move or select elements."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find


@dataclass(frozen=True, slots=True)
class RaiseQuantize:
    """quantize(reshape(conv(x, w))) -> reshape(quantize(conv(x, w))), and so above all that picks
    elements: exact, since quantization with one scale keeps order.

    Before: any graph. After: no quantization with one scale reads an operator that `picks` elements
    of what may be an integer operator, where nothing else reads either.
    """

    name: ClassVar[str] = "raise-quantize"

    def __call__(self, graph: Graph) -> Graph:
        return _Raising(graph).run()


@dataclass(slots=True)
class _Raising:
    graph: Graph
    builder: Builder = field(init=False)
    producers: Mapping[str, Node] = field(init=False)
    readers: Mapping[str, Sequence[Node]] = field(init=False)

    def __post_init__(self):
        self.builder = Builder.like(self.graph)
        self.producers, self.readers = self.graph.producers(), self.graph.consumers()

    def run(self) -> Graph:
        made: dict[str, Sequence[Node]] = {}
        for node in self.graph.nodes:
            picks = self._above(node) if node.op == "quantizelinear" else []
            if picks:
                made.update(self._raised(node, picks))
        for node in self.graph.nodes if made else ():
            for moved in made.get(node.name, (node,)):
                self.builder.add(moved)
        return self.builder.finish(self.graph.outputs) if made else self.graph

    def _above(self, quantize: Node) -> list[Node]:
        """The operators between a quantization and what may be an integer operator, in order."""
        if self.graph.values[quantize.inputs[1]].shape:
            return []
        picks: list[Node] = []
        node = self._alone(quantize.inputs[0])
        while node is not None and find(node.op).picks:
            picks.insert(0, node)
            node = self._alone(node.inputs[0])
        return picks if node is not None and self._may_be_integer(node) else []

    def _may_be_integer(self, node: Node) -> bool:
        if find(node.op).kind is Kind.ELEMENTWISE:
            return node.op != "dequantizelinear"
        before = map(self.producers.get, node.inputs)
        return bool(find(node.op).integer) and any(
            maker is not None and maker.op == "dequantizelinear" for maker in before)

    def _alone(self, value: str) -> Node | None:
        """The node that makes a value which has one reader."""
        alone = len(self.readers[value]) == 1 and value not in self.graph.outputs
        return self.producers.get(value) if alone else None

    def _raised(self, quantize: Node, picks: Sequence[Node]) -> Iterator[tuple[str, list[Node]]]:
        """The nodes that take the place of each."""
        source, outputs = picks[0].inputs[0], [node.outputs[0] for node in picks[:-1]]
        values = [self.builder.fresh(f"{value}_quantized") for value in (source, *outputs)]
        first = replace(quantize, inputs=(source, *quantize.inputs[1:]), outputs=(values[0],))
        values.append(quantize.outputs[0])
        for place, node in enumerate(picks):
            moved = replace(node, inputs=(values[place],), outputs=(values[place + 1],))
            yield node.name, [moved] if place else [first, moved]
        yield quantize.name, []
