"""Walking and rewriting statements."""

import pytest

from compiler.ir import (Alloc, Binding, Combine, For, If, Seq, Store, Tensorized, Update, block,
                         loops, lower, map_buffers, path_to, reads, rebuilt, replace_axes,
                         replace_stmt, rewrite_stmts, substitute_stmt, unblock, walk_stmts, writes)
from compiler.ir.visit import renamed
from compiler.te import Buffer, Const, Var
from tests.compiler.ir.samples import scaled
from tests.compiler.te.samples import argmax

I, J, K = Var("i"), Var("j"), Var("k")
A, B, C = (Buffer(name, (4,), "int32") for name in "abc")
FIRST = Store(B, (I,), A[I])
LAST = Update(C, (I,), "sum", B[J], (J,))
NEST = For(I, 4, Alloc(B, Seq((FIRST, If(I < 3, For(J, 4, LAST))))))


def test_walk_is_in_the_order_of_the_program():
    kinds = [type(stmt).__name__ for stmt in walk_stmts(NEST)]
    assert kinds == ["For", "Alloc", "Seq", "Store", "If", "For", "Update"]
    assert [loop.var for loop in loops(NEST)] == [I, J]
    assert list(writes(NEST)) == [FIRST, LAST]
    assert [read.buffer for read in reads(NEST)] == [A, B]


def test_path():
    path = path_to(NEST, lambda stmt: stmt is LAST)
    assert [type(stmt).__name__ for stmt in path] == ["For", "Alloc", "Seq", "If", "For", "Update"]
    assert path_to(NEST, lambda stmt: False) == ()


def test_replaced_by_identity():
    other = Store(B, (I,), Const(1, "int32"))
    twins = Seq((Store(B, (I,), A[I]), FIRST))
    assert replace_stmt(twins, FIRST, other) == Seq((twins.stmts[0], other))
    assert replace_stmt(NEST, Store(B, (I,), A[I]), other) is NEST


def test_rewrite_is_bottom_up():
    seen = []
    assert rewrite_stmts(NEST, lambda stmt: seen.append(type(stmt).__name__)) is NEST
    assert seen == ["Store", "Update", "For", "If", "Seq", "Alloc", "For"]


def test_binding_and_body_change_alike():
    binding = Binding((("dst", C[0]), ("src", B[K])), (("valid", K < 3),), (K, J))
    stmt = Tensorized(None, binding, LAST)
    moved = substitute_stmt(stmt, {K: J + 1, J: K})
    assert isinstance(moved, Tensorized)
    assert moved.binding.tile("src") == B[J + 1]
    assert moved.binding.immediate("valid") == (J + 1 < 3)
    assert moved.body == Update(C, (I,), "sum", B[K], (J,))
    new = Buffer("b", (4,), "int32", "near")
    scoped = map_buffers(stmt, {B: new})
    assert isinstance(scoped, Tensorized)
    assert scoped.binding.tile("src") == new[K]
    assert list(reads(scoped)) == [new[J]]
    split = replace_axes(stmt, {J: (K, Var("l"))})
    assert isinstance(split, Tensorized)
    assert split.binding.begin == (K, Var("l"))
    assert split.body == Update(C, (I,), "sum", B[J], (K, Var("l")))


def test_blocks():
    whole = lower([scaled(4)], "main").body
    buffers, stmts = unblock(whole)
    assert ([b.name for b in buffers], len(stmts)) == (["b"], 2)
    assert block(buffers, stmts) == whole
    assert unblock(FIRST) == ((), (FIRST,))
    assert block((A, B), (FIRST,)) == Alloc(A, Alloc(B, FIRST))


def test_binding_without_the_name_wrong():
    with pytest.raises(KeyError, match="'acc'"):
        Binding(()).tile("acc")


def test_combine_is_walked_like_an_update():
    where, new = Buffer("where", (4,), "int64"), Buffer("near", (4,), "int32", "local")
    both = Combine((C, where), (I,), argmax(), (A[J], J), (J,))
    assert list(writes(For(J, 4, both))) == [both]
    assert [r.buffer for r in reads(both)] == [A]
    assert substitute_stmt(both, {I: K}) == rebuilt(both, indices=(K,))
    assert map_buffers(both, {C: new, A: B}) == rebuilt(both, buffers=(new, where),
                                                        values=(B[J], J))
    assert replace_axes(both, {J: (J, K)}) == Combine((C, where), (I,), argmax(), (A[J], J), (J, K))


def test_names_of_variables_and_buffers_change_and_nothing_else():
    def name(old: str) -> str:
        return f"new_{old}"

    i, j, (a, b, c) = Var("new_i"), Var("new_j"), (Buffer(f"new_{n}", (4,), "int32") for n in "abc")
    last = Update(c, (i,), "sum", b[j], (j,))
    assert renamed(NEST, name) == For(i, 4, Alloc(b, Seq((Store(b, (i,), a[i]),
                                                         If(i < 3, For(j, 4, last))))))
    combine = Combine((C, Buffer("w", (4,), "int64")), (I,), argmax(), (A[J], J), (J,))
    assert renamed(combine, name).reducer == argmax()
    program = lower([scaled(4)], "main")
    assert renamed(renamed(program, name), lambda new: new.removeprefix("new_")) == program
