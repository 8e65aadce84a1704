"""Decoding of whole streams: `isa.decode` vectorized over thousands of words."""

from collections.abc import Callable, Iterator
from functools import cache
from operator import itemgetter
from typing import Any

import numpy as np
from amaranth import Shape
from amaranth.lib import data

from accel.machine import isa
from accel.machine.machine import Machine
from accel.machine.program import Instruction
from accel.machine.origins import UNKNOWN, Origins


def decode_words(machine: Machine, words: np.ndarray,
                 origins: Origins | None = None) -> list[Instruction]:
    """`Instruction.decode` of every row of `words` (uint8, 64 bytes a row), in order.

    Fields without meaning (``reserved``, ``rest``) are left out.
    """
    known = ([origins.origin(index) for index in range(len(words))] if origins
             else [UNKNOWN] * len(words))
    layouts: list[data.Layout] = [isa.HEADER]
    layout_of, places = np.zeros(256, int), {}      # by identity: equality of layouts takes long
    for opcode, name in machine.names.items():
        layout = machine.layouts[name]
        if id(layout) not in places:
            places[id(layout)] = len(layouts)
            layouts.append(layout)
        layout_of[opcode] = places[id(layout)]
    numbers = layout_of[words[:, 0]]
    result: list[Any] = [None] * len(words)
    for number in set(numbers.tolist()):
        rows = np.flatnonzero(numbers == number)
        decoded = _decode_rows(layouts[number], words[rows])
        for row, fields in zip(rows.tolist(), decoded, strict=True):
            opcode = fields["opcode"]
            result[row] = Instruction(machine.names.get(opcode, "illegal"),
                                      machine.units.get(opcode, "illegal"), fields, known[row],
                                      machine.structure)
    return result


def column(layout: data.Layout, words: np.ndarray, field: str) -> np.ndarray:
    """A field of every word (int64), which must have this layout; zeros where that lacks it."""
    leaves = {path: (offset, width, signed, bias)
              for path, offset, width, signed, bias in _leaves(layout)}
    if f".{field}" not in leaves:
        return np.zeros(len(words), np.int64)
    return _values(words, *leaves[f".{field}"])


def _values(words: np.ndarray, offset: int, width: int, signed: bool, bias: int) -> np.ndarray:
    at = min(offset // 8, isa.WORD_BYTES - 8)           # eight bytes of the word, whole
    eight = np.ascontiguousarray(words[:, at:at + 8]).view("<i8")[:, 0]
    value = eight >> (offset - 8 * at) & ((1 << width) - 1)
    if signed:
        value -= (value >> (width - 1)) << width
    return value + bias


def _decode_rows(layout: data.Layout, words: np.ndarray) -> Iterator[dict[str, Any]]:
    columns = [_values(words, offset, width, signed, bias).tolist()
               for _, offset, width, signed, bias in _leaves(layout)]
    build = _builder(layout)
    return (build(row) for row in zip(*columns, strict=True))


@cache
def _leaves(layout: data.Layout) -> list[tuple[str, int, int, bool, int]]:
    """Path, offset, width, signedness and bias of every scalar field; widths up to 57 bits."""
    return list(_walk(layout, "", 0))


def _walk(layout, path: str, base: int) -> Iterator[tuple[str, int, int, bool, int]]:
    for key, field in layout:
        if key in ("reserved", "rest"):
            continue
        offset = base + field.offset
        if isinstance(field.shape, data.Layout):
            yield from _walk(field.shape, f"{path}.{key}", offset)
        else:
            shape = Shape.cast(field.shape)
            yield f"{path}.{key}", offset, shape.width, shape.signed, int(key in isa.MINUS_ONE)


@cache
def _builder(layout: data.Layout) -> Callable[[tuple], Any]:
    """Build a function that turns one row of leaves into the nested fields."""
    return _nested(layout, "", {path: index for index, (path, *_) in enumerate(_leaves(layout))})


def _nested(layout, path: str, places: dict[str, int]) -> Callable[[tuple], Any]:
    parts = []
    for key, field in layout:
        if key not in ("reserved", "rest"):
            inner = f"{path}.{key}"
            parts.append((key, _nested(field.shape, inner, places)
                          if isinstance(field.shape, data.Layout) else itemgetter(places[inner])))
    if isinstance(layout, data.ArrayLayout):
        builders = [build for _, build in parts]
        return lambda row: [build(row) for build in builders]
    return lambda row: {key: build(row) for key, build in parts}
