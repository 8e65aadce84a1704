"""Bytes that a program moves between DRAM and the buffers."""

import numpy as np
from amaranth.lib import data

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.structure import FETCH
from accel.machine.words import column

PART = 1 << 14
"""Words that are looked at together: a few columns of so many numbers stay in the cache."""

LOOPS = isa.DMA["loops"].shape.length


def dram_bytes(machine: Machine, program: AccelProgram) -> np.ndarray:
    """The bytes that each instruction moves (int64). Padding and fetching do not count; what a run
    of a load shares with the one before counts once.
    """
    kept = machine.config.kept_beats * machine.config.bus_bytes
    shared = {unit.name: kept * bool(unit.writes) for unit in machine.structure.units
              if unit.kind.moves}
    movers = {opcode: (machine.layouts[name], shared[machine.units[opcode]])
              for opcode, name in machine.names.items() if machine.units[opcode] in shared}
    moved = np.zeros(program.count, np.int64)
    for begin in range(0, program.count, PART):
        words = program.words[begin:begin + PART]
        for opcode, (layout, most) in movers.items():
            rows = np.flatnonzero(words[:, 0] == opcode)
            moved[begin + rows] = _moved(layout, words[rows], most)
    return moved


def unit_bytes(machine: Machine, program: AccelProgram) -> dict[str, np.ndarray]:
    """The bytes by client: fetch (the words), and the units that move bytes."""
    moved, opcodes = dram_bytes(machine, program), program.words[:, 0]
    of = {unit: [opcode for opcode, other in machine.units.items() if other == unit]
          for unit in machine.structure.moved}
    return {FETCH: np.full(program.count, program.words.shape[1], np.int64),
            **{unit: np.where(np.isin(opcodes, some), moved, 0) for unit, some in of.items()}}


def _moved(layout: data.Layout, words: np.ndarray, shared: int) -> np.ndarray:
    """The bytes that each word of a layout moves. Runs of more than `shared` bytes share none."""
    moved = run = column(layout, words, "run")
    inner = np.zeros(len(words), np.int64)
    for number in reversed(range(LOOPS)):
        extent, before, after, dram = (column(layout, words, f"loops.{number}.{field}")
                                       for field in ("extent", "before", "after", "dram"))
        extent = np.maximum(extent - before - after, 0)
        others = np.maximum(extent - 1, 0)
        step = dram - inner                     # from the last run within the loop to the next one
        overlap = (moved > 0) & (0 <= step) & (step < run) & (run <= shared)
        moved = extent * moved - others * np.where(overlap, run - step, 0)
        inner += others * dram
    return moved
