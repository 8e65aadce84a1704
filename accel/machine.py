"""A machine: a geometry and the instructions declared for it. Everything else follows from these.

The machine's hash covers the geometry, the canonical text of every declared intrinsic with its
opcode, and the word layouts. It travels in programs, simulator objects and reports, and is
compared wherever two of them meet.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from accel import isa
from accel.config import AccelConfig
from accel.intrinsics import SHIPPED, Declaration
from compiler.tensorize import Intrinsic

__all__ = ["FINISH", "Machine"]

FINISH = 1
"""Opcode of FINISH, which fetch performs. Opcode 0 is illegal, so that blank memory is."""


@dataclass(frozen=True)
class Machine:
    """`declarations` get the opcodes 2, 3, ... in their order."""

    config: AccelConfig
    declarations: tuple[Declaration, ...] = SHIPPED

    def __post_init__(self):
        names = [declaration.name for declaration in self.declarations]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"Instruction {name} must be declared once")
        if len(names) > 254:
            raise ValueError(f"Declarations must be at most 254 (8-bit opcodes), not {len(names)}")
        assert all(intrinsic.loops <= len(isa.decode(isa.FORMATS[intrinsic.unit], 0)["loops"])
                   for forms in self.forms.values() for intrinsic in forms)

    @cached_property
    def forms(self) -> dict[str, tuple[Intrinsic, ...]]:
        """Every instruction's intrinsics, by name, in order of opcodes."""
        return {d.name: d.build(self.config) for d in self.declarations}

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
        """Opcode to unit; FINISH belongs to ``fetch``."""
        return {FINISH: "fetch"} | {self.opcodes[d.name]: d.unit for d in self.declarations}

    def of_unit(self, unit: str) -> tuple[Intrinsic, ...]:
        """First forms of all instructions of a unit."""
        return tuple(self.intrinsic(d.name) for d in self.declarations if d.unit == unit)

    @cached_property
    def text(self) -> str:
        """The canonical text that `hash` covers."""
        lines = [json.dumps(self.config.geometry(), sort_keys=True)]
        lines += [f"{self.opcodes[name]} {form!r}" for name, forms in self.forms.items()
                  for form in forms]
        lines += [f"{unit} {layout!r}" for unit, layout in sorted(isa.FORMATS.items())]
        return "\n".join(lines) + "\n"

    @cached_property
    def hash(self) -> str:
        """SHA-256 of `text`, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()
