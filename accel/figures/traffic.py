"""Bytes that a program moves: between DRAM and the buffers, or the shared scratchpad and these."""

import numpy as np

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.reach import Runs
from accel.machine.structure import FETCH

PART = 1 << 14
"""Words that are looked at together: a few columns of so many numbers stay in the cache."""


def dram_bytes(machine: Machine, program: AccelProgram) -> np.ndarray:
    """The bytes that each instruction moves from or to DRAM (int64). Padding and fetching do not
    count; what a run of a load shares with the one before counts once. Nor does what lies in the
    shared scratchpad.
    """
    return _bytes(machine, program)[0]


def shared_bytes(machine: Machine, program: AccelProgram) -> np.ndarray:
    """The bytes that each instruction moves from or to the shared scratchpad, counted likewise."""
    return _bytes(machine, program)[1]


def unit_bytes(machine: Machine, program: AccelProgram) -> dict[str, np.ndarray]:
    """The bytes of DRAM by client: fetch (the words), and the units that move bytes."""
    moved, opcodes = dram_bytes(machine, program), program.words[:, 0]
    of = {unit: [opcode for opcode, other in machine.units.items() if other == unit]
          for unit in machine.structure.moved}
    return {FETCH: np.full(program.count, program.words.shape[1], np.int64),
            **{unit: np.where(np.isin(opcodes, some), moved, 0) for unit, some in of.items()}}


def _bytes(machine: Machine, program: AccelProgram) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of DRAM of each instruction, and those of the shared scratchpad."""
    kept = machine.config.kept_beats * machine.config.bus_bytes
    most = {unit.name: kept * bool(unit.writes) for unit in machine.structure.units
            if unit.kind.moves}
    movers = {opcode: (machine.layouts[name], most[machine.units[opcode]])
              for opcode, name in machine.names.items() if machine.units[opcode] in most}
    moved, shared = np.zeros((2, program.count), np.int64)
    for begin in range(0, program.count, PART):
        words = program.words[begin:begin + PART]
        for opcode, (layout, limit) in movers.items():
            rows = np.flatnonzero(words[:, 0] == opcode)
            runs = Runs.of(layout, words[rows])
            moved[begin + rows] = runs.moved(limit)
            shared[begin + rows] = _shared(machine, program, runs, moved[begin + rows], limit)
    return moved - shared, shared


def _shared(machine: Machine, program: AccelProgram, runs: Runs, moved: np.ndarray, most: int
            ) -> np.ndarray:
    """The share of the `moved` bytes of words that lies in the shared scratchpad."""
    window = program.shared_bytes(machine)
    if window.start == window.stop:
        return np.zeros(len(moved), np.int64)
    bases = np.array([program.bases[name] for name in isa.BASES], np.int64)[runs.base]
    low, high = runs.reach
    inside = (window.start <= bases + low) & (bases + high <= window.stop)
    outside = (bases + high <= window.start) | (window.stop <= bases + low)
    shared = np.where(inside, moved, 0)
    for word in np.flatnonzero(~(inside | outside)).tolist():
        shared[word] = runs.moved_within(word, most, window.start - bases[word],
                                         window.stop - bases[word])
    return shared
