"""The forms of instructions: every way to encode what is declared."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from accel.machine.config import WEIGHT_BITS
from accel.machine.machine import Machine
from accel.machine.program import Instruction
from accel.machine.structure import IMMEDIATE, UnitKind
from accel.proof.access import operand_scope
from compiler.tensorize import Intrinsic


@dataclass(frozen=True)
class Form:
    """An instruction, where its operands live, and how it meets its destination.

    Parameters
    ----------
    sources : pairs (operand, scope), in order of declaration.
    target : where the destination lives; for a store what it reads.
    reset : of an update that accumulates, whether it begins anew.
    padded : some iterations of a load are padding.
    bits : of an element of a load in memory.
    kind : that of the unit.
    """

    name: str
    unit: str
    sources: tuple[tuple[str, str], ...]
    target: str
    reset: bool | None = None
    padded: bool = False
    bits: int = 8
    kind: UnitKind = UnitKind.VECTOR

    @property
    def scopes(self) -> dict[str, str]:
        return dict(self.sources)

    def __str__(self) -> str:
        if self.kind.moves:
            packed = f" of {self.bits} bits" if self.bits < 8 else ""
            return f"{self.name} {self.target}{packed}" + (" with padding" if self.padded else "")
        how = {None: "", True: " with reset", False: " onto what is there"}[self.reset]
        if self.kind is UnitKind.GEMM:
            return self.name + how
        places = ",".join(scope for operand, scope in self.sources if operand in ("a", "b"))
        return " ".join(filter(None, (self.name, places, "to", self.target))) + how


def forms(machine: Machine) -> list[Form]:
    """All forms that the declarations allow, in order of opcodes."""
    return [form for name, intrinsics in machine.forms.items() for intrinsic in intrinsics
            for form in _of(machine, name, intrinsic)]


def _of(machine: Machine, name: str, intrinsic: Intrinsic) -> Iterator[Form]:
    unit, kind = machine.unit_of(name), UnitKind(intrinsic.unit)
    if kind is UnitKind.LOAD:
        for buffer in intrinsic.dst.scopes:
            packed = machine.structure.buffer(buffer).packed
            for bits in machine.config.weight_bits if packed else (8,):
                yield Form(name, unit, (), buffer, padded=bool(intrinsic.immediates), bits=bits,
                           kind=kind)
    elif kind is UnitKind.STORE:
        for buffer in intrinsic.operands[0].scopes:
            yield Form(name, unit, (), buffer, kind=kind)
    else:
        names = [operand.name for operand in intrinsic.operands]
        for scopes in itertools.product(*(operand.scopes for operand in intrinsic.operands)):
            for target in intrinsic.dst.scopes:
                for reset in (False, True) if intrinsic.reads_destination else (None,):
                    yield Form(name, unit, tuple(zip(names, scopes)), target, reset, kind=kind)


def form_of(machine: Machine, instruction: Instruction) -> Form:
    """The form of a legal instruction. A load whose loops pad nothing counts as one without
    padding; so does a load into a buffer for which no form has padding.
    """
    name, unit, fields = instruction.name, instruction.unit, instruction.fields
    kind = machine.structure.unit(unit).kind
    if kind.moves:
        buffer = machine.structure.buffer_names[fields["buffer"]]
        padded = any(loop.get("before") or loop.get("after") for loop in fields.get("loops", ()))
        allowed = any(form.immediates and buffer in form.dst.scopes for form in machine.forms[name])
        return Form(name, unit, (), buffer, padded=padded and allowed,
                    bits=WEIGHT_BITS[fields.get("bits", 0)], kind=kind)
    intrinsic = machine.intrinsic(name)
    sources = tuple((operand.name, operand_scope(machine, instruction, intrinsic, operand.name))
                    for operand in intrinsic.operands)
    reset = bool(fields.get("reset", 0)) if intrinsic.reads_destination else None
    target = operand_scope(machine, instruction, intrinsic, "dst")
    return Form(name, unit, sources, target, reset, kind=kind)


def reads(machine: Machine, form: Form) -> set[str]:
    """The buffers that a form of gemm or vector reads."""
    there = {form.target} if form.reset is False else set()
    return there | {scope for _, scope in form.sources if scope != IMMEDIATE}
