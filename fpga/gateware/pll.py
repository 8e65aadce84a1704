"""The settings of an ECP5's PLL (EHXPLLL): a search within the limits of its data sheet.

::

    input -> / reference -> phase detector -> VCO -> / output -> clock
                              ^                |
                              +- / feedback <--+

Limits are those of FPGA-DS-02012 (ECP5 and ECP5-5G family data sheet), "sysCLOCK PLL Timing".
"""

from dataclasses import dataclass
from fractions import Fraction

INPUT_MHZ, DETECTOR_MHZ, VCO_MHZ, OUTPUT_MHZ = (8, 400), (10, 400), (400, 800), (3.125, 400)
DIVIDERS = range(1, 129)
PHASE_BITS = 7
FINE = 8
"""The number of phases in a period of the VCO."""


@dataclass(frozen=True, slots=True)
class Pll:
    """The dividers of a PLL, and the input frequency that they are for."""

    input_hz: int
    reference: int
    feedback: int
    output: int

    @property
    def detector_hz(self) -> Fraction:
        return Fraction(self.input_hz, self.reference)

    @property
    def vco_hz(self) -> Fraction:
        return self.detector_hz * self.feedback

    @property
    def clock_hz(self) -> float:
        return float(self.vco_hz / self.output)

    def lead(self, seconds: float) -> tuple[int, int]:
        """The delay of a second output, in whole periods of the VCO and eighths, for which its next
        edge precedes the clock's by `seconds`.
        """
        steps = FINE * self.output
        return divmod(-round(seconds * self.vco_hz * FINE) % steps, FINE)

    def phase(self, later: int) -> int:
        """The phase field of an output that comes `later` periods of the VCO after the clock, fewer
        than a period of the clock: counted from the divider's last one. A value beyond the field's
        bits wraps to the same phase one clock period earlier.
        """
        phase = self.output - 1 + later
        return phase if phase < 1 << PHASE_BITS else phase - self.output

    @property
    def lead_step(self) -> float:
        """The step of a lead in seconds; a lead is exact to half a step."""
        return float(1 / (self.vco_hz * FINE))


def search(input_hz: int, wanted_hz: float) -> Pll:
    """The fastest clock that is not above the wanted one; among equals the setting with the fastest
    phase detector, then the slowest VCO. Refuses clocks that a PLL cannot make.
    """
    _require("Input of a PLL", input_hz, INPUT_MHZ)
    _require("Clock", wanted_hz, OUTPUT_MHZ)
    best = max(_all(input_hz, wanted_hz), default=None, key=lambda setting: (
        setting.vco_hz / setting.output, setting.detector_hz, -setting.vco_hz))
    if best is None:
        raise ValueError(f"Clock must be one that a PLL makes of {input_hz / 1e6:g} MHz, "
                         f"not {wanted_hz / 1e6:g} MHz")
    return best


def _all(input_hz: int, wanted_hz: float):
    """Yields, for every VCO, the smallest output divider for which the clock is not above the
    wanted one.
    """
    for reference in DIVIDERS:
        detector = Fraction(input_hz, reference)
        if not _within(detector, DETECTOR_MHZ):
            continue
        for feedback in DIVIDERS:
            vco = detector * feedback
            output = -(-vco // Fraction(wanted_hz))
            if _within(vco, VCO_MHZ) and output in DIVIDERS:
                yield Pll(input_hz, reference, feedback, output)


def _within(hz: Fraction, limits: tuple[float, float]) -> bool:
    return limits[0] * 10**6 <= hz <= limits[1] * 10**6


def _require(subject: str, hz: float, limits: tuple[float, float]) -> None:
    if not limits[0] * 1e6 <= hz <= limits[1] * 1e6:
        raise ValueError(f"{subject} must be from {limits[0]:g} to {limits[1]:g} MHz, "
                         f"not {hz / 1e6:g} MHz")
