"""Loop programs as instructions: which loops fold, what is unrolled, what is refused. Whatever is
emitted computes what the interpreter says.
"""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine import isa
from accel.machine.intrinsics import SHIPPED, Declaration, vector_op
from accel.machine.machine import Machine
from accel.machine.program import Instruction, ProgramError
from accel.mapping.assembling import assemble
from accel.mapping.lowering import LoweringError
from accel.sim.meaning.functional import simulate
from compiler import te
from compiler.ir import Alloc, For, If, Seq, Stmt, Store, interpret
from compiler.ir import Program as LoopProgram
from compiler.schedule import Schedule, tensorize
from compiler.te import Axis, Buffer, Read, Tensor, Var
from compiler.tensorize import Intrinsic, Operand
from tests.support.machines import TINY

LANES = (1, 4)
Array = np.ndarray


def arrays(loops: LoopProgram) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {b.name: rng.integers(-128, 128, b.shape).astype(b.dtype) for b in loops.inputs}


def assert_right(machine: Machine, loops: LoopProgram) -> list[Instruction]:
    """The instructions, without FINISH, of a program that computes what the loops do."""
    program, given = assemble(machine, loops), arrays(loops)
    run = simulate(machine, program, inputs=given)
    assert run.ok, run.describe()
    for name, wanted in interpret(loops, given).items():
        np.testing.assert_array_equal(program.extract(run.memory, name), wanted)
    return program.instructions(machine)[:-1]


def lanewise(x: Tensor, d: Tensor, machine: Machine = TINY, *, op: str, tile: int = 0,
             at: str = "") -> LoopProgram:
    """``out = d(x)`` in tiles of some rows: loaded into res, computed by `op`, stored."""
    out = te.compute(d.shape, lambda *i: d[i], "out")
    s = Schedule([out])
    if tile:
        at, _ = s[out].split("i0", tile)
    s[d].set_scope("out")
    copy = s[x].cache_read("res")
    if at:
        s[d].compute_at(at)
        copy.compute_at(at)
    copy.tensorize(None, machine.intrinsic("load"))
    s[d].tensorize(s[d].name + f"_i{len(d.shape) - 2}", machine.intrinsic(op))
    s[out].tensorize(None, machine.intrinsic("store"))
    return s.program


def clamped(x: Tensor, shape: tuple[int, ...], at=lambda *i: i) -> Tensor:
    return te.compute((*shape, *LANES), lambda *i: te.clamp(
        x[(*at(*i[:-2]), *i[-2:])].astype("int32"), -50, 70).astype("int8"), "d")


def test_loops_fold_into_instructions() -> None:
    x = te.placeholder((6, 5, *LANES), "int8", "x")
    load, clamp, store = assert_right(TINY, lanewise(x, clamped(x, (6, 5)), op="clamp"))
    assert (load.fields["run"], store.fields["run"]) == (120, 120)
    assert [loop["extent"] for loop in clamp.fields["loops"]] == [1, 1, 1, 1, 30]
    assert (clamp.fields["lo"], clamp.fields["hi"]) == (-50, 70)


def test_a_ragged_tile_is_cut() -> None:
    x = te.placeholder((7, 2, *LANES), "int8", "x")
    stream = assert_right(TINY, lanewise(x, clamped(x, (7, 2)), op="clamp", tile=3))
    assert [i.fields["run"] for i in stream if i.name == "store"] == [24, 24, 8]
    assert [i.fields["loops"][-1]["extent"] for i in stream if i.name == "clamp"] == [6, 6, 2]
    assert [i.label for i in stream if i.name == "clamp"] == [
        f"main out_i0_o={tile}" for tile in range(3)]


def test_loops_that_walk_backwards_are_unrolled() -> None:
    x = te.placeholder((5, *LANES), "int8", "x")
    d = clamped(x, (5,), lambda i: (4 - i,))
    load, *clamps, store = assert_right(TINY, lanewise(x, d, op="clamp"))
    assert [i.fields["base"]["a"] for i in clamps] == [4, 3, 2, 1, 0]
    assert (load.name, store.name) == ("load", "store")


def test_an_address_that_is_not_affine_unrolls_its_loops() -> None:
    x = te.placeholder((3, *LANES), "int8", "x")
    d = clamped(x, (6,), lambda i: (i // 2,))
    _, *clamps, _ = assert_right(TINY, lanewise(x, d, op="clamp"))
    assert [i.fields["base"]["a"] for i in clamps] == [0, 0, 1, 1, 2, 2]


def test_more_loops_than_the_word_has_are_unrolled() -> None:
    """Transposed pairs keep six loops from merging; vector has five."""
    x = te.placeholder((2,) * 6 + LANES, "int8", "x")
    d = clamped(x, (2,) * 6, lambda a, b, c, d, e, f: (b, a, d, c, f, e))
    _, *clamps, _ = assert_right(TINY, lanewise(x, d, op="clamp"))
    assert [[loop["extent"] for loop in i.fields["loops"]] for i in clamps] == [[2] * 5] * 2


def test_an_immediate_operand_is_in_the_word() -> None:
    x = te.placeholder((3, *LANES), "int8", "x")
    d = te.compute((3, *LANES), lambda i0, i1, i2: (
        x[i0, i1, i2].astype("int32") + -7).astype("int8"), "d")
    add = assert_right(TINY, lanewise(x, d, op="add"))[1]
    assert isa.SOURCES_B[add.fields["b_source"]] == "imm" and add.fields["imm"] == -7


def windowed(kind: str, size: int, low: int, channels: int = 4) -> LoopProgram:
    """Rows of `size` pixels that begin `low` before the first pixel of a row of six."""
    x = te.placeholder((2, 6, channels), "int8", "x")

    def pixel(i0, i1, i2, i3):
        w = i1 - low
        conditions = [w >= 0, w < 6] + ([i3 < channels] if channels < 4 else [])
        return te.select(te.all_of(*conditions), x[i0, w, i3], -9)

    padded = te.compute((2, size, *LANES), pixel, "p")
    d = te.compute((2, size, *LANES), lambda i0, i1, i2, i3: te.clamp(
        padded[i0, i1, i2, i3].astype("int32"), -50, 70).astype("int8"), "d")
    out = te.compute(d.shape, lambda *i: d[i], "out")
    s = Schedule([out])
    s[d].set_scope("out")
    s[padded].set_scope("res")
    if kind == "tiles":
        at, _ = s[out].split("i1", 4)
        s[d].compute_at(at)
        s[padded].compute_at(at)
    s[padded].tensorize(None, TINY.forms["load"][1])
    s[d].tensorize("d_i2", TINY.intrinsic("clamp"))
    s[out].tensorize(None, TINY.intrinsic("store"))
    return s.program


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["whole", "tiles"])
@pytest.mark.parametrize("channels", [4, 3])
@pytest.mark.parametrize(("size", "low"), [(6, 0), (9, 2), (4, -1), (11, 5), (9, 8), (18, 12)])
def test_padding(kind: str, size: int, low: int, channels: int) -> None:
    loads = [i for i in assert_right(TINY, windowed(kind, size, low, channels))
             if i.name == "load"]
    assert all(i.fields["pad_value"] == (-9) & 0xFF for i in loads)


def test_padding_alone_is_one_load() -> None:
    """A tile before the first pixel reads nothing; nor does what is behind the last one."""
    loads = [i for i in assert_right(TINY, windowed("tiles", 18, 12)) if i.name == "load"]
    assert [any(loop["before"] == loop["extent"] for loop in i.fields["loops"])
            for i in loads] == [True, True, True, False, False, True] * 2


def products(machine: Machine, depth_step: int, extra: int = 1) -> LoopProgram:
    """A convolution row of 3 taps: 5 pixels, 3 blocks of channels to 2, in steps of depth; the
    accumulators are read out by copies.
    """
    config = machine.config
    b, o, i = config.batch, config.block_out, config.block_in
    x = te.placeholder((7, 3, b, i), "int8", "x")
    w = te.placeholder((2, 3, 3, o, i), "int8", "w")
    k, rc, ri = (te.reduce_axis(n, name) for n, name in ((3, "k"), (3, "rc"), (i, "ri")))
    acc = te.compute((extra * 5, 2, b, o), lambda p, c, n, l: te.sum(
        x[p % 5 + k.var, rc.var, n, ri.var].astype("int32")
        * w[c, k.var, rc.var, l, ri.var].astype("int32"), (rc, k, ri)), "acc")
    d = te.compute(acc.shape, lambda p, c, n, l: acc[p, c, n, l].astype("int8"), "d")
    out = te.compute(acc.shape, lambda p, c, n, l: d[p, c, n, l], "out")
    s = Schedule([out])
    s[d].set_scope("out")
    s[acc].set_scope("acc")
    copies = [s[source].cache_read(scope) for source, scope in ((x, "inp"), (w, "wgt"))]
    outer, inner = s[acc].split("rc", depth_step)
    s[acc].reorder(outer, "p", "c", inner, "k", "n", "l", "ri")
    for copy in copies:
        copy.compute_at(outer)
        copy.tensorize(None, machine.intrinsic("load"))
    s[acc].tensorize("n", machine.intrinsic("gemm"))
    s[d].tensorize("n", machine.intrinsic("copy"))
    s[out].tensorize(None, machine.intrinsic("store"))
    return s.program


def test_reset_is_where_the_reduction_begins() -> None:
    for step, resets in ((3, [1]), (1, [1, 0, 0]), (2, [1, 0])):
        stream = assert_right(TINY, products(TINY, step))
        gemms = [i for i in stream if i.name == "gemm"]
        assert [i.fields["reset"] for i in gemms] == resets
        assert all(i.fields["banks"] == 1 for i in gemms)


def test_an_instruction_over_both_banks_names_both() -> None:
    small = Machine(replace(TINY.config, acc_bytes=256, out_bytes=64))
    gemm, copy = (i for i in assert_right(small, products(small, 3)) if i.unit in (
        "gemm", "vector"))
    assert (gemm.fields["banks"], copy.fields["banks"]) == (3, 3)


def test_an_update_in_an_unrolled_reduction_is_right() -> None:
    """Rows modulo five are no affine address: each is an instruction that begins with reset."""
    gemms = [i for i in assert_right(TINY, products(TINY, 1, extra=2)) if i.name == "gemm"]
    assert [i.fields["reset"] for i in gemms] == [1] * 10 + [0] * 20


def test_constants_are_weights() -> None:
    loops = products(TINY, 3)
    given = arrays(loops)
    program = assemble(TINY, loops, {"w": given["w"]})
    assert [slot.name for slot in program.inputs] == ["x"]
    assert program.weights.size == -(-given["w"].size // 64) * 64
    run = simulate(TINY, program, inputs={"x": given["x"]})
    np.testing.assert_array_equal(program.extract(run.memory, "out"),
                                  interpret(loops, given)["out"])


def test_constants_that_do_not_fit_are_refused() -> None:
    loops = products(TINY, 3)
    with pytest.raises(ProgramError, match=r"^Constant of main must be one of x, w, not 'v'$"):
        assemble(TINY, loops, {"v": np.zeros(1)})
    with pytest.raises(ProgramError) as refusal:
        assemble(TINY, loops, {"w": np.zeros((2, 3), np.int8)})
    assert str(refusal.value) == ("Constant w must be int8 of shape (2, 3, 3, 4, 4), not int8 of "
                                  "shape (2, 3)")


def test_two_threads_have_two_copies_in_two_banks() -> None:
    double = vector_op("double", lambda a: a + a)
    machine = Machine(TINY.config, (*SHIPPED, double))
    x = te.placeholder((6, *LANES), "int8", "x")
    acc = te.compute((6, *LANES), lambda i0, i1, i2: x[i0, i1, i2].astype("int32")
                     + x[i0, i1, i2].astype("int32"), "acc")
    d = te.compute((6, *LANES), lambda i0, i1, i2: acc[i0, i1, i2].astype("int8"), "d")
    out = te.compute((6, *LANES), lambda i0, i1, i2: d[i0, i1, i2], "out")
    s = Schedule([out])
    s[out].virtual_thread("i0")
    for stage, scope in ((d, "out"), (acc, "acc")):
        s[stage].compute_at("out_i0")
        s[stage].set_scope(scope)
    copy = s[x].cache_read("res")
    copy.compute_at("out_i0")
    copy.tensorize(None, machine.intrinsic("load"))
    s[acc].tensorize("i1", machine.intrinsic("double"))
    s[d].tensorize("i1", machine.intrinsic("copy"))
    s[out].tensorize(None, machine.intrinsic("store"))
    stream = assert_right(machine, s.program)
    doubles = [i for i in stream if i.name == "double"]
    bank = machine.config.bank_depth
    assert len({i.fields["base"]["dst"] for i in doubles}) == 6
    assert [i.fields["banks"] for i in doubles] == [1, 2] * 3
    assert [i.fields["base"]["dst"] // bank for i in doubles] == [0, 1] * 3


def test_a_copy_that_writes_an_element_twice_keeps_its_order() -> None:
    """The last of the writes remains, whatever the run and the loops could be merged to."""
    x, y = Buffer("x", (3, 2, 4), "int8"), Buffer("y", (5, *LANES), "int8")
    near, out = Buffer("near", y.shape, "int8", "res"), Buffer("out", y.shape, "int8", "out")
    k, i, c = Var("k"), Var("i"), Var("c")
    load = _nest([(k, 3), (i, 2), (c, 4)],
                 Store(near, (i * 2 + k, te.const(0, "int64"), c), Read(x, (k, i, c))))
    body = Seq((load, _copied(near, out, "m"), _copied(out, y, "n")))
    loops = LoopProgram("main", (x,), (y,), Alloc(near, Alloc(out, body)))
    loops = tensorize(loops, "near", TINY.forms["load"][0])
    loops = tensorize(loops, "m1", TINY.intrinsic("copy"))
    loops = tensorize(loops, "y", TINY.intrinsic("store"))
    assert [one.unit for one in assert_right(TINY, loops)] == ["load"] * 3 + ["vector", "store"]


def test_guards_cut_loops_at_both_ends() -> None:
    """Rows 2 to 4 of seven are clamped closer than the others."""
    x, y = Buffer("x", (7, *LANES), "int8"), Buffer("y", (7, *LANES), "int8")
    near, out = Buffer("near", y.shape, "int8", "res"), Buffer("out", y.shape, "int8", "out")
    stmts = [_copied(x, near, "m")]
    for name, conditions, limit in (("a", [lambda i: i < 2], 90), ("b", [lambda i: i >= 5], 80),
                                    ("c", [lambda i: i > 1, lambda i: i <= 4], 9)):
        i, b, o = (Var(f"{name}{d}") for d in range(3))
        lane = te.clamp(Read(near, (i, b, o)).astype("int32"), -limit, limit).astype("int8")
        tile = _nest([(b, 1), (o, 4)], Store(out, (i, b, o), lane))
        stmts.append(For(i, 7, If(te.all_of(*(one(i) for one in conditions)), tile)))
    stmts.append(_copied(out, y, "n"))
    loops = LoopProgram("main", (x,), (y,), Alloc(near, Alloc(out, Seq(tuple(stmts)))))
    loops = tensorize(loops, "near", TINY.forms["load"][0])
    for place in ("a1", "b1", "c1"):
        loops = tensorize(loops, place, TINY.intrinsic("clamp"))
    clamps = [one for one in assert_right(TINY, tensorize(loops, "y", TINY.intrinsic("store")))
              if one.unit == "vector"]
    assert [(one.fields["base"]["dst"], one.fields["loops"][-1]["extent"]) for one in clamps] == [
        (0, 2), (5, 2), (2, 3)]


def _nest(ranges: list[tuple[Var, int]], stmt: Stmt) -> Stmt:
    for var, extent in reversed(ranges):
        stmt = For(var, extent, stmt)
    return stmt


def _copied(source: Buffer, target: Buffer, name: str) -> Stmt:
    indices = tuple(Var(f"{name}{d}") for d in range(len(target.shape)))
    return _nest(list(zip(indices, target.shape, strict=True)),
                 Store(target, indices, Read(source, indices)))


def refused(loops: LoopProgram, message: str, machine: Machine = TINY) -> None:
    with pytest.raises(LoweringError) as refusal:
        assemble(machine, loops)
    assert str(refusal.value) == message


def test_a_statement_that_is_not_tensorized_is_refused() -> None:
    x = te.placeholder((3, *LANES), "int8", "x")
    d = clamped(x, (3,))
    out = te.compute(d.shape, lambda *i: d[i], "out")
    s = Schedule([out])
    s[d].set_scope("out")
    s[out].tensorize(None, TINY.intrinsic("store"))
    refused(s.program, "main: every statement must be tensorized, but Store to d is not")


def test_tiles_that_begin_inside_an_entry_are_refused() -> None:
    """A product of a weight for each output lies in the first of sixteen bytes."""
    def term(x, w, b, o, i):
        return x[(*b, i)].astype("int32") * w[(*o, 0)].astype("int32")

    def build(config) -> tuple[Intrinsic, ...]:
        b, o, i = Axis(Var("b"), 1), Axis(Var("o"), 4), te.reduce_axis(4, "i")
        x, w = te.placeholder(LANES, "int8", "inp"), te.placeholder((4, 1), "int8", "wgt")
        return (Intrinsic(
            "one", "gemm", Operand("dst", LANES, "int32", (("acc", "int32"),)),
            (Operand("inp", LANES, "int8", (("inp", "int8"),)),
             Operand("wgt", (4, 1), "int8", (("wgt", "int8"),))), (b, o),
            te.sum(term(x, w, (b.var,), (o.var,), i.var), i), "sum", loops=6),)

    machine = Machine(TINY.config, (*SHIPPED, Declaration("one", "gemm", build)))
    x, w = te.placeholder((3, *LANES), "int8", "x"), te.placeholder((3, 4, 1), "int8", "w")
    k, i = te.reduce_axis(3, "k"), te.reduce_axis(4, "i")
    sums = te.compute(LANES, lambda b, o: te.sum(
        term(x, w, (k.var, b), (k.var, o), i.var), (k, i)), "sums")
    high = te.compute(LANES, lambda b, o: (sums[b, o] >> 3).astype("int8"), "high")
    out = te.compute(LANES, lambda b, o: high[b, o], "out")
    s = Schedule([out])
    for stage, scope in ((sums, "acc"), (high, "out")):
        s[stage].set_scope(scope)
    for source, scope in ((x, "inp"), (w, "wgt")):
        s[source].cache_read(scope).tensorize(None, machine.intrinsic("load"))
    s[sums].reorder("k", "b", "o", "i")
    for stage, name in ((sums, "one"), (high, "shr")):
        s[stage].tensorize("b", machine.intrinsic(name))
    s[out].tensorize(None, machine.intrinsic("store"))
    refused(s.program, "Tiles of w_wgt must begin at whole entries of wgt, 16 bytes apart, not 4",
            machine)


def test_a_buffer_that_overflows_is_refused() -> None:
    x = te.placeholder((300, *LANES), "int8", "x")
    refused(lanewise(x, clamped(x, (300,)), op="clamp"),
            "out must hold d in 1 copies of 1200 bytes, but has only 1024")


def test_a_buffer_in_no_scope_of_the_machine_is_refused() -> None:
    x = te.placeholder((3, *LANES), "int8", "x")
    d = clamped(x, (3,))
    out = te.compute(d.shape, lambda *i: d[i], "out")
    s = Schedule([out])
    s[d].set_scope("shared")
    refused(s.program, "Scope of d must be an on-chip buffer, not 'shared'")


def test_a_condition_that_is_no_comparison_is_refused() -> None:
    x = te.placeholder((6, 4), "int8", "x")
    padded = te.compute((6, *LANES), lambda i0, i1, i2: te.select(
        te.Binary("or", i0 < 2, i0 > 3), x[i0, i2], 0), "p")
    d = te.compute((6, *LANES), lambda i0, i1, i2: te.clamp(
        padded[i0, i1, i2].astype("int32"), -50, 70).astype("int8"), "d")
    out = te.compute(d.shape, lambda *i: d[i], "out")
    s = Schedule([out])
    s[d].set_scope("out")
    s[padded].set_scope("res")
    s[padded].tensorize(None, TINY.forms["load"][1])
    s[d].tensorize("d_i1", TINY.intrinsic("clamp"))
    s[out].tensorize(None, TINY.intrinsic("store"))
    refused(s.program, "main: address or condition must be affine in the loops, not "
                       "p_i0 < 2 or p_i0 > 3")
