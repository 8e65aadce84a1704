"""Sources of the elementwise operators before a quantization: `integerize` finds functions there
of quantized tensors.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.graph.graph import Node
from compiler.graph.integerize.quantized import QuantizedView
from compiler.ops.records.integer_forms import StaysFloat
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find


@dataclass(frozen=True, slots=True)
class Region:
    """Elementwise nodes in order, conversions from and to int8 among them, and the quantized
    tensors that they compute from, by name, in order; constants of several dimensions are first.
    """

    nodes: tuple[Node, ...]
    sources: tuple[str, ...]


@dataclass(slots=True)
class Regions:
    """The regions of quantizations in one graph."""

    view: QuantizedView
    places: Mapping[str, int] = field(init=False)       # of inputs, then of the nodes' results

    def __post_init__(self):
        graph = self.view.graph
        self.places = {value: place for place, value in enumerate(
            (*graph.inputs, *(node.outputs[0] for node in graph.nodes)))}

    def before(self, node: Node, nearest: bool = False) -> Region | None:
        """The region that ends with a quantization; None where it computes from something that is
        neither quantized nor constant, or from constants alone, which are folded. Raises StaysFloat
        for constants of many elements.

        It begins at the nearest quantized tensor that alone decides an element, though others lie
        in between: with these, x * sigmoid(x) is a function of x. Where there is none, it begins at
        the quantized tensors that lie next, as it always does where the `nearest` are asked for.
        """
        result = node.outputs[0]
        near = region = self._walk(result, {result})
        through = {result}
        while region is not None and len(region.sources) > 1 and not nearest:
            if region.sources[-1] not in self.view.producers:
                return near
            through.add(region.sources[-1])
            try:
                region = self._walk(result, through)
            except StaysFloat:                  # constants of many elements lie further back
                return near
        found = region or near
        return found if found and not {*found.sources} <= self.view.graph.constants.keys() else None

    def of(self, value: str) -> Region | None:
        """The region that ends with a value, from the quantized tensors that lie next."""
        found = self._walk(value, {value})
        return found if found and not {*found.sources} <= self.view.graph.constants.keys() else None

    def _walk(self, result: str, through: set[str]) -> Region | None:
        """The region behind a value, in which the quantized tensors `through` are steps between."""
        sources, nodes = set[str](), dict[str, Node]()
        waiting = [result]
        while waiting:
            value = waiting.pop()
            node = self.view.producers.get(value)
            if value in self.view.stored and value not in through:
                sources.add(value)
            elif value not in nodes and not self._is_number(value):
                if node is None or find(node.op).kind is not Kind.ELEMENTWISE:
                    return None
                nodes[value] = node
                if self._is_operand(node):
                    sources.add(node.inputs[0])
                else:
                    waiting.extend(node.inputs)
        return Region(tuple(nodes[value] for value in sorted(nodes, key=self.order)),
                      tuple(sorted(sources, key=self.order)))

    def order(self, value: str) -> int:
        """The place of a value; constants come before all others."""
        return self.places.get(value, -1)

    def _is_operand(self, node: Node) -> bool:
        """True if a dequantized constant is a tensor of several dimensions with one scale."""
        array = self.view.graph.constants.get(node.inputs[0])
        return (node.op == "dequantizelinear" and array is not None
                and sum(extent > 1 for extent in array.shape) > 1
                and self.view.parameters(node) is not None)

    def _is_number(self, value: str) -> bool:
        array = self.view.graph.constants.get(value)
        if array is not None and array.size != 1:
            raise StaysFloat(f"it computes with {array.size} constants")
        return array is not None
