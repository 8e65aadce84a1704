"""An interval for each element of an array."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
ROUNDING = 2.0**-20
"""What float32 may be off, of the magnitudes that were added up: 8 units in the last place."""


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """The least, the expected and the greatest number for each element."""

    low: Array
    middle: Array
    high: Array

    @classmethod
    def exact(cls, array: Array) -> "Interval":
        return cls(array, array, array)

    @classmethod
    def unknown(cls, middle: Array) -> "Interval":
        """Anything that the type has."""
        ends = {"f": lambda: (-np.inf, np.inf), "b": lambda: (False, True)}.get(
            middle.dtype.kind, lambda: (np.iinfo(middle.dtype).min, np.iinfo(middle.dtype).max))()
        return cls(np.full_like(middle, ends[0]), middle, np.full_like(middle, ends[1]))

    @classmethod
    def hull(cls, middle: Array, arrays: Sequence[Array]) -> "Interval":
        """The smallest that has all of these; NaN makes it unknown."""
        return cls(np.minimum.reduce([middle, *arrays]), middle,
                   np.maximum.reduce([middle, *arrays]))

    def settled(self) -> "Interval":
        """With no end that is NaN, which would be forgotten: such elements may be anything."""
        if self.middle.dtype.kind != "f" or self.low is self.high:
            return self
        nan = np.isnan(self.low) | np.isnan(self.high)
        return Interval(np.where(nan, -np.inf, self.low).astype(self.middle.dtype), self.middle,
                        np.where(nan, np.inf, self.high).astype(self.middle.dtype))

    @property
    def certain(self) -> bool:
        return self.low is self.high or np.array_equal(self.low, self.high, equal_nan=True)

    @property
    def finite(self) -> bool:
        return bool(np.all(np.isfinite(self.low)) and np.all(np.isfinite(self.high)))

    @property
    def width(self) -> float:
        """The largest distance of its ends."""
        return float(np.max(self.high.astype(np.float64) - self.low.astype(np.float64), initial=0))

    def widened(self, steps: int) -> "Interval":
        """So many steps more to both sides, within the type."""
        info = np.iinfo(self.middle.dtype)
        low = np.clip(self.low.astype(np.int64) - steps, info.min, info.max)
        high = np.clip(self.high.astype(np.int64) + steps, info.min, info.max)
        return Interval(low.astype(self.low.dtype), self.middle, high.astype(self.high.dtype))

    def rounded(self, magnitude: Array | float) -> "Interval":
        """Wider by what rounding to float32 may be off."""
        if self.middle.dtype.kind != "f":
            return self
        with np.errstate(all="ignore"):
            more = np.asarray(magnitude, np.float64) * ROUNDING + 1e-37
            low, high = self.low - more, self.high + more
        kind = self.middle.dtype
        return Interval(low.astype(kind), self.middle, high.astype(kind))

    def magnitudes(self) -> "Interval":
        """The interval of magnitudes."""
        crosses = (self.low <= 0) & (self.high >= 0)
        ends = np.abs(self.low), np.abs(self.high)
        low = np.where(crosses, np.zeros_like(ends[0]), np.minimum(*ends))
        return Interval(low, np.abs(self.middle), np.maximum(*ends))
