"""Fields of many instruction words at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth import Shape
from amaranth.lib import data

from accel.machine import isa


@dataclass(frozen=True, slots=True)
class WordBits:
    """Bits of a word, unsigned; `modular` numbers are taken modulo their range."""

    name: str
    offset: int
    width: int
    modular: bool

    @classmethod
    def of(cls, layout: data.Layout, path: tuple[str, ...]) -> "WordBits":
        """The field of a layout that a path of names leads to."""
        key = id(layout), path          # equality of layouts takes long
        if key not in _fields:
            _fields[key] = layout, cls._found(layout, path)
        return _fields[key][1]

    @classmethod
    def _found(cls, layout: Any, path: tuple[str, ...]) -> "WordBits":
        offset = 0
        for name in path[:-1]:
            offset += layout[name].offset
            layout = layout[name].shape
        last = layout[path[-1]]
        return cls(".".join(path), offset + last.offset, Shape.cast(last.shape).width,
                   path == ("dram",))


_fields: dict[tuple[int, tuple[str, ...]], tuple[data.Layout, WordBits]] = {}


def put(words: np.ndarray, place: WordBits, values: np.ndarray) -> None:
    """Write a field of at most 57 bits of every word (uint8, 64 bytes a row). Raises
    InstructionError for a number that does not fit.
    """
    if place.modular:
        values = values & ((1 << place.width) - 1)
    elif len(values) and (values.min() < 0 or values.max() >> place.width):
        worst = values[(values < 0) | (values >> place.width > 0)][0]
        raise isa.InstructionError(f"{place.name} must fit {place.width} bits, not be {worst}")
    start = min(place.offset // 8, isa.WORD_BYTES - 8)
    shift = place.offset - 8 * start
    window = np.ascontiguousarray(words[:, start:start + 8]).view("<u8")[:, 0]
    mask = np.uint64(((1 << place.width) - 1) << shift)
    window = window & ~mask | values.astype(np.uint64) << np.uint64(shift)
    words[:, start:start + 8] = window[:, None].view(np.uint8)
