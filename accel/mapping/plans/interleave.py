"""Two layers at a time: tiles of a layer without products run between those of the convolution
before it.

Each layer has buffers of its own (`halves`), so any order of their tiles that keeps the order
within each layer has the same meaning, as long as a tile comes after those whose results it loads.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from accel.machine.config import AccelConfig
from accel.machine.machine import Machine
from accel.machine.program import Stream
from accel.mapping.lowering import Room
from accel.proof.batches import Batches
from compiler.latency_hiding import last_writers, measure

LAG, LONG = 2, 4096
"""How many tiles of the first layer run between the last whose results a tile loads and that tile:
units work in order, so what follows the tile would otherwise wait until the results are stored. One
is enough where the array takes so many cycles for it.
"""


def halves(config: AccelConfig, buffers: Sequence[str]) -> tuple[Room, Room]:
    """Give each of two layers one half of every one of `buffers`, an even number of entries, and
    all of the other buffers."""
    cut = {name: config.buffers[name].depth // 4 * 2 for name in buffers}
    return ({name: (0, half) for name, half in cut.items()},
            {name: (half, 2 * half) for name, half in cut.items()})


def interleave(machine: Machine, first: Stream, second: Stream, cycles: int = 0) -> Stream:
    """Merge the tiles of `second` into those of `first`, each as soon as its inputs are written.
    The array works so many `cycles` on `first`.

    A tile of `second` comes when the array has begun with the next tile of `first`. If the loads
    of `second` wait for vector, and fetch for their queue, the array has something to do.
    """
    ahead, behind = (Batches(machine, part.words, part.origins, {}) for part in (first, second))
    roles, number = machine.structure.roles, machine.structure.names.index
    load, gemm, store = map(number, (roles.load, roles.gemm, roles.store))
    ends, after = _begun(ahead.units, _ends(ahead.units, store), gemm), _ends(behind.units, store)
    tile = np.searchsorted(ends, np.arange(len(first)), side="right")
    measures = measure(chain(ahead, behind), len(ahead.memories))
    latest = last_writers(ahead, np.where(ahead.units == store, tile, -1), behind, measures)
    latest[behind.units != load] = -1
    lag = 1 if cycles >= LONG * len(ends) else LAG
    order, done, begin = [], 0, 0
    for end in after:
        needed = min(len(ends), max(done, int(latest[begin:end].max()) + 1 + lag))
        if needed > done:
            order.append(np.arange(ends[done - 1] if done else 0, ends[needed - 1]))
        order.append(len(first) + np.arange(begin, end))
        done, begin = needed, end
    order.append(np.arange(ends[done - 1] if done else 0, len(first)))
    return Stream.joined([first, second]).take(np.concatenate(order))


def _begun(units: np.ndarray, ends: list[int], gemm: int) -> list[int]:
    """Let each tile reach to where the array has begun with the next one."""
    begun = np.append(np.flatnonzero((units[:-1] == gemm) & (units[1:] != gemm)) + 1, len(units))
    return begun[np.searchsorted(begun, ends)].tolist()


def _ends(units: np.ndarray, store: int) -> list[int]:
    """Cut a stream into tiles: one past the last instruction of each. A tile ends with its stores.
    """
    stores = units == store
    ends = (np.flatnonzero(stores[:-1] & ~stores[1:]) + 1).tolist()
    return [*ends, len(units)] if len(units) else []
