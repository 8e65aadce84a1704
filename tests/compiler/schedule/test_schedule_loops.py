"""Splitting, fusing, tiling and unrolling: text before and after, and what is refused."""

import pytest

from compiler import te
from compiler.ir import lower
from compiler.schedule import Schedule, ScheduleError, fuse, reorder, split, tile, unroll
from tests.compiler.ir.samples import assert_same_meaning, matmul, scaled
from tests.compiler.schedule.checks import expect, refused

SCALED = lower([scaled()], "main")
MATMUL = lower([matmul()], "main")


def test_split_guards_what_does_not_divide():
    expect(split(SCALED, "c_i", 4), """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i_o in 0..3:
          for c_i_i in 0..4:
            if c_i_o*4 + c_i_i < 10:
              c[c_i_o*4 + c_i_i] = b[c_i_o*4 + c_i_i] + 1
        """)


def test_split_of_a_reduction_begins_where_all_parts_are_zero():
    expect(split(MATMUL, "k", 4), """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k_o in 0..2:
              for k_i in 0..4:
                c[c_i, c_j] += x[c_i, k_o*4 + k_i] * y[k_o*4 + k_i, c_j] begin(k_o, k_i)
        """)


@pytest.mark.parametrize(("nparts", "factor"), [(1, 10), (2, 5), (3, 4), (4, 3), (5, 2), (10, 1)])
def test_split_into_parts(nparts: int, factor: int):
    x = te.placeholder((10,), "int32", "x")
    y = te.compute((10,), lambda i: x[i] + 1, "y")
    s, wanted = Schedule([y]), Schedule([y])
    assert s["y"].split("i", nparts=nparts) == ("y_i_o", "y_i_i")
    wanted["y"].split("i", factor)
    assert s.program == wanted.program
    assert s.text() == f"split(y_i, nparts={nparts})"
    assert Schedule.replay([y], s.text()).program == s.program


@pytest.mark.parametrize(("options", "message"), [
    ({"nparts": 6}, "nparts of y_i must leave no part empty, but 2 of its 10 iterations each make "
                    "5, not 6"),
    ({"nparts": 0}, "nparts of y_i must be from 1 to 10, not 0"),
    ({"nparts": 11}, "nparts of y_i must be from 1 to 10, not 11"),
    ({"nparts": 2.0}, "nparts of y_i must be from 1 to 10, not 2.0"),
    ({"factor": 2, "nparts": 5}, "y_i must be given either factor or nparts"),
    ({}, "y_i must be given either factor or nparts")])
def test_split_refuses_parts(options: dict, message: str):
    x = te.placeholder((10,), "int32", "x")
    s = Schedule([te.compute((10,), lambda i: x[i] + 1, "y")])
    with pytest.raises(ScheduleError) as refusal:
        s["y"].split("i", **options)
    assert str(refusal.value).splitlines()[0] == f"split: {message}"


def test_split_refuses_parts_of_an_extent_that_is_no_number():
    n = te.symbol("n")
    x = te.placeholder((n,), "int32", "x")
    s = Schedule([te.compute((n,), lambda i: x[i] + 1, "y")])
    with pytest.raises(ScheduleError, match="^split: nparts of y_i needs an extent that is a num"):
        s["y"].split("i", nparts=2)


def test_split_takes_names():
    expect(split(SCALED, "c_i", 5, outer="u", inner="v"), """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for u in 0..2:
          for v in 0..5:
            c[u*5 + v] = b[u*5 + v] + 1
        """)


def test_split_of_a_split_keeps_both_guards():
    expect(split(split(SCALED, "c_i", 4), "c_i_o", 2), """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i_o_o in 0..2:
          for c_i_o_i in 0..2:
            if c_i_o_o*2 + c_i_o_i < 3:
              for c_i_i in 0..4:
                if c_i_o_o*8 + c_i_o_i*4 + c_i_i < 10:
                  c[c_i_o_o*8 + c_i_o_i*4 + c_i_i] = b[c_i_o_o*8 + c_i_o_i*4 + c_i_i] + 1
        """)


def test_fuse_divides_the_index():
    expect(fuse(MATMUL, "c_i", "c_j"), """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i_c_j in 0..24:
          for k in 0..8:
            c[c_i_c_j // 6, c_i_c_j % 6] += x[c_i_c_j // 6, k] * y[k, c_i_c_j % 6] begin(k)
        """)


def test_fuse_undoes_split():
    expect(fuse(split(SCALED, "c_i", 5), "c_i_o", "c_i_i", "f"), """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for f in 0..10:
          c[f] = b[f] + 1
        """)


def test_fuse_of_reductions():
    expect(fuse(split(MATMUL, "k", 4), "k_o", "k_i", "f"), """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for f in 0..8:
              c[c_i, c_j] += x[c_i, f] * y[f, c_j] begin(f)
        """)


def test_tile_is_split_and_reorder():
    expect(tile(MATMUL, "c_i", "c_j", 2, 3), """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i_o in 0..2:
          for c_j_o in 0..2:
            for c_i_i in 0..2:
              for c_j_i in 0..3:
                for k in 0..8:
                  c[c_i_o*2 + c_i_i, c_j_o*3 + c_j_i] += x[c_i_o*2 + c_i_i, k] * y[k, c_j_o*3 + \
c_j_i] begin(k)
        """)


def test_unroll_marks_the_loop():
    expect(unroll(MATMUL, "k"), """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8 (unroll):
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_meaning_stays():
    assert_same_meaning(SCALED, split(split(SCALED, "c_i", 4), "c_i_i", 3))
    assert_same_meaning(MATMUL, split(split(MATMUL, "k", 3), "k_o", 2))
    assert_same_meaning(MATMUL, fuse(reorder(MATMUL, "c_j", "c_i"), "c_j", "c_i"))
    assert_same_meaning(MATMUL, tile(MATMUL, "c_i", "c_j", 3, 4))


def test_split_refuses_a_factor_beyond_the_extent():
    refused(lambda: split(SCALED, "c_i", 11), """
        split: factor of c_i must be from 1 to 10, not 11
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:    <-- here
          c[c_i] = b[c_i] + 1
        """)


def test_split_refuses_an_unknown_loop():
    refused(lambda: split(SCALED, "z", 2), """
        split: loop must be one of b_i, c_i, not 'z'
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_split_refuses_a_name_in_use():
    refused(lambda: split(SCALED, "c_i", 2, outer="b_i"), """
        split: name 'b_i' must not be in use
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)


def test_split_refuses_a_marked_loop():
    refused(lambda: split(unroll(SCALED, "c_i"), "c_i", 2), """
        split: c_i must be a serial loop, not unroll
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10 (unroll):    <-- here
          c[c_i] = b[c_i] + 1
        """)


def test_fuse_moves_guards_inside():
    program = fuse(reorder(split(MATMUL, "c_i", 3), "c_i_o", "c_i_i", "c_j"), "c_i_i", "c_j")
    expect(program, """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i_o in 0..2:
          for c_i_i_c_j in 0..18:
            if c_i_o*3 + c_i_i_c_j // 6 < 4:
              for k in 0..8:
                c[c_i_o*3 + c_i_i_c_j // 6, c_i_i_c_j % 6] += x[c_i_o*3 + c_i_i_c_j // 6, k] * \
y[k, c_i_i_c_j % 6] begin(k)
        """)
    assert_same_meaning(MATMUL, program)


def test_fuse_refuses_loops_apart():
    refused(lambda: fuse(MATMUL, "c_i", "k"), """
        fuse: k must stand directly in c_i
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:    <-- here
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_fuse_refuses_space_with_reduction():
    refused(lambda: fuse(MATMUL, "c_j", "k"), """
        fuse: c_j and k must both be reduction loops of c, or neither
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)    <-- here
        """)


def test_fuse_refuses_a_marked_loop():
    refused(lambda: fuse(unroll(MATMUL, "c_j"), "c_i", "c_j"), """
        fuse: c_j must be a serial loop, not unroll
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6 (unroll):    <-- here
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_unroll_refuses_a_marked_loop():
    refused(lambda: unroll(unroll(MATMUL, "k"), "k"), """
        unroll: k must be a serial loop, not unroll
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8 (unroll):    <-- here
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_fuse_refuses_a_name_in_use():
    refused(lambda: fuse(MATMUL, "c_i", "c_j", "k"), """
        fuse: name 'k' must not be in use
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_split_refuses_one_name_for_both():
    refused(lambda: split(SCALED, "c_i", 2, "u", "u"), """
        split: name 'u' must not be in use
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i in 0..10:
          c[c_i] = b[c_i] + 1
        """)
