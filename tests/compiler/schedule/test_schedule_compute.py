"""Where stages are computed: the boxes, the guards, what is refused."""

import pytest

from compiler import te
from compiler.ir import Alloc, For, Program, Seq, Store, lower, program_text, unblock
from compiler.schedule import compute_at, compute_inline, reorder, split
from compiler.te import Buffer, Const, Var
from tests.compiler.ir.samples import assert_same_meaning, scaled, shifted
from tests.compiler.schedule.checks import expect, refused

SHIFTED = lower([shifted()], "main")


def padded(n=6, kernel=3, stride=1):
    """Sums of windows over a row that is padded with 7 on both sides."""
    x = te.placeholder((n,), "int32", "x")
    inside = lambda i: te.all_of(i >= 1, i < n + 1)         # noqa: E731
    p = te.compute((n + 2,), lambda i: te.select(inside(i), x[i - 1], 7), "p")
    k = te.reduce_axis(kernel, "k")
    size = (n + 2 - kernel) // stride + 1
    return te.compute((size,), lambda i: te.sum(p[i * stride + k], k), "c")


def chained():
    """Three stages: pad, sums of windows, one more addition."""
    s = padded()
    return te.compute(s.shape, lambda i: s[i] + 1, "d")


CHAINED = lower([chained()], "main")


def shared():
    """Two outputs of one stage."""
    a = te.placeholder((4,), "int32", "a")
    b = te.compute((4,), lambda i: a[i] * 2, "b")
    return [te.compute((4,), lambda i: b[i] + 1, "c"), te.compute((4,), lambda i: b[i] + 2, "d")]


def thrice():
    """Three stages, element by element."""
    b = scaled(4)
    return te.compute((4,), lambda i: b[i] + 5, "d")


def test_compute_at_folds_the_buffer():
    expect(compute_at(split(SHIFTED, "c_i", 5), "b", "c_i_o"), """
        program main(a: int32[12]) -> c: int32[10]
        for c_i_o in 0..2:
          alloc b: int32[7]
          for b_i in 0..7:
            b[b_i] = a[c_i_o*5 + b_i] * 2
          for c_i_i in 0..5:
            c[c_i_o*5 + c_i_i] = b[c_i_i] + b[c_i_i + 2]
        """)


def test_compute_at_guards_the_edge():
    expect(compute_at(split(SHIFTED, "c_i", 4), "b", "c_i_o"), """
        program main(a: int32[12]) -> c: int32[10]
        for c_i_o in 0..3:
          alloc b: int32[6]
          for b_i in 0..6:
            if c_i_o*4 + b_i < 12:
              b[b_i] = a[c_i_o*4 + b_i] * 2
          for c_i_i in 0..4:
            if c_i_o*4 + c_i_i < 10:
              c[c_i_o*4 + c_i_i] = b[c_i_i] + b[c_i_i + 2]
        """)


def test_compute_at_of_padding_needs_no_guard():
    expect(compute_at(split(lower([padded()], "main"), "c_i", 4), "p", "c_i_o"), """
        program main(x: int32[6]) -> c: int32[6]
        for c_i_o in 0..2:
          alloc p: int32[6]
          for p_i in 0..6:
            p[p_i] = select(c_i_o*4 + p_i >= 1 and c_i_o*4 + p_i < 7, x[c_i_o*4 + p_i - 1], 7)
          for c_i_i in 0..4:
            if c_i_o*4 + c_i_i < 6:
              for k in 0..3:
                c[c_i_o*4 + c_i_i] += p[c_i_i + k] begin(k)
        """)


def test_compute_at_with_a_stride():
    expect(compute_at(split(lower([padded(9, 3, 2)], "main"), "c_i", 2), "p", "c_i_o"), """
        program main(x: int32[9]) -> c: int32[5]
        for c_i_o in 0..3:
          alloc p: int32[5]
          for p_i in 0..5:
            p[p_i] = select(c_i_o*4 + p_i >= 1 and c_i_o*4 + p_i < 10, x[c_i_o*4 + p_i - 1], 7)
          for c_i_i in 0..2:
            if c_i_o*2 + c_i_i < 5:
              for k in 0..3:
                c[c_i_o*2 + c_i_i] += p[c_i_i*2 + k] begin(k)
        """)


def test_compute_at_of_a_reduction_then_of_its_operand():
    tiled = compute_at(split(CHAINED, "d_i", 4), "c", "d_i_o")
    expect(compute_at(split(tiled, "k", 2), "p", "d_i_o"), """
        program main(x: int32[6]) -> d: int32[6]
        for d_i_o in 0..2:
          alloc p: int32[6]
          alloc c: int32[4]
          for p_i in 0..6:
            p[p_i] = select(d_i_o*4 + p_i >= 1 and d_i_o*4 + p_i < 7, x[d_i_o*4 + p_i - 1], 7)
          for c_i in 0..4:
            if d_i_o*4 + c_i < 6:
              for k_o in 0..2:
                for k_i in 0..2:
                  if k_o*2 + k_i < 3:
                    c[c_i] += p[c_i + k_o*2 + k_i] begin(k_o, k_i)
          for d_i_i in 0..4:
            if d_i_o*4 + d_i_i < 6:
              d[d_i_o*4 + d_i_i] = c[d_i_i] + 1
        """)


def test_compute_at_in_a_reduction():
    tiled = reorder(split(lower([padded(10, 4)], "main"), "k", 2), "k_o", "c_i")
    expect(compute_at(tiled, "p", "k_o"), """
        program main(x: int32[10]) -> c: int32[9]
        for k_o in 0..2:
          alloc p: int32[10]
          for p_i in 0..10:
            p[p_i] = select(k_o*2 + p_i >= 1 and k_o*2 + p_i < 11, x[k_o*2 + p_i - 1], 7)
          for c_i in 0..9:
            for k_i in 0..2:
              c[c_i] += p[c_i + k_i] begin(k_o, k_i)
        """)


def test_compute_at_under_a_guard():
    """What the guard leaves out needs nothing, and where it holds the inner guard may go."""
    expect(compute_at(split(split(SHIFTED, "c_i", 5), "c_i_o", 1), "b", "c_i_o_i"), """
        program main(a: int32[12]) -> c: int32[10]
        for c_i_o_o in 0..2:
          for c_i_o_i in 0..1:
            alloc b: int32[7]
            for b_i in 0..7:
              b[b_i] = a[c_i_o_o*5 + c_i_o_i*5 + b_i] * 2
            for c_i_i in 0..5:
              c[c_i_o_o*5 + c_i_o_i*5 + c_i_i] = b[c_i_i] + b[c_i_i + 2]
        """)
    long = lower([shifted(15)], "main")
    expect(compute_at(split(split(long, "c_i", 5), "c_i_o", 2), "b", "c_i_o_i"), """
        program main(a: int32[17]) -> c: int32[15]
        for c_i_o_o in 0..2:
          for c_i_o_i in 0..2:
            if c_i_o_o*2 + c_i_o_i < 3:
              alloc b: int32[7]
              for b_i in 0..7:
                b[b_i] = a[c_i_o_o*10 + c_i_o_i*5 + b_i] * 2
              for c_i_i in 0..5:
                c[c_i_o_o*10 + c_i_o_i*5 + c_i_i] = b[c_i_i] + b[c_i_i + 2]
        """)


def test_compute_at_of_padding_of_a_stage_needs_no_guard():
    a = te.placeholder((6,), "int32", "a")
    b = te.compute((6,), lambda i: a[i] * 2, "b")
    inside = lambda i: te.all_of(i >= 1, i < 7)             # noqa: E731
    p = te.compute((8,), lambda i: te.select(inside(i), b[i - 1], 7), "p")
    c = te.compute((7,), lambda i: p[i] + p[i + 1], "c")
    before = lower([c], "main")
    after = compute_at(split(before, "c_i", 3), "p", "c_i_o")
    expect(after, """
        program main(a: int32[6]) -> c: int32[7]
        alloc b: int32[6]
        for b_i in 0..6:
          b[b_i] = a[b_i] * 2
        for c_i_o in 0..3:
          alloc p: int32[4]
          for p_i in 0..4:
            p[p_i] = select(c_i_o*3 + p_i >= 1 and c_i_o*3 + p_i < 7, b[c_i_o*3 + p_i - 1], 7)
          for c_i_i in 0..3:
            if c_i_o*3 + c_i_i < 7:
              c[c_i_o*3 + c_i_i] = p[c_i_i] + p[c_i_i + 1]
        """)
    assert_same_meaning(before, after)
    assert_same_meaning(before, compute_at(after, "b", "c_i_o"))


def test_compute_inline_puts_the_value():
    expect(compute_inline(SHIFTED, "b"), """
        program main(a: int32[12]) -> c: int32[10]
        for c_i in 0..10:
          c[c_i] = a[c_i] * 2 + a[c_i + 2] * 2
        """)


@pytest.mark.parametrize("n", [5, 6, 9])
@pytest.mark.parametrize("kernel, stride", [(1, 1), (3, 1), (3, 2), (2, 3)])
@pytest.mark.parametrize("tile", [1, 2, 3])
def test_meaning_stays(n, kernel, stride, tile):
    before = lower([padded(n, kernel, stride)], "main")
    tiled = split(before, "c_i", min(tile, 2))
    for loop in ("c_i_o", "c_i_i", "k"):
        assert_same_meaning(before, compute_at(tiled, "p", loop))
    assert_same_meaning(before, compute_inline(tiled, "p"))


def test_distant_readers_take_the_whole_dimension():
    a = te.placeholder((8,), "int32", "a")
    b = te.compute((8,), lambda i: a[i] * 2, "b")
    before = lower([te.compute((8,), lambda i: b[i] + b[7 - i], "c")], "main")
    after = compute_at(before, "b", "c_i")
    assert "alloc b: int32[8]" in program_text(after)
    assert_same_meaning(before, after)


def test_compute_at_refuses_an_output():
    refused(lambda: compute_at(SHIFTED, "c", "c_i"), """
        compute_at: c must not be an output of the program
        program main(a: int32[12]) -> c: int32[10]
        alloc b: int32[12]
        for b_i in 0..12:
          b[b_i] = a[b_i] * 2
        for c_i in 0..10:    <-- here
          c[c_i] = b[c_i] + b[c_i + 2]
        """)


def test_compute_at_refuses_an_input():
    refused(lambda: compute_at(SHIFTED, "a", "c_i"), """
        compute_at: a must be computed by the program, not an input
        program main(a: int32[12]) -> c: int32[10]
        alloc b: int32[12]
        for b_i in 0..12:
          b[b_i] = a[b_i] * 2
        for c_i in 0..10:
          c[c_i] = b[c_i] + b[c_i + 2]
        """)


def test_compute_at_refuses_an_unknown_stage():
    refused(lambda: compute_at(SHIFTED, "q", "c_i"), """
        compute_at: buffer must be one of a, c, b, not 'q'
        program main(a: int32[12]) -> c: int32[10]
        alloc b: int32[12]
        for b_i in 0..12:
          b[b_i] = a[b_i] * 2
        for c_i in 0..10:
          c[c_i] = b[c_i] + b[c_i + 2]
        """)


def test_compute_at_refuses_a_loop_of_its_own():
    refused(lambda: compute_at(SHIFTED, "b", "b_i"), """
        compute_at: loop b_i must be around the readers of b
        program main(a: int32[12]) -> c: int32[10]
        alloc b: int32[12]
        for b_i in 0..12:    <-- here
          b[b_i] = a[b_i] * 2
        for c_i in 0..10:
          c[c_i] = b[c_i] + b[c_i + 2]
        """)


def test_compute_at_refuses_a_loop_without_all_readers():
    refused(lambda: compute_at(lower(shared(), "main"), "b", "c_i"), """
        compute_at: all readers of b must be inside c_i
        program main(a: int32[4]) -> c: int32[4], d: int32[4]
        alloc b: int32[4]
        for b_i in 0..4:
          b[b_i] = a[b_i] * 2
        for c_i in 0..4:
          c[c_i] = b[c_i] + 1
        for d_i in 0..4:
          d[d_i] = b[d_i] + 2    <-- here
        """)


def test_compute_inline_refuses_an_output():
    refused(lambda: compute_inline(SHIFTED, "c"), """
        compute_inline: c must not be an output of the program
        program main(a: int32[12]) -> c: int32[10]
        alloc b: int32[12]
        for b_i in 0..12:
          b[b_i] = a[b_i] * 2
        for c_i in 0..10:    <-- here
          c[c_i] = b[c_i] + b[c_i + 2]
        """)


def test_compute_inline_refuses_a_reduction():
    refused(lambda: compute_inline(CHAINED, "c"), """
        compute_inline: c must not be a reduction
        program main(x: int32[6]) -> d: int32[6]
        alloc p: int32[8]
        alloc c: int32[6]
        for p_i in 0..8:
          p[p_i] = select(p_i >= 1 and p_i < 7, x[p_i - 1], 7)
        for c_i in 0..6:
          for k in 0..3:
            c[c_i] += p[c_i + k] begin(k)    <-- here
        for d_i in 0..6:
          d[d_i] = c[d_i] + 1
        """)


def test_compute_inline_refuses_a_stage_with_another_inside():
    refused(lambda: compute_inline(compute_at(lower([thrice()], "main"), "b", "c_i"), "c"), """
        compute_inline: c must not have b computed inside
        program main(a: int32[4]) -> d: int32[4]
        alloc c: int32[4]
        for c_i in 0..4:
          alloc b: int32[1]    <-- here
          for b_i in 0..1:
            b[b_i] = a[c_i + b_i] * 3
          c[c_i] = b[0] + 1
        for d_i in 0..4:
          d[d_i] = c[d_i] + 5
        """)


def by_hand(extents: tuple[int, ...]) -> Program:
    """``c = b`` where `b`, of four elements, is written by one loop after the other."""
    b, c, k = Buffer("b", (4,), "int32"), Buffer("c", (3,), "int32"), Var("k")
    nests, first = [], 0
    for number, extent in enumerate(extents):
        var = Var(f"b_{number}")
        index = var + first if first else var
        nests.append(For(var, extent, Store(b, (index,), Const(7, "int32"))))
        first += extent
    last = For(k, 3, Store(c, (k,), b[k]))
    return Program("main", (), (c,), Alloc(b, Seq((*nests, last))))


def test_compute_at_keeps_the_guard_where_a_producer_is_not_whole():
    """`p` reads three elements of `b`; the fourth was never written."""
    half = by_hand((3,))
    b, p, c = Buffer("b", (4,), "int32"), Buffer("p", (3,), "int32"), half.outputs[0]
    i, k = Var("p_i"), Var("k")
    stmts = (unblock(half.body)[1][0], For(i, 3, Store(p, (i,), b[i])),
             For(k, 3, Store(c, (k,), p[k])))
    before = Program("main", (), (c,), Alloc(b, Alloc(p, Seq(stmts))))
    after = compute_at(split(before, "k", 2), "p", "k_o")
    assert_same_meaning(before, after)
    assert "if k_o*2 + p_i < 3:" in program_text(after)


def test_compute_at_refuses_a_stage_in_two_parts():
    refused(lambda: compute_at(by_hand((2, 2)), "b", "k"), """
        compute_at: b must be computed by one statement of its block, not by 2
        program main() -> c: int32[3]
        alloc b: int32[4]    <-- here
        for b_0 in 0..2:
          b[b_0] = 7
        for b_1 in 0..2:
          b[b_1 + 2] = 7
        for k in 0..3:
          c[k] = b[k]
        """)


def test_compute_at_refuses_a_stage_that_is_not_whole():
    refused(lambda: compute_at(by_hand((3,)), "b", "k"), """
        compute_at: loops of b must run over all of dimension 0, 4 elements
        program main() -> c: int32[3]
        alloc b: int32[4]
        for b_0 in 0..3:
          b[b_0] = 7    <-- here
        for k in 0..3:
          c[k] = b[k]
        """)


def test_compute_at_refuses_a_stage_written_twice():
    b, c, i, k = Buffer("b", (4,), "int32"), Buffer("c", (4,), "int32"), Var("i"), Var("k")
    twice = For(i, 4, Seq(tuple(Store(b, (i,), Const(n, "int32")) for n in (1, 2))))
    body = Alloc(b, Seq((twice, For(k, 4, Store(c, (k,), b[k])))))
    refused(lambda: compute_at(Program("main", (), (c,), body), "b", "k"), """
        compute_at: b must be written in one place, not in 2
        program main() -> c: int32[4]
        alloc b: int32[4]
        for i in 0..4:    <-- here
          b[i] = 1
          b[i] = 2
        for k in 0..4:
          c[k] = b[k]
        """)


def test_compute_at_refuses_a_diagonal():
    b, c, i, k = Buffer("b", (4, 4), "int32"), Buffer("c", (4,), "int32"), Var("i"), Var("k")
    diagonal = For(i, 4, Store(b, (i, i), Const(1, "int32")))
    body = Alloc(b, Seq((diagonal, For(k, 4, Store(c, (k,), b[k, k])))))
    refused(lambda: compute_at(Program("main", (), (c,), body), "b", "k"), """
        compute_at: axes of b must be different loops
        program main() -> c: int32[4]
        alloc b: int32[4, 4]
        for i in 0..4:
          b[i, i] = 1    <-- here
        for k in 0..4:
          c[k] = b[k, k]
        """)
