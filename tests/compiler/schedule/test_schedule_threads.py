"""Virtual threads, and the blocks and threads of a GPU."""

import pytest

from compiler.ir import Alloc, For, Program, Seq, Store, lower
from compiler.schedule import (ScheduleError, bind, cache_read, compute_at, split, unroll,
                               virtual_thread)
from compiler.te import INDEX, Buffer, Cast, Const, Expr, Var
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


def test_bind_marks_blocks_and_threads():
    expect(bind(bind(split(SCALED, "c_i", 4), "c_i_o", "blockIdx.x"), "c_i_i",
                "threadIdx.x"), """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i_o in 0..3 (blockIdx.x):
          for c_i_i in 0..4 (threadIdx.x):
            if c_i_o*4 + c_i_i < 10:
              c[c_i_o*4 + c_i_i] = b[c_i_o*4 + c_i_i] + 1
        """)


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


def tiled(scope: str = "shared") -> Program:
    """Rows of a product in blocks and threads; x goes through a tile of the block."""
    program = bind(split(MATMUL, "c_i", 2), "c_i_o", "blockIdx.x")
    program = bind(bind(program, "c_i_i", "threadIdx.y"), "c_j", "threadIdx.x")
    return cache_read(split(program, "k", 4), "x", scope)


def test_threads_fill_a_shared_buffer_together():
    program = compute_at(tiled(), "x_shared", "k_o")
    program = bind(bind(program, "x_shared_0", "threadIdx.y"), "x_shared_1", "threadIdx.x")
    expect(program, """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i_o in 0..2 (blockIdx.x):
          for c_i_i in 0..2 (threadIdx.y):
            for c_j in 0..6 (threadIdx.x):
              for k_o in 0..2:
                alloc shared.x_shared: int32[2, 4]
                for x_shared_0 in 0..2 (threadIdx.y):
                  for x_shared_1 in 0..4 (threadIdx.x):
                    x_shared[x_shared_0, x_shared_1] = x[c_i_o*2 + x_shared_0, k_o*4 + x_shared_1]
                for k_i in 0..4:
                  c[c_i_o*2 + c_i_i, c_j] += x_shared[c_i_i, k_i] * y[k_o*4 + k_i, c_j] \
begin(k_o, k_i)
        """)
    assert_same_meaning(MATMUL, program)


def test_threads_reduce_together():
    program = bind(MATMUL, "k", "threadIdx.x")
    assert_same_meaning(MATMUL, program)
    floats = lower([matmul(dtype="float32")], "main")
    assert_same_meaning(floats, bind(floats, "k", "threadIdx.x", reassociate=True))


def test_bind_refuses_another_axis():
    refused(lambda: bind(MATMUL, "c_i", "threadIdx.w"), """
        bind: axis of c_i must be one of blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, \
threadIdx.y, threadIdx.z, not 'threadIdx.w'
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:    <-- here
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_bind_refuses_a_marked_loop():
    refused(lambda: bind(unroll(MATMUL, "c_i"), "c_i", "blockIdx.x"), """
        bind: c_i must be a serial loop, not unroll
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4 (unroll):    <-- here
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_bind_refuses_a_carried_dependence():
    refused(lambda: bind(MATMUL, "k", "blockIdx.x"), """
        bind: iterations of k must not depend on each other
          updates c[0, 0] at c_i=0, c_j=0, k=0: c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
          updates c[0, 0] at c_i=0, c_j=0, k=1: c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)    <-- here
        """)


def test_bind_refuses_float_sums_of_threads():
    refused(lambda: bind(lower([matmul(dtype="float32")], "main"), "k", "threadIdx.x"), """
        bind: iterations of k must not depend on each other: c is a sum of floats, which rounds \
differently in another order
          updates c[0, 0] at c_i=0, c_j=0, k=0: c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
          updates c[0, 0] at c_i=0, c_j=0, k=1: c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        program main(x: float32[4, 8], y: float32[8, 6]) -> c: float32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)    <-- here
        """)


def test_bind_refuses_blocks_inside_threads():
    refused(lambda: bind(bind(MATMUL, "c_i", "threadIdx.x"), "c_j", "blockIdx.x"), """
        bind: c_j must not be inside of c_i (threadIdx.x)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4 (threadIdx.x):    <-- here
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_bind_refuses_threads_around_blocks():
    refused(lambda: bind(bind(MATMUL, "c_j", "blockIdx.x"), "c_i", "threadIdx.x"), """
        bind: c_i must not be around c_j (blockIdx.x)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6 (blockIdx.x):    <-- here
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_bind_refuses_one_axis_twice():
    refused(lambda: bind(bind(MATMUL, "c_i", "threadIdx.x"), "c_j", "threadIdx.x"), """
        bind: c_j (threadIdx.x), inside of c_i of the same axis, must write shared buffers that \
are allocated there, not c
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4 (threadIdx.x):
          for c_j in 0..6 (threadIdx.x):
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)    <-- here
        """)


def test_bind_refuses_a_shared_buffer_that_threads_fill_differently():
    program = cache_read(bind(split(MATMUL, "c_i", 2), "c_i_o", "blockIdx.x"), "x", "shared")
    refused(lambda: bind(compute_at(program, "x_shared", "c_i_i"), "c_i_i",
                "threadIdx.x"), """
        bind: shared buffer x_shared, allocated inside of c_i_i (threadIdx.x), must not depend \
on c_i_i
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i_o in 0..2 (blockIdx.x):
          for c_i_i in 0..2 (threadIdx.x):
            alloc shared.x_shared: int32[1, 8]
            for x_shared_0 in 0..1:
              for x_shared_1 in 0..8:
                x_shared[x_shared_0, x_shared_1] = x[c_i_o*2 + c_i_i + x_shared_0, x_shared_1]   \
 <-- here
            for c_j in 0..6:
              for k in 0..8:
                c[c_i_o*2 + c_i_i, c_j] += x_shared[0, k] * y[k, c_j] begin(k)
        """)


def test_bind_refuses_a_shared_buffer_of_all_blocks():
    refused(lambda: bind(cache_read(MATMUL, "x", "shared"), "c_i", "blockIdx.x"), """
        bind: shared buffer x_shared must be allocated inside of c_i (blockIdx.x)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.x_shared: int32[4, 8]
        for x_shared_0 in 0..4:
          for x_shared_1 in 0..8:
            x_shared[x_shared_0, x_shared_1] = x[x_shared_0, x_shared_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x_shared[c_i, k] * y[k, c_j] begin(k)    <-- here
        """)


def test_bind_refuses_a_local_buffer_of_all_threads():
    refused(lambda: bind(cache_read(MATMUL, "x", "local"), "c_i", "threadIdx.x"), """
        bind: local buffer x_local must be allocated inside of c_i (threadIdx.x)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc local.x_local: int32[4, 8]
        for x_local_0 in 0..4:
          for x_local_1 in 0..8:
            x_local[x_local_0, x_local_1] = x[x_local_0, x_local_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x_local[c_i, k] * y[k, c_j] begin(k)    <-- here
        """)


def by_registers(own: Expr) -> Program:
    """A shared copy of `x` that threads fill by way of arrays of their own, where `own` is added,
    inside of a loop of the same threads over t.
    """
    x, y = Buffer("x", (32,), "int32"), Buffer("y", (32,), "int32")
    tile, held = Buffer("tile", (32,), "int32", "shared"), Buffer("held", (1,), "int32", "local")
    zero = Const(0, INDEX)
    copy = Alloc(held, Seq((Store(held, (zero,), x[Var("k")] + own),
                            Store(tile, (Var("k"),), held[0]))))
    body = Alloc(tile, Seq((For(Var("k"), 32, copy, "threadIdx.x"),
                            Store(y, (Var("t"),), tile[31 - Var("t")]))))
    return Program("main", (x,), (y,), For(Var("j"), 1, For(Var("t"), 32, body, "threadIdx.x")))


def test_shared_values_come_by_registers_of_the_threads_that_copy():
    program = by_registers(Const(0, "int32"))
    assert_same_meaning(program, bind(program, "j", "blockIdx.x"))


def test_bind_refuses_shared_values_of_one_thread_by_way_of_registers():
    with pytest.raises(ScheduleError, match="bind: shared buffer tile, allocated inside of t "
                                            r"\(threadIdx.x\), must not depend on t\n"):
        bind(by_registers(Cast(Var("t"), "int32")), "j", "blockIdx.x")
