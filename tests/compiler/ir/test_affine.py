"""Linear forms of index expressions, and their canonical text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.ir import (affine, expr_text, free_variables, from_linear, interval, is_index, linear,
                         offset)
from compiler.te import INDEX, Binary, Buffer, Cast, Const, Var

I, J, K = Var("i"), Var("j"), Var("k")
EXTENTS = {I: 4, J: 6, K: 10}


def canonical(expr, extents=None) -> str:
    return expr_text(from_linear(linear(expr, extents)))


@pytest.mark.parametrize("expr, text", [
    (I + J + I, "i*2 + j"),
    (I * 3 - I * 3 + 1, "1"),
    ((I + 2) * 4 - J, "i*4 - j + 8"),
    (2 - I, "2 - i"),
    (0 - I * 2, "0 - i*2"),
    (-I + J, "j - i"),
    ((I * 8 + J) // 4, "i*2 + j // 4"),
    ((I * 8 + J + 9) % 4, "(j + 1) % 4"),
    ((I * 3 + J // 2 * 2 + J % 2), "i*3 + j"),
    (I * J + I * J, "i*j*2"),
    (Binary("min", I + 1, I), "i"),
    (Binary("max", I + 1, I), "i + 1"),
    (Binary("min", I, J), "min(i, j)"),
    ((I + J) // K, "(i + j) // k"),
])
def test_canonical_form(expr, text):
    assert canonical(expr) == text


@pytest.mark.parametrize("expr, text", [
    ((J * 4 + I) // 4, "j"),
    ((J * 4 + I) % 4, "i"),
    (K // 10, "0"),
    (K // 5, "k // 5"),
    ((J + 6) // 6, "1"),
    (((-K - 1) // 10) % 4, "3"),
    (((-K - 1) // 8) % 4, "(7 - k) // 8 + 3"),
    (Binary("min", I, K + 4), "i"),
    (Binary("max", J % 3, K + 2), "k + 2"),
])
def test_extents_resolve_divisions(expr, text):
    assert canonical(expr, EXTENTS) == text


def test_affine_gives_coefficients():
    assert affine(I * 2 + J - 3) == ({I: 2, J: 1}, -3)
    assert affine(Const(7, INDEX)) == ({}, 7)
    assert affine(I // 2) is None
    assert affine(I * J) is None


def test_interval():
    assert interval(linear(I * 2 - J + 1), EXTENTS) == (-4, 7)
    assert interval(linear(K % 3 + K // 4), EXTENTS) == (0, 4)
    assert interval(linear(Var("unknown") + 1), EXTENTS) is None
    assert interval(linear(I * J), EXTENTS) is None


def test_what_is_an_index():
    buffer = Buffer("b", (4,), INDEX)
    assert is_index((I + 3) // 2 % J)
    assert not is_index(buffer[I])
    assert not is_index(Cast(Var("x", "int32"), INDEX))
    assert not is_index(Binary("shl", I, J))
    assert free_variables(buffer[I + J] * K) == {I, J, K}


def indices():
    leaves = st.sampled_from([I, J, K]) | st.integers(-9, 9).map(lambda n: Const(n, INDEX))

    def grown(inner):
        positive = st.integers(1, 6).map(lambda n: Const(n, INDEX))
        sums = st.builds(Binary, st.sampled_from(["add", "sub", "mul", "min", "max"]), inner, inner)
        return sums | st.builds(Binary, st.sampled_from(["floordiv", "mod"]), inner, positive)

    return st.recursive(leaves, grown, max_leaves=8)


def value(expr, at) -> int:
    match expr:
        case Const(number): return int(number)
        case Var(): return at[expr]
        case Binary(op, a, b):
            x, y = value(a, at), value(b, at)
            return {"add": x + y, "sub": x - y, "mul": x * y, "min": min(x, y), "max": max(x, y),
                    "floordiv": x // y if y else 0, "mod": x % y if y else 0}[op]
    raise TypeError(expr)


@given(indices(), st.integers(0, 2**32))
def test_canonical_form_has_the_same_value(expr, seed):
    rng = np.random.default_rng(seed)
    form, known = linear(expr), linear(expr, EXTENTS)
    span = interval(known, EXTENTS)
    for _ in range(10):
        at = {var: int(rng.integers(extent)) for var, extent in EXTENTS.items()}
        expected = value(expr, at)
        assert value(from_linear(form), at) == expected
        assert value(from_linear(known), at) == expected
        assert span is None or span[0] <= expected <= span[1]
    assert from_linear(linear(from_linear(form))) == from_linear(form)


def test_offset_counts_elements():
    dense, padded = Buffer("a", (3, 4), "int32"), Buffer("a", (3, 4), "int32", strides=(8, 2))
    assert offset(dense, (I, J)) == I * 4 + J
    assert offset(padded, (I, J)) == I * 8 + J * 2
    assert offset(Buffer("s", (), "int32"), ()) == Const(0, "int64")
