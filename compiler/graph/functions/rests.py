"""Functions that are their own input far above zero, as that and a rest, which is computed from an
int8.

    f(x) = max(x, 0) + rest(x)        max(x, 0) + r = max(x + r, r)

So the sums of a product meet the rest as they meet any residual, and are rounded once. A gelu of
any range has a small rest, and channels may have factors of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler.graph.functions.before import COARSE, FINE, FLAT, SLOPES, Between, Function, between
from compiler.graph.graph import Node
from compiler.graph.rewrite import Builder
from compiler.ops.records.integer_forms import Stored

Array = np.ndarray

MOST_OFF = 0.9
"""Steps of the result; what sums that meet a residual are off comes on top."""

FARTHEST = np.array([-1e8, -1e4, 1e4, 1e8], np.float32)
RELATIVE = 1e-6         # of a number far away, that its function may be off
SHIFTS = (0.0, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0)
"""How far below zero steps may become coarser."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The int8 before a rest, and the scale and the zero point of that in int8."""

    before: Between
    scale: float
    zp: int

    def kept(self, numbers: Array) -> Array:
        """The numbers that are left of a rest."""
        stored = np.clip(np.rint(numbers / self.scale) + self.zp, -128, 127)
        return ((stored - self.zp) * self.scale).astype(np.float32)


def rest_of(function: Function, out: Stored, factors: Array) -> Rest | None:
    """The rest of a function whose result, times a factor of each channel, is quantized; None where
    the best one would make results more than `MOST_OFF` steps other, or where it changes however
    far its input is.
    """
    least, most = float(factors.min()), float(factors.max())
    step, full = out.scale / most, (128 - out.zp) * out.scale / least
    end = np.float32(max(16, 512 * step))
    numbers = np.linspace(-end, end, 2 * COARSE + 1, dtype=np.float32)
    with np.errstate(all="ignore"):
        results, far = _rest(function, numbers), _rest(function, FARTHEST)
    ends = np.repeat(results[[0, -1]], 2)
    if not np.isfinite(results).all() or not (
            np.abs(far - ends) <= FLAT * step + RELATIVE * np.abs(FARTHEST)).all():
        return None
    low, high = (int(np.argmin(np.abs(side - side[0]) <= FLAT / 4 * step)) for side in (
        results, results[::-1]))
    below = np.flatnonzero(results + np.maximum(numbers, 0) < full)     # of the greatest results
    if not low or not high or not below.size:
        return None
    ends = float(numbers[low - 1]), float(numbers[min(len(numbers) - high, below[-1])])
    stored = between(float(results.min()), float(results.max()))
    fine = np.linspace(ends[0] - 1, ends[1] + 1, 257 * FINE + 1, dtype=np.float32)

    def off(tried: Rest) -> float:
        return max(_off(function, tried, out, factor, each) for each in (numbers[::16], fine)
                   for factor in (least, most))

    made = min((Rest(between(*ends, slope, shift), stored.scale, stored.zp)
                for shift in SHIFTS for slope in (1.0, *SLOPES) if slope < 1 or not shift), key=off)
    return made if off(made) <= MOST_OFF else None


def _rest(function: Function, numbers: Array) -> Array:
    return function(numbers) - np.maximum(numbers, 0)


def _off(function: Function, rest: Rest, out: Stored, factor: float, numbers: Array) -> float:
    """The steps by which results differ."""
    kept = np.maximum(numbers, 0) + rest.kept(_rest(function, rest.before.kept(numbers)))
    made, wanted = (np.clip(each * np.float32(factor / out.scale) + out.zp, -128, 127)
                    for each in (kept, function(numbers)))
    return float(np.abs(made - wanted).max())


@dataclass(slots=True)
class RestWriting:
    """Adds the parts of a function of a product to a graph. `product` are the nodes that make the
    sums, `nodes` those of the function, which reads these alone.
    """

    builder: Builder
    product: Sequence[Node]
    nodes: Sequence[Node]
    rest: Rest
    factors: str | None
    names: Mapping[str, str]

    def write(self, quantize: Node) -> str:
        """Adds what is quantized in the place of the function's result, and returns it."""
        _, scale, zero = quantize.inputs
        sums = self.product[-1].outputs[0]
        below = self._before(self._copied(self.product, {}))
        whole = self._copied(self.nodes, {sums: below})
        rest = self._step("sub", whole, self._step("relu", below))
        rest = self._scaled(self._int8(rest, *self._parameters(
            rest, self.rest.scale, self.rest.zp)))
        above = self._step("add", self._scaled(self._copied(self.product, {})), rest)
        return self._step("maximum", *(self._int8(value, scale, zero, **quantize.attrs)
                                       for value in (above, rest)))

    def _before(self, value: str) -> str:
        """The sums in int8, which are bent and shifted for that."""
        before, shift = self.rest.before, self.builder.add_constant(
            self.builder.fresh(f"{value}:shift"), np.array(self.rest.before.shift, np.float32))
        moved = self._step("add", value, shift) if before.shift else value
        stored = self._int8(self._leaky(moved, before.slope), *self._parameters(
            value, before.scale, before.zp))
        made = self._leaky(stored, 1 / before.slope)
        return self._step("sub", made, shift) if before.shift else made

    def _leaky(self, value: str, slope: float) -> str:
        return value if slope == 1 else self._step("leakyrelu", value, alpha=slope)

    def _scaled(self, value: str) -> str:
        return value if self.factors is None else self._step("mul", value, self.factors)

    def _copied(self, nodes: Sequence[Node], known: dict[str, str]) -> str:
        """The result of a copy of the nodes that reads other values in the place of those known."""
        for node in nodes:
            value = self.builder.fresh(f"{node.outputs[0]}_part")
            known[node.outputs[0]] = self.builder.add(replace(
                node, name=self.builder.fresh_node(f"{node.name}_part"), outputs=(value,),
                inputs=tuple(known.get(each, self.names.get(each, each)) for each in node.inputs)))
        return known[nodes[-1].outputs[0]]

    def _parameters(self, value: str, scale: float, zero: int) -> tuple[str, str]:
        return (self.builder.add_constant(self.builder.fresh(f"{value}:scale"),
                                          np.array(scale, np.float32)),
                self.builder.add_constant(self.builder.fresh(f"{value}:zero"),
                                          np.array(zero, np.int8)))

    def _int8(self, value: str, *parameters: str, **attrs: object) -> str:
        for op in ("quantizelinear", "dequantizelinear"):
            value = self._step(op, value, *parameters, **{"axis": 0, **attrs})
        return value

    def _step(self, op: str, *inputs: str, **attrs: object) -> str:
        made = self.builder.fresh(f"{inputs[0]}_{op}")
        return self.builder.emit(op, self.builder.fresh_node(made), inputs, made, **attrs)
