"""Moving a stage past what it depends on; guards of threads around what they share."""

import ast
from pathlib import Path

from compiler import te
from compiler.ir import Alloc, For, Program, Seq, Store, lower
from compiler.schedule import (PRIMITIVES, bind, cache_read, cache_write, compute_at,
                               compute_inline, parallel, set_scope, split, tile, unroll)
from compiler.te import Buffer, Var
from tests.compiler.ir.samples import assert_same_meaning, matmul
from tests.compiler.schedule.checks import expect, refused

I, J, K, T = map(Var, "ijkt")
A, B, C, D = (Buffer(name, (8,), "int32") for name in "abcd")


def overwritten() -> Program:
    """b is made of d, then d is written anew, then c is made of b."""
    return Program("main", (A,), (C,), Alloc(D, Alloc(B, Seq((
        For(T, 8, Store(D, (T,), A[T])), For(I, 8, Store(B, (I,), D[I] * 2)),
        For(J, 8, Store(D, (J,), A[J] + 1)), For(K, 8, Store(C, (K,), B[K] + D[K])))))))


def test_compute_at_refuses_to_read_what_is_written_anew():
    refused(lambda: compute_at(overwritten(), "b", "k"), """
        compute_at: b must read nothing that is written after it
          reads d[0] at i=0: b[i] = d[i] * 2
          stores d[0] at j=0: d[j] = a[j] + 1
        program main(a: int32[8]) -> c: int32[8]
        alloc d: int32[8]
        alloc b: int32[8]
        for t in 0..8:
          d[t] = a[t]
        for i in 0..8:
          b[i] = d[i] * 2    <-- here
        for j in 0..8:
          d[j] = a[j] + 1
        for k in 0..8:
          c[k] = b[k] + d[k]
        """)


def test_compute_inline_refuses_to_read_what_is_written_anew():
    refused(lambda: compute_inline(overwritten(), "b"), """
        compute_inline: b must read nothing that is written after it
          reads d[0] at i=0: b[i] = d[i] * 2
          stores d[0] at j=0: d[j] = a[j] + 1
        program main(a: int32[8]) -> c: int32[8]
        alloc d: int32[8]
        alloc b: int32[8]
        for t in 0..8:
          d[t] = a[t]
        for i in 0..8:
          b[i] = d[i] * 2    <-- here
        for j in 0..8:
          d[j] = a[j] + 1
        for k in 0..8:
          c[k] = b[k] + d[k]
        """)


def step_of_a_scan() -> Program:
    """Each time doubles the one before, through a copy."""
    x = te.placeholder((6, 4), "int32", "x")

    def step(s, t):
        twice = te.compute((4,), lambda i: s[t - 1, i] * 2, "twice")
        return te.compute((4,), lambda i: twice[3 - i] + x[t, i], "next")

    return lower([te.scan((6, 4), lambda i: x[0, i], step, "s")], "main")


def test_stages_of_a_step_may_move_in_it():
    program = step_of_a_scan()
    assert_same_meaning(program, compute_at(program, "twice", "next_i"))
    assert_same_meaning(program, compute_inline(program, "twice"))
    assert_same_meaning(program, parallel(program, "next_i"))


def test_parallel_refuses_the_time_of_a_scan():
    refused(lambda: parallel(step_of_a_scan(), "s_t"), """
        parallel: iterations of s_t must not depend on each other
          stores s[1, 0] at s_t=0, next_i=0: s[s_t + 1, next_i] = twice[3 - next_i] + x[s_t + 1, \
next_i]
          reads s[1, 0] at s_t=1, twice_i=0: twice[twice_i] = s[s_t, twice_i] * 2
        program main(x: int32[6, 4]) -> s: int32[6, 4]
        for s_i in 0..4:
          s[0, s_i] = x[0, s_i]
        for s_t in 0..5:
          alloc twice: int32[4]
          for twice_i in 0..4:
            twice[twice_i] = s[s_t, twice_i] * 2
          for next_i in 0..4:
            s[s_t + 1, next_i] = twice[3 - next_i] + x[s_t + 1, next_i]    <-- here
        """)


def test_guards_of_threads_stand_inside_what_they_share():
    program = lower([matmul(5, 7, 8)], "main")
    program = cache_write(program, "c", "local", name="acc")
    program = tile(program, "c_i", "c_j", 4, 4)
    program = compute_at(program, "acc", "c_j_i")
    program = split(program, "k", 4)
    for loop, axis in (("c_i_o", "blockIdx.y"), ("c_j_o", "blockIdx.x"), ("c_i_i", "threadIdx.y"),
                       ("c_j_i", "threadIdx.x")):
        program = bind(program, loop, axis)
    for operand in "xy":
        program = compute_at(cache_read(program, operand, "shared"), f"{operand}_shared", "k_o")
        program = bind(program, f"{operand}_shared_0", "threadIdx.y")
        program = bind(program, f"{operand}_shared_1", "threadIdx.x")
    expect(program, """
        program main(x: int32[5, 8], y: int32[8, 7]) -> c: int32[5, 7]
        for c_i_o in 0..2 (blockIdx.y):
          for c_j_o in 0..2 (blockIdx.x):
            for c_i_i in 0..4 (threadIdx.y):
              for c_j_i in 0..4 (threadIdx.x):
                alloc local.acc: int32[1, 1]
                for acc_i in 0..1:
                  for acc_j in 0..1:
                    for k_o in 0..2:
                      alloc shared.y_shared: int32[4, 4]
                      alloc shared.x_shared: int32[4, 4]
                      for x_shared_0 in 0..4 (threadIdx.y):
                        if c_i_o*4 + acc_i + x_shared_0 < 5:
                          for x_shared_1 in 0..4 (threadIdx.x):
                            x_shared[x_shared_0, x_shared_1] = x[c_i_o*4 + acc_i + x_shared_0, \
k_o*4 + x_shared_1]
                      for y_shared_0 in 0..4 (threadIdx.y):
                        for y_shared_1 in 0..4 (threadIdx.x):
                          if c_j_o*4 + acc_j + y_shared_1 < 7:
                            y_shared[y_shared_0, y_shared_1] = y[k_o*4 + y_shared_0, c_j_o*4 + \
acc_j + y_shared_1]
                      if c_i_o*4 + c_i_i < 5 and c_j_o*4 + c_j_i < 7:
                        for k_i in 0..4:
                          acc[acc_i, acc_j] += x_shared[c_i_i, k_i] * y_shared[k_i, c_j_i] \
begin(k_o, k_i)
                if c_i_o*4 + c_i_i < 5 and c_j_o*4 + c_j_i < 7:
                  c[c_i_o*4 + c_i_i, c_j_o*4 + c_j_i] = acc[0, 0]
        """)
    assert_same_meaning(lower([matmul(5, 7, 8)], "main"), program)


def test_gathered_rows_are_taken_whole():
    table, where = te.placeholder((9, 4), "int32", "table"), te.placeholder((6,), "int64", "where")
    twice = te.compute((9, 4), lambda i, j: table[i, j] * 2, "twice")
    program = lower([te.compute((6, 4), lambda i, j: twice[where[i], j], "rows")], "main")
    expect(compute_at(program, "twice", "rows_i"), """
        program main(table: int32[9, 4], where: int64[6]) -> rows: int32[6, 4]
        for rows_i in 0..6:
          alloc twice: int32[9, 4]
          for twice_i in 0..9:
            for twice_j in 0..4:
              twice[twice_i, twice_j] = table[twice_i, twice_j] * 2
          for rows_j in 0..4:
            rows[rows_i, rows_j] = twice[where[rows_i], rows_j]
        """)


def test_tile_refuses_what_split_refuses():
    refused(lambda: tile(lower([matmul()], "main"), "c_i", "c_j", 2, 9), """
        split: factor of c_j must be from 1 to 6, not 9
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i_o in 0..2:
          for c_i_i in 0..2:
            for c_j in 0..6:    <-- here
              for k in 0..8:
                c[c_i_o*2 + c_i_i, c_j] += x[c_i_o*2 + c_i_i, k] * y[k, c_j] begin(k)
        """)


def test_unroll_refuses_a_marked_loop():
    refused(lambda: unroll(unroll(lower([matmul()], "main"), "k"), "k"), """
        unroll: k must be a serial loop, not unroll
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8 (unroll):    <-- here
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def columns() -> Program:
    """Threads that each have a column of y."""
    program = bind(bind(lower([matmul()], "main"), "c_i", "blockIdx.x"), "c_j", "threadIdx.x")
    return compute_at(cache_read(program, "y", "local"), "y_local", "c_j")


def test_set_scope_refuses_to_share_what_is_a_threads_own():
    refused(lambda: set_scope(columns(), "y_local", "shared"), """
        set_scope: shared buffer y_local, allocated inside of c_j (threadIdx.x), must not depend \
on c_j
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4 (blockIdx.x):
          for c_j in 0..6 (threadIdx.x):
            alloc shared.y_local: int32[8, 1]
            for y_local_0 in 0..8:
              for y_local_1 in 0..1:
                y_local[y_local_0, y_local_1] = y[y_local_0, c_j + y_local_1]    <-- here
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_local[k, 0] begin(k)
        """)


def test_cache_read_refuses_to_share_what_is_a_threads_own():
    refused(lambda: cache_read(columns(), "y_local", "shared", name="again"), """
        cache_read: shared buffer again, allocated inside of c_j (threadIdx.x), must not depend \
on y_local
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4 (blockIdx.x):
          for c_j in 0..6 (threadIdx.x):
            alloc local.y_local: int32[8, 1]
            alloc shared.again: int32[8, 1]
            for y_local_0 in 0..8:
              for y_local_1 in 0..1:
                y_local[y_local_0, y_local_1] = y[y_local_0, c_j + y_local_1]
            for again_0 in 0..8:
              for again_1 in 0..1:
                again[again_0, again_1] = y_local[again_0, again_1]    <-- here
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * again[k, 0] begin(k)
        """)


def test_cache_write_refuses_to_share_what_is_a_threads_own():
    refused(lambda: cache_write(columns(), "y_local", "shared", name="again"), """
        cache_write: shared buffer again, allocated inside of c_j (threadIdx.x), must not depend \
on c_j
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4 (blockIdx.x):
          for c_j in 0..6 (threadIdx.x):
            alloc local.y_local: int32[8, 1]
            alloc shared.again: int32[8, 1]
            for again_0 in 0..8:
              for again_1 in 0..1:
                again[again_0, again_1] = y[again_0, c_j + again_1]    <-- here
            for y_local_0 in 0..8:
              for y_local_1 in 0..1:
                y_local[y_local_0, y_local_1] = again[y_local_0, y_local_1]
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_local[k, 0] begin(k)
        """)


def test_every_primitive_has_refusals():
    named = {node.name for path in Path(__file__).parent.glob("test_*.py")
             for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
    for primitive in PRIMITIVES:
        assert any(name.startswith(f"test_{primitive}_refuses") for name in named), primitive
