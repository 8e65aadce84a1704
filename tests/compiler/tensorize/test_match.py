"""Loop nests against declared intrinsics: what matches, how it is bound, what is refused."""

from dataclasses import replace

import pytest

from compiler import te
from compiler.ir import For, If, Program, Store, Tensorized, Update, interpret
from compiler.ops.integers.arithmetic import PARAM, add_scaled, requantize
from compiler.te import INDEX, Axis, Binary, Buffer, Cast, Const, Read, Reduce, Var
from compiler.tensorize import ANY, Immediate, Intrinsic, MatchError, Operand, match

B, O, I = Var("b"), Var("o"), Var("i")                  # loops of the tile in the programs
KH, CI, OUT = Var("kh"), Var("ci"), Var("out")          # loops around it
ACC = Buffer("x.acc", (6, 2, 4), "int32", "acc")
NARROW = Buffer("x.out", (6, 2, 4), "int8", "out")
RES = Buffer("y.res", (6, 2, 4), "int8", "res")
PAR = Buffer("p.par", (3, 4), PARAM, "par")
INP = Buffer("x.inp", (9, 2, 8), "int8", "inp")
WGT = Buffer("w.wgt", (5, 4, 8), "int8", "wgt")
LANES = (Axis(Var("lane_b"), 2), Axis(Var("lane_o"), 4))
ZERO = Const(0, INDEX)

_INT8 = {name: Immediate(name, "int8", -128, 127) for name in ("zp", "lo", "hi")}
IMMEDIATES = {**_INT8, "imm": Immediate("imm", "int32", -(1 << 31), (1 << 31) - 1),
              "ma": Immediate("ma", "uint16", 0, 65535), "mb": Immediate("mb", "uint16", 0, 65535),
              "s": Immediate("s", "uint8", 0, 63)}
EVERYWHERE = (("acc", "int32"), ("res", "int8"), ("par", "param.bias"), ("imm", "int32"))


def vector(name, value, immediates=(), *, update="assign", params=False, two=False) -> Intrinsic:
    """An intrinsic of lanes (2, 4) whose value takes a, then b or parameters, then immediates."""
    index = tuple(axis.var for axis in LANES)
    operands = [Operand("a", (2, 4), "int32", EVERYWHERE[:2])]
    arguments = [te.placeholder((2, 4), "int32", "a")[index]]
    if two:
        operands.append(Operand("b", (2, 4), "int32", EVERYWHERE))
        arguments.append(te.placeholder((2, 4), "int32", "b")[index])
    for field, dtype in te.record_fields(PARAM).items() if params else ():
        operands.append(Operand(field, (4,), dtype, (("par", f"{PARAM}.{field}"),)))
        arguments.append(te.placeholder((4,), dtype, field)[index[1]])
    chosen = tuple(IMMEDIATES[one] for one in immediates)
    return Intrinsic(name, "vector", Operand("dst", (2, 4), "int32",
                                             (("acc", "int32"), ("out", "int8"))),
                     tuple(operands), LANES, value(*arguments, *(one.var for one in chosen)),
                     update, chosen, loops=5)


def declare_gemm(batch=2) -> Intrinsic:
    b, o, i = Axis(Var("lane_b"), batch), LANES[1], te.reduce_axis(8, "lane_i")
    inp, wgt = te.placeholder((batch, 8), "int8", "inp"), te.placeholder((4, 8), "int8", "wgt")
    product = inp[b.var, i.var].astype("int32") * wgt[o.var, i.var].astype("int32")
    return Intrinsic("gemm", "gemm", Operand("dst", (batch, 4), "int32", (("acc", "int32"),)),
                     (Operand("inp", (batch, 8), "int8", (("inp", "int8"),)),
                      Operand("wgt", (4, 8), "int8", (("wgt", "int8"),))),
                     (b, o), te.sum(product, i), "sum", loops=6)


def declare_copy(dtype="int8") -> Intrinsic:
    valid, pad = Immediate("valid", "bool"), Immediate("pad", "int8", -128, 127)
    value = te.select(valid.var, te.placeholder((), "int8", "src")[()], pad.var)
    return Intrinsic("load", "load", Operand("dst", (), dtype, (("inp", dtype), ("acc", dtype))),
                     (Operand("src", (), dtype, (("global", dtype),)),), (), value, "assign",
                     (valid, pad), loops=4)


GEMM = declare_gemm()
GEMM_SUM = GEMM.value
assert isinstance(GEMM_SUM, Reduce)
ADD = vector("add", lambda a, b: a + b, two=True)
MUL = vector("mul", lambda a, b: a * b.astype("int16").astype("int32"), two=True)
CLAMP = vector("clamp", lambda a, lo, hi: te.clamp(a, lo.astype("int32"), hi.astype("int32")),
               ("lo", "hi"))
REQUANTIZE = vector("requantize", requantize, ("zp", "lo", "hi"), params=True)
ADD_SCALED = vector("add_scaled", add_scaled, ("ma", "mb", "imm", "s", "zp", "lo", "hi"), two=True)
MAX_UPDATE = vector("reduce_max", lambda a: a, update="max")


def nest(stmt, *loops):
    for var, extent in reversed(loops):
        stmt = For(var, extent, stmt)
    return stmt


def lanes(stmt):
    return nest(stmt, (B, 2), (O, 4))


def store(value, buffer=ACC):
    return lanes(Store(buffer, (OUT, B, O), value))


def gemm_update(inp=INP[OUT + KH, B, I], wgt=WGT[CI, O, I], axes=(KH, CI, I)):
    return Update(ACC, (OUT, B, O), "sum", inp.astype("int32") * wgt.astype("int32"), axes)


def gemm_nest(*args, **kwargs):
    return nest(gemm_update(*args, **kwargs), (B, 2), (O, 4), (I, 8))


def refusal(stmt, intrinsic) -> str:
    with pytest.raises(MatchError) as refused:
        match(stmt, intrinsic)
    return str(refused.value)


def test_gemm():
    stmt = gemm_nest()
    found = match(stmt, GEMM)
    assert isinstance(found, Tensorized) and found.body is stmt and found.intrinsic is GEMM
    assert found.binding.tiles == (("dst", ACC[OUT, 0, 0]), ("inp", INP[OUT + KH, 0, 0]),
                                   ("wgt", WGT[CI, 0, 0]))
    assert found.binding.begin == (KH, CI)
    assert found.binding.immediates == ()


def test_gemm_with_factors_exchanged_and_loops_in_another_order():
    stmt = Update(ACC, (OUT, B, O), "sum",
                  WGT[CI, O, I].astype("int32") * INP[OUT + KH, B, I].astype("int32"), (I, CI))
    found = match(nest(stmt, (I, 8), (O, 4), (B, 2)), GEMM)
    assert found.binding.tile("inp") == INP[OUT + KH, 0, 0]
    assert found.binding.begin == (CI,)


def test_gemm_whose_reduction_lies_within_the_tile_begins_always():
    assert match(gemm_nest(axes=(I,)), GEMM).binding.begin == ()


@pytest.mark.parametrize("shape", ["a loop of one iteration", "no loop", "no loop, a fixed index"])
def test_batch_of_one(shape):
    acc, inp = Buffer("acc1", (6, 1, 4), "int32", "acc"), Buffer("inp1", (9, 1, 8), "int8", "inp")
    b = ZERO if shape == "no loop, a fixed index" else B
    loops = [(O, 4), (I, 8)] if shape.startswith("no") else [(B, 1), (O, 4), (I, 8)]
    b = B if shape == "a loop of one iteration" else ZERO
    stmt = Update(acc, (OUT, b, O), "sum",
                  inp[OUT, b, I].astype("int32") * WGT[CI, O, I].astype("int32"), (CI, I))
    found = match(nest(stmt, *loops), declare_gemm(batch=1))
    assert found.binding.tiles == (("dst", acc[OUT, 0, 0]), ("inp", inp[OUT, 0, 0]),
                                   ("wgt", WGT[CI, 0, 0]))


def test_an_index_is_compared_as_a_linear_form():
    found = match(gemm_nest(inp=INP[OUT, B + OUT - OUT, (I + 3) - 3]), GEMM)
    assert found.binding.tile("inp") == INP[OUT, 0, 0]


def test_requantize_of_an_accumulator_into_bytes():
    p = PAR[OUT, O]
    value = requantize(ACC[OUT, B, O], p.bias, p.mult, p.shift, -3, -128, 127).astype("int8")
    found = match(store(value, NARROW), REQUANTIZE).binding
    assert found.tiles == (("dst", NARROW[OUT, 0, 0]), ("a", ACC[OUT, 0, 0]),
                           ("bias", PAR[OUT, 0]), ("mult", PAR[OUT, 0]), ("shift", PAR[OUT, 0]))
    assert found.immediates == (("zp", Const(-3, "int8")), ("lo", Const(-128, "int8")),
                                ("hi", Const(127, "int8")))


def test_requantize_written_without_the_detour_through_int32():
    p = PAR[OUT, O]
    wide = requantize(ACC[OUT, B, O], p.bias, p.mult, p.shift, 0, -128, 127)
    assert isinstance(wide, Cast)
    found = match(store(wide.value.astype("int8"), NARROW), REQUANTIZE).binding
    assert found.immediate("zp") == Const(0, "int8")


def test_requantize_whose_zero_point_of_0_was_dropped():
    p = PAR[OUT, O]
    total = ACC[OUT, B, O].astype("int64") + p.bias.astype("int64")
    scaled = te.rshift_rne(total * p.mult.astype("int64"), (p.shift & 63).astype("int64"))
    found = match(store(te.clamp(scaled, -128, 127).astype("int8"), NARROW), REQUANTIZE).binding
    assert found.immediate("zp") == Const(0, "int8")
    assert found.immediate("lo") == Const(-128, "int8")


def test_two_scale_addition():
    a, b = RES[OUT, B, O].astype("int32"), ACC[OUT, B, O]
    value = add_scaled(a, b, 40000, 3, -70000, 20, 5, -128, 100)
    found = match(store(value.astype("int8"), NARROW), ADD_SCALED).binding
    assert found.tile("a") == RES[OUT, 0, 0] and found.tile("b") == ACC[OUT, 0, 0]
    assert {name: value.value for name, value in found.immediates
            if isinstance(value, Const)} == {
        "ma": 40000, "mb": 3, "imm": -70000, "s": 20, "zp": 5, "lo": -128, "hi": 100}


def test_two_scale_addition_reads_bytes_straight_into_64_bits():
    a, b = RES[OUT, B, O], RES[OUT + 1, B, O]
    total = a.astype("int64") * 7 + b.astype("int64") * 9     # no constant: it is 0
    value = te.clamp(te.rshift_rne(total, 4) + 1, -5, 6)
    found = match(store(value.astype("int8"), NARROW), ADD_SCALED).binding
    assert found.tile("b") == RES[OUT + 1, 0, 0]
    assert found.immediate("imm") == Const(0, "int32")
    assert found.immediate("s") == Const(4, "uint8")


def test_pooling_is_an_update_with_max():
    stmt = lanes(Update(ACC, (OUT, B, O), "max", RES[OUT + KH, B, O].astype("int32"), (KH,)))
    found = match(stmt, MAX_UPDATE).binding
    assert found.begin == (KH,)
    assert found.tile("a") == RES[OUT + KH, 0, 0]


def test_an_update_that_goes_on_is_an_assignment_of_both():
    """What begins one is assigned before; a reduction that begins is none."""
    update = Update(ACC, (OUT, B, O), "sum", ACC[OUT + KH, B, O], (KH,), begins=False)
    found = match(lanes(update), ADD).binding
    assert {found.tile("a"), found.tile("b")} == {ACC[OUT, 0, 0], ACC[OUT + KH, 0, 0]}
    assert "the update must be assign, not sum" in refusal(
        lanes(replace(update, begins=True)), ADD)


def test_copy_with_a_predicate():
    image = Buffer("image", (9, 30), "int8")
    inside = te.all_of(KH - 1 >= 0, KH - 1 < 9)
    stmt = Store(INP, (KH, CI, I), te.select(inside, image[KH - 1, CI * 8 + I], 7))
    found = match(stmt, declare_copy()).binding
    assert found.tiles == (("dst", INP[KH, CI, I]), ("src", image[KH - 1, CI * 8 + I]))
    assert found.immediates == (("valid", inside), ("pad", Const(7, "int8")))


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_copy_of_any_type(dtype):
    source, target = Buffer("s", (9,), dtype), Buffer("t", (9,), dtype, "acc")
    stmt = Store(target, (I,), te.select(I < 3, source[I], 5))
    found = match(stmt, declare_copy(ANY)).binding
    assert found.tile("src") == source[I]
    assert found.immediate("pad") == Const(5, dtype)


@pytest.mark.parametrize(("b", "tile"), [
    (RES[OUT, B, O].astype("int32"), RES[OUT, 0, 0]),
    (PAR[OUT, O].bias, PAR[OUT, 0]),
    (Const(12, "int32"), Const(12, "int32")),
])
def test_scopes_of_an_operand(b, tile):
    found = match(store(ACC[OUT + 1, B, O] + b), ADD).binding
    assert (found.tile("a"), found.tile("b")) == (ACC[OUT + 1, 0, 0], tile)
    found = match(store(b + ACC[OUT + 1, B, O]), ADD).binding
    assert tile in (found.tile("a"), found.tile("b"))


def test_an_immediate_may_depend_on_loops_around_the_tile_alone():
    found = match(store(ACC[OUT, B, O] + KH.astype("int32")), ADD).binding
    assert found.tile("b") == KH.astype("int32")
    assert "b[lane_b, lane_o] of the intrinsic is not int32(o) of the program" in refusal(
        store(ACC[OUT, B, O] + O.astype("int32")), ADD)


def test_a_reduction_loop_of_one_iteration_begins_nothing():
    stmt = nest(gemm_update(axes=(KH, CI, I)), (KH, 1), (B, 2), (O, 4), (I, 8))
    assert match(stmt, GEMM).binding.begin == (CI,)


def test_two_axes_of_a_lane_reduction_take_their_loops_in_any_order():
    x = te.placeholder((2, 3), "int32", "a")
    i, j = te.reduce_axis(2, "lane_i"), te.reduce_axis(3, "lane_j")
    total = Intrinsic("total", "vector", Operand("dst", (), "int32", (("acc", "int32"),)),
                      (Operand("a", (2, 3), "int32", (("acc", "int32"),)),), (),
                      te.sum(x[i.var, j.var], (i, j)), "sum")
    source, target = Buffer("s", (5, 2, 3), "int32", "acc"), Buffer("t", (5,), "int32", "acc")
    stmt = Update(target, (OUT,), "sum", source[OUT, B, O], (B, O))
    for loops in ([(B, 2), (O, 3)], [(O, 3), (B, 2)]):
        assert match(nest(stmt, *loops), total).binding.tile("a") == source[OUT, 0, 0]


def test_a_narrow_second_factor():
    found = match(store(ACC[OUT, B, O] * RES[OUT, B, O].astype("int32")), MUL).binding
    assert found.tile("b") == RES[OUT, 0, 0]
    assert match(store(ACC[OUT, B, O] * -9), MUL).binding.tile("b") == Const(-9, "int32")


def test_a_lane_reduction_that_is_assigned():
    rowmax = replace(
        vector("rowmax", lambda a: a), value=te.max(
            te.placeholder((2, 4, 8), "int32", "a")[LANES[0].var, LANES[1].var, Var("lane_i")],
            te.reduce_axis(8, "lane_i")),
        operands=(Operand("a", (2, 4, 8), "int32", (("acc", "int32"),)),))
    source = Buffer("s.acc", (3, 2, 4, 8), "int32", "acc")
    stmt = Update(ACC, (OUT, B, O), "max", source[OUT, B, O, I], (I,))
    found = match(nest(stmt, (B, 2), (O, 4), (I, 8)), rowmax).binding
    assert found.tile("a") == source[OUT, 0, 0, 0] and found.begin == ()
    assert refusal(nest(replace(stmt, axes=(KH, I)), (B, 2), (O, 4), (I, 8)), rowmax) == (
        "rowmax does not match: the reduction must be complete within the tile, not go on over kh")


def test_a_tensorized_program_means_what_it_meant():
    """The interpreter runs the nest that the node keeps."""
    stmt = lanes(Store(Buffer("y", (2, 4), "int32"), (B, O), Const(3, "int32") + B.astype("int32")))
    program = Program("p", (), (Buffer("y", (2, 4), "int32"),), stmt)
    assert interpret(program, {})["y"].tolist() == [[3] * 4, [4] * 4]


REFUSALS = {
    "a guard within the nest": (
        lanes(If(B < 1, Store(ACC, (OUT, B, O), RES[OUT, B, O].astype("int32")))), ADD,
        "add does not match: the nest must be loops around one Store or Update, not around If"),
    "the destination's scope": (
        store(ACC[OUT, B, O], Buffer("g", (6, 2, 4), "int32")), ADD,
        "add does not match: g must be int32 in acc or int8 in out, not int32 in global"),
    "the destination's type": (
        store(RES[OUT, B, O], Buffer("g", (6, 2, 4), "int8", "acc")), ADD,
        "add does not match: g must be int32 in acc or int8 in out, not int8 in acc"),
    "an accumulator that is narrower than the sum": (
        lanes(Update(NARROW, (OUT, B, O), "max", RES[OUT, B, O], (KH,))), MAX_UPDATE,
        "reduce_max does not match: x.out must be int32 in acc or int8 in out, not int8 in out"),
    "the destination's tile": (
        store(ACC[OUT, B, O], Buffer("wide", (6, 2, 8), "int32", "acc")), ADD,
        "add does not match: last dimensions of wide must be (2, 4), not (2, 8)"),
    "a lane that is indexed twice as far": (
        lanes(Store(ACC, (OUT, B, O * 2), ACC[OUT, B, O])), ADD,
        "add does not match: each lane of x.acc must be indexed by a loop of extent 4 of the nest, "
        "not o*2"),
    "a lane that is indexed by a loop around the nest": (
        lanes(Store(ACC, (OUT, KH, O), ACC[OUT, B, O])), ADD,
        "add does not match: each lane of x.acc must be indexed by a loop of extent 2 of the nest, "
        "not kh"),
    "a destination that moves with a lane": (
        lanes(Store(ACC, (OUT + B, B, O), ACC[OUT, B, O])), ADD,
        "add does not match: x.acc must not depend on b outside its tile"),
    "a loop that moves the destination": (
        nest(store(ACC[OUT, B, O]), (OUT, 6)), ADD,
        "add does not match: x.acc must not depend on out outside its tile"),
    "a loop that does nothing": (
        nest(store(ACC[OUT, B, O]), (CI, 6)), ADD,
        "add does not match: loop ci must be a lane or a reduction"),
    "another update": (
        store(ACC[OUT, B, O]), MAX_UPDATE,
        "reduce_max does not match: the update must be max, not assign"),
    "an update in place of a store": (
        lanes(Update(ACC, (OUT, B, O), "sum", ACC[OUT, B, O], (KH,))), ADD,
        "add does not match: the update must be assign, not sum"),
    "a reduction of another extent": (
        nest(gemm_update(), (B, 2), (O, 4), (I, 4)), GEMM,
        "gemm does not match: the lane reduction must be loops of extents [8], not [4]"),
    "a sum after a maximum": (
        gemm_nest(), replace(GEMM, value=replace(GEMM_SUM, op="max")),
        "gemm does not match: an update by sum after a reduction by max is no loop nest"),
    "an operand in another scope": (
        gemm_nest(inp=Buffer("z", (9, 2, 8), "int8", "res")[OUT, B, I]), GEMM,
        "gemm does not match: inp[lane_b, lane_i] of the intrinsic is not z[out, b, i] of the "
        "program"),
    "an operand of another shape": (
        gemm_nest(inp=Buffer("z", (9, 2, 16), "int8", "inp")[OUT, B, I]), GEMM,
        "gemm does not match: last dimensions of z must be (2, 8): inp[lane_b, lane_i] of the "
        "intrinsic is not z[out, b, i] of the program"),
    "an operand with a stride": (
        gemm_nest(inp=INP[OUT, B, 7 - I]), GEMM,
        "gemm does not match: inp must be read at the lanes of its tile: inp[lane_b, lane_i] of "
        "the intrinsic is not x.inp[out, b, 7 - i] of the program"),
    "an operand that moves with a lane": (
        gemm_nest(wgt=WGT[B, O, I]), GEMM,
        "gemm does not match: wgt must not depend on b outside its tile: wgt[lane_o, lane_i] of "
        "the intrinsic is not w.wgt[b, o, i] of the program"),
    "parameters that move with the other lane": (
        store(ACC[OUT, B, O] + PAR[B, O].bias), ADD,
        "add does not match: b must not depend on b outside its tile: b[lane_b, lane_o] of the "
        "intrinsic is not p.par[b, o] of the program"),
    "another operator": (
        store(ACC[OUT, B, O] - PAR[OUT, O].bias), ADD,
        "add does not match: a[lane_b, lane_o] + b[lane_b, lane_o] of the intrinsic is not "
        "x.acc[out, b, o] - p.par[out, o].bias of the program"),
    "another field": (
        store(ACC[OUT, B, O] + PAR[OUT, O].mult.astype("int32")), ADD,
        "add does not match: b[lane_b, lane_o] of the intrinsic is not int32(p.par[out, o].mult) "
        "of the program"),
    "a clamp that the intrinsic has not": (
        store(te.clamp(ACC[OUT, B, O] + 1, 0, 9)), ADD,
        "add does not match: a[lane_b, lane_o] + b[lane_b, lane_o] of the intrinsic is not "
        "min(max(x.acc[out, b, o] + 1, 0), 9) of the program"),
    "a clamp that only the intrinsic has": (
        store(te.maximum(ACC[OUT, B, O], 3)), CLAMP,
        "clamp does not match: min(max(a[lane_b, lane_o], int32(lo)), int32(hi)) of the intrinsic "
        "is not max(x.acc[out, b, o], 3) of the program"),
    "an immediate out of range": (
        Store(INP, (KH, CI, I), te.select(KH < 1, Buffer("g", (4,), "int8")[I], 7)),
        replace(declare_copy(), immediates=(Immediate("valid", "bool"),
                                            Immediate("pad", "int8", 0, 3))),
        "load does not match: pad must be from 0 to 3: pad of the intrinsic is not 7 of the "
        "program"),
    "a predicate that reads memory": (
        Store(INP, (KH, CI, I), te.select(INP[0, 0, 0] < 1, Buffer("g", (4,), "int8")[I], 7)),
        declare_copy(),
        "load does not match: valid of the intrinsic is not x.inp[0, 0, 0] < 1 of the program"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal(name):
    stmt, intrinsic, message = REFUSALS[name]
    assert refusal(stmt, intrinsic) == message


def test_a_constant_that_the_narrow_factor_cannot_hold_wrong():
    assert "of the intrinsic is not 70000 of the program" in refusal(
        store(ACC[OUT, B, O] * 70000), MUL)


def test_a_sum_of_floats_is_not_taken_for_a_missing_addition_of_zero():
    """-0.0 + 0.0 is 0.0, so only integers have a neutral element here."""
    c = Immediate("c", "float32", 0, 0)
    x = te.placeholder((), "float32", "a")[()]
    plus = Intrinsic("plus", "vector", Operand("dst", (), "float32", (("acc", "float32"),)),
                     (Operand("a", (), "float32", (("acc", "float32"),)),), (), x + c.var,
                     immediates=(c,))
    buffer = Buffer("f", (3,), "float32", "acc")
    assert refusal(Store(buffer, (I,), buffer[I]), plus) == (
        "plus does not match: a[] + c of the intrinsic is not f[i] of the program")


def test_the_same_operand_twice_must_be_the_same_tile():
    square = vector("square", lambda a: a * a)
    assert match(store(ACC[OUT, B, O] * ACC[OUT, B, O]), square)
    assert "is not x.acc[out + 1, b, o] of the program" in refusal(
        store(ACC[OUT, B, O] * ACC[OUT + 1, B, O]), square)


def test_backtracking_over_commutative_operators():
    """The first order of the inner sum fits a alone; the outer one decides."""
    form = vector("form", lambda a, b: te.maximum(a + b, b), two=True)
    x, y = ACC[OUT, B, O], ACC[OUT + 1, B, O]
    for inner in (x + y, y + x):
        for value in (te.maximum(inner, x), te.maximum(x, inner)):
            found = match(store(value), form).binding
            assert (found.tile("a"), found.tile("b")) == (ACC[OUT + 1, 0, 0], ACC[OUT, 0, 0])


def test_conversions_that_lose_something_count():
    lossy = Binary("add", ACC[OUT, B, O].astype("int8").astype("int32"), Const(1, "int32"))
    assert "add does not match: a[lane_b, lane_o] of the intrinsic is not int32(int8(" in refusal(
        store(lossy), ADD)


def test_tiles_are_reads():
    found = match(gemm_nest(), GEMM).binding
    assert all(isinstance(tile, Read) for _, tile in found.tiles)


TAB, OTHER = (Buffer(name, (256,), "int8", "tab") for name in ("t.tab", "u.tab"))
TABLES = Buffer("ts.tab", (9, 256), "int8", "tab")


def looking_up(value) -> Intrinsic:
    """An intrinsic of lanes (2, 4) whose value takes a, a table and the immediate s."""
    a = te.placeholder((2, 4), "int32", "a")[tuple(axis.var for axis in LANES)]
    s = IMMEDIATES["s"]
    return Intrinsic(
        "lookup", "vector", Operand("dst", (2, 4), "int32", (("acc", "int32"), ("out", "int8"))),
        (Operand("a", (2, 4), "int32", EVERYWHERE[:2]),
         Operand("table", (256,), "int32", (("tab", "int8"),))),
        LANES, value(a, te.placeholder((256,), "int32", "table"), s.var), "assign", (s,), loops=5)


LOOKUP = looking_up(lambda a, table, s: table[a & 255])
LOOKUP_TWICE = looking_up(lambda a, table, s: table[a & 255] - table[(a >> 8) & 15])
LOOKUP_SHIFTED = looking_up(lambda a, table, s: table[(a >> s.astype("int32")) & 255])


@pytest.mark.parametrize("place", [
    lambda x: (x.astype("int32") & 255).astype("int64"), lambda x: x.astype("int64") & 255,
    lambda x: x.astype("uint8").astype("int64"),
    lambda x: Binary("and", Const(255, INDEX), x.astype("int64"))])
def test_a_table_is_read_at_a_computed_place(place):
    found = match(store(TAB[place(RES[OUT, B, O])], NARROW), LOOKUP).binding
    assert found.tiles == (("dst", NARROW[OUT, 0, 0]), ("a", RES[OUT, 0, 0]), ("table", TAB[0]))


def test_one_of_several_tables():
    value = TABLES[OUT + KH, ACC[OUT, B, O].astype("uint8").astype("int64")].astype("int32")
    found = match(store(value), LOOKUP).binding
    assert found.tile("table") == TABLES[OUT + KH, 0] and found.tile("a") == ACC[OUT, 0, 0]


def test_a_table_that_is_read_twice_is_one_table():
    x = ACC[OUT, B, O]

    def value(first, second):
        return store(first[x.astype("uint8").astype("int64")].astype("int32")
                     - second[((x >> 8) & 15).astype("int64")].astype("int32"))

    assert match(value(TAB, TAB), LOOKUP_TWICE).binding.tile("table") == TAB[0]
    assert refusal(value(TAB, OTHER), LOOKUP_TWICE).endswith(
        "is not int32(u.tab[int64(x.acc[out, b, o] >> 8 & 15)]) of the program")


def test_an_immediate_in_the_place_is_bound():
    for place, bound in ((ACC[OUT, B, O] >> 5, 5), (ACC[OUT, B, O], 0)):
        value = TAB[place.astype("uint8").astype("int64")]
        found = match(store(value, NARROW), LOOKUP_SHIFTED).binding
        assert found.immediate("s") == Const(bound, "uint8")


@pytest.mark.parametrize("place", [
    RES[OUT, B, O].astype("int64") & 127, O + 3, (RES[OUT, B, O].astype("int64") + 1) & 255,
    RES[OUT, O % 2, O].astype("uint8").astype("int64"), ZERO])
def test_a_table_is_not_read_at_another_place(place):
    assert refusal(store(TAB[place], NARROW), LOOKUP).startswith("lookup does not match: ")
