"""Rings: places of tensors of which only some rows are kept at the same time.

A layer without products runs between the tiles of the one before it, a few tiles later. Where it
alone reads what that one writes, rows that it has read may be written anew: row r lies where row
r + R does. Addresses in the words of load and store say so. A word that reaches from the last of R
rows to the next becomes two.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import Instruction, Stream
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


@dataclass(frozen=True)
class _Movers:
    """The words of a stream that move bytes of one tensor, in their order; each column of int64.

    words, is_store : their positions, and which of them write memory.
    low, high : the ends of what they reach, from the start of the tensor.
    moved : bytes.
    loop, step, count : the loop of the greatest step (−1: of none, the bytes of a run), that step,
        and how many there are. Each covers `high - low - (count - 1) * step` bytes.
    """

    words: np.ndarray
    is_store: np.ndarray
    low: np.ndarray
    high: np.ndarray
    moved: np.ndarray
    loop: np.ndarray
    step: np.ndarray
    count: np.ndarray

    @classmethod
    def of(cls, machine: Machine, stream: Stream, start: int, size: int) -> "_Movers":
        """The words of a tensor that lies from `start` on in the activations segment."""
        found = [np.zeros((8, 0), np.int64)]
        kept = machine.config.kept_beats * machine.config.bus_bytes
        for opcode, name in machine.names.items():
            if machine.units[opcode] not in machine.structure.moved:
                continue
            rows = np.flatnonzero(stream.words[:, 0] == opcode)
            runs = Runs.of(machine.layouts[name], stream.words[rows])
            low, high = runs.reach
            mine = ((runs.base == isa.BASES.index("activations")) & (start <= low) & (low < high)
                    & (high <= start + size))
            loads = bool(machine.structure.unit(machine.units[opcode]).writes)
            steps = np.where(runs.extents > 1, runs.strides, 0)
            loop = steps.argmax(axis=1)
            step, count = (np.take_along_axis(part, loop[:, None], 1)[:, 0]
                           for part in (steps, runs.extents))
            alone = (steps == 0).all(axis=1)
            found.append(np.stack((
                rows, np.full(len(rows), not loads), low - start, high - start,
                runs.moved(kept * loads), np.where(alone, -1, loop), np.where(alone, 1, step),
                np.where(alone, runs.run, count)))[:, mine])
        columns = np.concatenate(found, axis=1)
        return cls(*columns[:, np.argsort(columns[0])])

    def cuts(self, period: int) -> np.ndarray | None:
        """The steps of each word that lie in the round in which it begins; None where a word can
        be cut nowhere, or would have more than two parts."""
        begin, end = self.low // period, (self.high - 1) // period
        left = (begin + 1) * period - self.low
        steps = -(-left // np.maximum(self.step, 1))
        width = self.high - self.low - (self.count - 1) * self.step
        may = (end == begin) | (
            (end == begin + 1) & (self.step > 0) & (0 < steps) & (steps < self.count)
            & ((steps - 1) * self.step + width <= left))
        return np.where(end == begin, self.count, steps) if may.all() else None


def moved_of(machine: Machine, stream: Stream, start: int, size: int) -> int:
    """The bytes that a stream moves of a tensor, which lies from `start` on in the activations
    segment."""
    return int(_Movers.of(machine, stream, start, size).moved.sum())


def period_of(machine: Machine, stream: Stream, start: int, size: int, row: int) -> int | None:
    """The fewest bytes of whole rows (of `row` bytes) that hold a tensor of a stream, which lies
    from `start` on in the activations segment; None where all of it must be kept.
    """
    movers, count, never = _Movers.of(machine, stream, start, size), -(-size // row), len(stream)
    written, used = np.full(count, never), np.full(count, -1)
    for word, stores, begin, end in zip(movers.words, movers.is_store, movers.low // row,
                                        (movers.high - 1) // row + 1, strict=True):
        used[begin:end] = word                  # the latest
        if stores:
            written[begin:end] = np.minimum(written[begin:end], word)
    return next((rows * row for rows in range(1, count) if _holds(written, used, rows, never)
                 and movers.cuts(rows * row) is not None), None)


def _holds(written: np.ndarray, used: np.ndarray, rows: int, never: int) -> bool:
    """True if all that uses a row comes before what is written to its place later."""
    anew = np.full(len(written) + rows, never)
    for row in reversed(range(len(written) - rows)):
        anew[row] = min(written[row + rows], anew[row + rows])
    return bool((used < anew[:len(used)]).all())


def ringed(machine: Machine, stream: Stream, ring: Ring) -> Stream:
    """The stream with the tensor's rows in their places."""
    movers = _Movers.of(machine, stream, ring.start, ring.size)
    cuts = movers.cuts(ring.period)
    assert cuts is not None
    cut = cuts < movers.count
    times = np.ones(len(stream), np.int64)
    times[movers.words[cut]] = 2
    result = stream.take(np.repeat(np.arange(len(stream)), times))
    words, places = result.words.copy(), np.cumsum(times) - times
    for word, loop, steps, is_cut, low in zip(movers.words, movers.loop, cuts, cut,
                                               movers.low // ring.period, strict=True):
        parts = [Instruction.decode(machine, int.from_bytes(stream.words[word].tobytes(),
                                                            "little"))]
        if is_cut:
            parts = _cut(parts[0], int(loop), int(steps))
        for number, part in enumerate(parts):
            moved = ring.offset - ring.start - (int(low) + number) * ring.period
            fields = {**part.fields, "dram": (part.fields["dram"] + moved) % (1 << 32)}
            raw = replace(part, fields=fields).encode(machine).to_bytes(isa.WORD_BYTES, "little")
            words[places[word] + number] = np.frombuffer(raw, np.uint8)
    return replace(result, words=words)


def _cut(word: Instruction, number: int, steps: int) -> list[Instruction]:
    """A word as two, of which the first has so many steps of a loop, padding before them left out;
    of loop −1 so many bytes of the run."""
    fields = dict(word.fields)
    if number < 0:
        ends = fields | {"run": fields["run"] - steps, "dram": fields["dram"] + steps,
                         "address": fields["address"] + steps}
        return [replace(word, fields=one) for one in (fields | {"run": steps}, ends)]
    loop = fields["loops"][number]
    steps += loop["before"]
    first = loop | {"extent": steps, "after": 0}
    second = loop | {"extent": loop["extent"] - steps, "before": 0}
    ends = _with(fields, number, second) | {
        "dram": fields["dram"] + steps * loop["dram"],
        "address": (fields["address"] + steps * loop["buffer"]) % (1 << 24)}
    return [replace(word, fields=one) for one in (_with(fields, number, first), ends)]


def _with(fields: Any, number: int, loop: dict[str, int]) -> dict[str, Any]:
    """The fields of a word with another loop."""
    return {**fields, "loops": [loop if place == number else one
                                for place, one in enumerate(fields["loops"])]}
