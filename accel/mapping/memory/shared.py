"""Allocation of activations in the shared scratchpad, the first bytes of their segment.

A value may lie there in part: its first bytes in the scratchpad, the others behind it in DRAM.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from accel.mapping.memory.allocate import first_gap, overlap, rounded
from compiler.lazy import cached_property

Lives = Mapping[str, tuple[int, int]]

TRIES = 2000
"""Orders that are tried beyond the first ones."""


def allocate_shared(sizes: Mapping[str, int], lives: Lives, moved: Mapping[str, int],
                    capacity: int) -> tuple[dict[str, int], int]:
    """The byte offset of each value, and the size of the whole.

    Values take places one after the other, in several orders; that one counts in which most of the
    bytes `moved` (by value, each as often as it is written or read) are within the `capacity`. It
    is improved by values that come earlier. What is left lies behind the scratchpad.
    """
    task = _Task(sizes, lives, moved, capacity)
    offsets = task.best()
    for value in sorted(sizes.keys() - offsets.keys(), key=lambda v: (-sizes[v], v)):
        offsets[value] = first_gap(task.taken(value, offsets), rounded(sizes[value]), capacity)
    return offsets, max((offsets[v] + rounded(sizes[v]) for v in sizes), default=0)


@dataclass(frozen=True)
class _Task:
    sizes: Mapping[str, int]
    lives: Lives
    moved: Mapping[str, int]
    capacity: int

    def best(self) -> dict[str, int]:
        """The offsets of the values that lie in the scratchpad at least in part."""
        ways = [(order, whole_first) for order in self._orders() for whole_first in (True, False)]
        order, whole_first = max(ways, key=lambda way: self._held(self._placed(*way)))
        found = self._placed(order, whole_first)
        if len(found) == len(self.sizes) and self._held(found) == sum(self.moved.values()):
            return found
        random, most = Random(0), self._held(found)
        for _ in range(TRIES):
            at = random.randrange(len(order))
            to = random.randrange(at + 1)
            other = [*order[:to], order[at], *order[to:at], *order[at + 1:]]
            offsets = self._placed(other, whole_first)
            if (held := self._held(offsets)) >= most:
                order, found, most = other, offsets, held
        return found

    def _orders(self) -> Iterator[list[str]]:
        """Orders by what a place in the scratchpad is worth to a value: by all that is moved, by
        that for each byte, and for each byte and step."""
        def steps(value: str) -> int:
            return self.lives[value][1] - self.lives[value][0] + 1

        worths: Sequence[Callable[[str], float]] = (
            lambda value: self.moved[value],
            lambda value: self.moved[value] / self.sizes[value],
            lambda value: self.moved[value] / (self.sizes[value] * steps(value)))
        for worth in worths:
            yield sorted(self.sizes, key=lambda value: (-worth(value), value))

    def _held(self, offsets: Mapping[str, int]) -> int:
        """The moved bytes that are in the scratchpad."""
        return sum(self.moved[value] * min(self.capacity - offset, self.sizes[value])
                   // self.sizes[value] for value, offset in offsets.items())

    def _placed(self, order: Sequence[str], whole_first: bool) -> dict[str, int]:
        """The offsets of values that lie in the scratchpad: those first that lie there as wholes,
        or all in their turn."""
        offsets: dict[str, int] = {}
        for whole in (True, False) if whole_first else (False,):
            for value in order:
                if value not in offsets:
                    self._place(value, offsets, whole)
        return offsets

    def _place(self, value: str, offsets: dict[str, int], whole: bool) -> None:
        taken, size = self.taken(value, offsets), rounded(self.sizes[value])
        start = first_gap(taken, size)
        if start + size > self.capacity and not whole:
            start = max((high for _, high in taken), default=0)
        if start + size * whole <= self.capacity - (not whole):
            offsets[value] = start

    def taken(self, value: str, offsets: Mapping[str, int]) -> list[tuple[int, int]]:
        """The places of values that live when this one does, in order."""
        return sorted((offsets[other], offsets[other] + rounded(self.sizes[other]))
                      for other in self._beside[value] if other in offsets)

    @cached_property
    def _beside(self) -> dict[str, list[str]]:
        """The other values that live when a value does."""
        return {one: [other for other in self.sizes if other != one and overlap(
            self.lives[one], self.lives[other])] for one in self.sizes}
