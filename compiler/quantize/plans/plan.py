"""Plans which layers are quantized, and which values share a scale.

A layer is quantized when an integer operator exists for it: with constant weights anywhere, and so
is a mean that products read, any other when it reads a quantized value or an input of the network.
A function (`functions`) is
quantized when all that it reads is, and a quantized layer computes from its result; one that an
instruction of the machine matches, wherever all that it reads is. An operator
that only moves elements keeps the scale of its input. All inputs of a concatenation have the scale
of its result, which spans them all, so that joining them moves bytes and computes nothing. A
constant of many elements that is added, multiplied or joined is quantized as a computed value is.
What is subtracted from, or compared with, something else has the scale of that, which spans both;
so has the constant of a sum of terms that an instruction matches, unless these are products.
Both inputs of a product of computed values have zero point 128, which is 0 in int8.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from compiler.graph.graph import Node, TensorType
from compiler.graph.integerize.maps import compares
from compiler.ops.records.operator import Kind
from compiler.ops.records.weights import of_channels
from compiler.ops.registry import find
from compiler.ops.term_patterns import TermPattern
from compiler.quantize.networks.network import (FILLS, FUNCTION, INTEGER_FORMS, PICKS, Layer,
                                                LayeredNetwork, is_operand)
from compiler.quantize.networks.weights import MATRICES, WEIGHTED, outputs
from compiler.quantize.ranges.scales import Scale

Ranges = Mapping[str, tuple[float, float]]
MOVES = {*PICKS, *FILLS, "identity"}
"""Operators that only move elements of their input, zeros among them, and keep its scale."""
JOINS = ("concat", "put_place")
"""Operators whose inputs all have the scale of the result."""
MOST_TIMES = 8
"""How many times wider than the other data a constant may be that is quantized beside it."""
USELESS = "no quantized layer computes from its result"
PART_TIMES = 4
"""How many times wider than a part the whole must be for the part to have a scale of its own."""
PART_OF_FLOAT = "its part of what is in float has a scale of its own"
QUANTIZABLE = {*MOVES, *INTEGER_FORMS}


@dataclass(frozen=True, slots=True)
class Plan:
    """`quantized` holds the values that quantized layers make, `reasons` why each other layer
    stays in float, by its name. `scale_of` names, for each value that is read quantized, the value
    whose scale constants it has; values with equal groups have equal scales. `constants` has the
    ranges of those that are quantized with one scale. `outer` are the groups of the network's
    inputs and outputs, which have 8 bits where others have fewer.
    """

    quantized: frozenset[str]
    reasons: Mapping[str, str]
    groups: Mapping[str, str] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)
    symmetric: frozenset[str] = frozenset()
    constants: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    activation_bits: int = 8
    outer: frozenset[str] = frozenset()

    def origin(self, value: str) -> str:
        """The value whose elements were moved to make this one; itself where none were."""
        while value in self.moved:
            value = self.moved[value]
        return value

    def within(self, network: LayeredNetwork, scales: Mapping[str, Scale]) -> "Plan":
        """The plan restricted to the network with other extents, whose operators may differ."""
        known = {layer.value for layer in network.layers
                 if all(value in scales or value in network.tensors for value in layer.node.inputs)}
        return replace(self, quantized=self.quantized & known)

    def scales(self, ranges: Ranges) -> dict[str, Scale]:
        """The scale of every value that quantized layers read or make. A group spans the ranges of
        all its values that are not merely moved.
        """
        spans: dict[str, tuple[float, float]] = {}
        for value, group in self.groups.items():
            if value not in self.moved:
                low, high = self.constants.get(value) or ranges[value]
                before = spans.get(group, (low, high))
                spans[group] = min(low, before[0]), max(high, before[1])
        symmetric = {self.groups[value] for value in self.symmetric}
        return {value: Scale.of(*spans[group], group in symmetric, self._bits(group))
                for value, group in self.groups.items()}

    def _bits(self, group: str) -> int:
        return max(self.activation_bits, 8 if group in self.outer else 0)


def hindrance(node: Node, rank: int) -> str:
    """Why a node that makes a value of this rank has no integer form."""
    if node.op == "conv" and rank > 4:
        return f"it convolves over {rank - 2} dimensions, and integer operators over 1 or 2"
    if find(node.op).places:
        return "it gives a place, which has no scale; it is found in int8 where its input is"
    return f"{node.op} has no integer form"


def make_plan(network: LayeredNetwork, kept: Mapping[str, str] | None = None,
              unbounded: Collection[str] = ()) -> Plan:
    """The plan for a network. Layers whose name is in `kept` stay in float, for the reason given
    there, and so do those that read or make one of the `unbounded` values, which have no range.
    """
    reasons = dict(kept or {})
    while True:
        plan = _Planning(network, dict(reasons), unbounded).run()
        useless = _useless(network, plan)
        if not useless:
            return plan
        reasons |= dict.fromkeys(useless, USELESS)


def disproportionate(network: LayeredNetwork, plan: Plan, ranges: Ranges) -> dict[str, str]:
    """Why layers with a constant of a scale of its own stay in float, by name: of what else the
    layer reads few steps would be left, as behind a mask of -10000.
    """
    reasons: dict[str, str] = {}
    for layer in network.layers:
        if (layer.value in plan.quantized and not plan.constants.keys().isdisjoint(layer.read)
                and _shares_scale(network, layer)):
            spans = {value: _width(plan.constants.get(value) or ranges.get(plan.origin(value)))
                     for value in layer.read}
            widest, data = (max((span for value, span in spans.items()
                                 if (value in plan.constants) is constant), default=0.0)
                            for constant in (True, False))
            if widest > MOST_TIMES * data:
                reasons[layer.name] = (f"its constant spans {widest:.3g}, more than {MOST_TIMES} "
                                       f"times what else it reads, {data:.3g}")
    return reasons


def in_own_scales(network: LayeredNetwork, plan: Plan, ranges: Ranges) -> dict[str, str]:
    """Why layers that move numbers stay in float, by name, so that parts of very different ranges
    have scales of their own: those that take a narrow part of what is in float, and those that join
    one with others for what is in float.
    """
    def width(value: str) -> float:
        return _width(plan.constants.get(value) or ranges.get(value))

    useful, reasons = _useful(network, plan), dict[str, str]()
    for layer in network.layers:
        op, value = layer.node.op, layer.value
        if value not in plan.quantized or value not in ranges:
            continue
        parts = [value] if op in PICKS else list(layer.read) if op == "concat" else []
        whole = layer.node.inputs[0] if op in PICKS else value
        loose = whole not in plan.quantized if op in PICKS else value not in useful
        narrow = min((width(part) for part in parts), default=0.0)
        if loose and 0 < PART_TIMES * narrow < width(whole):
            reasons[layer.name] = (f"{PART_OF_FLOAT}: it spans {narrow:.3g} of {width(whole):.3g}")
    return reasons


def _shares_scale(network: LayeredNetwork, layer: Layer) -> bool:
    """True if numbers that the layer reads meet in other than products."""
    match = network.matched.get(layer.value)
    if match is not None and isinstance(match.pattern, TermPattern):
        return match.pattern.shares
    return any(node.op != "mul" for node in layer.nodes())


def _width(span: tuple[float, float] | None) -> float:
    """The width of the range that a scale for these numbers spans."""
    return max(span[1], 0.0) - min(span[0], 0.0) if span else 0.0


def _useless(network: LayeredNetwork, plan: Plan) -> list[str]:
    """The quantized functions from which no quantized layer computes, other functions aside."""
    useful = _useful(network, plan)
    return [layer.name for layer in reversed(network.layers) if layer.node.op == FUNCTION
            and layer.value in plan.quantized and layer.value not in (*useful, *network.matched)]


def _useful(network: LayeredNetwork, plan: Plan) -> set[str]:
    """The values that quantized layers compute from, functions and what only moves numbers aside
    where nothing computes from their results.
    """
    useful: set[str] = set()
    for layer in reversed(network.layers):
        value, op = layer.value, layer.node.op
        if value in plan.quantized and (value in useful or value in network.matched or not (
                op == FUNCTION or op in MOVES or op in JOINS)):
            useful.update(layer.read)
    return useful


@dataclass(slots=True)
class _Planning:
    network: LayeredNetwork
    kept: dict[str, str]
    unbounded: Collection[str]
    types: dict[str, TensorType] = field(default_factory=dict)
    quantized: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)        # quantized values and network inputs
    parent: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    symmetric: set[str] = field(default_factory=set)
    constants: dict[str, tuple[float, float]] = field(default_factory=dict)

    def run(self) -> Plan:
        reasons = dict(self.kept)
        self.types.update(self.network.graph.values)
        self.known.update(self.network.inputs)
        self.known.update(layer.value for layer in self.network.layers if self._looks_up(layer))
        for layer in self.network.layers:
            reason = self._reason(layer)
            if reason is None:
                self._quantize(layer)
            else:
                reasons[layer.name] = reason
                if reason.startswith(PART_OF_FLOAT) and self.known.intersection(self.data(layer)):
                    self.known.add(layer.value)
        groups = {value: self._root(value) for value in self.parent}
        ends = groups.keys() & {*self.network.inputs, *self.network.outputs}
        return Plan(frozenset(self.quantized), reasons, groups, self.moved,
                    frozenset(self.symmetric), self.constants, self.network.activation_bits,
                    frozenset(groups[value] for value in ends))

    def _reason(self, layer: Layer) -> str | None:
        """Why the layer stays in float."""
        if layer.name in self.kept:
            return self.kept[layer.name]
        node, data = layer.node, self.data(layer)
        if node.op not in QUANTIZABLE and node.op != FUNCTION:
            return hindrance(node, len(self.types[layer.value].shape))
        for value in data if node.op in MOVES else (*data, layer.value):
            if value in self.unbounded:
                return f"value {value!r} is not finite for all calibration samples"
        if any(self.types[value].dtype != "float32" for value in data):
            return "its values are no float32 numbers"
        wide = self.network.activation_bits > 8
        match = self.network.matched.get(layer.value)
        if wide and node.op == FUNCTION and (match is None or match.weight):
            return "functions of elements are of 8 bits, and activations have 16"
        if wide and node.op in WEIGHTED and len(data) == 2:
            return "products of computed values are of 8 bits, and activations have 16"
        if node.op == FUNCTION:
            loose = [value for value in data if value not in self.known]
            return f"it reads {loose[0]!r}, which is not quantized" if loose else None
        weighted = (node.op in WEIGHTED and len(data) == 1) or node.op == "mean"
        if not weighted and not self.known.intersection(data):
            return "it reads no quantized value"
        return self._refusal(layer, data)

    def data(self, layer: Layer) -> list[str]:
        """The computed numbers that the layer reads; conditions of a mask, and the position of what
        is put, are none.
        """
        other = {FUNCTION: "bool", "put_place": "int64"}.get(layer.node.op)
        return [value for value in layer.node.inputs if value not in self.network.tensors
                and self.types[value].dtype != other]

    def _quantize(self, layer: Layer) -> None:
        op, data, value = layer.node.op, self.data(layer), layer.value
        for constant in self._operands(layer):
            tensor = self.network.tensors[constant]
            self.constants[constant] = float(tensor.min()), float(tensor.max())
            data.append(constant)
        for member in (*data, value):
            self.parent.setdefault(member, member)
        if op in MOVES:
            self.moved[value] = data[0]
        if op in MOVES or op in JOINS:
            for member in data:
                self.parent[self._root(member)] = self._root(value)
        if op in WEIGHTED and len(data) == 2:
            self.symmetric.update(data)
        for one, other in self._compared(layer):
            self.parent[self._root(one)] = self._root(other)
        match = self.network.matched.get(value)
        if match is not None and isinstance(match.pattern, TermPattern):
            if match.pattern.shares:
                self.parent[self._root(match.weight)] = self._root(match.sources[0])
            if not match.pattern.moves:
                self.symmetric.update((match.weight, *match.sources))
        self.quantized.add(value)
        self.known.add(value)

    def _looks_up(self, layer: Layer) -> bool:
        """True if the layer takes rows of a constant, which are then like an input: those of a
        position, say.
        """
        read = layer.node.inputs
        return (layer.node.op == "gather" and read[0] in self.network.tensors
                and self.types[layer.value].dtype == "float32")

    def _compared(self, layer: Layer) -> Iterator[tuple[str, str]]:
        """Pairs of values that the layer compares or subtracts, and that quantized layers compute.
        """
        for node in layer.body:
            if (set(node.inputs) <= self.quantized
                    and compares(node, [self.types[value] for value in node.inputs])):
                yield node.inputs[0], node.inputs[1]

    def _operands(self, layer: Layer) -> list[str]:
        """The constants that stand in the place of computed values."""
        tensors, node = self.network.tensors, layer.node
        match = self.network.matched.get(layer.value)
        if match is not None:
            return [match.weight] if match.weight else []
        if node.op == FUNCTION:
            alone = all(find(inner.op).kind is Kind.ELEMENTWISE for inner in layer.body)
            return [value for value in node.inputs if alone and is_operand(tensors.get(value))]
        if find(node.op).constants is None:
            return []
        return [value for value in node.inputs if value in tensors]

    def _root(self, value: str) -> str:
        while self.parent[value] != value:
            value = self.parent[value]
        return value

    # ---- refusals of integer operators ---------------------------------------------------------

    def weighted(self, node: Node, data: list[str]) -> str | None:
        if len(data) != 1 or node.inputs[0] != data[0]:
            return "its weight and bias must be constants"
        count = outputs(node, self.network.tensors[node.inputs[1]])
        for bias in (self.network.tensors[name] for name in node.inputs[2:]):
            if bias.size not in (1, count):
                return f"its bias must have 1 or {count} elements, not {bias.size}"
            if of_channels(bias, count) is None:
                return f"its bias must have one element for each channel, not shape {bias.shape}"
        return None

    def product(self, node: Node, data: list[str]) -> str | None:
        if len(node.inputs) == 2 and len(data) == 2:
            return None
        rank = np.ndim(self.network.tensors.get(node.inputs[1], 0))
        if len(data) == 1 and node.inputs[0] == data[0] and rank != 2:
            return f"its weight must have 2 dimensions, not {rank}"
        return self.weighted(node, data)

    def _refusal(self, layer: Layer, data: list[str]) -> str | None:
        """Why a layer cannot be an integer operator."""
        node = layer.node
        if node.op in MATRICES:
            return self.product(node, data)
        if node.op in WEIGHTED:
            return self.weighted(node, data)
        if node.op == "identity":
            return None if data[0] in self.quantized else "it changes nothing"
        if node.op == "put_place":
            return None if len(data) == 2 else "it puts a constant"
        if node.op in FILLS:
            number = self.network.tensors.get(node.inputs[-1], np.zeros(()))
            return None if len(data) == 1 and not number.any() else (
                f"it fills with {number.item():g}, which the scale of its input may not have")
        operands = self._operands(layer)
        if len(data) + len(operands) != len(node.inputs):
            return "one of its inputs is a constant"
        for value in operands:
            if reason := self._constant_refusal(node, self.network.tensors[value]):
                return reason
        refused, result = find(node.op).hindrance, self.types[node.outputs[0]].shape
        repeated = find(node.op).kind is Kind.ELEMENTWISE
        return refused and refused(node.attrs, [
            result if repeated and value in operands else np.shape(self.network.tensors[value])
            if value in operands else self.types[value].shape for value in node.inputs])

    def _constant_refusal(self, node: Node, tensor: np.ndarray) -> str | None:
        refused = find(node.op).constants
        if tensor.dtype != np.float32 or not np.isfinite(tensor).all():
            return "one of its inputs is a constant that is no tensor of finite float32 numbers"
        return refused and refused(tensor.shape)
