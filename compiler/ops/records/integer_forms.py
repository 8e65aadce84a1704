"""Integer operators in the place of float ones: what a form reads, what it gives, and the numbers
that forms share. The numbers are those of docs/machine.md, section Numbers.

A form of an operator takes the quantized tensors around a node and gives the integer node that
takes its place, or raises StaysFloat with the reason. All zero points are in stored form (a uint8
tensor is stored as x - 128, its zero point as zp - 128; a uint16 tensor as x - 32768).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from compiler.ops.integers.fixed_point import limits_of, quantize_multiplier
from compiler.ops.records.node import Node

ACCUMULATOR_BITS = 32
"""Bits of the sums of an operator that does not say ``sums``."""


class StaysFloat(Exception):
    """Why an operator keeps its float meaning; the reason follows `stays in float: `."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor of int8 or int16 in stored form with one scale: real = (stored - zp) * scale."""

    value: str
    scale: float
    zp: int
    dtype: str = "int8"


@dataclass(frozen=True, slots=True)
class IntegerNode:
    """Operator, attributes and inputs: activations by name, or what computes them, then new
    constants by role.
    """

    op: str
    inputs: tuple["str | IntegerNode", ...]
    attrs: Mapping[str, object]
    constants: tuple[tuple[str, np.ndarray], ...] = ()


class QuantizedInputs(Protocol):
    """The graph as a form reads it; what does not fit raises StaysFloat."""

    def activation(self, value: str) -> Stored:
        """The quantized tensor that a float value is."""
        ...

    def operand(self, value: str, shape: tuple[int, ...] | None = None) -> Stored:
        """The quantized value, or a constant that was quantized with one scale, repeated to the
        shape."""
        ...

    def weight(self, value: str, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """int8 weight and float64 scale for each of the channels along the axis."""
        ...

    def bias(self, value: str, scales: np.ndarray, out: Stored) -> np.ndarray:
        """The bias in accumulator steps: integers in float64, one for each channel. StaysFloat
        where these are more than a step of the result, `out`, from what it is."""
        ...

    def is_computed(self, value: str) -> bool:
        """True if the value is quantized and no constant."""
        ...

    def is_constant(self, value: str) -> bool:
        """True if the value is a constant, as it is or dequantized."""
        ...

    @property
    def accumulator_bits(self) -> int:
        """The bits of the widest sums that any target forms, at least 32."""
        ...

    def shape(self, value: str) -> tuple[int, ...]: ...

    def producer(self, value: str) -> Node | None: ...


Bounds = tuple[float, float]
"""What the operators that follow leave of the numbers, least and greatest."""

IntegerForm = Callable[[QuantizedInputs, Node, Stored, Bounds], IntegerNode]


def clamp_to(out: Stored, bounds: Bounds) -> dict[str, int]:
    """The bounds as QuantizeLinear would see them: rounding keeps order."""
    with np.errstate(over="ignore"):
        steps = np.rint(np.array(bounds, np.float32) / np.float32(out.scale)) + out.zp
    lo, hi = np.clip(steps, *limits_of(out.dtype)).astype(int).tolist()
    return {"zp": out.zp, "lo": lo, "hi": hi}


def check_accumulator(bounds: np.ndarray, bits: int = ACCUMULATOR_BITS,
                      what: str = "accumulator") -> None:
    """StaysFloat unless |sum| + |bias| fits so many bits in every channel, whatever the input."""
    worst, limit = int(np.argmax(bounds)), 2**(bits - 1) - 1
    if not bounds[worst] <= limit:
        raise StaysFloat(f"its {what} could reach {bounds[worst]:.4g} in channel {worst}, "
                         f"beyond {limit}")


def multiplier_of(real: float, bound: float) -> tuple[int, int]:
    """Multiplier and shift; a scale so small that no accumulator reaches 1/2 is exactly 0."""
    return (0, 0) if bound * real < 0.5 else quantize_multiplier(real)


def weighted(view: QuantizedInputs, biases: tuple[str, ...], x: Stored, weight: np.ndarray,
             scales: np.ndarray, out: Stored
             ) -> tuple[dict[str, str], tuple[tuple[str, np.ndarray], ...]]:
    """The type of sums where 32 bits are too few, as an attribute, and the constants, of an
    operator with weights [channels, ...], input zero point folded in. Weights that are hardly
    beyond int8 are cut to it."""
    steps = x.scale * scales
    weight = _cut(weight, x, steps / out.scale)
    bias = view.bias(biases[0], steps, out) if biases else np.zeros(len(steps))
    rows = weight.reshape(len(steps), -1).astype(np.int32 if weight.itemsize <= 2 else np.int64)
    folded = bias - x.zp * rows.sum(axis=1, dtype=np.int64)
    bounds = -limits_of(x.dtype)[0] * np.abs(rows).sum(axis=1, dtype=np.int64) + np.abs(folded)
    check_accumulator(bounds, view.accumulator_bits)
    check_accumulator(np.abs(folded), what="bias")
    pairs = [multiplier_of(float(step) / out.scale, float(bound))
             for step, bound in zip(steps, bounds, strict=True)]
    mult, shift = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    sums = {"sums": "int64"} if bounds.max() >= 2**(ACCUMULATOR_BITS - 1) else {}
    return sums, (("weight", weight), ("bias", folded.astype(np.int32)), ("mult", mult),
                  ("shift", shift))


def _cut(weight: np.ndarray, x: Stored, steps: np.ndarray) -> np.ndarray:
    """The weights in int8 where that makes no sum, in such steps of the result, more than half a
    step wrong: less a zero point a few may have 9 bits, for which all products would be two."""
    if (x.dtype, weight.dtype.name) != ("int8", "int16"):
        return weight
    cut = weight.clip(*limits_of("int8"))
    beyond = np.abs(weight.astype(np.int32) - cut).reshape(len(steps), -1).sum(axis=1)
    off = beyond * steps * max(abs(end - x.zp) for end in limits_of(x.dtype))
    return cut.astype(np.int8) if off.max() <= 0.5 else weight


def scaled(op: str, x: Stored, count: int, out: Stored, bounds: Bounds) -> IntegerNode:
    """One multiplier for the whole tensor, applied to sums of `count` elements."""
    bias = -x.zp * count
    bound = np.array([-float(limits_of(x.dtype)[0]) * count + abs(bias)])
    check_accumulator(bound)
    mult, shift = multiplier_of(x.scale / (out.scale * count), float(bound[0]))
    attrs = {"bias": bias, "mult": mult, "shift": shift}
    return IntegerNode(op, (x.value,), attrs | clamp_to(out, bounds))
