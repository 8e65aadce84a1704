"""Instruction words: round trips, what is refused, and the numbers that docs/machine.md gives."""

import re
from pathlib import Path

import numpy as np
import pytest
from amaranth.lib import data
from hypothesis import given
from hypothesis import strategies as st

from accel.machine import isa
from accel.machine.config import preset, preset_names
from accel.machine.intrinsics import IMMEDIATES
from accel.machine.machine import Machine
from tests.support.strategies import word_fields, words

LAYOUTS = {"control": isa.CONTROL, "dma": isa.DMA, "packed": isa.PACKED, "gemm": isa.GEMM,
           "vector": isa.VECTOR, "three": isa.THREE}
DOCS = (Path(__file__).parents[3] / "docs" / "machine.md").read_text(encoding="utf-8")

any_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


@any_layout
def test_words_have_512_bits(layout: data.Layout) -> None:
    assert layout.size == isa.WORD_BITS == 8 * isa.WORD_BYTES == 512


@pytest.mark.one_in(2)
@any_layout
@given(data=st.data())
def test_fields_survive_encoding(layout: data.Layout, data) -> None:
    fields = data.draw(word_fields(layout))
    word = isa.encode(layout, fields)
    assert 0 <= word < 1 << 512
    decoded = isa.decode(layout, word)
    assert decoded.pop("reserved") == 0
    assert decoded == fields


@any_layout
@given(word=words())
def test_words_survive_decoding(layout: data.Layout, word: int) -> None:
    assert isa.encode(layout, isa.decode(layout, word)) == word


def test_fields_lie_where_the_layout_says() -> None:
    assert isa.encode(isa.GEMM, {"opcode": 0xAB}) == 0xAB
    assert isa.encode(isa.GEMM, {"waits": 1, "signals": 2}) == 0x020100
    word = isa.encode(isa.DMA, {"loops": [{}, {}, {}, {"dram": -1}]})
    before = 24 + 3 + 2 + 3 + 32 + 24 + 16 + 8
    assert word == 0xFFFFFFFF << before + 3 * (16 + 32 + 24 + 24) + 16


@pytest.mark.parametrize(("layout", "key"), [(isa.GEMM, "extent"), (isa.VECTOR, "extent"),
                                             (isa.DMA, "extent")])
def test_extents_are_stored_minus_one(layout: data.Layout, key: str) -> None:
    assert isa.encode(layout, {"loops": [{key: 1}]}) == isa.encode(layout, {}) == 0
    word = isa.encode(layout, {"loops": [{key: 1 << 16}]})
    assert word & -word == (word + (word & -word)) >> 16            # sixteen ones in a row
    assert isa.decode(layout, 0)["loops"][0][key] == 1


def test_runs_are_stored_minus_one() -> None:
    assert isa.encode(isa.DMA, {"run": 1}) == 0
    assert isa.encode(isa.DMA, {"run": 1 << 16}) == 0xFFFF << isa.DMA["run"].offset
    assert isa.decode(isa.DMA, 0)["run"] == 1


def refused(message: str, layout: data.Layout, fields: dict) -> None:
    with pytest.raises(isa.InstructionError) as refusal:
        isa.encode(layout, fields)
    assert str(refusal.value) == message


def test_a_value_that_does_not_fit_is_refused() -> None:
    refused("opcode must fit 8 bits, not be 256", isa.GEMM, {"opcode": 256})
    refused("zp must fit 8 bits, not be 128", isa.VECTOR, {"zp": 128})
    refused("zp must fit 8 bits, not be -129", isa.VECTOR, {"zp": -129})
    refused("dram must fit 32 bits, not be -1", isa.DMA, {"dram": -1})
    refused("run must fit 16 bits, not be 0", isa.DMA, {"run": 0})
    refused("run must fit 16 bits, not be 65537", isa.DMA, {"run": 65537})
    refused("base.dst must fit 16 bits, not be 65536", isa.GEMM, {"base": {"dst": 1 << 16}})
    refused("loops[1].extent must fit 16 bits, not be 0", isa.GEMM, {"loops": [{}, {"extent": 0}]})
    refused("loops[0].dram must fit 32 bits, not be 2147483648", isa.DMA,
            {"loops": [{"dram": 1 << 31}]})


def test_an_unknown_field_is_refused() -> None:
    refused("Field must be one of the word's, not 'colour'", isa.GEMM, {"colour": 1})
    refused("Field must be one of the word's, not 'dram'", isa.GEMM, {"loops": [{"dram": 1}]})


def test_too_many_loops_are_refused() -> None:
    refused("loops must have at most 4 elements, not 5", isa.DMA, {"loops": [{}] * 5})


@given(st.sets(st.sampled_from(("load", "gemm", "vector", "store"))))
def test_masks_of_units(units: set[str]) -> None:
    mask = isa.unit_mask(units)
    assert set(isa.units_of(mask)) == units
    assert isa.unit_mask(("load",)) == 1 and isa.unit_mask(("store", "store")) == 8
    assert isa.units_of(15) == ("load", "gemm", "vector", "store")


@pytest.mark.parametrize("name", preset_names())
def test_every_address_of_a_preset_fits_its_field(name: str) -> None:
    buffers = preset(name).buffers.values()
    for buffer in buffers:
        isa.encode(isa.GEMM, {"base": dict.fromkeys(("dst", "a", "b"), buffer.depth - 1)})
        isa.encode(isa.DMA, {"address": buffer.size_bytes - 1})


def test_every_immediate_fits_its_field() -> None:
    for name, immediate in IMMEDIATES.items():
        for value in (immediate.low, immediate.high):
            word = isa.encode(isa.VECTOR, {name: value})
            assert isa.decode(isa.VECTOR, word)[name] == value


def documented(pattern: str) -> list[str]:
    found = re.search(pattern.replace(" ", r"\s+"), DOCS, re.DOTALL)
    assert found, f"docs/machine.md must say {pattern!r}"
    return list(found.groups())


def test_the_page_gives_the_same_numbers() -> None:
    words_ = {"four": 4, "five": 5, "six": 6}
    assert documented(r"(\d+) bits, little-endian in memory") == [str(isa.WORD_BITS)]
    for name, layout, pattern in (("gemm", isa.GEMM, r"\*\*gemm\*\*: (\w+) loops"),
                                  ("vector", isa.VECTOR, r"\*\*vector\*\*: (\w+) loops"),
                                  ("load", isa.DMA, r"\*\*load, store\*\*: (\w+) loops")):
        (count,) = documented(pattern)
        assert words_[count] == layout["loops"].shape.length
        machine = Machine(preset("tiny-1x4x4"))
        assert machine.intrinsic(name if name != "vector" else "add").loops == words_[count]
    (entries, bytes_, dram) = (documented(pattern)[0] for pattern in (
        r"Entry addresses are computed modulo 2\^(\d+)", r"a byte address in `buffer`, modulo "
        r"2\^(\d+)", r"DRAM addresses are modulo 2\^(\d+)"))
    assert isa.GEMM["base"].shape["a"].width == int(entries)
    assert isa.DMA["address"].width == int(bytes_)
    assert isa.DMA["dram"].width == int(dram)
    assert documented(r"\((program, weights, activations, io)\)") == [", ".join(isa.BASES)]
    (list_,) = documented(r"Immediates: ([^.]*)\.\n")
    assert re.findall(r"`(\w+)`", list_) == list(IMMEDIATES)
    assert documented(r"There is one (\d+)-bit counter") == ["8"]


def test_the_page_gives_the_layout_of_parameters() -> None:
    from accel.machine.config import PARAM_BYTES
    from compiler.ops.integers.arithmetic import PARAM
    from compiler.te import numpy_dtype, record_fields

    assert numpy_dtype(PARAM).itemsize == PARAM_BYTES
    assert documented(r"one record a channel: (.*), one byte unused") == [
        ", ".join(f"{name} {dtype}" for name, dtype in record_fields(PARAM).items())]
    record = np.zeros(1, numpy_dtype(PARAM))
    record["bias"], record["mult"], record["shift"] = 1, 2, 3
    assert record.view(np.uint8).tolist() == [1, 0, 0, 0, 2, 0, 3, 0]
