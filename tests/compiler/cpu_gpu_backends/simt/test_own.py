"""Buffers that every thread has one of: who may read what. A refusal says which thread reads what
of another, and how to mend it; what is accepted is right on threads.
"""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from compiler import te
from tests.support.gpu_schedules import matmul_tensor_cores, schedule_tensor_cores
from compiler.cpu_gpu_backends.simt.generate import generate
from compiler.cpu_gpu_backends.simt.kernels import SimtError
from compiler.cpu_gpu_backends.simt.lowering import lower
from tests.support.races import find_races, run_kernels
from compiler.ir import (Alloc, For, If, Program, Seq, Stmt, Store, Update, interpret,
                         rewrite_stmts, walk_stmts)
from compiler.schedule import Schedule
from compiler.te import INDEX, Buffer, Const, Var

TX, TY, BX = "threadIdx.x", "threadIdx.y", "blockIdx.x"


def stages(mirrored: bool = True) -> Schedule:
    """y reads t, a row of a block, mirrored or as it is; both bound to threads."""
    x = te.placeholder((8, 64), "float32", "x")
    t = te.compute((8, 64), lambda i, j: x[i, j] * 2, "t")
    y = te.compute((8, 64), lambda i, j: t[i, 63 - j if mirrored else j] + 1, "y")
    schedule = Schedule([y], "p")
    schedule["y"].bind("y_i", BX)
    schedule["y"].bind("y_j", TX)
    schedule["t"].compute_at("y_i")
    return schedule


def assert_right(program: Program) -> None:
    """On NumPy lanes, and without races."""
    x = np.arange(512, dtype=np.float32).reshape(8, 64)
    kernels = lower(program)
    assert find_races(kernels, {"x": x}) == []
    np.testing.assert_array_equal(run_kernels(kernels, {"x": x})["y"],
                                  interpret(program, {"x": x})["y"])


def refused(program: Program, fact: str, **options: bool) -> None:
    with pytest.raises(SimtError, match=f"^{program.name}: {re.escape(fact)}\n"):
        lower(program, **options)


def test_what_a_neighbour_fills_wrong() -> None:
    schedule = stages()
    schedule["t"].bind("t_j", TX)
    schedule["t"].set_scope("local")
    refused(schedule.program, "each thread must read of local buffer t what it has written itself, "
                              "but t[0, 0] is written by t_j=0 (threadIdx.x) and read by y_j=63 "
                              "(threadIdx.x): use scope shared")
    with pytest.raises(SimtError, match=r"t\[0, 63 - y_j\] \+ 1.0    <-- here\n"):
        lower(schedule.program)
    schedule["t"].set_scope("shared")
    assert_right(schedule.program)


def test_a_copy_of_the_result_outside_of_all_threads_wrong() -> None:
    x = te.placeholder((8, 64), "float32", "x")
    y = te.compute((8, 64), lambda i, j: x[i, j] * 2, "y")
    schedule = Schedule([y], "p")
    schedule["y"].bind("y_i", BX)
    schedule["y"].bind("y_j", TX)
    schedule["y"].cache_write("local")
    refused(schedule.program, "each thread must read of local buffer y_local what it has written "
                              "itself, but y_local[1, 0] is written by y_local_i=1 (blockIdx.x) "
                              "and read by the first block: use scope global")
    schedule["y_local"].set_scope("global")
    assert_right(schedule.program)


def test_what_all_threads_read_of_one_wrong() -> None:
    acc = Buffer("acc", (64,), "float32", "local")
    x, y = Buffer("x", (8, 64), "float32"), Buffer("y", (8, 64), "float32")
    total = Buffer("total", (1,), "float32", "local")
    i, j, b, zero = Var("i"), Var("j"), Var("b"), Const(0, INDEX)
    body = Alloc(acc, Alloc(total, Seq((
        For(i, 64, Store(acc, (i,), x[b, i]), TX), Store(total, (zero,), acc[3]),
        For(j, 64, Store(y, (b, j), total[0]), TX)))))
    refused(Program("p", (x,), (y,), For(b, 8, body, BX)),
            "each thread must read of local buffer acc what it has written itself, but acc[3] is "
            "written by i=3 (threadIdx.x) and read by every thread: use scope shared")


def test_an_element_that_nobody_knows_wrong() -> None:
    """A gather may read what another thread has."""
    x = te.placeholder((64,), "float32", "x")
    at = te.placeholder((64,), te.INDEX, "at")
    t = te.compute((64,), lambda i: x[i] * 2, "t")
    y = te.compute((64,), lambda i: t[at[i]], "y")
    schedule = Schedule([y], "p")
    schedule["y"].split("y_i", 64)
    schedule["y"].bind("y_i_o", BX)
    schedule["y"].bind("y_i_i", TX)
    schedule["t"].compute_at("y_i_o")
    schedule["t"].bind("t_i", TX)
    schedule["t"].set_scope("local")
    refused(schedule.program, "each thread must read of local buffer t what it has written itself, "
                              "but t[0] is written by t_i=0 (threadIdx.x) and read by y_i_i=1 "
                              "(threadIdx.x): use scope shared")


def test_a_fragment_of_another_warp_wrong() -> None:
    """Two warps along y that fill one fragment, allocated outside of both."""
    program = schedule_tensor_cores(matmul_tensor_cores(64, 64, 64, "f16"), "p").program
    held = next(s.buffer for s in walk_stmts(program.body)
                if isinstance(s, Alloc) and s.buffer.scope == "fragment")

    def bare(stmt: Stmt) -> Stmt | None:
        return stmt.body if isinstance(stmt, Alloc) and stmt.buffer == held else None

    def outside(stmt: Stmt) -> Stmt | None:
        return Alloc(held, stmt) if isinstance(stmt, For) and stmt.kind == TY else None

    body = rewrite_stmts(rewrite_stmts(program.body, bare), outside)
    refused(replace(program, body=body), "each warp must read of fragment buffer acc what it has "
            "written itself, but acc[0, 0] is written by wi=0 (threadIdx.y) and read by wi=1 "
            "(threadIdx.y): allocate it inside of wi", intrinsics=True)


def test_what_every_thread_fills_for_itself() -> None:
    schedule = stages()
    schedule["t"].set_scope("local")
    assert_right(schedule.program)
    assert "float t[64];\n  for (int t_j" in generate(schedule.program).text


def test_what_a_thread_fills_and_reads_alone() -> None:
    schedule = stages(mirrored=False)
    schedule["t"].bind("t_j", TX)
    schedule["t"].set_scope("local")
    assert_right(schedule.program)


def test_a_copy_of_an_input_that_every_thread_has() -> None:
    x = te.placeholder((8, 64), "float32", "x")
    y = te.compute((8, 64), lambda i, j: x[i, 63 - j] * 2, "y")
    schedule = Schedule([y], "p")
    schedule["y"].bind("y_i", BX)
    schedule["y"].bind("y_j", TX)
    schedule["x"].cache_read("local")
    assert_right(schedule.program)
    schedule["x_local"].compute_at("y_i")
    assert_right(schedule.program)


# What is accepted, of many small programs, is right

B, ONE = Var("b"), Const(1, INDEX)
X, Y = Buffer("x", (8, 64), "float32"), Buffer("y", (8, 64), "float32")
T = Buffer("t", (8,), "float32", "local")


def writers(name: str) -> dict[str, Stmt]:
    """Ways to write to t: each of 8 threads an element, all of them all, one of them, together."""
    i, k = Var(name), Var(f"{name}_k")
    sums = Update(T, (i,), "sum", X[B, i * 4 + k], (k,))
    return {
        "each": For(i, 8, Store(T, (i,), X[B, i]), TX),
        "mirrored": For(i, 8, Store(T, (7 - i,), X[B, i]), TX),
        "all": For(i, 8, Store(T, (i,), X[B, i] + 1.0)),
        "rows": For(i, 8, Store(T, (i,), X[B, i] + 2.0), TY),
        "one": For(i, 8, If(i.equal(3), Store(T, (ONE,), X[B, i])), TX),
        "together": For(i, 8, Update(T, (ONE,), "sum", X[B, i], (i,)), TX),
        "sums": For(i, 8, For(k, 4, sums), TX),
    }


def readers() -> dict[str, Stmt]:
    j = Var("j")
    return {
        "each": For(j, 8, Store(Y, (B, j), T[j]), TX),
        "mirrored": For(j, 8, Store(Y, (B, j), T[7 - j]), TX),
        "constant": For(j, 8, Store(Y, (B, j), T[1]), TX),
        "first": Store(Y, (B, ONE), T[1]),
        "rows": For(j, 8, Store(Y, (B, j), T[j]), TY),
        "late": For(j, 4, If(j >= 2, Store(Y, (B, j), T[j + 2])), TX),
    }


@pytest.mark.one_in(2)
@pytest.mark.parametrize("reader", readers())
def test_what_is_accepted_is_right(reader: str) -> None:
    accepted = 0
    cleared = For(Var("z"), 64, Store(Y, (B, Var("z")), Const(0.0, "float32")), TX)
    for first, second in product(writers("i"), repeat=2):
        parts = writers("f")["all"], writers("i")[first], writers("j_")[second]
        body = For(B, 8, Seq((cleared, Alloc(T, Seq((*parts, readers()[reader]))))), BX)
        try:
            assert_right(Program("p", (X,), (Y,), body))
            accepted += 1
        except SimtError as refusal:
            assert "must read of local buffer t" in str(refusal), (first, second)
    assert 4 <= accepted < 49
