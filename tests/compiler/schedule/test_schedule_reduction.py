"""Reductions taken apart: their beginning, and partial results."""

import numpy as np

from compiler import te
from compiler.ir import (Alloc, Combine, For, If, Program, Seq, Store, Update, interpret, lower,
                         verify, walk_stmts)
from compiler.schedule import (cache_read, cache_write, compute_at, decompose_reduction, fuse,
                               parallel, reorder, rfactor, split, unroll, vectorize)
from compiler.te import Buffer, Const, Var
from tests.compiler.ir.samples import arrays, assert_same_meaning, matmul, scaled
from tests.compiler.schedule.checks import expect, refused
from tests.compiler.te.samples import argmax

SCALED = lower([scaled()], "main")
MATMUL = lower([matmul()], "main")
FLOATS = lower([matmul(dtype="float32")], "main")
SPLIT = split(MATMUL, "k", 4)
R, K = Var("r"), Var("k")
ZERO = Const(0, te.INDEX)
X, BEST, WHERE = Buffer("x", (3, 8), "int32"), Buffer("best", (3,), "int32"), Buffer(
    "where", (3,), "int64")


def largest() -> Program:
    body = Combine((BEST, WHERE), (R,), argmax(), (X[R, K], K), (K,))
    return Program("main", (X,), (BEST, WHERE), For(R, 3, For(K, 8, body)))


def test_decompose_gives_the_neutral_value_first():
    expect(decompose_reduction(SPLIT, "c", "c_j"), """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j_init in 0..6:
            c[c_i, c_j_init] = 0
          for c_j in 0..6:
            for k_o in 0..2:
              for k_i in 0..4:
                c[c_i, c_j] += x[c_i, k_o*4 + k_i] * y[k_o*4 + k_i, c_j] over(k_o, k_i)
        """)


def test_decompose_takes_guards_along():
    program = decompose_reduction(reorder(split(FLOATS, "c_j", 4), "k", "c_j_i"), "c", "k")
    expect(program, """
        program main(x: float32[4, 8], y: float32[8, 6]) -> c: float32[4, 6]
        for c_i in 0..4:
          for c_j_o in 0..2:
            for c_j_i_init in 0..4:
              if c_j_o*4 + c_j_i_init < 6:
                c[c_i, c_j_o*4 + c_j_i_init] = -0.0
            for k in 0..8:
              for c_j_i in 0..4:
                if c_j_o*4 + c_j_i < 6:
                  c[c_i, c_j_o*4 + c_j_i] += x[c_i, k] * y[k, c_j_o*4 + c_j_i] over(k)
        """)
    assert_same_meaning(FLOATS, program)


def test_decompose_keeps_what_is_written_out_or_vectors():
    program = unroll(vectorize(reorder(MATMUL, "k", "c_i", "c_j"), "c_j"), "c_i")
    made = decompose_reduction(program, "c", "k")
    assert {s.var.name: s.kind for s in walk_stmts(made.body) if isinstance(s, For)} == {
        "c_i_init": "unroll", "c_j_init": "vectorize", "k": "serial", "c_i": "unroll",
        "c_j": "vectorize"}
    assert_same_meaning(program, made)


def test_decompose_of_several_outputs():
    program = decompose_reduction(largest(), "best", "r")
    expect(program, """
        program main(x: int32[3, 8]) -> best: int32[3], where: int64[3]
        for r_init in 0..3:
          best[r_init] = -2147483648
          where[r_init] = 9223372036854775807
        for r in 0..3:
          for k in 0..8:
            best[r], where[r] argmax= x[r, k], k over(k)
        """)
    assert_same_meaning(largest(), program)


def test_meaning_stays_without_a_beginning():
    assert_same_meaning(MATMUL, decompose_reduction(MATMUL, "c", "c_i"))
    assert_same_meaning(MATMUL, decompose_reduction(SPLIT, "c", "k_o"))
    near = cache_write(MATMUL, "c", "near")
    assert_same_meaning(MATMUL, decompose_reduction(compute_at(near, "c_near", "c_j"),
                                                    "c_near", "k"))


def test_rfactor_makes_partial_results():
    expect(rfactor(SPLIT, "c", "k_o"), """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc c_rf: int32[2, 4, 6]
        for c_rf_i in 0..4:
          for c_rf_j in 0..6:
            for k_o in 0..2:
              for k_i in 0..4:
                c_rf[k_o, c_rf_i, c_rf_j] += x[c_rf_i, k_o*4 + k_i] * y[k_o*4 + k_i, c_rf_j] \
begin(k_i)
        for c_i in 0..4:
          for c_j in 0..6:
            for c_k_o in 0..2:
              c[c_i, c_j] += c_rf[c_k_o, c_i, c_j] begin(c_k_o)
        """)


def test_partial_results_may_be_parallel_and_lie_elsewhere():
    program = parallel(reorder(rfactor(SPLIT, "c", "k_i", scope="local"), "k_i", "c_rf_i"), "k_i")
    assert_same_meaning(MATMUL, program)
    ragged = split(MATMUL, "k", 3)
    assert_same_meaning(MATMUL, vectorize(rfactor(ragged, "c", "k_i"), "k_i"))


def test_rfactor_of_floats_by_permission():
    program = rfactor(split(FLOATS, "k", 4), "c", "k_o", reassociate=True)
    inputs = arrays(FLOATS)
    np.testing.assert_allclose(interpret(verify(program), inputs)["c"],
                               interpret(FLOATS, inputs)["c"], rtol=1e-5)


def test_rfactor_of_a_part_of_each_tap():
    """A window's first tap and pieces of the channels are one loop, ragged pieces too."""
    x, w = te.placeholder((6, 10), "int32", "x"), te.placeholder((3, 10, 4), "int32", "w")
    t, k = te.reduce_axis(3, "t"), te.reduce_axis(10, "k")
    y = te.compute((4, 4), lambda i, j: te.sum(x[i + t, k] * w[t, k, j], (t, k)), "y")
    whole = lower([y], "main")
    for parts, factor in ((2, 5), (4, 3)):
        program = fuse(split(whole, "k", nparts=parts), "t", "k_o", "part")
        program = rfactor(program, "y", "part")
        partial = next(s.buffer for s in walk_stmts(program.body) if isinstance(s, Alloc))
        assert partial.shape == (3 * parts, 4, 4)
        inputs = arrays(whole)
        wanted = sum(np.lib.stride_tricks.sliding_window_view(inputs["x"], 3, 0)[..., d] @
                     inputs["w"][d] for d in range(3))
        np.testing.assert_array_equal(interpret(verify(program), inputs)["y"], wanted)
        assert factor in {s.extent for s in walk_stmts(program.body) if isinstance(s, For)}


def test_rfactor_of_several_outputs():
    program = rfactor(split(largest(), "k", 2), "best", "k_o")
    expect(program, """
        program main(x: int32[3, 8]) -> best: int32[3], where: int64[3]
        alloc best_rf: int32[4, 3]
        alloc where_rf: int64[4, 3]
        for best_rf_r in 0..3:
          for k_o in 0..4:
            for k_i in 0..2:
              best_rf[k_o, best_rf_r], where_rf[k_o, best_rf_r] argmax= x[best_rf_r, k_o*2 + \
k_i], k_o*2 + k_i begin(k_i)
        for r in 0..3:
          for best_k_o in 0..4:
            best[r], where[r] argmax= best_rf[best_k_o, r], where_rf[best_k_o, r] begin(best_k_o)
        """)
    assert_same_meaning(largest(), program)


def test_decompose_reduction_refuses_what_does_not_reduce():
    refused(lambda: decompose_reduction(SCALED, "c", "c_i"), """
        decompose_reduction: c must be computed by one reduction that begins
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1    <-- here
        """)


def test_decompose_reduction_refuses_another_loop():
    program = lower([te.compute((4, 6), lambda i, j: matmul()[i, j] + 1, "d")], "main")
    refused(lambda: decompose_reduction(program, "c", "d_i"), """
        decompose_reduction: loop d_i must be around the reduction of c
        program main(x: int32[4, 8], y: int32[8, 6]) -> d: int32[4, 6]
        alloc c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        for d_i in 0..4:    <-- here
          for d_j in 0..6:
            d[d_i, d_j] = c[d_i, d_j] + 1
        """)


def test_decompose_reduction_refuses_a_reduction_outside():
    refused(lambda: decompose_reduction(SPLIT, "c", "k_i"), """
        decompose_reduction: k_o, which c is reduced over, must not be outside of k_i
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k_o in 0..2:    <-- here
              for k_i in 0..4:
                c[c_i, c_j] += x[c_i, k_o*4 + k_i] * y[k_o*4 + k_i, c_j] begin(k_o, k_i)
        """)


def test_decompose_reduction_refuses_a_buffer_of_the_inside():
    near = compute_at(cache_write(MATMUL, "c", "near"), "c_near", "c_i")
    refused(lambda: decompose_reduction(near, "c_near", "c_i"), """
        decompose_reduction: c_near must be allocated outside of c_i
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          alloc near.c_near: int32[1, 6]    <-- here
          for c_near_i in 0..1:
            for c_near_j in 0..6:
              for k in 0..8:
                c_near[c_near_i, c_near_j] += x[c_i + c_near_i, k] * y[k, c_near_j] begin(k)
          for c_j in 0..6:
            c[c_i, c_j] = c_near[0, c_j]
        """)


def test_decompose_reduction_refuses_company():
    both = Seq((For(K, 8, Update(BEST, (R,), "sum", X[R, K], (K,))),
                Store(WHERE, (R,), BEST[R].astype("int64"))))
    program = Program("main", (X,), (BEST, WHERE), For(R, 3, both))
    refused(lambda: decompose_reduction(program, "best", "r"), """
        decompose_reduction: best must not be touched inside of r by anything but its reduction
        program main(x: int32[3, 8]) -> best: int32[3], where: int64[3]
        for r in 0..3:
          for k in 0..8:
            best[r] += x[r, k] begin(k)
          where[r] = int64(best[r])    <-- here
        """)


def test_decompose_reduction_refuses_to_begin_once_for_several_times():
    total = Buffer("total", (1,), "int32")
    body = For(R, 3, For(K, 8, Update(total, (ZERO,), "sum", X[R, K], (K,))))
    program = Program("main", (X,), (total,), body)
    refused(lambda: decompose_reduction(program, "total", "r"), """
        decompose_reduction: total must begin once inside of r
          updates total[0] at r=0, k=0: total[0] += x[r, k] begin(k)
          updates total[0] at r=1, k=0: total[0] += x[r, k] begin(k)
        program main(x: int32[3, 8]) -> total: int32[1]
        for r in 0..3:
          for k in 0..8:
            total[0] += x[r, k] begin(k)    <-- here
        """)


def test_decompose_reduction_refuses_names_in_use():
    twice = decompose_reduction(MATMUL, "c", "c_j")
    refused(lambda: decompose_reduction(twice, "c", "c_j"), """
        decompose_reduction: c must be computed by one reduction that begins
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j_init in 0..6:
            c[c_i, c_j_init] = 0    <-- here
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] over(k)
        """)


def test_rfactor_refuses_a_loop_that_does_not_reduce():
    refused(lambda: rfactor(SPLIT, "c", "c_j"), """
        rfactor: loop must be one of several that c is reduced over, k_o, k_i, not c_j
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k_o in 0..2:
              for k_i in 0..4:
                c[c_i, c_j] += x[c_i, k_o*4 + k_i] * y[k_o*4 + k_i, c_j] begin(k_o, k_i)    <-- \
here
        """)


def test_rfactor_refuses_the_only_loop():
    refused(lambda: rfactor(MATMUL, "c", "k"), """
        rfactor: loop must be one of several that c is reduced over, k, not k
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)    <-- here
        """)


def test_rfactor_refuses_float_sums():
    refused(lambda: rfactor(split(FLOATS, "k", 4), "c", "k_o"), """
        rfactor: c must not be a sum of floats, which rounds differently in another order, \
unless reassociate permits that
        program main(x: float32[4, 8], y: float32[8, 6]) -> c: float32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k_o in 0..2:
              for k_i in 0..4:
                c[c_i, c_j] += x[c_i, k_o*4 + k_i] * y[k_o*4 + k_i, c_j] begin(k_o, k_i)    <-- \
here
        """)


def test_rfactor_refuses_split_axes():
    refused(lambda: rfactor(split(SPLIT, "c_j", 2), "c", "k_o"), """
        rfactor: axes of c must not be split or fused yet, but dimension 1 is not one whole loop
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j_o in 0..3:
            for c_j_i in 0..2:
              for k_o in 0..2:
                for k_i in 0..4:
                  c[c_i, c_j_o*2 + c_j_i] += x[c_i, k_o*4 + k_i] * y[k_o*4 + k_i, c_j_o*2 + \
c_j_i] begin(k_o, k_i)    <-- here
        """)


def test_rfactor_refuses_a_partial_result_without_terms():
    j = Var("j")
    body = If(j >= K - 6, Update(BEST, (R,), "max", X[R, K], (K, j)))
    program = Program("main", (X,), (BEST,), For(R, 3, For(K, 8, For(j, 2, body))))
    refused(lambda: rfactor(program, "best", "k"), """
        rfactor: every iteration of k must have a first term of best, but j >= k - 6 may keep it \
away
        program main(x: int32[3, 8]) -> best: int32[3]
        for r in 0..3:
          for k in 0..8:
            for j in 0..2:
              if j >= k - 6:
                best[r] max= x[r, k] begin(k, j)    <-- here
        """)


def test_rfactor_refuses_names_in_use():
    refused(lambda: rfactor(cache_read(SPLIT, "x", "near", name="c_rf"), "c", "k_o"), """
        rfactor: name 'c_rf' must not be in use
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc near.c_rf: int32[4, 8]
        for c_rf_0 in 0..4:
          for c_rf_1 in 0..8:
            c_rf[c_rf_0, c_rf_1] = x[c_rf_0, c_rf_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k_o in 0..2:
              for k_i in 0..4:
                c[c_i, c_j] += c_rf[c_i, k_o*4 + k_i] * y[k_o*4 + k_i, c_j] begin(k_o, k_i)
        """)
