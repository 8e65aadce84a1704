"""Entries of the buffers that are in use while a program runs.

An entry of a buffer is **live** from the start of the instruction that writes it to the retirement
of the last one that reads what was written. So an entry that nothing reads is never live, and an
accumulation keeps its entry live throughout. An entry written in parts, by shorter loads, is live
from the first of them on.
"""

from collections.abc import Iterator

import numpy as np

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction
from accel.machine.status import Run
from accel.machine.words import decode_words
from accel.proof.access import Touch, accumulates, touches

_NEVER = -1


def live_entries(machine: Machine, program: AccelProgram,
                 run: Run) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each buffer, cycles ascending from 0 and the number of entries live from each until the
    next, or until the end of the run (both int64).

    The run must have ended well, with cycles: every instruction has started and retired.
    """
    moments = np.unique(np.concatenate([[0], run.start, run.retire]))
    starts, retires = (np.searchsorted(moments, when) for when in (run.start, run.retire))
    lives = {name: _Lives(buffer.depth, moments.size)
             for name, buffer in machine.config.buffers.items()}
    stream = decode_words(machine, program.words)
    for instruction, start, retire in zip(stream, starts.tolist(), retires.tolist(), strict=True):
        for buffer, entries, overwrites in _on_chip(machine, instruction):
            if overwrites:
                lives[buffer].write(entries, start)
            else:
                lives[buffer].read(entries, retire)
    return {name: _changes(moments, life.counts()) for name, life in lives.items()}


def _on_chip(machine: Machine, instruction: Instruction) -> Iterator[tuple[str, np.ndarray, bool]]:
    """For each operand in a buffer: the buffer, its entries, and whether it overwrites them. The
    destination comes last.
    """
    for touch in touches(machine, instruction):
        if touch.memory in machine.config.buffers:
            size = machine.config.buffers[touch.memory].entry_bytes
            entries = (_entries_of_bytes(touch, size) if instruction.unit in machine.structure.moved
                       else _entries(touch))
            yield touch.memory, entries, touch.write and not accumulates(machine, instruction)


def _entries(touch: Touch) -> np.ndarray:
    starts, length = touch.walk.runs(1, 1)
    return (starts[:, None] + np.arange(length)).reshape(-1)


def _entries_of_bytes(touch: Touch, size: int) -> np.ndarray:
    """The entries of `size` bytes that a touch covers, whole or in part, each once."""
    starts, length = touch.walk.runs(touch.scale, touch.width)
    first, last = starts // size, (starts + length - 1) // size
    entries = first[:, None] + np.arange(int((last - first).max(initial=0)) + 1)
    return np.unique(entries[entries <= last[:, None]])


class _Lives:
    """The live ranges of the entries of one buffer; time counts moments."""

    def __init__(self, depth: int, moments: int):
        self._born = np.full(depth, _NEVER, np.int64)
        self._read = np.full(depth, _NEVER, np.int64)
        self._steps = np.zeros(moments, np.int64)

    def read(self, entries: np.ndarray, moment: int) -> None:
        written = entries[self._born[entries] != _NEVER]
        self._read[written] = np.maximum(self._read[written], moment)

    def write(self, entries: np.ndarray, moment: int) -> None:
        """Starts new lives. An entry that was read ends its life; one that was not is still being
        written."""
        self._end(entries[self._read[entries] != _NEVER])
        fresh = entries[self._born[entries] == _NEVER]
        self._born[fresh] = np.maximum(moment, self._read[fresh])
        self._read[fresh] = _NEVER

    def _end(self, entries: np.ndarray) -> None:
        np.add.at(self._steps, self._born[entries], 1)
        np.subtract.at(self._steps, self._read[entries], 1)
        self._born[entries] = _NEVER

    def counts(self) -> np.ndarray:
        """The number of live entries from each moment on; this ends all lives."""
        self._end(np.flatnonzero(self._read > self._born))
        return np.cumsum(self._steps)


def _changes(moments: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    changed = np.flatnonzero(np.diff(counts, prepend=-1))
    return moments[changed], counts[changed]
