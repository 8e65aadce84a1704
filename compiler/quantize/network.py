"""A float graph as layers: products and sums are folded, activations joined with the nodes that
they clamp. Operators that the quantizer does not know pass through unchanged.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from compiler.graph.graph import Graph, Node, TensorType
from compiler.graph.passes.clean_up import CleanUp
from compiler.graph.passes.fold_constants import FoldConstants
from compiler.graph.rewrite import Builder
from compiler.ops.operator import Kind
from compiler.ops.registry import OPERATORS, find
from compiler.quantize.affine import Affine, as_convolution, fold, read_affine
from compiler.quantize.names import Names
from compiler.quantize.refusal import QuantizeRefused
from compiler.quantize.weights import WEIGHTED

__all__ = ["INTEGER_FORMS", "PICKS", "SLOPES", "Layer", "Network", "bounds", "built",
           "layers_after", "plain", "prepare"]

INTEGER_FORMS = {name for name, operator in OPERATORS.items()
                 if operator.integer or operator.bounds}
SLOPES = {name for name, operator in OPERATORS.items()
          if operator.homogeneous and operator.kind is Kind.ELEMENTWISE}
CLAMPED = {name for name in INTEGER_FORMS if OPERATORS[name].integer} - SLOPES
PICKS = {name for name, operator in OPERATORS.items() if operator.picks}
QUANTIZED = ("quantizelinear", "dequantizelinear", "quantize", "dequantize")

Array = np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A node, with the relu or clip behind it if that is its only reader. A matmul may have a bias
    as third input; `nodes` gives the add that graphs need for it. `names` are those of the graph's
    nodes that became this layer.
    """

    node: Node
    names: tuple[str, ...]
    clamp: Node | None = None

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
        return (*plain(self.node), *([] if self.clamp is None else [self.clamp]))


def plain(node: Node) -> list[Node]:
    """The node as graphs have it: a matmul with a bias becomes a matmul and an add."""
    if node.op != "matmul" or len(node.inputs) < 3:
        return [node]
    product = f"{node.outputs[0]}_product"
    return [replace(node, inputs=node.inputs[:2], outputs=(product,)),
            Node("add", f"{node.name}_bias", (product, node.inputs[2]), node.outputs)]


@dataclass(slots=True)
class Network:
    """Layers in topological order and constants by name. `graph` gives inputs and outputs. The
    layers' weights and biases may be replaced in place; `place` begins the messages of refusals.
    """

    graph: Graph
    layers: list[Layer]
    tensors: dict[str, Array]
    names: Names
    place: str

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

    def adopt(self, other: "Network") -> None:
        """Takes over the weights and biases of the same network with other extents."""
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


def prepare(graph: Graph, place: str = "model") -> Network:
    """The network of a float graph. Raises QuantizeRefused, with `place` before the reason."""
    for node in graph.nodes:
        if node.op in QUANTIZED:
            raise QuantizeRefused(f"{place}: is quantized already: {node.name} is a {node.op}; "
                                  "give the float model")
    graph = CleanUp()(FoldConstants()(graph))
    network = Network(graph, [], dict(graph.constants), Names(graph.values), place)
    _Preparation(network).run()
    return network


@dataclass(slots=True)
class _Preparation:
    """Visits the graph's nodes once, in order: folds each into the layer that made its input, or
    makes it a layer.
    """

    network: Network
    readers: Counter = field(default_factory=Counter)
    layers: dict[str, Layer] = field(default_factory=dict)     # by the value that they make
    own: dict[str, str] = field(default_factory=dict)          # original name of a layer's result

    def run(self) -> None:
        for node in self.network.graph.nodes:
            self.readers.update(node.inputs)
        self.readers.update(self.network.outputs)
        for node in self.network.graph.nodes:
            if not self._absorb_affine(node) and not self._absorb_clamp(node):
                self._add(Layer(node, (node.name,)))
        self.network.layers = list(self.layers.values())

    def _add(self, layer: Layer) -> None:
        self.layers[layer.value] = layer
        self.own.setdefault(layer.value, layer.value)

    def _before(self, value: str) -> Layer | None:
        """The layer that makes the value, if this is its only reader."""
        return self.layers.get(value) if self.readers[value] == 1 else None

    def _absorb_affine(self, node: Node) -> bool:
        network, types = self.network, self.network.graph.values
        affine = read_affine(node, network.tensors, types)
        if affine is None:
            return False
        before = self._before(affine.source)
        if before is not None and before.clamp is None and self._fold(before, node, affine):
            return True
        source = self._moved(affine.source)
        if source is not None and source.node.op not in INTEGER_FORMS:
            return False            # a step between two float nodes, as in 1 / (1 + exp(-x))
        alone = as_convolution(node, affine, network.tensors, network.names, types)
        if alone is not None:
            self._add(Layer(alone, (node.name,)))
        return alone is not None

    def _moved(self, value: str) -> Layer | None:
        """The layer that computes the elements; layers in between only moved them."""
        layer = self.layers.get(value)
        while layer is not None and layer.node.op in PICKS:
            layer = self.layers.get(layer.node.inputs[0])
        return layer

    def _fold(self, before: Layer, node: Node, affine: Affine) -> bool:
        network, node_before = self.network, before.node
        shared = any(self.readers[name] > 1 for name in node_before.inputs[1:2])
        rank = len(network.graph.values[affine.source].shape)
        folded = fold(node_before, affine, network.tensors, network.names, shared, rank)
        if folded is None:
            return False
        del self.layers[before.value]
        self.own[node.outputs[0]] = self.own.pop(before.value)
        name = node.name if before.name.startswith(f"{node.name}.") else before.name
        self._add(Layer(replace(folded, name=name, outputs=node.outputs),
                        (*before.names, node.name)))
        return True

    def _absorb_clamp(self, node: Node) -> bool:
        """Joins a relu or clip with an operator that can clamp, which gets its original name back.
        """
        if bounds(node) is None:
            return False
        before = self._before(node.inputs[0])
        if before is None or before.clamp is not None or before.node.op not in CLAMPED:
            return False
        del self.layers[before.value]
        inner = self.own.pop(before.value)
        self._add(replace(before, node=replace(before.node, outputs=(inner,)),
                          clamp=replace(node, inputs=(inner,)), names=(*before.names, node.name)))
        return True


def layers_after(network: Network, value: str) -> Iterator[Layer]:
    """All layers that depend on the value, in order."""
    reached = {value}
    for layer in network.layers:
        if reached.intersection(layer.read):
            reached.add(layer.value)
            yield layer
