"""An example of each instruction: a legal one, small enough for every geometry."""

from typing import Any

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import Instruction, codes_of, finish
from accel.machine.streams import StreamForm
from accel.machine.structure import IMMEDIATE, UnitKind
from compiler.tensorize import Immediate, Intrinsic

from .instructions import address_fields
from .words import fields_of

WORD = 64
"""Bits of the parts in which a word is shown."""

NEIGHBOURS = {UnitKind.LOAD: (UnitKind.GEMM, UnitKind.GEMM),
              UnitKind.GEMM: (UnitKind.LOAD, UnitKind.VECTOR),
              UnitKind.VECTOR: (UnitKind.GEMM, UnitKind.STORE),
              UnitKind.STORE: (UnitKind.VECTOR, UnitKind.VECTOR),
              UnitKind.STREAM: (UnitKind.LOAD, UnitKind.STORE)}
"""The kinds of units from which an example waits for a token, and which it gives one."""


def example(machine: Machine, name: str, form: int = 0) -> Instruction:
    """Two entries of the destination, of gemm as sums of two block products."""
    if name == "finish":
        return finish()
    intrinsic = machine.forms[name][form]
    kind, structure = UnitKind(intrinsic.unit), machine.structure
    fields = (_rows(machine, intrinsic) if isinstance(intrinsic, StreamForm) else
              _moved(machine, intrinsic) if kind.moves else _computed(machine, intrinsic))
    waits, signals = (1 << structure.names.index(structure.meant(other))
                      for other in NEIGHBOURS[kind])
    return Instruction(name, machine.unit_of(name), {
        "opcode": machine.opcodes[name], "waits": waits, "signals": signals, **fields},
        structure=structure)


def _moved(machine: Machine, form: Intrinsic) -> dict[str, Any]:
    """Two entries of a buffer; if the form pads, the first is padding."""
    inward = form.dst if form.unit == UnitKind.LOAD else form.operands[0]
    buffer = inward.scopes[0]
    entry = machine.config.buffers[buffer].entry_bytes
    loop = {"extent": 2, "dram": entry, "buffer": entry}
    padding = {"pad_value": 0x80} if form.immediates else {}
    return {"buffer": machine.structure.buffer_names.index(buffer),
            "base": isa.BASES.index("activations"), "dram": 0x40, "run": entry, **padding,
            "loops": [loop | ({"before": 1} if form.immediates else {})]}


def _rows(machine: Machine, form: StreamForm) -> dict[str, Any]:
    """Two rows of two entries, if a row may be so long."""
    row = min(2, form.longest)
    around = {"extent": 2, "dst": row, "a": row}
    codes = codes_of(machine.structure, machine.unit_of(form.name))
    return {"a_source": codes["a_source"].index(form.operands[0].scopes[0]), "base": {},
            "loops": [around, *[{"extent": 1}] * (form.loops - 2),
                      {"extent": row, "dst": 1, "a": 1}],
            **{imm.name: _number(imm) for imm in form.immediates}}


def _computed(machine: Machine, form: Intrinsic) -> dict[str, Any]:
    loops = [{"extent": 2, "dst": 1, "a": 2 if form.unit == UnitKind.GEMM else 1}]
    if form.unit == UnitKind.GEMM:
        loops.append({"extent": 2, "a": 1, "b": 1})
    chosen = _scopes(form)
    records = {operand.name for operand in form.operands} - {"a", "b"}
    if form.unit == UnitKind.VECTOR and "b" in chosen and chosen["b"] != IMMEDIATE and not records:
        loops[0]["b"] = 1
    fields: dict[str, Any] = {"loops": loops, "base": {}}
    if machine.structure.roles.acc in (chosen["dst"], *chosen.values()):
        fields["banks"] = 1
    if form.reads_destination:
        fields["reset"] = 1
    if form.unit == UnitKind.VECTOR:
        codes = codes_of(machine.structure, machine.unit_of(form.name))
        selectors = {"a_source": "a", "b_source": "b", "destination": "dst"}
        fields |= {field: codes[field].index(chosen[name]) for field, name in selectors.items()
                   if name in chosen and chosen[name] in codes[field]}
        fields |= {"imm": 100} if IMMEDIATE in chosen.values() else {}
    fields |= {imm.name: _number(imm) for imm in form.immediates}
    return {key: value for key, value in fields.items()
            if key in {field.path.partition(".")[0]
                       for field in fields_of(machine.layouts[form.name])}}


def _scopes(form: Intrinsic) -> dict[str, str]:
    """The places of operands: the destination beyond acc if it can, sources apart if they can."""
    chosen = {"dst": form.dst.scopes[-1]}
    for operand in form.operands:
        free = [scope for scope in operand.scopes if scope not in chosen.values()]
        chosen[operand.name] = (free or operand.scopes)[0]
    known = address_fields(form)
    return {name: scope for name, scope in chosen.items() if name == "dst" or name in known
            or scope == IMMEDIATE}


def _number(imm: Immediate) -> int:
    """A number that the immediate can have: its bounds for lo and hi, else a small one."""
    return {"lo": imm.low, "hi": imm.high}.get(imm.name, min(max(1, imm.low), imm.high))


def hexadecimal(machine: Machine, instruction: Instruction) -> list[str]:
    """The word in parts of 64 bits, the lowest first; what follows the last that is not 0 is left
    out.
    """
    word = instruction.encode(machine)
    parts = [word >> low & (1 << WORD) - 1 for low in range(0, isa.WORD_BITS, WORD)]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [f"{part:016x}" for part in parts]
