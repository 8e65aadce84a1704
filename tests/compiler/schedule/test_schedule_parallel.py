"""Loops whose iterations run at the same time, and what is said of those that must not."""

from compiler import te
from compiler.ir import For, Program, Seq, Store, lower
from compiler.schedule import annotate, bind, parallel, reorder, split, unroll, vectorize
from compiler.te import Buffer, Const, Var
from tests.compiler.ir.samples import assert_same_meaning, matmul, scaled
from tests.compiler.schedule.checks import expect, refused

SCALED = lower([scaled()], "main")
MATMUL = lower([matmul()], "main")
I, J = Var("i"), Var("j")
A, B = Buffer("a", (8,), "int32"), Buffer("b", (8,), "int32")
WHERE, C = Buffer("where", (8,), "int64"), Buffer("c", (8, 8), "int32")


def shift() -> Program:
    """Every element from the one before it."""
    first = Store(B, (Const(0, te.INDEX),), A[0])
    return Program("main", (A,), (B,), Seq((first, For(I, 7, Store(B, (I + 1,), B[I] + A[I])))))


def scatter() -> Program:
    """Elements at places that are data."""
    return Program("main", (A, WHERE), (B,), For(I, 8, Store(B, (WHERE[I],), A[I])))


def diagonals() -> Program:
    """Every element from the one above and to the right of it, which an earlier row has made."""
    inner = te.all_of(I >= 1, J < 7)
    value = te.select(inner, C[I - 1, J + 1] + 1, A[J])
    return Program("main", (A,), (C,), For(I, 8, For(J, 8, Store(C, (I, J), value))))


def test_parallel_marks_the_loop():
    expect(parallel(split(SCALED, "c_i", 4), "c_i_o"), """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i_o in 0..3 (parallel):
          for c_i_i in 0..4:
            if c_i_o*4 + c_i_i < 10:
              c[c_i_o*4 + c_i_i] = b[c_i_o*4 + c_i_i] + 1
        """)


def test_vectorize_marks_the_loop():
    expect(vectorize(split(SCALED, "c_i", 5), "c_i_i"), """
        program main(a: int32[10]) -> c: int32[10]
        alloc b: int32[10]
        for b_i in 0..10:
          b[b_i] = a[b_i] * 3
        for c_i_o in 0..2:
          for c_i_i in 0..5 (vectorize):
            c[c_i_o*5 + c_i_i] = b[c_i_o*5 + c_i_i] + 1
        """)


def test_rows_of_a_product_are_independent():
    assert_same_meaning(MATMUL, vectorize(parallel(reorder(MATMUL, "k", "c_j"), "c_i"), "c_j"))


def test_annotate_keeps_notes_in_order():
    expect(annotate(annotate(annotate(MATMUL, "k", "unroll_by", 4), "k", "also", True),
                    "k", "unroll_by", 2), """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8 (also=True, unroll_by=2):
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_columns_of_diagonals_are_independent_within_a_row():
    assert_same_meaning(diagonals(), parallel(diagonals(), "j"))


def test_parallel_refuses_a_carried_dependence():
    refused(lambda: parallel(shift(), "i"), """
        parallel: iterations of i must not depend on each other
          stores b[1] at i=0: b[i + 1] = b[i] + a[i]
          reads b[1] at i=1: b[i + 1] = b[i] + a[i]
        program main(a: int32[8]) -> b: int32[8]
        b[0] = a[0]
        for i in 0..7:
          b[i + 1] = b[i] + a[i]    <-- here
        """)


def test_vectorize_refuses_a_carried_dependence():
    refused(lambda: vectorize(diagonals(), "i"), """
        vectorize: iterations of i must not depend on each other
          stores c[0, 1] at i=0, j=1: c[i, j] = select(i >= 1 and j < 7, c[i - 1, j + 1] + 1, \
a[j])
          reads c[0, 1] at i=1, j=0: c[i, j] = select(i >= 1 and j < 7, c[i - 1, j + 1] + 1, a[j])
        program main(a: int32[8]) -> c: int32[8, 8]
        for i in 0..8:
          for j in 0..8:
            c[i, j] = select(i >= 1 and j < 7, c[i - 1, j + 1] + 1, a[j])    <-- here
        """)


def test_parallel_refuses_a_reduction():
    refused(lambda: parallel(MATMUL, "k"), """
        parallel: iterations of k must not depend on each other
          updates c[0, 0] at c_i=0, c_j=0, k=0: c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
          updates c[0, 0] at c_i=0, c_j=0, k=1: c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)    <-- here
        """)


def test_vectorize_refuses_a_reduction():
    refused(lambda: vectorize(MATMUL, "k"), """
        vectorize: iterations of k must not depend on each other
          updates c[0, 0] at c_i=0, c_j=0, k=0: c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
          updates c[0, 0] at c_i=0, c_j=0, k=1: c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)    <-- here
        """)


def test_parallel_refuses_places_that_are_data():
    refused(lambda: parallel(scatter(), "i"), """
        parallel: iterations of i must not depend on each other
          may store b[?] at i=0: b[where[i]] = a[i]
          may store b[?] at i=1: b[where[i]] = a[i]
        program main(a: int32[8], where: int64[8]) -> b: int32[8]
        for i in 0..8:
          b[where[i]] = a[i]    <-- here
        """)


def test_parallel_refuses_a_marked_loop():
    refused(lambda: parallel(unroll(MATMUL, "c_i"), "c_i"), """
        parallel: c_i must be a serial loop, not unroll
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4 (unroll):    <-- here
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_parallel_refuses_a_parallel_loop_around():
    refused(lambda: parallel(parallel(MATMUL, "c_i"), "c_j"), """
        parallel: c_j must not be inside of c_i (parallel)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4 (parallel):    <-- here
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_parallel_refuses_a_parallel_loop_inside():
    refused(lambda: parallel(parallel(MATMUL, "c_j"), "c_i"), """
        parallel: c_i must not be around c_j (parallel)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6 (parallel):    <-- here
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_vectorize_refuses_a_marked_loop_inside():
    refused(lambda: vectorize(vectorize(MATMUL, "c_j"), "c_i"), """
        vectorize: c_i must not be around c_j (vectorize)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6 (vectorize):    <-- here
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_vectorize_refuses_lanes_around():
    refused(lambda: vectorize(vectorize(MATMUL, "c_i"), "c_j"), """
        vectorize: c_j must not be inside of c_i (vectorize)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4 (vectorize):    <-- here
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_annotate_refuses_a_key_that_is_no_name():
    refused(lambda: annotate(MATMUL, "k", "two words", 1), """
        annotate: key must be a name, not 'two words'
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:    <-- here
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_annotate_refuses_other_values():
    refused(lambda: annotate(MATMUL, "k", "scale", 0.5), """
        annotate: value of scale must be an integer, a string or a truth value, not 0.5
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8:    <-- here
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_split_refuses_a_loop_with_notes():
    refused(lambda: split(annotate(MATMUL, "k", "depth", 2), "k", 2), """
        split: k must not carry notes yet, but has depth
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4:
          for c_j in 0..6:
            for k in 0..8 (depth=2):    <-- here
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)


def test_reorder_refuses_to_move_a_dependence_into_a_parallel_loop():
    above = te.select(I >= 1, C[I - 1, J] + 1, A[J])
    columns = Program("main", (A,), (C,), For(I, 8, For(J, 8, Store(C, (I, J), above))))
    expect(reorder(parallel(columns, "j"), "j", "i"), """
        program main(a: int32[8]) -> c: int32[8, 8]
        for j in 0..8 (parallel):
          for i in 0..8:
            c[i, j] = select(i >= 1, c[i - 1, j] + 1, a[j])
        """)
    steps = te.select(te.all_of(I >= 1, J >= 1), C[I - 1, J - 1] + 1, A[J])
    slanted = Program("main", (A,), (C,), For(I, 8, For(J, 8, Store(C, (I, J), steps))))
    refused(lambda: reorder(parallel(slanted, "j"), "j", "i"), """
        reorder: iterations of j must not depend on each other
          stores c[0, 0] at j=0, i=0: c[i, j] = select(i >= 1 and j >= 1, c[i - 1, j - 1] + 1, \
a[j])
          reads c[0, 0] at j=1, i=1: c[i, j] = select(i >= 1 and j >= 1, c[i - 1, j - 1] + 1, \
a[j])
        program main(a: int32[8]) -> c: int32[8, 8]
        for j in 0..8 (parallel):
          for i in 0..8:
            c[i, j] = select(i >= 1 and j >= 1, c[i - 1, j - 1] + 1, a[j])    <-- here
        """)


def test_bind_refuses_blocks_under_lanes():
    refused(lambda: bind(vectorize(MATMUL, "c_i"), "c_j", "blockIdx.x"), """
        bind: c_j must not be inside of c_i (vectorize)
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        for c_i in 0..4 (vectorize):    <-- here
          for c_j in 0..6:
            for k in 0..8:
              c[c_i, c_j] += x[c_i, k] * y[k, c_j] begin(k)
        """)
