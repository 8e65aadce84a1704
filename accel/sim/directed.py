"""Programs for what random ones do not reach: a token counter that is full, and long waits for
every cause, so that the counters of cycles are tried beyond a few thousand."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from accel import isa
from accel.config import UNITS
from accel.machine import Machine
from accel.program import Instruction, Program, finish

from .generate import Case

__all__ = ["directed"]


LATENCY = 40            # cycles from one short instruction to the next, at most

LOOPS = {unit: layout["loops"].shape.length for unit, layout in isa.FORMATS.items()
         if unit in UNITS}

LONG = 1 << 16
"""Cycles of a long wait, about."""

ODD = LONG - 1500
"""The same, but most bits of the sum of both are set."""


def directed(machine: Machine) -> list[Case]:
    """Programs in which a token counter is full, for each unit as the one that signals; in which
    all others wait for a unit; in which units wait for a bank, a hazard or memory."""
    return [*(_full_counter(machine, source, target)
              for source, target in zip(UNITS, (*UNITS[1:], UNITS[0]))),
            *(_long_wait(machine, unit) for unit in UNITS),
            _bank(machine, "gemm", "vector"), _bank(machine, "vector", "gemm"),
            _hazard(machine), _slow_memory(machine)]


def _full_counter(machine: Machine, source: str, target: str) -> Case:
    """The target is busy for long while the source gives it 256 tokens: the last has to wait."""
    give = {"signals": isa.unit_mask([target])}
    take = {"waits": isa.unit_mask([source])}
    short, taking = _nothing(machine, source, 1), _with(_nothing(machine, target, 1), take)
    busy = 256 * (LATENCY + _load_cycles(machine))
    body = [_nothing(machine, target, busy), *[_with(short, give)] * 255, taking,
            _with(short, give), *[taking] * 255]
    return _case(machine, f"full counter, {source} to {target}", body)


def _long_wait(machine: Machine, source: str) -> Case:
    """One unit is busy for long, twice in its first loop and once in its last; the others wait for
    its tokens, and then for commands."""
    others = [unit for unit in UNITS if unit != source]
    give, take = ({name: isa.unit_mask(units)}
                  for name, units in (("signals", others), ("waits", [source])))
    long, odd = (_nothing(machine, source, cycles) for cycles in (LONG, ODD))
    taking = [_with(_nothing(machine, unit, 1), take) for unit in others]
    body = [_nothing(machine, "gemm", 1), _nothing(machine, "store", 1), _with(long, give),
            *taking, _with(odd, give), *taking,
            _with(long, {"loops": _last(long.fields["loops"], LOOPS[source])})]
    return _case(machine, f"long wait for {source}", body)


def _last(loops: list[dict[str, int]], count: int) -> list[dict[str, int]]:
    """The same loops, the first one innermost of `count`."""
    first, *others = loops
    return [*others, *[{"extent": 1}] * (count - len(loops)), first]


def _bank(machine: Machine, holder: str, other: str) -> Case:
    """A unit holds a bank of acc for long in which the other one writes another entry."""
    short = _nothing(machine, other, 1)
    acc = {"banks": 1, "destination": 0} if other == "vector" else {"banks": 1}
    held = {"banks": 1, "base": {"dst": 3}} | ({"destination": 0} if holder == "vector" else {})
    return _case(machine, f"{other} waits for a bank", [
        _nothing(machine, "gemm", 1), _with(_nothing(machine, holder, LONG), held),
        _with(short, {**acc, "base": {"dst": 5}})])


def _hazard(machine: Machine) -> Case:
    """Every iteration of vector reads what the one before it wrote."""
    add = {"banks": 1, "b_source": isa.SOURCES_B.index("imm"), "imm": 1, "base": {},
           "loops": [{"extent": LONG // 8}]}
    first = {"banks": 1, "b_source": isa.SOURCES_B.index("imm"), "imm": 3, "base": {}}
    return _case(machine, "hazards", [Instruction("copy", "vector", first),
                                      Instruction("add", "vector", add)])


def _slow_memory(machine: Machine) -> Case:
    """Beats are rare: load and store wait for them."""
    run, times = 16, 256
    loops = [{"extent": times}]
    body = [_with(_nothing(machine, "load", 1), {
        "base": isa.BASES.index("weights"), "run": run, "loops": loops}),
            _with(_nothing(machine, "store", 1), {"run": 1, "loops": loops, "dram": 32})]
    case = _case(machine, "slow memory", body)
    rate = run * times / LONG
    return Case(case.name, case.program, case.memory, {"latency": 2, "bytes_per_cycle": rate})


def _case(machine: Machine, name: str, body: Sequence[Instruction]) -> Case:
    program = Program.assemble(machine, [*_prepared(machine, list(body)), finish()], io_bytes=64,
                               weights=np.arange(64, dtype=np.uint8))
    return Case(name, program, program.image(), {"latency": 2})


def _prepared(machine: Machine, body: list[Instruction]) -> list[Instruction]:
    """Before the stream, what writes the entries that gemm and store read."""
    before: list[Instruction] = []
    for unit, maker in (("gemm", "load"), ("store", "vector")):
        first = next((k for k, one in enumerate(body) if one.unit == unit), None)
        if first is None:
            continue
        made = ([_with(_nothing(machine, maker, 1), {"buffer": k}) for k in range(2)]
                if maker == "load" else [_with(_nothing(machine, maker, 1), {"base": {}})])
        made[-1] = _with(made[-1], {"signals": isa.unit_mask([unit])})
        waits = body[first].fields.get("waits", 0) | isa.unit_mask([maker])
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
    if unit == "vector":
        cycles = max(1, cycles // machine.config.vector_beats)
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
