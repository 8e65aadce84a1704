"""The bytes of memory that words of load and store move, of many words at once."""

from dataclasses import dataclass

import numpy as np
from amaranth.lib import data

from accel.machine import isa
from accel.machine.words import column

LOOPS = isa.DMA["loops"].shape.length


@dataclass(frozen=True)
class Runs:
    """The runs of words of one layout: their extents and strides, padding left out.

    base, run : of each word (int64): the code of its base register, and bytes of a run.
    first : the offset from that register of the run of the first iteration that is no padding.
    extents, strides : by word and loop (int64), the outermost loop first.
    """

    base: np.ndarray
    run: np.ndarray
    first: np.ndarray
    extents: np.ndarray
    strides: np.ndarray

    @classmethod
    def of(cls, layout: data.Layout, words: np.ndarray) -> "Runs":
        """The runs of words (uint8, 64 bytes a row)."""
        fields = {name: np.stack([column(layout, words, f"loops.{number}.{name}")
                                  for number in range(LOOPS)], axis=1)
                  for name in ("extent", "before", "after", "dram")}
        extents = np.maximum(fields["extent"] - fields["before"] - fields["after"], 0)
        first = column(layout, words, "dram") + (fields["before"] * fields["dram"]).sum(axis=1)
        return cls(column(layout, words, "base"), column(layout, words, "run"), first % (1 << 32),
                   extents, fields["dram"])

    @property
    def reach(self) -> tuple[np.ndarray, np.ndarray]:
        """The offsets of the first byte, and of the one behind the last; equal where all is
        padding."""
        steps = np.maximum(self.extents - 1, 0) * self.strides
        low = self.first + np.minimum(steps, 0).sum(axis=1)
        high = self.first + np.maximum(steps, 0).sum(axis=1) + self.run
        return low, np.where((self.extents == 0).any(axis=1), low, high)

    def starts(self, word: int) -> np.ndarray:
        """The offsets of all runs of a word, in their order."""
        offsets = np.zeros(1, np.int64)
        for extent, stride in zip(self.extents[word], self.strides[word], strict=True):
            offsets = (offsets[:, None] + stride * np.arange(extent)).reshape(-1)
        return self.first[word] + offsets

    def moved(self, most: int) -> np.ndarray:
        """The bytes that each word moves; what a run shares with the one before counts once, where
        runs have at most so many bytes."""
        moved, inner = self.run, np.zeros(len(self.run), np.int64)
        for extent, stride in zip(self.extents.T[::-1], self.strides.T[::-1], strict=True):
            others = np.maximum(extent - 1, 0)
            step = stride - inner               # from the last run within the loop to the next one
            overlap = (moved > 0) & (0 <= step) & (step < self.run) & (self.run <= most)
            moved = extent * moved - others * np.where(overlap, self.run - step, 0)
            inner = inner + others * stride
        return moved

    def moved_within(self, word: int, most: int, low: int, high: int) -> int:
        """The bytes of these of a word that lie from `low` to before `high`."""
        starts, run = self.starts(word), int(self.run[word])
        step = np.diff(starts)
        again = (0 <= step) & (step < run) & (run <= most)
        fresh = starts.copy()
        fresh[1:] = np.where(again, starts[:-1] + run, starts[1:])
        return int((np.clip(starts + run, low, high) - np.clip(fresh, low, high)).sum())
