"""Programs for what random ones do not reach: a token counter that is full, long waits."""

from collections.abc import Mapping
from typing import Any

from accel import isa
from accel.config import UNITS
from accel.machine import Machine
from accel.program import Instruction, Program, finish

from .generate import Case

__all__ = ["directed"]


LATENCY = 40            # cycles from one short instruction to the next, at most


LONG = 1 << 16
"""Cycles that every unit waits for every other one: so far are the counters of cycles tried."""


def directed(machine: Machine) -> list[Case]:
    """Programs that fill a token counter, and in which all wait for one, for each unit."""
    return [*(_full_counter(machine, source, target)
              for source, target in zip(UNITS, (*UNITS[1:], UNITS[0]))),
            *(_long_wait(machine, unit) for unit in UNITS)]


def _long_wait(machine: Machine, source: str) -> Case:
    """One unit is busy for long; the others wait for its token."""
    others = [unit for unit in UNITS if unit != source]
    give = {"signals": isa.unit_mask(others)}
    take = {"waits": isa.unit_mask([source])}
    stream = _prepared(machine, [
        _nothing(machine, "gemm", 1), _nothing(machine, "store", 1),
        _with(_nothing(machine, source, LONG), give),
        *(_with(_nothing(machine, unit, 1), take) for unit in others)])
    program = Program.assemble(machine, [*stream, finish()], io_bytes=64)
    return Case(f"long wait for {source}", program, program.image(), {"latency": 2})


def _full_counter(machine: Machine, source: str, target: str) -> Case:
    """The target is busy for long while the source gives it 256 tokens: the last has to wait."""
    give = {"signals": 1 << UNITS.index(target)}
    take = {"waits": 1 << UNITS.index(source)}
    short, taking = _nothing(machine, source, 1), _with(_nothing(machine, target, 1), take)
    busy = 256 * (LATENCY + _load_cycles(machine))
    body = [_nothing(machine, target, busy), *[_with(short, give)] * 255, taking,
            _with(short, give), *[taking] * 255]
    stream = _prepared(machine, body)
    program = Program.assemble(machine, [*stream, finish()], io_bytes=64)
    timing = {"latency": 2, "outstanding": 64, "stall_seed": 0}
    return Case(f"full counter, {source} to {target}", program, program.image(), timing)


def _prepared(machine: Machine, body: list[Instruction]) -> list[Instruction]:
    """Before the stream, what writes the entries that gemm and store read."""
    before: list[Instruction] = []
    for unit, maker in (("gemm", "load"), ("store", "vector")):
        first = next((k for k, one in enumerate(body) if one.unit == unit), None)
        if first is None:
            continue
        made = ([_with(_nothing(machine, maker, 1), {"buffer": k}) for k in range(2)]
                if maker == "load" else [_with(_nothing(machine, maker, 1), {"base": {}})])
        made[-1] = _with(made[-1], {"signals": 1 << UNITS.index(unit)})
        waits = body[first].fields.get("waits", 0) | 1 << UNITS.index(maker)
        body[first] = _with(body[first], {"waits": waits})
        before += made
    return before + body


def _with(instruction: Instruction, fields: Mapping[str, Any]) -> Instruction:
    return Instruction(instruction.name, instruction.unit, {**instruction.fields, **fields})


def _entry_bytes(machine: Machine) -> int:
    """Of the larger one of the entries that load writes for gemm."""
    return max(machine.config.buffers[name].entry_bytes for name in ("inp", "wgt"))


def _load_cycles(machine: Machine) -> int:
    """Of a run of `_entry_bytes`."""
    return max(1, _entry_bytes(machine) // machine.config.bus_bytes)


def _nothing(machine: Machine, unit: str, cycles: int) -> Instruction:
    """An instruction of about so many cycles that needs nothing but itself."""
    if unit == "load":
        cycles = max(1, cycles // _load_cycles(machine))
    loops = [{"extent": min(cycles, LONG)}]
    if unit == "load":          # nothing but padding, of a whole entry
        loops.append({"extent": 1, "before": 1})
        return Instruction("load", unit, {"buffer": 2, "base": 3, "run": _entry_bytes(machine),
                                          "loops": loops})
    if unit == "store":
        return Instruction("store", unit, {"buffer": 5, "base": 3, "loops": loops})
    if unit == "vector":
        copy = {"b_source": isa.SOURCES_B.index("imm"), "destination": 1, "loops": loops,
                "base": {"dst": 1}}
        return Instruction("copy", unit, copy)
    return Instruction("gemm", unit, {"banks": 1, "reset": 1, "loops": loops})
