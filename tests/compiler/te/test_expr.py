"""Scalar expressions: types, refusals, walking."""

import re

import pytest

from compiler import te
from compiler.ir import expr_text
from compiler.te import (INDEX, Axis, Binary, Buffer, Call, Cast, Const, Extern, Field, Read,
                         Reduce, Select, Var)

I, J = Var("i"), Var("j")
A = Buffer("a", (4, 8), "int8")
F = Buffer("f", (4,), "float32")
PAIR = te.record("expr_pair", low="int8", high="int16")
P = Buffer("p", (4,), PAIR)


def refuses(kind, message: str):
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


def test_numbers_adopt_the_type_of_the_other_side():
    assert A[I, 0] + 1 == Binary("add", A[I, 0], Const(1, "int8"))
    assert 2 * F[I] == Binary("mul", Const(2.0, "float32"), F[I])
    assert (7 - I) == Binary("sub", Const(7, INDEX), I)
    assert -I == Binary("sub", Const(0, INDEX), I)


@pytest.mark.parametrize("build, op", [
    (lambda a, b: a + b, "add"), (lambda a, b: a - b, "sub"), (lambda a, b: a * b, "mul"),
    (lambda a, b: a // b, "floordiv"), (lambda a, b: a % b, "mod"), (lambda a, b: a & b, "and"),
    (lambda a, b: a | b, "or"), (lambda a, b: a ^ b, "xor"), (lambda a, b: a << b, "shl"),
    (lambda a, b: a >> b, "shr"), (lambda a, b: a < b, "lt"), (lambda a, b: a <= b, "le"),
    (lambda a, b: a > b, "gt"), (lambda a, b: a >= b, "ge"), (lambda a, b: a.equal(b), "eq"),
    (lambda a, b: a.not_equal(b), "ne"), (lambda a, b: a / b, "div"),
    (lambda a, b: te.maximum(a, b), "max"), (lambda a, b: te.minimum(a, b), "min"),
    (lambda a, b: te.rshift_rne(a, b), "rshift_rne")])
def test_operators(build, op):
    expr = build(I, J)
    assert expr == Binary(op, I, J)
    assert expr.dtype == ("bool" if op in te.COMPARISONS else INDEX)


def test_types():
    assert A[I, J].dtype == "int8"
    assert P[I].high.dtype == "int16"
    assert te.select(I < 1, F[I], 0).dtype == "float32"
    assert te.sum(A[I, J], te.reduce_axis(3, "k")).dtype == "int8"
    assert te.exp(F[I]).dtype == te.erf(F[I]).dtype == "float32"
    assert A[I, J].astype("int8") is not A[I, J].astype("int32")
    assert A[I, J].astype("int8") == A[I, J]
    assert te.cast(I, "bool").dtype == "bool"


def test_axis_stands_for_its_index():
    axis = Axis(Var("x"), 4)
    assert A[axis, axis * 2 + 1] == A[Var("x"), Var("x") * 2 + 1]
    assert (I + axis.var).dtype == INDEX


def test_size():
    assert A.size_bytes == 32
    assert P.size_bytes == 16
    assert Buffer("s", (), "int32").size_bytes == 4


def test_walk_and_rewrite():
    expr = te.select(I < 2, A[I, J].astype("int32") * 3, Cast(P[I].low, "int32"))
    assert [n.name for n in te.walk(expr) if isinstance(n, Var)] == ["i", "i", "j", "i"]
    moved = te.substitute(expr, {I: J + 1})
    assert moved == te.select(J + 1 < 2, A[J + 1, J].astype("int32") * 3,
                              Cast(P[J + 1].low, "int32"))
    assert te.substitute(expr, {Var("z"): I}) == expr
    assert te.rewrite(te.abs(A[I, J]), lambda n: I if n == J else None) == te.abs(A[I, I])
    total = te.sum(A[I, J], te.reduce_axis(8, "j"))
    assert te.substitute(total, {I: J}) == Reduce("sum", A[J, J], ((J, 8),))


def test_definition_takes_no_part_in_equality():
    t = te.compute((4,), lambda i: te.cast(i, "int8"), "t")
    assert t.buffer == Buffer("t", (4,), "int8")
    assert t.buffer.definition.axes == t.axes
    assert t.buffer.definition.values == (t.body,)


def test_truth_value_wrong():
    with refuses(TypeError, "An expression has no truth value; write te.select or .equal(...)"):
        bool(I < 3)


def test_operands_of_two_types_wrong():
    with refuses(TypeError, "Operands of add must have one type, not int8 and float32"):
        _ = A[I, J] + F[I]


def test_unknown_operator_wrong():
    with refuses(ValueError, "Operator must be a known one, not 'nand'"):
        Binary("nand", I, J)


@pytest.mark.parametrize("value, dtype", [(128, "int8"), (-1, "uint8"), (1.5, "int32"),
                                          (True, "int32"), (1 << 63, "int64")])
def test_constant_that_does_not_fit_wrong(value, dtype):
    with refuses(ValueError, f"Constant must fit {dtype}, not {value!r}"):
        Const(value, dtype)


def test_shape_wrong():
    with refuses(ValueError, "Shape of b must hold positive integers, not (4, 0)"):
        Buffer("b", (4, 0), "int8")


def test_rank_wrong():
    with refuses(ValueError, "a has 2 dimensions, not 1"):
        Read(A, (I,))


def test_field_wrong():
    with refuses(ValueError, "Field of expr_pair must be one of low, high, not 'mid'"):
        Field(P[I], "mid")
    with pytest.raises(AttributeError, match="low"):
        _ = A[I, J].low


def test_function_wrong():
    with refuses(ValueError, f"Function must be one of {', '.join(sorted(te.FUNCTIONS))}, "
                             f"not 'gamma'"):
        Call("gamma", (F[I],))
    with refuses(TypeError, "pow must have 2 arguments, not 1"):
        Call("pow", (F[I],))
    with refuses(TypeError, "Argument of exp must be a float, not int8"):
        te.exp(A[I, J])


def test_select_wrong():
    with refuses(TypeError, "Condition must be bool, not int64"):
        Select(I, A[I, J], A[I, J])
    with refuses(TypeError, "Sides of select must have one type, not int8 and float32"):
        te.select(I < 1, A[I, J], F[I])


def test_reduction_wrong():
    with refuses(ValueError, "Reduction must be one of max, min, sum, not 'mean'"):
        Reduce("mean", F[I], ((J, 4),))


def test_strides_leave_gaps():
    padded = Buffer("a", (3, 4), "int16", strides=(6, 1))
    assert (padded.pitches, padded.size, padded.size_bytes) == ((6, 1), 18, 36)
    assert Buffer("a", (3, 4), "int16").pitches == (4, 1)


@pytest.mark.parametrize("strides", [(3, 1), (4,), (8, 0)])
def test_strides_wrong(strides):
    message = re.escape(f"Strides of a must keep rows of [3, 4] apart, not {strides}")
    with pytest.raises(ValueError, match=f"^{message}$"):
        Buffer("a", (3, 4), "int16", strides=strides)


def test_what_is_computed_outside():
    value = Extern("softmax", (A[I, J], F[I]), "int8")
    assert expr_text(value) == "softmax(a[i, j], f[i])"
    assert te.children(value) == (A[I, J], F[I])
    assert te.substitute(value, {J: I}) == Extern("softmax", (A[I, I], F[I]), "int8")
    with refuses(ValueError, "Element type must be a number type or a declared record, not 'i7'"):
        Extern("softmax", (), "i7")
