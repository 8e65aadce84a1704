"""Instruction words: 512 bits, declared once as Amaranth layouts.

Encoder, decoder, disassembler, simulators and hardware all use the layouts in this module. Field
widths do not depend on the geometry, but on types of elements (`formats`). Four formats share a
header::

    header   opcode 8 | waits 8 | signals 8        (masks: bit i is unit i of the machine's)
    dma      load, store: four loops around a run of contiguous bytes
    gemm     six loops, three operands
    vector   five loops, three operands, immediates; a third source where a body has one
    stream   five loops, two operands and a table

An extent and the length of a run are stored **minus one**, so no code is illegal. Buffer addresses
count entries (DMA: bytes) and are computed modulo 2**16 (DMA: 2**24); DRAM addresses are
``base register + offset``, modulo 2**32, in bytes.

A DMA iteration is *padding* when the index i of some loop has ``i < before`` or
``i >= extent - after``: then the run is filled with `pad_value` and no memory is read. The offset
counts from the address that iteration (0, 0, 0, 0) would have, padding or not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from amaranth import Shape, ShapeCastable, signed
from amaranth.lib import data

from accel.machine.config import BUFFERS, UNITS, WEIGHT_BITS, AccelConfig, element_bytes
from accel.machine.structure import (FETCH, IMMEDIATE, SEGMENTS, SHIPPED_STRUCTURE, Structure,
                                     Unit, UnitKind)
from compiler.errors import DEFECT, Error

__all__ = ["BASES", "BUFFERS", "CONTROL", "DESTINATIONS", "DMA", "FORMATS", "FULL_DMA", "GEMM",
           "HEADER", "LAYOUTS", "MINUS_ONE", "PACKED", "SOURCES_A", "SOURCES_B", "STREAM", "THREE",
           "VECTOR",
           "WIDE_DMA", "WIDE_VECTOR", "WORD_BITS", "WORD_BYTES", "InstructionError", "decode",
           "encode", "formats", "selectors", "unit_mask", "units_of"]

WORD_BITS = 512
WORD_BYTES = WORD_BITS // 8

BASES = SEGMENTS
"""Base registers, in the order of their code in the `base` field."""


def selectors(unit: Unit) -> dict[str, tuple[str, ...]]:
    """The selectors in the words of a unit of elements: for each the memories that it chooses
    among, in the order of their codes."""
    if unit.kind is UnitKind.STREAM:
        return {"a_source": unit.at("a")}
    return {"a_source": unit.at("a"), "b_source": (*unit.at("b"), IMMEDIATE),
            "destination": unit.at("dst")}


SOURCES_A, SOURCES_B, DESTINATIONS = selectors(
    SHIPPED_STRUCTURE.unit(SHIPPED_STRUCTURE.roles.vector)).values()
"""Codes of the selectors of the shipped vector unit."""

_HEADER = {"opcode": 8, "waits": 8, "signals": 8}

HEADER = data.StructLayout({**_HEADER, "rest": WORD_BITS - 24})

_ADDRESSES = {"dst": 16, "a": 16, "b": 16}

_COMPUTE_LOOP = data.StructLayout({"extent": 16, **_ADDRESSES})

_DMA_LOOP = data.StructLayout({"extent": 16, "dram": signed(32), "buffer": 24,
                               "before": 12, "after": 12})


def _word(fields: Mapping[str, Any]) -> data.StructLayout:
    used = sum(Shape.cast(shape).width for shape in fields.values())
    if used > WORD_BITS:
        raise ValueError(f"Fields of an instruction must fit {WORD_BITS} bits, not take {used}")
    return data.StructLayout({**fields, "reserved": WORD_BITS - used})


GEMM = _word({**_HEADER, "banks": 2, "reset": 1, "flags": 5, "base": data.StructLayout(_ADDRESSES),
              "loops": data.ArrayLayout(_COMPUTE_LOOP, 6)})
"""`a` addresses inp, `b` addresses wgt. `banks` is the set of acc banks that dst touches."""


@cache
def _vector(bits: int, three: bool = False) -> data.StructLayout:
    return _word({**_HEADER, "banks": 2, "reset": 1, "a_source": 1, "b_source": 2,
                  "destination": 1, "flags": 1, "base": data.StructLayout(_ADDRESSES),
                  "loops": data.ArrayLayout(_COMPUTE_LOOP, 5),
                  "imm": signed(32), "ma": 16, "mb": 16, "s": 6,
                  "zp": signed(8), "lo": signed(bits), "hi": signed(bits),
                  **({"c": 16} if three else {})})


VECTOR = _vector(8)
"""Selectors index `SOURCES_A`, `SOURCES_B`, `DESTINATIONS`."""

WIDE_VECTOR = _vector(16)
"""Vector instructions of machines whose out has elements of 16 bits, as `lo` and `hi` have."""

THREE = _vector(8, True)
"""Vector instructions of machines with a body of three addressed operands: as `VECTOR`, and `c` is
the entry of the third, which no loop moves. `WIDE_VECTOR` has no bits left for it."""


_STREAM_LOOP = data.StructLayout({"extent": 16, "dst": 16, "a": 16})

STREAM = _word({**_HEADER, "a_source": 3, "entries": 5, "base": data.StructLayout(_ADDRESSES),
                "loops": data.ArrayLayout(_STREAM_LOOP, 5)})
"""The innermost loop is the row. `a_source` is the number of a port a of the unit. The table is
``2**entries`` entries, from `base.b` on."""


@cache
def _dma(packed: bool, wide: bool, many: bool = False) -> data.StructLayout:
    return _word({**_HEADER, "unused" if many else "buffer": 3, "base": 2,
                  **({"bits": 2, "flags": 1} if packed else {"flags": 3}),
                  "dram": 32, "address": 24, "run": 16, "pad_value": 8,
                  "loops": data.ArrayLayout(_DMA_LOOP, 4),
                  **({"pad_high": 8} if wide else {"between": 8} if many else {}),
                  **({"buffer": 4} if many else {})})


DMA = _dma(False, False)
"""`buffer` indexes `BUFFERS`, `base` indexes `BASES`, `dram` is the offset in bytes."""

PACKED = _dma(True, False)
"""Loads of machines whose weights may have fewer than 8 bits in memory: as `DMA`, and `bits`
indexes `WEIGHT_BITS`. With code c all addresses in the buffer, and `run`, count groups of 2**c
bytes: a byte of memory gives so many, its lowest bits the first, each extended by its sign."""

WIDE_DMA = _dma(False, True)
"""Loads of machines with elements of 16 bits: as `DMA`, and padding writes `pad_high` to odd
addresses of the buffer, `pad_value` to even ones."""

FULL_DMA = _dma(True, True)
"""Loads with every field that a machine may have; those that others have are at the same places,
but for `buffer` on machines of more than 8 buffers (`formats`)."""

CONTROL = _word(_HEADER)
"""Instructions that fetch itself performs."""

LAYOUTS = {UnitKind.LOAD: DMA, UnitKind.GEMM: GEMM, UnitKind.VECTOR: VECTOR, UnitKind.STORE: DMA,
           UnitKind.STREAM: STREAM}
"""Format of the instructions of a unit of each kind, on machines that need no other."""


def _by_unit(structure: Structure,
             layouts: Mapping[UnitKind, data.StructLayout]) -> dict[str, data.StructLayout]:
    return {FETCH: CONTROL} | {unit.name: layouts[unit.kind] for unit in structure.units}


FORMATS = _by_unit(SHIPPED_STRUCTURE, LAYOUTS)
"""Format of the instructions of each unit; `fetch` performs FINISH itself."""


def formats(config: AccelConfig, three: bool = False) -> Mapping[str, data.StructLayout]:
    """The formats of a machine's instructions; whether a body has three addressed operands. With
    more than 8 buffers, `buffer` has 4 bits behind all other fields of load and store."""
    loaded = config.structure.of_kind(UnitKind.LOAD)[0].writes
    wide = any(element_bytes(config.elements[buffer]) == 2 for buffer in loaded)
    many = len(config.structure.buffers) > 1 << DMA["buffer"].width
    return _by_unit(config.structure, LAYOUTS | {
        UnitKind.LOAD: _dma(config.weight_bits != WEIGHT_BITS[:1], wide, many),
        UnitKind.STORE: _dma(False, False, many),
        UnitKind.VECTOR: _vector(8 * element_bytes(config.output), three)})


MINUS_ONE = ("extent", "run")
"""Fields that are stored minus one."""


class InstructionError(Error, ValueError):
    """A field value that does not fit its instruction word."""

    exit_status = DEFECT


def unit_mask(units, names: Sequence[str] = UNITS) -> int:
    """Mask of a collection of units of a machine, whose units in order are `names`."""
    return sum(1 << names.index(unit) for unit in set(units))


def units_of(mask: int, names: Sequence[str] = UNITS) -> tuple[str, ...]:
    """Names of the units in a mask, in order."""
    return tuple(unit for index, unit in enumerate(names) if mask >> index & 1)


def encode(layout: data.Layout, fields: Mapping[str, Any]) -> int:
    """The word as an integer. Fields that are left out are 0 (extents and runs: 1).

    >>> word = encode(GEMM, {"opcode": 4, "base": {"dst": 3}, "loops": [{"extent": 9, "a": 1}]})
    >>> decode(GEMM, word)["loops"][0]["extent"]
    9
    """
    return _pack(_tree(layout), fields, "")


def decode(layout: data.Layout, word: int) -> dict[str, Any]:
    """The fields of a word: inverse of `encode`, with every field present."""
    fields = _unpack(_tree(layout), word)
    assert isinstance(fields, dict)
    return fields


@dataclass(frozen=True, slots=True)
class _Number:
    """A number of `width` bits; `minus` is subtracted before it is stored."""

    width: int
    signed: bool
    minus: int


@dataclass(frozen=True, slots=True)
class _Record:
    """Fields with their offsets in bits."""

    width: int
    fields: Mapping[str, "tuple[int, _Field]"]


@dataclass(frozen=True, slots=True)
class _List:
    """Equal elements at their offsets in bits."""

    width: int
    offsets: tuple[int, ...]
    element: "_Field"


_Field = _Number | _Record | _List

_trees: dict[int, tuple[data.Layout, _Field]] = {}


def _tree(layout: data.Layout) -> _Field:
    """A layout as plain numbers, built once because access to layouts is slow."""
    if id(layout) not in _trees:
        _trees[id(layout)] = layout, _field(layout, "")
    return _trees[id(layout)][1]


def _field(layout: ShapeCastable | Shape | Any, key: str) -> _Field:
    width = Shape.cast(layout).width
    if isinstance(layout, data.StructLayout | data.FlexibleLayout):
        return _Record(width, {name: (field.offset, _field(field.shape, name))
                               for name, field in layout})
    if isinstance(layout, data.ArrayLayout):
        return _List(width, tuple(field.offset for _, field in layout),
                     _field(layout.elem_shape, ""))
    return _Number(width, Shape.cast(layout).signed, int(key in MINUS_ONE))


def _pack(tree: _Field, value: Any, path: str) -> int:
    """The bits of a value. What it leaves out is stored as 0 everywhere."""
    match tree:
        case _Number(width, signed, minus):
            stored = int(value) - minus
            low = -(1 << (width - 1)) if signed else 0
            if not low <= stored < low + (1 << width):
                raise InstructionError(f"{path[1:]} must fit {width} bits, not be {int(value)}")
            return stored & ((1 << width) - 1)
        case _Record(_, fields):
            if unknown := value.keys() - fields.keys():
                raise InstructionError(f"Field must be one of the word's, not "
                                       f"{sorted(unknown)[0]!r}")
            return sum(_pack(fields[key][1], item, f"{path}.{key}") << fields[key][0]
                       for key, item in value.items())
        case _List(_, offsets, element):
            if len(value) > len(offsets):
                raise InstructionError(f"{path[1:]} must have at most {len(offsets)} elements, "
                                       f"not {len(value)}")
            return sum(_pack(element, item, f"{path}[{index}]") << offset
                       for index, (item, offset) in enumerate(zip(value, offsets, strict=False)))


def _unpack(tree: _Field, bits: int) -> Any:
    match tree:
        case _Number(width, signed, minus):
            if signed and bits >> (width - 1):
                bits -= 1 << width
            return bits + minus
        case _Record(_, fields):
            return {key: _unpack(field, bits >> offset & (1 << field.width) - 1)
                    for key, (offset, field) in fields.items()}
        case _List(_, offsets, element):
            return [_unpack(element, bits >> offset & (1 << element.width) - 1)
                    for offset in offsets]

