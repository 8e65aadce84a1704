"""How elements lie in memory: gaps, and other orders of dimensions."""

import numpy as np
import pytest

from compiler import te
from compiler.ir import lower, program_text
from compiler.schedule import (cache_read, compute_at, split, storage_align, swizzle,
                               transform_layout)
from compiler.te import Buffer, numpy_dtype
from tests.compiler.ir.samples import assert_same_meaning, matmul
from tests.compiler.schedule.checks import expect, refused

MATMUL = lower([matmul()], "main")
CACHED = cache_read(MATMUL, "y", "shared")


def test_storage_align_leaves_gaps():
    program = storage_align(CACHED, "y_shared", 0, 32, 1)
    expect(program, """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[8, 6] strides [33, 1]
        for y_shared_0 in 0..8:
          for y_shared_1 in 0..6:
            y_shared[y_shared_0, y_shared_1] = y[y_shared_0, y_shared_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_shared[k, c_j] begin(k)
        """)
    assert_same_meaning(MATMUL, program)


@pytest.mark.parametrize("dimension, factor, offset, strides", [
    (0, 8, 0, (24, 4, 1)), (0, 16, 3, (35, 4, 1)), (1, 4, 0, (20, 4, 1)), (1, 4, 1, (25, 5, 1)),
    (1, 8, 7, (35, 7, 1)),
])
def test_distance_is_the_least(dimension, factor, offset, strides):
    x = te.placeholder((3, 5, 4), "int32", "x")
    program = cache_read(lower([te.compute((4, 5, 3), lambda i, j, k: x[k, j, i], "t")], "main"),
                         "x", "near")
    aligned = storage_align(program, "x_near", dimension, factor, offset)
    assert f"x_near: int32[3, 5, 4] strides {list(strides)}" in program_text(aligned)
    assert_same_meaning(program, aligned)


TILES = cache_read(lower([te.compute((4, 32), lambda i, j: te.placeholder(
    (4, 32), "float16", "x")[i, j], "t")], "main"), "x", "shared")


def test_swizzle_changes_nothing_but_places():
    program = swizzle(TILES, "x_shared")
    expect(program, """
        program main(x: float16[4, 32]) -> t: float16[4, 32]
        alloc shared.x_shared: float16[4, 32] swizzled
        for x_shared_0 in 0..4:
          for x_shared_1 in 0..32:
            x_shared[x_shared_0, x_shared_1] = x[x_shared_0, x_shared_1]
        for t_i in 0..4:
          for t_j in 0..32:
            t[t_i, t_j] = x_shared[t_i, t_j]
        """)
    assert_same_meaning(TILES, program)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize("width", [32, 64, 128, 256, 384])
def test_chunks_of_a_column_lie_in_different_banks(dtype, width):
    """Eight rows from a multiple of 8 on are read so by `ldmatrix`, and eight neighbours are copied
    so by threads; each chunk has one place.
    """
    buffer = Buffer("t", (32, width // numpy_dtype(dtype).itemsize), dtype, swizzled=True)
    chunk, rows, chunks = buffer.swizzle
    assert chunk * numpy_dtype(dtype).itemsize == 16
    row, column = np.indices((32, width // 16))
    place = row * width + (column ^ row // rows % chunks) * 16
    assert len(set(place.reshape(-1).tolist())) == place.size and place.max() < 32 * width
    bank = place % 128
    for first in range(0, 32, 8):
        assert all(len(set(some)) == 8 for some in bank[first:first + 8].T.tolist())
    if width % 128 == 0 or width in (32, 64):
        assert all(len(set(some)) == 8 for some in bank.reshape(-1, 8).tolist())


def test_swizzle_refuses_rows_of_other_lengths():
    refused(lambda: swizzle(CACHED, "y_shared"), """
        swizzle: rows of y_shared must be of 32 or 64 bytes, or of a multiple of 128, not of 24
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[8, 6]    <-- here
        for y_shared_0 in 0..8:
          for y_shared_1 in 0..6:
            y_shared[y_shared_0, y_shared_1] = y[y_shared_0, y_shared_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_shared[k, c_j] begin(k)
        """)


@pytest.mark.parametrize("step, name", [
    (lambda p: swizzle(p, "x_shared"), "swizzle"),
    (lambda p: storage_align(p, "x_shared", 0, 4), "storage_align"),
    (lambda p: compute_at(p, "x_shared", "t_i"), "compute_at")])
def test_what_is_swizzled_stays_so(step, name):
    refused(lambda: step(swizzle(TILES, "x_shared")), f"""
        {name}: x_shared must not be swizzled yet
        program main(x: float16[4, 32]) -> t: float16[4, 32]
        alloc shared.x_shared: float16[4, 32] swizzled    <-- here
        for x_shared_0 in 0..4:
          for x_shared_1 in 0..32:
            x_shared[x_shared_0, x_shared_1] = x[x_shared_0, x_shared_1]
        for t_i in 0..4:
          for t_j in 0..32:
            t[t_i, t_j] = x_shared[t_i, t_j]
        """)


def test_transform_layout_moves_elements():
    program = transform_layout(CACHED, "y_shared", "i, j -> j // 4, i, j % 4")
    expect(program, """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[2, 8, 4]
        for y_shared_0 in 0..8:
          for y_shared_1 in 0..6:
            y_shared[y_shared_1 // 4, y_shared_0, y_shared_1 % 4] = y[y_shared_0, y_shared_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_shared[c_j // 4, k, c_j % 4] begin(k)
        """)
    assert_same_meaning(MATMUL, program)


def test_layout_as_a_function():
    moved = transform_layout(CACHED, "y_shared", lambda i, j: (j, i))
    assert moved == transform_layout(CACHED, "y_shared", "i, j -> j, i")
    assert_same_meaning(MATMUL, moved)


def test_layout_of_split_loops_is_simple():
    program = split(CACHED, "y_shared_0", 4)
    expect(transform_layout(program, "y_shared", "i, j -> i // 4, j, i % 4"), """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[2, 6, 4]
        for y_shared_0_o in 0..2:
          for y_shared_0_i in 0..4:
            for y_shared_1 in 0..6:
              y_shared[y_shared_0_o, y_shared_1, y_shared_0_i] = y[y_shared_0_o*4 + \
y_shared_0_i, y_shared_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_shared[k // 4, c_j, k % 4] begin(k)
        """)


def test_storage_align_refuses_an_output():
    refused(lambda: storage_align(MATMUL, "c", 0, 4), """
        storage_align: c must be allocated by the program, not an input or output
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_storage_align_refuses_the_last_dimension():
    refused(lambda: storage_align(CACHED, "y_shared", 1, 4), """
        storage_align: dimension of y_shared must be from 0 to 0, not 1
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[8, 6]    <-- here
        for y_shared_0 in 0..8:
          for y_shared_1 in 0..6:
            y_shared[y_shared_0, y_shared_1] = y[y_shared_0, y_shared_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_shared[k, c_j] begin(k)
        """)


def test_storage_align_refuses_an_offset_that_is_no_remainder():
    refused(lambda: storage_align(CACHED, "y_shared", 0, 4, 4), """
        storage_align: factor must be positive and offset less than it, not 4 and 4
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[8, 6]    <-- here
        for y_shared_0 in 0..8:
          for y_shared_1 in 0..6:
            y_shared[y_shared_0, y_shared_1] = y[y_shared_0, y_shared_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_shared[k, c_j] begin(k)
        """)


def test_storage_align_refuses_gaps():
    refused(lambda: storage_align(storage_align(CACHED, "y_shared", 0, 4), "y_shared", 0, 8), """
        storage_align: y_shared must have no gaps yet
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[8, 6] strides [8, 1]    <-- here
        for y_shared_0 in 0..8:
          for y_shared_1 in 0..6:
            y_shared[y_shared_0, y_shared_1] = y[y_shared_0, y_shared_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_shared[k, c_j] begin(k)
        """)


def test_compute_at_refuses_gaps():
    refused(lambda: compute_at(storage_align(CACHED, "y_shared", 0, 4), "y_shared", "c_i"), """
        compute_at: y_shared must have no gaps yet
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[8, 6] strides [8, 1]    <-- here
        for y_shared_0 in 0..8:
          for y_shared_1 in 0..6:
            y_shared[y_shared_0, y_shared_1] = y[y_shared_0, y_shared_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_shared[k, c_j] begin(k)
        """)


def test_transform_layout_refuses_an_input():
    refused(lambda: transform_layout(MATMUL, "x", "i, j -> j, i"), """
        transform_layout: x must be allocated by the program, not an input or output
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_transform_layout_refuses_gaps():
    refused(lambda: transform_layout(storage_align(CACHED, "y_shared", 0, 4), "y_shared",
                                     "i, j -> j, i"), """
        transform_layout: y_shared must have no gaps yet
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[8, 6] strides [8, 1]    <-- here
        for y_shared_0 in 0..8:
          for y_shared_1 in 0..6:
            y_shared[y_shared_0, y_shared_1] = y[y_shared_0, y_shared_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_shared[k, c_j] begin(k)
        """)


def test_transform_layout_refuses_two_elements_in_one_place():
    refused(lambda: transform_layout(CACHED, "y_shared", "i, j -> i // 2, j"), """
        transform_layout: elements [0, 0] and [1, 0] of y_shared must not lie in one place, [0, 0]
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[8, 6]    <-- here
        for y_shared_0 in 0..8:
          for y_shared_1 in 0..6:
            y_shared[y_shared_0, y_shared_1] = y[y_shared_0, y_shared_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_shared[k, c_j] begin(k)
        """)


def test_transform_layout_refuses_negative_indices():
    refused(lambda: transform_layout(CACHED, "y_shared", "i, j -> i - j, j"), """
        transform_layout: index i - j of the layout must not be negative
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[8, 6]    <-- here
        for y_shared_0 in 0..8:
          for y_shared_1 in 0..6:
            y_shared[y_shared_0, y_shared_1] = y[y_shared_0, y_shared_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_shared[k, c_j] begin(k)
        """)


@pytest.mark.parametrize("text", ["i -> i", "i, j", "i, j -> i, k", "i, j -> i / 2, j",
                                  "i, i -> i, i", "i, j -> f(i), j", "i, j ->"])
def test_transform_layout_refuses_what_is_no_layout(text):
    refused(lambda: transform_layout(CACHED, "y_shared", text), f"""
        transform_layout: layout must map 2 names to sums, products, quotients and remainders of \
them, as in 'i, j -> i // 4, j, i % 4', not {text!r}
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[8, 6]    <-- here
        for y_shared_0 in 0..8:
          for y_shared_1 in 0..6:
            y_shared[y_shared_0, y_shared_1] = y[y_shared_0, y_shared_1]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y_shared[k, c_j] begin(k)
        """)
