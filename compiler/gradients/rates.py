"""Rates of learning over the steps of a training, as parts of the optimizer's rate."""

from dataclasses import dataclass
from math import cos, pi

from compiler.errors import ArgumentError

SHAPES = ("constant", "step", "cosine")


@dataclass(frozen=True, slots=True)
class LearningRates:
    """A schedule: `share(step)` is what the optimizer's rate is multiplied by in a step, counted
    from 0.

    shape : "constant"; "step", times `factor` after each `every` steps; "cosine", down to 0 along
        half a wave, where the last of `steps` would be followed by 0.
    warm_up : steps at the beginning in which the share rises in even parts, the first not 0; the
        shape begins behind them.

    Raises ArgumentError for numbers that make no schedule.
    """

    shape: str = "constant"
    steps: int = 0
    warm_up: int = 0
    every: int = 0
    factor: float = 0.1

    def __post_init__(self):
        if self.shape not in SHAPES:
            raise ArgumentError(f"shape must be one of {', '.join(SHAPES)}, not {self.shape!r}")
        if self.warm_up < 0 or not 0 < self.factor <= 1:
            raise ArgumentError("warm_up must be at least 0 and factor above 0 and at most 1, not "
                                f"{self.warm_up} and {self.factor:g}")
        if self.shape == "cosine" and self.steps <= self.warm_up:
            raise ArgumentError(f"steps must be more than the {self.warm_up} of the warm-up for a "
                                f"cosine, not {self.steps}")
        if self.shape == "step" and self.every < 1:
            raise ArgumentError(f"every must be at least 1 step, not {self.every}")

    def share(self, step: int) -> float:
        """A part of 1 for this step."""
        if step < self.warm_up:
            return (step + 1) / (self.warm_up + 1)
        later = step - self.warm_up
        if self.shape == "cosine":
            return 0.5 + 0.5 * cos(pi * min(later / (self.steps - self.warm_up), 1))
        return self.factor ** (later // self.every) if self.shape == "step" else 1.0
