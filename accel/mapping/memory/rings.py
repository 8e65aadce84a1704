"""What a group of layers moves of each tensor, and how much of one must be kept at the same time.

A layer without products runs between the tiles of the one before it, a few tiles later. Where it
alone reads what that one writes, rows that it has read may be written anew: row r lies where row
r + R does. Addresses in the words of load and store say so; no instruction reaches from the last of
R rows to the next.
"""

from dataclasses import dataclass, replace

import numpy as np

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import Stream
from accel.machine.reach import Runs


@dataclass(frozen=True, slots=True)
class Ring:
    """The place of a tensor's rows in the activations segment.

    start, size : where the tensor would lie as a whole, as its layers are lowered.
    offset, period : where its rows lie, and after how many bytes they lie there again.
    """

    start: int
    size: int
    offset: int
    period: int


@dataclass(frozen=True, slots=True)
class Demand:
    """The bytes of a tensor that all layers together move, and those that must be kept: less than
    its size where it lies in a ring."""

    moved: int
    kept: int


def moved_of(machine: Machine, stream: Stream, start: int, size: int) -> int:
    """The bytes that a stream moves of a tensor, which lies from `start` on in the activations
    segment."""
    return int(_words(machine, stream, start, size)[3].sum())


def period_of(machine: Machine, stream: Stream, start: int, size: int, row: int) -> int | None:
    """The fewest bytes of whole rows (of `row` bytes) that hold a tensor of a stream, which lies
    from `start` on in the activations segment; None where all of it must be kept.
    """
    words, low, high, _ = _words(machine, stream, start, size)
    stores = _of(machine, stream.words[words], machine.structure.roles.store)
    first, last = (low - start) // row, (high - 1 - start) // row
    count = -(-size // row)
    never = len(stream)
    written, used = np.full(count, never), np.full(count, -1)
    for word, is_store, begin, end in zip(words, stores, first, last + 1, strict=True):
        used[begin:end] = word                  # the latest
        if is_store:
            written[begin:end] = np.minimum(written[begin:end], word)
    for rows in range(1, count):
        if (first // rows == last // rows).all() and _holds(written, used, rows, never):
            return rows * row
    return None


def _holds(written: np.ndarray, used: np.ndarray, rows: int, never: int) -> bool:
    """True if all that uses a row comes before what is written to its place later."""
    anew = np.full(len(written) + rows, never)
    for row in reversed(range(len(written) - rows)):
        anew[row] = min(written[row + rows], anew[row + rows])
    return bool((used < anew[:len(used)]).all())


def ringed(machine: Machine, stream: Stream, ring: Ring) -> Stream:
    """The stream with the tensor's rows in their places."""
    rows, low, *_ = _words(machine, stream, ring.start, ring.size)
    words, place = stream.words.copy(), isa.DMA["dram"].offset
    for row, first in zip(rows.tolist(), (low - ring.start).tolist(), strict=True):
        number = int.from_bytes(words[row].tobytes(), "little")
        before = number >> place & 0xFFFFFFFF
        after = before + ring.offset - ring.start - first // ring.period * ring.period
        number += (after % (1 << 32) - before) << place
        words[row] = np.frombuffer(number.to_bytes(isa.WORD_BYTES, "little"), np.uint8)
    return replace(stream, words=words)


def _words(machine: Machine, stream: Stream, start: int, size: int
           ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The positions of the words that move bytes of a tensor, the ends of what each reaches, and
    the bytes that it moves."""
    found = [np.zeros((4, 0), np.int64)]
    kept = machine.config.kept_beats * machine.config.bus_bytes
    for opcode, name in machine.names.items():
        if machine.units[opcode] not in machine.structure.moved:
            continue
        rows = np.flatnonzero(stream.words[:, 0] == opcode)
        runs = Runs.of(machine.layouts[name], stream.words[rows])
        low, high = runs.reach
        mine = ((runs.base == isa.BASES.index("activations")) & (start <= low) & (low < high)
                & (high <= start + size))
        moved = runs.moved(kept * bool(machine.structure.unit(machine.units[opcode]).writes))
        found.append(np.stack((rows, low, high, moved))[:, mine])
    words, low, high, moved = np.concatenate(found, axis=1)
    order = np.argsort(words)
    return words[order], low[order], high[order], moved[order]


def _of(machine: Machine, words: np.ndarray, unit: str) -> np.ndarray:
    """Which words a unit performs."""
    return np.isin(words[:, 0], [code for code, own in machine.units.items() if own == unit])
