"""The cost of a tiling: approximate cycles of a layer, from the work of each unit in a tile."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

Number = Any
"""An integer or a float; an array of them where tiles are many at once."""

FAR = 192
"""Cycles from a request to its data in the memory that tiles are chosen for. Nearer memories hide
what it takes, and much farther ones cost little."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Approximate cycles of a layer, of which the parts of a tile overlap.

    A tile has `steps`: in each the array works `products` cycles, and the bus moves for `loads`
    cycles. Once a tile the bus moves for `burst` cycles more, and vector works for `lanes`. What
    is stationary is loaded `turns` times, in `kept` cycles. Tiles at the edges may be smaller:
    `filled` is the part of all tiles that there is. Nothing overlaps `ends`. A second layer comes
    in `batches` of tiles, for which the bus moves for `batch` cycles and the array waits `pause`.
    Where units share the tiles, each takes at least `held`: a copy of its buffers is taken from the
    load to the last result, and there is one for each virtual thread.
    """

    tiles: Number
    steps: Number
    products: Number
    loads: Number
    burst: Number
    lanes: Number
    kept: Number
    turns: Number
    filled: Number
    ends: Number
    batches: Number = 0
    batch: Number = 0
    pause: Number = 0
    held: Number = 0

    @property
    def cycles(self) -> Number:
        tile, busy = self._tile(self.burst), self._tile(self.burst + self.batch) + self.pause
        often = self.batches / np.maximum(self.tiles, 1)
        tile = np.maximum(np.maximum(tile + often * (busy - tile), self.lanes), self.held)
        left = np.where(self.steps == 1, tile, self.products) - self.loads - self.burst
        turn = np.maximum(0, self.kept - np.maximum(0, left))
        # A smaller tile takes less time only as far as the next one is loaded in it.
        part = np.minimum(1, (self.loads + self.burst + FAR) / tile)
        tiles = self.tiles * (self.filled + (1 - self.filled) * part)
        return np.ceil(tiles * tile + self.turns * turn + self.ends).astype(np.int64)

    def _tile(self, burst: Number) -> Number:
        """The cycles of a tile. A step is loaded while the one before it is computed, since its
        buffers are free then, and the data comes `FAR` cycles later. An array that waits in every
        step waits half as long, as each wait is time in which the next step is loaded.
        """
        late = np.maximum(0, self.loads + FAR - self.products)
        latest = np.maximum(0, self.loads + burst + FAR - self.products)
        waits = np.where(self.steps == 1, latest / 2, np.maximum(latest, self.steps * late / 2))
        return np.maximum(self.steps * self.products + waits, self.steps * self.loads + burst)

    @property
    def tile_work(self) -> Number:
        """The cycles of the array in a tile; of a layer without products those of vector."""
        return self.steps * self.products

    @property
    def work(self) -> Number:
        """The cycles of the array in all tiles."""
        return self.tiles * self.tile_work

    @property
    def traffic(self) -> Number:
        """The cycles of the bus."""
        return self.tiles * (self.steps * self.loads + self.burst) + self.turns * self.kept

    def of(self, places: np.ndarray) -> "Cost":
        """The costs at some places of arrays."""
        columns: list[Any] = [np.broadcast_to(getattr(self, part.name), self.tiles.shape)[places]
                              for part in fields(self)]
        return Cost(*columns)

    @property
    def single(self) -> "Cost":
        """The cost of one tiling, in floats instead of arrays without axes."""
        return Cost(*(float(getattr(self, part.name)) for part in fields(self)))

    def beside(self, second: "Cost", sums: bool, blocks: Number, threads: int) -> "Cost":
        """The cost with a second layer, whose tiles have `blocks` times as many channels. A batch
        of them follows those tiles of this layer that it reads.

        So many of a batch as there are `threads` have operands before they are computed. The
        others' loads wait for vector, which waits until gemm leaves their bank of acc, and gemm
        waits for the loads behind. Where the second layer `sums` in both banks, and gemm is in one
        of them until a tile ends, the next tile's results wait, too, and gemm for their bank.
        """
        batches = self.tiles / np.ceil(blocks)
        size = np.ceil(second.tiles / batches)
        rounds = np.ceil(size / threads) - 1
        blocked = rounds * (FAR + threads * second.tile_work) + self.loads + FAR
        stands = sums & (size > 1) & (self.steps == 1)
        pause = np.where(rounds > 0, blocked, 0) + np.where(
            stands, FAR + self.lanes + second.tile_work, 0)
        return replace(self, lanes=self.lanes + second.work / self.tiles,
                       ends=self.ends + second.ends, batches=batches,
                       batch=second.traffic / batches, pause=pause)
