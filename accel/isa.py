"""Instruction words: 512 bits, declared once as Amaranth layouts.

Encoder, decoder, disassembler, simulators and hardware all use the layouts in this module. Field
widths do not depend on the geometry. Three formats share a header::

    header   opcode 8 | waits 8 | signals 8        (masks: bit i is unit i of `UNITS`)
    dma      load, store: four loops around a run of contiguous bytes
    gemm     six loops, three operands
    vector   five loops, three operands, immediates

An extent and the length of a run are stored **minus one**, so no code is illegal. Buffer addresses
count entries (DMA: bytes) and are computed modulo 2**16 (DMA: 2**24); DRAM addresses are
``base register + offset``, modulo 2**32, in bytes.

A DMA iteration is *padding* when the index i of some loop has ``i < before`` or
``i >= extent - after``: then the run is filled with `pad_value` and no memory is read. The offset
counts from the address that iteration (0, 0, 0, 0) would have, padding or not.
"""

from collections.abc import Mapping
from typing import Any

from amaranth import Shape, ShapeCastable, signed, unsigned
from amaranth.lib import data

from accel.config import BUFFERS, UNITS

__all__ = ["BASES", "BUFFERS", "CONTROL", "DESTINATIONS", "DMA", "FORMATS", "GEMM", "HEADER",
           "MINUS_ONE", "SOURCES_A", "SOURCES_B", "VECTOR", "WORD_BITS", "WORD_BYTES",
           "InstructionError", "decode", "encode", "unit_mask", "units_of"]

WORD_BITS = 512
WORD_BYTES = WORD_BITS // 8

BASES = ("program", "weights", "activations", "io")
"""Base registers, in the order of their code in the `base` field."""

SOURCES_A = ("acc", "res")
SOURCES_B = ("acc", "res", "par", "imm")
DESTINATIONS = ("acc", "out")
"""Codes of the vector operand selectors."""

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

VECTOR = _word({**_HEADER, "banks": 2, "reset": 1, "a_source": 1, "b_source": 2, "destination": 1,
                "flags": 1, "base": data.StructLayout(_ADDRESSES),
                "loops": data.ArrayLayout(_COMPUTE_LOOP, 5),
                "imm": signed(32), "ma": 16, "mb": 16, "s": 6,
                "zp": signed(8), "lo": signed(8), "hi": signed(8)})
"""Selectors index `SOURCES_A`, `SOURCES_B`, `DESTINATIONS`."""

DMA = _word({**_HEADER, "buffer": 3, "base": 2, "flags": 3, "dram": 32, "address": 24, "run": 16,
             "pad_value": 8, "loops": data.ArrayLayout(_DMA_LOOP, 4)})
"""`buffer` indexes `BUFFERS`, `base` indexes `BASES`, `dram` is the offset in bytes."""

CONTROL = _word(_HEADER)
"""Instructions that fetch itself performs."""

FORMATS = {"fetch": CONTROL, "load": DMA, "gemm": GEMM, "vector": VECTOR, "store": DMA}
"""Format of the instructions of each unit; `fetch` performs FINISH itself."""

MINUS_ONE = ("extent", "run")
"""Fields that are stored minus one."""


class InstructionError(ValueError):
    """A field value that does not fit its instruction word."""


def unit_mask(units) -> int:
    """Mask of a collection of unit names."""
    return sum(1 << UNITS.index(unit) for unit in set(units))


def units_of(mask: int) -> tuple[str, ...]:
    """Names of the units in a mask, in order."""
    return tuple(unit for index, unit in enumerate(UNITS) if mask >> index & 1)


def encode(layout: data.Layout, fields: Mapping[str, Any]) -> int:
    """The word as an integer. Fields that are not given are 0 (extents and runs: 1).

    >>> word = encode(GEMM, {"opcode": 4, "base": {"dst": 3}, "loops": [{"extent": 9, "a": 1}]})
    >>> decode(GEMM, word)["loops"][0]["extent"]
    9
    """
    return _pack(layout, fields, "")


def _pack(layout: ShapeCastable | Shape | Any, value: Any, path: str) -> int:
    if isinstance(layout, data.StructLayout):
        if unknown := set(value) - {key for key, _ in layout}:
            raise InstructionError(f"Field must be one of the word's, not {sorted(unknown)[0]!r}")
        return sum(_pack(field.shape, value.get(key, _default(field.shape, key)), f"{path}.{key}")
                   << field.offset for key, field in layout)
    if isinstance(layout, data.ArrayLayout):
        if len(value) > layout.length:
            raise InstructionError(f"{path[1:]} must have at most {layout.length} elements, "
                                   f"not {len(value)}")
        filled = list(value) + [{}] * (layout.length - len(value))
        return sum(_pack(layout.elem_shape, item, f"{path}[{index}]") << field.offset
                   for index, (item, (_, field)) in enumerate(zip(filled, layout, strict=True)))
    shape = Shape.cast(layout)
    stored = int(value) - (path.rpartition(".")[2] in MINUS_ONE)
    low = -(1 << (shape.width - 1)) if shape.signed else 0
    if not low <= stored < low + (1 << shape.width):
        raise InstructionError(f"{path[1:]} must fit {shape.width} bits, not be {int(value)}")
    return stored & ((1 << shape.width) - 1)


def _default(shape, key: str):
    if isinstance(shape, data.StructLayout):
        return {}
    if isinstance(shape, data.ArrayLayout):
        return []
    return 1 if key in MINUS_ONE else 0


def decode(layout: data.Layout, word: int) -> dict[str, Any]:
    """The fields of a word: inverse of `encode`, with every field present."""
    fields = _unpack(layout, word, "")
    assert isinstance(fields, dict)
    return fields


def _unpack(layout, bits: int, key: str):
    if isinstance(layout, data.StructLayout):
        return {name: _unpack(field.shape, _slice(bits, field), name) for name, field in layout}
    if isinstance(layout, data.ArrayLayout):
        return [_unpack(field.shape, _slice(bits, field), "") for _, field in layout]
    shape = Shape.cast(layout)
    if shape.signed and bits >> (shape.width - 1):
        bits -= 1 << shape.width
    return bits + (key in MINUS_ONE)


def _slice(bits: int, field: data.Field) -> int:
    return bits >> field.offset & ((1 << Shape.cast(field.shape).width) - 1)


assert unsigned(8).width >= len(UNITS) and len(BUFFERS) <= 8
