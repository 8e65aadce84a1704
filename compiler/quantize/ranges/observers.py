"""Derives ranges of values from samples: extremes, percentiles, least squared error.

An observer sees a tensor batch by batch, then gives the range (low, high) for quantization. All but
the first count values in equal bins around 0, whose width doubles when a value lies outside: `BINS`
of them from minus to plus the largest magnitude, so a range is right to two bins.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import ceil, floor
from typing import Protocol

import numpy as np

from compiler.quantize.ranges.scales import Scale
from compiler.quantize.ranges.refusal import QuantizeRefused

BINS = 1 << 14
STEPS = 128             # candidates for each end of a range
SWEEPS = 2              # rounds of choosing each end anew

Array = np.ndarray
Range = tuple[float, float]


class Observer(Protocol):
    def update(self, values: Array) -> None:
        """Observes finite float32 numbers of any shape, at least one."""
        ...

    def range(self) -> Range: ...


@dataclass(slots=True)
class MinMax:
    """The least and the greatest value."""

    low: float = np.inf
    high: float = -np.inf

    def update(self, values: Array) -> None:
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))

    def range(self) -> Range:
        return self.low, self.high


@dataclass(slots=True)
class Histogram:
    """Counts of values in `BINS` equal bins from -limit to limit."""

    extremes: MinMax = field(default_factory=MinMax)
    limit: float = 0.0
    counts: Array = field(default_factory=lambda: np.zeros(BINS, np.int64))

    def update(self, values: Array) -> None:
        self.extremes.update(values)
        low, high = self.extremes.range()
        self._reach(max(-low, high))
        if self.limit:
            places = np.floor(values.reshape(-1) * np.float64(BINS / 2 / self.limit)) + BINS // 2
            self.counts += np.bincount(places.clip(0, BINS - 1).astype(np.int64), minlength=BINS)
        else:
            self.counts[BINS // 2] += values.size           # all are 0

    def _reach(self, magnitude: float) -> None:
        if not self.limit and magnitude:
            self.limit = 2.0 ** np.ceil(np.log2(magnitude))
        while magnitude > self.limit:
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.pad(pairs, BINS // 4)
            self.limit *= 2

    def edges(self) -> Array:
        return np.linspace(-self.limit, self.limit, BINS + 1)


@dataclass(slots=True)
class Percentile:
    """The range from the (100 - percent)th percentile to the `percent`th. Both ends are observed
    values: the next one outwards where the rank is not integral.
    """

    percent: float = 99.99
    seen: Histogram = field(default_factory=Histogram)

    def __post_init__(self):
        if not 50 < self.percent <= 100:
            raise QuantizeRefused("percentile must be above 50 and at most 100, "
                                  f"not {self.percent:g}")

    def update(self, values: Array) -> None:
        self.seen.update(values)

    def range(self) -> Range:
        below, edges = np.cumsum(self.seen.counts), self.seen.edges()
        last = below[-1] - 1
        ranks = floor((100 - self.percent) / 100 * last), ceil(self.percent / 100 * last)
        first, final = np.searchsorted(below, ranks, side="right")
        ends = np.clip([edges[first], edges[final + 1]], *self.seen.extremes.range())
        return float(ends[0]), float(ends[1])


@dataclass(slots=True)
class MeanSquare:
    """The range with the least mean squared error of quantization to so many bits.

    Each end is one of `STEPS` equal parts of the way from 0 to the extreme; the ends are chosen in
    turn, starting from the extremes.
    """

    seen: Histogram = field(default_factory=Histogram)
    bits: int = 8

    def update(self, values: Array) -> None:
        self.seen.update(values)

    def range(self) -> Range:
        lowest, highest = self.seen.extremes.range()
        lowest, highest = min(lowest, 0.0), max(highest, 0.0)
        low, high = lowest, highest
        used, edges = np.flatnonzero(self.seen.counts), self.seen.edges()
        counts, centers = self.seen.counts[used], (edges[used] + edges[used + 1]) / 2

        def error(low: float, high: float) -> float:
            wrong = Scale.of(low, high, bits=self.bits).rounded(centers) - centers
            return float(np.sum(counts * wrong * wrong))

        for _ in range(SWEEPS):
            high = min(_candidates(highest), key=lambda end, low=low: error(low, end))
            low = min(_candidates(lowest), key=lambda end, high=high: error(end, high))
        return low, high


def _candidates(extreme: float) -> list[float]:
    """Candidates from the extreme to near 0."""
    return [extreme * step / STEPS for step in range(STEPS, 0, -1)] if extreme else [extreme]


OBSERVERS: dict[str, Callable[[float, int], Observer]] = {
    "minmax": lambda percent, bits: MinMax(),
    "percentile": lambda percent, bits: Percentile(percent),
    "mse": lambda percent, bits: MeanSquare(bits=bits)}
"""What makes each of them, of the percentile that was asked for and the bits of activations."""


def observer(name: str, percent: float = 99.99, bits: int = 8) -> Callable[[], Observer]:
    """Makes observers of one of `OBSERVERS`, for activations of so many bits. Raises
    QuantizeRefused for another name, and for options that it cannot have.
    """
    if name not in OBSERVERS:
        raise QuantizeRefused(f"observer must be one of {', '.join(OBSERVERS)}, not {name!r}")
    OBSERVERS[name](percent, bits)
    return partial(OBSERVERS[name], percent, bits)
