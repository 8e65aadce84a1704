"""Two layers at a time: tiles of a layer without products run between those of the convolution
before it.

Each layer has buffers of its own (`halves`), so any order of their tiles that keeps the order
within each layer has the same meaning, as long as a tile comes after those whose results it loads.
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
"""How many tiles of the first layer run between the last whose results a tile loads and that tile.
Units work in order, so what follows the tile would otherwise wait until the results are stored."""


def halves(config: AccelConfig, buffers: Sequence[str]) -> tuple[Room, Room]:
    """Give each of two layers one half of every one of `buffers`, and all of the other buffers."""
    cut = {name: config.buffers[name].depth // 2 for name in buffers}
    return ({name: (0, half) for name, half in cut.items()},
            {name: (half, 2 * half) for name, half in cut.items()})


def interleave(machine: Machine, first: Sequence[Instruction],
               second: Sequence[Instruction]) -> list[Instruction]:
    """Merge the tiles of `second` into those of `first`, each as soon as its inputs are written."""
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
    """Cut a stream into tiles; a tile ends with its stores."""
    begin = 0
    for end in range(1, len(stream) + 1):
        last = end == len(stream) or stream[end].unit != "store"
        if stream[end - 1].unit == "store" and last:
            yield stream[begin:end]
            begin = end
    if begin < len(stream):
        yield stream[begin:]


class _Stores:
    """Records which tile stored each byte of memory last."""

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
        """The table of the touched memory, grown to cover what the touch reaches."""
        table = self.tables.get(touch.memory, np.zeros(0, np.int32))
        missing = touch.walk.bounds[1] + touch.width - table.size
        if missing > 0:
            table = np.pad(table, (0, missing + table.size), constant_values=-1)
            self.tables[touch.memory] = table
        return table


def _memory(machine: Machine, tile: Sequence[Instruction], unit: str) -> Iterator[Touch]:
    """The touches of memory by the tile's loads, or by its stores."""
    operand = "src" if unit == "load" else "dst"
    for instruction in tile:
        if instruction.unit == unit:
            yield from (touch for touch in touches(machine, instruction)
                        if touch.operand == operand and touch.walk.count)
