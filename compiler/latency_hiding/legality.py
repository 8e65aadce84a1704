"""The proof that a stream with tokens is legal: the same memory under every timing.

A stream is legal when, performed in stream order,

1. no wait meets an empty counter, no signal a full one, and all counters end at zero;
2. every two conflicting accesses of different units are ordered by the order within units and by
   tokens, the k-th signal of a pair matching its k-th wait;
3. nothing is read that neither the stream nor its declared initial contents wrote.

One linear scan, native (`legality.cpp`). It keeps for every address the stream position of
its last write and, for each unit, of its last read. (Only the last write matters: what precedes it
is ordered before it, or was reported.) For every unit it keeps a clock: up to which stream position
the events of every other unit are known to have finished. It shares no reasoning with the insertion
of tokens.
"""

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import MOST_UNITS, Batch, Measures, batch_of, library, measure
from .events import Event, Tokens
from .tokens import CAPACITY

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


def check(events: Sequence[Event], tokens: Sequence[Tokens],
          initial: Mapping[str, Sequence[tuple[int, int]]],
          limit: int | None = None) -> list[Violation]:
    """Every rule that the stream breaks, in stream order; an empty list is the proof.

    With `limit`, the scan ends when so many are found.

    `initial` gives, for each memory that holds something at the start, its half-open ranges.
    After a violation the scan goes on as if the access had been ordered, so one mistake is
    reported where it shows first, not at every later access.
    """
    if len(events) != len(tokens):
        raise ValueError(f"Tokens must be those of the {len(events)} events, not {len(tokens)}")
    units = sorted({event.unit for event in events}
                   | {unit for token in tokens for unit in (*token.waits, *token.signals)})
    numbers = {unit: number for number, unit in enumerate(units)}
    memories: dict[str, int] = {}
    batch = batch_of(events, numbers, memories)
    waits, signals = (np.array([sum(1 << numbers[unit] for unit in set(named)) for named in masks],
                               np.uint32)
                      for masks in ([token.waits for token in tokens],
                                    [token.signals for token in tokens]))

    def place(position: int) -> Place:
        return Place(position, events[position].unit, events[position].label)

    return violations_of([batch], waits, signals, measure([batch], len(memories)), units,
                         tuple(memories), initial, place, limit)


def violations_of(batches: Iterable[Batch], waits: np.ndarray, signals: np.ndarray,
                  measures: Measures, units: Sequence[str], memories: Sequence[str],
                  initial: Mapping[str, Sequence[tuple[int, int]]], place: Callable[[int], Place],
                  limit: int | None = None, capacity: int = CAPACITY) -> list[Violation]:
    """As `check`, of a stream in batches. `waits` and `signals` are masks of units (uint32, one for
    each event), `units` and `memories` the names behind the numbers; `place` describes an event.
    A counter holds `capacity` tokens.
    """
    if len(units) > MOST_UNITS:
        raise ValueError(f"Units of a stream must be at most {MOST_UNITS}, not {len(units)}")
    scans, position = library(), 0
    known = {memory: initial[memory] for memory in memories if memory in initial}
    granule = measures.granule.copy()       # must divide what memory holds at the start, too
    for memory, spans in known.items():
        at = memories.index(memory)
        granule[at] = np.gcd.reduce([granule[at], *(end for span in spans for end in span)])
    proof = scans.proof_new(len(units), len(memories), granule.ctypes.data,
                            measures.stop.ctypes.data, -1 if limit is None else limit, capacity)
    try:
        for memory, spans in known.items():
            for start, stop in spans:
                scans.proof_holds(proof, memories.index(memory), start, stop)
        complete = True
        for batch in batches:
            if complete:
                complete = scans.proof_take(
                    proof, ctypes.byref(batch.native()), waits[position:].ctypes.data,
                    signals[position:].ctypes.data)
            position += len(batch)
        scans.proof_end(proof)
        found = [_Violation.from_address(scans.proof_violations(proof)
                                         + number * ctypes.sizeof(_Violation))
                 for number in range(scans.proof_count(proof))]
        ranges = scans.proof_ranges(proof)
        return [_violation(one, ranges, units, memories, place) for one in found]
    finally:
        scans.proof_free(proof)


_KINDS = ("empty counter", "full counter", "tokens left", "unordered", "unwritten")


class _Violation(ctypes.Structure):
    """As in legality.cpp."""

    _fields_ = [*((name, ctypes.c_int64) for name in ("later", "earlier", "ranges", "range")),
                *((name, ctypes.c_int32) for name in ("kind", "source", "target", "memory",
                                                      "wrote", "writes", "count", "unused"))]


def _violation(one: _Violation, ranges: int, units: Sequence[str], memories: Sequence[str],
               place: Callable[[int], Place]) -> Violation:
    kind, later = _KINDS[one.kind], place(one.later)
    if one.source >= 0:
        pair = units[int(one.source)], units[int(one.target)]
        return Violation(kind, later, counter=pair, count=one.count)
    raw = (ctypes.c_int64 * (2 * one.ranges)).from_address(ranges + 16 * one.range)
    spans = tuple(zip(raw[::2], raw[1::2], strict=True))
    memory = memories[int(one.memory)]
    if one.earlier < 0:
        return Violation(kind, later, memory=memory, ranges=spans)
    hazard = "write" if one.wrote else "read", "write" if one.writes else "read"
    return Violation(kind, later, place(one.earlier), memory=memory, ranges=spans, hazard=hazard)
