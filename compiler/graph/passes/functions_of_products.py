"""Functions of elements behind products, as tables: an int8 comes between."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.quantized import QuantizedView
from compiler.graph.reference import evaluate_node
from compiler.graph.rewrite import Builder
from compiler.ops.integers.fixed_point import ScaleRefused
from compiler.ops.records.integer_forms import StaysFloat, Stored
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find

Array = np.ndarray
Function = Callable[[Array], Array]

MOST_OFF = 0.98
"""Steps of the result, less than one: so both round to neighbours at most."""

FLAT = 0.25             # steps within which a result counts as one that no longer changes
COARSE, FINE = 1 << 15, 16          # numbers on a side of zero; in a step of int8
MOST_NODES = 64         # of a function: so that no chain is walked again and again
FAR = np.array([2, 16, 1e4, 1e8], np.float32)


@dataclass(frozen=True, slots=True)
class FunctionsOfProducts:
    """quantize(f(conv(x, w))) -> quantize(f(dequantize(quantize(conv(x, w))))) for a function f of
    elements, such as hardswish or gelu: a product and a table of integers. The int8 between spans
    the numbers beyond which the result no longer changes. It makes the result less than one step
    other, or it does not come. Operators that move elements may stand before the function; the
    quantization that comes is left behind them.

    Before: dequantizations of constants are nodes. After: no quantization to 8 bits reads such a
    function of a product that may be an integer operator, and nothing else reads either, but where
    the function only bounds or bends sums as a product does itself.
    """

    name: ClassVar[str] = "functions-of-products"

    def __call__(self, graph: Graph) -> Graph:
        return _Search(graph).run()


@dataclass(slots=True)
class _Search:
    graph: Graph
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
        between: dict[str, Stored] = {}
        for node in self.graph.nodes:
            if node.op == "quantizelinear" and "litert" not in node.attrs:
                between.update(self._between(node))
        return _with_int8(self.graph, between) if between else self.graph

    def _between(self, quantize: Node) -> dict[str, Stored]:
        """The sums that may be int8 before the function that is quantized, and how."""
        parameters, region = self.view.parameters(quantize), self._region(quantize.inputs[0])
        if parameters is None or parameters[2] != "int8" or region is None:
            return {}
        nodes, sums = region
        if all(find(node.op).bounds for node in nodes):
            return {}
        function = _function(self.graph.constants, nodes, sums)
        if not self._is_alone(nodes, sums) or _is_in_products(function):
            return {}
        stored = int8_before(function, Stored(quantize.outputs[0], *parameters))
        return {sums: stored} if stored is not None and self._has_form(sums, stored) else {}

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
        """What makes a value, but for operators that move its elements."""
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

    def _is_alone(self, nodes: Sequence[Node], sums: str) -> bool:
        """True if only these nodes read each other, and one quantization, or several alike, the
        last of them.
        """
        values, names = [sums, *(node.outputs[0] for node in nodes)], {node.name for node in nodes}
        inner = {reader.name for value in values[:-1] for reader in self.readers[value]} <= names
        ends = {(reader.op, self.view.parameters(reader)) for reader in self.readers[values[-1]]}
        return inner and len(ends) == 1 and not {*values} & {*self.graph.outputs}

    def _has_form(self, sums: str, stored: Stored) -> bool:
        core = self._core(sums)
        product, form = self._product(core), find(core.op).integer if core is not None else None
        assert core is not None and product is not None and form is not None
        try:
            form(self.view, core, stored, (-inf, inf))
            return self.view.activation(product.inputs[0]).dtype == "int8"
        except (StaysFloat, ScaleRefused):
            return False


def _with_int8(graph: Graph, between: Mapping[str, Stored]) -> Graph:
    """The graph with these values quantized and dequantized, for all that read them."""
    builder, names = Builder.like(graph), {value: value for value in graph.values}
    for node in graph.nodes:
        builder.add(replace(node, inputs=tuple(names[value] for value in node.inputs)))
        value = made = node.outputs[0]
        if value not in between:
            continue
        parameters = [builder.add_constant(builder.fresh(f"{value}:{role}"), array)
                      for role, array in (("scale", np.array(between[value].scale, np.float32)),
                                          ("zero", np.array(between[value].zp, np.int8)))]
        for op in ("quantizelinear", "dequantizelinear"):
            stem = builder.fresh(f"{value}_{op.removesuffix('linear')}d")
            made = builder.emit(op, builder.fresh_node(stem), [made, *parameters], stem, axis=0)
        names[value] = made
    return builder.finish(graph.outputs)


def _function(constants: Mapping[str, Array], nodes: Sequence[Node], source: str) -> Function:
    """What the nodes compute of numbers of the source."""
    def computed(numbers: Array) -> Array:
        known = {source: numbers}
        for node in nodes:
            known[node.outputs[0]] = np.asarray(evaluate_node(node, [
                known[value] if value in known else constants[value].reshape(())
                for value in node.inputs]))
        return known[nodes[-1].outputs[0]]
    return computed


def _is_in_products(function: Function) -> bool:
    """True if it is the greater of x and a part of x, within bounds: a product does that itself."""
    positive = np.geomspace(1e-3, 1e6, 64, dtype=np.float32)
    numbers = np.concatenate([-positive[::-1], positive])
    results = function(numbers)
    slope = float(results[len(positive) - 1] / numbers[len(positive) - 1])
    line = np.clip(np.where(numbers > 0, numbers, slope * numbers), results.min(), results.max())
    return 0 <= slope <= 1 and np.allclose(results, line, rtol=1e-5, atol=0)


def int8_before(function: Function, out: Stored) -> Stored | None:
    """The int8 before a function whose result is quantized; None where it makes the result more
    than `MOST_OFF` steps other.
    """
    def steps(numbers: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.clip(function(numbers) / np.float32(out.scale) + out.zp, -128, 127)

    end = np.float32(max(16, 512 * out.scale))
    numbers = np.linspace(-end, end, 2 * COARSE + 1, dtype=np.float32)
    changes = _changes(steps, numbers)
    if changes is None:
        return None
    least, most = min(changes[0], 0.0), max(changes[1], 0.0)
    scale = float(np.float32((most - least) / 255))
    stored = Stored(out.value, scale, int(np.clip(np.rint(-128 - least / scale), -128, 127)))
    fine = np.linspace(least - scale, most + scale, 257 * FINE + 1, dtype=np.float32)
    off = max(_off(steps, stored, tried) for tried in (numbers, fine))
    return stored if off <= MOST_OFF else None


def _changes(steps: Function, numbers: Array) -> tuple[float, float] | None:
    """The numbers between which the result changes; None where it does so at the ends or beyond."""
    results, far = steps(numbers), np.concatenate([numbers[0] * FAR, numbers[-1] * FAR])
    if not np.isfinite(results).all():
        return None
    ends = np.repeat(results[[0, -1]], len(FAR))
    low, high = (int(np.argmin(np.abs(side - side[0]) <= FLAT)) for side in (
        results, results[::-1]))
    flat = low and high and (np.abs(steps(far) - ends) <= FLAT).all()
    return (float(numbers[low - 1]), float(numbers[-high])) if flat else None


def _off(steps: Function, stored: Stored, numbers: Array) -> float:
    """How many steps other the result is where the numbers are stored before."""
    integers = np.clip(np.rint(numbers / stored.scale) + stored.zp, -128, 127)
    kept = ((integers - stored.zp) * stored.scale).astype(np.float32)
    return float(np.abs(steps(kept) - steps(numbers)).max())
