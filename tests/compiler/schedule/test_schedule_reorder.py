"""Changing the order of loops, and which orders must stay."""

from compiler import te
from compiler.ir import For, Program, Store, lower
from compiler.schedule import cache_read, compute_at, reorder, split
from compiler.te import Buffer, Var
from tests.compiler.ir.samples import assert_same_meaning, matmul, scaled
from tests.compiler.schedule.checks import expect, refused

SCALED = lower([scaled()], "main")
MATMUL = lower([matmul()], "main")
FLOATS = split(lower([matmul(dtype="float32")], "main"), "k", 4)


def test_reorder_trades_places():
    expect(reorder(MATMUL, "k", "c_i"), """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for k in 0..8:
          for c_j in 0..6:
            for c_i in 0..4:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_reorder_takes_guards_along():
    expect(reorder(split(MATMUL, "c_j", 4), "c_j_o", "k", "c_j_i", "c_i"), """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_j_o in 0..2:
          for k in 0..8:
            for c_j_i in 0..4:
              if c_j_o*4 + c_j_i < 6:
                for c_i in 0..4:
                  c[c_i, c_j_o*4 + c_j_i] += x[c_i, k] * y[k, c_j_o*4 + c_j_i] begin(k)
        """)


def test_reorder_of_floats_keeps_the_order_of_each_sum():
    expect(reorder(FLOATS, "k_o", "k_i", "c_j"), """
        program main(x: float32[4, 8], y: float32[8, 6]) -> c: float32[4, 6]
        for c_i in 0..4:
          for k_o in 0..2:
            for k_i in 0..4:
              for c_j in 0..6:
                c[c_i, c_j] += x[c_i, k_o*4 + k_i] * y[k_o*4 + k_i, c_j] begin(k_o, k_i)
        """)


def test_reorder_of_floats_by_permission():
    expect(reorder(FLOATS, "k_i", "k_o", reassociate=True), """
        program main(x: float32[4, 8], y: float32[8, 6]) -> c: float32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k_i in 0..4:
              for k_o in 0..2:
                c[c_i, c_j] += x[c_i, k_o*4 + k_i] * y[k_o*4 + k_i, c_j] begin(k_o, k_i)
        """)


def test_meaning_stays():
    assert_same_meaning(MATMUL, reorder(MATMUL, "k", "c_j", "c_i"))
    assert_same_meaning(MATMUL, reorder(split(MATMUL, "k", 3), "k_i", "c_j", "k_o"))
    assert_same_meaning(lower([matmul(dtype="float32")], "main"), reorder(FLOATS, "k_o", "c_i"))


def test_float_maxima_may_change_their_order():
    x, r = te.placeholder((4, 8), "float32", "x"), te.reduce_axis(8, "r")
    program = split(lower([te.compute((4,), lambda i: te.max(x[i, r], r), "m")], "main"), "r", 2)
    assert_same_meaning(program, reorder(program, "r_i", "r_o", "m_i"))


def test_reorder_refuses_another_order_of_float_sums():
    refused(lambda: reorder(FLOATS, "k_i", "k_o"), """
        reorder: order of k_o, k_i must be kept: c is a sum of floats, which rounds differently \
in another order
          updates c[0, 0] at c_i=0, c_j=0, k_o=0, k_i=1: c[c_i, c_j] += x[c_i, k_o*4 + k_i] * \
y[k_o*4 + k_i, c_j] begin(k_o, k_i)
          updates c[0, 0] at c_i=0, c_j=0, k_o=1, k_i=0: c[c_i, c_j] += x[c_i, k_o*4 + k_i] * \
y[k_o*4 + k_i, c_j] begin(k_o, k_i)
        program main(x: float32[4, 8], y: float32[8, 6]) -> c: float32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k_o in 0..2:
              for k_i in 0..4:
                c[c_i, c_j] += x[c_i, k_o*4 + k_i] * y[k_o*4 + k_i, c_j] begin(k_o, k_i)    <-- \
here
        """)


def test_reorder_refuses_one_loop_alone():
    refused(lambda: reorder(MATMUL, "k"), """
        reorder: loops must be two or more different ones, not k
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_reorder_refuses_a_loop_twice():
    refused(lambda: reorder(MATMUL, "k", "k"), """
        reorder: loops must be two or more different ones, not k, k
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_reorder_refuses_two_nests():
    refused(lambda: reorder(SCALED, "b_i", "c_i"), """
        reorder: loops b_i, c_i must lie in one nest, but only b_i do
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:    <-- here
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_reorder_refuses_statements_between():
    cached = compute_at(cache_read(MATMUL, "x", "near"), "x_near", "c_i")
    refused(lambda: reorder(cached, "c_i", "k"), """
        reorder: loops c_i, k must lie in one nest, but only c_i do
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:    <-- here
          alloc near.x_near: int32[1, 8]
          for x_near_0 in 0..1:
            for x_near_1 in 0..8:
              x_near[x_near_0, x_near_1] = x[c_i + x_near_0, x_near_1]
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x_near[0, k] * y[k, c_j] begin(k)
        """)


def test_reorder_refuses_to_turn_a_dependence_around():
    i, j = Var("i"), Var("j")
    a, c = Buffer("a", (4,), "int32"), Buffer("c", (4, 4), "int32")
    value = te.select(te.all_of(i >= 1, j < 3), c[i - 1, j + 1] + 1, a[j])
    refused(lambda: reorder(Program("main", (a,), (c,), For(i, 4, For(
        j, 4, Store(c, (i, j), value)))), "j", "i"), """
        reorder: order of i, j must be kept: c depends on the order of iterations
          stores c[0, 1] at i=0, j=1: c[i, j] = select(i >= 1 and j < 3, c[i - 1, j + 1] + 1, \
a[j])
          reads c[0, 1] at i=1, j=0: c[i, j] = select(i >= 1 and j < 3, c[i - 1, j + 1] + 1, a[j])
        program main(a: int32[4]) -> c: int32[4, 4]
        for i in 0..4:
          for j in 0..4:
            c[i, j] = select(i >= 1 and j < 3, c[i - 1, j + 1] + 1, a[j])    <-- here
        """)
