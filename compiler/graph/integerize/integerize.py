"""Turns float operators between quantizations into integer operators with one fixed meaning."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from compiler.ops.integers.fixed_point import ScaleRefused, limits_of
from compiler.ops.records.integer_forms import (ACCUMULATOR_BITS, Bounds, IntegerForm, IntegerNode,
                                                QuantizedInputs, StaysFloat, Stored, clamp_to,
                                                scaled)
from compiler.ops.records.operator import Kind, Numbers
from compiler.ops.families.reductions import MOST_PLACES
from compiler.ops.registry import find
from compiler.graph.graph import Graph, Node
from compiler.graph.notes import Note
from compiler.graph.integerize.behind_products import BehindProducts, bounds_of, core_of
from compiler.graph.integerize.channel_maps import tail_of, times_channels
from compiler.graph.integerize.channels import affine_of_channels
from compiler.graph.integerize.litert import kernel_of
from compiler.graph.integerize.litert_operators import composed, matched
from compiler.graph.integerize.maps import mapped, term_of
from compiler.graph.integerize.masks import Masks
from compiler.graph.integerize.missing import MissingQuantizations
from compiler.graph.integerize.pieces import in_pieces
from compiler.graph.integerize.quantized import stored_form
from compiler.graph.integerize.regions import Region, Regions
from compiler.graph.integerize.row_totals import is_row_total, row_total
from compiler.graph.integerize.rows import row_function, rows_of
from compiler.graph.integerize.tables import tabled
from compiler.graph.integerize.writing import Writing
from compiler.graph.rewrite import eliminate_dead_code

STAYS_IN_FLOAT = "stays in float"
WITH_CONSTANTS = {"quantized_map": "qmap", "quantized_terms": "qterms"}
"""Operators between quantizations that stand for instructions, and their integer forms."""
NO_FORM = "it has no form on integers"
PER_CHANNEL = "an activation must have one scale"


@dataclass(frozen=True, slots=True)
class Integerize:
    """dequantize -> operator -> [relu, clip] -> quantize becomes one integer operator. Elementwise
    operators that have no such form become one together: a `qtable` where they depend on one
    quantized tensor (of 16 bits a `qmap` where they are arithmetic, else `qpieces`), a `qaffine`
    where they multiply one by constants of channels or add such, a `qmap` where on two to four.
    Softmax and normalizations along the last axis become operators of rows, a mask the lesser of
    each element and -128 or 127; maps between quantizations stay what they are. A product before a
    leaky relu has a multiplier for each of its slopes.

    Before: dequantized constants are still nodes (`FoldConstants(dequantize=False)`), no identity.
    After: every int8 or uint8 activation has a stored form of int8, every one of 16 bits one of
    int16. A value's name always stands for its numbers: the stored form of one without a sign has a
    name of its own, and whoever else reads the value reads `to_uint8` or `to_uint16` of that
    (`to_int8` and `to_int16` stand at inputs). Places of greatest and least elements of int8 are
    found there; quantization that is left is `quantize` and `dequantize`; each operator that stays
    in float has a note with the reason. Exact to 1 step of the output: 16-bit multipliers take the
    place of float32 products. Tables are exact. Sums of products that 32 bits may not hold are
    int64 where some target sums in `accumulator_bits`. What a TensorFlow Lite file computes is,
    where `exact`, what LiteRT computes, to the bit, by operators that no accelerator has.
    """

    accumulator_bits: int = ACCUMULATOR_BITS
    exact: bool = False
    name: ClassVar[str] = "integerize"

    def __call__(self, graph: Graph) -> Graph:
        return _Rewriting(graph, self.accumulator_bits, self.exact).run()


@dataclass(slots=True)
class _Rewriting(Writing):
    """One run: every float node is copied, every quantization is replaced, what the replacements
    left without readers falls to dead code elimination.
    """

    regions: Regions = field(init=False)
    masks: Masks = field(init=False)
    behind: BehindProducts = field(init=False)
    reasons: dict[str, str] = field(default_factory=dict)
    floats: set[str] = field(default_factory=set)           # quantizations of what stays in float

    def __post_init__(self):
        Writing.__post_init__(self)
        self.regions, self.masks = Regions(self.view), Masks(self)
        self.behind = BehindProducts(self, self.reasons)

    def run(self) -> Graph:
        self._store_inputs()
        for node in self.graph.nodes:
            self._rewrite(node)
        live = eliminate_dead_code(self.builder.finish(self.graph.outputs))
        return replace(live, nodes=tuple(_uniquely_named(live.nodes)),
                       notes=live.notes + tuple(self._notes(live)))

    def _store_inputs(self) -> None:
        for value in self.graph.inputs:
            match self.graph.values[value].dtype:
                case "int8" | "int16":
                    self.view.stored[value] = value
                case "uint8" | "uint16" as dtype:
                    output, stored = self.builder.fresh(f"{value}_stored"), dtype[1:]
                    self.builder.emit(f"to_{stored}", f"{value}_to_{stored}", [value], output)
                    self.view.stored[value] = output

    def _rewrite(self, node: Node) -> None:
        parameters = self.view.parameters(node)
        source = self.view.stored.get(node.inputs[0], "") if node.inputs else ""
        if node.op == "quantizelinear" and parameters:
            self._quantize(node, Stored(node.outputs[0], *parameters))
        elif node.op == "dequantizelinear" and source and parameters:
            self.builder.emit("dequantize", node.name, [source], node.outputs[0],
                              scale=parameters[0], zp=parameters[1])
        elif source and (find(node.op).picks or node.op == "identity"):
            op = find(node.op).stored or node.op
            self.define(node.outputs[0], IntegerNode(op, (source,), node.attrs), node.name)
        elif source and find(node.op).fills and (
                {*node.inputs[1:]} <= self.graph.constants.keys()):
            numbers = (self.graph.constants[value] for value in node.inputs[1:])
            stored = tuple(("value", stored_form(number.reshape(1)).reshape(number.shape))
                           for number in numbers)
            self.define(node.outputs[0], IntegerNode(node.op, (source,), node.attrs, stored),
                         node.name)
        elif not (node.op in WITH_CONSTANTS and self._with_constants(node)
                  or find(node.op).places and self._place(node)):
            self.builder.add(node)
            self._note_stored(node)

    def _note_stored(self, node: Node) -> None:
        """Notes the stored form that an integer operator has made already."""
        before = self.view.producers.get(node.inputs[0]) if node.op == "to_uint8" else node
        if before is not None and find(before.op).numbers is Numbers.INTEGER and (
                self.graph.values[before.outputs[0]].dtype == "int8"):
            self.view.stored[node.outputs[0]] = before.outputs[0]

    def _with_constants(self, node: Node) -> bool:
        """Computes an operator between quantizations from stored forms, and from constants behind
        them. Returns whether it can.
        """
        known = self.view.stored.keys()
        sources = tuple(self.view.stored[value] for value in node.inputs if value in known)
        others = node.inputs[len(sources):]
        if not {*others} <= self.graph.constants.keys() or not sources:
            return False
        constants = tuple((value, stored_form(self.graph.constants[value])) for value in others)
        self.define(node.outputs[0], IntegerNode(WITH_CONSTANTS[node.op], sources, node.attrs,
                                                  constants), node.name)
        return True

    def _place(self, node: Node) -> bool:
        """Computes a place from the stored form, which has the order of the numbers: multiples of
        a positive scale differ where they are finite. Returns whether it can."""
        axis = node.attrs["axis"]
        try:
            x = self.view.activation(node.inputs[0])
        except StaysFloat:
            return False
        stored = self.builder.values[x.value]
        if (stored.dtype != "int8" or node.attrs.get("last", 0)
                or not 1 <= stored.shape[axis] <= MOST_PLACES
                or not 0 < x.scale < np.finfo(np.float32).max / 255):
            return False
        places = self.builder.emit(find(node.op).places, node.name, [x.value],
                                   self.builder.fresh(f"{node.outputs[0]}_bytes"), axis=axis)
        self.builder.emit("joined_bytes", self.builder.fresh_node(f"{node.name}_joined"), [places],
                          node.outputs[0], axis=axis, keepdims=node.attrs["keepdims"])
        return True

    def _quantize(self, node: Node, out: Stored) -> None:
        core, activations = core_of(self.view, node.inputs[0])
        replacement, name, form = None, node.name, core and self._form(core)
        if kernel_of(node):
            replacement = self._as_kernel(node, core, out, activations)
            name = core.name if core is not None and replacement else name
        if core is not None and form is not None and replacement is None:
            try:
                replacement = form(self.view, core, out, bounds_of(activations))
                self.check_type(core, out, replacement)
                replacement = matched(self.view, node, core, out, replacement)
                alone = core.op == "dequantizelinear"
                name = (activations[-1] if activations else node).name if alone else core.name
            except (StaysFloat, ScaleRefused) as reason:
                replacement, self.reasons[core.name] = None, str(reason)
        if core is not None and replacement is None:
            replacement = self._function(node, core, out, activations)
            name = core.name if replacement else name
        if core is not None and replacement is None:
            replacement, name = (self.behind.with_residual(core, out, activations)
                                 or self.behind.with_slope(core, out, activations) or (None, name))
            if replacement is None and not self._looks_up(core) and not find(core.op).picks:
                elementwise = find(core.op).kind is Kind.ELEMENTWISE
                self.reasons.setdefault(core.name, "" if form or elementwise else NO_FORM)
        attrs: dict[str, object] = {"scale": out.scale, "zp": out.zp}
        if out.dtype != "int8":
            attrs["dtype"] = out.dtype
        host = IntegerNode("quantize", (node.inputs[0],), attrs)
        self.define(out.value, replacement or host, name)
        if replacement is None:
            self.floats.add(out.value)

    def _form(self, core: Node) -> IntegerForm | None:
        return _form(core) or (row_total if is_row_total(self.view, core) else None)

    def _function(self, node: Node, core: Node, out: Stored, activations: list[Node]
                  ) -> IntegerNode | None:
        """The rows, the table or the map in the place of a quantization of elementwise operators.
        """
        if find(core.op).kind is not Kind.ELEMENTWISE:
            return None
        try:
            steps = self._steps(node, core, out, bounds_of(activations))
            if steps:
                self.check_type(core, out, *steps)
        except (StaysFloat, ScaleRefused) as reason:
            self.reasons.setdefault(core.name, str(reason))
            return None
        if not steps:
            return None
        self.reasons.pop(core.name, None)
        return self._in_order(core, steps)

    def _steps(self, node: Node, core: Node, out: Stored, bounds: Bounds
               ) -> Sequence[IntegerNode]:
        """The integer operators of `_function`; none where it has no form."""
        found = row_function(self.view, core.outputs[0])
        if found is not None:
            self.reasons.pop(core.name, None)           # of an operator that is a part of it
            return rows_of(self.view, found, out, bounds, self.masks.of)
        made = affine_of_channels(self.view, core, out, bounds)
        if made is not None:
            return (made,)
        wide = out.dtype != "int8"
        made = None if wide else self._times_channels(core, out, bounds)
        if made is not None:
            return (made,)
        region = self.regions.before(node, nearest=wide)
        if region is None:
            return ()
        for value in region.sources:
            if (bits := self.graph.values[value].dtype.lstrip("uint")) != out.dtype[3:]:
                raise StaysFloat(f"{value!r} has {bits} bits and its result {out.dtype[3:]}")
        if wide and not self.floats.isdisjoint(region.sources):
            raise StaysFloat("what it reads is quantized from float")
        if len(region.sources) == 1 and not wide:
            return (tabled(self.view, region),)
        return (self._wide(region, core, out, bounds) if wide else
                mapped(self.view, region, core, out, bounds),)

    def _times_channels(self, core: Node, out: Stored, bounds: Bounds) -> IntegerNode | None:
        """The map of a region with constants of channels behind it."""
        tail = tail_of(self.graph, self.view.producers, core.outputs[0])
        region = tail and self.regions.of(tail.value)
        if not tail or not region:
            return None
        names, term = term_of(self.view, region, self.view.producers[tail.value])
        text, constants = times_channels(term, len(names), tail, out, bounds)
        return IntegerNode("qmap", names, {"function": text}, constants)

    def _wide(self, region: Region, core: Node, out: Stored, bounds: Bounds) -> IntegerNode:
        """The map of a region of 16 bits; where it has none and one source, its polynomials."""
        try:
            return mapped(self.view, region, core, out, bounds)
        except (StaysFloat, ScaleRefused):
            if len(region.sources) > 1:
                raise
        return in_pieces(self.view, region)

    def _as_kernel(self, node: Node, core: Node | None, out: Stored, activations: list[Node]
                   ) -> IntegerNode | None:
        """The node that computes as a kernel of LiteRT, where that takes more than other
        multipliers."""
        if not self.exact:
            return None
        if core is not None and find(core.op).kind is Kind.ELEMENTWISE:
            try:
                region = None if self._keeps(core, out, activations) else self.regions.before(node)
                if region and len(region.sources) == 1 and {
                        self.graph.values[value].dtype for value in (*region.sources, out.value)
                        } == {"int8"}:
                    return tabled(self.view, region)
            except StaysFloat:
                pass
        return composed(self.view, node, core, out, bounds_of(activations))

    def _keeps(self, core: Node, out: Stored, activations: list[Node]) -> bool:
        """True if a quantization stores what was dequantized as it was."""
        return core.op == "dequantizelinear" and not activations and (
            self.view.parameters(core) == (out.scale, out.zp, out.dtype))

    def _in_order(self, core: Node, steps: Sequence[IntegerNode]) -> IntegerNode:
        """Adds all operators but the last, which reads the one before; returns that."""
        read: tuple[str, ...] = ()
        for step in steps[:-1]:
            value = self.builder.fresh(f"{core.name}:{step.op}")
            inputs = (*read, *self.inputs(step, value))
            self.builder.emit(step.op, value, inputs, value, **step.attrs)
            read = (value,)
        return replace(steps[-1], inputs=(*read, *steps[-1].inputs))

    def _looks_up(self, node: Node) -> bool:
        """True if the operator takes rows of a constant: these are like an input."""
        return node.op == "gather" and node.inputs[0] in self.graph.constants

    def _notes(self, live: Graph) -> Iterator[str]:
        missing = MissingQuantizations(self.graph)
        for node in live.nodes:
            if node.op == "quantizelinear" or node.name in self.reasons or _is_quantizable(node):
                reason = self.reasons.get(node.name) or (
                    PER_CHANNEL if node.op == "quantizelinear" else missing.around(node))
                yield str(Note(node.name, node.op, STAYS_IN_FLOAT, reason))


def _form(core: Node) -> IntegerForm | None:
    return _rescaled if core.op == "dequantizelinear" else find(core.op).integer


def _rescaled(view: QuantizedInputs, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    """A quantization of what was dequantized: another scale."""
    x = view.activation(node.outputs[0])
    clamp = clamp_to(out, bounds)
    whole = (clamp["lo"], clamp["hi"]) == limits_of(out.dtype)
    if (x.scale, x.zp, x.dtype) == (out.scale, out.zp, out.dtype) and whole:
        return IntegerNode("identity", (x.value,), {})
    return scaled("qrescale", x, 1, out, bounds)


def _is_quantizable(node: Node) -> bool:
    """True if the operator has a form on int8 that is not itself."""
    operator = find(node.op)
    return bool(operator.integer or operator.bounds or operator.stored)


def _uniquely_named(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """A float operator that lives on beside its integer twin gets a name of its own."""
    taken = {node.name for node in nodes}
    seen: set[str] = set()
    for node in nodes:
        name, count = node.name, 1
        while name in seen or (name != node.name and name in taken):
            name, count = f"{node.name}_{count}", count + 1
        seen.add(name)
        yield node if name == node.name else replace(node, name=name)
