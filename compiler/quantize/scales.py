"""Scales: real = (stored - zero) * scale. Activations uint8, weights int8 and biases int32."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Scale", "quantized_bias", "quantized_weight"]

WEIGHT_LIMIT = 127
BIAS_LIMIT = 2**30          # leaves half of the accumulator's range
EMPTY_STEPS = 2**20         # step of the bias of a channel whose weights are all zero

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale and zero point of a uint8 activation."""

    scale: np.float32
    zero: np.uint8

    @classmethod
    def of(cls, low: float, high: float, symmetric: bool = False) -> "Scale":
        """The scale that spans the range and 0, which padding needs; `symmetric` fixes zero point
        128.
        """
        low, high = min(low, 0.0), max(high, 0.0)
        if symmetric:
            return cls(_step(max(-low, high) / WEIGHT_LIMIT), np.uint8(128))
        scale = _step((high - low) / 255)
        return cls(scale, np.uint8(np.clip(np.rint(-low / scale), 0, 255)))

    def reaches(self, low: float, high: float) -> bool:
        """Whether clamping to the bounds changes any stored number."""
        with np.errstate(over="ignore"):
            first, last = np.rint(np.array([low, high], np.float32) / self.scale) + self.zero
        return first > 0 or last < 255

    def rounded(self, real: Array) -> Array:
        """The real numbers after quantization."""
        return (np.clip(np.rint(real / self.scale) + self.zero, 0, 255) - self.zero) * self.scale


def _step(real: float) -> np.float32:
    """The range's scale as a float32; 1 for a range too small to have one."""
    return np.float32(real if real >= np.finfo(np.float32).tiny else 1)


def quantized_weight(weight: Array, axis: int, bias: Array, source: np.float32
                     ) -> tuple[Array, Array]:
    """Quantizes a weight to int8 steps and a float32 scale for each channel along the axis.

    `bias` has a number for each channel, or the largest one where channels share a scale;
    `source` is the scale of the data. A scale is as small as weights allow unless the bias would
    then pass `BIAS_LIMIT`.
    """
    others = tuple(i for i in range(weight.ndim) if i != axis)
    greatest = np.abs(weight).max(axis=others)
    scale = np.where(greatest > 0, greatest / np.float32(WEIGHT_LIMIT),
                     np.abs(bias) / source / EMPTY_STEPS)
    scale = np.maximum(scale, np.abs(bias) / source / BIAS_LIMIT)
    scale = np.where(scale >= np.finfo(np.float32).tiny, scale, 1).astype(np.float32)
    channels = [-1 if i == axis else 1 for i in range(weight.ndim)]
    return np.rint(weight / scale.reshape(channels)).astype(np.int8), scale


def quantized_bias(bias: Array, scale: Array) -> Array:
    """Quantizes a bias to int32 steps of the data's scale times the weight's."""
    return np.rint(bias / scale).astype(np.int32)
