"""Consumers that move to their producers."""

import pytest

from compiler import te
from compiler.ir import Alloc, For, Program, Seq, Store, lower
from compiler.schedule import (cache_write, fuse, parallel, reverse_compute_at, reverse_inline,
                               split, tile)
from compiler.te import Buffer, Var
from tests.compiler.ir.samples import assert_same_meaning, matmul, scaled, shifted
from tests.compiler.schedule.checks import expect, refused

SCALED = lower([scaled()], "main")
SHIFTED = lower([shifted()], "main")
CACHED = cache_write(lower([matmul()], "main"), "c", "local")


def biased(columns: bool = False) -> Program:
    """A product, and what adds a row or a column of inputs to it."""
    c, bias = matmul(), te.placeholder((6,), "int32", "bias")
    shape = (6, 4) if columns else (4, 6)
    return lower([te.compute(shape, lambda i, j: c[j, i] + bias[i] if columns
                             else c[i, j] + bias[j], "d")], "main")


def test_consumer_follows_its_producer():
    expect(reverse_compute_at(split(SCALED, "b_i", 4), "c", "b_i_o"), """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i_o in 0..3:
          for b_i_i in 0..4:
            if b_i_o*4 + b_i_i < 10:
              b[b_i_o*4 + b_i_i] = a[b_i_o*4 + b_i_i] * 3
          for c_i in 0..4:
            if b_i_o*4 + c_i < 10:
              c[b_i_o*4 + c_i] = b[b_i_o*4 + c_i] + 1
        """)


def test_tiles_of_a_product():
    program = tile(biased(), "c_i", "c_j", 2, 4)
    program = reverse_compute_at(program, "d", "c_j_o")
    expect(program, """
        program main(x: int32[4, 8], y: int32[8, 6], bias: int32[6]) -> d: int32[4, 6]
        alloc c: int32[4, 6]
        for c_i_o in 0..2:
          for c_j_o in 0..2:
            for c_i_i in 0..2:
              for c_j_i in 0..4:
                if c_j_o*4 + c_j_i < 6:
                  for k in 0..8:
                    c[c_i_o*2 + c_i_i, c_j_o*4 + c_j_i] += x[c_i_o*2 + c_i_i, k] * y[k, c_j_o*4 \
+ c_j_i] begin(k)
            for d_i in 0..2:
              for d_j in 0..4:
                if c_j_o*4 + d_j < 6:
                  d[c_i_o*2 + d_i, c_j_o*4 + d_j] = c[c_i_o*2 + d_i, c_j_o*4 + d_j] + \
bias[c_j_o*4 + d_j]
        """)
    assert_same_meaning(biased(), program)


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 10])
@pytest.mark.parametrize("loop", ["b_i_o", "b_i_i"])
def test_meaning_stays(factor, loop):
    program = split(SCALED, "b_i", factor)
    assert_same_meaning(SCALED, reverse_compute_at(program, "c", loop))


def test_transposed_consumer():
    program = reverse_compute_at(split(biased(columns=True), "c_i", 3), "d", "c_i_o")
    assert_same_meaning(biased(columns=True), program)


def test_parallel_producer():
    program = reverse_compute_at(parallel(biased(), "c_i"), "d", "c_j")
    assert_same_meaning(biased(), program)


def test_reverse_inline_stores_the_consumer():
    program = reverse_inline(split(SCALED, "b_i", 4), "c")
    expect(program, """
        program main(a: int32[10]) -> c: int32[10]
        for b_i_o in 0..3:
          for b_i_i in 0..4:
            if b_i_o*4 + b_i_i < 10:
              c[b_i_o*4 + b_i_i] = a[b_i_o*4 + b_i_i] * 3 + 1
        """)
    assert_same_meaning(SCALED, program)


def test_reverse_inline_of_a_copy_out():
    assert_same_meaning(lower([scaled()], "main"), reverse_inline(
        fuse(split(cache_write(SCALED, "c", "local"), "c_local_i", 5), "c_local_i_o",
             "c_local_i_i"), "c"))


def test_reverse_inline_transposes():
    x = te.placeholder((4, 6), "int32", "x")
    a = te.compute((4, 6), lambda i, j: x[i, j] * 2, "a")
    program = lower([te.compute((6, 4), lambda i, j: a[j, i] + i.astype("int32"), "t")], "main")
    expect(reverse_inline(program, "t"), """
        program main(x: int32[4, 6]) -> t: int32[6, 4]
        for a_i in 0..4:
          for a_j in 0..6:
            t[a_j, a_i] = x[a_i, a_j] * 2 + int32(a_j)
        """)
    assert_same_meaning(program, reverse_inline(program, "t"))


def test_reverse_compute_at_refuses_to_read_what_is_not_written():
    refused(lambda: reverse_compute_at(CACHED, "c", "k"), """
        reverse_compute_at: c must read nothing that is written later
          reads c_local[0, 0] at c_local_i=0, c_local_j=0, k=0, c_i=0, c_j=0: c[c_local_i + c_i, \
c_local_j + c_j] = c_local[c_local_i + c_i, c_local_j + c_j]
          updates c_local[0, 0] at c_local_i=0, c_local_j=0, k=1: c_local[c_local_i, c_local_j] \
+= x[c_local_i, k] * y[k, c_local_j] begin(k)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc local.c_local: int32[4, 6]
        for c_local_i in 0..4:
          for c_local_j in 0..6:
            for k in 0..8:
              c_local[c_local_i, c_local_j] += x[c_local_i, k] * y[k, c_local_j] begin(k)
              for c_i in 0..1:
                for c_j in 0..1:
                  c[c_local_i + c_i, c_local_j + c_j] = c_local[c_local_i + c_i, c_local_j + \
c_j]    <-- here
        """)


def test_reverse_compute_at_refuses_two_ways_of_reading():
    refused(lambda: reverse_compute_at(SHIFTED, "c", "b_i"), """
        reverse_compute_at: c must read what is computed in b_i in one way, not in 2
        program main(a: int32[12]) -> c: int32[10]
        alloc b: int32[12]
        for b_i in 0..12:
          b[b_i] = a[b_i] * 2
        for c_i in 0..10:
          c[c_i] = b[c_i] + b[c_i + 2]    <-- here
        """)


def test_reverse_compute_at_refuses_a_window():
    x, k = te.placeholder((8,), "int32", "x"), te.reduce_axis(3, "k")
    a = te.compute((8,), lambda i: x[i] * 2, "a")
    program = lower([te.compute((6,), lambda i: te.sum(a[i + k], k), "w")], "main")
    refused(lambda: reverse_compute_at(program, "w", "a_i"), """
        reverse_compute_at: w must read a at different loops of its own that do not reduce, a \
constant apart, not at w_i + k
        program main(x: int32[8]) -> w: int32[6]
        alloc a: int32[8]
        for a_i in 0..8:
          a[a_i] = x[a_i] * 2
        for w_i in 0..6:
          for k in 0..3:
            w[w_i] += a[w_i + k] begin(k)    <-- here
        """)


def test_reverse_compute_at_refuses_a_reduction_over_what_moves():
    x, k = te.placeholder((4, 8), "int32", "x"), te.reduce_axis(8, "k")
    a = te.compute((4, 8), lambda i, j: x[i, j] * 2, "a")
    program = lower([te.compute((4,), lambda i: te.sum(a[i, k], k), "rows")], "main")
    refused(lambda: reverse_compute_at(program, "rows", "a_i"), """
        reverse_compute_at: rows must read a at different loops of its own that do not reduce, a \
constant apart, not at rows_i, k
        program main(x: int32[4, 8]) -> rows: int32[4]
        alloc a: int32[4, 8]
        for a_i in 0..4:
          for a_j in 0..8:
            a[a_i, a_j] = x[a_i, a_j] * 2
        for rows_i in 0..4:
          for k in 0..8:
            rows[rows_i] += a[rows_i, k] begin(k)    <-- here
        """)


def test_reverse_compute_at_refuses_a_loop_behind_it():
    refused(lambda: reverse_compute_at(SCALED, "b", "c_i"), """
        reverse_compute_at: loop c_i must be in a statement before b, in its block
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:    <-- here
          c[c_i] = b[c_i] + 1
        """)


def test_reverse_compute_at_refuses_what_needs_a_stage_in_between():
    x = te.placeholder((8,), "int32", "x")
    a = te.compute((8,), lambda i: x[i] * 2, "a")
    b = te.compute((8,), lambda i: x[i] + 1, "b")
    program = lower([te.compute((8,), lambda i: a[i] + b[i], "c")], "main")
    refused(lambda: reverse_compute_at(program, "c", "a_i"), """
        reverse_compute_at: c must read nothing that is written later
          reads b[0] at a_i=0, c_i=0: c[a_i + c_i] = a[a_i + c_i] + b[a_i + c_i]
          stores b[0] at b_i=0: b[b_i] = x[b_i] + 1
        program main(x: int32[8]) -> c: int32[8]
        alloc a: int32[8]
        alloc b: int32[8]
        for a_i in 0..8:
          a[a_i] = x[a_i] * 2
          for c_i in 0..1:
            c[a_i + c_i] = a[a_i + c_i] + b[a_i + c_i]    <-- here
        for b_i in 0..8:
          b[b_i] = x[b_i] + 1
        """)


def test_reverse_compute_at_refuses_a_stage_among_others():
    program = reverse_compute_at(split(SCALED, "b_i", 5), "c", "b_i_o")
    refused(lambda: reverse_compute_at(program, "c", "b_i_o"), """
        reverse_compute_at: c must be computed alone, not together with b
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i_o in 0..2:
          for b_i_i in 0..5:
            b[b_i_o*5 + b_i_i] = a[b_i_o*5 + b_i_i] * 3    <-- here
          for c_i in 0..5:
            c[b_i_o*5 + c_i] = b[b_i_o*5 + c_i] + 1
        """)


def test_reverse_inline_refuses_a_reduction():
    refused(lambda: reverse_inline(lower([matmul()], "main"), "c"), """
        reverse_inline: c must not be a reduction
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)    <-- here
        """)


def test_reverse_inline_refuses_a_reduction_before_it():
    refused(lambda: reverse_inline(CACHED, "c"), """
        reverse_inline: c_local must be computed by one store
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc local.c_local: int32[4, 6]
        for c_local_i in 0..4:
          for c_local_j in 0..6:
            for k in 0..8:
              c_local[c_local_i, c_local_j] += x[c_local_i, k] * y[k, c_local_j] begin(k)    <-- \
here
        for c_i in 0..4:
          for c_j in 0..6:
            c[c_i, c_j] = c_local[c_i, c_j]
        """)


def test_reverse_inline_refuses_shifted_reads():
    refused(lambda: reverse_inline(SHIFTED, "c"), """
        reverse_inline: c must read one allocated buffer at its own axes, all of it, not 0
        program main(a: int32[12]) -> c: int32[10]
        alloc b: int32[12]
        for b_i in 0..12:
          b[b_i] = a[b_i] * 2
        for c_i in 0..10:
          c[c_i] = b[c_i] + b[c_i + 2]    <-- here
        """)


def test_reverse_inline_refuses_other_readers():
    x = te.placeholder((8,), "int32", "x")
    a = te.compute((8,), lambda i: x[i] * 2, "a")
    both = [te.compute((8,), lambda i: a[i] + 1, "c"), te.compute((8,), lambda i: a[i] - 1, "d")]
    refused(lambda: reverse_inline(lower(both, "main"), "c"), """
        reverse_inline: a must be read by c alone, at its own axes
        program main(x: int32[8]) -> c: int32[8], d: int32[8]
        alloc a: int32[8]
        for a_i in 0..8:
          a[a_i] = x[a_i] * 2
        for c_i in 0..8:
          c[c_i] = a[c_i] + 1
        for d_i in 0..8:
          d[d_i] = a[d_i] - 1    <-- here
        """)


def test_reverse_inline_refuses_operands_that_come_later():
    x = te.placeholder((8,), "int32", "x")
    a = te.compute((8,), lambda i: x[i] * 2, "a")
    k = te.reduce_axis(8, "k")
    s = te.compute((1,), lambda i: te.sum(x[k], k), "s")
    program = lower([te.compute((8,), lambda i: a[i] + s[0], "c")], "main")
    refused(lambda: reverse_inline(program, "c"), """
        reverse_inline: s must be computed before a, since c reads it
        program main(x: int32[8]) -> c: int32[8]
        alloc a: int32[8]
        alloc s: int32[1]
        for a_i in 0..8:    <-- here
          a[a_i] = x[a_i] * 2
        for s_i in 0..1:
          for k in 0..8:
            s[s_i] += x[k] begin(k)
        for c_i in 0..8:
          c[c_i] = a[c_i] + s[0]
        """)


def test_reverse_compute_at_refuses_a_part_of_what_it_reads():
    a, b, c = (Buffer(name, (8,), "int32") for name in "abc")
    i, j, v = map(Var, "ijv")
    body = Alloc(b, Seq((For(i, 4, Store(b, (i,), a[i])), For(j, 4, Store(b, (j + 4,), a[j])),
                         For(v, 8, Store(c, (v,), b[v])))))
    refused(lambda: reverse_compute_at(Program("main", (a,), (c,), body), "c", "j"), """
        reverse_compute_at: all of c must be computed, but what it reads is not all made there
        program main(a: int32[8]) -> c: int32[8]
        alloc b: int32[8]
        for i in 0..4:
          b[i] = a[i]
        for j in 0..4:
          b[j + 4] = a[j]
          for v in 0..1:
            c[j + v + 4] = b[j + v + 4]    <-- here
        """)
