"""Decides by exhaustion whether tokens make a stream legal, to judge the proof of compiled
programs.

Every instruction's addresses are enumerated one by one into bit sets, every two instructions of
different units are compared, and the order is the transitive closure of the whole graph (the order
within units, and the k-th signal of a pair before its k-th wait). Nothing is shared with the
address sets, the insertion of tokens or the proof, so that they cannot share a mistake. Time grows
with the square of the stream's length: suitable for some hundred instructions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction

__all__ = ["CAPACITY", "Judge", "Masks"]

CAPACITY = 255
"""The most tokens that a counter of 8 bits holds."""

Masks = tuple[tuple[str, ...], tuple[str, ...]]
"""The units that an instruction waits for, and those that it signals."""

_Sets = dict[str, int]
"""Memory to a bit set of its addresses: bytes, or entries of acc."""


@dataclass(frozen=True, slots=True)
class _Touched:
    reads: _Sets
    writes: _Sets

    def conflicts(self, other: "_Touched") -> bool:
        return (any(mine & (other.writes.get(memory, 0) | other.reads.get(memory, 0))
                    for memory, mine in self.writes.items())
                or any(mine & other.writes.get(memory, 0) for memory, mine in self.reads.items()))


class Judge:
    """Judges one program with fixed instructions and changing tokens."""

    def __init__(self, machine: Machine, program: AccelProgram):
        self.stream = program.instructions(machine)[:-1]
        self.units = [one.unit for one in self.stream]
        touched = [_touched(machine, one) for one in self.stream]
        # Of each instruction, the earlier ones of other units that it conflicts with.
        self.conflicts = [sum(1 << k for k in range(index) if self.units[k] != self.units[index]
                              and touched[k].conflicts(touched[index]))
                          for index in range(len(self.stream))]

    @property
    def tokens(self) -> list[Masks]:
        """The tokens of the program."""
        return [(one.waits, one.signals) for one in self.stream]

    def fault(self, tokens: Sequence[Masks]) -> str:
        """Why the stream with these tokens is not legal; empty if it is."""
        known: list[int] = []               # for each instruction, the bit set of those before it
        last: dict[str, int] = {}           # for each unit, its last instruction
        given: dict[tuple[str, str], list[int]] = {}
        taken: dict[tuple[str, str], int] = {}
        for index, (unit, (waits, signals)) in enumerate(zip(self.units, tokens, strict=True)):
            sources = [last[unit]] if unit in last else []
            for source in waits:
                number = taken.get((source, unit), 0)
                if number >= len(given.get((source, unit), ())):
                    return f"instruction {index} waits for {source}, whose counter is empty"
                sources.append(given[source, unit][number])
                taken[source, unit] = number + 1
            before = 0
            for source in sources:
                before |= known[source] | 1 << source
            known.append(before)
            if late := self.conflicts[index] & ~before:
                return f"{late.bit_length() - 1} and {index} are in no order"
            for target in signals:
                line = given.setdefault((unit, target), [])
                line.append(index)
                if len(line) - taken.get((unit, target), 0) > CAPACITY:
                    return f"instruction {index} signals {target}, whose counter is full"
            last[unit] = index
        left = [pair for pair, line in given.items() if len(line) > taken.get(pair, 0)]
        return f"tokens of {' to '.join(left[0])} are left" if left else ""


def _touched(machine: Machine, one: Instruction) -> _Touched:
    reads: _Sets = {}
    writes: _Sets = {}
    for memory, addresses, write in (_copied(one) if one.unit in ("load", "store")
                                     else _computed(machine, one)):
        sets = writes if write else reads
        sets[memory] = sets.get(memory, 0) | _bits(addresses)
    return _Touched(reads, writes)


def _copied(one: Instruction) -> Iterator[tuple[str, np.ndarray, bool]]:
    fields, loops = one.fields, one.fields["loops"]
    run = np.arange(fields["run"])
    near = (fields["address"] + _offsets(loops, "buffer")) % (1 << 24)
    far = (fields["dram"] + _offsets(loops, "dram")) % (1 << 32)
    if one.unit == "load":                  # padding reads nothing
        valid = np.ones(1, bool)
        for loop in loops:
            index = np.arange(loop["extent"])
            inside = (index >= loop["before"]) & (index < loop["extent"] - loop["after"])
            valid = (valid[:, None] & inside).reshape(-1)
        far = far[valid]
    group = 1 << fields.get("bits", 0)
    unpacked = np.arange(group * fields["run"])
    yield isa.BUFFERS[fields["buffer"]], _widened(group * near, unpacked), one.unit == "load"
    yield isa.BASES[fields["base"]], _widened(far, run), one.unit == "store"


def _computed(machine: Machine, one: Instruction) -> Iterator[tuple[str, np.ndarray, bool]]:
    """Yields each operand's memory, addresses and whether it is written. An entry that is
    accumulated onto counts as written: the order of writes covers that read.
    """
    fields, intrinsic = one.fields, machine.intrinsic(one.name)
    for operand in (*intrinsic.operands, intrinsic.dst):
        field, memory = _operand(one, operand)
        if memory == "imm":
            continue
        entries = (fields["base"][field] + _offsets(fields["loops"], field)) % (1 << 16)
        size = 1 if memory == "acc" else machine.config.buffers[memory].entry_bytes
        yield memory, _widened(entries * size, np.arange(size)), operand is intrinsic.dst


def _operand(one: Instruction, operand: Any) -> tuple[str, str]:
    """The field that addresses the operand, and its memory."""
    fields = one.fields
    if one.unit == "gemm":
        return {"inp": ("a", "inp"), "wgt": ("b", "wgt"), "dst": ("dst", "acc")}[operand.name]
    if operand.name == "dst":
        return "dst", isa.DESTINATIONS[fields["destination"]]
    if operand.name == "a":
        return "a", isa.SOURCES_A[fields["a_source"]]
    if operand.name == "b":
        return "b", isa.SOURCES_B[fields["b_source"]]
    return "b", operand.scopes[0]


def _offsets(loops: Sequence[Mapping[str, int]], field: str) -> np.ndarray:
    """The offset of the field in every iteration, the last loop innermost."""
    total = np.zeros(1, np.int64)
    for loop in loops:
        total = (total[:, None] + np.arange(loop["extent"]) * loop[field]).reshape(-1)
    return total


def _widened(starts: np.ndarray, run: np.ndarray) -> np.ndarray:
    return (np.unique(starts)[:, None] + run).reshape(-1)


def _bits(addresses: np.ndarray) -> int:
    if not addresses.size:
        return 0
    present = np.zeros(int(addresses.max()) + 1, np.uint8)
    present[addresses] = 1
    return int.from_bytes(np.packbits(present, bitorder="little").tobytes(), "little")
