"""Which activations lie in the shared scratchpad: the first bytes of their segment.

A value may lie there in part: its first bytes in the scratchpad, the others behind it in DRAM.
"""

from collections.abc import Callable, Mapping, Sequence

from accel.mapping.memory.allocate import first_gap, overlap, rounded

Lives = Mapping[str, tuple[int, int]]


def allocate_shared(sizes: Mapping[str, int], lives: Lives, moved: Mapping[str, int],
                    capacity: int) -> tuple[dict[str, int], int]:
    """The byte offset of each value, and the size of the whole, at least the `capacity`.

    Values take places in several orders, each with values in part last or in their turn; of all
    these ways that counts in which most of the bytes `moved` (by value, each as often as it is
    written or read) are in the scratchpad. What is left lies behind it.
    """
    def held(offsets: Mapping[str, int]) -> float:
        return sum(moved[value] * max(0, min(capacity - offset, sizes[value])) / sizes[value]
                   for value, offset in offsets.items())

    ways = [_placed(sorted(sizes, key=lambda value: (-worth(value), value)), sizes, lives, capacity,
                    whole_first)
            for worth in _worths(sizes, lives, moved) for whole_first in (True, False)]
    offsets = max(ways, key=held, default={})
    for value in sorted(sizes.keys() - offsets.keys(), key=lambda v: (-sizes[v], v)):
        offsets[value] = first_gap(_taken(value, offsets, sizes, lives), rounded(sizes[value]),
                                   capacity)
    return offsets, max((offsets[v] + rounded(sizes[v]) for v in sizes), default=0)


def _worths(sizes: Mapping[str, int], lives: Lives, moved: Mapping[str, int]
            ) -> Sequence[Callable[[str], float]]:
    """What a place in the scratchpad is worth to a value, as it counts all that is moved, or by the
    bytes that it takes, or by these and the steps for which it takes them."""
    def steps(value: str) -> int:
        return lives[value][1] - lives[value][0] + 1

    return (lambda value: moved[value],
            lambda value: moved[value] / sizes[value],
            lambda value: moved[value] / (sizes[value] * steps(value)))


def _placed(order: Sequence[str], sizes: Mapping[str, int], lives: Lives, capacity: int,
            whole_first: bool) -> dict[str, int]:
    """The offsets of values that lie in the scratchpad at least in part."""
    offsets: dict[str, int] = {}
    for whole in (True, False) if whole_first else (None,):
        for value in order:
            if value in offsets:
                continue
            taken, size = _taken(value, offsets, sizes, lives), rounded(sizes[value])
            start = first_gap(taken, size, 0)
            if start + size > capacity:
                if whole:
                    continue
                start = max((high for _, high in taken), default=0)
            if start < capacity:
                offsets[value] = start
    return offsets


def _taken(value: str, offsets: Mapping[str, int], sizes: Mapping[str, int], lives: Lives
           ) -> list[tuple[int, int]]:
    """The places of values that live when this one does, in order."""
    return sorted((offset, offset + rounded(sizes[other])) for other, offset in offsets.items()
                  if overlap(lives[value], lives[other]))


