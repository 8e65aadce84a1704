"""Functions of elements behind products, as tables: an int8 comes between."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.before_functions import (Between, Function, int8_before,
                                                        is_in_products)
from compiler.graph.integerize.quantized import QuantizedView
from compiler.graph.reference import evaluate_node
from compiler.graph.rewrite import Builder
from compiler.ops.integers.fixed_point import ScaleRefused
from compiler.ops.records.integer_forms import StaysFloat, Stored
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find

Array = np.ndarray

MOST_NODES = 64         # of a function: so that no chain is walked again and again


@dataclass(frozen=True, slots=True)
class FunctionsOfProducts:
    """quantize(f(conv(x, w))) -> quantize(f(dequantize(quantize(conv(x, w))))) for a function f of
    elements, such as hardswish or gelu: a product and a table of integers. The int8 between spans
    the numbers beyond which the result no longer changes. Where its steps would be too coarse, they
    are finer above zero and coarser below, as a leaky relu behind the product bends its sums, and
    one of the inverse slope comes behind the int8. It makes the result less than one step other, or
    it does not come. Operators that move elements may stand before the function; the quantization
    that comes is left behind them.

    Before: dequantizations of constants are nodes. After: no quantization to 8 bits reads such a
    function of a product that may be an integer operator, but where the function only bounds or
    bends sums as a product does itself. If others read the function or its sums, these stay, and
    the product is computed `twice`, or all is left as it is.
    """

    twice: bool = False
    name: ClassVar[str] = "functions-of-products"

    def __call__(self, graph: Graph) -> Graph:
        return _Search(graph, self.twice).run()


@dataclass(frozen=True, slots=True)
class _Place:
    """A place for an int8: before `nodes`, which compute from `sums` alone; `product` makes these,
    perhaps moved."""

    between: Between
    nodes: tuple[Node, ...]
    sums: str
    product: str


@dataclass(slots=True)
class _Search:
    graph: Graph
    twice: bool
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

    def run(self) -> Graph:
        alone: dict[str, _Place] = {}
        beside: dict[str, _Place] = {}
        for node in self.graph.nodes:
            place = self._place(node) if node.op == "quantizelinear" else None
            if place is not None and self._is_alone(place):
                alone[place.sums] = place
            elif place is not None and self.twice and place.sums == place.product:
                beside[node.name] = place
        return _Rewriting(self.graph, alone, beside).run() if alone or beside else self.graph

    def _place(self, quantize: Node) -> _Place | None:
        """A place for an int8 before the function that is quantized."""
        parameters, region = self.view.parameters(quantize), self._region(quantize.inputs[0])
        if parameters is None or parameters[2] != "int8" or region is None or (
                "litert" in quantize.attrs):
            return None
        nodes, sums = region
        if all(find(node.op).bounds for node in nodes):
            return None
        function, core = _function(self.graph.constants, nodes, sums), self._core(sums)
        if core is None or is_in_products(function):
            return None
        between = int8_before(function, Stored(quantize.outputs[0], *parameters))
        if between is None or not self._has_form(core, between):
            return None
        return _Place(between, tuple(nodes), sums, core.outputs[0])

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

    def _is_alone(self, place: _Place) -> bool:
        """True if only these nodes read each other, and one quantization, or several alike, the
        last of them.
        """
        values = [place.sums, *(node.outputs[0] for node in place.nodes)]
        names = {node.name for node in place.nodes}
        inner = {reader.name for value in values[:-1] for reader in self.readers[value]} <= names
        ends = {(reader.op, self.view.parameters(reader)) for reader in self.readers[values[-1]]}
        return inner and len(ends) == 1 and not {*values} & {*self.graph.outputs}

    def _has_form(self, core: Node, between: Between) -> bool:
        product, form = self._product(core), find(core.op).integer
        assert product is not None and form is not None
        try:
            made = form(self.view, core, Stored("", between.scale, between.zp), (-inf, inf))
            bends = between.slope == 1 or find(made.op).below
            return bends and self.view.activation(product.inputs[0]).dtype == "int8"
        except (StaysFloat, ScaleRefused):
            return False


@dataclass(slots=True)
class _Rewriting:
    """Puts an int8 behind the sums of the places `alone`, for all that read them, and before copies
    of the functions that are quantized `beside` others, by the names of the quantizations."""

    graph: Graph
    alone: Mapping[str, _Place]
    beside: Mapping[str, _Place]
    builder: Builder = field(init=False)
    names: dict[str, str] = field(init=False)
    copies: dict[tuple[str, Between], str] = field(default_factory=dict)

    def run(self) -> Graph:
        self.builder = Builder.like(self.graph)
        self.names = {value: value for value in self.graph.values}
        bent = {place.product: place.between for place in self.alone.values()}
        for node in self.graph.nodes:
            inputs = tuple(self.names[value] for value in node.inputs)
            if node.name in self.beside:
                inputs = (self._copied(node.inputs[0], self.beside[node.name]), *inputs[1:])
            self.builder.add(replace(node, inputs=inputs))
            value = made = node.outputs[0]
            if value in bent:
                made = self._leaky(made, bent[value].slope)
            if value in self.alone:
                made = self._between(made, self.alone[value].between)
            self.names[value] = made
        return self.builder.finish(self.graph.outputs)

    def _copied(self, result: str, place: _Place) -> str:
        """The result of a copy of the function, which reads an int8 of the sums."""
        key = result, place.between
        if key not in self.copies:
            slope, sums = place.between.slope, self.names[place.sums]
            known = {place.sums: self._between(self._leaky(sums, slope), place.between)}
            for node in place.nodes:
                value = self.builder.fresh(f"{node.outputs[0]}_of_int8")
                known[node.outputs[0]] = self.builder.add(replace(
                    node, name=self.builder.fresh_node(value), outputs=(value,),
                    inputs=tuple(known.get(each, each) for each in node.inputs)))
            self.copies[key] = known[result]
        return self.copies[key]

    def _between(self, value: str, between: Between) -> str:
        """The value quantized and dequantized, and no longer bent."""
        steps = [self.builder.add_constant(self.builder.fresh(f"{value}:{role}"), array)
                 for role, array in (("scale", np.array(between.scale, np.float32)),
                                     ("zero", np.array(between.zp, np.int8)))]
        made = value
        for op in ("quantizelinear", "dequantizelinear"):
            made = self._step(op, f"{value}_{op.removesuffix('linear')}d", made, *steps, axis=0)
        return self._leaky(made, 1 / between.slope)

    def _leaky(self, value: str, slope: float) -> str:
        return value if slope == 1 else self._step("leakyrelu", f"{value}_bent", value, alpha=slope)

    def _step(self, op: str, stem: str, *inputs: str, **attrs: object) -> str:
        made = self.builder.fresh(stem)
        return self.builder.emit(op, self.builder.fresh_node(made), inputs, made, **attrs)


def _function(constants: Mapping[str, Array], nodes: Sequence[Node], source: str) -> Function:
    """Computes the nodes of numbers of the source."""
    def computed(numbers: Array) -> Array:
        known = {source: numbers}
        for node in nodes:
            known[node.outputs[0]] = np.asarray(evaluate_node(node, [
                known[value] if value in known else constants[value].reshape(())
                for value in node.inputs]))
        return known[nodes[-1].outputs[0]]
    return computed
