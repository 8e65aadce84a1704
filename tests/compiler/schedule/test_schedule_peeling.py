"""Last iterations that stand by themselves."""

import pytest

from compiler import te
from compiler.ir import Program, interpret, lower
from compiler.schedule import (compute_at, decompose_reduction, peel, reorder, split, tensorize,
                               unroll, vectorize)
from compiler.te import Axis, Var
from compiler.tensorize import Intrinsic, Operand
from tests.compiler.ir.samples import arrays, assert_same_meaning, matmul, scaled
from tests.compiler.schedule.checks import expect, refused

SCALED = lower([scaled()], "main")
MATMUL = lower([matmul(5, 6, 7)], "main")


def test_peel_leaves_the_guard_to_nobody():
    program = peel(split(SCALED, "c_i", 4), "c_i_o")
    expect(program, """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i_o in 0..2:
          for c_i_i in 0..4:
            c[c_i_o*4 + c_i_i] = b[c_i_o*4 + c_i_i] + 1
        for c_i_i_last in 0..2:
          c[c_i_i_last + 8] = b[c_i_i_last + 8] + 1
        """)
    assert_same_meaning(SCALED, program)


def tiled() -> Program:
    program = compute_at(split(SCALED, "c_i", 4), "b", "c_i_o")
    return vectorize(unroll(program, "c_i_i"), "b_i")


def test_peel_gives_buffers_and_loops_names_of_their_own():
    program = peel(tiled(), "c_i_o")
    expect(program, """
        program main(a: int32[10]) -> c: int32[10]
        for c_i_o in 0..2:
          alloc b: int32[4]
          for b_i in 0..4 (vectorize):
            b[b_i] = a[c_i_o*4 + b_i] * 3
          for c_i_i in 0..4 (unroll):
            c[c_i_o*4 + c_i_i] = b[c_i_i] + 1
        alloc b_last: int32[4]
        for b_i_last in 0..2 (vectorize):
          b_last[b_i_last] = a[b_i_last + 8] * 3
        for c_i_i_last in 0..2 (unroll):
          c[c_i_i_last + 8] = b_last[c_i_i_last] + 1
        """)
    assert_same_meaning(SCALED, program)


@pytest.mark.parametrize("columns", [2, 4, 5])
def test_peel_around_a_reduction(columns: int):
    program = reorder(split(MATMUL, "c_j", columns), "c_j_o", "k", "c_i", "c_j_i")
    peeled = peel(program, "c_j_o")
    inputs = arrays(MATMUL)
    assert (interpret(peeled, inputs)["c"] == interpret(MATMUL, inputs)["c"]).all()


def test_peel_refuses_a_single_iteration():
    refused(lambda: peel(split(SCALED, "c_i", 10), "c_i_o"), """\
        peel: c_i_o must have at least two iterations, not 1
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i_o in 0..1:    <-- here
          for c_i_i in 0..10:
            c[c_i_o*10 + c_i_i] = b[c_i_o*10 + c_i_i] + 1
        """)


def test_peel_refuses_loops_that_are_marked():
    with pytest.raises(ValueError, match="^peel: c_i must be a serial or an unrolled loop, not "
                                         "vectorize\n"):
        peel(vectorize(SCALED, "c_i"), "c_i")


def test_peel_of_a_reduction_that_has_begun():
    """The last iterations go on with the sum."""
    x, k = te.placeholder((7,), "int32", "x"), te.reduce_axis(2, "k")
    before = lower([te.compute((4,), lambda i: te.sum(te.select(
        k * 4 + i < 7, x[k * 4 + i], 0), k), "y")], "main")
    peeled = peel(reorder(decompose_reduction(before, "y", "y_i"), "k", "y_i"), "k")
    expect(peeled, """
        program main(x: int32[7]) -> y: int32[4]
        for y_i_init in 0..4:
          y[y_i_init] = 0
        for k in 0..1:
          for y_i in 0..4:
            y[y_i] += x[k*4 + y_i] over(k)
        for y_i_last in 0..4:
          y[y_i_last] += select(y_i_last + 4 < 7, x[y_i_last + 4], 0)
        """)
    assert_same_meaning(before, peeled)


def test_peel_refuses_a_reduction_that_begins():
    with pytest.raises(ValueError, match="^peel: c must not begin in k: decompose its reduction "
                                         "before\n"):
        peel(MATMUL, "k")


def test_peel_refuses_names_in_use():
    with pytest.raises(ValueError, match="^peel: name 'x_last' must not be in use\n"):
        peel(split(split(SCALED, "b_i", 5, inner="x_last"), "c_i", 4, inner="x"), "c_i_o")


def test_peel_refuses_tensorized_tiles():
    lane = Axis(Var("lane"), 2)
    dst, a = (Operand(name, (2,), "int32", (("global", "int32"),), window=True)
              for name in ("dst", "a"))
    triple = Intrinsic("triple", "vector", dst, (a,), (lane,),
                       te.placeholder((2,), "int32", "a")[lane.var] * 3, "assign")
    program = tensorize(split(SCALED, "b_i", 2), "b_i_i", triple)
    with pytest.raises(ValueError, match="^peel: b_i_o must not be around triple\n"):
        peel(program, "b_i_o")
