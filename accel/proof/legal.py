"""Programs made legal, and proved to be: `ordered` and `prove`.

Both take what the instructions touch from `batches.py`, and share nothing else.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from accel.machine.machine import FINISH, Machine
from accel.machine.program import AccelProgram, Instruction, Stream
from accel.proof.batches import Batches, IllegalProgram, named
from accel.proof.findings import LIMIT, Findings
from compiler.latency_hiding import Place, token_masks, violations_of

__all__ = ["IllegalProgram", "ordered", "prove", "with_tokens"]

WAITS, SIGNALS = 1, 2
"""Bytes of a word."""


def ordered(machine: Machine, stream: Stream) -> Stream:
    """Give a stream the tokens that make it legal, in place of any that it has: they are written
    into its words.

    Raises `IllegalProgram` for an instruction whose operands are not allowed or not in range.
    FINISH gets no tokens: it waits until all units are idle.
    """
    words = stream.words
    working = np.flatnonzero(words[:, 0] != FINISH)
    is_whole = len(working) == len(words)
    batches = (Batches(machine, words, stream.origins, {}) if is_whole else
               Batches(machine, words[working], stream.origins.take(working), {}))
    waits, signals = token_masks(batches, len(machine.structure.units), batches.measures,
                                 machine.config.timing.tokens)
    words[working, WAITS], words[working, SIGNALS] = waits, signals
    return stream


def with_tokens(machine: Machine, instructions: Iterable[Instruction]) -> list[Instruction]:
    """As `ordered`, for instructions that are not encoded yet."""
    known = list(instructions)
    words = ordered(machine, Stream.of(machine, known)).words
    return [replace(one, fields={**one.fields, "waits": int(word[WAITS]),
                                 "signals": int(word[SIGNALS])})
            for one, word in zip(known, words, strict=True)]


def prove(machine: Machine, program: AccelProgram) -> None:
    """Raise `IllegalProgram` unless the program ends well, with one memory, under every timing.

    Checked: opcodes, selectors, every address against its buffer, its banks or its segment, tokens
    against the order of every two conflicting accesses, and that nothing is read that neither
    the program nor its constant segments and inputs wrote. Raises `ProgramError` if the program
    was compiled for another machine.
    """
    program.require(machine)
    _require_finish(machine, program)
    words = program.words[:-1]
    batches = Batches(machine, words, program.origins, program.segment_sizes)
    initial: dict[str, list[tuple[int, int]]] = {}
    for slot in program.inputs:
        initial.setdefault(slot.base, []).append((slot.offset, slot.offset + slot.size_bytes))
    names = machine.structure.names
    waits, signals = (np.ascontiguousarray(words[:, byte], np.uint32) & (1 << len(names)) - 1
                      for byte in (WAITS, SIGNALS))
    units = batches.units

    def place(position: int) -> Place:
        return Place(position, names[units[position]], "")

    violations = violations_of(batches, waits, signals, batches.measures, names,
                               batches.memories, initial, place, LIMIT,
                               machine.config.timing.tokens)
    if violations:
        raise IllegalProgram(Findings(program, batches, waits, signals, violations), violations, [
            program.origins.origin(one.later.index).site.layer for one in violations])


def _require_finish(machine: Machine, program: AccelProgram) -> None:
    ends = np.flatnonzero(program.words[:, 0] == FINISH).tolist()
    last = program.count - 1
    if ends != [last]:
        raise IllegalProgram(f"Program must have one finish, at its end {last}, not at {ends}")
    if program.words[last, WAITS] or program.words[last, SIGNALS]:
        finish = program.instruction(machine, last)
        raise IllegalProgram(f"{named(last, finish)} must have no tokens: finish waits until all "
                             f"units are idle")
