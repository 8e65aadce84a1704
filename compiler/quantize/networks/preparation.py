"""A float graph becomes layers: products and sums are folded, activations joined with the nodes
that they clamp, elementwise operators with each other. Operators that the quantizer does not know
pass through unchanged.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from compiler.graph.graph import Graph, Node
from compiler.graph.passes.clean_up import CleanUp
from compiler.graph.passes.fold_constants import FoldConstants
from compiler.graph.passes.gathers import GathersAsSlices
from compiler.graph.passes.puts import WheresAsPuts
from compiler.graph.passes.reductions import ReductionsAsPools
from compiler.graph.passes.sequences import SequencesAsImages
from compiler.ops.patterns import Pattern
from compiler.ops.term_patterns import TermPattern
from compiler.ops.registry import OPERATORS
from compiler.quantize.networks.affine import Affine, as_convolution, fold, read_affine
from compiler.quantize.networks.functions import with_functions
from compiler.quantize.networks.matching import Match, matches_of
from compiler.quantize.networks.names import Names
from compiler.quantize.networks.network import (FUNCTION, INTEGER_FORMS, PICKS, SLOPES, Layer,
                                                LayeredNetwork, bounds)
from compiler.quantize.networks.totals import totals_of
from compiler.quantize.ranges.refusal import QuantizeRefused

CLAMPED = {name for name in INTEGER_FORMS if OPERATORS[name].integer} - SLOPES
QUANTIZED = ("quantizelinear", "dequantizelinear", "quantize", "dequantize")


def prepare(graph: Graph, place: str = "model",
            patterns: Sequence[Pattern | TermPattern] = (),
            without: Collection[tuple[str, str]] = ()) -> LayeredNetwork:
    """The network of a float graph, in which constants may be dequantized; what patterns match are
    layers, but where `without` names a pattern with the value that it would make. Raises
    QuantizeRefused, with `place` before the reason.
    """
    graph = FoldConstants()(graph)
    for node in graph.nodes:
        if node.op in QUANTIZED:
            raise QuantizeRefused(f"{place}: is quantized already: {node.name} is a {node.op}; "
                                  "give the float model")
    for change in (GathersAsSlices(), WheresAsPuts(), SequencesAsImages(), CleanUp(),
                   ReductionsAsPools(before_products=True)):
        graph = change(graph)
    network = LayeredNetwork(graph, [], dict(graph.constants), Names(graph.values), place,
                      matched=_matched(graph, patterns, without))
    _Preparation(network).run()
    return network


def _matched(graph: Graph, patterns: Sequence[Pattern | TermPattern],
             without: Collection[tuple[str, str]]) -> dict[str, Match]:
    """Finds what patterns match, sums first."""
    sums = totals_of(graph, [each for each in patterns if isinstance(each, TermPattern)], without)
    inside = {node.outputs[0] for match in sums.values() for node in match.nodes}
    return sums | matches_of(graph, [each for each in patterns if isinstance(each, Pattern)],
                             inside, without)


@dataclass(slots=True)
class _Preparation:
    """Visits the graph's nodes in order: folds each into the layer that made its input, or makes it
    a layer; those that a pattern matches are one. Then layers are joined to functions; a product or
    sum that still stands alone becomes a convolution, which takes those that follow.
    """

    network: LayeredNetwork
    readers: Counter = field(default_factory=Counter)
    layers: dict[str, Layer] = field(default_factory=dict)     # by the value that they make
    own: dict[str, str] = field(default_factory=dict)          # original name of a layer's result

    def run(self) -> None:
        for node in self.network.graph.nodes:
            self.readers.update(node.inputs)
        self.readers.update(self.network.outputs)
        matched = self.network.matched
        inside = {node.outputs[0] for match in matched.values() for node in match.nodes}
        for node in self.network.graph.nodes:
            if node.outputs[0] in matched:
                self._add(Layer.of_function([Layer(each, (each.name,)) for each in
                                             matched[node.outputs[0]].nodes]))
            elif node.outputs[0] not in inside:
                self._visit(node, (node.name,))
        self.network.layers = list(self.layers.values())
        self.network.layers = with_functions(self.network)
        self.network.matched = {
            layer.value: matched[layer.value] for layer in self.network.layers
            if layer.value in matched and layer.body == matched[layer.value].nodes}
        self.layers = {}
        for layer in self.network.layers:
            if layer.body or self._affine(layer.node) is None and bounds(layer.node) is None:
                self._add(layer)
            else:
                self._visit(layer.node, layer.names[:-1] if layer.clamp else layer.names, True)
                if layer.clamp:
                    self._visit(layer.clamp, layer.names[-1:])
        self.network.layers = list(self.layers.values())

    def _visit(self, node: Node, names: tuple[str, ...], alone: bool = False) -> None:
        if not self._absorb_affine(node, alone) and not self._absorb_clamp(node):
            self._add(Layer(node, names))

    def _add(self, layer: Layer) -> None:
        self.layers[layer.value] = layer
        self.own.setdefault(layer.value, layer.value)

    def _before(self, value: str) -> Layer | None:
        """The layer that makes the value, if this is its only reader."""
        return self.layers.get(value) if self.readers[value] == 1 else None

    def _affine(self, node: Node) -> Affine | None:
        return read_affine(node, self.network.tensors, self.network.graph.values)

    def _absorb_affine(self, node: Node, alone: bool) -> bool:
        network, affine = self.network, self._affine(node)
        if affine is None:
            return False
        before = self._before(affine.source)
        if before is not None and before.clamp is None and self._fold(before, node, affine):
            return True
        if not alone:
            return False
        source = self._moved(affine.source)
        if source is not None and not self._may_be_quantized(source):
            return False            # a step between two float nodes, as in 1 / (1 + exp(-x))
        made = as_convolution(node, affine, network.tensors, network.names, network.graph.values)
        if made is not None:
            self._add(Layer(made, (node.name,)))
        return made is not None

    def _may_be_quantized(self, layer: Layer) -> bool:
        """True if the layer has an integer form, or is a table."""
        data = [value for value in layer.read if value not in self.network.tensors]
        return layer.node.op in INTEGER_FORMS or (layer.node.op == FUNCTION and len(data) == 1)

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
