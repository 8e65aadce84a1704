"""Extents that are symbols: steps hold for every value of them, or are refused."""

from collections.abc import Callable

import numpy as np
import pytest

from compiler import te
from compiler.ir import (For, Program, Store, VerifyError, interpret, lower, program_text,
                         specialize, verify)
from compiler.schedule import (PRIMITIVES, Schedule, bind, cache_read, compute_at, compute_inline,
                               decompose_reduction, fuse, pad, parallel, reorder, rfactor, split,
                               tile, unroll, vectorize)
from compiler.te import Buffer, Const, Symbol, Var
from tests.compiler.schedule.checks import expect, refused

N, M = te.symbol("n"), te.symbol("m")
A = te.placeholder((N,), "int32", "a")
DOUBLED = te.compute((N,), lambda i: A[i] * 2, "b")
LINE = lower([te.compute((N,), lambda i: DOUBLED[i] + 1, "c")], "main")


def product() -> Program:
    """``c = x @ y`` with rows and depth unknown."""
    x, y = te.placeholder((N, M), "int32", "x"), te.placeholder((M, 6), "int32", "y")
    k = te.reduce_axis(M, "k")
    return lower([te.compute((N, 6), lambda i, j: te.sum(x[i, k] * y[k, j], k), "c")], "main")


def assert_same(before: Program, after: Program, *sizes: dict[str, int]):
    """Asserts that both programs give the same for every size, to the bit."""
    verify(after)
    for values in sizes:
        rng = np.random.default_rng(0)
        one, other = specialize(before, **values), specialize(verify(after), **values)
        inputs = {b.name: rng.integers(-9, 9, b.shape).astype(b.dtype) for b in one.inputs}
        expected, found = interpret(one, inputs), interpret(verify(other), inputs)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=f"{name} {values}")


LENGTHS = tuple({"n": n} for n in (1, 2, 4, 7, 8, 13))
SIZES = tuple({"n": n, "m": m} for n in (1, 3, 8) for m in (1, 4, 7))


def test_split_guards_what_may_not_divide():
    program = split(LINE, "c_i", 4)
    expect(program, """
        program main<n>(a: int32[n]) -> c: int32[n]
        alloc b: int32[n]
        for b_i in 0..n:
          b[b_i] = a[b_i] * 2
        for c_i_o in 0..((n + 3) // 4):
          for c_i_i in 0..4:
            if c_i_o*4 + c_i_i < n:
              c[c_i_o*4 + c_i_i] = b[c_i_o*4 + c_i_i] + 1
        """)
    assert_same(LINE, program, *LENGTHS)


def test_split_of_a_multiple_needs_no_guard():
    x = te.placeholder((N * 8,), "int32", "x")
    program = lower([te.compute((N * 8,), lambda i: x[i] + 1, "y")], "main")
    expect(split(program, "y_i", 4), """
        program main<n>(x: int32[n*8]) -> y: int32[n*8]
        for y_i_o in 0..(n*2):
          for y_i_i in 0..4:
            y[y_i_o*4 + y_i_i] = x[y_i_o*4 + y_i_i] + 1
        """)
    assert_same(program, split(program, "y_i", 4), *LENGTHS)


def test_compute_at_finds_boxes_of_numbers():
    program = compute_at(split(LINE, "c_i", 4), "b", "c_i_o")
    expect(program, """
        program main<n>(a: int32[n]) -> c: int32[n]
        for c_i_o in 0..((n + 3) // 4):
          alloc b: int32[4]
          for b_i in 0..4:
            if c_i_o*4 + b_i < n:
              b[b_i] = a[c_i_o*4 + b_i] * 2
          for c_i_i in 0..4:
            if c_i_o*4 + c_i_i < n:
              c[c_i_o*4 + c_i_i] = b[c_i_i] + 1
        """)
    assert_same(LINE, program, *LENGTHS)


def test_fuse_multiplies_by_a_number():
    program = fuse(product(), "c_i", "c_j")
    expect(program, """
        program main<n, m>(x: int32[n, m], y: int32[m, 6]) -> c: int32[n, 6]
        for c_i_c_j in 0..(n*6):
          for k in 0..m:
            c[c_i_c_j // 6, c_i_c_j % 6] += x[c_i_c_j // 6, k] * y[k, c_i_c_j % 6] begin(k)
        """)
    assert_same(product(), program, *SIZES)


@pytest.mark.parametrize("step", [
    lambda p: reorder(p, "k", "c_j"),
    lambda p: parallel(tile(p, "c_i", "c_j", 2, 4), "c_i_o"),
    lambda p: vectorize(reorder(p, "k", "c_j"), "c_j"),
    lambda p: bind(bind(split(p, "c_i", 4), "c_i_o", "blockIdx.x"), "c_i_i", "threadIdx.x"),
    lambda p: decompose_reduction(split(p, "k", 3), "c", "k_o"),
    lambda p: rfactor(split(p, "k", 3), "c", "k_o"),
    lambda p: compute_at(cache_read(split(p, "k", 3), "x", "near"), "x_near", "k_o"),
    lambda p: cache_read(p, "y", "near"),
])
def test_meaning_stays(step):
    assert_same(product(), step(product()), *SIZES)


def test_inline():
    assert_same(LINE, compute_inline(LINE, "b"), *LENGTHS)


def test_record_replays():
    s = Schedule(LINE)
    s["c"].split("i", 4)
    assert Schedule.replay(LINE, s.text()).program == s.program


def test_sizes_come_from_inputs_or_from_the_caller():
    assert interpret(LINE, {"a": np.arange(3, dtype=np.int32)})["c"].tolist() == [1, 3, 5]
    program = lower([te.compute((N,), lambda i: i.astype("int32"), "y")], "main")
    assert interpret(program, {}, {"n": 4})["y"].tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="^Parameter n of main must have a value$"):
        interpret(program, {})


@pytest.mark.parametrize("values, message", [
    ({"n": 4, "k": 2}, "Parameter of main must be one of n, not 'k'"),
    ({"n": 0}, "Parameter n of main must be a positive integer, not 0"),
    ({}, "Parameter n of main must have a value"),
])
def test_values_wrong(values, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        specialize(LINE, **values)


def test_symbol_that_is_no_parameter_wrong():
    c, i = Buffer("c", (4,), "int32"), Var("i")
    body = For(i, Symbol("n"), Store(c, (i,), Const(0, "int32")))
    with pytest.raises(VerifyError, match="^Symbol n must be a parameter of the program\n"):
        verify(Program("main", (), (c,), body))


def test_shape_wrong():
    with pytest.raises(ValueError, match="^Shape of a must hold positive integers"):
        Buffer("a", (Var("i"),), "int32")


def test_text_names_the_parameters():
    assert program_text(product()).splitlines()[0] == (
        "program main<n, m>(x: int32[n, m], y: int32[m, 6]) -> c: int32[n, 6]")


def test_fuse_refuses_two_symbols():
    x = te.placeholder((N, M), "int32", "x")
    program = lower([te.compute((N, M), lambda i, j: x[i, j] + 1, "y")], "main")
    refused(lambda: fuse(program, "y_i", "y_j"), """
        fuse: extent of y_j must be a number, not m: symbols are not multiplied and not divided by
        program main<n, m>(x: int32[n, m]) -> y: int32[n, m]
        for y_i in 0..n:
          for y_j in 0..m:    <-- here
            y[y_i, y_j] = x[y_i, y_j] + 1
        """)


def test_split_refuses_a_symbol_as_factor():
    refused(lambda: split(LINE, "c_i", N), """
        split: factor of c_i must be a number from 1, not n
        program main<n>(a: int32[n]) -> c: int32[n]
        alloc b: int32[n]
        for b_i in 0..n:
          b[b_i] = a[b_i] * 2
        for c_i in 0..n:    <-- here
          c[c_i] = b[c_i] + 1
        """)


def test_parallel_refuses_a_dependence_at_some_size():
    c, i = Buffer("c", (N * 2,), "int32"), Var("i")
    body = For(i, N, Store(c, (i + N - 1,), c[i] + 1))
    refused(lambda: parallel(Program("main", (), (c,), body, (N,)), "i"), """
        parallel: iterations of i must not depend on each other
          stores c[1] at n=2, i=0: c[i + n - 1] = c[i] + 1
          reads c[1] at n=2, i=1: c[i + n - 1] = c[i] + 1
        program main<n>() -> c: int32[n*2]
        for i in 0..n:
          c[i + n - 1] = c[i] + 1    <-- here
        """)


def test_rfactor_refuses_parts_that_may_be_empty():
    refused(lambda: rfactor(split(product(), "k", 4), "c", "k_i"), """
        rfactor: every iteration of k_i must have a first term of c, but k_o*4 + k_i < m may \
keep it away
        program main<n, m>(x: int32[n, m], y: int32[m, 6]) -> c: int32[n, 6]
        for c_i in 0..n:
          for c_j in 0..6:
            for k_o in 0..((m + 3) // 4):
              for k_i in 0..4:
                if k_o*4 + k_i < m:
                  c[c_i, c_j] += x[c_i, k_o*4 + k_i] * y[k_o*4 + k_i, c_j] begin(k_o, k_i)    \
<-- here
        """)


def test_vectorize_refuses_a_symbol():
    refused(lambda: vectorize(LINE, "c_i"), """
        vectorize: extent of c_i must be a number, not n
        program main<n>(a: int32[n]) -> c: int32[n]
        alloc b: int32[n]
        for b_i in 0..n:
          b[b_i] = a[b_i] * 2
        for c_i in 0..n:    <-- here
          c[c_i] = b[c_i] + 1
        """)


def test_unroll_refuses_a_symbol():
    refused(lambda: unroll(LINE, "c_i"), """
        unroll: extent of c_i must be a number, not n
        program main<n>(a: int32[n]) -> c: int32[n]
        alloc b: int32[n]
        for b_i in 0..n:
          b[b_i] = a[b_i] * 2
        for c_i in 0..n:    <-- here
          c[c_i] = b[c_i] + 1
        """)


def test_pad_refuses_symbols():
    refused(lambda: pad(LINE, "b_i", 8), """
        pad: extents must be numbers, but the program has symbols (n): specialize it first
        program main<n>(a: int32[n]) -> c: int32[n]
        alloc b: int32[n]
        for b_i in 0..n:
          b[b_i] = a[b_i] * 2
        for c_i in 0..n:
          c[c_i] = b[c_i] + 1
        """)


@pytest.mark.parametrize("name, args", [
    ("double_buffer", ("b",)), ("pipeline", ("c_i", 0, 1)), ("storage_align", ("b", 0, 4)),
    ("transform_layout", ("b", "i -> i")), ("virtual_thread", ("c_i",)),
])
def test_primitives_that_calculate_with_extents_refuse_symbols(name, args):
    primitive: Callable[..., Program] = PRIMITIVES[name]
    refused(lambda: primitive(LINE, *args), f"""
        {name}: extents must be numbers, but the program has symbols (n): specialize it first
        program main<n>(a: int32[n]) -> c: int32[n]
        alloc b: int32[n]
        for b_i in 0..n:
          b[b_i] = a[b_i] * 2
        for c_i in 0..n:
          c[c_i] = b[c_i] + 1
        """)
