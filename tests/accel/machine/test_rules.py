"""What cannot be computed as it is declared is refused: in one line, before anything is built."""

from dataclasses import replace

import pytest

from accel.datapath.plan import PlanError, plan
from accel.machine.config import preset
from accel.machine.intrinsics import (SHIPPED, TABLE, Declaration, gemm_op, instructions,
                                      vector_op)
from accel.machine.machine import Machine
from accel.machine.rules import DeclarationError
from compiler import te
from compiler.te import Axis, Var
from compiler.tensorize import Immediate, Intrinsic, Operand

TINY = preset("tiny-1x4x4")
TILE = (1, 4)


def gemm(**changes):
    """A gemm instruction of one's own, with other types, shapes or places."""
    types = {"x": "int8", "w": "int8", "dst": "int32"} | changes.pop("types", {})
    stored = {"x": ("inp", "int8"), "w": ("wgt", "int8"), "dst": ("acc", "int32")} \
        | changes.pop("stored", {})
    extents = {"b": 1, "o": 4, "k": 4} | changes.pop("extents", {})
    read = {"x": types["x"], "w": types["w"]} | changes.pop("read", {})
    b, o = Axis(Var("b"), extents["b"]), Axis(Var("o"), extents["o"])
    k = te.reduce_axis(extents["k"], "k")
    shapes = {"x": (b.extent, 4), "w": (o.extent, 4), "dst": (b.extent, o.extent)}
    x, w = (te.placeholder(shapes[one], read[one], one) for one in "xw")
    wide = types["dst"]
    value = te.sum(x[b.var, k.var].astype(wide) * w[o.var, k.var].astype(wide), k)

    def operand(name):
        return Operand(name, shapes[name], types[name], (stored[name],))

    body = Intrinsic("own", "gemm", operand("dst"), (operand("x"), operand("w")), (b, o), value,
                     "sum", loops=6)
    return Declaration("own", "gemm", lambda config: (replace(body, **changes),))


def vector(value, *operands, dst=None, **changes):
    """A vector instruction of one's own: `value` of its axes and placeholders."""
    axes = Axis(Var("x"), TILE[0]), Axis(Var("y"), TILE[1])
    reads = [te.placeholder(one.shape, one.dtype, one.name)[
        tuple(axis.var for axis in axes[len(axes) - len(one.shape):])] for one in operands]
    dst = dst or Operand("dst", TILE, "int32", (("acc", "int32"),))
    body = Intrinsic("own", "vector", dst, operands, axes, value(*reads), loops=5)
    return Declaration("own", "vector", lambda config: (replace(body, **changes),))


def a(shape=TILE, dtype="int32", storage=(("acc", "int32"),), name="a"):
    return Operand(name, shape, dtype, storage)


ROW, HALF = te.placeholder(TILE, "int32", "a"), te.reduce_axis(2, "i")
LARGE = te.sum((te.placeholder((8, 4), "int8", "w")[Var("o"), Var("k")]).astype("int32"),
               te.reduce_axis(4, "k"))


def shipped(unit, **changes):
    """An instruction of load or store that does something else."""
    one = next(one for one in SHIPPED if one.unit == unit)

    def build(config):
        first, *others = one.build(config)
        return (replace(first, name="own", **changes),
                *(replace(other, name="own") for other in others))
    return Declaration("own", unit, build)


VALID = te.placeholder((), "int8", "src")[()]

REFUSED = {
    "weights of 16 bits beside those of 8": (
        gemm(types={"w": "int16"}, stored={"w": ("wgt", "int16")}),
        "Operand w of own must be stored in wgt as int8, as the buffer is, not as int16"),
    "weights that are read as 16 bits": (
        gemm(types={"w": "int16"}),
        "Operand w of own must be int8, as the unit computes, not int16"),
    "unsigned inputs beside signed ones": (
        gemm(types={"x": "uint8"}, stored={"x": ("inp", "uint8")}),
        "Operand x of own must be stored in inp as int8, as the buffer is, not as uint8"),
    "weights of 32 bits": (
        gemm(types={"w": "int32"}, stored={"w": ("wgt", "int32")}),
        "Operand w of own must be stored in wgt as int8, uint8, int16, uint16, float16, bfloat16, "
        "float8_e4m3fn or float8_e5m2, not as int32"),
    "an accumulator of 16 bits beside those of 32": (
        gemm(types={"dst": "int16"}, stored={"dst": ("acc", "int16")}),
        "Operand dst of own must be stored in acc as int32, as the buffer is, not as int16"),
    "an accumulator of 64 bits": (
        gemm(types={"dst": "int64"}, stored={"dst": ("acc", "int64")}),
        "Operand dst of own must be stored in acc as int32, float32, int16, int24, int40 or int48, "
        "not as int64"),
    "results of 16 bits beside those of 8": (
        vector_op("own", lambda a: a, stored="int16"),
        "Operand dst of own must be stored in out as int8, as the buffer is, not as int16"),
    "sources of 16 bits beside those of 8": (
        vector_op("own", lambda a: a, a=("res",), update="sum", stored="int16"),
        "Operand a of own must be stored in res as int8, as the buffer is, not as int16"),
    "results of 32 bits": (
        vector(lambda a: a, a(), dst=Operand("dst", TILE, "int32", (("out", "int32"),))),
        "Operand dst of own must be stored in out as int8, int16, bfloat16, float8_e4m3fn or "
        "float8_e5m2, not as int32"),
    "products of bfloat16 beside those of int8": (
        gemm_op("own", "bfloat16", "bfloat16"),
        "Operand dst of own must be stored in acc as int32, as the buffer is, not as float32"),
    "results of bfloat16 beside those of int8": (
        vector_op("own", lambda a: a.astype("bfloat16"), stored="bfloat16"),
        "Operand dst of own must be stored in acc as int32, as the buffer is, not as float32"),
    "bounds of 16 bits": (
        vector(lambda a: a, a(), immediates=(Immediate("lo", "int16", -(1 << 15), 7),)),
        "Immediate lo of own must be int8 from -128 to 127, as its field is, not int16 from -32768 "
        "to 7"),
    "a destination in out": (
        gemm(stored={"dst": ("out", "int8")}),
        "Operand dst of own must live in acc, not in out"),
    "operands in each other's place": (
        gemm(stored={"x": ("wgt", "int8"), "w": ("inp", "int8")}),
        "Operand x of own must live in inp, not in wgt"),
    "half of a block": (
        gemm(extents={"o": 2}), "Operand dst of own must have the shape (1, 4) of an entry, "
                                "not (1, 2)"),
    "a reduction beyond the block": (
        gemm(extents={"k": 8}), "Index k of x in own must have an extent of at most 4, not 8"),
    "more weights than an entry has": (
        gemm(operands=(a((1, 4), "int8", (("inp", "int8"),), "x"),
                       a((8, 4), "int8", (("wgt", "int8"),), "w")), value=LARGE),
        "Operand w of own must have at most the 16 elements of an entry, not the 32 of (8, 4)"),
    "a value that reads another type": (
        gemm(read={"w": "uint8"}), "Value of own must read w as int8, which it is declared as, not "
                                   "as uint8"),
    "an immediate of gemm": (
        gemm(immediates=(Immediate("imm", "int32", 0, 9),)),
        "Immediate imm of own must have another name, as words have a field imm"),
    "seven loops": (
        gemm(loops=7), "Loops of own must be 0 to 6, which its word has, not 7"),
    "a feature": (
        gemm(needs=("dotprod",)),
        "Needs of own must be empty, not dotprod: a machine has what is declared for it"),
    "another name than its declaration": (
        gemm(name="other"), "Forms of own must have its name own, not other"),
    "another unit than its declaration": (
        gemm(unit="vector"), "Forms of own must have its unit gemm, not vector"),
    "an immediate of some numbers of its field": (
        vector(lambda a: a, a(), immediates=(Immediate("scale", "int32", 0, 9),)),
        "Immediate scale of own must be from 0 to 15, all numbers of its field, not from 0 to 9"),
    "an immediate from high to low": (
        vector(lambda a: a, a(), immediates=(Immediate("scale", "int32", 9, 0),)),
        "Immediate scale of own must be from one integer to another, not from 9 to 0"),
    "an immediate that its type does not hold": (
        vector(lambda a: a, a(), immediates=(Immediate("scale", "int8", 0, 255),)),
        "Immediate scale of own must be of a type that holds 0 to 255, not of int8"),
    "an immediate of 64 bits": (
        gemm(immediates=(Immediate("scale", "int64", 0, 1),)),
        "Immediate scale of own must be an integer of at most 32 bits, not int64"),
    "an immediate of floats": (
        vector(lambda a: a, a(), immediates=(Immediate("scale", "float32", 0, 1),)),
        "Immediate scale of own must be an integer of at most 32 bits, not float32"),
    "an immediate of two words": (
        vector(lambda a: a, a(), immediates=(Immediate("two words", "int8", 0, 1),)),
        "Immediate two words of own must have an identifier for a name"),
    "an immediate called as a loop is": (
        vector(lambda a: a, a(), immediates=(Immediate("loops", "int8", 0, 1),)),
        "Immediate loops of own must have another name, as words have a field loops"),
    "an immediate that the word has no room for": (
        gemm(immediates=(Immediate("one", "int32", -1 << 31, (1 << 31) - 1),
                         Immediate("two", "uint32", 0, (1 << 32) - 1))),
        "Immediate two of own must fit its word: it takes 32 bits, and 16 in a row are free in "
        "words that have it"),
    "an immediate of another type": (
        vector(lambda a: a, a(), immediates=(Immediate("zp", "uint8", 0, 255),)),
        "Immediate zp of own must be int8 from -128 to 127, as its field is, not uint8 from 0 to "
        "255"),
    "an operand of another name": (
        vector(lambda c: c, a(name="c")),
        "Operand c of own must be one of a, b, table, bias, mult, shift: vector reads no other"),
    "an operand in inp": (
        vector(lambda a: a, a(storage=(("inp", "int8"),))),
        "Operand a of own must live in acc or res, not in inp"),
    "an operand in acc twice": (
        vector(lambda a: a, a(storage=(("acc", "int32"), ("acc", "int32")))),
        "Operand a of own must live in each buffer once"),
    "an operand of 16 bits": (
        vector(lambda a: a.astype("int32"), a(dtype="int16")),
        "Operand a of own must be int32, as the unit computes, not int16"),
    "an operand of one row": (
        vector(lambda a: a, a(shape=(4,))),
        "Operand a of own must have the shape (1, 4) of an entry, not (4,)"),
    "a window": (
        vector(lambda a: a, replace(a(), window=True)),
        "Operand a of own must be a whole entry, not a window"),
    "a record beside b in par": (
        vector(lambda b, bias: b + bias, a(name="b", storage=(("par", "param.bias"),)),
               Operand("bias", (4,), "int32", (("par", "param.bias"),))),
        "Operand b of own must not live in par beside bias: par gives one record a cycle"),
    "a table beside b and a record": (
        vector(lambda b, bias, table: b + bias + table, a(name="b"),
               Operand("bias", (4,), "int32", (("par", "param.bias"),)), TABLE),
        "Operands of own must be at most two of b, per-channel parameters, table: the word has an "
        "address for a and two more"),
    "a table in res": (
        vector(lambda table: table, replace(TABLE, storage=(("res", "int8"),))),
        "Operand table of own must live in tab, not in res"),
    "a table of bytes without a sign": (
        vector(lambda table: table, replace(TABLE, storage=(("tab", "uint8"),))),
        "Operand table of own must be stored in tab as int8, as the buffer is, not as uint8"),
    "a short table": (
        vector(lambda table: table, replace(TABLE, shape=(16,))),
        "Operand table of own must have the shape (256,) of an entry, not (16,)"),
    "a place that a table does not have": (
        vector_op("own", lambda table: table[256]),
        "Index of table in own must lie in 0 ... 255, not be 256"),
    "an operand that is declared twice": (
        vector(lambda a, b: a, a(), a()), "Operand a of own must be declared once"),
    "a destination of another name": (
        vector(lambda a: a, a(), dst=Operand("to", TILE, "int32", (("acc", "int32"),))),
        "Destination of own must be named dst, not to"),
    "an update in out": (
        vector(lambda a: a, a(storage=(("res", "int8"),)), update="sum",
               dst=Operand("dst", TILE, "int32", (("out", "int8"),))),
        "Destination of own must be acc, not out: update sum accumulates there"),
    "an update from acc": (
        vector(lambda a: a, a(), update="max"),
        "Operand a of own must not live in acc: update max takes its read port"),
    "an element that is not there": (
        vector(lambda b: te.placeholder(TILE, "int32", "b")[Var("x"), 4], a(name="b")),
        "Index of b in own must lie in 0 ... 3, not be 4"),
    "a reduction over half a row": (
        vector(lambda a: te.sum(ROW[Var("x"), HALF.var], HALF), a()),
        "Reduction of own must be over the 4 lanes of a row, not over 2: vector has no other "
        "values at hand"),
    "a reduction over rows and lanes": (
        vector(lambda a: te.sum(ROW[Var("j"), Var("i")],
                                (te.reduce_axis(1, "j"), te.reduce_axis(4, "i"))), a()),
        "Reduction of own must be over the 4 lanes of a row, not over 1 x 4: vector has no other "
        "values at hand"),
    "a reduction that differs from lane to lane": (
        vector(lambda a: te.sum(ROW[Var("x"), Var("i")] - a, te.reduce_axis(4, "i")), a()),
        "Value under the reduction of own must not read at y: every lane gets the same result"),
    "a sum of bools": (
        vector(lambda a: ((a > 0) + (a > 1)).astype("int32"), a()),
        "Operator add in own must not be on bool: cast it to an integer"),
    "a division": (
        vector_op("own", lambda a, b: a // te.maximum(b, 1)),
        "Operator floordiv in own must be a shift, or a product and a shift: no pipeline divides"),
    "a remainder": (
        vector_op("own", lambda a: a % 3),
        "Operator mod in own must be a shift, or a product and a shift: no pipeline divides"),
    "a division of floats": (
        vector_op("own", lambda a, b: (a.astype("float32") / b.astype("float32")).astype("int32")),
        "Operator div in own must be a shift, or a product and a shift: no pipeline divides"),
    "an exponential": (
        vector_op("own", lambda a: te.exp(a.astype("float32")).astype("int32")),
        "Function exp in own must be a table, or a polynomial: no pipeline computes it"),
    "a place that is divided": (
        vector_op("own", lambda a, table: table[(a & 255) // 2]),
        "Operator floordiv in own must be a shift, or a product and a shift: no pipeline divides"),
    "two bodies": (
        Declaration("own", "vector", lambda config: (
            *vector(lambda a: a, a()).build(config), *vector(lambda a: -a, a()).build(config))),
        "Instruction own must have one form, not 2: an opcode of vector has one body"),
    "a load that computes": (
        shipped("load", value=VALID + 1),
        "Forms of own must be those of the shipped load: the unit moves bytes as they are"),
    "a store of acc": (
        shipped("store", dst=Operand("dst", (), "int8", (("acc", "int8"),))),
        "Forms of own must be those of the shipped store: the unit moves bytes as they are"),
    "a unit that does not exist": (
        Declaration("own", "dma", lambda config: ()),
        "Unit of own must be one of load, gemm, vector, store, not 'dma'"),
    "finish": (
        vector_op("finish", lambda a: a),
        "Instruction finish must have another name: fetch performs FINISH"),
    "illegal": (
        vector_op("illegal", lambda a: a),
        "Instruction illegal must have another name: unknown opcodes are called so"),
    "a name of two words": (
        vector_op("add two", lambda a: a),
        "Name of an instruction must be an identifier, not 'add two'"),
    "no name": (
        vector_op("", lambda a: a), "Name of an instruction must be an identifier, not ''"),
    "a name that is taken": (
        vector_op("add", lambda a: a), "Instruction add must be declared once"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_computed_is_refused(case):
    declaration, message = REFUSED[case]
    with pytest.raises(DeclarationError) as refused:
        Machine(TINY, (*SHIPPED, declaration))
    assert str(refused.value) == message


def test_a_reduction_over_lanes_takes_whole_rows():
    own, batched = vector_op("own", lambda a: a, lanes="sum"), replace(TINY, batch=2)
    assert Machine(replace(batched, vector_beats=2), (*SHIPPED, own)).opcodes["own"]
    with pytest.raises(DeclarationError) as refused:
        Machine(replace(batched, vector_beats=4), (*SHIPPED, own))
    assert str(refused.value) == ("vector_beats must be at most 2 for own, not 4: a reduction "
                                  "takes all lanes of a row in one cycle")


def test_an_out_of_16_bits_leaves_no_bits_for_a_third_address():
    own = vector_op("own", lambda a, b, table: table[(a - b) & 255], stored="int16")
    with pytest.raises(DeclarationError) as refused:
        Machine(TINY, (*instructions(stored="int16"), own))
    assert str(refused.value) == (
        "Operands of own must be one of b, table, as out has int16: lo and hi take the bits of a "
        "third address")


@pytest.mark.parametrize("unit", ["load", "gemm", "vector", "store"])
def test_a_machine_without_a_unit_is_refused(unit):
    with pytest.raises(DeclarationError) as refused:
        Machine(TINY, tuple(one for one in SHIPPED if one.unit != unit))
    assert str(refused.value) == (f"Machine must have an instruction of {unit}: there is no unit "
                                  f"that does nothing")


def test_what_can_be_computed_is_not_refused():
    """The ways in which these tests declare are right where nothing is changed."""
    own = gemm(types={"w": "int16"}, stored={"w": ("wgt", "int16")})
    assert "own" in Machine(TINY, (*instructions(wgt="int16"), own)).opcodes
    for declaration in (gemm(), gemm(update="max"), vector(lambda a: a, a()), shipped("load"),
                        shipped("store"), vector_op("gemm2", lambda a, imm: a + imm)):
        assert declaration.name in Machine(TINY, (*SHIPPED, declaration)).opcodes


def test_places_of_lanes_may_be_divided() -> None:
    """They are known before anything is computed."""
    own = vector(lambda a: a + (Var("y") // 2 + Var("y") % 2).astype("int32"), a())
    assert plan(Machine(TINY, (*SHIPPED, own)), "vector").count("mul")


def test_floats_that_are_not_rounded_do_not_live_in_out() -> None:
    """A value that lives in out as bfloat16 says itself that it is rounded."""
    dst = Operand("dst", TILE, "float32", (("acc", "float32"), ("out", "bfloat16")))
    source = a(dtype="float32", storage=(("acc", "float32"),))
    own = vector(lambda a: a + a, source, dst=dst)
    moves = (one for one in SHIPPED if one.unit in ("load", "store"))
    with pytest.raises(DeclarationError) as refused:
        Machine(TINY, (*moves, gemm_op("gemm", "bfloat16", "bfloat16"), own))
    assert str(refused.value) == (
        "Value of own must be rounded to bfloat16 to live in out, which keeps 16 bits: "
        "value.astype('bfloat16')")


def test_sums_of_floats_by_vector_are_refused() -> None:
    moves = (one for one in SHIPPED if one.unit in ("load", "store"))
    machine = Machine(TINY, (*moves, gemm_op("gemm", "float16", "int8"), vector_op(
        "own", lambda a: a, update="sum", stored="bfloat16")))
    with pytest.raises(PlanError) as refused:
        plan(machine, "vector")
    assert str(refused.value) == ("Update of own must be assign, not sum, where acc holds float32: "
                                  "only gemm waits for sums of floats")
