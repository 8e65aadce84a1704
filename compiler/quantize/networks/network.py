"""A float network as layers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from compiler.graph.graph import Graph, Node, TensorType
from compiler.graph.rewrite import Builder
from compiler.ops.records.operator import Kind
from compiler.ops.registry import OPERATORS, find
from compiler.quantize.networks.matching import Match
from compiler.quantize.networks.names import Names
from compiler.quantize.networks.weights import WEIGHTED
from compiler.quantize.ranges.groups import WeightGroups

FUNCTION = "function"
"""The operator of a layer that is several elementwise operators."""

INTEGER_FORMS = {name for name, operator in OPERATORS.items()
                 if operator.integer or operator.bounds}
SLOPES = {name for name, operator in OPERATORS.items()
          if operator.homogeneous and operator.kind is Kind.ELEMENTWISE}
FILLS = {name for name, operator in OPERATORS.items() if operator.fills}
PICKS = {name for name, operator in OPERATORS.items() if operator.picks}

Array = np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A node, with the relu or clip behind it if that is its only reader. A matmul may have a bias
    as third input; `nodes` gives the add that graphs need for it. The node of a function reads what
    its operators, in `body`, read from others. `names` are those of the graph's nodes that became
    this layer.
    """

    node: Node
    names: tuple[str, ...]
    clamp: Node | None = None
    body: tuple[Node, ...] = ()

    @classmethod
    def of_function(cls, layers: "Sequence[Layer]") -> "Layer":
        """One layer for elementwise layers, in order, of which others read the last value alone."""
        body = [node for layer in layers for node in layer.nodes()]
        inner = {value for node in body for value in node.outputs}
        read = dict.fromkeys(value for node in body for value in node.inputs if value not in inner)
        node = Node(FUNCTION, layers[-1].name, tuple(read), body[-1].outputs)
        return cls(node, tuple(name for layer in layers for name in layer.names), body=tuple(body))

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def value(self) -> str:
        """The value that the layer makes."""
        return (self.clamp or self.node).outputs[0]

    @property
    def inner(self) -> str:
        """The value that the node makes, before the clamp."""
        return self.node.outputs[0]

    @property
    def read(self) -> tuple[str, ...]:
        """The values that the layer reads, constants included."""
        return tuple(dict.fromkeys(self.node.inputs))

    def nodes(self) -> tuple[Node, ...]:
        """The layer as graphs have it."""
        return (*self.computing(self.node.inputs, self.inner),
                *([] if self.clamp is None else [self.clamp]))

    def computing(self, reads: Sequence[str], result: str) -> tuple[Node, ...]:
        """The nodes that compute the layer, without its clamp, from values in the place of what its
        node reads: a matmul with a bias becomes a matmul and an add.
        """
        node = replace(self.node, inputs=tuple(reads), outputs=(result,))
        if self.body:
            names = dict(zip((*self.node.inputs, self.inner), (*reads, result), strict=True))
            return tuple(replace(one, inputs=tuple(names.get(value, value) for value in one.inputs),
                                 outputs=tuple(names.get(value, value) for value in one.outputs))
                         for one in self.body)
        if node.op != "matmul" or len(node.inputs) < 3:
            return (node,)
        product = f"{result}_product"
        return (replace(node, inputs=node.inputs[:2], outputs=(product,)),
                Node("add", f"{node.name}_bias", (product, node.inputs[2]), node.outputs))


@dataclass(frozen=True, slots=True, eq=False)
class RoundedWeight:
    """Integers of a constant weight, in its shape, and the float32 scale of each output channel
    that they are multiples of. `factors` [channels, inputs] are those of groups: the integers are
    numbers of few bits times them.
    """

    steps: Array
    scale: Array
    factors: Array | None = None


@dataclass(slots=True)
class LayeredNetwork:
    """Layers in topological order and constants by name. `graph` gives inputs and outputs. The
    layers' weights and biases may be replaced in place; `place` begins the messages of refusals.
    `weight_bits` are those of the weights of layers that have fewer than 8, by `Layer.inner`;
    of matrices these have a scale for each of `weight_groups`, where there are such;
    `activation_bits` are those of activations, `accumulator_bits` those of sums.
    `matched` says of layers, by their value, which pattern they are: its instruction's meaning
    takes their place. `rounded` has weights whose integers are chosen, by `Layer.inner`; those of
    others are the nearest.
    """

    graph: Graph
    layers: list[Layer]
    tensors: dict[str, Array]
    names: Names
    place: str
    weight_bits: Mapping[str, int] = field(default_factory=dict)
    activation_bits: int = 8
    accumulator_bits: int = 32
    weight_groups: WeightGroups | None = None
    matched: Mapping[str, Match] = field(default_factory=dict)
    rounded: Mapping[str, RoundedWeight] = field(default_factory=dict)

    @property
    def inputs(self) -> dict[str, TensorType]:
        return {value: self.graph.values[value] for value in self.graph.inputs}

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.graph.outputs

    def readers(self) -> dict[str, list[Layer]]:
        """The layers that read each value."""
        readers: dict[str, list[Layer]] = {}
        for layer in self.layers:
            for value in layer.read:
                readers.setdefault(value, []).append(layer)
        return readers

    def adopt(self, other: "LayeredNetwork") -> None:
        """Takes over the weights and biases of the same network with other extents."""
        self.weight_bits, self.activation_bits = other.weight_bits, other.activation_bits
        self.accumulator_bits, self.weight_groups = other.accumulator_bits, other.weight_groups
        self.rounded = other.rounded
        self.matched = {value: match for value, match in self.matched.items()
                        if value in other.matched}
        weighted = {layer.value: layer.node for layer in other.layers
                    if layer.node.op in WEIGHTED and layer.node.inputs[1] in other.tensors}
        for place, layer in enumerate(self.layers):
            node = weighted.get(layer.value)
            if node is not None:
                constants = node.inputs[1:]
                node = replace(node, inputs=(layer.node.inputs[0], *constants),
                               outputs=layer.node.outputs)
                self.layers[place] = replace(layer, node=node)
                self.tensors.update((name, other.tensors[name]) for name in constants)

    def float_graph(self) -> Graph:
        """The layers as a float graph."""
        nodes = [node for layer in self.layers for node in layer.nodes()]
        return built(self.graph.name, self.inputs, nodes, self.tensors, self.outputs)


def built(name: str, inputs: Mapping[str, TensorType], nodes: Iterable[Node],
          tensors: Mapping[str, Array], outputs: Iterable[str]) -> Graph:
    """Builds a graph with the constants that its nodes read or that are its outputs."""
    nodes, outputs = list(nodes), list(outputs)
    builder = Builder(name)
    for value, type_ in inputs.items():
        builder.add_input(value, type_)
    read = dict.fromkeys((*(value for node in nodes for value in node.inputs), *outputs))
    for value in read:
        if value in tensors:
            builder.add_constant(value, tensors[value])
    for node in nodes:
        builder.add(node)
    return builder.finish(outputs)


def bounds(clamp: Node) -> tuple[float, float] | None:
    """The bounds of a relu or clip; None for other nodes."""
    rule = find(clamp.op).bounds
    return None if rule is None else rule(clamp.attrs)


def is_operand(constant: Array | None) -> bool:
    """True if arithmetic takes a constant as a tensor with a scale of its own: one of several
    dimensions, as the sines and cosines of rotary positions are.
    """
    return (constant is not None and constant.dtype == np.float32
            and bool(np.isfinite(constant).all()) and sum(n > 1 for n in constant.shape) > 1)


def layers_after(network: LayeredNetwork, value: str) -> Iterator[Layer]:
    """All layers that depend on the value, in order."""
    reached = {value}
    for layer in network.layers:
        if reached.intersection(layer.read):
            reached.add(layer.value)
            yield layer
