"""An int8 that may come before a function of numbers: its steps, and what that makes of results."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compiler.ops.records.integer_forms import Stored

Array = np.ndarray
Function = Callable[[Array], Array]

MOST_OFF = 0.98
"""Steps of the result, less than one: so both round to neighbours at most."""

FLAT = 0.25             # steps within which a result counts as one that no longer changes
SLOPES = (0.7, 0.6, 0.5, 0.42, 0.35, 0.3, 0.25, 0.125)
"""How much of a number below zero may be kept where all of it is too much."""
COARSE, FINE = 1 << 15, 16          # numbers on a side of zero; in a step of int8
FAR = np.array([2, 16, 1e4, 1e8], np.float32)


@dataclass(frozen=True, slots=True)
class Between:
    """An int8 before a function: real + shift = (stored - zp) * scale, below zero divided by the
    slope."""

    scale: float
    zp: int
    slope: float = 1.0
    shift: float = 0.0

    def kept(self, numbers: Array) -> Array:
        """The numbers that are left."""
        moved = numbers + np.float32(self.shift)
        bent = np.where(moved < 0, moved * np.float32(self.slope), moved)
        integers = np.clip(np.rint(bent / self.scale) + self.zp, -128, 127)
        made = ((integers - self.zp) * self.scale).astype(np.float32)
        return np.where(made < 0, made * np.float32(1 / self.slope), made) - np.float32(self.shift)


def is_in_products(function: Function) -> bool:
    """True if it is the greater of x and a part of x, within bounds: a product does that itself."""
    positive = np.geomspace(1e-3, 1e6, 64, dtype=np.float32)
    numbers = np.concatenate([-positive[::-1], positive])
    results = function(numbers)
    slope = float(results[len(positive) - 1] / numbers[len(positive) - 1])
    line = np.clip(np.where(numbers > 0, numbers, slope * numbers), results.min(), results.max())
    return 0 <= slope <= 1 and np.allclose(results, line, rtol=1e-5, atol=0)


def int8_before(function: Function, out: Stored) -> Between | None:
    """The int8 before a function whose result is quantized: a straight one, else the bent one that
    makes the result least other; None where that is more than `MOST_OFF` steps.
    """
    def steps(numbers: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.clip(function(numbers) / np.float32(out.scale) + out.zp, -128, 127)

    end = np.float32(max(16, 512 * out.scale))
    numbers = np.linspace(-end, end, 2 * COARSE + 1, dtype=np.float32)
    changes = _changes(steps, numbers)
    if changes is None:
        return None
    least, most = min(changes[0], 0.0), max(changes[1], 0.0)
    step = (most - least) / 255
    fine = np.linspace(least - step, most + step, 257 * FINE + 1, dtype=np.float32)
    def off(tried: Between) -> float:
        return max(_off(steps, tried, each) for each in (numbers, fine))

    best = between(least, most)
    if off(best) > MOST_OFF and least < 0:
        best = min((between(least, most, slope) for slope in SLOPES), key=off)
    return best if off(best) <= MOST_OFF else None


def between(least: float, most: float, slope: float = 1.0, shift: float = 0.0) -> Between:
    """The int8 that spans numbers from one at most zero to another; of zero alone, one of steps of
    1.
    """
    least, most = min(least + shift, 0.0) * slope, max(most + shift, 0.0)
    scale = float(np.float32((most - least) / 255)) or 1.0
    return Between(scale, int(np.clip(np.rint(-128 - least / scale), -128, 127)), slope, shift)


def _changes(steps: Function, numbers: Array) -> tuple[float, float] | None:
    """The numbers between which the result changes; None where it does so at the ends or beyond."""
    results, far = steps(numbers), np.concatenate([numbers[0] * FAR, numbers[-1] * FAR])
    if not np.isfinite(results).all():
        return None
    ends = np.repeat(results[[0, -1]], len(FAR))
    low, high = (int(np.argmin(np.abs(side - side[0]) <= FLAT)) for side in (
        results, results[::-1]))
    flat = low and high and (np.abs(steps(far) - ends) <= FLAT).all()
    return (float(numbers[low - 1]), float(numbers[-high])) if flat else None


def _off(steps: Function, before: Between, numbers: Array) -> float:
    """The steps by which the result differs where the numbers are stored before."""
    return float(np.abs(steps(before.kept(numbers)) - steps(numbers)).max())
