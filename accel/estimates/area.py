"""The area of a machine without synthesis."""

from dataclasses import dataclass

from accel.estimates.estimate import Estimate
from accel.machine.machine import Machine

__all__ = ["Area", "area"]


@dataclass(frozen=True, slots=True)
class Area:
    """The area of a core on an ECP5, and in gates.

    Parameters
    ----------
    luts, registers, multipliers, block_rams : cells as the FPGA's flow counts them
        (`fpga.flow.taken`); LUTs include carries and distributed RAM.
    gates : NAND2 equivalents of logic and registers, memories not included.
    units : the same by unit: a figure's name to its estimate.
    """

    luts: Estimate
    registers: Estimate
    multipliers: Estimate
    block_rams: Estimate
    gates: Estimate
    units: dict[str, dict[str, Estimate]]


def area(machine: Machine) -> Area:
    """Estimates the area of a machine's core, from its plan and structure."""
    raise NotImplementedError
