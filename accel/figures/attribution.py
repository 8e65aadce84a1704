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

__all__ = ["activities", "activity_table", "layer_ends"]


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
    tables = {unit: activity_table(spans, ends) for unit, spans in timeline.spans.items()}
    return [{unit: dict(zip(ACTIVITIES, table[number].tolist(), strict=True))
             for unit, table in tables.items()} for number in range(len(ends))]


def activity_table(spans: np.ndarray, ends: Sequence[int] | np.ndarray) -> np.ndarray:
    """One unit's cycles by interval and activity (int64), from its rows in a timeline."""
    stops = np.asarray(ends, np.int64)
    edges = np.unique(np.concatenate([spans[:, 0], [0], stops]))
    begins = edges[:-1]
    activity = spans[np.searchsorted(spans[:, 0], begins, "right") - 1, 1]
    interval = np.searchsorted(stops, begins, "right")
    count = len(ACTIVITIES)
    places = interval * count + activity
    # Exact: a sum of doubles below 2^53 is.
    table = np.bincount(places, np.diff(edges), len(stops) * count)
    return table.astype(np.int64).reshape(len(stops), count)
