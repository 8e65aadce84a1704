"""Series over time, thinned out: exact sums over buckets of equal length.

A picture has a thousand columns, a run has millions of cycles. A bucket keeps a unit's cycles in
each activity, or the peak and the sum of a buffer's live entries. Nothing is left out, so buckets
merge into larger ones, and all of them together are the run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.figures.attribution import activity_table
from accel.figures.occupancy import live_entries
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run

MAX_BUCKETS = 1 << 13
"""Several times the columns of a wide screen."""

Recording = tuple[AccelProgram, Run]


@dataclass(frozen=True)
class Grid:
    """`cycles` in buckets of `width`, a power of two; the last may be shorter."""

    cycles: int
    width: int

    @classmethod
    def of(cls, cycles: int) -> "Grid":
        """The finest grid of at most `MAX_BUCKETS` buckets."""
        least = -(-cycles // MAX_BUCKETS)
        return cls(cycles, 1 << max(least - 1, 0).bit_length())

    @property
    def starts(self) -> np.ndarray:
        return np.arange(0, self.cycles, self.width)

    @property
    def ends(self) -> np.ndarray:
        return np.minimum(self.starts + self.width, self.cycles)


def activity_series(recordings: Sequence[Recording], grid: Grid) -> dict[str, dict[str, Any]]:
    """Unit to activity to its cycles in each bucket, as `run_lengths`; activities without a cycle
    are left out. The runs, which need timelines, follow each other.
    """
    tables: dict[str, np.ndarray] = {}
    names, begin = (), 0
    for _, run in recordings:
        assert run.timeline is not None
        ends = np.clip(grid.ends - begin, 0, run.cycles)
        for unit, spans in run.timeline.spans.items():
            names = run.timeline.activities
            tables[unit] = tables.get(unit, 0) + activity_table(spans, ends, len(names))
        begin += run.cycles
    return {unit: {name: run_lengths(column) for name, column in zip(names, table.T)
                   if column.any()} for unit, table in tables.items()}


def occupancy_series(machine: Machine, recordings: Sequence[Recording],
                     grid: Grid) -> dict[str, dict[str, Any]]:
    """For each buffer and bucket, as `run_lengths`: ``peak``, the most entries that are live at
    once, and ``sum``, the total of live entries over the cycles.
    """
    changes = {name: ([], []) for name in machine.config.buffers}
    begin = 0
    for program, run in recordings:
        for name, (cycles, counts) in live_entries(machine, program, run).items():
            changes[name][0].append(cycles + begin)
            changes[name][1].append(counts)
        begin += run.cycles
    return {name: _occupancy(np.concatenate(cycles), np.concatenate(counts), grid)
            for name, (cycles, counts) in changes.items()}


def _occupancy(cycles: np.ndarray, counts: np.ndarray, grid: Grid) -> dict[str, Any]:
    edges = np.union1d(cycles, grid.starts)
    levels = counts[np.searchsorted(cycles, edges, "right") - 1]
    lengths = np.diff(edges, append=grid.cycles)
    firsts = np.searchsorted(edges, grid.starts)
    return {"peak": run_lengths(np.maximum.reduceat(levels, firsts)),
            "sum": run_lengths(np.add.reduceat(levels * lengths, firsts))}


def run_lengths(values: np.ndarray) -> list[int]:
    """Encodes runs: value and count, in turns: ``[5, 5, 0]`` as ``[5, 2, 0, 1]``."""
    firsts = np.flatnonzero(np.diff(values, prepend=values[:1] + 1))
    lengths = np.diff(firsts, append=values.size)
    return np.stack([values[firsts], lengths], 1).reshape(-1).tolist()
