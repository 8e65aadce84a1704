"""Streams of any length as arrays, and the native library that scans them.

An `Event` is an object for one instruction; a stream of millions comes in **batches** of arrays.
`insert_tokens` and `check` read both: `batch_of` turns events into one batch.
"""

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from compiler.native import library_of

from .events import AddressSet, Event

MOST_LOOPS, MOST_UNITS = 8, 32

SETS = np.dtype([("start", "i8"), ("length", "i8"), ("loop", "i4"), ("loops", "i4"),
                 ("memory", "i4"), ("write", "i4")])
"""An address set: ``start + sum of index * stride + [0, length)`` over its loops, of which `loop`
is the first and which are at most `MOST_LOOPS`. `memory` is a number."""

LOOPS = np.dtype([("extent", "i8"), ("stride", "i8")])

_FOLDER = Path(__file__).parent
HEADERS = (_FOLDER / "sets.h",)
"""For those who make batches by native code: the records as C++."""

_SOURCES = ("sets.cpp", "tokens.cpp", "legality.cpp")
_FLAGS = ("-O3", "-march=native", "-Wall", "-Wextra")


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Consecutive events of a stream.

    Parameters
    ----------
    unit : number of each event's unit (uint8).
    first, count : the first of each event's sets, and how many there are (int64, int32). What an
        event reads, it reads before it writes.
    sets, loops : records of `SETS` and of `LOOPS`.
    """

    unit: np.ndarray
    first: np.ndarray
    count: np.ndarray
    sets: np.ndarray
    loops: np.ndarray

    def __len__(self) -> int:
        return len(self.unit)

    def native(self) -> "_Batch":
        """The batch for the library, which keeps no pointer to it."""
        return _Batch(len(self), *(array.ctypes.data for array in (
            self.unit, self.first, self.count, self.sets, self.loops)))


@dataclass(frozen=True, slots=True, eq=False)
class Measures:
    """For each memory what divides all addresses of a stream, and one past the highest (int64)."""

    granule: np.ndarray
    stop: np.ndarray


def measure(batches: Iterable[Batch], memories: int) -> Measures:
    """The measures of a stream over `memories` memories."""
    granule, stop = np.zeros(memories, np.int64), np.zeros(memories, np.int64)
    for batch in batches:
        library().measure(ctypes.byref(batch.native()), granule.ctypes.data, stop.ctypes.data)
    return Measures(np.maximum(granule, 1), stop)


def last_writers(writing: Iterable[Batch], numbers: np.ndarray, reading: Iterable[Batch],
                 measures: Measures) -> np.ndarray:
    """For each event of `reading` the highest of the `numbers` of those events of `writing` that
    wrote last what it reads; −1 where none did. Events with a negative number do not count.
    """
    scans, position, found = library(), 0, []
    numbers = np.ascontiguousarray(numbers, np.int32)
    writers = scans.writers_new(len(measures.stop), measures.granule.ctypes.data,
                                measures.stop.ctypes.data)
    try:
        for batch in writing:
            scans.writers_note(writers, ctypes.byref(batch.native()),
                               numbers[position:].ctypes.data)
            position += len(batch)
        for batch in reading:
            found.append(np.zeros(len(batch), np.int32))
            scans.writers_find(writers, ctypes.byref(batch.native()), found[-1].ctypes.data)
    finally:
        scans.writers_free(writers)
    return np.concatenate(found) if found else np.zeros(0, np.int32)


def batch_of(events: Sequence[Event], units: Mapping[str, int],
             memories: dict[str, int]) -> Batch:
    """One batch of all events. `units` numbers the units; memories are added to `memories`."""
    parts: list[np.ndarray] = [np.zeros(0, SETS)]
    first, unit = np.zeros(len(events) + 1, np.int64), np.zeros(len(events), np.uint8)
    for position, event in enumerate(events):
        unit[position], count = units[event.unit], 0
        for access in event.accesses:
            sets = sets_of(access, memories.setdefault(access.memory, len(memories)))
            parts.append(sets)
            count += len(sets)
        first[position + 1] = first[position] + count
    return Batch(unit, first[:-1].copy(), np.diff(first).astype(np.int32), np.concatenate(parts),
                 np.zeros(0, LOOPS))


def sets_of(access: AddressSet, memory: int) -> np.ndarray:
    """The records of a set in the memory of this number."""
    spans = access.intervals()
    sets = np.zeros(len(spans), SETS)
    sets["start"], sets["length"] = spans[:, 0], spans[:, 1] - spans[:, 0]
    sets["memory"], sets["write"] = memory, access.write
    return sets


# ---- as in sets.h ------------------------------------------------------------------------------

class _Batch(ctypes.Structure):
    _fields_ = [("length", ctypes.c_int64),
                *((name, ctypes.c_void_p) for name in ("unit", "first", "count", "sets", "loops"))]


@cache
def library() -> ctypes.CDLL:
    """The native scans, built on first use."""
    return built(texts())


def texts() -> dict[str, str]:
    """The sources of the scans, by the names of their files."""
    return {path.name: path.read_text()
            for path in (*(_FOLDER / name for name in _SOURCES), *HEADERS)}


def built(sources: Mapping[str, str]) -> ctypes.CDLL:
    """The library of these sources."""
    found = library_of("scans", "the proof of streams", sources, _FLAGS, "a few seconds")
    pointer, number, long = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    for name, result, arguments in (
            ("measure", None, (pointer, pointer, pointer)),
            ("writers_new", pointer, (number, pointer, pointer)),
            ("writers_note", None, (pointer, pointer, pointer)),
            ("writers_find", None, (pointer, pointer, pointer)),
            ("writers_free", None, (pointer,)),
            ("insertion_new", pointer, (number, number, number, pointer, pointer)),
            ("insertion_take", None, (pointer, pointer)),
            ("insertion_collect", None, (pointer, pointer, pointer)),
            ("insertion_free", None, (pointer,)),
            ("proof_new", pointer, (number, number, pointer, pointer, long, long)),
            ("proof_holds", None, (pointer, number, long, long)),
            ("proof_take", number, (pointer, pointer, pointer, pointer)),
            ("proof_end", None, (pointer,)), ("proof_count", long, (pointer,)),
            ("proof_violations", pointer, (pointer,)), ("proof_ranges", pointer, (pointer,)),
            ("proof_free", None, (pointer,))):
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found
