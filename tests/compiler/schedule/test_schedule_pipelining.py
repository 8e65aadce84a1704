"""Iterations that overlap: copies of buffers in turns, statements that run ahead."""

import pytest

from compiler import te
from compiler.ir import For, If, Program, Seq, Store, Update, lower, program_text
from compiler.schedule import (bind, cache_read, compute_at, double_buffer, parallel, pipeline,
                               reorder, split, storage_align, unroll)
from compiler.te import Buffer, Const, Var
from tests.compiler.ir.samples import assert_same_meaning, matmul, scaled
from tests.compiler.schedule.checks import expect, refused

SCALED = lower([scaled()], "main")
MATMUL = lower([matmul()], "main")
I, J, K = Var("i"), Var("j"), Var("k")
A, B, C = (Buffer(name, (8,), "int32") for name in "abc")


def loaded(scope: str = "shared") -> Program:
    """Rows of y, loaded one by one into a buffer that each iteration of k has."""
    program = cache_read(reorder(MATMUL, "k", "c_i", "c_j"), "y", scope)
    return compute_at(program, f"y_{scope}", "k")


def tiled(factor: int = 2) -> Program:
    """Both operands through tiles that each iteration of k_o has."""
    program = reorder(split(MATMUL, "k", factor), "k_o", "c_i", "c_j")
    program = cache_read(cache_read(program, "x", "shared"), "y", "shared")
    return compute_at(compute_at(program, "x_shared", "k_o"), "y_shared", "k_o")


def test_double_buffer_takes_turns():
    program = double_buffer(loaded(), "y_shared")
    expect(program, """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[2, 1, 6]
        for k in 0..8:
          for y_shared_0 in 0..1:
            for y_shared_1 in 0..6:
              y_shared[k % 2, y_shared_0, y_shared_1] = y[k + y_shared_0, y_shared_1]
          for c_i in 0..4:
            for c_j in 0..6:
              c[c_i, c_j] += x[c_i, k] * y_shared[k % 2, 0, c_j] begin(k)
        """)
    assert_same_meaning(MATMUL, program)


def test_pipeline_loads_the_next_while_it_computes():
    program = pipeline(loaded(), "k", 0, 1)
    expect(program, """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[2, 1, 6]
        for y_shared_0_pre in 0..1:
          for y_shared_1_pre in 0..6:
            y_shared[0, y_shared_0_pre, y_shared_1_pre] = y[y_shared_0_pre, y_shared_1_pre]
        for k in 0..8:
          if k < 7:
            for y_shared_0 in 0..1:
              for y_shared_1 in 0..6:
                y_shared[(k + 1) % 2, y_shared_0, y_shared_1] = y[k + y_shared_0 + 1, y_shared_1]
          for c_i in 0..4:
            for c_j in 0..6:
              c[c_i, c_j] += x[c_i, k] * y_shared[k % 2, 0, c_j] begin(k)
        """)
    assert_same_meaning(MATMUL, program)


def test_pipeline_with_two_loads_in_flight_and_notes():
    program = pipeline(tiled(), "k_o", 0, 0, 2, asynchronous=True)
    expect(program, """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[3, 2, 6]
        alloc shared.x_shared: int32[3, 4, 2]
        for k_o_pre in 0..2:
          for x_shared_0_pre in 0..4 (async_copy=2):
            for x_shared_1_pre in 0..2:
              x_shared[k_o_pre, x_shared_0_pre, x_shared_1_pre] = x[x_shared_0_pre, k_o_pre*2 + \
x_shared_1_pre]
          for y_shared_0_pre in 0..2 (async_copy=2):
            for y_shared_1_pre in 0..6:
              y_shared[k_o_pre, y_shared_0_pre, y_shared_1_pre] = y[k_o_pre*2 + y_shared_0_pre, \
y_shared_1_pre]
        for k_o in 0..4:
          if k_o < 2:
            for x_shared_0 in 0..4 (async_copy=2):
              for x_shared_1 in 0..2:
                x_shared[(k_o + 2) % 3, x_shared_0, x_shared_1] = x[x_shared_0, k_o*2 + \
x_shared_1 + 4]
            for y_shared_0 in 0..2 (async_copy=2):
              for y_shared_1 in 0..6:
                y_shared[(k_o + 2) % 3, y_shared_0, y_shared_1] = y[k_o*2 + y_shared_0 + 4, \
y_shared_1]
          for c_i in 0..4:
            for c_j in 0..6:
              for k_i in 0..2:
                c[c_i, c_j] += x_shared[k_o % 3, c_i, k_i] * y_shared[k_o % 3, k_i, c_j] \
begin(k_o, k_i)
        """)
    assert_same_meaning(MATMUL, program)


@pytest.mark.parametrize("stages", [(0, 1, 2), (0, 1, 1), (1, 0, 1), (1, 0, 2), (0, 0, 3)])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_meaning_stays(stages, factor):
    if max(stages) < -(-8 // factor):
        assert_same_meaning(MATMUL, pipeline(tiled(factor), "k_o", *stages))


def test_copies_keep_their_gaps():
    program = pipeline(storage_align(tiled(), "x_shared", 0, 4, 1), "k_o", 0, 0, 1)
    assert "shared.x_shared: int32[2, 4, 2] strides [20, 5, 1]" in program_text(program)
    assert_same_meaning(MATMUL, program)


def test_pipeline_of_threads():
    program = bind(bind(split(MATMUL, "k", 4), "c_i", "blockIdx.x"), "c_j", "threadIdx.x")
    program = compute_at(cache_read(program, "y", "shared"), "y_shared", "k_o")
    program = bind(program, "y_shared_1", "threadIdx.x")
    assert_same_meaning(MATMUL, pipeline(program, "k_o", 0, 1, asynchronous=True))


def test_double_buffer_refuses_what_no_loop_allocates():
    refused(lambda: double_buffer(SCALED, "b"), """
        double_buffer: b must be allocated inside of a loop
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]    <-- here
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_double_buffer_refuses_an_input():
    refused(lambda: double_buffer(SCALED, "a"), """
        double_buffer: a must be allocated inside of a loop
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_double_buffer_refuses_a_marked_loop():
    program = parallel(compute_at(SCALED, "b", "c_i"), "c_i")
    refused(lambda: double_buffer(program, "b"), """
        double_buffer: c_i must be a serial loop, not parallel
        program main(a: int32[10]) -> c: int32[10]
        for c_i in 0..10 (parallel):    <-- here
          alloc b: int32[1]
          for b_i in 0..1:
            b[b_i] = a[c_i + b_i] * 3
          c[c_i] = b[0] + 1
        """)


def test_double_buffer_refuses_a_loop_of_one_iteration():
    program = compute_at(split(SCALED, "c_i", 10), "b", "c_i_o")
    refused(lambda: double_buffer(program, "b"), """
        double_buffer: c_i_o must have two iterations or more
        program main(a: int32[10]) -> c: int32[10]
        for c_i_o in 0..1:    <-- here
          alloc b: int32[10]
          for b_i in 0..10:
            b[b_i] = a[b_i] * 3
          for c_i_i in 0..10:
            c[c_i_o*10 + c_i_i] = b[c_i_o*10 + c_i_i] + 1
        """)


def test_pipeline_refuses_a_marked_loop():
    refused(lambda: pipeline(unroll(loaded(), "k"), "k", 0, 1), """
        pipeline: k must be a serial loop, not unroll
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for k in 0..8 (unroll):    <-- here
          alloc shared.y_shared: int32[1, 6]
          for y_shared_0 in 0..1:
            for y_shared_1 in 0..6:
              y_shared[y_shared_0, y_shared_1] = y[k + y_shared_0, y_shared_1]
          for c_i in 0..4:
            for c_j in 0..6:
              c[c_i, c_j] += x[c_i, k] * y_shared[0, c_j] begin(k)
        """)


def test_pipeline_refuses_other_numbers_of_stages():
    refused(lambda: pipeline(loaded(), "k", 0, 1, 2), """
        pipeline: stages must be 2 numbers, one for each statement of k, not 0, 1, 2
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for k in 0..8:    <-- here
          alloc shared.y_shared: int32[1, 6]
          for y_shared_0 in 0..1:
            for y_shared_1 in 0..6:
              y_shared[y_shared_0, y_shared_1] = y[k + y_shared_0, y_shared_1]
          for c_i in 0..4:
            for c_j in 0..6:
              c[c_i, c_j] += x[c_i, k] * y_shared[0, c_j] begin(k)
        """)


def test_pipeline_refuses_stages_that_are_all_the_same():
    refused(lambda: pipeline(loaded(), "k", 0, 0), """
        pipeline: stages must be from 0 to at most 7, one less than the iterations of k, and not \
all the same, not 0, 0
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for k in 0..8:    <-- here
          alloc shared.y_shared: int32[1, 6]
          for y_shared_0 in 0..1:
            for y_shared_1 in 0..6:
              y_shared[y_shared_0, y_shared_1] = y[k + y_shared_0, y_shared_1]
          for c_i in 0..4:
            for c_j in 0..6:
              c[c_i, c_j] += x[c_i, k] * y_shared[0, c_j] begin(k)
        """)


def test_pipeline_refuses_to_run_too_far_ahead():
    refused(lambda: pipeline(loaded(), "k", 0, 8), """
        pipeline: stages must be from 0 to at most 7, one less than the iterations of k, and not \
all the same, not 0, 8
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for k in 0..8:    <-- here
          alloc shared.y_shared: int32[1, 6]
          for y_shared_0 in 0..1:
            for y_shared_1 in 0..6:
              y_shared[y_shared_0, y_shared_1] = y[k + y_shared_0, y_shared_1]
          for c_i in 0..4:
            for c_j in 0..6:
              c[c_i, c_j] += x[c_i, k] * y_shared[0, c_j] begin(k)
        """)


def test_pipeline_refuses_to_use_what_is_not_loaded():
    refused(lambda: pipeline(loaded(), "k", 1, 0), """
        pipeline: stages 1 and 0 must keep the order of y_shared
          stores y_shared[0, 0] at k=0, y_shared_0=0, y_shared_1=0: y_shared[y_shared_0, \
y_shared_1] = y[k + y_shared_0, y_shared_1]
          reads y_shared[0, 0] at k=0, c_i=0, c_j=0: c[c_i, c_j] += x[c_i, k] * y_shared[0, c_j] \
begin(k)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for k in 0..8:
          alloc shared.y_shared: int32[1, 6]
          for y_shared_0 in 0..1:
            for y_shared_1 in 0..6:
              y_shared[y_shared_0, y_shared_1] = y[k + y_shared_0, y_shared_1]    <-- here
          for c_i in 0..4:
            for c_j in 0..6:
              c[c_i, c_j] += x[c_i, k] * y_shared[0, c_j] begin(k)
        """)


def test_pipeline_refuses_a_dependence_between_iterations():
    """b[k + 1] is made from c[k]: it cannot run ahead of what makes c[k]."""
    first = Store(B, (K,), te.select(K >= 1, C[K - 1], 0) + A[K])
    program = Program("main", (A,), (B, C), For(K, 8, Seq((first, Store(C, (K,), B[K] * 2)))))
    refused(lambda: pipeline(program, "k", 0, 1), """
        pipeline: stages 1 and 0 must keep the order of c
          stores c[0] at k=0: c[k] = b[k] * 2
          reads c[0] at k=1: b[k] = select(k >= 1, c[k - 1], 0) + a[k]
        program main(a: int32[8]) -> b: int32[8], c: int32[8]
        for k in 0..8:
          b[k] = select(k >= 1, c[k - 1], 0) + a[k]
          c[k] = b[k] * 2    <-- here
        """)


def test_pipeline_refuses_an_early_reduction():
    zero = Const(0, te.INDEX)
    total = Buffer("total", (1,), "int32")
    both = Seq((Update(total, (zero,), "sum", A[K], (K,)), Store(C, (K,), A[K] * 2)))
    program = Program("main", (A,), (total, C), For(K, 8, both))
    refused(lambda: pipeline(program, "k", 0, 1), """
        pipeline: reduction over k must be in the last stage, not in 0
        program main(a: int32[8]) -> total: int32[1], c: int32[8]
        for k in 0..8:
          total[0] += a[k] begin(k)    <-- here
          c[k] = a[k] * 2
        """)


def test_pipeline_refuses_names_in_use():
    program = cache_read(loaded(), "x", "near", name="y_shared_0_pre")
    refused(lambda: pipeline(program, "k", 0, 1), """
        pipeline: name 'y_shared_0_pre' must not be in use
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc near.y_shared_0_pre: int32[4, 8]
        for y_shared_0_pre_0 in 0..4:
          for y_shared_0_pre_1 in 0..8:
            y_shared_0_pre[y_shared_0_pre_0, y_shared_0_pre_1] = x[y_shared_0_pre_0, \
y_shared_0_pre_1]
        for k in 0..8:
          alloc shared.y_shared: int32[1, 6]
          for y_shared_0 in 0..1:
            for y_shared_1 in 0..6:
              y_shared[y_shared_0, y_shared_1] = y[k + y_shared_0, y_shared_1]
          for c_i in 0..4:
            for c_j in 0..6:
              c[c_i, c_j] += y_shared_0_pre[c_i, k] * y_shared[0, c_j] begin(k)
        """)


def test_guard_of_the_whole_loop_stays_with_each_statement():
    body = If(K < 7, Seq((Store(B, (K,), A[K]), Store(C, (K,), B[K] + 1))))
    last = Const(7, te.INDEX)
    ends = Seq((Store(B, (last,), A[7]), Store(C, (last,), A[7])))
    program = Program("main", (A,), (B, C), Seq((For(K, 8, body), *ends.stmts)))
    assert_same_meaning(program, pipeline(program, "k", 0, 1))
