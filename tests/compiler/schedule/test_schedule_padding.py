"""Loops that run further than they need to."""

import pytest

from compiler import te
from compiler.ir import Combine, For, Program, lower, program_text
from compiler.schedule import cache_read, cache_write, compute_at, pad, reorder, split, unroll
from compiler.te import Buffer, Var
from tests.compiler.ir.samples import assert_same_meaning, matmul, scaled
from tests.compiler.schedule.checks import expect, refused
from tests.compiler.te.samples import argmax

SCALED = lower([scaled()], "main")
RAGGED = lower([matmul(5, 6, 7)], "main")


def test_pad_of_a_copy_fills_with_zeros():
    program = pad(cache_read(SCALED, "a", "near"), "a_near_0", 12)
    expect(program, """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        alloc near.a_near: int32[12]
        for a_near_0 in 0..12:
          a_near[a_near_0] = select(a_near_0 < 10, a[a_near_0], 0)
        for b_i in 0..10:
          b[b_i] = a_near[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)
    assert_same_meaning(SCALED, program)


def test_a_copy_that_selects_zeros_has_zeros_beyond():
    """Also where there is something to copy."""
    x = te.placeholder((12,), "int32", name="x")
    t = te.compute((10,), lambda i: te.select(i > 2, x[i], 0), name="t")
    y = te.compute((10,), lambda i: t[i] + 1, name="y")
    program = pad(lower([y], "main"), "t_i", 12)
    assert "t[t_i] = select(t_i > 2 and t_i < 10, x[t_i], 0)" in program_text(program)


def test_pad_of_a_reduction_adds_neutral_values():
    program = pad(RAGGED, "k", 8)
    expect(program, """
        program main(x: int32[5, 7], y: int32[7, 6]) -> c: int32[5, 6]
        for c_i in 0..5:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += select(k < 7, x[c_i, k] * y[k, c_j], 0) begin(k)
        """)
    assert_same_meaning(RAGGED, program)


def padded(dtype: str = "int32", both: bool = True) -> Program:
    program = cache_read(lower([matmul(5, 6, 7, dtype)], "main"), "x", "near")
    program = pad(program, "x_near_1", 8)
    return pad(cache_read(program, "y", "near"), "y_near_0", 8) if both else program


def test_products_of_padded_operands_need_no_selection():
    program = pad(padded("float32"), "k", 8)
    expect(program, """
        program main(x: float32[5, 7], y: float32[7, 6]) -> c: float32[5, 6]
        alloc near.x_near: float32[5, 8]
        alloc near.y_near: float32[8, 6]
        for x_near_0 in 0..5:
          for x_near_1 in 0..8:
            x_near[x_near_0, x_near_1] = select(x_near_1 < 7, x[x_near_0, x_near_1], 0.0)
        for y_near_0 in 0..8:
          for y_near_1 in 0..6:
            y_near[y_near_0, y_near_1] = select(y_near_0 < 7, y[y_near_0, y_near_1], 0.0)
        for c_i in 0..5:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x_near[c_i, k] * y_near[k, c_j] begin(k)
        """)
    assert_same_meaning(lower([matmul(5, 6, 7, "float32")], "main"), program)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_one_padded_operand(dtype):
    program = pad(padded(dtype, both=False), "k", 8)
    assert_same_meaning(lower([matmul(5, 6, 7, dtype)], "main"), program)


def test_padded_tiles_need_no_guards():
    program = pad(pad(pad(cache_write(padded(), "c", "local"), "c_local_i", 8), "c_local_j", 8),
                  "k", 8)
    program = reorder(split(split(program, "c_local_i", 4), "k", 4), "k_o", "c_local_j", "k_i")
    assert_same_meaning(RAGGED, program)
    assert "if " not in program_text(program)


@pytest.mark.parametrize("op", [te.max, te.min])
def test_neutral_values_of_extrema(op):
    x, k = te.placeholder((3, 5), "int8", "x"), te.reduce_axis(5, "k")
    program = lower([te.compute((3,), lambda i: op(x[i, k], k), "m")], "main")
    assert_same_meaning(program, pad(program, "k", 9))


def test_pad_of_an_output_does_nothing_beyond():
    program = pad(SCALED, "c_i", 16)
    expect(program, """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..16:
          if c_i < 10:
            c[c_i] = b[c_i] + 1
        """)
    assert_same_meaning(SCALED, program)


def test_pad_along_two_dimensions_makes_one_choice():
    copied = cache_read(RAGGED, "x", "near")
    program = pad(pad(copied, "x_near_0", 8), "x_near_1", 8)
    assert ("x_near[x_near_0, x_near_1] = select(x_near_0 < 5 and x_near_1 < 7, "
            "x[x_near_0, x_near_1], 0)") in program_text(program)
    assert_same_meaning(RAGGED, program)


def test_pad_of_several_outputs():
    x, r, k = Buffer("x", (3, 5), "int32"), Var("r"), Var("k")
    best, where = Buffer("best", (3,), "int32"), Buffer("where", (3,), "int64")
    body = Combine((best, where), (r,), argmax(), (x[r, k], k), (k,))
    program = Program("main", (x,), (best, where), For(r, 3, For(k, 5, body)))
    assert_same_meaning(program, pad(program, "k", 8))


def test_pad_refuses_a_lesser_extent():
    refused(lambda: pad(RAGGED, "k", 6), """
        pad: extent of k must not be less than 7, but is 6
        program main(x: int32[5, 7], y: int32[7, 6]) -> c: int32[5, 6]
        for c_i in 0..5:
          for c_j in 0..6:
            for k in 0..7:    <-- here
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_pad_refuses_a_marked_loop():
    refused(lambda: pad(unroll(RAGGED, "k"), "k", 8), """
        pad: k must be a serial loop, not unroll
        program main(x: int32[5, 7], y: int32[7, 6]) -> c: int32[5, 6]
        for c_i in 0..5:
          for c_j in 0..6:
            for k in 0..7 (unroll):    <-- here
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_pad_refuses_an_axis_of_an_output():
    refused(lambda: pad(RAGGED, "c_i", 8), """
        pad: c_i must run over one whole dimension of an allocated buffer of numbers that is \
written in one place, without gaps, or be reduced over
        program main(x: int32[5, 7], y: int32[7, 6]) -> c: int32[5, 6]
        for c_i in 0..5:
          for c_j in 0..6:
            for k in 0..7:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)    <-- here
        """)


def test_pad_refuses_a_part_of_a_dimension():
    refused(lambda: pad(split(SCALED, "b_i", 5), "b_i_i", 8), """
        pad: b_i_i must run over one whole dimension of an allocated buffer of numbers that is \
written in one place, without gaps, or be reduced over
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i_o in 0..2:
          for b_i_i in 0..5:
            b[b_i_o*5 + b_i_i] = a[b_i_o*5 + b_i_i] * 3    <-- here
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_pad_refuses_several_statements():
    refused(lambda: pad(compute_at(SCALED, "b", "c_i"), "c_i", 12), """
        pad: c_i must hold one statement, in loops and guards
        program main(a: int32[10]) -> c: int32[10]
        for c_i in 0..10:
          alloc b: int32[1]    <-- here
          for b_i in 0..1:
            b[b_i] = a[c_i + b_i] * 3
          c[c_i] = b[0] + 1
        """)
