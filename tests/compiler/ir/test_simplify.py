"""Simplified expressions and statements mean the same; `normalize` leaves values alone."""

import numpy as np
import pytest

from compiler import te
from compiler.ir import (Alloc, Binding, For, If, Program, Seq, Store, Tensorized, conjuncts,
                         expr_text, interpret, loops, lower, normalize, program_text, simplify,
                         simplify_stmt, stmt_text, substitute_stmt)
from compiler.schedule import split
from compiler.te import INDEX, Binary, Buffer, Call, Cast, Const, Field, Read, Select, Var
from compiler.tensorize import Intrinsic, Operand
from tests.compiler.ir.samples import scaled

I, J = Var("i"), Var("j")
EXTENTS = {I: 4, J: 6}
A = Buffer("a", (40,), "int32")
F = Buffer("f", (4,), "float32")
X = A[I]
ONE, ZERO = Const(1, "int32"), Const(0, "int32")


@pytest.mark.parametrize("expr, text", [
    (X + 0, "a[i]"), (0 + X, "a[i]"), (X - 0, "a[i]"), (X * 1, "a[i]"), (X * 0, "0"),
    (0 * X, "0"), (X // 1, "a[i]"), (X % 1, "0"), (X << 0, "a[i]"), (X >> 0, "a[i]"),
    (X & 0, "0"), (X | 0, "a[i]"), (X ^ 0, "a[i]"), (te.rshift_rne(X, 0), "a[i]"),
    (te.maximum(X, X), "a[i]"), (te.minimum(X, X), "a[i]"), (X & X, "a[i]"),
    (ONE + 2, "3"), (Const(127, "int8") + 1, "-128"), (ONE << 3, "8"),
    (Const(5, "int32").astype("int8"), "5"), (Const(300, "int32").astype("uint8"), "44"),
    (Cast(X, "int32"), "a[i]"), (te.sqrt(Const(4.0, "float32")), "2.0"),
    (Select(Const(True, "bool"), X, ZERO), "a[i]"), (Select(I < 1, X, X), "a[i]"),
    (te.all_of(Const(True, "bool"), I < 2), "i < 2"),
    (te.all_of(I < 2, Const(False, "bool")), "False"),
    (Binary("or", I < 2, Const(True, "bool")), "True"),
    (Binary("or", I < 2, Const(False, "bool")), "i < 2"),
    (Binary("or", X, Const(1, "int32")), "a[i] | 1"),
    (X - X, "a[i] - a[i]"),
    (F[I] + 0.0, "f[i] + 0.0"), (F[I] * 0.0, "f[i] * 0.0"), (F[I] - 0, "f[i] - 0.0"),
    (A[I + J - I], "a[j]"),
    (I.equal(I), "True"),
])
def test_identities(expr, text):
    assert expr_text(simplify(expr)) == text


@pytest.mark.parametrize("expr, text", [
    (I < 4, "True"), (I < 3, "i < 3"), (I >= 0, "True"), (I > J - 2, "i > j - 2"),
    (I > J + 3, "False"), (I - J <= 3, "True"), (I.equal(7), "False"), (I.not_equal(7), "True"),
    (te.select(I < 4, X, 0), "a[i]"), (te.select(I >= 4, X, 0), "0"),
    (te.all_of(I < 4, J < 5), "j < 5"), (A[(J * 4 + I) // 4], "a[j]"),
    (te.minimum(I, J + 4), "i"),
])
def test_extents_decide(expr, text):
    assert expr_text(simplify(expr, EXTENTS)) == text


def test_normalize_leaves_values_as_they_are():
    value = te.select(I + 0 < 4, (X + 0) * 1 + (ONE + 2), 0)
    assert expr_text(normalize(value, EXTENTS)) == "select(i < 4, (a[i] + 0) * 1 + (1 + 2), 0)"
    assert expr_text(normalize(A[I * 2 + I].astype("int8"))) == "int8(a[i*3])"
    record = Buffer("p", (9,), te.record("low_high", low="int8", high="int8"))
    assert normalize(record[I + I].high) == Field(Read(record, (I * 2,)), "high")
    assert expr_text(normalize(Call("abs", (A[I + I],)))) == "abs(a[i*2])"


def test_conjuncts():
    parts = (I < 1, J < 2, I < J)
    assert conjuncts(te.all_of(*parts)) == parts
    assert conjuncts(X & 1) == (X & 1,)


def test_guards_shorten_loops():
    body = For(I, 8, For(J, 6, If(te.all_of(I < 5, J * 2 + 1 < 6), Store(A, (I * 6 + J,), ONE))))
    assert stmt_text(simplify_stmt(body)) == """\
for i in 0..8:
  for j in 0..3:
    if i < 5:
      a[i*6 + j] = 1
"""


@pytest.mark.parametrize("condition, extent", [
    (I < 5, 5), (I <= 5, 6), (I * 2 < 5, 3), (I * 2 <= 5, 3), (I * 2 <= 6, 4), (I < 0, 0),
    (I + 2 < 4, 2), (te.all_of(I < 6, I < 3), 3)])
def test_upper_bounds(condition, extent):
    stmt = simplify_stmt(For(I, 8, If(condition, Store(A, (I,), ONE))))
    assert stmt == (For(I, extent, Store(A, (I,), ONE)) if extent else Seq(()))


@pytest.mark.parametrize("condition", [Const(3, INDEX) < I, I * I < 5, I < J])
def test_other_guards_stay(condition):
    body = For(J, 9, For(I, 8, If(condition, Store(A, (I,), ONE))))
    assert simplify_stmt(body) == body


def test_what_never_runs_is_dropped():
    b = Buffer("b", (1,), "int32")
    never = If(I >= 8, Store(A, (I,), ONE))
    assert simplify_stmt(For(I, 8, Alloc(b, Seq((never, never))))) == Seq(())
    kept = Store(A, (I,), ONE)
    assert simplify_stmt(For(I, 8, Seq((never, kept)))) == For(I, 8, kept)


def test_one_iteration_of_a_ragged_tile():
    program = split(lower([scaled(10)], "main"), "c_i", 4)
    tile = next(loop for loop in loops(program.body) if loop.var.name == "c_i_o").body
    last = simplify_stmt(substitute_stmt(tile, {Var("c_i_o"): Const(2, INDEX)}))
    assert stmt_text(last) == """\
for c_i_i in 0..2:
  c[c_i_i + 8] = b[c_i_i + 8] + 1
"""


def test_predicates_of_intrinsics_are_decided():
    store = Store(A, (I,), ONE)
    move = Intrinsic("move", "load", Operand("dst", (), "int32", (("global", "int32"),)),
                     (), (), te.const(1, "int32"))
    binding = Binding((("dst", A[I + 0]),), (("valid", I < 4), ("n", ONE)))
    after = simplify_stmt(For(I, 4, Tensorized(move, binding, store)))
    assert stmt_text(after) == "for i in 0..4:\n  move(dst=a[i], valid=True, n=1)\n"


def test_meaning_stays():
    program = split(split(lower([scaled(10)], "main"), "c_i", 4), "b_i", 3)
    after = Program("main", program.inputs, program.outputs, simplify_stmt(program.body))
    assert program_text(after) == program_text(program)
    data = {"a": np.arange(10, dtype=np.int32)}
    np.testing.assert_array_equal(interpret(after, data)["c"], np.arange(10) * 3 + 1)
