"""A machine: a geometry and the instructions declared for it. Everything else follows from these.

The machine's hash covers the geometry, the canonical text of every declared intrinsic with its
opcode, and the word layouts. It travels in programs, simulator objects and reports, and is
compared wherever two of them meet.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from amaranth.lib import data

from accel.machine import immediates, isa, rules
from accel.machine.config import ADDER_TREE, AccelConfig, ConfigError, flat, known_default
from accel.machine.declare import Declaration, kinds_of, known_immediates, unit_of
from accel.machine.intrinsics import SHIPPED, on_each_vector, renamed
from accel.machine.streams import Applied, Computes, StreamForm
from accel.machine.structure import FETCH, Structure, UnitKind
from compiler import notebook
from compiler.lazy import cached_property
from compiler.ops.patterns import Pattern
from compiler.ops.term_patterns import TermPattern
from compiler.tensorize import Intrinsic

FINISH = 1
"""Opcode of FINISH, which fetch performs. Opcode 0 is illegal, so that blank memory is."""

NAMED = 6
"""The most differences of two machines that a message names; it counts the others."""


@dataclass(frozen=True)
class MachineRecord:
    """A machine in plain data, with the parts of `Machine.text`.

    Programs and files carry it beside the hash, so that machines can be compared field by field.

    instructions : opcode and hash of the forms of each instruction, by name.
    layouts : hash of each word layout, by unit, and by instruction where it has another.

    A record from an older file has neither.
    """

    hash: str
    name: str
    geometry: Mapping[str, Any]
    instructions: Mapping[str, tuple[int, str]]
    layouts: Mapping[str, str]

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> "MachineRecord":
        """Build a record from the output of `dataclasses.asdict`, through JSON or not."""
        return cls(entry["hash"], entry["name"], dict(entry["geometry"]),
                   {name: (opcode, text)
                    for name, (opcode, text) in entry.get("instructions", {}).items()},
                   dict(entry.get("layouts", {})))

    def __str__(self) -> str:
        return f"{self.hash[:12]} ({self.name})"

    def difference(self, other: "MachineRecord") -> str:
        """Describe how this machine differs from `other`: ``block_out is 16, not 8``."""
        differences = [*self._differences(other)]
        more = f" and {len(differences) - NAMED} more" if len(differences) > NAMED else ""
        return ", ".join(differences[:NAMED]) + more or "the instructions differ"

    def _differences(self, other: "MachineRecord") -> Iterator[str]:
        ours, theirs = (flat(one.geometry) for one in (self, other))
        for name in dict.fromkeys([*theirs, *ours]):
            here, there = (geometry.get(name, known_default(name)) for geometry in (ours, theirs))
            if here != there:
                yield ("units or buffers are others" if name == "structure" else
                       f"{name} is {here}, not {there}")
        if not (self.instructions and other.instructions):
            return
        for name in dict.fromkeys([*other.instructions, *self.instructions]):
            here, there = self.instructions.get(name), other.instructions.get(name)
            if here is None:
                yield f"instruction {name} is missing"
            elif there is None:
                yield f"instruction {name} is one more"
            elif here[1] != there[1] and self.geometry == other.geometry:   # it follows from it
                yield f"instruction {name} is declared in another way"
            elif here[0] != there[0]:
                yield f"opcode of {name} is {here[0]}, not {there[0]}"
        for unit in dict.fromkeys([*other.layouts, *self.layouts]):
            if self.layouts.get(unit) != other.layouts.get(unit):
                yield f"words of {unit} have another layout"


@dataclass(frozen=True)
class Machine:
    """A geometry and its instructions; `declarations` get opcodes 2, 3, ... in order.

    The types of elements in `config` become those that gemm and vector declare; the size of
    entries, the words, load and store follow from them.

    Raises `accel.machine.rules.DeclarationError` for what cannot be computed as declared.
    """

    config: AccelConfig
    declarations: tuple[Declaration, ...] = SHIPPED
    forms: Mapping[str, tuple[Intrinsic, ...]] = field(init=False, repr=False, compare=False)
    """Every instruction's intrinsics, by name, in order of opcodes."""

    def __post_init__(self):
        if not isinstance(self.config, AccelConfig):
            raise ConfigError(f"Machine must have an AccelConfig, not {self.config!r}")
        rules.require_names(self.config.structure, self.declarations)
        config, forms = rules.checked(self.config, tuple(self.declarations))
        object.__setattr__(self, "config", config)
        object.__setattr__(self, "forms", forms)
        rules.require_room(lambda: self.immediates)

    def __repr__(self) -> str:
        config = self.config
        return (f"<Machine {config.name} {self.hash[:12]}: {config.batch}x{config.block_in}x"
                f"{config.block_out} products a cycle, {len(self.declarations)} instructions"
                + "".join(f", {name} of its own" for name in sorted(self.own)) + ">")

    @property
    def structure(self) -> Structure:
        """Its units and buffers."""
        return self.config.structure

    @cached_property
    def in_roles(self) -> "Machine":
        """This machine with units and buffers called by their roles, as the compiler and estimates
        call them: its words are the same. Itself, where they are called so."""
        structure = self.structure.in_roles
        return self if structure is self.structure else Machine(
            replace(self.config, structure=structure), tuple(
                renamed(one, self.structure, structure) for one in self.declarations))

    def _repr_html_(self) -> str:
        """The geometry, the buffers and the instructions, as tables."""
        values = self.config.values()
        memory = values.pop("memory")
        fields = [*values.items(), *((f"memory.{name}", value) for name, value in memory.items())]
        buffers = [(one.name, one.entry_bytes, one.depth, one.size_bytes)
                   for one in self.config.buffers.values()]
        return (notebook.table(f"Machine {self.config.name} {self.hash[:12]}", ["field", "value"],
                               [(name, str(value)) for name, value in fields])
                + notebook.table("Buffers", ["buffer", "bytes of an entry", "entries", "bytes"],
                                 buffers)
                + notebook.table("Instructions", ["opcode", "instruction", "unit"], [
                    (opcode, name, self.units[opcode]) for name, opcode in self.opcodes.items()]))

    @cached_property
    def formats(self) -> Mapping[str, data.StructLayout]:
        """The word layout of each unit's instructions."""
        return isa.formats(self.config, any(
            len(kinds_of(operand.name for operand in forms[0].operands)) > 1
            for forms in self.forms.values() if forms[0].unit == UnitKind.VECTOR))

    @cached_property
    def immediates(self) -> dict[str, dict[str, data.Field]]:
        """The fields of immediates of one's own in the words of units that compute, by name."""
        return {unit.name: immediates.placed(self.formats[unit.name], self.of_unit(unit.name),
                                             known_immediates(unit.kind, self.config.output))
                for unit in self.structure.units if not unit.kind.moves}

    @cached_property
    def layouts(self) -> dict[str, data.Layout]:
        """The layout of each instruction's words: that of its unit, with immediates of its own."""
        result: dict[str, data.Layout] = {"finish": self.formats[FETCH]}
        for name, forms in self.forms.items():
            unit = self.units[self.opcodes[name]]
            placed = self.immediates.get(unit, {})
            result[name] = immediates.layout_with(self.formats[unit], {
                one.name: placed[one.name] for one in forms[0].immediates if one.name in placed})
        return result

    @cached_property
    def pads_high(self) -> bool:
        """True if load has a byte for padding at odd addresses."""
        return "pad_high" in dict(self.formats[self.structure.roles.load])

    def intrinsic(self, name: str) -> Intrinsic:
        """The first form of an instruction."""
        return self.forms[name][0]

    @cached_property
    def opcodes(self) -> dict[str, int]:
        """Name to opcode, FINISH included."""
        return {"finish": FINISH} | {d.name: FINISH + 1 + index
                                     for index, d in enumerate(self.declarations)}

    @cached_property
    def names(self) -> dict[int, str]:
        """Opcode to name."""
        return {opcode: name for name, opcode in self.opcodes.items()}

    @cached_property
    def units(self) -> dict[int, str]:
        """Opcode to unit; FINISH belongs to fetch."""
        return {FINISH: FETCH} | {self.opcodes[d.name]: self.structure.meant(d.unit)
                                  for d in self.declarations}

    def unit_of(self, name: str) -> str:
        """The unit that executes an instruction."""
        return self.units[self.opcodes[name]]

    def of_unit(self, unit: str) -> tuple[Intrinsic, ...]:
        """First forms of all instructions of a unit; of a kind, those of its first unit."""
        unit = self.structure.meant(unit)
        return tuple(self.intrinsic(d.name) for d in self.declarations
                     if self.structure.meant(d.unit) == unit)

    @cached_property
    def own(self) -> frozenset[str]:
        """The names of the instructions that are not the shipped ones."""
        return frozenset(d.name for d in self.declarations if d not in SHIPPED)

    @cached_property
    def with_shipped(self) -> "Machine":
        """This geometry with the shipped instructions alone, on each unit of vector; stream units
        keep theirs, as they have no others."""
        streams = {one.name: one for one in self.declarations if unit_of(
            self.structure, one.unit).kind is UnitKind.STREAM}
        shipped = tuple(one for one in SHIPPED if one.name not in streams)
        return Machine(self.config, on_each_vector(self.structure, (*shipped, *streams.values())))

    @cached_property
    def patterns(self) -> tuple[Pattern | TermPattern, ...]:
        """The patterns that instructions match in float networks, in order of opcodes."""
        return tuple(d.pattern for d in self.declarations if d.pattern is not None)

    @cached_property
    def of_rows(self) -> tuple[tuple[StreamForm, Computes], ...]:
        """The instructions that compute functions of rows of networks, in order of opcodes."""
        return tuple((form, d.computes) for d in self.declarations if d.computes is not None
                     for form in self.forms[d.name] if isinstance(form, StreamForm))

    def computes_rows(self, operator: str, elements: int, attrs: Mapping[str, Any],
                      *constants: np.ndarray) -> bool:
        """True if an instruction of a stream unit computes an operator of rows that are read and
        have so many elements, and row and table fit."""
        applied, lanes = Applied(attrs, constants), self.config.block_out
        tables = [(form, bound[1]) for form, computes in self.of_rows
                  if computes.operators == (operator,) and -(-elements // lanes) <= form.longest
                  and (bound := computes.bind(elements, lanes, applied))]
        return any(table is None or form.shape.table is not None
                   and table.size <= form.shape.table[0] * prod(form.shape.table[1])
                   for form, table in tables)

    @cached_property
    def text(self) -> str:
        """The canonical text that `hash` covers."""
        lines = [json.dumps(self.config.geometry(), sort_keys=True)]
        lines += [f"{self.opcodes[name]} {form}" for name, forms in self._texts.items()
                  for form in forms]
        lines += [f"{unit} {layout!r}" for unit, layout in sorted(self._layouts.items())]
        return "\n".join(lines) + "\n"

    @cached_property
    def hash(self) -> str:
        """SHA-256 of `text`, in hexadecimal."""
        return _hash(self.text)

    @cached_property
    def forms_hash(self) -> str:
        """The hash of all forms, of the entries of buffers and of the dataflow, from which
        schedules and choices of instructions follow. Machines that differ in depths, bus, queues or
        stages share it.
        """
        forms = "\n".join(form for forms in self._texts.values() for form in forms)
        dataflow = self.config.dataflow
        other = "" if dataflow == ADDER_TREE else f"\n{dataflow}"
        return _hash(f"{self.config.tiles!r}\n{self.config.records!r}\n{forms}{other}")

    @cached_property
    def record(self) -> MachineRecord:
        """The record of this machine, for programs, files and messages."""
        return MachineRecord(
            self.hash, self.config.name, self.config.geometry(),
            {name: (self.opcodes[name], _hash("\n".join(forms)))
             for name, forms in self._texts.items()},
            {unit: _hash(repr(layout)) for unit, layout in sorted(self._layouts.items())})

    @cached_property
    def _layouts(self) -> dict[str, data.Layout]:
        """The layouts of units, and of instructions that have others."""
        return {**self.formats, **{name: layout for name, layout in self.layouts.items()
                                   if layout not in self.formats.values()}}

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        """The canonical texts of every instruction's forms, by name."""
        return {name: [repr(form) for form in forms] for name, forms in self.forms.items()}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
