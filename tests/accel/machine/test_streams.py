"""Declarations of stream units: what they are part of, and what is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from accel.machine import isa
from accel.machine.config import ConfigError, preset
from accel.machine.intrinsics import SHIPPED, stream_op, vector_op
from accel.machine.machine import Machine
from accel.machine.program import Instruction, disassemble
from accel.machine.structure import SHIPPED_STRUCTURE, BufferRecord, Structure, StructureError
from compiler.tensorize import Immediate
from tests.support.streams import (MORE, TILE, Raise, Reverse, machine_of, picks_of, raised,
                                   reversed_rows, row_instruction)

MACHINE = machine_of()
STRUCTURE = MACHINE.structure


def declared(*declarations) -> Machine:
    """The machine of `machine_of` with other instructions of its unit."""
    return Machine(MACHINE.config, SHIPPED + declarations)


def op(component=Reverse, meaning=reversed_rows, **options):
    return stream_op("own", "turn", component, meaning, **options)


# ---- what follows from a declaration -----------------------------------------------------------

def test_words_have_rows_and_immediates_of_their_own() -> None:
    one = row_instruction(MACHINE, "raise_by", 2, 3, {"a": 5, "dst": 7}, more=-9)
    word = one.encode(MACHINE)
    assert disassemble(Instruction.decode(MACHINE, word)) == (
        "raise_by a_source=res dst=7 a=5 b=0 more=-9 [2x dst+3 a+3] [3x dst+1 a+1]")
    assert isa.encode(MACHINE.layouts["raise_by"], {"more": -1}) == 0xFF << 320


def test_a_kind_means_its_first_unit() -> None:
    machine = declared(stream_op("own", "stream", Reverse, reversed_rows))
    assert machine.unit_of("own") == "turn"


def test_with_stream_loads_what_is_read_and_stores_what_is_written() -> None:
    structure = picks_of().structure
    assert structure.unit("load").writes[-1:] == ("places",)
    assert structure.unit("store").reads == ("out", "picked")
    assert structure.unit("pick").at("a") == ("res", "places")


def test_forms_of_load_and_store_have_the_types_of_further_buffers() -> None:
    structure = SHIPPED_STRUCTURE.with_stream("turn", [("a", "wide"), ("dst", "turned")], [
        BufferRecord("wide", (4,), "int32", 1024), BufferRecord("turned", (2,), "uint16", 1024)])
    machine = Machine(replace(MACHINE.config, structure=structure),
                      (*SHIPPED, op(meaning=lambda rows: rows[..., :2])))
    assert [form.dst.storage for form in machine.forms["load"]][-3:] == [
        (("wide", "int32"),)] * 2 + [(("par", "param"),)]
    assert [form.operands[0].storage for form in machine.forms["store"]] == [
        (("out", "int8"),), (("turned", "uint16"),)]
    assert machine.config.buffers["turned"].entry_bytes == 4
    assert machine.forms["own"][0].shape.a == ((4,), "int32")


class Larger(Reverse):
    """Another netlist."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.submodules.other = Other()
        return m


class Other(wiring.Component):
    """A part that nothing needs."""

    def __init__(self):
        super().__init__({"o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.o.eq(~self.o)
        return m


def test_hashes_cover_component_meaning_fields_and_longest() -> None:
    machines = [declared(one) for one in (
        op(), op(Larger), op(meaning=lambda rows: np.negative(rows)), op(longest=5),
        op(Raise, raised, fields=MORE), op(Raise, raised, fields=(Immediate(
            "more", "int8", -64, 63),)))]
    assert len({machine.hash for machine in machines}) == len(machines)
    assert declared(op()).hash == machines[0].hash


def scaled(by: int):
    def meaning(rows):
        return rows * by

    return meaning


def test_hashes_cover_numbers_from_around_a_meaning() -> None:
    assert declared(op(meaning=scaled(2))).hash != declared(op(meaning=scaled(3))).hash


def test_a_renamed_machine_is_the_same_with_other_names() -> None:
    renamed = machine_of(turn="mirror", turned="faces", res="tiles", load="reader")
    assert renamed.units[renamed.opcodes["reverse"]] == "mirror"
    one, other = (row_instruction(machine, "reverse", 2, 3, {}, source=source).encode(machine)
                  for machine, source in ((MACHINE, "res"), (renamed, "tiles")))
    assert one == other
    assert renamed.structure.shape == MACHINE.structure.shape


# ---- what is refused ---------------------------------------------------------------------------

class Lacking(wiring.Component):
    def __init__(self, shape):
        super().__init__({"i": shape.members["i"]})

    def elaborate(self, platform):
        return Module()


class Narrow(wiring.Component):
    def __init__(self, shape):
        super().__init__(replace(shape, dst=((1,), "int8")).members)

    def elaborate(self, platform):
        return Module()


class More(wiring.Component):
    def __init__(self, shape):
        super().__init__({**shape.members, "extra": Out(1)})

    def elaborate(self, platform):
        return Module()


def wide(rows, big):
    return rows


def sums(rows):
    return rows.sum(axis=1)


def floats(rows):
    return rows / 2


def without_rows(table):
    return table


REFUSED = {
    "Component of own must have the member o as Out(stream.Signature(StructLayout({'data': 32, "
    "'last': 1}))), not as none": lambda: op(Lacking),
    "Component of own must have the member o as Out(stream.Signature(StructLayout({'data': 32, "
    "'last': 1}))), not as Out(stream.Signature(StructLayout({'data': 8, 'last': 1})))":
        lambda: op(Narrow),
    "Component of own must have the members i, o, as the unit has, not extra": lambda: op(More),
    "Component of own must be an Amaranth Component": lambda: op(lambda shape: shape),
    "Component of own must be a class or a function of the shape, not 5": lambda: op(5),
    "Meaning of own must give the shape (2, 3, 1, 4) for rows of (2, 3, 1, 4), not (2, 1, 4)":
        lambda: op(meaning=sums),
    "Meaning of own must give an array of integers, not float64": lambda: op(meaning=floats),
    "Meaning of own must have the parameters rows, not table": lambda: op(meaning=without_rows),
    "Meaning of own must have the parameters rows, more, not rows":
        lambda: op(Raise, reversed_rows, fields=MORE),
    "Meaning of own must be a function, not a ufunc: its source is part of the machine":
        lambda: op(meaning=np.negative),
    "Meaning of own must have numbers and texts alone from around it, not by: its source is part "
    "of the machine": lambda: op(meaning=scaled([2])),
    "Longest row of own must have 1 to 65536 entries, as its loop has, not 0":
        lambda: op(longest=0),
    "Longest row of own must have 1 to 65536 entries, as its loop has, not 65537":
        lambda: op(longest=65537),
    "Immediate base of own must have another name, as words have a field base":
        lambda: op(Reverse, lambda rows, base: rows, fields=(
            Immediate("base", "int8", -128, 127),)),
    "Immediate rows of own must have another name, as words have a field rows":
        lambda: op(fields=(Immediate("rows", "int8", -128, 127),)),
    "Immediate big of own must be from -128 to 127, all numbers of its field, not from -100 to 100":
        lambda: op(Reverse, wide, fields=(Immediate("big", "int8", -100, 100),)),
    "Unit of own must be of kind stream, not vector, which is of kind vector":
        lambda: stream_op("own", "vector", Reverse, reversed_rows),
    "Unit of own must be of kind vector, not turn, which is of kind stream":
        lambda: vector_op("own", lambda a: a, unit="turn"),
    "Fields of own must be a tuple of Immediate, not ('more',)": lambda: op(fields=("more",)),
    "Instruction own must be declared once": None,
}


@pytest.mark.parametrize("message", REFUSED)
def test_declarations_are_refused_with_the_reason(message: str) -> None:
    make = REFUSED[message]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        declared(*((op(), op()) if make is None else (make(),)))


def test_a_word_has_room_for_192_bits() -> None:
    fields = tuple(Immediate(name, "int32", -(1 << 31), (1 << 31) - 1) for name in "stuvwxy")
    assert declared(op(Reverse, lambda rows, s, t, u, v, w, x: rows, fields=fields[:6]))
    with pytest.raises(ConfigError, match="^Immediate y of own must fit its word: it takes 32 "
                                          "bits, and 0 in a row are free in words that have it$"):
        declared(op(Reverse, lambda rows, s, t, u, v, w, x, y: rows, fields=fields))


def test_a_meaning_without_a_source_is_refused() -> None:
    known: dict = {"__name__": "nowhere"}
    exec("def meaning(rows): return rows", known)
    with pytest.raises(ConfigError, match="^Meaning of own must be in a file: its source is part "
                                          "of the machine$"):
        declared(op(meaning=known["meaning"]))


def test_a_unit_without_an_instruction_is_refused() -> None:
    with pytest.raises(ConfigError, match="^Machine must have an instruction of turn: there is no "
                                          "unit that does nothing$"):
        Machine(MACHINE.config, SHIPPED)


def test_a_machine_without_stream_units_refuses_their_instructions() -> None:
    with pytest.raises(ConfigError, match="^Unit of own must be one of load, gemm, vector, store, "
                                          "not 'stream'$"):
        Machine(preset("tiny-1x4x4"), (*SHIPPED, stream_op("own", "stream", Reverse,
                                                           reversed_rows)))


OUT = BufferRecord("turned", TILE, "output", 512)
STRUCTURES = {
    "Unit turn must have a port dst: instructions of kind stream need it":
        ([("a", "res")], []),
    "Unit turn must have a port a: instructions of kind stream need it":
        ([("dst", "turned")], [OUT]),
    "Unit turn must have one port table, not at inp and wgt: no word of a stream unit selects "
    "among them": ([("a", "res"), ("table", "inp"), ("table", "wgt"), ("dst", "turned")], [OUT]),
    "Unit turn must have one port dst, not at turned and other: no word of a stream unit selects "
    "among them": ([("a", "res"), ("dst", "turned"), ("dst", "other")],
                   [OUT, replace(OUT, name="other")]),
    "Port b of unit turn must be one of a, table, dst: a unit of kind stream has no other operand":
        ([("a", "res"), ("b", "inp"), ("dst", "turned")], [OUT]),
    "Port table of unit turn must be at another buffer than res, which port a reads: a copy of a "
    "buffer has one port for reads":
        ([("a", "res"), ("table", "res"), ("dst", "turned")], [OUT]),
    "Unit turn must not use acc: instructions of kind stream name no banks":
        ([("a", "acc"), ("dst", "turned")], [OUT]),
    "Ports a of unit turn must be at buffers of equal entries, not output of batchxblock_out and "
    "weight of block_outxblock_in: a component takes one kind":
        ([("a", "res"), ("a", "wgt"), ("dst", "turned")], [OUT]),
    "Buffer out must have one unit that writes it, not vector and turn: it has one port for writes":
        ([("a", "res"), ("dst", "out")], []),
    "Buffer out must be between a unit that moves bytes and one that computes, not between vector "
    "and turn": ([("a", "out"), ("dst", "turned")], [OUT]),
    "Element of buffer turned must be one of operand, weight, accumulator, output, param, int8, "
    "uint8, int16, uint16, int32, uint32, float16, bfloat16, float32, not 'int7'":
        ([("a", "res"), ("dst", "turned")], [replace(OUT, element="int7")]),
    "Element of buffer turned must not be accumulator: sums are in no memory, so none are loaded "
    "or stored": ([("a", "res"), ("dst", "turned")], [replace(OUT, element="accumulator")]),
    "Shape of buffer turned must have batch, block_in, block_out and positive numbers, not 0: an "
    "entry has elements":
        ([("a", "res"), ("dst", "turned")], [replace(OUT, shape=(0,))]),
}


@pytest.mark.parametrize("message", STRUCTURES)
def test_structures_are_refused_with_the_reason(message: str) -> None:
    ports, buffers = STRUCTURES[message]
    with pytest.raises(StructureError, match=f"^{re.escape(message)}$"):
        SHIPPED_STRUCTURE.with_stream("turn", ports, buffers)


@pytest.mark.parametrize(("size", "rule"), [
    (-1, "one of inp_bytes, wgt_bytes, res_bytes, par_bytes, acc_bytes, out_bytes, tab_bytes, or "
         "a number of bytes"),
    (8, "at least 4 entries of 4 bytes (of which half are in use while half are filled)"),
    (1 << 25, "at most 65536 entries of 4 bytes (entry addresses have 16 bits)")])
def test_sizes_of_further_buffers_are_refused(size: int, rule: str) -> None:
    structure = SHIPPED_STRUCTURE.with_stream(
        "turn", [("a", "res"), ("dst", "turned")], [replace(OUT, size=size)])
    message = f"Size of buffer turned must be {rule}, not {size}"
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        replace(preset("tiny-1x4x4"), structure=structure)


def test_records_of_structures_go_through_plain_data() -> None:
    assert Structure.of(STRUCTURE.plain) == STRUCTURE
