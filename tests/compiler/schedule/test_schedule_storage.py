"""Copies in other scopes: text before and after, and what is refused."""

from compiler import te
from compiler.ir import lower
from compiler.schedule import cache_read, cache_write, compute_at, set_scope, split
from tests.compiler.ir.samples import assert_same_meaning, matmul, scaled
from tests.compiler.schedule.checks import expect, refused

SCALED = lower([scaled()], "main")
MATMUL = lower([matmul()], "main")


def shared():
    """Two outputs of one stage."""
    a = te.placeholder((4,), "int32", "a")
    b = te.compute((4,), lambda i: a[i] * 2, "b")
    return [te.compute((4,), lambda i: b[i] + 1, "c"), te.compute((4,), lambda i: b[i] + 2, "d")]


def test_cache_read_copies_first():
    expect(cache_read(SCALED, "a", "near"), """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        alloc near.a_near: int32[10]
        for a_near_0 in 0..10:
          a_near[a_near_0] = a[a_near_0]
        for b_i in 0..10:
          b[b_i] = a_near[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_cache_read_for_chosen_readers():
    expect(cache_read(lower(shared(), "main"), "b", "near", ["d"], name="e"), """
        program main(a: int32[4]) -> c: int32[4], d: int32[4]
        alloc b: int32[4]
        alloc near.e: int32[4]
        for b_i in 0..4:
          b[b_i] = a[b_i] * 2
        for c_i in 0..4:
          c[c_i] = b[c_i] + 1
        for e_0 in 0..4:
          e[e_0] = b[e_0]
        for d_i in 0..4:
          d[d_i] = e[d_i] + 2
        """)


def test_cache_read_leaves_the_other_readers():
    expect(cache_read(lower(shared(), "main"), "b", "near", ["c"]), """
        program main(a: int32[4]) -> c: int32[4], d: int32[4]
        alloc b: int32[4]
        alloc near.b_near: int32[4]
        for b_i in 0..4:
          b[b_i] = a[b_i] * 2
        for b_near_0 in 0..4:
          b_near[b_near_0] = b[b_near_0]
        for c_i in 0..4:
          c[c_i] = b_near[c_i] + 1
        for d_i in 0..4:
          d[d_i] = b[d_i] + 2
        """)


def test_cache_read_of_a_tiled_stage():
    expect(cache_read(split(SCALED, "b_i", 4), "b", "near"), """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        alloc near.b_near: int32[10]
        for b_i_o in 0..3:
          for b_i_i in 0..4:
            if b_i_o*4 + b_i_i < 10:
              b[b_i_o*4 + b_i_i] = a[b_i_o*4 + b_i_i] * 3
        for b_near_0 in 0..10:
          b_near[b_near_0] = b[b_near_0]
        for c_i in 0..10:
          c[c_i] = b_near[c_i] + 1
        """)


def test_cache_read_inside_a_loop():
    expect(compute_at(cache_read(split(MATMUL, "c_i", 2), "x", "near"), "x_near", "c_i_o"), """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i_o in 0..2:
          alloc near.x_near: int32[2, 8]
          for x_near_0 in 0..2:
            for x_near_1 in 0..8:
              x_near[x_near_0, x_near_1] = x[c_i_o*2 + x_near_0, x_near_1]
          for c_i_i in 0..2:
            for c_j in 0..6:
              for k in 0..8:
                c[c_i_o*2 + c_i_i, c_j] += x_near[c_i_i, k] * y[k, c_j] begin(k)
        """)


def test_cache_read_leaves_out_what_was_never_written():
    expect(cache_read(compute_at(split(SCALED, "c_i", 4), "b", "c_i_o"), "b", "near"), """
        program main(a: int32[10]) -> c: int32[10]
        for c_i_o in 0..3:
          alloc b: int32[4]
          alloc near.b_near: int32[4]
          for b_i in 0..4:
            if c_i_o*4 + b_i < 10:
              b[b_i] = a[c_i_o*4 + b_i] * 3
          for b_near_0 in 0..4:
            if c_i_o*4 + b_near_0 < 10:
              b_near[b_near_0] = b[b_near_0]
          for c_i_i in 0..4:
            if c_i_o*4 + c_i_i < 10:
              c[c_i_o*4 + c_i_i] = b_near[c_i_i] + 1
        """)


def test_cache_write_copies_afterwards():
    expect(cache_write(SCALED, "c", "near"), """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        alloc near.c_near: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_near_i in 0..10:
          c_near[c_near_i] = b[c_near_i] + 1
        for c_i in 0..10:
          c[c_i] = c_near[c_i]
        """)


def test_cache_write_of_a_reduction_keeps_its_loops():
    expect(cache_write(MATMUL, "c", "near", name="acc"), """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc near.acc: int32[4, 6]
        for acc_i in 0..4:
          for acc_j in 0..6:
            for k in 0..8:
              acc[acc_i, acc_j] += x[acc_i, k] * y[k, acc_j] begin(k)
        for c_i in 0..4:
          for c_j in 0..6:
            c[c_i, c_j] = acc[c_i, c_j]
        """)


def test_set_scope_moves_a_buffer():
    expect(set_scope(SCALED, "b", "near"), """
        program main(a: int32[10]) -> c: int32[10]
        alloc near.b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_meaning_stays():
    assert_same_meaning(SCALED, cache_read(SCALED, "b", "near"))
    assert_same_meaning(MATMUL, cache_write(MATMUL, "c", "near"))
    partly = compute_at(split(SCALED, "c_i", 4), "b", "c_i_o")
    assert_same_meaning(SCALED, cache_read(partly, "b", "near"))
    assert_same_meaning(SCALED, cache_write(partly, "b", "near"))


def test_cache_read_refuses_who_does_not_read():
    refused(lambda: cache_read(SCALED, "a", "near", ["c"]), """
        cache_read: readers of a must be among b, not 'c'
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_cache_read_refuses_a_buffer_that_nobody_reads():
    refused(lambda: cache_read(SCALED, "c", "near"), """
        cache_read: c must be read by a stage
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_cache_read_refuses_a_name_in_use():
    refused(lambda: cache_read(SCALED, "a", "near", name="b"), """
        cache_read: name 'b' must not be in use
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_cache_write_refuses_axes_that_are_split():
    refused(lambda: cache_write(split(SCALED, "c_i", 2), "c", "near"), """
        cache_write: axes of c must not be split or fused yet, but dimension 0 is not one whole loop
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i_o in 0..5:
          for c_i_i in 0..2:
            c[c_i_o*2 + c_i_i] = b[c_i_o*2 + c_i_i] + 1    <-- here
        """)


def test_cache_write_refuses_an_input():
    refused(lambda: cache_write(SCALED, "a", "near"), """
        cache_write: a must be computed by the program, not an input
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_cache_write_refuses_a_name_in_use():
    refused(lambda: cache_write(SCALED, "c", "near", name="b"), """
        cache_write: name 'b' must not be in use
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_set_scope_refuses_an_input():
    refused(lambda: set_scope(SCALED, "a", "near"), """
        set_scope: a must be allocated by the program, not an input or output
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)
