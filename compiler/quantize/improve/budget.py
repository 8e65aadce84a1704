"""The loss that quantization may cause in a network."""

import re
from dataclasses import dataclass
from math import inf

from compiler.quantize.improve.noise import Measured
from compiler.quantize.ranges.refusal import QuantizeRefused


@dataclass(frozen=True, slots=True)
class Budget:
    """The limit: either at most `points` percentage points of agreement with the float network may
    be lost, or the outputs must have at least `decibels` of signal to quantization noise.
    """

    points: float | None = None
    decibels: float | None = None

    @classmethod
    def of(cls, given: "float | str | None") -> "Budget | None":
        """Parses a number of points, or text: points, or decibels followed by ``dB``."""
        if given is None:
            return None
        match = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*(dB)?", str(given).strip(), re.IGNORECASE)
        if match is None or (match[2] is None and float(match[1]) > 100):
            raise QuantizeRefused("budget must be percentage points of agreement from 0 to 100, "
                                  f"or decibels such as 30dB, not {given!r}")
        number = float(match[1])
        return cls(decibels=number) if match[2] else cls(points=number)

    @property
    def reason(self) -> str:
        wanted = (f"{self.points:g} points of agreement" if self.points is not None
                  else f"{self.decibels:g} dB")
        return f"fell back to float for the budget of {wanted}"

    def met_by(self, measured: Measured, place: str) -> bool:
        """True if the figures stay within the budget. Raises QuantizeRefused for points where the
        network has no classes.
        """
        if self.points is None:
            reached = measured.decibels
            return (inf if reached is None else reached) >= (self.decibels or 0)
        if measured.agreement is None:
            raise QuantizeRefused(f"{place}: has no output [N, classes] or [N, classes, H, W] to "
                                  "agree on; give the budget in decibels, such as 30dB")
        return 100 * (1 - measured.agreement) <= self.points + 1e-9
