"""The proof that a stream with tokens is legal: the same memory under every timing.

A stream is legal when, performed in stream order,

1. no wait meets an empty counter, no signal a full one, and all counters end at zero;
2. every two conflicting accesses of different units are ordered by the order within units and by
   tokens, the k-th signal of a pair matching its k-th wait;
3. nothing is read that neither the stream nor its declared initial contents wrote.

The scan keeps for every address the stream position of its last write and, for each unit, of its
last read. (Only the last write matters: what precedes it is ordered before it, or was reported.)
For every unit it keeps a clock: up to which stream position the events of every other unit are
known to have finished. It shares no reasoning with the insertion of tokens.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .events import Access, Event, Tokens, extents

__all__ = ["Place", "Violation", "check"]

_NEVER, _INITIAL, _FIRST = 0, 1, 2      # marks of an address; event i marks with _FIRST + i
_FULL = 255


@dataclass(frozen=True, slots=True)
class Place:
    """An event of the stream: its position there, unit and label."""

    index: int
    unit: str
    label: str

    def __str__(self) -> str:
        return f"event {self.index} ({' '.join(filter(None, (self.unit, self.label)))})"


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that the stream breaks.

    Parameters
    ----------
    kind : ``empty counter``, ``full counter``, ``tokens left``, ``unordered`` or ``unwritten``.
    earlier, later : the events, in stream order; None where there is but one.
    counter : the ordered pair of units, for the first three kinds.
    memory, start, stop : the least half-open range that holds all offending addresses, for the
        other two.
    """

    kind: str
    later: Place
    earlier: Place | None = None
    counter: tuple[str, str] | None = None
    memory: str = ""
    start: int = 0
    stop: int = 0

    def __str__(self) -> str:
        pair = " to ".join(self.counter or ())
        addresses = f"{self.memory}[{self.start}:{self.stop}]"
        match self.kind:
            case "empty counter":
                return f"{self.later} waits for a token {pair}, of which there is none"
            case "full counter":
                return f"{self.later} signals {pair}, whose counter is full"
            case "tokens left":
                return f"{self.later} signals {pair}, for which nothing waits"
            case "unwritten":
                return f"{self.later} reads {addresses}, which nothing wrote"
            case _:
                return f"{self.earlier} and {self.later} touch {addresses} in no fixed order"


class _Memory:
    """Who touched each address last."""

    def __init__(self, size: int, initial: Sequence[tuple[int, int]], units: int):
        self.written = np.zeros(size, np.int32)
        self.read: list[np.ndarray | None] = [None] * units
        for start, stop in initial:
            self.written[start:stop] = _INITIAL

    def touch(self, access: Access, unit: int, mark: int) -> None:
        if access.write:
            self.written[access.index] = mark
        else:
            table = self.read[unit]
            if table is None:
                table = self.read[unit] = np.zeros(len(self.written), np.int32)
            table[access.index] = mark


class _Scan:
    def __init__(self, events: Sequence[Event], initial: Mapping[str, Sequence[tuple[int, int]]]):
        self.events = events
        self.units = sorted({event.unit for event in events})
        sizes = extents(events)
        self.memories = {name: _Memory(size, initial.get(name, ()), len(self.units))
                         for name, size in sizes.items()}
        unit_of = [self.units.index(event.unit) for event in events]
        # The column of the clock that speaks for a mark: marks of no event get the last one.
        self.column = np.array([len(self.units)] * _FIRST + unit_of, np.intp)
        self.clock = np.zeros((len(self.units), len(self.units) + 1), np.int64)
        self.clock[:, -1] = _INITIAL
        self.counters: dict[tuple[str, str], deque[tuple[int, np.ndarray]]] = {}

    def run(self, tokens: Sequence[Tokens]) -> Iterator[Violation]:
        for position, (event, token) in enumerate(zip(self.events, tokens, strict=True)):
            unit = int(self.column[_FIRST + position])
            yield from self._take(position, event, token)
            self.clock[unit, unit] = _FIRST + position      # its own order holds anyway
            for access in event.accesses:
                yield from self._accesses(position, unit, access)
            for access in (*event.reads(), *event.writes()):
                self.memories[access.memory].touch(access, unit, _FIRST + position)
            yield from self._give(position, event, token)
        for pair, left in self.counters.items():
            if left:
                yield Violation("tokens left", self._place(left[0][0]), counter=pair)

    def _take(self, position: int, event: Event, token: Tokens) -> Iterator[Violation]:
        for source in token.waits:
            counter = self.counters.get((source, event.unit))
            if not counter:
                yield Violation("empty counter", self._place(position),
                                counter=(source, event.unit))
                continue
            mine = self.clock[self.units.index(event.unit)]
            np.maximum(mine, counter.popleft()[1], out=mine)

    def _give(self, position: int, event: Event, token: Tokens) -> Iterator[Violation]:
        for target in token.signals:
            counter = self.counters.setdefault((event.unit, target), deque())
            if len(counter) >= _FULL:
                yield Violation("full counter", self._place(position),
                                counter=(event.unit, target))
            counter.append((position, self.clock[self.units.index(event.unit)].copy()))

    def _accesses(self, position: int, unit: int, access: Access) -> Iterator[Violation]:
        memory = self.memories[access.memory]
        marks = memory.written[access.index]
        if not access.write and marks.size and marks.min() == _NEVER:
            start, stop = _span(access, marks == _NEVER)
            yield Violation("unwritten", self._place(position), memory=access.memory,
                            start=start, stop=stop)
        yield from self._unordered(position, access, marks, self.clock[unit][self.column[marks]])
        if access.write:
            for reader, table in enumerate(memory.read):
                if table is not None and reader != unit:
                    yield from self._unordered(position, access, table[access.index],
                                               self.clock[unit, reader])

    def _unordered(self, position: int, access: Access, marks: np.ndarray,
                   known: np.ndarray | np.int64) -> Iterator[Violation]:
        """`known` is up to where each mark's unit is known to have finished."""
        late = (marks > known) & (marks >= _FIRST)
        if late.any():
            start, stop = _span(access, late)
            first = int(marks[late].min()) - _FIRST
            yield Violation("unordered", self._place(position), self._place(first),
                            memory=access.memory, start=start, stop=stop)

    def _place(self, position: int) -> Place:
        event = self.events[position]
        return Place(position, event.unit, event.label)


def _span(access: Access, chosen: np.ndarray) -> tuple[int, int]:
    if isinstance(access.addresses, tuple):
        addresses = access.addresses[0] + np.flatnonzero(chosen)
    else:
        addresses = access.addresses[chosen]
    return int(addresses.min()), int(addresses.max()) + 1


def check(events: Sequence[Event], tokens: Sequence[Tokens],
          initial: Mapping[str, Sequence[tuple[int, int]]]) -> list[Violation]:
    """Every rule that the stream breaks, in stream order; an empty list is the proof.

    `initial` gives, for each memory that holds something at the start, its half-open ranges.
    After a violation the scan goes on as if the access had been ordered, so one mistake is
    reported where it shows first, not at every later access.
    """
    return list(_Scan(events, initial).run(tokens))
