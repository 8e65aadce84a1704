"""Objectives to make least or greatest: each is a figure of a measured point.

This is the one place that names objectives. Those of the machine alone cost no simulation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from accel.machine.machine import Machine
from compiler.errors import RequestError
from runtime.exploring.point_trials import PointFigures

__all__ = ["OBJECTIVES", "MeasuredPoint", "Objective", "ObjectiveError", "ObjectiveValue",
           "objectives_of"]

KEPT = 1 << 14          # estimates of machines


class ObjectiveError(RequestError):
    """An objective that there is not, or of which a point has no figure."""


class ObjectiveValue(NamedTuple):
    """A figure, with the interval that an estimate gives; exact figures are their own interval."""

    value: float
    low: float
    high: float
    extrapolated: bool = False


@dataclass(frozen=True)
class MeasuredPoint:
    """A point with what its networks take: cycles and figures, by the network's name. Without
    networks it has the objectives of its machine alone.
    """

    machine: Machine
    cycles: Mapping[str, int]
    figures: Mapping[str, PointFigures]


@dataclass(frozen=True)
class Objective:
    """A figure to make least, or greatest where it says so.

    Parameters
    ----------
    of_machine : it follows from the machine, without simulation.
    """

    name: str
    unit: str
    meaning: str
    compute: Callable[[MeasuredPoint], ObjectiveValue]
    greatest: bool = False
    of_machine: bool = False

    def of(self, point: MeasuredPoint) -> ObjectiveValue:
        """Raises ObjectiveError where the point has no figure of it."""
        return self.compute(point)

    def least(self, value: float) -> float:
        """The value, turned so that less is better."""
        return -value if self.greatest else value


def _exact(value: float) -> ObjectiveValue:
    return ObjectiveValue(value, value, value)


def _cycles(point: MeasuredPoint) -> ObjectiveValue:
    return _exact(sum(point.cycles.values()))


def _milliseconds(point: MeasuredPoint) -> ObjectiveValue:
    """The accelerator at the estimated clock, then the host and copies."""
    cycles = sum(point.cycles.values())
    mhz, beside = _mhz(point), _host(point).value
    return ObjectiveValue(cycles / mhz.value / 1e3 + beside, cycles / mhz.high / 1e3 + beside,
                          cycles / mhz.low / 1e3 + beside, mhz.extrapolated)


def _host(point: MeasuredPoint) -> ObjectiveValue:
    return _exact(1e3 * sum(one.beside_seconds for one in point.figures.values()))


def _mhz(point: MeasuredPoint) -> ObjectiveValue:
    return _clock(point.machine)


@lru_cache(KEPT)
def _clock(machine: Machine) -> ObjectiveValue:
    from accel.estimates.clock import clock

    found = clock(machine)
    return ObjectiveValue(found.value, found.low, found.high, found.extrapolated)


def _of_area(name: str) -> Callable[[MeasuredPoint], ObjectiveValue]:
    def compute(point: MeasuredPoint) -> ObjectiveValue:
        return _area(point.machine)[name]
    return compute


@lru_cache(KEPT)
def _area(machine: Machine) -> Mapping[str, ObjectiveValue]:
    from accel.estimates.area import area

    found = area(machine)
    return {name: ObjectiveValue(one.value, one.low, one.high, one.extrapolated)
            for name in AREA_FIGURES for one in (getattr(found, name),)}


def _energy(point: MeasuredPoint) -> ObjectiveValue:
    """Of the accelerator, the host and copies."""
    joules = [joules for one in point.figures.values() for joules in (one.joules, one.host_joules)]
    if any(one is None for one in joules):
        raise ObjectiveError("Objective energy needs points whose energy was counted")
    return _exact(1e6 * sum(one for one in joules if one is not None))


def _accuracy(point: MeasuredPoint) -> ObjectiveValue:
    """Of the network that is worst."""
    known = [one.accuracy for one in point.figures.values() if one.accuracy is not None]
    if not known:
        raise ObjectiveError("Objective accuracy must come with --calibration FILE and a network "
                             "in float")
    return _exact(min(known))


def _dram(point: MeasuredPoint) -> ObjectiveValue:
    return _exact(sum(one.dram_bytes for one in point.figures.values()))


def _bytes(point: MeasuredPoint) -> ObjectiveValue:
    return _exact(sum(buffer.size_bytes for buffer in point.machine.config.buffers.values()))


def _products(point: MeasuredPoint) -> ObjectiveValue:
    return _exact(point.machine.config.macs_per_cycle)


AREA_FIGURES = {"luts": ("LUTs", "LUTs of an ECP5"), "registers": ("FFs", "registers"),
                "multipliers": ("", "multiplier blocks"),
                "block_rams": ("", "block RAMs of 18 kbit"),
                "gates": ("NAND2", "gates of logic and registers")}

OBJECTIVES = {one.name: one for one in (
    Objective("cycles", "", "cycles of the accelerator, of all networks together", _cycles),
    Objective("ms", "ms", "time of all networks, host and copies included", _milliseconds),
    Objective("host_ms", "ms", "time of the host and of copies", _host),
    *(Objective(name, unit, meaning, _of_area(name), of_machine=True)
      for name, (unit, meaning) in AREA_FIGURES.items()),
    Objective("mhz", "MHz", "clock, the greatest first", _mhz, True, True),
    Objective("energy", "uJ", "energy of all networks, host and copies included", _energy),
    Objective("accuracy", "dB", "of what is quantized for each machine, the greatest first",
              _accuracy, True),
    Objective("dram", "B", "bytes over the memory port", _dram),
    Objective("bytes", "B", "bytes of buffers on the chip", _bytes, of_machine=True),
    Objective("products", "", "products that the array computes in a cycle", _products,
              of_machine=True))}
"""By name, in the order of columns."""


def objectives_of(names: Sequence[str]) -> tuple[Objective, ...]:
    """The objectives of these names. Raises ObjectiveError for one that there is not."""
    for name in names:
        if name not in OBJECTIVES:
            raise ObjectiveError(f"Objective must be one of {', '.join(OBJECTIVES)}, not {name!r}")
        if list(names).count(name) > 1:
            raise ObjectiveError(f"Objective {name} must be given once")
    return tuple(OBJECTIVES[name] for name in names)
