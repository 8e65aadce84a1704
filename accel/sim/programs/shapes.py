"""Loops of instructions, iteration by iteration, and sets of addresses as bits of a number."""

import itertools
from collections.abc import Iterator


def indices(loops: list[dict[str, int]]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(loop["extent"]) for loop in loops))


def offset(index: tuple[int, ...], loops: list[dict[str, int]], key: str) -> int:
    return sum(i * loop.get(key, 0) for i, loop in zip(index, loops))


def offsets(loops: list[dict[str, int]]) -> dict[str, list[int]]:
    """For each operand of a computation, the entries of its iterations, from the base."""
    result = {}
    for key in ("dst", "a", "b", "c"):
        found = [0]
        for loop in loops:
            steps = [i * loop.get(key, 0) for i in range(loop["extent"])]
            found = [one + step for one in found for step in steps]
        result[key] = found
    return result


def padding(index: tuple[int, ...], loops: list[dict[str, int]]) -> bool:
    return any(i < loop.get("before", 0) or i >= loop["extent"] - loop.get("after", 0)
               for i, loop in zip(index, loops))


def widened(offsets: list[int], run: int) -> list[int]:
    return [offset + byte for offset in offsets for byte in range(run)]


def bits(addresses) -> int:
    total = 0
    for address in set(addresses):
        total |= 1 << address
    return total


def fitting(written: int, offsets: set[int]) -> int:
    """The bases for which every ``base + offset`` is in the set `written`."""
    low = min(offsets)
    shifted = written << -low if low < 0 else written >> low
    total = shifted
    for offset in offsets:
        total &= shifted >> (offset - low)
    return total


def modular(loops: list[dict[str, int]], modulus: int) -> list[dict[str, int]]:
    """Strides as the word stores them; those into DRAM are signed."""
    return [{key: value % modulus if key in ("dst", "a", "b", "buffer") else value
             for key, value in loop.items()} for loop in loops]
