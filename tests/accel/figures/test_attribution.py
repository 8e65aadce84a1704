"""A run cut into layers: nothing is lost, nothing counts twice."""

import tracemalloc

import numpy as np
import pytest

from accel.figures import attribution
from accel.figures.attribution import activities, activity_table, layer_ends
from accel.machine.config import UNITS
from accel.machine.program import AccelProgram
from accel.machine.status import ACTIVITIES, Run, Status, Timeline


def timeline(rng: np.random.Generator, cycles: int) -> Timeline:
    """Random activities; the last begins before the end."""
    spans = {}
    for unit in UNITS:
        starts = np.unique([0, *rng.integers(0, cycles, 20)])
        kinds = rng.integers(0, len(ACTIVITIES), starts.size)
        spans[unit] = np.stack([starts, kinds, np.full(starts.size, -1)], 1)
    return Timeline(spans)


def slow(spans: np.ndarray, begin: int, end: int) -> dict[str, int]:
    """Cycle by cycle."""
    found = dict.fromkeys(ACTIVITIES, 0)
    for cycle in range(begin, end):
        row = spans[spans[:, 0] <= cycle][-1]
        found[ACTIVITIES[row[1]]] += 1
    return found


@pytest.mark.parametrize("part", [1, 3, attribution.PART])
@pytest.mark.parametrize("seed", range(10))
def test_every_cycle_belongs_to_one_interval(monkeypatch, seed, part) -> None:
    monkeypatch.setattr(attribution, "PART", part)
    rng = np.random.default_rng(seed)
    made = timeline(rng, 90)
    ends = [*sorted(rng.integers(0, 90, 4).tolist()), 90]
    found = activities(made, ends)
    for begin, end, table in zip([0, *ends], ends, found, strict=False):
        assert table == {unit: slow(made.spans[unit], begin, end) for unit in UNITS}
        assert all(sum(what.values()) == end - begin for what in table.values())


def test_a_long_timeline_takes_little_memory() -> None:
    rows = 300_000
    spans = np.stack([np.arange(rows) * 3, np.arange(rows) % 2, np.zeros(rows, int)], 1)
    tracemalloc.start()
    table = activity_table(spans, [100, rows * 3])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.sum(1).tolist() == [100, rows * 3 - 100] and table[:, 2:].sum() == 0
    assert peak < spans.nbytes / 2


def test_layers_that_overlap_and_one_that_is_empty() -> None:
    program = AccelProgram("", np.zeros((5, 64), np.uint8),
                           layers=(("a", 2), ("b", 3), ("c", 3), ("d", 5)))
    run = Run(Status.DONE, cycles=60, retire=np.array([10, 40, 30, 50, 45]))
    assert layer_ends(program, run) == [40, 40, 40, 50]


def test_what_did_not_retire_ends_nothing() -> None:
    program = AccelProgram("", np.zeros((2, 64), np.uint8), layers=(("a", 1), ("b", 2)))
    run = Run(Status.DEADLOCK, cycles=60, retire=np.array([10, -1]))
    assert layer_ends(program, run) == [10, 10]
