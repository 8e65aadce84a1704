"""Weights of few bits with a scale for each group of inputs, which is an integer times the scale of
the channel.

So a weight is an integer of few bits times the factor of its group: a number of up to 16 bits, of
which the sums of a channel fit the accumulator.
"""

from dataclasses import dataclass

import numpy as np

from compiler.quantize.ranges.refusal import QuantizeRefused
from compiler.quantize.ranges.scales import least_squares

SCALE_BITS = (8, 16)
MOST = {8: 127, 16: 4095}
"""The greatest factor: 8 times that of 16 bits are int16."""

SUMS = BIAS_LIMIT = 2**29
"""The most that products of a channel and inputs of 8 bits may sum to, and its bias: the zero point
of the inputs may double the sum."""

CANDIDATES, TURNS, TOGETHER = 16, 2, 1024

SIZES = tuple(1 << bits for bits in range(4, 11))

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class WeightGroups:
    """WeightGroups of so many inputs; their scales have so many bits."""

    size: int
    scale_bits: int = 8

    @classmethod
    def of(cls, size: int | None, scale_bits: int | None, least: int, activation_bits: int = 8,
           accumulator_bits: int = 32) -> "WeightGroups | None":
        """The groups of a request; `least` are the fewest bits of any weight."""
        if size is None:
            if scale_bits is not None:
                raise QuantizeRefused("scale bits must come with weight groups")
            return None
        if size not in SIZES or isinstance(size, bool):
            raise QuantizeRefused(f"weight groups must be of {', '.join(map(str, SIZES[:-1]))} or "
                                  f"{SIZES[-1]} inputs, not {size!r}")
        if scale_bits not in (None, *SCALE_BITS):
            raise QuantizeRefused(f"scale bits must be 8 or 16, not {scale_bits!r}")
        if least > 4:
            raise QuantizeRefused("weight groups must come with weight bits of 4 or 2")
        if (activation_bits, accumulator_bits) != (8, 32):
            raise QuantizeRefused("weight groups must come with activations of 8 bits and sums of "
                                  f"32, not {activation_bits} and {accumulator_bits}")
        return cls(size, scale_bits or 8)


def grouped_weight(rows: Array, bits: int, groups: WeightGroups, bias: Array, source: np.float32
                   ) -> tuple[Array, Array, Array]:
    """Quantizes a weight [channels, inputs] to int16 steps and a float32 scale for each channel;
    the third array has the factor of each step.

    Scales of groups are those of the least squared error after rounding to so many `bits`, to the
    nearest factor. `bias` and `source` are as `quantized_weight` has them.
    """
    channels, inputs = rows.shape
    count = -(-inputs // groups.size)
    cut = np.zeros((channels, count, groups.size))
    cut.reshape(channels, -1)[:, :inputs] = rows
    wanted = np.where(np.abs(cut).max(axis=2) > 0, _scales(
        cut.reshape(-1, groups.size), bits).reshape(channels, count), 0)
    unit = np.maximum(_unit(cut, wanted, bits, groups), np.abs(bias) / source / BIAS_LIMIT)
    unit = np.where(unit >= np.finfo(np.float32).tiny, unit, 1)[:, None]
    factors = np.rint(wanted / unit).clip(1, MOST[groups.scale_bits])
    steps = _integers(cut, factors * unit, bits) * factors[..., None]
    return (steps.reshape(channels, -1)[:, :inputs].astype(np.int16), unit[:, 0].astype(np.float32),
            factors.repeat(groups.size, axis=1)[:, :inputs])


def _scales(groups: Array, bits: int) -> Array:
    """The scale of each group, with the least squared error; a few at a time, which caches hold."""
    return np.concatenate([least_squares(groups[place:place + TOGETHER], bits, CANDIDATES, TURNS)
                           for place in range(0, len(groups), TOGETHER)])


def _integers(cut: Array, scales: Array, bits: int) -> Array:
    """The nearest integers of so many bits; 0 where the scale is."""
    whole = np.rint(cut / np.where(scales > 0, scales, 1)[..., None])
    return whole.clip(-(1 << bits - 1), (1 << bits - 1) - 1)


def _unit(cut: Array, wanted: Array, bits: int, groups: WeightGroups) -> Array:
    """The scale of each channel: the greatest of its groups has the greatest factor, or one with
    which sums fit."""
    sums = 128 * (np.abs(_integers(cut, wanted, bits)).sum(axis=2) * wanted).sum(axis=1)
    return np.maximum(wanted.max(axis=1) / MOST[groups.scale_bits], sums / SUMS)
