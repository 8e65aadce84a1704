"""Bytes that a program moves between DRAM and the buffers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.words import decode_words

__all__ = ["dram_bytes", "unit_bytes"]


def dram_bytes(machine: Machine, program: AccelProgram) -> np.ndarray:
    """The bytes that each instruction moves (int64). Padding and fetching do not count."""
    return np.array([_moved(instruction.fields) if instruction.unit in ("load", "store") else 0
                     for instruction in decode_words(machine, program.words)], np.int64)


def unit_bytes(machine: Machine, program: AccelProgram) -> dict[str, np.ndarray]:
    """The bytes by client: ``fetch`` (the words), ``load`` and ``store``."""
    moved = dram_bytes(machine, program)
    unit = np.array([machine.units[opcode] for opcode in program.words[:, 0].tolist()])
    return {"fetch": np.full(program.count, program.words.shape[1], np.int64),
            **{name: np.where(unit == name, moved, 0) for name in ("load", "store")}}


def _moved(fields: Mapping[str, Any]) -> int:
    count: int = fields["run"]
    for loop in fields["loops"]:
        count *= max(loop["extent"] - loop["before"] - loop["after"], 0)
    return count
