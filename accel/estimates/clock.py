"""The clock that a machine's core reaches on an ECP5, without place and route."""

from accel.estimates.estimate import Estimate
from accel.machine.machine import Machine

__all__ = ["clock"]


def clock(machine: Machine) -> Estimate:
    """Estimates the clock in MHz of a machine's core on an ECP5-85F, speed grade 6."""
    raise NotImplementedError
