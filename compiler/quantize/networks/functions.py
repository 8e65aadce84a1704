"""Operators between layers as one layer: elementwise ones that are a function of one value, which
is a table of 256 numbers in int8, or arithmetic of two values; softmax and layer normalization.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compiler.graph.integerize.maps import is_arithmetic
from compiler.graph.integerize.row_functions import Values, recognized
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find
from compiler.quantize.networks.affine import read_affine
from compiler.quantize.networks.network import (INTEGER_FORMS, PICKS, Layer, LayeredNetwork,
                                                is_operand)


def with_functions(network: LayeredNetwork) -> list[Layer]:
    """The network's layers. Those that compute elementwise from one value, or in arithmetic from
    two, are joined as far as nothing else reads what lies between; where integer operators of their
    own compute them all, they stay as they are. So are those of softmax and layer normalization
    along the last axis.
    """
    network = replace(network, layers=_with_row_functions(network))
    return _Grouping(network).run()


def _with_row_functions(network: LayeredNetwork) -> list[Layer]:
    """The layers, with one for all that compute a function of rows."""
    nodes = {node.outputs[0]: node for layer in network.layers for node in layer.nodes()}
    values = Values(nodes.get, network.tensors.get, lambda value: network.graph.values[value].shape)
    readers, owner = network.readers(), {layer.value: layer for layer in network.layers}
    joined: dict[str, Layer] = {}
    whole: dict[str, list[Layer]] = {}
    for layer in reversed(network.layers):
        found = None if layer.value in joined else recognized(values, layer.value)
        if found is None or network.graph.values[layer.value].dtype != "float32":
            continue
        inside = found.nodes - {layer.value}
        members = [owner.get(value) for value in found.nodes]
        if all(member is not None and len(member.nodes()) == 1 for member in members) and all(
                reader.value in found.nodes for value in inside for reader in readers[value]
                ) and not inside.intersection(network.outputs):
            joined |= dict.fromkeys(found.nodes, layer)
            whole[layer.value] = [other for other in network.layers if other.value in found.nodes]
    return [Layer.of_function(whole[layer.value]) if layer.value in whole else layer
            for layer in network.layers if layer.value in whole or layer.value not in joined]


@dataclass(slots=True)
class _Grouping:
    network: LayeredNetwork
    readers: Mapping[str, list[Layer]] = field(init=False)
    source: dict[str, str] = field(default_factory=dict)
    """The only value that an elementwise value depends on."""
    joins: set[str] = field(default_factory=set)
    """Values that arithmetic makes of two; they are sources of what depends on them."""
    members: dict[str, list[Layer]] = field(default_factory=dict)
    """The layers of each function, by its result."""

    def __post_init__(self):
        self.readers = self.network.readers()

    def run(self) -> list[Layer]:
        layers = self.network.layers
        for layer in layers:
            self._trace(layer)
        ends: dict[str, str] = {}
        for layer in reversed(layers):
            end = ends[layer.value] = self._end(layer, ends)
            self.members.setdefault(end, []).insert(0, layer)
        whole = {end for end, members in self.members.items() if self._is_function(members)}
        result: list[Layer] = []
        for layer in layers:
            end = ends[layer.value]
            if end not in whole:
                result.append(layer)
            elif end == layer.value:
                result.append(Layer.of_function(self.members[end]))
        return result

    def _trace(self, layer: Layer) -> None:
        """The inputs that the layer's value depends on, if it computes elementwise from values and
        numbers."""
        tensors = self.network.tensors
        computed = [value for value in layer.read if value not in tensors]
        operands = [value for value in layer.read if is_operand(tensors.get(value))]
        numbers = [tensors[value] for value in layer.read
                   if value in tensors and value not in operands]
        data = computed + operands
        if (layer.body or not computed
                or any(find(node.op).kind is not Kind.ELEMENTWISE for node in layer.nodes())
                or any(number.size != 1 for number in numbers)):
            return
        sources = {self.source.get(value, value) for value in data}
        if len(sources) == 1 and self._shape(*sources) == self._shape(layer.value):
            self.source[layer.value] = sources.pop()
        elif len(data) == 2 and self._is_arithmetic([layer]) and not self._has_form(layer):
            self.joins.add(layer.value)

    def _end(self, layer: Layer, ends: Mapping[str, str]) -> str:
        """The result of the function that the layer belongs to: its own value, or that of its
        readers where these alone read it.
        """
        value, readers = layer.value, self.readers.get(layer.value, [])
        own = self.source.get(value, value if value in self.joins else None)
        after = {ends[reader.value] for reader in readers}
        if (own is None or value in self.network.outputs or len(after) != 1
                or any(self.source.get(reader.value) != own for reader in readers)):
            return value
        (end,) = after
        if value in self.joins and not self._is_arithmetic(self.members[end]):
            return value
        return end

    def _is_function(self, members: Sequence[Layer]) -> bool:
        """True if layers are better one function than what they are."""
        types, last = self.network.graph.values, members[-1].value
        if any(layer.value in self.joins for layer in members):
            return types[last].dtype == "float32"
        first = self.source.get(last)
        if first is None or {types[first].dtype, types[last].dtype} != {"float32"}:
            return False
        return (any(not self._has_form(layer) for layer in members)
                or any(value in self.source for value in self._outside(members)))

    def _outside(self, members: Sequence[Layer]) -> Collection[str]:
        """The values that a function reads."""
        inner = {layer.value for layer in members}
        return {value for layer in members for value in layer.read if value not in inner}

    def _has_form(self, layer: Layer) -> bool:
        """True if an integer operator computes the layer."""
        node, types = layer.node, self.network.graph.values
        affine = read_affine(node, self.network.tensors, types)
        if affine is not None:
            return len(types[affine.source].shape) == 4
        if node.op in PICKS or node.op == "identity":
            return True
        refused = find(node.op).hindrance
        return node.op in INTEGER_FORMS and not any(
            value in self.network.tensors for value in node.inputs) and not (
            refused and refused(node.attrs, [types[value].shape for value in node.inputs]))

    def _is_arithmetic(self, layers: Sequence[Layer]) -> bool:
        types = self.network.graph.values
        return all(is_arithmetic(node, [types[value] for value in node.inputs])
                   for layer in layers for node in layer.nodes())

    def _shape(self, value: str) -> tuple[int, ...]:
        return self.network.graph.values[value].shape
