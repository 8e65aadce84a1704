"""Two layers at a time: tiles of a layer without products between those of the convolution before.

Each layer has buffers of its own (`halves`), so any order of their tiles that keeps both layers'
own orders has the same meaning, as long as a tile comes after those whose results it loads.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from accel.machine.config import AccelConfig
from accel.machine.machine import Machine
from accel.machine.program import Instruction
from accel.mapping.lowering import Room
from accel.proof.access import Touch, touches

__all__ = ["halves", "interleave"]

LAG = 2
"""Tiles of the first layer after the last one that a tile loads results of: units work in order, so
what comes behind that tile would wait until these are stored."""


def halves(config: AccelConfig, buffers: Sequence[str]) -> tuple[Room, Room]:
    """Of each of `buffers` one half for either of two layers; the other ones whole for both."""
    cut = {name: config.buffers[name].depth // 2 for name in buffers}
    return ({name: (0, half) for name, half in cut.items()},
            {name: (half, 2 * half) for name, half in cut.items()})


def interleave(machine: Machine, first: Sequence[Instruction],
               second: Sequence[Instruction]) -> list[Instruction]:
    """The tiles of `second` among those of `first`, each as early as its inputs are written."""
    ahead, stored, result = list(_tiles(first)), _Stores(), []
    for number, tile in enumerate(ahead):
        stored.record(machine, tile, number)
    done = 0
    for tile in _tiles(second):
        needed = min(len(ahead), max(done, stored.latest(machine, tile) + 1 + LAG))
        for earlier in ahead[done:needed]:
            result += earlier
        done = needed
        result += tile
    for later in ahead[done:]:
        result += later
    return result


def _tiles(stream: Sequence[Instruction]) -> Iterator[Sequence[Instruction]]:
    """A tile ends with its stores."""
    begin = 0
    for end in range(1, len(stream) + 1):
        last = end == len(stream) or stream[end].unit != "store"
        if stream[end - 1].unit == "store" and last:
            yield stream[begin:end]
            begin = end
    if begin < len(stream):
        yield stream[begin:]


class _Stores:
    """Which tile stored each byte of memory last."""

    def __init__(self):
        self.tables: dict[str, np.ndarray] = {}

    def record(self, machine: Machine, tile: Sequence[Instruction], number: int) -> None:
        for touch in _memory(machine, tile, "store"):
            table = self._table(touch)
            for access in touch.accesses():
                table[access.index] = number

    def latest(self, machine: Machine, tile: Sequence[Instruction]) -> int:
        """The last tile that stored what `tile` loads; -1 if none did."""
        return max((int(self._table(touch)[access.index].max(initial=-1))
                    for touch in _memory(machine, tile, "load")
                    for access in touch.accesses()), default=-1)

    def _table(self, touch: Touch) -> np.ndarray:
        """That of the memory touched, as far as the touch reaches or farther."""
        table = self.tables.get(touch.memory, np.zeros(0, np.int32))
        missing = touch.walk.bounds[1] + touch.width - table.size
        if missing > 0:
            table = np.pad(table, (0, missing + table.size), constant_values=-1)
            self.tables[touch.memory] = table
        return table


def _memory(machine: Machine, tile: Sequence[Instruction], unit: str) -> Iterator[Touch]:
    """What the tile's loads, or stores, touch in memory."""
    operand = "src" if unit == "load" else "dst"
    for one in tile:
        if one.unit == unit:
            yield from (touch for touch in touches(machine, one)
                        if touch.operand == operand and touch.walk.count)
