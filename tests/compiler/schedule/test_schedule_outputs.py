"""Stages with several outputs: they move, are copied and lie alike."""

import pytest

from compiler import te
from compiler.ir import Program, buffers_of, lower
from compiler.schedule import (cache_read, cache_write, compute_at, compute_inline, double_buffer,
                               pipeline, reorder, reverse_compute_at, reverse_inline, set_scope,
                               split, storage_align, transform_layout)
from tests.compiler.ir.samples import assert_same_meaning
from tests.compiler.schedule.checks import expect, refused
from tests.compiler.te.samples import argmax


def largest(read=True) -> Program:
    """The largest element of each row and its place, and what is computed of both."""
    x = te.placeholder((6, 5), "int32", "x")
    k = te.reduce_axis(5, "k")
    best, where = te.compute((6,), lambda i: argmax()((x[i, k], k), axis=k), ("best", "where"))
    y = te.compute((6,), lambda i: best[i] + te.cast(where[i], "int32"), "y")
    return lower([y] if read else [best, where], "main")


def mixed() -> Program:
    """Two outputs of one stage, of which the program returns one."""
    x = te.placeholder((6, 5), "int32", "x")
    k = te.reduce_axis(5, "k")
    best, where = te.compute((6,), lambda i: argmax()((x[i, k], k), axis=k), ("best", "where"))
    return lower([where, te.compute((6,), lambda i: best[i] * 2, "y")], "main")


def pair() -> Program:
    """Two maps in one nest; the second is read in another row."""
    x = te.placeholder((6, 5), "int32", "x")
    a, b = te.compute((6, 5), lambda i, j: (x[i, j] + 1, x[i, j] * 2), ("a", "b"))
    return lower([te.compute((4, 5), lambda i, j: a[i, j] * b[i + 2, j], "y")], "main")


def plane() -> Program:
    """Largest elements of rows of a block, in one reduction of two dimensions."""
    x = te.placeholder((4, 6, 5), "int32", "x")
    k = te.reduce_axis(5, "k")
    best, where = te.compute((4, 6), lambda i, j: argmax()((x[i, j, k], k), axis=k),
                             ("best", "where"))
    return lower([te.compute((4, 6), lambda i, j: best[i, j] + te.cast(where[i, j], "int32"), "y")],
                 "main")


def test_compute_at():
    expect(compute_at(split(split(largest(), "best_i", 2), "y_i", 4), "where", "y_i_o"), """
        program main(x: int32[6, 5]) -> y: int32[6]
        for y_i_o in 0..2:
          alloc where: int64[4]
          alloc best: int32[4]
          for best_i_o in 0..2:
            for best_i_i in 0..2:
              if y_i_o*4 + best_i_o*2 + best_i_i < 6:
                for k in 0..5:
                  best[best_i_o*2 + best_i_i], where[best_i_o*2 + best_i_i] argmax= x[y_i_o*4 + \
best_i_o*2 + best_i_i, k], k begin(k)
          for y_i_i in 0..4:
            if y_i_o*4 + y_i_i < 6:
              y[y_i_o*4 + y_i_i] = best[y_i_i] + int32(where[y_i_i])
        """)


def test_the_box_holds_what_is_read_of_any():
    expect(compute_at(split(pair(), "y_i", 2), "a", "y_i_o"), """
        program main(x: int32[6, 5]) -> y: int32[4, 5]
        for y_i_o in 0..2:
          alloc a: int32[4, 5]
          alloc b: int32[4, 5]
          for a_i in 0..4:
            for a_j in 0..5:
              a[a_i, a_j] = x[y_i_o*2 + a_i, a_j] + 1
              b[a_i, a_j] = x[y_i_o*2 + a_i, a_j] * 2
          for y_i_i in 0..2:
            for y_j in 0..5:
              y[y_i_o*2 + y_i_i, y_j] = a[y_i_i, y_j] * b[y_i_i + 2, y_j]
        """)


def test_compute_inline_takes_one():
    one = compute_inline(split(pair(), "a_i", 4), "b")
    expect(one, """
        program main(x: int32[6, 5]) -> y: int32[4, 5]
        alloc a: int32[6, 5]
        for a_i_o in 0..2:
          for a_i_i in 0..4:
            if a_i_o*4 + a_i_i < 6:
              for a_j in 0..5:
                a[a_i_o*4 + a_i_i, a_j] = x[a_i_o*4 + a_i_i, a_j] + 1
        for y_i in 0..4:
          for y_j in 0..5:
            y[y_i, y_j] = a[y_i, y_j] * (x[y_i + 2, y_j] * 2)
        """)
    assert_same_meaning(pair(), compute_inline(one, "a"))


def test_cache_write():
    expect(cache_write(largest(read=False), "where", "near", name="acc"), """
        program main(x: int32[6, 5]) -> best: int32[6], where: int64[6]
        alloc near.best_near: int32[6]
        alloc near.acc: int64[6]
        for acc_i in 0..6:
          for k in 0..5:
            best_near[acc_i], acc[acc_i] argmax= x[acc_i, k], k begin(k)
        for best_i in 0..6:
          best[best_i] = best_near[best_i]
          where[best_i] = acc[best_i]
        """)


def test_reverse_compute_at():
    x = te.placeholder((8,), "int32", "x")
    a = te.compute((8,), lambda i: x[i] * 3, "a")
    y, z = te.compute((8,), lambda i: (a[i] + 1, a[i] - 1), ("y", "z"))
    program = lower([y, z], "main")
    expect(reverse_compute_at(split(program, "a_i", 4), "z", "a_i_o"), """
        program main(x: int32[8]) -> y: int32[8], z: int32[8]
        alloc a: int32[8]
        for a_i_o in 0..2:
          for a_i_i in 0..4:
            a[a_i_o*4 + a_i_i] = x[a_i_o*4 + a_i_i] * 3
          for y_i in 0..4:
            y[a_i_o*4 + y_i] = a[a_i_o*4 + y_i] + 1
            z[a_i_o*4 + y_i] = a[a_i_o*4 + y_i] - 1
        """)
    expect(reverse_inline(split(program, "a_i", 4), "y"), """
        program main(x: int32[8]) -> y: int32[8], z: int32[8]
        for a_i_o in 0..2:
          for a_i_i in 0..4:
            y[a_i_o*4 + a_i_i] = x[a_i_o*4 + a_i_i] * 3 + 1
            z[a_i_o*4 + a_i_i] = x[a_i_o*4 + a_i_i] * 3 - 1
        """)


def test_layouts_change_together():
    moved = transform_layout(plane(), "where", "i, j -> j, i")
    assert [b.shape for b in _allocated(moved)] == [(6, 4), (6, 4)]
    aligned = storage_align(plane(), "best", 0, 8)
    assert [b.strides for b in _allocated(aligned)] == [(8, 1), (8, 1)]
    for after in (moved, aligned):
        assert_same_meaning(plane(), after)


def _allocated(program: Program):
    return [b for name, b in buffers_of(program).items() if name in ("best", "where")]


def test_copies_in_turns():
    placed = compute_at(split(plane(), "y_j", 3), "best", "y_i")
    doubled = double_buffer(placed, "where")
    assert [b.shape for b in _allocated(doubled)] == [(2, 1, 6), (2, 1, 6)]
    ahead = pipeline(placed, "y_i", 0, 1)
    assert [b.shape for b in _allocated(ahead)] == [(2, 1, 6), (2, 1, 6)]
    for after in (doubled, ahead):
        assert_same_meaning(plane(), after)


def test_one_of_two_is_read_late():
    """Both have as many copies as the longer life of the two takes."""
    x = te.placeholder((4, 5), "int32", "x")
    k = te.reduce_axis(5, "k")
    best, _ = te.compute((4,), lambda i: argmax()((x[i, k], k), axis=k), ("best", "where"))
    program = lower([te.compute((4,), lambda i: best[i] * 2, "y")], "main")
    after = pipeline(compute_at(program, "best", "y_i"), "y_i", 0, 1)
    assert [b.shape for b in _allocated(after)] == [(2, 1), (2, 1)]
    assert_same_meaning(program, after)


def test_copies_and_scopes():
    for step in (lambda p: set_scope(p, "where", "near"), lambda p: cache_read(p, "best", "near"),
                 lambda p: reorder(p, "k", "best_i"), lambda p: cache_write(p, "best", "near")):
        assert_same_meaning(largest(), step(largest()))


def test_compute_at_refuses_what_is_computed_together_with_an_output():
    refused(lambda: compute_at(mixed(), "best", "y_i"), """
        compute_at: best must not be computed together with where, an output of the program
        program main(x: int32[6, 5]) -> where: int64[6], y: int32[6]
        alloc best: int32[6]
        for best_i in 0..6:    <-- here
          for k in 0..5:
            best[best_i], where[best_i] argmax= x[best_i, k], k begin(k)
        for y_i in 0..6:
          y[y_i] = best[y_i] * 2
        """)


def test_outputs_part_by_a_copy():
    """The copy of one is inlined, so that the other, an output, is copied alone."""
    after = compute_inline(cache_write(mixed(), "where", "near"), "best")
    expect(after, """
        program main(x: int32[6, 5]) -> where: int64[6], y: int32[6]
        alloc near.best_near: int32[6]
        alloc near.where_near: int64[6]
        for where_near_i in 0..6:
          for k in 0..5:
            best_near[where_near_i], where_near[where_near_i] argmax= x[where_near_i, k], k begin(k)
        for best_i in 0..6:
          where[best_i] = where_near[best_i]
        for y_i in 0..6:
          y[y_i] = best_near[y_i] * 2
        """)
    assert_same_meaning(mixed(), after)


def test_compute_inline_refuses_a_reduction_of_several():
    with pytest.raises(ValueError, match="compute_inline: best must not be a reduction"):
        compute_inline(largest(), "best")


def test_layouts_refuse_what_lies_with_an_output():
    with pytest.raises(ValueError, match="transform_layout: where must be allocated by the "
                                         "program, not an input or output"):
        transform_layout(mixed(), "best", "i -> i")


def test_compute_at_refuses_readers_of_any_outside():
    x = te.placeholder((4,), "int32", "x")
    a, b = te.compute((4,), lambda i: (x[i] + 1, x[i] * 2), ("a", "b"))
    y = te.compute((4,), lambda i: a[i] + 5, "y")
    z = te.compute((4,), lambda i: b[i] + 5, "z")
    refused(lambda: compute_at(lower([y, z], "main"), "a", "y_i"), """
        compute_at: all readers of b must be inside y_i
        program main(x: int32[4]) -> y: int32[4], z: int32[4]
        alloc a: int32[4]
        alloc b: int32[4]
        for a_i in 0..4:
          a[a_i] = x[a_i] + 1
          b[a_i] = x[a_i] * 2
        for y_i in 0..4:
          y[y_i] = a[y_i] + 5
        for z_i in 0..4:
          z[z_i] = b[z_i] + 5    <-- here
        """)


def test_compute_at_refuses_what_nothing_reads():
    x = te.placeholder((4,), "int32", "x")
    _, b = te.compute((4,), lambda i: (x[i] + 1, x[i] * 2), ("a", "b"))
    program = lower([te.compute((4,), lambda i: b[i] + 5, "y")], "main")
    refused(lambda: compute_at(compute_inline(program, "b"), "a", "y_i"), """
        compute_at: a must be read inside y_i
        program main(x: int32[4]) -> y: int32[4]
        alloc a: int32[4]
        for a_i in 0..4:
          a[a_i] = x[a_i] + 1
        for y_i in 0..4:    <-- here
          y[y_i] = x[y_i] * 2 + 5
        """)
