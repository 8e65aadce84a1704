"""Objectives to make least or greatest: each is a figure of a measured point, or a formula of such.

This is the one place that names objectives: `OBJECTIVES` has one declaration of each. Those of the
machine alone cost no simulation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from accel.machine.machine import Machine
from runtime.exploring.formulas import Formula, ObjectiveError, ObjectiveValue, formula_of
from runtime.exploring.point_trials import PointFigures

__all__ = ["OBJECTIVES", "MeasuredPoint", "Objective", "ObjectiveError", "ObjectiveValue",
           "objectives_of"]

KEPT = 1 << 14          # estimates of machines

PARTS = frozenset({"geometry", "area", "clock", "cycles", "traffic", "energy", "host",
                   "accuracy"})
"""What objectives read of a point."""

OF_MACHINE = frozenset({"geometry", "area", "clock"})
"""The parts that are known without simulation."""


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
    meaning : what it is, in a few words.
    reads : the parts of a point that it is computed from, some of `PARTS`.
    """

    name: str
    unit: str
    meaning: str
    compute: Callable[[MeasuredPoint], ObjectiveValue]
    reads: frozenset[str]
    greatest: bool = False

    @property
    def of_machine(self) -> bool:
        """True if it follows from the machine, without simulation."""
        return self.reads <= OF_MACHINE

    @property
    def title(self) -> str:
        """The name with its unit, as tables head a column."""
        return f"{self.name}, {self.unit}" if self.unit not in ("", self.name) else self.name

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
    """That of the network that is furthest off, among those that were quantized here."""
    known = [one.accuracy for one in point.figures.values() if one.accuracy is not None]
    if not known:
        raise ObjectiveError("Objective accuracy must come with networks in float, which are "
                             "quantized for each machine")
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


def _require_known(name: str) -> None:
    if name not in OBJECTIVES:
        raise ObjectiveError(f"Objective must be one of {', '.join(OBJECTIVES)}, or a formula of "
                             f"them, not {name!r}")


def _of_formula(formula: Formula, name: str, meaning: str, unit: str = "") -> Objective:
    """The objective that a formula of others is; its unit is the one that follows, unless given."""
    for one in formula.names:
        _require_known(one)
    parts = [OBJECTIVES[one] for one in formula.names]
    return Objective(
        name, unit or formula.unit({one.name: one.unit for one in parts}), meaning,
        lambda point: formula.of(lambda one: OBJECTIVES[one].of(point)),
        frozenset().union(*(one.reads for one in parts)))


def _declared(name: str, unit: str, meaning: str, reads: str,
              compute: Callable[[MeasuredPoint], ObjectiveValue], greatest: bool = False
              ) -> Objective:
    return Objective(name, unit, meaning, compute, frozenset(reads.split()), greatest)


OBJECTIVES: dict[str, Objective] = {one.name: one for one in (
    _declared("cycles", "", "cycles of the accelerator, of all networks together", "cycles",
              _cycles),
    _declared("ms", "ms", "time of all networks, host and copies included", "cycles clock host",
              _milliseconds),
    _declared("host_ms", "ms", "time of the host and of copies", "host", _host),
    *(_declared(name, unit, meaning, "area", _of_area(name))
      for name, (unit, meaning) in AREA_FIGURES.items()),
    _declared("mhz", "MHz", "clock, the greatest first", "clock", _mhz, True),
    _declared("energy", "uJ", "energy of all networks, host and copies included", "energy host",
              _energy),
    _declared("dram", "B", "bytes over the memory port", "traffic", _dram),
    _declared("bytes", "B", "bytes of buffers on the chip", "geometry", _bytes),
    _declared("products", "", "products that the array computes in a cycle", "geometry",
              _products),
    _declared("accuracy", "dB", "accuracy of the network that is furthest off, the greatest first",
              "accuracy", _accuracy, True))}
"""By name, in the order of columns."""

FORMULAS = (("edp", "energy * ms", "energy times delay", ""),
            ("power", "energy / ms", "mean power while the networks run", "mW"))

OBJECTIVES |= {name: _of_formula(formula_of(text), name, f"{meaning}: {text}", unit)
               for name, text, meaning, unit in FORMULAS}


def objectives_of(names: Sequence[str]) -> tuple[Objective, ...]:
    """The objectives of these names and formulas. Raises ObjectiveError for one that there is not.
    """
    for name in names:
        if list(names).count(name) > 1:
            raise ObjectiveError(f"Objective {name} must be given once")
    return tuple(map(_objective, names))


def _objective(text: str) -> Objective:
    text = text.strip()
    if text in OBJECTIVES:
        return OBJECTIVES[text]
    formula = formula_of(text)
    if not formula.names:
        raise ObjectiveError(f"Objective {text} must read a figure, such as ms")
    return _of_formula(formula, text, "a formula")
