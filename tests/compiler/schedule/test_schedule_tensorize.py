"""Handing nests to intrinsics, and what is refused, before and afterwards."""

import pytest

from compiler import te
from compiler.ir import lower, program_text
from compiler.schedule import (cache_read, cache_write, compute_at, compute_inline, fuse, reorder,
                               set_scope, split, tensorize)
from compiler.te import Axis, Var
from compiler.tensorize import Immediate, Intrinsic, Operand
from tests.compiler.ir.samples import assert_same_meaning, matmul, scaled
from tests.compiler.schedule.checks import expect, refused

GLOBAL = (("global", "int32"),)


def row(extent: int, window: bool = False) -> Intrinsic:
    """``dst[j] += a * b[j]``, over rows of one matrix or parts of them."""
    j = Axis(Var("lane"), extent)
    a, b = te.placeholder((), "int32", "a"), te.placeholder((extent,), "int32", "b")
    dst, rows = (Operand(name, (extent,), "int32", GLOBAL, window=window) for name in ("dst", "b"))
    return Intrinsic("row", "fma", dst, (Operand("a", (), "int32", GLOBAL), rows),
                     (j,), a[()] * b[j], "sum")


def scale() -> Intrinsic:
    """``dst = a * imm``, one element."""
    imm = Immediate("imm", "int32", -8, 7)
    a = te.placeholder((), "int32", "a")
    return Intrinsic("scale", "alu", Operand("dst", (), "int32", GLOBAL),
                     (Operand("a", (), "int32", GLOBAL),), (), a[()] * imm.var,
                     immediates=(imm,))


def moved() -> Intrinsic:
    """Copy of one element from DRAM to ``near``."""
    return Intrinsic("move", "load", Operand("dst", (), "int32", (("near", "int32"),)),
                     (Operand("src", (), "int32", GLOBAL),), (),
                     te.placeholder((), "int32", "src")[()])


def by_rows():
    """Matrix product whose innermost loop is a row: ``c[i, j] += x[i, k] * y[k, j]``."""
    return reorder(lower([matmul()], "main"), "k", "c_j")


ROWS = by_rows()
SCALED = lower([scaled()], "main")
TENSORIZED = tensorize(ROWS, "c_j", row(6))


def test_nest_becomes_an_intrinsic():
    expect(TENSORIZED, """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for k in 0..8:
            row(dst=c[c_i, 0], a=x[c_i, k], b=y[k, 0]) begin(k)
        """)
    assert_same_meaning(ROWS, TENSORIZED)


def test_text_shows_the_nest_when_asked():
    assert program_text(TENSORIZED, bodies=True).splitlines()[3:] == [
        "    row(dst=c[c_i, 0], a=x[c_i, k], b=y[k, 0]) begin(k)",
        "      for c_j in 0..6:",
        "        c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)"]


def test_bare_store_of_a_stage_becomes_an_intrinsic():
    expect(tensorize(SCALED, "b", scale(), imm=3), """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          scale(dst=b[b_i], a=a[b_i], imm=3)
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_later_steps_carry_the_binding_along():
    scaled_ = tensorize(split(SCALED, "c_i", 4), "b", scale())
    placed = set_scope(compute_at(scaled_, "b", "c_i_o"), "b", "near")
    expect(split(split(placed, "b_i", 2), "c_i_o", 2), """
        program main(a: int32[10]) -> c: int32[10]
        for c_i_o_o in 0..2:
          for c_i_o_i in 0..2:
            if c_i_o_o*2 + c_i_o_i < 3:
              alloc near.b: int32[4]
              for b_i_o in 0..2:
                for b_i_i in 0..2:
                  if c_i_o_o*8 + c_i_o_i*4 + b_i_o*2 + b_i_i < 10:
                    scale(dst=b[b_i_o*2 + b_i_i], \
a=a[c_i_o_o*8 + c_i_o_i*4 + b_i_o*2 + b_i_i], imm=3)
              for c_i_i in 0..4:
                if c_i_o_o*8 + c_i_o_i*4 + c_i_i < 10:
                  c[c_i_o_o*8 + c_i_o_i*4 + c_i_i] = b[c_i_i] + 1
        """)
    assert_same_meaning(SCALED, placed)


def test_reduction_outside_of_the_tile_may_still_be_split():
    after = split(TENSORIZED, "k", 4)
    assert "row(dst=c[c_i, 0], a=x[c_i, k_o*4 + k_i], b=y[k_o*4 + k_i, 0]) begin(k_o, k_i)" in (
        program_text(after))
    assert_same_meaning(ROWS, after)


def test_tensorize_refuses_another_nest():
    refused(lambda: tensorize(ROWS, "c_j", row(5)), """
        tensorize: row does not match: last dimensions of c must be (5,), not (6,)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for k in 0..8:
            for c_j in 0..6:    <-- here
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_refused_immediate():
    refused(lambda: tensorize(SCALED, "b", scale(), imm=4), """
        tensorize: immediate imm of scale must be 4, not 3
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3    <-- here
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_refused_immediate_that_does_not_exist():
    refused(lambda: tensorize(SCALED, "b", scale(), zp=4), """
        tensorize: immediate zp of scale must be 4, not unbound
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3    <-- here
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_refused_place():
    refused(lambda: tensorize(ROWS, "q", row(6)), """
        tensorize: place must be a loop or a stage, not 'q'
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for k in 0..8:
            for c_j in 0..6:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


PERFORMED = """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for k in 0..8:
            row(dst=c[c_i, 0], a=x[c_i, k], b=y[k, 0]) begin(k)    <-- here
        """


def test_loops_of_an_intrinsic_are_out_of_reach():
    message = "loop c_j must not be inside row, which performs it as a whole"
    refused(lambda: split(TENSORIZED, "c_j", 2), f"\n        split: {message}{PERFORMED}")
    refused(lambda: tensorize(TENSORIZED, "c_j", row(6)),
            f"\n        tensorize: {message}{PERFORMED}")
    refused(lambda: tensorize(TENSORIZED, "c", row(6)),
            f"\n        tensorize: {message}{PERFORMED}")


def test_buffers_of_an_intrinsic_take_no_copies():
    refused(lambda: cache_read(TENSORIZED, "x", "near"),
            f"\n        cache_read: x must not be used by row already{PERFORMED}")
    refused(lambda: cache_write(TENSORIZED, "c", "near"),
            f"\n        cache_write: c must not be used by row already{PERFORMED}")


def test_stage_of_an_intrinsic_is_not_inlined():
    refused(lambda: compute_inline(tensorize(SCALED, "b", scale()), "b"), """
        compute_inline: b must not be used by scale already
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          scale(dst=b[b_i], a=a[b_i], imm=3)    <-- here
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_tile_of_an_intrinsic_is_not_cut():
    cached = cache_write(ROWS, "c", "global", name="acc")
    whole = tensorize(split(cached, "c_j", 3), "acc_j", row(6))
    refused(lambda: compute_at(whole, "acc", "c_j_o"), """
        compute_at: axis acc_j of row must keep its extent 6, not 3
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc acc: int32[4, 6]
        for acc_i in 0..4:
          for k in 0..8:
            row(dst=acc[acc_i, 0], a=x[acc_i, k], b=y[k, 0]) begin(k)    <-- here
        for c_i in 0..4:
          for c_j_o in 0..2:
            for c_j_i in 0..3:
              c[c_i, c_j_o*3 + c_j_i] = acc[c_i, c_j_o*3 + c_j_i]
        """)


def test_guarded_copy():
    """The store alone is the tile: a guard around it stays."""
    cached = cache_read(SCALED, "a", "near")
    placed = compute_at(compute_at(split(cached, "c_i", 4), "b", "c_i_o"), "a_near", "c_i_o")
    after = tensorize(placed, "a_near", moved())
    assert "move(dst=a_near[a_near_0], src=a[c_i_o*4 + a_near_0])" in program_text(after)
    assert_same_meaning(SCALED, after)


def pieces(columns: int, factor: int):
    """A product in rows of four elements, and a map that reads it in parts of its columns."""
    c = matmul(4, columns, 3)
    d = te.compute((4, columns), lambda i, j: c[i, j] + 1, "d")
    program = reorder(split(lower([d], "main"), "c_j", 4), "c_j_o", "k", "c_j_i")
    return d, split(tensorize(program, "c_j_i", row(4, window=True)), "d_j", factor)


def test_compute_at_takes_whole_pieces():
    d, program = pieces(16, 8)
    after = compute_at(program, "c", "d_j_o")
    expect(after, """
        program main(x: int32[4, 3], y: int32[3, 16]) -> d: int32[4, 16]
        for d_i in 0..4:
          for d_j_o in 0..2:
            alloc c: int32[1, 8]
            for c_i in 0..1:
              for c_j_o in 0..2:
                for k in 0..3:
                  row(dst=c[c_i, c_j_o*4], a=x[d_i + c_i, k], b=y[k, d_j_o*8 + c_j_o*4]) begin(k)
            for d_j_i in 0..8:
              d[d_i, d_j_o*8 + d_j_i] = c[0, d_j_i] + 1
        """)
    assert_same_meaning(lower([d], "main"), after)


def test_compute_at_refuses_parts_of_pieces():
    for factor in (6, 2):
        _, program = pieces(16, factor)
        with pytest.raises(ValueError, match="^compute_at: axis c_j_i of row must run over whole "
                                             "pieces of c\n"):
            compute_at(program, "c", "d_j_o")


def test_compute_at_refuses_an_intrinsic_on_fused_axes():
    x = te.placeholder((2, 4), "int32", "x")
    b = te.compute((2, 4), lambda i, j: x[i, j] * 3, "b")
    program = lower([te.compute((2, 4), lambda i, j: b[i, j] + 1, "c")], "main")
    program = tensorize(fuse(program, "b_i", "b_j"), "b", scale(), imm=3)
    with pytest.raises(ValueError, match="^compute_at: b must not be used by scale already: its "
                                         "axes get new loops\n"):
        compute_at(program, "b", "c_i")
