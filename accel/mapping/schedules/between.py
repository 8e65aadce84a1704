"""The tensor between two layers that are computed at the same time, in a shared scratchpad."""

from accel.machine.config import AccelConfig
from accel.mapping.schedules.tiles import Shape, Tiles


def kept_traffic(config: AccelConfig, first: Shape, second: Shape, tiles: Tiles) -> float:
    """The cycles of the bus for what lies between two layers, as far as the scratchpad could keep
    it, where the first has these `tiles`. It is written once and read once.

    A row of tiles is written while the one before it is read, so about two of them are kept, and
    the rows that windows share. Where blocks of channels come one after the other, all rows are.
    """
    if not config.shared_bytes:
        return 0
    row = (first.columns * first.channels * first.phases * first.times
           * config.buffers[second.buffers[0]].entry_bytes)
    in_order = tiles.by_rows or tiles.stationary == "input" or tiles.channels == first.channels
    shared = max(second.kernel[0] - second.strides[0], 0)
    rows = min(first.rows, 2 * tiles.rows + shared) if in_order else first.rows
    kept = row * rows // first.times
    return 2 * row * first.rows / config.bus_bytes * min(1, config.shared_bytes / kept)
