"""Weights as integers of few bits times a factor of each channel and each group of its inputs.

Found in the numbers: the factor of a group is the greatest common divisor of its weights. NumPy
only.
"""

from dataclasses import dataclass

import numpy as np

Array = np.ndarray

BITS = (2, 4, 8)
"""Bits of the integers, the fewest first."""

LOWEST, HIGHEST = (-128, -32640), (127, 32639)
"""Ends of factors of one byte and of two, both with a sign: the high one counts 256."""


@dataclass(frozen=True, slots=True)
class Factors:
    """Integers [channels, inputs] of few bits, and the factors [channels, groups] that they are
    multiplied by; a group is so many `blocks` of inputs."""

    blocks: int
    integers: Array
    factors: Array

    @property
    def bytes_(self) -> int:
        """Bytes of a factor."""
        return _bytes_of(self.factors)

    def packed(self, block_out: int, channels: int) -> Array:
        """The bytes [co][group][byte][block_out] of so many channels, the low ones first."""
        low = self.factors.astype(np.int8)
        several = [low, (self.factors - low) >> 8][:self.bytes_]
        padded = np.zeros((channels, self.factors.shape[1], self.bytes_), np.int8)
        padded[:len(low)] = np.stack(several, axis=-1)
        cut = padded.reshape(-1, block_out, *padded.shape[1:])
        return np.ascontiguousarray(cut.transpose(0, 2, 3, 1))


def factors_of(weights: Array, block: int) -> Factors | None:
    """The weights [channels, inputs] with the fewest bytes in groups of whole blocks of so many
    inputs, as many in each; None where integers beyond int8 are left, or factors of two bytes do
    not hold the rest."""
    depth = -(-weights.shape[1] // block)
    padded = np.zeros((len(weights), depth, block), np.int32)
    padded.reshape(len(weights), -1)[:, :weights.shape[1]] = weights
    divisor, low, high = (end(padded, axis=2) for end in (np.gcd.reduce, np.min, np.max))
    found: list[tuple[int, int, Array]] = []
    for blocks in range(1, depth + 1):
        if depth % blocks:
            continue
        cut = (len(weights), depth // blocks, blocks)
        factors = _factors(np.gcd.reduce(divisor.reshape(cut), axis=2),
                           low.reshape(cut).min(axis=2), high.reshape(cut).max(axis=2))
        if factors is not None:
            bits, numbers = factors
            found.append((weights.size * bits + 8 * numbers.size * _bytes_of(numbers), -blocks,
                          numbers))
    if not found:
        return None
    _, blocks, factors = min(found, key=lambda one: one[:2])
    spread = np.repeat(factors, -blocks * block, axis=1)[:, :weights.shape[1]]
    return Factors(-blocks, (weights // spread).astype(np.int8), factors)


def _factors(divisor: Array, low: Array, high: Array) -> tuple[int, Array] | None:
    """The bits of integers, and factors of as few bytes as leave them so many bits, of groups with
    these divisors and these ends. A factor is negative where that leaves the integers fewer bits.
    """
    divisor = np.maximum(divisor, 1)
    sign = np.where(high > -low, -1, 1)
    below, above = (np.where(sign < 0, *ends) // divisor for ends in ((high, -low), (-low, high)))
    bits = next((bits for bits in BITS if _hold(bits, below, above).all()), 0)
    factors = sign * divisor
    for part in range(2, 1 << max(bits - 1, 0)):
        smaller = (_are_wide(factors) & (divisor % part == 0)
                   & _hold(bits, below * part, above * part))
        factors = np.where(smaller, sign * divisor // part, factors)
    held = LOWEST[1] <= factors.min() and factors.max() <= HIGHEST[1]
    return (bits, factors) if bits and held else None


def _hold(bits: int, below: Array, above: Array) -> Array:
    """True where so many bits hold integers down to -below and up to above."""
    return (below <= 1 << bits - 1) & (above < 1 << bits - 1)


def _are_wide(factors: Array) -> Array:
    """True of factors that take more than a byte."""
    return (factors < LOWEST[0]) | (factors > HIGHEST[0])


def _bytes_of(factors: Array) -> int:
    """The bytes that hold all factors."""
    return 2 if _are_wide(factors).any() else 1
