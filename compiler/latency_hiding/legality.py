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
from itertools import islice

import numpy as np

from .events import AddressSet, Event, Tokens, grown

__all__ = ["Place", "Violation", "check"]

_NEVER, _INITIAL, _FIRST = 0, 1, 2      # marks of an address; event i marks with _FIRST + i
_FULL = 255

Ranges = tuple[tuple[int, int], ...]
"""Half-open ranges of addresses, ascending, with gaps between them."""


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
    memory, ranges : the offending addresses, for the other two: what both events touch, or what
        nothing wrote.
    hazard : of an unordered pair, ``write, read`` or the like: what each does there first.
    count : tokens that are left.
    """

    kind: str
    later: Place
    earlier: Place | None = None
    counter: tuple[str, str] | None = None
    memory: str = ""
    ranges: Ranges = ()
    hazard: tuple[str, str] = ("", "")
    count: int = 0

    def __str__(self) -> str:
        pair = " to ".join(self.counter or ())
        addresses = self.memory + ",".join(f"[{start}:{stop}]" for start, stop in self.ranges)
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

    def __init__(self, initial: Sequence[tuple[int, int]]):
        self.written = np.zeros(max((stop for _, stop in initial), default=0), np.int32)
        self.read: dict[int, np.ndarray] = {}       # by unit
        for start, stop in initial:
            self.written[start:stop] = _INITIAL

    def marks(self, access: AddressSet) -> np.ndarray:
        """Who wrote what is accessed."""
        self.written = grown(self.written, access.stop)
        return self.written[access.index]

    def readers(self, access: AddressSet, unit: int) -> Iterator[tuple[int, np.ndarray]]:
        """Other units, and their events that read what is accessed."""
        for reader in self.read:
            if reader != unit:
                self.read[reader] = grown(self.read[reader], access.stop)
                yield reader, self.read[reader][access.index]

    def touch(self, access: AddressSet, unit: int, mark: int) -> None:
        if access.write:
            self.written = grown(self.written, access.stop)
            self.written[access.index] = mark
        else:
            table = grown(self.read.get(unit, np.zeros(0, np.int32)), access.stop)
            table[access.index] = mark
            self.read[unit] = table


class _Conflicts:
    """What one event touches out of order, gathered by the earlier event and the memory.

    An event may touch an address twice, and so may the earlier one: that is one conflict.
    """

    def __init__(self):
        self.found: dict[tuple[int, str], tuple[list[np.ndarray], str, str]] = {}

    def add(self, earlier: int, access: AddressSet, addresses: np.ndarray, wrote: bool) -> None:
        parts, before, now = self.found.setdefault((earlier, access.memory), ([], "", ""))
        parts.append(addresses)
        self.found[earlier, access.memory] = (
            parts, "write" if wrote else before or "read",
            now if now == "read" else "write" if access.write else "read")


class _Scan:
    """Takes every event once, in order; `_place` asks for single ones again."""

    def __init__(self, events: Sequence[Event], initial: Mapping[str, Sequence[tuple[int, int]]]):
        self.events, self.initial = events, initial
        self.units: list[str] = []
        self.memories: dict[str, _Memory] = {}
        # The column of the clock that speaks for a mark: 0 for marks of no event, else the unit's.
        self.column = np.zeros(_FIRST + len(events), np.intp)
        self.clock = np.zeros((0, 1), np.int64)
        self.counters: dict[tuple[str, str], deque[tuple[int, np.ndarray]]] = {}

    def _unit(self, name: str) -> int:
        """The number of a unit; a new unit knows of no event."""
        if name not in self.units:
            self.units.append(name)
            self.clock = np.pad(self.clock, ((0, 1), (0, 1)))
            self.clock[:, 0] = _INITIAL
        return self.units.index(name)

    def _memory(self, name: str) -> _Memory:
        if name not in self.memories:
            self.memories[name] = _Memory(self.initial.get(name, ()))
        return self.memories[name]

    def run(self, tokens: Sequence[Tokens]) -> Iterator[Violation]:
        for position, (event, token) in enumerate(zip(self.events, tokens, strict=True)):
            unit = self._unit(event.unit)
            self.column[_FIRST + position] = unit + 1
            yield from self._take(position, event, token)
            self.clock[unit, unit + 1] = _FIRST + position      # its own order holds anyway
            yield from self._touch(position, unit, event)
            yield from self._give(position, event, token)
        for pair, left in self.counters.items():
            if left:
                yield Violation("tokens left", self._place(left[0][0]), counter=pair,
                                count=len(left))

    def _take(self, position: int, event: Event, token: Tokens) -> Iterator[Violation]:
        for source in token.waits:
            counter = self.counters.get((source, event.unit))
            if not counter:
                yield Violation("empty counter", self._place(position),
                                counter=(source, event.unit))
                continue
            _, theirs = counter.popleft()               # of the units that were known then
            mine = self.clock[self.units.index(event.unit), :len(theirs)]
            np.maximum(mine, theirs, out=mine)

    def _give(self, position: int, event: Event, token: Tokens) -> Iterator[Violation]:
        for target in token.signals:
            counter = self.counters.setdefault((event.unit, target), deque())
            if len(counter) >= _FULL:
                yield Violation("full counter", self._place(position),
                                counter=(event.unit, target))
            counter.append((position, self.clock[self.units.index(event.unit)].copy()))

    def _touch(self, position: int, unit: int, event: Event) -> Iterator[Violation]:
        conflicts = _Conflicts()
        for access in event.accesses:
            yield from self._accesses(position, unit, access, conflicts)
        for (earlier, memory), (parts, before, now) in conflicts.found.items():
            yield Violation("unordered", self._place(position), self._place(earlier),
                            memory=memory, ranges=_ranges(np.concatenate(parts)),
                            hazard=(before, now))
        for access in (*event.reads(), *event.writes()):
            self._memory(access.memory).touch(access, unit, _FIRST + position)

    def _accesses(self, position: int, unit: int, access: AddressSet,
                  conflicts: _Conflicts) -> Iterator[Violation]:
        memory = self._memory(access.memory)
        marks = memory.marks(access)
        if not marks.size:
            return
        low, high = int(marks.min()), int(marks.max())
        if not access.write and low == _NEVER:
            yield Violation("unwritten", self._place(position), memory=access.memory,
                            ranges=_ranges(_addresses(access)[marks == _NEVER]))
        clock = self.clock[unit]
        if low != high or high > clock[self.column[high]]:
            self._late(access, marks, marks > clock[self.column[marks]], True, conflicts)
        for reader, marks in memory.readers(access, unit) if access.write else ():
            if marks.max() > clock[reader + 1]:
                self._late(access, marks, marks > clock[reader + 1], False, conflicts)

    def _late(self, access: AddressSet, marks: np.ndarray, late: np.ndarray, wrote: bool,
              conflicts: _Conflicts) -> None:
        """Reports, for each other unit, its latest event that is not known to have finished.

        What orders that one orders the unit's earlier ones.
        """
        late &= marks >= _FIRST
        if not late.any():
            return
        columns = self.column[marks]
        for column in sorted(np.unique(columns[late]), key=lambda column: self.units[column - 1]):
            latest = marks[late & (columns == column)].max()
            conflicts.add(int(latest) - _FIRST, access, _addresses(access)[marks == latest], wrote)

    def _place(self, position: int) -> Place:
        event = self.events[position]
        return Place(position, event.unit, event.label)


def _addresses(access: AddressSet) -> np.ndarray:
    if isinstance(access.addresses, tuple):
        return np.arange(*access.addresses)
    return access.addresses


def _ranges(addresses: np.ndarray) -> Ranges:
    addresses = np.unique(addresses)
    gaps = np.flatnonzero(np.diff(addresses) > 1)
    starts = addresses[[0, *(gaps + 1)]]
    stops = addresses[[*gaps, -1]] + 1
    return tuple(zip(starts.tolist(), stops.tolist()))


def check(events: Sequence[Event], tokens: Sequence[Tokens],
          initial: Mapping[str, Sequence[tuple[int, int]]],
          limit: int | None = None) -> list[Violation]:
    """Every rule that the stream breaks, in stream order; an empty list is the proof.

    With `limit`, the scan ends when so many are found.

    `initial` gives, for each memory that holds something at the start, its half-open ranges.
    After a violation the scan goes on as if the access had been ordered, so one mistake is
    reported where it shows first, not at every later access.
    """
    return list(islice(_Scan(events, initial).run(tokens), limit))
