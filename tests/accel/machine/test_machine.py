"""Machines: opcodes, forms, refusals."""

from dataclasses import replace

import pytest

from accel.machine.config import ConfigError, preset
from accel.machine.intrinsics import SHIPPED, instructions, stream_op, vector_op
from accel.machine.machine import FINISH, Machine
from tests.support.streams import Reverse, reversed_rows
from tests.support.streams import machine_of as streams

TINY = preset("tiny-1x4x4")
MACHINE = Machine(TINY)


def test_opcodes_follow_the_order_of_declaration() -> None:
    extra = vector_op("extra", lambda a: a)
    machine = Machine(TINY, (*SHIPPED, extra))
    names = ["finish", *(declaration.name for declaration in SHIPPED), "extra"]
    assert list(machine.opcodes.items()) == [(name, 1 + at) for at, name in enumerate(names)]
    assert machine.names == {code: name for name, code in machine.opcodes.items()}
    assert 0 not in machine.names and machine.names[FINISH] == "finish"


def test_the_shipped_opcodes_stay() -> None:
    """Programs and recordings outlive a version: the list is append-only."""
    assert list(MACHINE.opcodes) == [
        "finish", "load", "store", "gemm", "add", "sub", "max", "min", "mul", "shr", "clamp",
        "copy", "requantize", "add_scaled", "reduce_add", "reduce_max", "reduce_min",
        "lookup"]


def test_stream_units_keep_their_instructions_without_other_own_ones() -> None:
    """Also one that has the name of a shipped instruction."""
    own = (vector_op("extra", lambda a: a), stream_op("copy", "turn", Reverse, reversed_rows))
    rest = tuple(one for one in SHIPPED if one.name != "copy")
    machine = Machine(streams().config, (*rest, *own))
    found = machine.with_shipped
    assert list(found.opcodes) == ["finish", *(one.name for one in rest), "copy"]
    assert found.units[found.opcodes["copy"]] == "turn"


def test_units() -> None:
    assert {MACHINE.names[code]: unit for code, unit in MACHINE.units.items()} == {
        "finish": "fetch", "load": "load", "store": "store", "gemm": "gemm",
        **{one.name: "vector" for one in MACHINE.of_unit("vector")}}
    assert [one.name for one in MACHINE.of_unit("gemm")] == ["gemm"]
    assert len(MACHINE.of_unit("vector")) == 14


def test_forms_share_name_and_unit() -> None:
    assert [len(MACHINE.forms[name]) for name in ("load", "store", "gemm")] == [3, 1, 1]
    for name, forms in MACHINE.forms.items():
        assert {(form.name, form.unit) for form in forms} == {(name, forms[0].unit)}
        assert MACHINE.intrinsic(name) is forms[0]


@pytest.mark.parametrize(("inp", "wgt", "stored"), [
    ("int16", "int8", "int16"), ("int8", "int16", "int8"), ("uint8", "int8", "int8"),
    ("uint16", "uint16", "int16")])
def test_types_follow_the_declaration(inp, wgt, stored) -> None:
    """Entries, words, load and store are those of the types that gemm and vector declare."""
    machine = Machine(TINY, instructions(inp, wgt, stored))
    sizes = {"inp": 4 * int(inp[-2:].strip("t")) // 8, "wgt": 16 * int(wgt[-2:].strip("t")) // 8,
             "res": 4 * int(stored[-2:].strip("t")) // 8, "acc": 16}
    assert {name: machine.config.buffers[name].entry_bytes for name in sizes} == sizes
    assert machine.config.buffers["out"] == replace(machine.config.buffers["res"], name="out",
                                                    depth=1024 // sizes["res"])
    assert {scope: dtype for form in machine.forms["load"] for scope, dtype in form.dst.storage
            } == {"inp": inp, "wgt": wgt, "res": stored, "tab": "int8", "par": "param"}
    assert machine.intrinsic("store").dst.dtype == stored
    assert [*machine.opcodes] == [*MACHINE.opcodes] and machine.hash != MACHINE.hash
    wide = {name: "pad_high" in dict(machine.formats[name]) for name in ("load", "store")}
    assert wide == {"load": "16" in inp + wgt + stored, "store": False}
    assert (machine.formats["vector"]["lo"].width == 16) == (stored == "int16")


def test_a_machine_of_another_machines_geometry_has_its_own_types() -> None:
    wide = Machine(TINY, instructions("int16", "int16", "int16"))
    assert Machine(wide.config) == MACHINE
    assert wide.record.difference(MACHINE.record) == (
        "operand is int16, not int8, output is int16, not int8, weight is int16, not int8, words "
        "of load have another layout, words of vector have another layout")


def test_packed_weights_are_of_8_bits() -> None:
    config = replace(TINY, weight_bits=(8, 4))
    assert Machine(config, instructions("int16")).config.weight_bits == (8, 4)
    with pytest.raises(ConfigError, match=r"^weight_bits must be \[8\] where weights are int16: "
                                          r"load unpacks to int8, not \(8, 4\)$"):
        Machine(config, instructions(wgt="int16"))


def test_buffers_must_hold_entries_of_the_declared_types() -> None:
    Machine(replace(TINY, wgt_bytes=64))
    with pytest.raises(ConfigError, match="^wgt_bytes must be at least 4 entries of 32 bytes "
                                          r"\(of which half are in use while half are filled\), "
                                          "not 64$"):
        Machine(replace(TINY, wgt_bytes=64), instructions(wgt="int16"))


def test_a_name_is_declared_once() -> None:
    with pytest.raises(ValueError, match=r"^Instruction max must be declared once$"):
        Machine(TINY, (*SHIPPED, vector_op("max", lambda a: a)))


def test_opcodes_have_eight_bits() -> None:
    many = tuple(vector_op(f"v{i}", lambda a: a) for i in range(255))
    assert max(Machine(TINY, (*SHIPPED, *many)[:254]).names) == 255
    message = r"^Declarations must be at most 254 \(8-bit opcodes\), not 255$"
    with pytest.raises(ValueError, match=message):
        Machine(TINY, (*SHIPPED, *many)[:255])
