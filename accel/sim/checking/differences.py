"""The differences between two runs with time: the first event in another cycle, then the totals."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from accel.machine.status import Run

EVENTS = {"start": "starts", "retire": "retires"}


@dataclass(frozen=True)
class TimingDifference:
    """`detail` says what differs, the first run's side first; `index` is the instruction (−1: it
    is not about one)."""

    detail: str
    index: int = -1


def differ_in_time(a: Run, b: Run) -> TimingDifference | None:
    """The first difference between two runs of one program that both have time; None: they agree.

    Compared are status, unit and instruction, the start and the retirement of every instruction
    (the earliest difference is reported), cycles, what waits, and all counters.
    """
    return next(_differences(a, b), None)


def _differences(a: Run, b: Run) -> Iterator[TimingDifference]:
    yield from _events(a, b)
    if (a.status, a.unit, a.index, a.waiting) != (b.status, b.unit, b.index, b.waiting):
        yield TimingDifference(f"{a.describe()}; {b.describe()}")
    if a.cycles != b.cycles:
        yield TimingDifference(f"{a.cycles} cycles; {b.cycles}")
    for unit, causes in a.counters.activity.items():
        yield from _counters(f"cycles of {unit} for", causes, b.counters.activity[unit])
    yield from _counters("bytes of", a.counters.bytes, b.counters.bytes)


def _events(a: Run, b: Run) -> Iterator[TimingDifference]:
    differences = []
    for name, verb in EVENTS.items():
        mine, theirs = getattr(a, name), getattr(b, name)
        for index in np.flatnonzero(mine != theirs).tolist():
            cycles = int(mine[index]), int(theirs[index])
            differences.append((min(cycle for cycle in cycles if cycle >= 0), index, verb, cycles))
    if differences:
        _, index, verb, cycles = min(differences)
        sides = (f"in cycle {cycle}" if cycle >= 0 else "never" for cycle in cycles)
        yield TimingDifference(f"{verb} {'; '.join(sides)}", index)


def _counters(subject: str, a: Mapping[str, int],
              b: Mapping[str, int]) -> Iterator[TimingDifference]:
    for name, count in a.items():
        if count != b[name]:
            yield TimingDifference(f"{subject} {name} are {count}; {b[name]}")
