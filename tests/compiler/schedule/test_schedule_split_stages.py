"""Stages whose axes are split or fused move: the pieces, the guards, what is refused."""

import pytest

from compiler import te
from compiler.ir import (Alloc, For, Program, Seq, Store, interpret, lower, program_text,
                         specialize)
from compiler.schedule import (Schedule, compute_at, compute_inline, fuse, parallel, reorder,
                               split, vectorize)
from compiler.te import Buffer, Const, Var
from tests.compiler.ir.samples import arrays, assert_same_meaning, matmul, scaled, shifted
from tests.compiler.schedule.checks import expect, refused

SHIFTED = lower([shifted()], "main")


def plane(h=6, w=5):
    """A map of two dimensions, read by a map that adds neighbours, in rows and columns."""
    x = te.placeholder((h + 1, w + 1), "int32", "x")
    b = te.compute((h + 1, w + 1), lambda i, j: x[i, j] * 2 + i.astype("int32"), "b")
    return lower([te.compute((h, w), lambda i, j: b[i, j] + b[i + 1, j + 1], "c")], "main")


def sums():
    """Products of matrices, read by a map."""
    c = matmul(6, 7, 5)
    return lower([te.compute((6, 7), lambda i, j: c[i, j] + 1, "d")], "main")


def test_pieces_stay():
    tiled = split(vectorize(split(SHIFTED, "b_i", 4), "b_i_i"), "c_i", 5)
    expect(compute_at(tiled, "b", "c_i_o"), """
        program main(a: int32[12]) -> c: int32[10]
        for c_i_o in 0..2:
          alloc b: int32[7]
          for b_i_o in 0..2:
            for b_i_i in 0..4 (vectorize):
              if b_i_o*4 + b_i_i < 7:
                b[b_i_o*4 + b_i_i] = a[b_i_o*4 + c_i_o*5 + b_i_i] * 2
          for c_i_i in 0..5:
            c[c_i_o*5 + c_i_i] = b[c_i_i] + b[c_i_i + 2]
        """)


def test_whole_pieces_have_no_guard():
    """That of the whole stage, for a last piece that is not full, is not needed either."""
    tiled = split(split(lower([scaled(10)], "main"), "b_i", 4), "c_i", 4)
    expect(compute_at(tiled, "b", "c_i_o"), """
        program main(a: int32[10]) -> c: int32[10]
        for c_i_o in 0..3:
          alloc b: int32[4]
          for b_i_o in 0..1:
            for b_i_i in 0..4:
              if c_i_o*4 + b_i_o*4 + b_i_i < 10:
                b[b_i_o*4 + b_i_i] = a[c_i_o*4 + b_i_o*4 + b_i_i] * 3
          for c_i_i in 0..4:
            if c_i_o*4 + c_i_i < 10:
              c[c_i_o*4 + c_i_i] = b[c_i_i] + 1
        """)
    whole = split(split(lower([scaled(12)], "main"), "b_i", 2), "c_i", 4)
    expect(compute_at(whole, "b", "c_i_o"), """
        program main(a: int32[12]) -> c: int32[12]
        for c_i_o in 0..3:
          alloc b: int32[4]
          for b_i_o in 0..2:
            for b_i_i in 0..2:
              b[b_i_o*2 + b_i_i] = a[c_i_o*4 + b_i_o*2 + b_i_i] * 3
          for c_i_i in 0..4:
            c[c_i_o*4 + c_i_i] = b[c_i_i] + 1
        """)


def test_a_value_that_uses_the_pieces_apart():
    """The loops of the whole stage are calculated where the corner is no multiple of a piece."""
    x = te.placeholder((3, 4), "int32", "x")
    b = te.compute((12,), lambda i: x[i // 4, i % 4] * 2, "b")
    before = lower([te.compute((6,), lambda i: b[i * 2 + 1], "c")], "main")
    tiled = split(split(before, "b_i", 4), "c_i", 2)
    expect(tiled, """
        program main(x: int32[3, 4]) -> c: int32[6]
        alloc b: int32[12]
        for b_i_o in 0..3:
          for b_i_i in 0..4:
            b[b_i_o*4 + b_i_i] = x[b_i_o, b_i_i] * 2
        for c_i_o in 0..3:
          for c_i_i in 0..2:
            c[c_i_o*2 + c_i_i] = b[c_i_o*4 + c_i_i*2 + 1]
        """)
    after = compute_at(tiled, "b", "c_i_o")
    expect(after, """
        program main(x: int32[3, 4]) -> c: int32[6]
        for c_i_o in 0..3:
          alloc b: int32[3]
          for b_i_o in 0..1:
            for b_i_i in 0..4:
              if b_i_o*4 + b_i_i < 3:
                b[b_i_o*4 + b_i_i] = x[c_i_o + b_i_o + (b_i_i + 1) // 4, (b_i_i + 1) % 4] * 2
          for c_i_i in 0..2:
            c[c_i_o*2 + c_i_i] = b[c_i_i*2]
        """)
    assert_same_meaning(before, after)
    expect(compute_inline(split(before, "b_i", 5), "b"), """
        program main(x: int32[3, 4]) -> c: int32[6]
        for c_i in 0..6:
          c[c_i] = x[c_i // 2, c_i % 2*2 + 1] * 2
        """)


def test_fused_axes_get_one_loop_each():
    fused = split(fuse(plane(), "b_i", "b_j"), "c_i", 2)
    expect(compute_at(fused, "b", "c_i_o"), """
        program main(x: int32[7, 6]) -> c: int32[6, 5]
        for c_i_o in 0..3:
          alloc b: int32[3, 6]
          for b_0 in 0..3:
            for b_1 in 0..6:
              b[b_0, b_1] = x[c_i_o*2 + b_0, b_1] * 2 + int32(c_i_o*2 + b_0)
          for c_i_i in 0..2:
            for c_j in 0..5:
              c[c_i_o*2 + c_i_i, c_j] = b[c_i_i, c_j] + b[c_i_i + 1, c_j + 1]
        """)


def test_fused_axes_need_no_guard_of_pieces():
    """The last piece of the fused loop is not full; rows and columns have no such piece."""
    fused = split(split(fuse(plane(), "b_i", "b_j"), "b_i_b_j", 4), "c_i", 2)
    assert "if " in program_text(fused)
    assert "if " not in program_text(compute_at(fused, "b", "c_i_o"))


def test_terms_of_fused_axes_keep_their_order():
    fused = reorder(fuse(sums(), "c_i", "c_j"), "k", "c_i_c_j")
    expect(compute_at(split(fused, "d_i", 2), "c", "d_i_o"), """
        program main(x: int32[6, 5], y: int32[5, 7]) -> d: int32[6, 7]
        for d_i_o in 0..3:
          alloc c: int32[2, 7]
          for c_0 in 0..2:
            for c_1 in 0..7:
              for k in 0..5:
                c[c_0, c_1] += x[d_i_o*2 + c_0, k] * y[k, c_1] begin(k)
          for d_i_i in 0..2:
            for d_j in 0..7:
              d[d_i_o*2 + d_i_i, d_j] = c[d_i_i, d_j] + 1
        """)


def _fused_and_split(program: Program) -> Program:
    return split(fuse(program, "b_i", "b_j"), "b_i_b_j", 4)


CUTS = {
    "twice": lambda p: split(split(p, "b_i", 2), "b_i_o", 2),
    "inside": lambda p: split(split(p, "b_j", 4), "b_j_i", 3),
    "both": lambda p: reorder(split(split(p, "b_i", 3), "b_j", 4), "b_j_o", "b_i_o", "b_i_i"),
    "fused": lambda p: fuse(p, "b_i", "b_j"),
    "fused, then split": _fused_and_split,
    "fused, then split in two": lambda p: split(_fused_and_split(p), "b_i_b_j_i", 2),
    "split, then fused": lambda p: fuse(split(p, "b_i", 3), "b_i_i", "b_j"),
    "fused again": lambda p: fuse(split(p, "b_i", 3), "b_i_o", "b_i_i"),
    "other order": lambda p: fuse(reorder(p, "b_j", "b_i"), "b_j", "b_i"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("h, w, tile", [(5, 5, 2), (8, 6, 3), (5, 3, 4)])
def test_meaning_stays(cut, h, w, tile):
    before = plane(h, w)
    tiled = split(split(CUTS[cut](before), "c_i", tile), "c_j", 2)
    for loop in ("c_i_o", "c_i_i", "c_j_o", "c_j_i"):
        assert_same_meaning(before, compute_at(tiled, "b", loop))
    assert_same_meaning(before, compute_inline(tiled, "b"))


def test_sums_by_pieces():
    before = sums()
    for cut in (lambda p: split(split(p, "c_i", 4), "c_j", 3),
                lambda p: split(fuse(p, "c_i", "c_j"), "c_i_c_j", 5),
                lambda p: reorder(split(p, "c_j", 4), "c_j_o", "c_i", "k", "c_j_i")):
        tiled = split(cut(before), "d_j", 2)
        for loop in ("d_i", "d_j_o", "d_j_i"):
            assert_same_meaning(before, compute_at(tiled, "c", loop))


@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_extents_may_be_symbols(size):
    n = te.symbol("n")
    a = te.placeholder((n,), "int32", "a")
    b = te.compute((n,), lambda i: a[i] * 3, "b")
    program = lower([te.compute((n,), lambda i: b[i] + 1, "c")], "main")
    tiled = split(split(program, "b_i", 4), "c_i", 6)
    before = specialize(program, n=size)
    inputs = arrays(before)
    for after in (compute_at(tiled, "b", "c_i_o"), compute_inline(tiled, "b")):
        assert (interpret(after, inputs)["c"] == interpret(before, inputs)["c"]).all()


def test_it_is_replayed():
    schedule = Schedule([shifted()])
    schedule["b"].split("i", 4)
    schedule["c"].split("i", 5)
    schedule["b"].compute_at("c_i_o")
    assert Schedule.replay([shifted()], schedule.text()).program == schedule.program


def test_compute_at_refuses_a_stage_with_others_inside():
    b = scaled(8)
    chain = lower([te.compute((8,), lambda i: b[i] + 5, "d")], "main")
    inner = compute_at(split(chain, "c_i", 4), "b", "c_i_o")
    refused(lambda: compute_at(inner, "c", "d_i"), """
        compute_at: c must be placed before b, since axes of c are split or fused
        program main(a: int32[8]) -> d: int32[8]
        alloc c: int32[8]
        for c_i_o in 0..2:
          alloc b: int32[4]    <-- here
          for b_i in 0..4:
            b[b_i] = a[c_i_o*4 + b_i] * 3
          for c_i_i in 0..4:
            c[c_i_o*4 + c_i_i] = b[c_i_i] + 1
        for d_i in 0..8:
          d[d_i] = c[d_i] + 5
        """)


def test_compute_at_refuses_marks_of_fused_loops():
    fused = parallel(fuse(plane(2, 2), "b_i", "b_j"), "b_i_b_j")
    refused(lambda: compute_at(fused, "b", "c_i"), """
        compute_at: b_i_b_j must be serial and carry no notes: axes of b get new loops
        program main(x: int32[3, 3]) -> c: int32[2, 2]
        alloc b: int32[3, 3]
        for b_i_b_j in 0..9 (parallel):    <-- here
          b[b_i_b_j // 3, b_i_b_j % 3] = x[b_i_b_j // 3, b_i_b_j % 3] * 2 + int32(b_i_b_j // 3)
        for c_i in 0..2:
          for c_j in 0..2:
            c[c_i, c_j] = b[c_i, c_j] + b[c_i + 1, c_j + 1]
        """)


def test_compute_at_refuses_a_name_in_use():
    fused = split(fuse(plane(2, 2), "b_i", "b_j"), "c_i", 2, outer="b_0")
    with pytest.raises(ValueError, match="compute_at: name 'b_0' must not be in use"):
        compute_at(fused, "b", "b_0")


@pytest.mark.parametrize("index", [lambda i, j: i // 2 + j * 2, lambda i, j: i * 2 + j,
                                   lambda i, j: i - j + 2, lambda i, j: i])
def test_compute_inline_refuses_indices_that_do_not_tell(index):
    """Elements of `b` are written in several iterations."""
    b, c = Buffer("b", (16,), "int32"), Buffer("c", (3,), "int32")
    i, j, k = map(Var, "ijk")
    store = Store(b, (index(i, j),), te.cast(i, "int32"))
    body = Alloc(b, Seq((For(i, 4, For(j, 3, store)), For(k, 3, Store(c, (k,), b[k])))))
    with pytest.raises(ValueError, match="^compute_inline: indices of b must tell in which "
                                         "iteration of [ij] an element is computed\n"):
        compute_inline(Program("main", (), (c,), body), "b")


def test_the_whole_refusal_of_such_indices():
    """Each element of `b` is written in three iterations."""
    b, c, i, k = Buffer("b", (3,), "int32"), Buffer("c", (3,), "int32"), Var("i"), Var("k")
    body = Alloc(b, Seq((For(i, 9, Store(b, (i // 3,), Const(7, "int32"))),
                         For(k, 3, Store(c, (k,), b[k])))))
    refused(lambda: compute_inline(Program("main", (), (c,), body), "b"), """
        compute_inline: indices of b must tell in which iteration of i an element is computed
        program main() -> c: int32[3]
        alloc b: int32[3]
        for i in 0..9:
          b[i // 3] = 7    <-- here
        for k in 0..3:
          c[k] = b[k]
        """)
