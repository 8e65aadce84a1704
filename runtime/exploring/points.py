"""Points: machines made from a base by changed fields and added instructions, as a space."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import log2
from typing import Any

from numpy.random import Generator

from accel.machine.intrinsics import SHIPPED, Declaration, on_each_vector
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.structure import UnitKind
from compiler.errors import Error
from compiler.lazy import cached_property
from compiler.native import digest
from compiler.plans import Task
from compiler.tune.chooser import PointChooser
from compiler.tune.space import Candidate, Point, PointRefused
from runtime.exploring.axes import (EFFORT_AXIS, MACHINE_AXIS, UNITS_AXIS, AxisError, VariedAxis,
                                    changed_config, field_of)

WITHOUT, WITH = "without", "with"


@dataclass(frozen=True)
class AddedInstructions:
    """Instructions of one's own that a point may have: those of the machine in a file which the
    shipped ones do not include. The axis has the file's name.
    """

    source: str
    declarations: tuple[Declaration, ...]

    @classmethod
    def of(cls, source: str) -> "AddedInstructions":
        """Raises ConfigError for a file that is no machine, AxisError for one without instructions
        of its own.
        """
        machine = load_machine(source)
        own = tuple(one for one in machine.declarations if one.name in machine.own)
        if not own:
            raise AxisError(f"--add must name a machine with instructions of its own, not {source}")
        return cls(source, own)

    @property
    def axis(self) -> VariedAxis:
        name = self.source.rstrip("/").rpartition("/")[2].removesuffix(".py")
        return VariedAxis(f"+{name}", (WITHOUT, WITH))


@dataclass(frozen=True)
class ExploredPoint:
    """A machine of a space, and the effort with which networks are mapped to it.

    Parameters
    ----------
    choices : the option taken of each axis; none for the base.
    sources : what declares its instructions: a machine's name or file, then those of which some
        were added; "" for the shipped ones.
    """

    machine: Machine = field(compare=False)
    choices: Mapping[str, str]
    sources: tuple[str, ...] = ("",)
    effort: int = 0

    @cached_property
    def identity(self) -> str:
        """The key that equal points have: one machine, clock, memory and effort."""
        effort = [f"effort {self.effort}"] if self.effort else []
        return digest([self.toml, *self.sources, *effort])      # cheaper than the machine's hash

    @cached_property
    def toml(self) -> str:
        """The configuration of the machine, without its name."""
        return replace(self.machine.config, name="").to_toml()


class MachineSpace:
    """All machines that the axes lead to, as a `compiler.tune.space.Space`.

    Parameters
    ----------
    base : the machine that is changed, and the name or file that it comes from.
    added : instructions that each point may have or not.
    refusal : why a machine that can be built is none of the space; "" for one that is.
    """

    def __init__(self, base: Machine, source: str, axes: Sequence[VariedAxis],
                 added: Sequence[AddedInstructions] = (),
                 refusal: Callable[[ExploredPoint], str] = lambda point: ""):
        self.axes = (*axes, *(one.axis for one in added))
        names = [axis.name for axis in self.axes]
        for name in names:
            if names.count(name) > 1:
                raise AxisError(f"{name} must be varied once")
        self.task = Task("explore", "machines", f"machines like {base.config.name}")
        self.base = ExploredPoint(base, {}, (_source(base, source),))
        self._added = {one.axis.name: one for one in added}
        self._refusal = refusal
        self.points: dict[str, ExploredPoint] = {}      # by identity, as they were first met
        self._made: dict[tuple[tuple[str, str], ...], ExploredPoint | str] = {}
        self.points[self.base.identity] = self.base

    @property
    def size(self) -> int:
        """The number of combinations, illegal ones included."""
        total = 1
        for axis in self.axes:
            total *= len(axis.options)
        return total

    def candidate(self, point: Point, random: Generator | None = None) -> Candidate:
        """The machine of a point, its identity as the plan; the features are its `coordinates`.
        Raises PointRefused for what cannot be built, with the reason.
        """
        chooser = PointChooser(point, random)
        for axis in self.axes:
            chooser.one_of(axis.name, axis.options)
        decisions = tuple(chooser.decisions)
        found = self.point({decision.name: decision.answer for decision in decisions})
        if isinstance(found, str):
            raise PointRefused(found, decisions)
        return Candidate(decisions, found.identity, self.coordinates(found))

    def coordinates(self, point: ExploredPoint) -> tuple[float, ...]:
        """The coordinates of a point: logarithms of its fields and its effort, 0 or 1 for
        instructions, machines and other names.
        """
        return tuple(number for axis in self.axes for number in self._coordinates(point, axis))

    def _coordinates(self, point: ExploredPoint, axis: VariedAxis) -> list[float]:
        if axis.name == EFFORT_AXIS:
            return [_coordinate(point.effort)]
        if axis.name in self._added:
            return [float(point.choices.get(axis.name) == WITH)]
        value = (point.choices.get(axis.name, "") if axis.name == MACHINE_AXIS
                 else field_of(point.machine.config, axis.name))
        if isinstance(value, str):
            return [float(value == option) for option in axis.options]
        return [_coordinate(value)]

    def point(self, choices: Mapping[str, str]) -> ExploredPoint | str:
        """The point where these options of some axes are taken, the base's values elsewhere; or why
        there is none. Options that lead to one machine lead to one point.
        """
        key = tuple(sorted(choices.items()))
        if key not in self._made:
            self._made[key] = self._make(choices)
        return self._made[key]

    def refined(self, point: ExploredPoint, effort: int) -> ExploredPoint:
        """The point of the same machine with this effort."""
        other = replace(point, effort=effort)
        return self.points.setdefault(other.identity, other)

    @property
    def alone(self) -> dict[str, dict[str, ExploredPoint | str]]:
        """The points in which one axis alone differs from the base, by axis and option."""
        return {axis.name: {option: self.point({axis.name: option}) for option in axis.options}
                for axis in self.axes}

    def _make(self, choices: Mapping[str, str]) -> ExploredPoint | str:
        try:
            point = self._point(choices)
            reason = self._refusal(point)
        except Error as error:
            return " ".join(str(error).split())
        if reason:
            return reason
        return self.points.setdefault(point.identity, point)

    def _point(self, choices: Mapping[str, str]) -> ExploredPoint:
        machine, sources = self.base.machine, self.base.sources
        if MACHINE_AXIS in choices:
            machine = load_machine(choices[MACHINE_AXIS])
            sources = (_source(machine, choices[MACHINE_AXIS]),)
        changed = {name: value for name, value in choices.items()
                   if name not in (MACHINE_AXIS, EFFORT_AXIS, *self._added)}
        declarations = machine.declarations
        for name, one in self._added.items():
            if choices.get(name) == WITH:
                known = {declared.name for declared in declarations}
                declarations += tuple(d for d in one.declarations if d.name not in known)
                sources += (one.source,)
        config = changed_config(machine.config, changed) if changed else machine.config
        declared = on_each_vector(config.structure, declarations)
        return ExploredPoint(Machine(config, declared), dict(choices), sources,
                             int(choices.get(EFFORT_AXIS, "0")))

    def geometry(self, point: ExploredPoint) -> dict[str, Any]:
        """All fields of the machine in plain data, but its name; of its units and buffers the
        number of units of vector."""
        values = point.machine.config.values()
        tables = {f"{table}.{name}": value for table in ("memory", "timing") for name, value in
                  asdict(getattr(point.machine.config, table)).items()}
        return {name: value for name, value in values.items()
                if name not in ("name", "memory", "timing", "structure")} | tables | {
                    UNITS_AXIS: field_of(point.machine.config, UNITS_AXIS)}

    def differences(self, point: ExploredPoint) -> dict[str, list[Any]]:
        """Fields in which the point differs from the base, each with both values; names of
        instructions that it has more, or lacks; its effort.
        """
        here, there = (self.geometry(one) for one in (self.base, point))
        found = {name: [here[name], there[name]] for name in here if here[name] != there[name]}
        ours, theirs = (_instructions(one.machine) for one in (self.base, point))
        more = [name for name in theirs if name not in ours]
        less = [name for name in ours if name not in theirs]
        if more or less:
            found["instructions"] = [less, more]
        return found | ({"effort": [self.base.effort, point.effort]}
                        if point.effort != self.base.effort else {})


def _instructions(machine: Machine) -> list[str]:
    """The names of the instructions, but those of further units of vector."""
    further = {unit.name for unit in machine.structure.of_kind(UnitKind.VECTOR)[1:]}
    return [one.name for one in machine.declarations if one.unit not in further]


def _coordinate(value: Any) -> float:
    number = min(value) if isinstance(value, tuple) else value
    return log2(1 + float(number or 0))


def _source(machine: Machine, name: str) -> str:
    return "" if machine.declarations == SHIPPED else name
