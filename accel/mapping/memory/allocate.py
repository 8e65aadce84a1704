"""Static allocation of activations: values whose lives do not overlap share memory."""

from collections.abc import Mapping, Sequence

ALIGNMENT = 64


def allocate(sizes: Mapping[str, int], lives: Mapping[str, tuple[int, int]]) -> tuple[
        dict[str, int], int]:
    """Return the byte offset of each value, and the size of the whole.

    `lives` gives the first and the last step at which a value exists. Places the largest value
    first, each at the lowest offset that is free during its life.
    """
    offsets: dict[str, int] = {}
    for value in sorted(sizes, key=lambda v: (-sizes[v], v)):
        taken = sorted((offsets[other], offsets[other] + rounded(sizes[other])) for other in offsets
                       if overlap(lives[value], lives[other]))
        offsets[value] = first_gap(taken, rounded(sizes[value]))
    return offsets, max((offsets[v] + rounded(sizes[v]) for v in sizes), default=0)


def rounded(size: int) -> int:
    """The bytes that a value of so many takes: whole bursts."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """True where two lives have a step in common."""
    return a[0] <= b[1] and b[0] <= a[1]


def first_gap(taken: Sequence[tuple[int, int]], size: int, start: int = 0) -> int:
    """The lowest place from `start` on where so many bytes are free between those that are `taken`,
    which are in order.
    """
    for low, high in taken:
        if low - start >= size:
            return start
        start = max(start, high)
    return start
