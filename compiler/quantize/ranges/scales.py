"""Scales: real = (stored - zero) * scale. Activations uint8, with few values for 4
and 2 bits, or int16 with zero point 0, weights int8 and biases int32."""

from dataclasses import dataclass

import numpy as np

ACTIVATION_BITS = (2, 4, 8, 16)
ACCUMULATOR_BITS = (16, 24, 32, 40, 48)
WEIGHT_BITS = (8, 4, 2)
WEIGHT_LIMIT = 127
BIAS_LIMIT = 2**30          # leaves half of the accumulator's range
WIDE_STEPS, WIDE_BIAS_LIMIT = 48000, 2**29      # of a channel that reads int16: sums fit int32
COARSEST = 8                # times the scale that weights allow: 16 steps to either side are left
EMPTY_STEPS = 2**20         # step of the bias of a channel whose weights are all zero

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale and zero point of an activation, which has the type of the zero point; `bits` are
    those of its numbers where they are fewer than 8.
    """

    scale: np.float32
    zero: np.uint8 | np.int16
    bits: int | None = None

    @classmethod
    def of(cls, low: float, high: float, symmetric: bool = False, bits: int = 8) -> "Scale":
        """The scale that spans the range and 0, which padding needs; `symmetric` fixes zero point
        128. Of 16 bits the zero point is 0; numbers of few bits begin at 0, or lie around 128.
        """
        low, high = min(low, 0.0), max(high, 0.0)
        if bits == 16:
            return cls(_step(max(-low, high) / np.iinfo(np.int16).max), np.int16(0))
        few, most = bits if bits < 8 else None, (1 << bits) - 1
        if symmetric:
            return cls(_step(max(-low, high) / (most // 2)), np.uint8(128), few)
        scale = _step((high - low) / most)
        return cls(scale, np.uint8(np.clip(np.rint(-low / scale), 0, most)), few)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest stored number."""
        if self.bits is None:
            return np.iinfo(self.zero.dtype).min, np.iinfo(self.zero.dtype).max
        first = 128 - (1 << self.bits - 1) if self.zero == 128 else 0
        return first, first + (1 << self.bits) - 1

    def bounds(self) -> tuple[float, float]:
        """The least and the greatest real number, in float32."""
        low, high = ((np.float32(limit) - np.float32(self.zero)) * self.scale
                     for limit in self.limits)
        return float(low), float(high)

    def reaches(self, low: float, high: float) -> bool:
        """True if clamping to the bounds changes any stored number."""
        with np.errstate(over="ignore"):
            first, last = np.rint(np.array([low, high], np.float32) / self.scale) + self.zero
        least, most = self.limits
        return first > least or last < most

    def steps(self, real: Array) -> Array:
        """The real numbers as they are stored."""
        return self._stored(real).astype(self.zero.dtype)

    def rounded(self, real: Array) -> Array:
        """The real numbers after quantization."""
        return (self._stored(real) - self.zero) * self.scale

    def _stored(self, real: Array) -> Array:
        return np.clip(np.rint(real / self.scale) + self.zero, *self.limits)


def _step(real: float) -> np.float32:
    """The range's scale as a float32; 1 for a range too small to have one."""
    return np.float32(real if real >= np.finfo(np.float32).tiny else 1)


def quantized_weight(weight: Array, axis: int, bias: Array, source: np.float32, bits: int = 8,
                     activation_bits: int = 8, accumulator_bits: int = 32
                     ) -> tuple[Array, Array]:
    """Quantizes a weight to int8 steps and a float32 scale for each channel along the axis. Steps
    fit `bits`; of fewer than 8 the scale is that of the least squared error.

    `bias` has a number for each channel, or the largest one where channels share a scale;
    `source` is the scale of the data. A scale is as small as weights allow unless the bias would
    then pass `BIAS_LIMIT`; for activations of 16 bits, or accumulators of fewer than 32, unless
    sums of a channel's products could pass the accumulator. Where accumulators of a width of one's
    own leave a layer too few steps, it keeps them all.
    """
    others = tuple(i for i in range(weight.ndim) if i != axis)
    greatest = np.abs(weight).max(axis=others)
    whole = (greatest / np.float32(WEIGHT_LIMIT) if bits == 8
             else least_squares(np.moveaxis(weight, axis, 0), bits))
    scale = np.where(greatest > 0, whole,
                     np.abs(bias) / source / EMPTY_STEPS)
    limit = WIDE_BIAS_LIMIT if activation_bits == 16 and accumulator_bits <= 32 else BIAS_LIMIT
    if activation_bits == 16 or accumulator_bits < 32:
        most = WIDE_STEPS * 2.0**(accumulator_bits - 16 - activation_bits)
        rounding = weight.size // weight.shape[axis] / 2        # half a step for each weight
        steps = max(most - rounding, most / 4)
        fitting = np.maximum(scale, np.abs(weight).sum(axis=others) / steps)
        if accumulator_bits == 32 or np.all(fitting <= COARSEST * scale):
            scale = fitting             # else the layer is not for the accelerator
    scale = np.maximum(scale, np.abs(bias) / source / limit)
    scale = np.where(scale >= np.finfo(np.float32).tiny, scale, 1).astype(np.float32)
    channels = [-1 if i == axis else 1 for i in range(weight.ndim)]
    steps = np.rint(weight / scale.reshape(channels))
    return steps.clip(-(1 << bits - 1), (1 << bits - 1) - 1).astype(np.int8), scale


CANDIDATES, TURNS = 48, 4       # scales that are tried for a channel; how often the best is refined


BLOCK, LEAST_CHANNELS = 1 << 15, 8      # weights of channels that are tried together: of a cache


def least_squares(weight: Array, bits: int, candidates: int = CANDIDATES, turns: int = TURNS
                  ) -> Array:
    """The scale of each channel [channels, ...] with the least squared error after rounding."""
    rows = weight.reshape(len(weight), -1).astype(np.float64)
    together = max(LEAST_CHANNELS, BLOCK // max(rows.shape[1], 1))
    parts = np.array_split(rows, -(-len(rows) // together))
    return np.concatenate([_least_of(part.copy(order="K"), bits, candidates, turns)
                           for part in parts])


def _least_of(rows: Array, bits: int, candidates: int, turns: int) -> Array:
    """The scales of some channels [channels, weights], found among candidates and refined: rounded
    to steps q, w is nearest to q * <w, q> / <q, q>.
    """
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    greatest = np.abs(rows).max(axis=1)
    best, least = np.ones(len(rows)), np.full(len(rows), np.inf)
    steps, rest = np.empty_like(rows), np.empty_like(rows)
    for share in np.linspace(0.2, 1.0, candidates):
        scale = np.where(greatest > 0, share * greatest / max(high, 1), 1)
        for _ in range(turns):
            np.rint(np.divide(rows, scale[:, None], out=steps), out=steps).clip(low, high, steps)
            np.subtract(rows, np.multiply(steps, scale[:, None], out=rest), out=rest)
            error = np.square(rest, out=rest).sum(axis=1)
            better = error < least
            best, least = np.where(better, scale, best), np.where(better, error, least)
            length = np.multiply(steps, steps, out=rest).sum(axis=1)
            fit = np.multiply(rows, steps, out=rest).sum(axis=1) / np.maximum(length, 1)
            scale = np.where(fit > 0, fit, scale)
    return best


def quantized_bias(bias: Array, scale: Array) -> Array:
    """Quantizes a bias to int32 steps of the data's scale times the weight's."""
    return np.rint(bias / scale).clip(-BIAS_LIMIT, BIAS_LIMIT).astype(np.int32)
