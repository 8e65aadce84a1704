"""Schedules that another compiler accepted silently and answered with wrong results, by its
published issues. Here each is refused, or right.

All threads are of github.com/apache/tvm; the programs below are our own.
"""

import pytest

from compiler import te
from compiler.ir import Alloc, For, If, Program, Seq, Store, lower
from compiler.schedule import (pad, parallel, reverse_compute_at, reverse_inline, rfactor, split,
                               vectorize)
from compiler.te import Buffer, Var
from tests.compiler.ir.samples import assert_same_meaning, matmul
from tests.compiler.schedule.checks import refused

A, B, C = (Buffer(name, (8,), "int32") for name in "abc")
I, J = Var("i"), Var("j")


def total(reducer=te.sum, dtype: str = "float32") -> Program:
    x, k = te.placeholder((128,), dtype, "x"), te.reduce_axis(128, "k")
    return lower([te.compute((1,), lambda i: reducer(x[k], k), "sum")], "main")


def test_vectorized_reduction():
    """Issues 670 and 1795: lanes of one sum overwrite each other."""
    refused(lambda: vectorize(total(), "k"), """
        vectorize: iterations of k must not depend on each other
          updates sum[0] at sum_i=0, k=0: sum[sum_i] += x[k] begin(k)
          updates sum[0] at sum_i=0, k=1: sum[sum_i] += x[k] begin(k)
        program main(x: float32[128]) -> sum: float32[1]
        for sum_i in 0..1:
          for k in 0..128:
            sum[sum_i] += x[k] begin(k)    <-- here
        """)


def test_parallel_reduction():
    """Issue 7420: threads of the CPU race for one element of a product of matrices."""
    refused(lambda: parallel(lower([matmul(2, 2, 4, "float32")], "main"), "k"), """
        parallel: iterations of k must not depend on each other
          updates c[0, 0] at c_i=0, c_j=0, k=0: c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
          updates c[0, 0] at c_i=0, c_j=0, k=1: c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        program main(x: float32[2, 4], y: float32[4, 2]) -> c: float32[2, 2]
        for c_i in 0..2:
          for c_j in 0..2:
            for k in 0..4:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)    <-- here
        """)


def test_partial_results_of_what_is_not_commutative():
    """Issue 15196: a reducer by subtraction gives something else after rfactor."""
    minus = te.reducer("minus", lambda l, r: (l[0] - r[0],), (te.const(0, "float32"),))
    x, k = te.placeholder((8,), "float32", "x"), te.reduce_axis(8, "k")
    with pytest.raises(ValueError) as caught:       # noqa: PT011 - the whole message is compared
        lower(te.compute((1,), lambda i: minus((x[k],), k), ("difference",)), "main")
    assert str(caught.value) == (
        "Reducer minus cannot be used: its identity must change nothing, but (0.0) and (5.0) give "
        "(-5.0), not (5.0)")


def partly_written() -> Program:
    """b is stored where i < 6; c is made of all of it, zero elsewhere."""
    value = te.select(J < 6, B[J] + 1, 0)
    return Program("main", (A,), (C,), Alloc(B, Seq((
        For(I, 8, If(I < 6, Store(B, (I,), A[I] * 2))), For(J, 8, Store(C, (J,), value))))))


def test_inlining_into_a_producer_under_a_guard():
    """Pull request 13338: the guard of the producer was lost."""
    refused(lambda: reverse_inline(partly_written(), "c"), """
        reverse_inline: all of c must be computed, but what it reads is not all made there
        program main(a: int32[8]) -> c: int32[8]
        for i in 0..8:
          if i < 6:
            c[i] = select(i < 6, a[i] * 2 + 1, 0)    <-- here
        """)


@pytest.mark.parametrize("loop", ["d_i_o", "d_i_i"])
def test_a_consumer_in_a_loop_of_a_ragged_split(loop):
    """Issue 15911: a part of the array was not computed. It is right here."""
    x, y = te.placeholder((35,), "float32", "x"), te.placeholder((35,), "float32", "y")
    c = te.compute((35,), lambda i: x[i] + y[i], "c")
    d = te.compute((35,), lambda i: c[i] + c[i], "d")
    program = lower([te.compute((35,), lambda i: d[i] + x[i], "e")], "main")
    moved = reverse_compute_at(split(program, "d_i", 8), "e", loop)
    assert_same_meaning(program, moved)
    assert_same_meaning(partly_written(), reverse_compute_at(partly_written(), "c", "i"))


@pytest.mark.parametrize("factor", [3, 4, 7, 8])
def test_nested_partial_results_of_ragged_splits(factor):
    """Issue 3381: guards kept the variables of before. They are right here."""
    x, k = te.placeholder((1, 29), "int32", "x"), te.reduce_axis(29, "k")
    program = lower([te.compute((1,), lambda i: te.sum(x[i, k], k), "b")], "main")
    once = rfactor(split(program, "k", factor), "b", "k_i")
    twice = rfactor(split(once, "k_o", 2), "b_rf", "k_o_i") if factor < 8 else once
    assert_same_meaning(program, twice)
    assert_same_meaning(program, pad(program, "k", 32))
