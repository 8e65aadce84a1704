"""Instruction words as a C++ header: what `accel.machine.isa` declares, for native simulators.

Each format is a namespace of `Bits`; an array gives its first element, and the names of its
number of elements and of their distance in bits::

    namespace gemm {
    constexpr Bits base_a{48, 16, false, 0};
    constexpr int loops = 6, loops_pitch = 64;
    constexpr Bits loops_extent{80, 16, false, 1};
    }
"""

from collections.abc import Iterator

from amaranth import Shape
from amaranth.lib import data

from accel.machine import isa
from accel.machine.config import WEIGHT_BITS, AccelConfig

_NAMES = {"control": isa.CONTROL, "dma": isa.FULL_DMA, "gemm": isa.GEMM, "vector": isa.THREE}

_PROLOGUE = """\
#pragma once
#include <cstdint>
#include <cstring>

// Instruction words, generated from accel/machine/isa.py.
namespace word {

constexpr int BYTES = %d;

struct Bits {
    int offset, width;
    bool is_signed;
    int bias;               // extents and runs are stored minus one
};

// A field of a word that is followed by at least seven readable bytes.
inline int64_t get(const uint8_t *word, Bits field, int distance = 0) {
    int first = field.offset + distance;
    uint64_t bits;
    std::memcpy(&bits, word + first / 8, 8);
    int unused = 64 - field.width;
    bits = bits >> (first %% 8) << unused;
    return (field.is_signed ? int64_t(bits) >> unused : int64_t(bits >> unused)) + field.bias;
}
"""


def weight_codes(config: AccelConfig) -> int:
    """The codes that the field `bits` of a load may have, as a mask; 0: loads have no such field.
    """
    codes = sum(1 << WEIGHT_BITS.index(bits) for bits in config.weight_bits)
    return codes if config.weight_bits != WEIGHT_BITS[:1] else 0


def layouts_header() -> str:
    """The text of the header; little-endian machines only."""
    lines = [_PROLOGUE % isa.WORD_BYTES]
    for name, layout in _NAMES.items():
        lines += [f"namespace {name} {{", *_constants(layout, "", 0), "}\n"]
    return "\n".join([*lines, "}  // namespace word", ""])


def _constants(layout, prefix: str, base: int) -> Iterator[str]:
    for key, field in layout:
        name, offset = f"{prefix}{key}", base + field.offset
        match field.shape:
            case data.StructLayout():
                yield from _constants(field.shape, f"{name}_", offset)
            case data.ArrayLayout(elem_shape=data.StructLayout() as element, length=length):
                pitch = Shape.cast(element).width
                yield f"constexpr int {name} = {length}, {name}_pitch = {pitch};"
                yield from _constants(element, f"{name}_", offset)
            case shape:
                bits = Shape.cast(shape)
                if key != "reserved":
                    bias = int(key in isa.MINUS_ONE)
                    yield (f"constexpr Bits {name}{{{offset}, {bits.width}, "
                           f"{str(bits.signed).lower()}, {bias}}};")
