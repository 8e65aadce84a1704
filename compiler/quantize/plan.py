"""What is quantized, and which values share a scale.

A layer is quantized when the integer operators have it: with constant weights wherever it stands,
any other when it reads a quantized value or an input of the network. What only moves elements
keeps the scale of its input. All inputs of a concatenation have the scale of its result, which
spans them all, so that joining them moves bytes and computes nothing. Both inputs of a product of
computed values have zero point 128, which is 0 in int8.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto

from compiler.graph.graph import Graph, Node
from compiler.ops.registry import OPERATORS
from compiler.quantize.network import Layer, Network
from compiler.quantize.scales import Scale

__all__ = ["Plan", "make_plan"]

Ranges = Mapping[str, tuple[float, float]]
PRODUCTS = {name for name, operator in OPERATORS.items() if operator.contracts and operator.integer}
PICKS = {name for name, operator in OPERATORS.items() if operator.picks}
MOVES = {*PICKS, "identity"}
"""What gives elements of its input, and has the scale of that."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`quantized` holds the values that quantized layers make, `reasons` why each other layer
    stays in float, by its name. `scale_of` names, for each value that is read quantized, the value
    whose scale constants it has; values with equal groups have equal scales.
    """

    quantized: frozenset[str]
    reasons: Mapping[str, str]
    groups: Mapping[str, str] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)
    symmetric: frozenset[str] = frozenset()

    def scales(self, ranges: Ranges) -> dict[str, Scale]:
        """Of every value that quantized layers read or make; a group spans the ranges of all its
        values but those that only moved.
        """
        spans: dict[str, tuple[float, float]] = {}
        for value, group in self.groups.items():
            if value not in self.moved:
                low, high = ranges[value]
                before = spans.get(group, (low, high))
                spans[group] = min(low, before[0]), max(high, before[1])
        one = {self.groups[value] for value in self.symmetric}
        return {value: Scale.of(*spans[group], group in one)
                for value, group in self.groups.items()}


def hindrance(node: NodeProto, parts: Sequence[str], rank: int) -> str:
    """Why a node that became these operators of the graph, the last first, has no integer form, and
    what helps.
    """
    op = node.op_type
    if op in ("Conv", "ConvTranspose") and rank not in (0, 4):
        axes = rank - 2
        return (f"it convolves over {axes} dimension{'s' * (axes > 1)}, and integer operators over "
                "2: write it as a convolution of images" + " of height 1" * (axes == 1))
    if op == "Gemm":
        return "alpha and beta must be 1, and transA 0, where its weights are computed"
    if len(parts) < 2 or parts[0] not in RULES:
        return f"{op} has no integer form"
    lacking = [one for one in dict.fromkeys(parts) if one not in RULES]
    return (f"{op} becomes {', '.join(dict.fromkeys(reversed(parts)))}: "
            + (f"{lacking[0]} has no integer form" if lacking else
               "write it as that many nodes, which have one each"))


def make_plan(network: Network, graph: Graph, kept: Mapping[str, str] | None = None,
              unbounded: Collection[str] = ()) -> Plan:
    """The plan for a network, whose float model is `graph` after import. Layers whose name is in
    `kept` stay in float, for the reason given there, and so do those that read or make one of the
    `unbounded` values, which have no range.
    """
    return _Planning(network, graph, dict(kept or {}), unbounded, graph.producers()).run()


@dataclass(slots=True)
class _Planning:
    network: Network
    graph: Graph
    kept: dict[str, str]
    unbounded: Collection[str]
    producers: Mapping[str, Node]
    quantized: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)        # quantized values and network inputs
    parent: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    symmetric: set[str] = field(default_factory=set)

    def run(self) -> Plan:
        reasons = dict(self.kept)
        self.known.update(value.name for value in self.network.inputs)
        for layer in self.network.layers:
            reason = self._reason(layer)
            if reason is None:
                self._quantize(layer, self.producers[layer.core].op)
            else:
                reasons[layer.name] = reason
        groups = {value: self._root(value) for value in self.parent}
        return Plan(frozenset(self.quantized), reasons, groups, self.moved,
                    frozenset(self.symmetric))

    def _reason(self, layer: Layer) -> str | None:
        """Why the layer stays in float."""
        if layer.name in self.kept:
            return self.kept[layer.name]
        node, data = self.producers.get(layer.core), self._data(layer)
        read = [self._origin(value) for value in data]
        parts = self._parts(layer.core, {*read, *data})
        if node is None or node.op not in RULES or parts[1:]:
            return hindrance(layer.node, [one.op for one in parts], self._rank(layer))
        if read != [one for one in map(self._origin, node.inputs) if one in read]:
            return f"{layer.node.op_type} reads its inputs in another order than {node.op}"
        for value in (*data, layer.value):
            if value in self.unbounded:
                return f"value {value!r} is not finite for all calibration samples"
        types = [self.graph.values[value] for value in data]
        if any(one.dtype != "float32" for one in types):
            return "its values are no float32 numbers"
        weighted = node.op in PRODUCTS and len(data) == 1
        if not weighted and not self.known.intersection(data):
            return "it reads no quantized value"
        return RULES[node.op](self, layer, node, data)

    def _origin(self, value: str) -> str:
        """The value that this one is, seen through operators that change nothing."""
        while value in self.producers and self.producers[value].op == "identity":
            value = self.producers[value].inputs[0]
        return value

    def _parts(self, value: str, read: Collection[str]) -> list[Node]:
        """The operators that compute the value from these, the last one first."""
        found: dict[str, Node] = {}
        waiting = [value]
        while waiting:
            node = self.producers.get(waiting.pop())
            if node is not None and node.name not in found:
                found[node.name] = node
                waiting += [one for one in node.inputs if one not in read]
        return list(found.values())

    def _rank(self, layer: Layer) -> int:
        """Dimensions of what the layer makes; 0 where that is no tensor."""
        made = self.graph.values.get(layer.core)
        return len(made.shape) if made else 0

    def _data(self, layer: Layer) -> list[str]:
        """What the layer reads that is computed."""
        return [value for value in layer.node.input
                if value and value not in self.network.tensors
                and value in self.graph.values and value not in self.graph.constants]

    def _quantize(self, layer: Layer, op: str) -> None:
        data, value = self._data(layer), layer.value
        for one in (*data, value):
            self.parent.setdefault(one, one)
        if op in MOVES:
            self.moved[value] = data[0]
        if op in MOVES or op == "concat":
            for one in data:
                self.parent[self._root(one)] = self._root(value)
        if op in PRODUCTS and len(data) == 2:
            self.symmetric.update(data)
        self.quantized.add(value)
        self.known.add(value)

    def _root(self, value: str) -> str:
        while self.parent[value] != value:
            value = self.parent[value]
        return value

    # ---- what integer operators refuse ---------------------------------------------------------

    def weighted(self, layer: Layer, node: Node, data: list[str]) -> str | None:
        if len(data) != 1 or layer.node.input[0] != data[0]:
            return "its weight and bias must be constants"
        missing = [one for one in layer.node.input[1:]
                   if one and one not in self.network.tensors]
        return f"its constant {missing[0]!r} is computed" if missing else None

    def product(self, layer: Layer, node: Node, data: list[str]) -> str | None:
        if len(layer.node.input) == 2 and len(data) == 2:
            return None
        rank = np.ndim(self.network.tensors.get(layer.node.input[1], 0))
        return self.weighted(layer, node, data) or (
            None if rank == 2 else f"its weight must have 2 dimensions, not {rank}")

    def same_shapes(self, layer: Layer, node: Node, data: list[str]) -> str | None:
        shapes = [self.graph.values[value].shape for value in data]
        if len(data) != 2:
            return "one of its inputs is a constant"
        return None if shapes[0] == shapes[1] else (
            f"its inputs must have one shape, not {shapes[0]} and {shapes[1]}")

    def joined(self, layer: Layer, node: Node, data: list[str]) -> str | None:
        if len(data) != len(layer.node.input):
            return "one of its inputs is a constant"
        axis = node.attrs["axis"]
        return None if axis == 1 else f"its axis must be 1, the channels, not {axis}"

    def sloped(self, layer: Layer, node: Node, data: list[str]) -> str | None:
        alpha = node.attrs["alpha"]
        return None if 0 <= alpha <= 1 else f"its slope below zero must be 0 to 1, not {alpha:g}"

    def same(self, layer: Layer, node: Node, data: list[str]) -> str | None:
        if layer.node.op_type == "Optional":        # its result is no tensor in ONNX
            return "Optional has no integer form"
        return None if data[0] in self.quantized else "it changes nothing"

    def single(self, layer: Layer, node: Node, data: list[str]) -> str | None:
        return None


Rule = Callable[[_Planning, Layer, Node, list[str]], str | None]
RULES: dict[str, Rule] = {
    **dict.fromkeys(PRODUCTS, _Planning.weighted),
    "dense": _Planning.product, "matmul": _Planning.product,
    "add": _Planning.same_shapes, "concat": _Planning.joined,
    "avgpool": _Planning.single, "globalavgpool": _Planning.single,
    "leakyrelu": _Planning.sloped, "relu": _Planning.single, "clip": _Planning.single,
    **dict.fromkeys(PICKS, _Planning.single), "identity": _Planning.same,
}
"""Why an operator of the graph that has an integer form stays in float; None when it does not."""
