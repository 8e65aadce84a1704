"""Locates where two simulators diverge: the first instruction after which their states differ.

The program is cut after each instruction in turn. What it then holds in buffers of results and in
acc is made visible by instructions appended to the cut: these are stored, then acc byte by byte
through out. (What load put into its buffers shows when gemm or vector read it.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.machine.status import Run
from accel.machine.structure import IMMEDIATE, UnitKind

from accel.sim.programs.case import Case

Simulator = Callable[[Machine, Case], Run]

_LINEAR = 64            # instructions up to which every cut is tried


def differ(a: Run, b: Run) -> str:
    """The difference between two runs of one program; empty if there is none."""
    if (a.status, a.unit, a.index, a.waiting) != (b.status, b.unit, b.index, b.waiting):
        return f"{a.describe()}; {b.describe()}"
    if a.ok and not np.array_equal(a.memory, b.memory):
        places = np.flatnonzero(a.memory != b.memory)
        first = int(places[0])
        return (f"{len(places)} bytes of memory differ, from {first}: "
                f"{a.memory[first:first + 8].tobytes().hex(' ')}; "
                f"{b.memory[first:first + 8].tobytes().hex(' ')}")
    return ""


@dataclass(frozen=True)
class _Cut:
    case: Case
    places: list[str]           # of each byte behind the program's own io segment, what it shows


def first_difference(machine: Machine, case: Case, a: Simulator,
                     b: Simulator) -> tuple[int, str] | None:
    """The instruction after which the states differ, and where; None if no cut shows it."""
    count = case.program.count - 1
    if count > _LINEAR:
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _compare(machine, case, middle, a, b) else (middle, high)
        lengths: Sequence[int] = [high]
    else:
        lengths = range(1, count + 1)
    for length in lengths:
        if difference := _compare(machine, case, length, a, b):
            return length - 1, difference
    return None


def _compare(machine: Machine, case: Case, length: int, a: Simulator, b: Simulator) -> str:
    short = cut(machine, case, length)
    left, right = a(machine, short.case), b(machine, short.case)
    if left.ok and right.ok:
        return _place(case, short, left.memory, right.memory)
    return differ(left, right)


def _place(case: Case, short: _Cut, left: np.ndarray, right: np.ndarray) -> str:
    """The first byte of memory, out or acc that differs."""
    program = short.case.program
    for segment in isa.BASES[1:]:
        start = program.bases[segment]
        own = case.program.segment_sizes[segment]
        size = program.segment_sizes[segment]
        different = np.flatnonzero(left[start:start + size] != right[start:start + size])
        if different.size:
            first = int(different[0])
            where = (f"byte {first} of {segment}" if first < own
                     else short.places[first - own])
            return f"{where} is {left[start + first]:02x}; {right[start + first]:02x}"
    return ""


def cut(machine: Machine, case: Case, length: int) -> _Cut:
    """The first `length` instructions, and what shows out and acc behind the io segment."""
    stream = _matched(machine, case.program.instructions(machine)[:length])
    own = -(-case.program.io_bytes // 64) * 64
    shown, places = _show(machine, stream, own)
    program = case.program
    longer = AccelProgram.assemble(machine, [*shown, finish()], weights=program.weights,
                                   activations_bytes=program.activations_bytes,
                                   io_bytes=own + len(places), inputs=program.inputs)
    memory = longer.image()
    for segment in isa.BASES[1:]:
        size = program.segment_sizes[segment]
        start = program.bases[segment]
        memory[longer.bases[segment]:longer.bases[segment] + size] = \
            case.memory[start:start + size]
    gap = ["io"] * (own - program.io_bytes)
    return _Cut(replace(case, program=longer, memory=memory), gap + places)


def _matched(machine: Machine, stream: list[Instruction]) -> list[Instruction]:
    """The stream without the signals that have no wait left."""
    units = machine.structure.names
    waits = {(a, b): sum(a in instruction.waits for instruction in stream if instruction.unit == b)
             for a in units for b in units}
    result = []
    for instruction in stream:
        kept = [unit for unit in instruction.signals if waits[instruction.unit, unit]]
        for unit in kept:
            waits[instruction.unit, unit] -= 1
        result.append(_with(instruction, signals=isa.unit_mask(kept, units)))
    return result


def _show(machine: Machine, stream: list[Instruction],
          offset: int) -> tuple[list[Instruction], list[str]]:
    """Append stores of all results and, where there is `shr`, of each byte of acc; what each byte
    that they store is."""
    roles = machine.structure.roles
    out, acc = (machine.config.buffers[name] for name in (roles.out, roles.acc))
    steps: list[tuple[Instruction, list[str]]] = []
    for name in machine.structure.moved[roles.store]:
        store = _stored(machine, name, offset + sum(len(step[1]) for step in steps))
        steps.append((store, [f"byte {k} of {name}" for k in range(
            machine.config.buffers[name].size_bytes)]))
    part = min(out.depth, acc.depth)
    for first in range(0, acc.depth, part) if "shr" in machine.opcodes else ():
        for byte in range(4):
            steps.append((_byte_to_out(machine, first, part, byte), []))
            names = [f"byte {byte} of lane {k % machine.config.lanes} of {acc.name} entry "
                     f"{first + k // machine.config.lanes}" for k in range(out.size_bytes)]
            steps.append((_stored(machine, out.name, offset + sum(len(s[1]) for s in steps)),
                          names))
    result = list(stream)
    for instruction, _ in steps:
        sources = [unit.name for unit in machine.structure.units
                   if unit.kind is not UnitKind.LOAD and unit.name != instruction.unit]
        result = _after(machine, result, instruction, sources)
    return result, [name for _, names in steps for name in names]


def _after(machine: Machine, stream: list[Instruction], instruction: Instruction,
           units: Sequence[str]) -> list[Instruction]:
    """Append, with a token from the last instruction of each of `units`.

    A signal that is there already has its wait before: that orders it too.
    """
    waits, names = [], machine.structure.names
    for unit in units:
        last = max((k for k, earlier in enumerate(stream) if earlier.unit == unit), default=None)
        if last is not None and instruction.unit not in stream[last].signals:
            targets = (*stream[last].signals, instruction.unit)
            stream[last] = _with(stream[last], signals=isa.unit_mask(targets, names))
            waits.append(unit)
    return [*stream, _with(instruction, waits=isa.unit_mask(waits, names))]


def _with(instruction: Instruction, **fields: int) -> Instruction:
    return replace(instruction, fields={**instruction.fields, **fields})


def _stored(machine: Machine, buffer: str, offset: int) -> Instruction:
    roles = machine.structure.roles
    size = machine.config.buffers[buffer].size_bytes
    run = min(size, 1 << 12)
    return Instruction(machine.of_unit(UnitKind.STORE)[0].name, roles.store, {
        "buffer": machine.structure.buffer_names.index(buffer),
        "base": isa.BASES.index("io"), "dram": offset,
        "run": run, "loops": [{"extent": size // run, "dram": run, "buffer": run}]})


def _byte_to_out(machine: Machine, first: int, count: int, byte: int) -> Instruction:
    roles = machine.structure.roles
    codes = isa.selectors(machine.structure.unit(roles.vector))
    return Instruction("shr", roles.vector, {
        "banks": 3, "a_source": codes["a_source"].index(roles.acc),
        "b_source": codes["b_source"].index(IMMEDIATE),
        "destination": codes["destination"].index(roles.out), "imm": 8 * byte,
        "base": {"a": first}, "loops": [{"extent": count, "a": 1, "dst": 1}]})
