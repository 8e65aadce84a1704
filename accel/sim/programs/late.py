"""Programs that fail late, so that positions of instructions are tried beyond a few hundred."""

from collections.abc import Sequence

import numpy as np

from accel.machine import isa
from accel.machine.config import WEIGHT_BITS
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.machine.status import Run, Status
from accel.machine.structure import FETCH, UnitKind

from .case import Case
from .directed import changed, nothing

LATE = 0x1FE
"""Instructions before those that matter, whose positions are on either side of a carry."""


def late(machine: Machine) -> list[Case]:
    """Programs that deadlock with every unit waiting, each in turn with the lowest instruction, and
    with every unit refused; in which a unit leaves its buffer; with an illegal word; in which a
    load unpacks to what lies outside its buffer, or unpacks what no load does."""
    return [*(_waiting(machine, turn) for turn in range(len(machine.structure.units))),
            _refused(machine),
            *(_outside(machine, unit) for unit in machine.structure.names),
            _illegal(machine), *_unpacking(machine)]


def _waiting(machine: Machine, turn: int) -> Case:
    """Each unit waits for a token of the next one."""
    units = machine.structure.names
    order = units[turn:] + units[:turn]
    waiting = [changed(nothing(machine, unit, 1), {"waits": _next(units, unit)})
               for unit in order]
    return _case(machine, Run(Status.DEADLOCK, order[0], LATE), LATE, waiting)


def _refused(machine: Machine) -> Case:
    """Each unit gives the next one a token more than there can be."""
    units = machine.structure.names
    giving = [changed(nothing(machine, unit, 1), {"signals": _next(units, unit)})
              for unit in units]
    given = machine.config.timing.tokens * len(units)
    return _case(machine, Run(Status.DEADLOCK, units[0], given), given, giving, giving,
                 f"signal of {units[0]}")


def _outside(machine: Machine, unit: str) -> Case:
    """Its address is the first one after the buffer. A unit that moves bytes does so before at an
    offset that wraps, of which nearly all bits are set."""
    structure, roles = machine.structure, machine.structure.roles
    buffers, instruction = machine.config.buffers, nothing(machine, unit, 1)
    kind = structure.unit(unit).kind
    if kind.moves:
        name = structure.buffer_names[instruction.fields["buffer"]]
        wrapped = changed(instruction, {"dram": (1 << 32) - LATE * isa.WORD_BYTES, "loops": []})
        return _case(machine, Run(Status.ADDRESS, unit, LATE + 2), LATE + 1,
                     [wrapped, changed(instruction, {"address": buffers[name].size_bytes})])
    wrong = {"base": {"a": buffers[roles.inp].depth} if kind is UnitKind.GEMM
             else {"dst": buffers[structure.unit(unit).writes[-1]].depth}}
    return _case(machine, Run(Status.ADDRESS, unit, LATE + 1), LATE + 1,
                 [changed(instruction, wrong)])


def _unpacking(machine: Machine) -> list[Case]:
    """With each code of `bits` a load of the first byte after wgt, and one to res; none where loads
    do not unpack."""
    structure, roles = machine.structure, machine.structure.roles
    allowed, load = machine.config.weight_bits, nothing(machine, roles.load, 1)
    wgt = {"buffer": structure.buffer_names.index(roles.wgt)}
    size = machine.config.buffers[roles.wgt].size_bytes
    cases = []
    for code in range(1, 4) if len(allowed) > 1 else ():
        bits = (*WEIGHT_BITS, None)[code]
        outside = {"bits": code, "address": size >> code}
        ends = ((Status.ADDRESS if bits in allowed else Status.ILLEGAL, outside | wgt),
                (Status.ILLEGAL, {"bits": code}))
        cases += [_case(machine, Run(status, roles.load, LATE + 1), LATE + 1,
                        [changed(load, fields)], name=f"{status.text} of {roles.load}, bits {code}")
                  for status, fields in ends]
    return cases


def _illegal(machine: Machine) -> Case:
    return _case(machine, Run(Status.ILLEGAL, FETCH, LATE + 1), LATE + 1,
                 [_Blank("illegal", "illegal", {})])


class _Blank(Instruction):
    """A word of zeros, which is no instruction."""

    def encode(self, machine: Machine) -> int:
        return 0


def _next(units: Sequence[str], unit: str) -> int:
    """The mask of the unit after this one."""
    return 1 << (units.index(unit) + 1) % len(units)


def _case(machine: Machine, end: Run, start: int, last: Sequence[Instruction],
          before: Sequence[Instruction] = (), name: str = "") -> Case:
    """The instructions `last` at position `start`; before it, again and again, those of `before`,
    or a short one of store."""
    before = before or [nothing(machine, machine.structure.roles.store, 1)]
    words = [AccelProgram.assemble(machine, some).words for some in (before, [*last, finish()])]
    stream = np.concatenate([np.resize(words[0], (start, isa.WORD_BYTES)), words[1]])
    program = AccelProgram(machine.hash, stream, np.zeros(64, np.uint8), io_bytes=64,
                           activations_bytes=machine.config.shared_bytes,
                           machine=machine.record)
    return Case(f"late {name or f'{end.status.text} of {end.unit}'}", program, program.image(),
                {"latency": 2}, fault=end.describe())
