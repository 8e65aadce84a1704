"""The text of programs: one line a statement, as few parentheses as the meaning allows."""

import pytest

from compiler import te
from compiler.ir import (Alloc, Barrier, Binding, Combine, For, If, Program, Seq, Store, Tensorized,
                         Update, expr_text, program_text, stmt_text)
from compiler.ir.printer import nest_lines
from compiler.ops.integers.arithmetic import PARAM
from compiler.te import Binary, Buffer, Const, Expr, Var
from compiler.tensorize import Intrinsic, Operand
from tests.compiler.te.samples import argmax

I, J = Var("i"), Var("j")
A, F = Buffer("a", (4, 4), "int32"), Buffer("f", (4,), "float32")
P = Buffer("p", (4,), PARAM)
X = A[I, J]


@pytest.mark.parametrize("expr, text", [
    (I * 2 + J - 1, "i*2 + j - 1"),
    ((I + J) * 2, "(i + j)*2"),
    (I - (J - 1), "i - (j - 1)"),
    (I - J - 1, "i - j - 1"),
    ((I + 1) // 2 % 3, "(i + 1) // 2 % 3"),
    (I // (J % 3), "i // (j % 3)"),
    (X * 3 + X, "a[i, j] * 3 + a[i, j]"),
    (X * 3 >> (X & 7), "a[i, j] * 3 >> (a[i, j] & 7)"),
    ((X & 7) | (X ^ 1) << 2, "a[i, j] & 7 | (a[i, j] ^ 1) << 2"),
    (te.all_of(I >= 1, I < J + 2), "i >= 1 and i < j + 2"),
    (Binary("and", Binary("or", I < 1, J < 1), I.equal(J)), "(i < 1 or j < 1) and i == j"),
    (Binary("eq", I < 1, J.not_equal(1)), "(i < 1) == (j != 1)"),
    (te.clamp(X, -8, 7), "min(max(a[i, j], -8), 7)"),
    (te.rshift_rne(X, 3), "rshift_rne(a[i, j], 3)"),
    (te.select(I < 1, X, 0), "select(i < 1, a[i, j], 0)"),
    (X.astype("int8"), "int8(a[i, j])"),
    (P[I].bias + 1, "p[i].bias + 1"),
    (te.exp(F[I] / 2), "exp(f[i] / 2.0)"),
    (Const(True, "bool"), "True"),
    (te.sum(X, te.reduce_axis(3, "k")), "sum(a[i, j], over k)"),
])
def test_expressions(expr, text):
    assert expr_text(expr) == text


def nested() -> Program:
    b, c = Buffer("b", (4,), "int32", "near"), Buffer("c", (4,), "int32")
    inner = Seq((For(J, 4, Store(b, (J,), A[I, J])),
                 If(I < 3, For(Var("k"), 4, Update(c, (I,), "sum", b[Var("k")], (Var("k"),))))))
    last = If(I >= 3, Store(c, (I,), Const(0, "int32")))
    return Program("main", (A,), (c,), For(I, 4, Seq((Alloc(b, inner), last)), "unroll"))


def test_program():
    assert program_text(nested()) == """\
program main(a: int32[4, 4]) -> c: int32[4]
for i in 0..4 (unroll):
  block:
    alloc near.b: int32[4]
    for j in 0..4:
      b[j] = a[i, j]
    if i < 3:
      for k in 0..4:
        c[i] += b[k] begin(k)
  if i >= 3:
    c[i] = 0
"""


def test_one_place_is_marked():
    program = nested()
    assert isinstance(program.body, For)
    assert isinstance(program.body.body, Seq)
    last = program.body.body.stmts[1]
    assert program_text(program, last).splitlines()[-2:] == [
        "  if i >= 3:    <-- here", "    c[i] = 0"]
    assert program_text(program, last).count("<-- here") == 1


@pytest.mark.parametrize("op, text", [("sum", "+="), ("max", "max="), ("min", "min=")])
def test_updates(op, text):
    c = Buffer("c", (4,), "int32")
    assert stmt_text(Update(c, (I,), op, X, (J,))) == f"c[i] {text} a[i, j] begin(j)\n"
    assert stmt_text(Update(c, (I,), op, X, ())) == f"c[i] {text} a[i, j]\n"


def moved() -> Tensorized:
    one = te.placeholder((), "int32", "src")
    move = Intrinsic("move", "load", Operand("dst", (), "int32", (("global", "int32"),)),
                     (Operand("src", (), "int32", (("global", "int32"),)),), (), one[()])
    c = Buffer("c", (4,), "int32")
    return Tensorized(move, Binding((("dst", c[I]), ("src", X)), (("pad", Const(3, "int8")),),
                                    (J,)), Store(c, (I,), X))


def test_nests_share_a_line_and_each_tile_has_one():
    b = Buffer("b", (4,), "int32", "near")
    nest = For(I, 4, For(J, 2, Seq((Alloc(b, moved()), If(I < 3, moved()))), "virtual_thread"))
    lines = nest_lines(nest, lambda stmt: f"  # {stmt.intrinsic.unit}")
    tiles = ["dst = c[i]", "src = a[i, j]", "pad = 3"]
    assert list(lines) == [
        (0, "for i in 0..4, j in 0..2 (virtual_thread):"), (1, "block:"),
        (2, "alloc near.b: int32[4]"), (2, "move begin(j)  # load"), *((3, tile) for tile in tiles),
        (1, "if i < 3:"), (2, "move begin(j)  # load"), *((3, tile) for tile in tiles)]


def test_intrinsic_is_one_line():
    stmt = moved()
    assert stmt_text(stmt) == "move(dst=c[i], src=a[i, j], pad=3) begin(j)\n"
    assert stmt_text(stmt, bodies=True).splitlines()[1] == "  c[i] = a[i, j]"


def test_empty_sequence():
    assert stmt_text(For(I, 2, Seq(()))) == "for i in 0..2:\n  pass\n"


def test_unknown_kinds_wrong():
    class Strange(Expr):
        pass

    with pytest.raises(TypeError, match="^Expression must be of a known kind, not <"):
        expr_text(Strange())


def test_kinds_annotations_strides_and_barriers():
    b = Buffer("b", (4, 4), "int32", "shared", strides=(5, 1))
    copy = For(I, 4, For(J, 4, Store(b, (I, J), X), "vectorize"), "threadIdx.x", (("depth", 2),))
    assert stmt_text(Alloc(b, Seq((copy, Barrier(), For(Var("k"), 2, Seq(()), "serial",
                                                        (("fast", True), ("stage", 1))))))) == """\
alloc shared.b: int32[4, 4] strides [5, 1]
for i in 0..4 (threadIdx.x, depth=2):
  for j in 0..4 (vectorize):
    b[i, j] = a[i, j]
barrier(block)
for k in 0..2 (fast=True, stage=1):
  pass
"""


def test_combine():
    best, where = Buffer("best", (4,), "int32"), Buffer("where", (4,), "int64")
    assert stmt_text(Combine((best, where), (I,), argmax(), (X, J), (J,))) == (
        "best[i], where[i] argmax= a[i, j], j begin(j)\n")
