"""Attribution of cycles: a run cut into the intervals of its layers, and each unit's activity in
them.

A layer's interval reaches from the retirement of the last instruction of the layers before it to
that of its own last instruction. So the intervals, with the rest of the run after the last of
them, are the whole run; and in each, what a unit did adds up to its length.
"""

from collections.abc import Sequence

import numpy as np

from accel.machine.program import AccelProgram
from accel.machine.status import ACTIVITIES, Run, Timeline

PART = 1 << 14
"""Rows of a timeline that are looked at together."""


def layer_ends(program: AccelProgram, run: Run) -> list[int]:
    """The cycle in which each layer ends: its last instruction and those of all earlier layers have
    retired.
    """
    ends, begin, latest = [], 0, 0
    for _, end in program.layers:
        latest = max(latest, int(run.retire[begin:end].max(initial=0)))
        ends.append(latest)
        begin = end
    return ends


def activities(timeline: Timeline, ends: Sequence[int]) -> list[dict[str, dict[str, int]]]:
    """For each interval, unit to activity to cycles. The first interval begins at 0, and `ends` are
    their ends. Every activity is present, with 0 if nothing else.
    """
    names = timeline.activities
    tables = {unit: activity_table(spans, ends, len(names))
              for unit, spans in timeline.spans.items()}
    return [{unit: dict(zip(names, table[number].tolist(), strict=True))
             for unit, table in tables.items()} for number in range(len(ends))]


def activity_table(spans: np.ndarray, ends: Sequence[int] | np.ndarray,
                   count: int = len(ACTIVITIES)) -> np.ndarray:
    """One unit's cycles by interval and activity, of which there are `count` (int64), from its rows
    in a timeline. The last of `ends` is that of the run.
    """
    stops = np.asarray(ends, np.int64)
    table = np.zeros((len(stops), count), np.int64)
    for first in range(0, len(spans), PART):
        rows = spans[first:first + PART, :2]
        behind = spans[first + PART:first + PART + 1, 0]
        end = int(behind[0]) if behind.size else int(stops[-1])
        table += _part_of_table(rows, end, stops, count)
    return table


def _part_of_table(rows: np.ndarray, end: int, stops: np.ndarray, count: int) -> np.ndarray:
    """The cells of the table that rows which follow each other add, the last until `end`."""
    starts, kinds = np.ascontiguousarray(rows.T)
    first, last = np.searchsorted(stops, [starts[0], end], "right")
    cuts = stops[first:last]
    places = np.searchsorted(starts, cuts, "right")
    begins = np.insert(starts, places, cuts)
    kinds = np.insert(kinds, places, kinds[places - 1])
    cells = np.searchsorted(stops, begins, "right") * count + kinds
    # Exact: a sum of doubles below 2^53 is. What begins at the end of the run has no length.
    table = np.bincount(cells, np.diff(begins, append=end), stops.size * count)
    return table[:stops.size * count].astype(np.int64).reshape(stops.size, count)
