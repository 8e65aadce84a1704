"""Instruction words for C++: the header says of every field what `accel.machine.isa` does."""

import re
from random import Random

import pytest
from amaranth import Shape
from amaranth.lib import data

from accel.machine import isa
from accel.machine.layouts import layouts_header

FORMATS = {"control": isa.CONTROL, "dma": isa.FULL_DMA, "gemm": isa.GEMM, "vector": isa.THREE}
BITS = re.compile(r"constexpr Bits (\w+)\{(\d+), (\d+), (true|false), (\d)\};")
ARRAY = re.compile(r"constexpr int (\w+) = (\d+), \w+_pitch = (\d+);")


def parsed(name):
    """Fields and arrays of one namespace of the header."""
    body = layouts_header().partition(f"namespace {name} {{")[2].partition("\n}")[0]
    fields = {field: (int(offset), int(width), signed == "true", int(bias))
              for field, offset, width, signed, bias in BITS.findall(body)}
    return fields, {array: (int(length), int(pitch)) for array, length, pitch in
                    ARRAY.findall(body)}


def taken(word, offset, width, signed, bias):
    """What the header's `get` computes."""
    value = word >> offset & ((1 << width) - 1)
    return value - (signed and value >> (width - 1) << width) + bias


def flat(fields, prefix=""):
    """Names and values of the decoded fields, elements of arrays numbered."""
    for key, value in fields.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from flat(value, f"{name}_")
        elif isinstance(value, list):
            for index, element in enumerate(value):
                yield from ((f"{inner}[{index}]", v) for inner, v in flat(element, f"{name}_"))
        elif key != "reserved":
            yield name, value


@pytest.mark.parametrize("name", FORMATS)
def test_every_field_is_where_the_layout_has_it(name):
    fields, arrays = parsed(name)
    for seed in range(20):
        word = Random(seed).getrandbits(isa.WORD_BITS)
        found = {}
        for field, (offset, *rest) in fields.items():
            array = next((a for a in arrays if field.startswith(f"{a}_")), None)
            if array is None:
                found[field] = taken(word, offset, *rest)
                continue
            length, pitch = arrays[array]
            found |= {f"{field}[{i}]": taken(word, offset + i * pitch, *rest)
                      for i in range(length)}
        assert found == dict(flat(isa.decode(FORMATS[name], word)))


def test_every_field_can_be_taken_from_eight_bytes():
    for layout in FORMATS.values():
        for key, field in layout:
            shape = field.shape.elem_shape if isinstance(field.shape, data.ArrayLayout) else None
            parts = [inner.shape for _, inner in shape] if shape else [field.shape]
            assert key == "reserved" or all(Shape.cast(part).width <= 57 for part in parts)
