"""Bytes that a program moves between DRAM and the buffers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.words import decode_words

__all__ = ["dram_bytes", "unit_bytes"]


def dram_bytes(machine: Machine, program: AccelProgram) -> np.ndarray:
    """The bytes that each instruction moves (int64). Padding and fetching do not count; what a run
    of a load shares with the one before counts once.
    """
    shared = machine.config.kept_beats * machine.config.bus_bytes
    return np.array([_moved(instruction.fields, shared if instruction.unit == "load" else 0)
                     if instruction.unit in ("load", "store") else 0
                     for instruction in decode_words(machine, program.words)], np.int64)


def unit_bytes(machine: Machine, program: AccelProgram) -> dict[str, np.ndarray]:
    """The bytes by client: ``fetch`` (the words), ``load`` and ``store``."""
    moved = dram_bytes(machine, program)
    unit = np.array([machine.units[opcode] for opcode in program.words[:, 0].tolist()])
    return {"fetch": np.full(program.count, program.words.shape[1], np.int64),
            **{name: np.where(unit == name, moved, 0) for name in ("load", "store")}}


def _moved(fields: Mapping[str, Any], shared: int) -> int:
    """Runs of more than `shared` bytes share none."""
    run, moved, inner = fields["run"], fields["run"], 0
    for loop in reversed(fields["loops"]):
        extent = max(loop["extent"] - loop["before"] - loop["after"], 0)
        step = loop["dram"] - inner             # from the last run within the loop to the next one
        again = run - step if moved and 0 <= step < run <= shared else 0
        moved = extent * moved - max(extent - 1, 0) * again
        inner += max(extent - 1, 0) * loop["dram"]
    return moved
