"""The order of a layer's first loads: what no other instruction has to make comes first.

Units work in stream order. A layer's input waits for the stores of the layer before it, and so does
every load behind; weights, parameters and tables are there from the start.
"""

import numpy as np

from accel.machine import isa
from accel.machine.config import UNITS
from accel.machine.machine import Machine
from accel.machine.program import Stream
from accel.proof.access import CONSTANT
from accel.proof.batches import Batches

__all__ = ["constants_first"]

LOAD = UNITS.index("load")


def constants_first(machine: Machine, stream: Stream) -> Stream:
    """The stream with the loads of constants before the other ones of those at its start. These
    write to other places than the loads that they pass, and nothing has read them yet.
    """
    units = Batches(machine, stream.words, stream.provenance, {}).units
    others = np.flatnonzero(units != LOAD)
    first = int(others[0]) if len(others) else len(stream)
    constant = np.isin(_bases(stream.words[:first]), [isa.BASES.index(base) for base in CONSTANT])
    order = np.arange(len(stream))
    order[:first] = np.concatenate((order[:first][constant], order[:first][~constant]))
    return stream.take(order)


def _bases(words: np.ndarray) -> np.ndarray:
    """The base register of each load."""
    field = dict(isa.DMA)["base"]
    return words[:, field.offset // 8] >> field.offset % 8 & (len(isa.BASES) - 1)
