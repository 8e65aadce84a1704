"""Writes an int8 between products and functions of them into a graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from compiler.graph.functions.before import Between
from compiler.graph.functions.pairs import BytePair, PairPlace
from compiler.graph.functions.places import Beside, FunctionPlace
from compiler.graph.functions.rests import RestWriting
from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder


@dataclass(slots=True)
class Rewriting:
    """Puts an int8 behind the sums of the places `alone`, for all that read them, and before copies
    of the functions that are quantized `beside` others, by the names of the quantizations."""

    graph: Graph
    alone: Mapping[str, FunctionPlace]
    beside: Mapping[str, Beside]
    pairs: Mapping[str, BytePair]
    builder: Builder = field(init=False)
    names: dict[str, str] = field(init=False)
    copies: dict[tuple[object, ...], str] = field(default_factory=dict)

    def run(self) -> Graph:
        self.builder = Builder.like(self.graph)
        self.names = {value: value for value in self.graph.values}
        bent = {place.product: place.between for place in self.alone.values()}
        for node in self.graph.nodes:
            inputs = tuple(self.names[value] for value in node.inputs)
            if node.name in self.beside:
                inputs = (self._beside(node), *inputs[1:])
            self.builder.add(replace(node, inputs=inputs))
            value = made = node.outputs[0]
            if value in bent:
                made = self._leaky(made, bent[value].slope)
            if value in self.alone:
                made = self._between(made, self.alone[value].between)
            self.names[value] = made
        return self.builder.finish(self.graph.outputs)

    def _beside(self, quantize: Node) -> str:
        """The value that is quantized in the place of a function that others read as well."""
        place = self.beside[quantize.name]
        if isinstance(place, FunctionPlace):
            return self._copied(quantize.inputs[0], place)
        if isinstance(place, PairPlace):
            return self._of_pairs(quantize.inputs[0], place)
        key = quantize.inputs[0], *(self.graph.constants[value].item()
                                   for value in quantize.inputs[1:])
        if key not in self.copies:
            factors = None if place.factors is None else self.builder.add_constant(
                self.builder.fresh(f"{quantize.name}:factors"), place.factors)
            self.copies[key] = RestWriting(self.builder, place.product, place.nodes, place.rest,
                                           factors, self.names).write(quantize)
        return self.copies[key]

    def _copied(self, result: str, place: FunctionPlace) -> str:
        """The result of a copy of the function, which reads an int8 of the sums."""
        key = result, place.between
        if key not in self.copies:
            slope, sums = place.between.slope, self.names[place.sums]
            self.copies[key] = self._copy(place.nodes, {
                place.sums: self._between(self._leaky(sums, slope), place.between)})
        return self.copies[key]

    def _of_pairs(self, result: str, place: PairPlace) -> str:
        """The result of a copy of the function, which reads two int8 of each of the sums."""
        key = result, "pairs"
        if key not in self.copies:
            self.copies[key] = self._copy(place.nodes, {
                pair.sums: self._pair(self.pairs[pair.sums]) for pair in place.pairs})
        return self.copies[key]

    def _pair(self, pair: BytePair) -> str:
        """The sum of both int8."""
        key = pair.sums, pair
        if key not in self.copies:
            sums = self.names[pair.sums]
            high = self._between(sums, Between(pair.scale, pair.zp))
            rest = self._step("sub", f"{sums}_rest", sums, high)
            self.copies[key] = self._step("add", f"{sums}_pair", high, self._between(
                rest, Between(pair.fine, 0)))
        return self.copies[key]

    def _copy(self, nodes: Sequence[Node], known: dict[str, str]) -> str:
        """The result of a copy of the nodes, which reads other values in place of those known."""
        for node in nodes:
            value = self.builder.fresh(f"{node.outputs[0]}_of_int8")
            known[node.outputs[0]] = self.builder.add(replace(
                node, name=self.builder.fresh_node(value), outputs=(value,),
                inputs=tuple(known.get(each, self.names.get(each, each)) for each in node.inputs)))
        return known[nodes[-1].outputs[0]]

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
