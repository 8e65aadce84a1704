"""The structure of a machine: which units and buffers it has, and who reads and writes what.

A `Unit` and a `BufferRecord` are records; a `Structure` is a list of each, checked when it is
made. Codes in words, masks of tokens, counters, reports and the wires of the core follow from the
lists and their order. `SHIPPED_STRUCTURE` is the one of machines that name no other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from accel.machine.structure import rules
from accel.machine.structure.records import (
    CAUSES, FETCH, BufferRecord, StructureError, Unit, UnitKind, UnitPort)
from compiler.lazy import cached_property


@dataclass(frozen=True, slots=True)
class Roles:
    """The names of the units and buffers with which networks are computed: the first unit of each
    kind, and its buffers."""

    load: str
    store: str
    gemm: str
    vector: str
    inp: str
    wgt: str
    acc: str
    res: str
    par: str
    tab: str
    out: str


@dataclass(frozen=True)
class Structure:
    """Units and buffers, in the order of their codes. Raises `StructureError`, which names the unit
    or buffer, the rule and the reason."""

    units: tuple[Unit, ...]
    buffers: tuple[BufferRecord, ...]

    def __post_init__(self):
        for message in rules.broken(self.units, self.buffers):
            raise StructureError(message)

    @classmethod
    def of(cls, plain: Mapping[str, Sequence[Mapping[str, Any]]]) -> "Structure":
        """The structure of plain data, the inverse of `plain`."""
        try:
            _only("Structure", plain, ("units", "buffers"))
            for unit in plain["units"]:
                _only(f"Unit {unit['name']}", unit, ("name", "kind", "ports"))
            units = tuple(Unit(unit["name"], UnitKind(unit["kind"]),
                               tuple(UnitPort(*port) for port in unit["ports"]))
                          for unit in plain["units"])
            buffers = tuple(BufferRecord(**{**buffer, "shape": tuple(buffer["shape"])})
                            for buffer in plain["buffers"])
        except StructureError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise StructureError(f"Structure must be a table of units and buffers as "
                                 f"Structure.plain gives it: {error}") from None
        return cls(units, buffers)

    @cached_property
    def plain(self) -> dict[str, list[dict[str, Any]]]:
        """The records in plain data: numbers, texts and lists of them."""
        return {"units": [{"name": unit.name, "kind": unit.kind.value,
                           "ports": [[port.operand, port.buffer] for port in unit.ports]}
                          for unit in self.units],
                "buffers": [{field.name: _plain(getattr(buffer, field.name))
                             for field in fields(BufferRecord)} for buffer in self.buffers]}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Units, in the order of their bits in masks."""
        return tuple(unit.name for unit in self.units)

    @cached_property
    def buffer_names(self) -> tuple[str, ...]:
        """Buffers, in the order of their codes."""
        return tuple(buffer.name for buffer in self.buffers)

    @cached_property
    def reporters(self) -> tuple[str, ...]:
        """Units, and fetch, in the order of their codes in reports of errors."""
        return (*self.names, FETCH)

    @cached_property
    def clients(self) -> tuple[str, ...]:
        """Fetch and the units that move bytes over the memory port, in order."""
        return (FETCH, *(unit.name for unit in self.units if unit.kind.moves))

    @cached_property
    def stalls(self) -> tuple[str, ...]:
        """The reasons why a unit stalls in a cycle."""
        return ("command", *self.names, *CAUSES[1:])

    @cached_property
    def activities(self) -> tuple[str, ...]:
        """All that a unit may do in a cycle."""
        return ("busy", *self.stalls)

    @cached_property
    def counters(self) -> tuple[str, ...]:
        """The counters of the hardware, in the order of their numbers."""
        return (*(f"count_{unit}_{activity}" for unit in self.names
                  for activity in self.activities),
                *(f"bytes_{client}" for client in self.clients))

    @cached_property
    def moved(self) -> dict[str, tuple[str, ...]]:
        """The buffers that each unit that moves bytes reaches."""
        return {unit.name: unit.buffers for unit in self.units if unit.kind.moves}

    def unit(self, name: str) -> Unit:
        """The unit of a name; KeyError where there is none."""
        return self._units[name]

    def buffer(self, name: str) -> BufferRecord:
        """The buffer of a name; KeyError where there is none."""
        return self._buffers[name]

    def kind(self, name: str) -> UnitKind | None:
        """The kind of a unit; None of fetch, and of what is none."""
        unit = self._units.get(name)
        return unit and unit.kind

    def meant(self, name: str) -> str:
        """The unit that a declaration means: that of the name, or the first of the kind."""
        if name in self._units or name not in [*UnitKind] or not self.of_kind(UnitKind(name)):
            return name
        return self.of_kind(UnitKind(name))[0].name

    def of_kind(self, kind: UnitKind) -> tuple[Unit, ...]:
        """The units of a kind."""
        return tuple(unit for unit in self.units if unit.kind is kind)

    def users(self, buffer: str) -> tuple[Unit, ...]:
        """The units that read or write a buffer."""
        return tuple(unit for unit in self.units if buffer in unit.buffers)

    @cached_property
    def roles(self) -> Roles:
        """The names with which networks are computed."""
        load, store, gemm, vector = (self.of_kind(kind)[0] for kind in (
            UnitKind.LOAD, UnitKind.STORE, UnitKind.GEMM, UnitKind.VECTOR))
        (inp,), (wgt,), (acc,) = (gemm.at(operand) for operand in ("a", "b", "dst"))
        (_, res), (par,), (tab,), (_, out) = (
            vector.at(operand) for operand in ("a", "record", "table", "dst"))
        return Roles(load.name, store.name, gemm.name, vector.name, inp, wgt, acc, res, par, tab,
                     out)

    def renamed(self, names: Mapping[str, str]) -> "Structure":
        """This structure with other names of units and buffers; those that `names` lacks
        stay."""
        def new(name: str) -> str:
            return names.get(name, name)

        return Structure(
            tuple(replace(unit, name=new(unit.name), ports=tuple(
                replace(port, buffer=new(port.buffer)) for port in unit.ports))
                for unit in self.units),
            tuple(replace(buffer, name=new(buffer.name)) for buffer in self.buffers))

    def with_vector(self, unit: str, results: str) -> "Structure":
        """This structure with one more unit of vector, as the first one is, whose results lie in a
        buffer of their own, from which the same unit stores them."""
        first, roles = self.of_kind(UnitKind.VECTOR)[0], self.roles
        ports = tuple(replace(port, buffer=results) if port.buffer == roles.out else port
                      for port in first.ports)
        units = (replace(one, ports=(*one.ports, UnitPort("src", results)))
                 if one.name == roles.store else one for one in self.units)
        return Structure((*units, Unit(unit, UnitKind.VECTOR, ports)),
                         (*self.buffers, replace(self.buffer(roles.out), name=results)))

    def with_vectors(self, count: int) -> "Structure":
        """This structure with so many units of vector: further ones as `with_vector` adds them, or
        without the last ones and the buffers of these alone. Raises StructureError for less than
        one."""
        vectors = self.of_kind(UnitKind.VECTOR)
        if count < 1:
            raise StructureError(f"Units of vector must be at least 1, not {count}: results of "
                                 f"products leave through one")
        if count > len(vectors):
            roles, number = self.roles, len(vectors) + 1
            names = [self._free(f"{role}{number}") for role in (roles.vector, roles.out)]
            return self.with_vector(*names).with_vectors(count)
        if count == len(vectors):
            return self
        left = [unit for unit in self.units if unit not in vectors[count:]]
        used = {name for unit in left if not unit.kind.moves for name in unit.buffers}
        return Structure(
            tuple(replace(unit, ports=tuple(port for port in unit.ports if port.buffer in used))
                  for unit in left),
            tuple(buffer for buffer in self.buffers if buffer.name in used))

    def _free(self, name: str) -> str:
        """The name, or one like it that no unit or buffer has."""
        while name in (*self.names, *self.buffer_names):
            name += "b"
        return name

    def with_stream(self, unit: str, ports: Sequence[tuple[str, str]],
                    buffers: Sequence[BufferRecord] = ()) -> "Structure":
        """This structure with one more stream unit, whose ports are pairs of an operand and a
        buffer, and with these buffers: those that it reads are loaded, those that it writes are
        stored."""
        made = Unit(unit, UnitKind.STREAM, tuple(UnitPort(*port) for port in ports))
        new = [buffer.name for buffer in buffers]
        reached = {UnitKind.LOAD: ("dst", made.reads), UnitKind.STORE: ("src", made.writes)}

        def reaching(one: Unit) -> Unit:
            operand, theirs = reached.get(one.kind, ("", ()))
            return replace(one, ports=(*one.ports, *(
                UnitPort(operand, name) for name in new if name in theirs)))

        return Structure((*map(reaching, self.units), made), (*self.buffers, *buffers))

    @cached_property
    def in_roles(self) -> "Structure":
        """This structure with the name of its role for each unit and buffer that has one."""
        names = {getattr(self.roles, field.name): field.name for field in fields(Roles)}
        if all(name == role for name, role in names.items()):
            return self
        others = {name: f"{name}_" for name in (*self.names, *self.buffer_names)
                  if name not in names and name in names.values()}
        return self.renamed(names | others)

    @cached_property
    def shape(self) -> "Structure":
        """This structure with places in the lists for names: equal for structures that differ in
        names alone."""
        return self.renamed({name: f"{what}{place}" for what, names in (
            ("unit", self.names), ("buffer", self.buffer_names))
            for place, name in enumerate(names)})

    @cached_property
    def _units(self) -> dict[str, Unit]:
        return {unit.name: unit for unit in self.units}

    @cached_property
    def _buffers(self) -> dict[str, BufferRecord]:
        return {buffer.name: buffer for buffer in self.buffers}


def _only(what: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuses the fields of a table that nothing would read."""
    if unknown := sorted(set(table) - set(known)):
        *some, last = known
        raise StructureError(f"{what} must have {', '.join(some)} and {last} alone, not "
                             f"{', '.join(map(str, unknown))}")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
