"""Immediates of one's own: where they lie in words, what reads them, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import lockstep
from accel.machine import isa
from accel.machine.immediates import fields_in
from accel.machine.intrinsics import SHIPPED, Declaration, vector_op
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, disassemble, finish
from accel.machine.rules import DeclarationError
from accel.machine.words import decode_words
from accel.mapping.target import AccelTarget
from accel.sim.meaning import functional
from accel.sim.timed import cycle
from compiler import te
from compiler.schedule import Schedule, ScheduleError
from compiler.te import Axis, Var
from compiler.tensorize import Immediate, Intrinsic, Operand
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import LONG, SHORT, TINY

SCALE = Immediate("scale", "int8", -128, 127)
POINT = Immediate("point", "uint8", 0, 15)
WIDE = Immediate("wide", "int32", -2**31, 2**31 - 1)
ZERO = Immediate("zero", "int16", -2**15, 2**15 - 1)

SCALED = vector_op("scaled", lambda a, b, scale, point: (
    a * scale.astype("int32") >> point.astype("int32")) + b, fields=(SCALE, POINT))
MIXED = vector_op("mixed", lambda a, scale, zp: a - scale.astype("int32") + zp.astype("int32"),
                  fields=(SCALE,))
WIDER = vector_op("wider", lambda a, wide, ma: (a ^ wide) + ma.astype("int32"), fields=(WIDE,))


def _centred(config):
    b, o = Axis(Var("b"), config.batch), Axis(Var("o"), config.block_out)
    i = te.reduce_axis(config.block_in, "i")
    x = te.placeholder((b.extent, i.extent), "int8", "inp")
    w = te.placeholder((o.extent, i.extent), "int8", "wgt")
    value = ((x[b.var, i.var].astype("int32") - ZERO.var.astype("int32"))
             * w[o.var, i.var].astype("int32"))
    return (Intrinsic(
        "centred", "gemm", Operand("dst", (b.extent, o.extent), "int32", (("acc", "int32"),)),
        (Operand("inp", x.shape, "int8", (("inp", "int8"),)),
         Operand("wgt", w.shape, "int8", (("wgt", "int8"),))),
        (b, o), te.sum(value, i), "sum", (ZERO,), loops=6),)


CENTRED = Declaration("centred", "gemm", _centred)
MACHINE = Machine(TINY.config, (*SHIPPED, SCALED, MIXED, WIDER, CENTRED))


def test_shipped_words_stay_as_they_are() -> None:
    for machine in (TINY, LONG):
        assert all(machine.layouts[name] is machine.formats[forms[0].unit]
                   for name, forms in machine.forms.items())
    assert all(MACHINE.layouts[name] == TINY.layouts[name] for name in TINY.forms)
    assert MACHINE.formats == TINY.formats


def test_they_lie_where_no_body_that_has_them_reads() -> None:
    """One place for all instructions of a unit; what a body takes stays in its place."""
    own = {name: field for unit in ("gemm", "vector")
           for name, field in MACHINE.immediates[unit].items()}
    assert list(own) == ["zero", "scale", "point", "wide"]
    assert (own["zero"].offset, own["zero"].width) == (dict(isa.GEMM)["reserved"].offset, 16)
    for name in ("scaled", "mixed", "wider", "centred"):
        fields, whole = fields_in(MACHINE.layouts[name]), dict(MACHINE.formats[
            MACHINE.intrinsic(name).unit])
        bits = [bit for field in fields.values()
                for bit in range(field.offset, field.offset + field.width)]
        assert len(bits) == len(set(bits)) and "reserved" not in fields
        for one in MACHINE.intrinsic(name).immediates:
            assert fields[one.name] == {**whole, **own}[one.name]
    assert "imm" in fields_in(MACHINE.layouts["scaled"])        # where b may be
    assert "imm" not in fields_in(MACHINE.layouts["wider"])


def test_words_are_decoded_as_they_were_encoded() -> None:
    stream = [
        Instruction("scaled", "vector", {"scale": -128, "point": 15, "imm": -5, "b_source": 3,
                                         "loops": [{"extent": 2, "dst": 1}]}),
        Instruction("mixed", "vector", {"scale": 127, "zp": -3}),
        Instruction("wider", "vector", {"wide": -2**31, "ma": 65535}),
        Instruction("centred", "gemm", {"zero": -2**15, "base": {"dst": 9}}),
        Instruction("add", "vector", {"imm": 7, "zp": 1, "ma": 3})]
    words = AccelProgram.assemble(MACHINE, [*stream, finish()]).words
    for one, other, raw in zip(stream, decode_words(MACHINE, words), words, strict=False):
        alone = Instruction.decode(MACHINE, int.from_bytes(raw.tobytes(), "little"))
        assert alone.fields == other.fields | {
            key: alone.fields[key] for key in alone.fields.keys() - other.fields.keys()}
        assert disassemble(other) == disassemble(one) == disassemble(alone)
        for key in ("scale", "point", "wide", "zero", "imm", "zp", "ma"):
            assert other.fields.get(key, 0) == one.fields.get(key, 0)
    assert disassemble(stream[1]).endswith("zp=-3 scale=127")


def test_a_number_beyond_the_field_is_refused() -> None:
    with pytest.raises(isa.InstructionError, match="^point must fit 4 bits, not be 16$"):
        Instruction("scaled", "vector", {"point": 16}).encode(MACHINE)
    with pytest.raises(isa.InstructionError, match="^Field must be one of the word's, not 'imm'$"):
        Instruction("wider", "vector", {"imm": 1}).encode(MACHINE)


ALL = vector_op("all", lambda a, b, ma, mb, s, zp, lo, hi, wish: a + b + sum(
    (one.astype("int32") for one in (ma, mb, s, zp, lo, hi, wish)), te.const(0, "int32")),
    fields=(Immediate("wish", "uint32", 0, (1 << 20) - 1),))

REFUSED = {
    "no room": (TINY, (ALL,), "Immediate wish of all must fit its word: it takes 20 bits, and 18 "
                              "in a row are free in words that have it"),
    "two meanings": (
        TINY, (SCALED, vector_op("other", lambda a, scale: a + scale.astype("int32"),
                                 fields=(replace(SCALE, dtype="uint8", low=0, high=255),))),
        "Immediate scale of other must be int8 from -128 to 127, as that of scaled is, not uint8 "
        "from 0 to 255"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case) -> None:
    machine, declarations, message = REFUSED[case]
    with pytest.raises(DeclarationError) as refused:
        Machine(machine.config, (*machine.declarations, *declarations))
    assert str(refused.value) == message


@pytest.mark.parametrize("declare, message", [
    (lambda: vector_op("own", lambda a: a, fields=(SCALE,)),
     "Field scale of own must be a parameter of its value"),
    (lambda: vector_op("own", lambda a, scale: a, fields=("scale",)),
     r"Fields of own must be a tuple of Immediate, not \('scale',\)"),
    (lambda: vector_op("own", lambda a, other: a, fields=(POINT,)),
     "Parameter of vector operation own must be a, b, table, one of bias, mult, shift, imm, ma, "
     "mb, s, zp, lo, hi, point, not 'other'"),
])
def test_a_field_is_a_parameter(declare, message) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        declare()


def test_words_of_16_bit_results_have_room() -> None:
    """Two bits are spare; what the body leaves is not."""
    machine = Machine(LONG.config, (*LONG.declarations, vector_op(
        "shifted", lambda a, point: a >> point.astype("int32"), stored="int16", fields=(POINT,))))
    assert machine.immediates["vector"]["point"].width == 4


def test_element_wise_operators_are_covered() -> None:
    """The number is in the expression, not in the operator: another one binds as well."""
    for factor in (5, -128):
        net = Net(4)
        x, y = net.input(1, 8, 5, 5), net.input(1, 8, 5, 5, name="y")
        text = f"clamp(x0 * {factor} + x1, -128, 100)"
        graph = net.graph(net.add_node("qmap", x, y, function=text))
        layer, = AccelTarget(MACHINE).compile(graph).layers
        assert "scaled" in layer.operator.by.values()
        for target in (MACHINE, Machine(SHORT.config, MACHINE.declarations)):
            assert_right(target, graph, net.samples())


def centred(zero: int):
    """Sums of (x - zero) * w, by hand."""
    x, w = te.placeholder((5, 3, 1, 4), "int8", "x"), te.placeholder((3, 4, 4), "int8", "w")
    k, i = te.reduce_axis(3, "k"), te.reduce_axis(4, "i")
    sums = te.compute((5, 1, 4), lambda y, n, o: te.sum(
        (x[y, k.var, n, i.var].astype("int32") - zero) * w[k.var, o, i.var].astype("int32"),
        (k, i)), "sums")
    high = te.compute((5, 1, 4), lambda y, n, o: (sums[y, n, o] >> 6).astype("int8"), "high")
    out = te.compute((5, 1, 4), lambda y, n, o: high[y, n, o], "out")
    s = Schedule([out])
    s[sums].set_scope("acc")
    s[high].set_scope("out")
    for source, buffer in ((x, "inp"), (w, "wgt")):
        s[source].cache_read(buffer).tensorize(None, MACHINE.intrinsic("load"))
    s[sums].reorder("y", "k", "n", "o", "i")
    s[sums].tensorize("n", MACHINE.intrinsic("centred"))
    s[high].tensorize("n", MACHINE.intrinsic("shr"))
    s[out].tensorize(None, MACHINE.intrinsic("store"))
    return lockstep.assemble(MACHINE, s.program)


def test_gemm_binds_them_by_hand(rng) -> None:
    program = centred(-77)
    product = next(one for one in program.instructions(MACHINE) if one.name == "centred")
    assert product.fields["zero"] == -77
    arrays = {"x": rng.integers(-128, 128, (5, 3, 1, 4)).astype(np.int8),
              "w": rng.integers(-128, 128, (3, 4, 4)).astype(np.int8)}
    wanted = np.einsum("yknl,kol->yno", arrays["x"].astype(int) + 77, arrays["w"].astype(int)) >> 6
    for simulate in (functional.simulate, cycle.simulate):
        run = simulate(MACHINE, program, inputs=arrays)
        assert run.ok and (program.extract(run.memory, "out") == wanted.astype(np.int8)).all()


def test_a_constant_beyond_the_range_does_not_match() -> None:
    with pytest.raises(ScheduleError, match=r"^tensorize: centred does not match: int32\(zero\) of "
                                            r"the intrinsic is not 32768 of the program"):
        centred(1 << 15)


def test_a_place_suits_all_instructions_that_have_it() -> None:
    """The first body leaves imm, the second takes it."""
    first = vector_op("first", lambda a, scale: a + scale.astype("int32"), fields=(SCALE,))
    place = Machine(TINY.config, (*SHIPPED, first)).immediates["vector"]["scale"]
    imm = dict(isa.VECTOR)["imm"]
    assert place.offset == imm.offset
    both = Machine(TINY.config, (*SHIPPED, first, SCALED))
    assert both.immediates["vector"]["scale"].offset >= imm.offset + imm.width
    assert "imm" in fields_in(both.layouts["first"])
