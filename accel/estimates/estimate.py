"""A figure that is not known exactly, with the interval that it lies in nine times out of ten."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval.

    Parameters
    ----------
    value : the most likely figure.
    low, high : the interval that holds the figure nine times out of ten, by the errors of the
        model on machines left out of its fit one at a time.
    extrapolated : the machine lies outside those that the model was fitted to, so that nothing
        measured supports the interval.
    """

    value: float
    low: float
    high: float
    extrapolated: bool = False

    def __post_init__(self):
        if not self.low <= self.value <= self.high:
            raise ValueError(f"Estimate must lie in its interval, not {self.value!r} in "
                             f"[{self.low!r}, {self.high!r}]")

    def __contains__(self, figure: float) -> bool:
        return self.low <= figure <= self.high
