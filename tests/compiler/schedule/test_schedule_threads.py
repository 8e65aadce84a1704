"""Virtual threads must be independent of each other."""

from compiler.ir import lower
from compiler.schedule import compute_at, split, unroll, virtual_thread
from tests.compiler.ir.samples import assert_same_meaning, matmul, scaled
from tests.compiler.schedule.checks import expect, refused

SCALED = lower([scaled()], "main")
MATMUL = lower([matmul()], "main")


def test_virtual_thread_marks_the_loop():
    expect(virtual_thread(split(SCALED, "c_i", 5), "c_i_o"), """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i_o in 0..2 (virtual_thread):
          for c_i_i in 0..5:
            c[c_i_o*5 + c_i_i] = b[c_i_o*5 + c_i_i] + 1
        """)


def test_virtual_thread_owns_what_is_allocated_inside():
    expect(virtual_thread(compute_at(split(SCALED, "c_i", 5), "b", "c_i_o"), "c_i_o"), """
        program main(a: int32[10]) -> c: int32[10]
        for c_i_o in 0..2 (virtual_thread):
          alloc b: int32[5]
          for b_i in 0..5:
            b[b_i] = a[c_i_o*5 + b_i] * 3
          for c_i_i in 0..5:
            c[c_i_o*5 + c_i_i] = b[c_i_i] + 1
        """)


def test_meaning_stays():
    assert_same_meaning(SCALED, virtual_thread(SCALED, "c_i"))


def test_virtual_threads_of_a_reduction_keep_its_order():
    assert_same_meaning(MATMUL, virtual_thread(MATMUL, "k"))


def test_virtual_threads_nest():
    assert_same_meaning(MATMUL, virtual_thread(virtual_thread(MATMUL, "c_i"), "k"))


def test_virtual_thread_refuses_a_marked_loop():
    refused(lambda: virtual_thread(unroll(MATMUL, "c_i"), "c_i"), """
        virtual_thread: c_i must be a serial loop, not unroll
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4 (unroll):    <-- here
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_split_refuses_a_virtual_thread():
    refused(lambda: split(virtual_thread(SCALED, "c_i"), "c_i", 2), """
        split: c_i must be a serial loop, not virtual_thread
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10 (virtual_thread):    <-- here
          c[c_i] = b[c_i] + 1
        """)
