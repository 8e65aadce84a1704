"""Tokens that put a stream of random instructions in order, where two of them touch one address.

Every pair of instructions is compared, and the known order is a set of predecessors for each. The
insertion of tokens and the proof that compiled programs rely on share nothing with this.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from accel.machine.structure import SHIPPED_STRUCTURE
from accel.machine.timing import TIMING


@dataclass
class Touching:
    """An instruction of a stream, with what it touches as bit sets by memory."""

    name: str
    unit: str
    fields: dict[str, Any]
    reads: dict[str, int] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)
    before: int = 0             # the instructions known to have finished when it starts
    waits: int = 0
    signals: int = 0


def order(stream: list[Touching], random: Random,
          units: Sequence[str] = SHIPPED_STRUCTURE.names, room: int = TIMING.tokens) -> None:
    """Adds tokens for every conflict that is not ordered yet, and some more at random. `units` are
    the machine's, in order; `room` is the number of tokens that a counter holds."""
    _Order(stream, random, units, room).add_tokens()


class _Order:
    def __init__(self, stream: list[Touching], random: Random, units: Sequence[str], room: int):
        self.stream, self.units, self.room = stream, units, room
        self.random = random
        self.signalled: dict[tuple[str, str], int] = {}     # source, target: the last that signals
        self.waiting: dict[tuple[str, str], list[int]] = {}     # all that wait, in order

    def add_tokens(self) -> None:
        latest: dict[str, int] = {}
        for index, placed in enumerate(self.stream):
            if placed.unit in latest:
                self._know(index, latest[placed.unit])
            for earlier in reversed(range(index)):
                if _conflict(self.stream[earlier], placed) and not placed.before >> earlier & 1:
                    self._token(earlier, index)
            for _ in range(self.random.choice([0, 0, 0, 1, 2])):
                if index:
                    self._spare(self.random.randrange(index), index)
            latest[placed.unit] = index

    def _know(self, index: int, earlier: int) -> None:
        self.stream[index].before |= self.stream[earlier].before | 1 << earlier

    def _token(self, earlier: int, index: int) -> None:
        """Adds a token from `earlier`, or a later instruction of its unit, to `index`.

        The pair's last signal came before `earlier`: otherwise its wait, which came before
        `index`, would have ordered them.
        """
        pair = (self.stream[earlier].unit, self.stream[index].unit)
        assert self.signalled.get(pair, -1) < earlier
        bit = 1 << self.units.index(pair[0])
        assert not self.stream[index].waits & bit
        sources = [k for k in range(earlier, index) if self.stream[k].unit == pair[0]]
        if not (free := [k for k in sources if self._has_room(pair, k)]):
            self._later(pair, sources[-1], index)
            return
        source = self.random.choice([free[0], free[0], *free])
        self.stream[index].waits |= bit
        self.stream[source].signals |= 1 << self.units.index(pair[1])
        self.signalled[pair] = source
        self.waiting.setdefault(pair, []).append(index)
        self._know(index, source)

    def _has_room(self, pair: tuple[str, str], source: int) -> bool:
        """True if the pair's counter holds one token more when `source` signals, in the order of
        the stream."""
        return sum(wait > source for wait in self.waiting.get(pair, ())) < self.room

    def _later(self, pair: tuple[str, str], source: int, index: int) -> None:
        """Lets `source` signal the pair's last token, where the counter is full until after it:
        what waits for that comes before `index` in its unit."""
        bit = 1 << self.units.index(pair[1])
        self.stream[self.signalled[pair]].signals &= ~bit
        self.stream[source].signals |= bit
        self.signalled[pair] = source
        self._know(self.waiting[pair][-1], source)
        self._know(index, source)

    def _spare(self, earlier: int, index: int) -> None:
        """Adds a token that nothing needs, where one is possible."""
        pair = (self.stream[earlier].unit, self.stream[index].unit)
        if (self.signalled.get(pair, -1) < earlier
                and not self.stream[index].waits >> self.units.index(pair[0]) & 1):
            self._token(earlier, index)


def _conflict(a: Touching, b: Touching) -> bool:
    """True if two instructions of different units touch one address, and one writes it."""
    if a.unit == b.unit:
        return False
    return any(a.writes.get(memory, 0) & (b.reads.get(memory, 0) | b.writes.get(memory, 0))
               or a.reads.get(memory, 0) & b.writes.get(memory, 0)
               for memory in {*a.reads, *a.writes})
