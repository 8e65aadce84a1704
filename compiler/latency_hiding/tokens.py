"""Insertion of tokens: the fewest that make every execution agree with stream order.

One linear scan. For each address the last event of each unit that wrote it, and that read it, is
kept (as the event's number within its unit); for each event a vector clock: how many events of
every unit are known to have finished when it starts. An access needs the last writers of its
addresses to have finished, a write also their last readers. Where the clock of the event's unit
does not say so already, the event waits for a signal of the latest such event; events are taken
latest first, since what a later one knows may make an earlier one's signal unnecessary.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from .events import Event, Tokens, grown

__all__ = ["CAPACITY", "insert_tokens"]

CAPACITY = 255
"""Tokens that a counter of eight bits holds."""


@dataclass(slots=True)
class _Token:
    """A token from the event at stream position `signal` to the one at `wait`."""

    signal: int
    wait: int


@dataclass(slots=True)
class _History:
    """Last touches of every address: one array for each memory, kind and unit that needs it."""

    last: dict[tuple[str, bool], dict[int, np.ndarray]] = field(default_factory=dict)

    def needed(self, event: Event, own: int) -> dict[int, int]:
        """Maps each other unit to the number of its latest event that must have finished."""
        result: dict[int, int] = {}
        for access in event.accesses:
            for earlier_write in (True, False) if access.write else (True,):
                tables = self.last.get((access.memory, earlier_write), {})
                for unit in tables:
                    if unit != own and access.stop:
                        table = tables[unit] = grown(tables[unit], access.stop)
                        latest = int(table[access.index].max(initial=0))
                        result[unit] = max(result.get(unit, 0), latest)
        return result

    def record(self, event: Event, own: int, number: int) -> None:
        for access in event.accesses:
            tables = self.last.setdefault((access.memory, access.write), {})
            table = grown(tables.get(own, np.zeros(0, np.int32)), access.stop)
            table[access.index] = number
            tables[own] = table


class _Pair:
    """The tokens from one unit to another, in order."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.tokens: list[_Token] = []

    def add(self, signal: int, wait: int) -> None:
        """Order `signal` before `wait`.

        When the counter would be full at `signal`, the latest wait, which then still lies ahead,
        is made to wait for `signal` instead of its own: that orders more than is needed, and
        needs no further token.
        """
        full = (len(self.tokens) >= self.capacity
                and self.tokens[-self.capacity].wait > signal)
        if full:
            self.tokens[-1].signal = signal
        else:
            self.tokens.append(_Token(signal, wait))


def insert_tokens(events: Iterable[Event], units: Sequence[str],
                  capacity: int = CAPACITY) -> list[Tokens]:
    """Tokens for each event, so that the stream is legal (see `check`).

    A pair of events is ordered by at most one token, an ordering that follows from the order
    within units and from other tokens by none. At no point of the stream do more than `capacity`
    tokens of a pair wait to be taken.
    """
    if capacity < 1:
        raise ValueError(f"Capacity of a counter must be at least 1, not {capacity!r}")
    number_of = {unit: number for number, unit in enumerate(units)}
    history = _History()
    pairs: dict[tuple[int, int], _Pair] = {}
    streams: list[list[int]] = [[] for _ in units]          # stream positions of a unit's events
    unit_of: list[int] = []
    finished: list[np.ndarray] = []                         # clock when an event has finished

    for position, event in enumerate(events):
        if event.unit not in number_of:
            raise ValueError(f"Unit of {event.label!r} must be one of {', '.join(units)}, "
                             f"not {event.unit!r}")
        own = number_of[event.unit]
        clock = (finished[streams[own][-1]].copy() if streams[own]
                 else np.zeros(len(units), np.int32))
        needed = history.needed(event, own)
        producers = [streams[unit][number - 1] for unit, number in needed.items() if number]
        for producer in sorted(producers, reverse=True):
            unit = unit_of[producer]
            if needed[unit] > clock[unit]:
                pairs.setdefault((unit, own), _Pair(capacity)).add(producer, position)
                np.maximum(clock, finished[producer], out=clock)
        streams[own].append(position)
        unit_of.append(own)
        finished.append(clock)
        clock[own] = len(streams[own])
        history.record(event, own, len(streams[own]))
    return _collect(len(finished), units, pairs)


def _collect(count: int, units: Sequence[str], pairs: dict[tuple[int, int], _Pair]) -> list[Tokens]:
    waits: list[list[int]] = [[] for _ in range(count)]
    signals: list[list[int]] = [[] for _ in range(count)]
    for (producer, consumer), pair in pairs.items():
        for token in pair.tokens:
            signals[token.signal].append(consumer)
            waits[token.wait].append(producer)
    return [Tokens(tuple(units[u] for u in sorted(w)), tuple(units[u] for u in sorted(s)))
            for w, s in zip(waits, signals)]
