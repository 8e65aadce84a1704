"""Operators behind a product, before the quantization, become a part of it: bounds, a residual that
its sums meet, and another multiplier below zero."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from compiler.graph.graph import Node
from compiler.graph.integerize.channels import slopes_of_channels
from compiler.graph.integerize.quantized import QuantizedView
from compiler.graph.integerize.writing import Writing
from compiler.ops.integers.fixed_point import ScaleRefused
from compiler.ops.records.broadcasting import common_shape
from compiler.ops.records.integer_forms import (Bounds, IntegerNode, StaysFloat, Stored,
                                                multiplier_of)
from compiler.ops.registry import find
from compiler.ops.sums.residuals import WITH_RESIDUAL, with_residual


@dataclass(slots=True)
class BehindProducts:
    """Products of one graph with what follows them; `reasons` tell why others stay in float."""

    writing: Writing
    reasons: dict[str, str]

    @property
    def view(self) -> QuantizedView:
        return self.writing.view

    def with_residual(self, core: Node, out: Stored, activations: list[Node]
                      ) -> tuple[IntegerNode, str] | None:
        """The product whose sums a sum or a difference reads beside a quantized tensor, and its
        name."""
        if core.op not in ("add", "sub"):
            return None
        less = -1 if core.op == "sub" else 1
        for (value, other), signs in zip((core.inputs, core.inputs[::-1]), ((1, less), (less, 1)),
                                         strict=True):
            before = self.view.producers.get(value)
            other, times = self._times(other, self.view.shape(value), before)
            if before is not None and self.view.is_computed(other):
                made = self._met(before, value, other, signs, out, bounds_of(activations), times)
                if made is not None:
                    self.reasons.pop(core.name, None)
                    return made, before.name
        makers = [self.view.producers.get(value) for value in core.inputs]
        if all(maker is not None and find(maker.op).contracts for maker in makers):
            self.reasons[core.name] = "it adds the sums of two products, which have no common scale"
        return None

    def _times(self, value: str, whole: tuple[int, ...], before: Node | None
               ) -> tuple[str, np.ndarray | float]:
        """The value that is multiplied by one number for each channel of a product, and these; or
        the value itself, and 1."""
        node, cores = self.view.producers.get(value), [before]
        if before is not None and before.op == "add":           # a bias
            cores = [self.view.producers.get(each) for each in before.inputs]
        weights = next((found for core in cores if core is not None
                        and (found := find(core.op).weights) is not None), None)
        if node is None or node.op != "mul" or weights is None:
            return value, 1.0
        channels = [1] * len(whole)
        channels[weights.axis] = whole[weights.axis]
        for other, known in (node.inputs, node.inputs[::-1]):
            array = self.view.graph.constants.get(known)
            if array is not None and [1] * (len(whole) - array.ndim) + [*array.shape] == channels:
                return other, array.reshape(-1).astype(np.float64)
        return value, 1.0

    def _met(self, before: Node, value: str, other: str, signs: tuple[int, int], out: Stored,
             bounds: Bounds, times: np.ndarray | float) -> IntegerNode | None:
        """The product that is computed `before` and whose sums meet another value, both with these
        signs; None where it is none, or must stay in float."""
        form = find(before.op).integer
        try:
            made = form and form(self.view, before, out, bounds)
            if not made or made.op not in WITH_RESIDUAL:
                return None
            residual = self.view.activation(other)
            repeated = self._repeated(residual, other, value)
            self.writing.check_type(before, out, made)
            met = with_residual(self.view, made, residual, out, signs, times)
            met = replace(met, inputs=(*made.inputs, repeated))
            self.writing.check_type(before, out, met)
        except (StaysFloat, ScaleRefused) as reason:
            if find(before.op).contracts:
                self.reasons[before.name] = str(reason)
            return None
        return met

    def with_slope(self, core: Node, out: Stored, activations: list[Node]
                   ) -> tuple[IntegerNode, str] | None:
        """The operator before an activation that is the greater of x and a part of x, if it may
        requantize its sums for both; and its name."""
        slope = _slope(core)
        if slope is not None:
            (before, earlier), slopes = core_of(self.view, core.inputs[0]), np.array([slope])
        elif (found := slopes_of_channels(self.view, core)) is not None:
            before, earlier, slopes = self.view.producers[found[0]], [], found[1]
        else:
            return None
        form = before and find(before.op).integer
        if before is None or form is None:
            return None
        low, high = (end if end > 0 else float(slopes.max()) * end if slopes.any() else 0.0
                     for end in bounds_of(earlier))
        bounds = bounds_of(activations, low, high)
        try:
            above = form(self.view, before, out, bounds)
            self.writing.check_type(before, out, above)
            if not find(above.op).below:
                return None
            below = _below(dict(above.constants), slopes) if slopes.any() else ()
        except (StaysFloat, ScaleRefused) as reason:
            self.reasons[before.name] = str(reason)
            return None
        self.reasons.pop(core.name, None)
        return replace(above, constants=(*above.constants, *below)), before.name

    def _repeated(self, residual: Stored, other: str, value: str) -> str | IntegerNode:
        """The residual in the shape of the sums that it meets."""
        own, whole = self.view.shape(other), self.view.shape(value)
        if own == whole:
            return residual.value
        if common_shape(own, whole) != whole:
            raise StaysFloat(f"{other!r}, which its sums meet, has more elements than these")
        if len(own) == len(whole) == 4 and own[:2] == whole[:2]:
            factors = whole[2] // own[2], whole[3] // own[3]
            return IntegerNode("upsample", (residual.value,), {"factors": factors})
        return IntegerNode("expand", (residual.value,), {"shape": whole})


def core_of(view: QuantizedView, value: str) -> tuple[Node | None, list[Node]]:
    """The operator whose result is quantized, and what bounds it in between, in order."""
    core, activations = view.producers.get(value), []
    while core is not None and find(core.op).bounds:
        activations.insert(0, core)
        core = view.producers.get(core.inputs[0])
    return core, activations


def bounds_of(activations: list[Node], low: float = -inf, high: float = inf) -> Bounds:
    """The least and the greatest number that may be left."""
    for node in activations:
        bounds = find(node.op).bounds
        assert bounds is not None
        lo, hi = bounds(node.attrs)
        low, high = min(max(low, lo), hi), min(max(high, lo), hi)
    return low, high


def _slope(node: Node) -> float | None:
    """The part of x that an activation is where it is not x itself, and less."""
    slope = find(node.op).slope
    return slope and slope(node.attrs)


def _below(constants: Mapping[str, np.ndarray], slopes: np.ndarray
           ) -> tuple[tuple[str, np.ndarray], ...]:
    """Multipliers and shifts of what is below zero: those of the constants times the slopes."""
    real = np.ldexp(constants["mult"].astype(np.float64), -constants["shift"]) * slopes
    pairs = [multiplier_of(float(factor), 2**31) for factor in real]
    mult, shift = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    return ("mult_below", mult), ("shift_below", shift)
