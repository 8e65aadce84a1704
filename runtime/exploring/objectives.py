"""Objectives to make least or greatest: each is a figure of a measured point, or a formula of such.

This is the one place that names objectives: `OBJECTIVES` has one declaration of each. Those of the
machine alone cost no simulation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from accel.estimates.energy import leakage_watts
from accel.estimates.silicon import silicon_area
from accel.estimates.technology import (ASPECTS, Silicon, Technology, load_technology,
                                        technologies)
from accel.machine.machine import Machine
from runtime.exploring.formulas import Formula, ObjectiveError, ObjectiveValue, formula_of
from runtime.exploring.point_trials import PointFigures

__all__ = ["OBJECTIVES", "MeasuredPoint", "Objective", "ObjectiveError", "ObjectiveValue",
           "joules_of", "objectives_of", "usual_objectives"]

KEPT = 1 << 14          # estimates of machines

OF_MACHINE = frozenset({"geometry", "period", "fpga", "silicon", "clock"})
"""Parts of a point that are known without simulation: fields, and what its technology makes of it.
The ``period`` is that of one cycle, at the nominal clock where there is no estimate.
"""

PARTS = OF_MACHINE | {"cycles", "traffic", "energy", "host", "accuracy"}
"""What objectives read of a point. Those of `ASPECTS` a technology must have."""


@dataclass(frozen=True)
class MeasuredPoint:
    """A point with what its networks take: cycles and figures, by the network's name. Without
    networks it has the objectives of its machine alone. All is in one technology, at one clock.
    """

    machine: Machine
    cycles: Mapping[str, int]
    figures: Mapping[str, PointFigures]
    technology: Technology = field(default_factory=load_technology)


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
        return self.name if self.unit.lower() in ("", self.name) else f"{self.name}, {self.unit}"

    def of(self, point: MeasuredPoint) -> ObjectiveValue:
        """Raises ObjectiveError where the point has no figure of it."""
        self.require(point.technology)
        return self.compute(point)

    def require(self, technology: Technology) -> None:
        """Raises ObjectiveError where the technology lacks what it reads."""
        for aspect in sorted((self.reads & ASPECTS.keys()) - technology.has):
            others = [name for name in technologies() if aspect in load_technology(name).has]
            raise ObjectiveError(f"Objective {self.name} must come with a technology that has "
                                 f"{ASPECTS[aspect]}, such as {' or '.join(others)}, not "
                                 f"{technology.name!r}")

    def interval(self, point: MeasuredPoint) -> tuple[float, float, float]:
        """The least, the likely and the most of it, turned so that less is better."""
        found = self.of(point)
        low, high = sorted((self.least(found.low), self.least(found.high)))
        return low, self.least(found.value), high

    def least(self, value: float) -> float:
        """The value, turned so that less is better."""
        return -value if self.greatest else value


def _exact(value: float) -> ObjectiveValue:
    return ObjectiveValue(value, value, value)


def _cycles(point: MeasuredPoint) -> ObjectiveValue:
    return _exact(sum(point.cycles.values()))


def _milliseconds(point: MeasuredPoint) -> ObjectiveValue:
    """The accelerator at the point's one clock, then the host and copies."""
    cycles = sum(point.cycles.values())
    mhz, beside = _mhz(point), _host(point).value
    return ObjectiveValue(cycles / mhz.value / 1e3 + beside, cycles / mhz.high / 1e3 + beside,
                          cycles / mhz.low / 1e3 + beside, mhz.extrapolated)


def _host(point: MeasuredPoint) -> ObjectiveValue:
    return _exact(1e3 * sum(one.beside_seconds for one in point.figures.values()))


def _mhz(point: MeasuredPoint) -> ObjectiveValue:
    return _clock(point.machine, point.technology)


@lru_cache(KEPT)
def _clock(machine: Machine, technology: Technology) -> ObjectiveValue:
    found = technology.clock(machine)
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
            for name in (*AREA_FIGURES, "gates") for one in (getattr(found, name),)}


@lru_cache(KEPT)
def _silicon(machine: Machine, silicon: Silicon) -> ObjectiveValue:
    found = silicon_area(machine, silicon).core
    return ObjectiveValue(found.value, found.low, found.high, found.extrapolated)


def _millimeters(point: MeasuredPoint) -> ObjectiveValue:
    assert point.technology.silicon is not None, "the objective requires it"
    return _silicon(point.machine, point.technology.silicon)


def _energy(point: MeasuredPoint) -> ObjectiveValue:
    """The counted energy of accelerator, host and copies, and what leaks meanwhile."""
    joules = [joules for one in point.figures.values() for joules in (one.joules, one.host_joules)]
    if any(one is None for one in joules):
        raise ObjectiveError("Objective energy must come with points whose energy was counted")
    counted = 1e6 * sum(one for one in joules if one is not None)
    ms, milliwatts = _milliseconds(point), _leaking(point)
    value, low, high = (counted + milliwatts * time for time in ms[:3])
    return ObjectiveValue(value, low, high, ms.extrapolated)


def joules_of(point: MeasuredPoint, network: str) -> float | None:
    """The energy of the accelerator for one of the point's networks, with what leaks in the whole
    inference; None where none is known.
    """
    joules = point.figures[network].joules
    if joules is None:
        return None
    seconds = (point.cycles[network] / (_mhz(point).value * 1e6)
               + point.figures[network].beside_seconds)
    return joules + 1e-3 * _leaking(point) * seconds


def _leaking(point: MeasuredPoint) -> float:
    """Milliwatts; none where the technology has no leakage."""
    energies = point.technology.energies
    return 1e3 * (leakage_watts(point.machine, energies) or 0.0) if energies else 0.0


def _accuracy(point: MeasuredPoint) -> ObjectiveValue:
    """The accuracy of the network that is furthest off; networks in int8 have none."""
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
                "block_rams": ("", "block RAMs of 18 kbit")}


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
    _declared("ms", "ms", "time of all networks, host and copies included", "cycles period host",
              _milliseconds),
    _declared("host_ms", "ms", "time of the host and of copies", "host", _host),
    _declared("area", "mm2", "area of logic and memories on a chip", "silicon", _millimeters),
    *(_declared(name, unit, meaning, "fpga", _of_area(name))
      for name, (unit, meaning) in AREA_FIGURES.items()),
    _declared("gates", "NAND2", "gates of logic and registers", "geometry", _of_area("gates")),
    _declared("mhz", "MHz", "clock, the greatest first", "clock", _mhz, True),
    _declared("energy", "uJ", "energy of all networks, host and copies included",
              "energy host cycles period", _energy),
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


USUAL = ("ms", "area", "luts", "energy")
"""What a front is of by default, as far as the technology has it."""


def usual_objectives(technology: Technology) -> tuple[Objective, ...]:
    """The objectives of `USUAL` that the technology has."""
    return tuple(one for one in map(OBJECTIVES.__getitem__, USUAL)
                 if one.reads & ASPECTS.keys() <= technology.has)


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
