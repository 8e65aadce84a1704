"""Places for an int8 between a product and a function of it, found in a graph."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from compiler.graph.functions.before import Between, Function, int8_before, is_in_products
from compiler.graph.functions.pairs import BytePair, PairPlace, PairSearch, read_by
from compiler.graph.functions.rests import Rest, rest_of
from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.quantized import QuantizedView
from compiler.graph.reference import evaluate_node
from compiler.ops.integers.fixed_point import ScaleRefused
from compiler.ops.records.integer_forms import StaysFloat, Stored
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find
from compiler.ops.sums.residuals import WITH_RESIDUAL

Array = np.ndarray

MOST_NODES = 64         # of a function: so that no chain is walked again and again


@dataclass(frozen=True, slots=True)
class FunctionPlace:
    """A place for an int8: before `nodes`, which compute from `sums` alone; `product` makes these,
    perhaps moved."""

    between: Between
    nodes: tuple[Node, ...]
    sums: str
    product: str


@dataclass(frozen=True, slots=True)
class FunctionParts:
    """A function in two parts: `product` makes the sums that alone `nodes` compute from."""

    product: tuple[Node, ...]
    nodes: tuple[Node, ...]
    rest: Rest
    factors: Array | None


Beside = FunctionPlace | FunctionParts | PairPlace


@dataclass(slots=True)
class FunctionSearch:
    graph: Graph
    twice: bool
    in_pairs: bool
    view: QuantizedView = field(init=False)
    readers: Mapping[str, Sequence[Node]] = field(init=False)
    places: Mapping[str, int] = field(init=False)

    def __post_init__(self):
        self.readers = self.graph.consumers()
        self.places = {node.outputs[0]: place for place, node in enumerate(self.graph.nodes)}
        quantized = {node.inputs[0]: node.inputs[0] for node in self.graph.nodes
                     if node.op == "dequantizelinear"}
        self.view = QuantizedView(self.graph, self.graph.producers(), lambda stem, array: stem,
                                  quantized)

    def run(self) -> tuple[Mapping[str, FunctionPlace], Mapping[str, Beside],
                           Mapping[str, BytePair]]:
        """The places that are alone, by the sums, those beside others, by the quantization, and the
        pairs that these read, by the sums."""
        alone: dict[str, FunctionPlace] = {}
        beside: dict[str, Beside] = {}
        quantizations = [node for node in self.graph.nodes if node.op == "quantizelinear"]
        for node in quantizations:
            place = self._place(node)
            if place is not None and self._is_alone(place):
                alone[place.sums] = place
            elif place is not None and self.twice and place.sums == place.product:
                beside[node.name] = place
            elif place is None and self.twice and (parts := self._parts(node)) is not None:
                beside[node.name] = parts
        pairs = self._pairs(quantizations, alone, beside) if self.in_pairs else {}
        return alone, beside, pairs

    def _pairs(self, quantizations: Sequence[Node], alone: dict[str, FunctionPlace],
               beside: dict[str, Beside]) -> Mapping[str, BytePair]:
        """Puts the places of pairs among those beside others, where they take the place of any
        other, and returns the pairs."""
        search = PairSearch(self.graph, self.view, self.places)
        found = {node.name: place for node in quantizations if (place := search.place(node))}
        beside |= found
        for pair in (pair for place in found.values() for pair in place.pairs):
            alone.pop(pair.sums, None)
        return read_by(found.values())

    def _place(self, quantize: Node) -> FunctionPlace | None:
        """A place for an int8 before the function that is quantized."""
        parameters, region = self.view.parameters(quantize), self._region(quantize.inputs[0])
        if parameters is None or parameters[2] != "int8" or region is None or (
                "litert" in quantize.attrs):
            return None
        nodes, sums = region
        if all(find(node.op).bounds for node in nodes):
            return None
        function, core = function_of(self.graph.constants, nodes, sums), self._core(sums)
        if core is None or is_in_products(function):
            return None
        between = int8_before(function, Stored(quantize.outputs[0], *parameters))
        if between is None or not self._has_form(core, between):
            return None
        return FunctionPlace(between, tuple(nodes), sums, core.outputs[0])

    def _parts(self, quantize: Node) -> FunctionParts | None:
        """The parts of a function that is quantized, perhaps times a factor of each channel."""
        if quantize.op != "quantizelinear" or "litert" in quantize.attrs:
            return None
        parameters, (value, factors) = self.view.parameters(quantize), self._factors(
            quantize.inputs[0])
        region = self._region(value)
        if parameters is None or parameters[2] != "int8" or region is None:
            return None
        nodes, sums = region
        if factors is None and all(find(node.op).bounds for node in nodes):
            return None
        core, out = self.view.producers[sums], Stored(quantize.outputs[0], *parameters)
        product = self._product(core)
        if product is None or factors is not None and not self._are_of_channels(product, factors):
            return None
        rest = rest_of(function_of(self.graph.constants, nodes, sums), out,
                       np.ones(1) if factors is None else factors)
        if rest is None or not all(self._has_form(core, each, WITH_RESIDUAL) for each in (
                rest.before, Between(out.scale, out.zp))):
            return None
        made_by = (core,) if core is product else (product, core)
        return FunctionParts(made_by, tuple(nodes), rest, factors)

    def _factors(self, value: str) -> tuple[str, Array | None]:
        """The value that is multiplied by constants which differ, and these; or the value alone."""
        node = self.view.producers.get(value)
        for other, known in (node.inputs, node.inputs[::-1]) if node is not None and (
                node.op == "mul") else ():
            array = self.graph.constants.get(known)
            if array is not None and array.size > 1:
                return other, array
        return value, None

    def _are_of_channels(self, product: Node, factors: Array) -> bool:
        """True for one factor above zero for each channel."""
        shape, weights = self.view.shape(product.outputs[0]), find(product.op).weights
        assert weights is not None
        channels = [1] * len(shape)
        channels[weights.axis] = shape[weights.axis]
        aligned = [1] * (len(shape) - factors.ndim) + [*factors.shape]
        return aligned == channels and bool((factors > 0).all() and np.isfinite(factors).all())

    def _region(self, value: str) -> tuple[list[Node], str] | None:
        """The operators of elements before a value, in order, and the sums that alone they compute
        from; None where they compute from anything else.
        """
        nodes, sums, waiting = dict[str, Node](), set[str](), [value]
        while waiting and len(nodes) < MOST_NODES:
            value = waiting.pop()
            node = self.view.producers.get(value)
            if value in nodes or value in sums or self._is_number(value):
                continue
            if node is None or node.op in ("quantizelinear", "dequantizelinear"):
                return None
            if self._product(self._core(value)) is not None:
                sums.add(value)
            elif find(node.op).kind is Kind.ELEMENTWISE:
                nodes[value] = node
                waiting += node.inputs
            else:
                return None
        if len(sums) != 1 or not nodes or waiting:
            return None
        return [nodes[made] for made in sorted(nodes, key=self.places.__getitem__)], sums.pop()

    def _is_number(self, value: str) -> bool:
        return value in self.graph.constants and self.graph.constants[value].size == 1

    def _core(self, value: str) -> Node | None:
        """The node that makes a value, but for operators that move its elements."""
        node = self.view.producers.get(value)
        while node is not None and find(node.op).picks and len(self.readers[node.inputs[0]]) == 1:
            node = self.view.producers.get(node.inputs[0])
        return node

    def _product(self, node: Node | None) -> Node | None:
        """The product with a quantized constant that a node is, perhaps with a bias of its own."""
        if node is None:
            return None
        for value, other in (node.inputs, node.inputs[::-1]) if node.op == "add" else ():
            before = self.view.producers.get(value)
            if before is not None and before.op == "matmul" and self.view.is_constant(other):
                return self._product(before)
        known = find(node.op).weights is not None and self.view.is_constant(node.inputs[1])
        return node if known and node.inputs[1] not in self.graph.constants else None

    def _is_alone(self, place: FunctionPlace) -> bool:
        """True if only these nodes read each other, and one quantization, or several alike, the
        last of them.
        """
        values = [place.sums, *(node.outputs[0] for node in place.nodes)]
        names = {node.name for node in place.nodes}
        inner = {reader.name for value in values[:-1] for reader in self.readers[value]} <= names
        ends = {(reader.op, self.view.parameters(reader)) for reader in self.readers[values[-1]]}
        return inner and len(ends) == 1 and not {*values} & {*self.graph.outputs}

    def _has_form(self, core: Node, between: Between, forms: Collection[str] = ()) -> bool:
        """True if the product has an integer form, one of `forms` where there are any."""
        product, form = self._product(core), find(core.op).integer
        assert product is not None and form is not None
        try:
            made = form(self.view, core, Stored("", between.scale, between.zp), (-inf, inf))
            bends = between.slope == 1 or find(made.op).below
            return (bends and (not forms or made.op in forms)
                    and self.view.activation(product.inputs[0]).dtype == "int8")
        except (StaysFloat, ScaleRefused):
            return False


def function_of(constants: Mapping[str, Array], nodes: Sequence[Node], source: str) -> Function:
    """Computes the nodes of numbers of the source."""
    def computed(numbers: Array) -> Array:
        known = {source: numbers}
        for node in nodes:
            known[node.outputs[0]] = np.asarray(evaluate_node(node, [
                known[value] if value in known else constants[value].reshape(())
                for value in node.inputs]))
        return known[nodes[-1].outputs[0]]
    return computed
