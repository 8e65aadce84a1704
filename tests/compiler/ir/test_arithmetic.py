"""The meaning of operators, against Python's exact integers and NumPy."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.ir.arithmetic import apply_binary, apply_call, apply_cast

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def wrapped(value: int, dtype: str) -> int:
    info = np.iinfo(dtype)
    return (value - info.min) % (info.max - info.min + 1) + info.min


@st.composite
def pairs(draw):
    dtype = draw(st.sampled_from(INTEGERS))
    info = np.iinfo(dtype)
    numbers = st.integers(int(info.min), int(info.max)) | st.integers(max(-3, int(info.min)), 3)
    return dtype, draw(numbers), draw(numbers)


@given(pairs())
def test_integers_wrap(case):
    dtype, x, y = case
    a, b = np.array([x], dtype), np.array([y], dtype)
    exact = {"add": x + y, "sub": x - y, "mul": x * y, "min": min(x, y), "max": max(x, y),
             "and": x & y, "or": x | y, "xor": x ^ y}
    if y:
        exact |= {"floordiv": x // y, "mod": x % y}
    for op, expected in exact.items():
        result = apply_binary(op, a, b)
        assert result.dtype == dtype
        assert int(result[0]) == wrapped(expected, dtype), op


@given(pairs())
def test_comparisons(case):
    dtype, x, y = case
    a, b = np.array([x], dtype), np.array([y], dtype)
    for op, expected in {"lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "eq": x == y,
                         "ne": x != y}.items():
        result = apply_binary(op, a, b)
        assert result.dtype == bool
        assert bool(result[0]) == expected, op


@given(pairs(), st.integers(0, 63))
def test_shifts(case, amount):
    dtype, x, _ = case
    amount = min(amount, np.iinfo(dtype).bits - 1)
    a, s = np.array([x], dtype), np.array([amount], dtype)
    assert int(apply_binary("shl", a, s)[0]) == wrapped(x << amount, dtype)
    assert int(apply_binary("shr", a, s)[0]) == x >> amount
    rounded = round(Fraction(x, 1 << amount))               # Python rounds half to even
    assert int(apply_binary("rshift_rne", a, s)[0]) == wrapped(rounded, dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_amount_rounds_half_to_even(dtype, rng):
    bounds = np.iinfo(dtype)
    values = [bounds.min, bounds.max, 0, 1, 3, *rng.integers(bounds.min, bounds.max, 20, dtype)]
    for amount in range(bounds.bits):
        tie = (1 << amount >> 1) % (int(bounds.max) + 1)
        given = np.array([*values, tie], dtype)
        rounded = apply_binary("rshift_rne", given, np.full(len(given), amount, dtype))
        assert rounded.tolist() == [round(Fraction(int(v), 1 << amount)) for v in given]


@pytest.mark.parametrize("value, amount, expected", [
    (5, 1, 2), (7, 1, 4), (-5, 1, -2), (-7, 1, -4), (6, 2, 2), (-6, 2, -2), (9, 0, 9)])
def test_ties_go_to_the_even_quotient(value, amount, expected):
    for dtype in ("int8", "int32", "int64"):
        result = apply_binary("rshift_rne", np.array([value], dtype), np.array([amount], dtype))
        assert int(result[0]) == expected


@pytest.mark.parametrize("dtype, limit, amount", [("int64", 63, 64), ("int8", 7, 8),
                                                  ("int32", 31, -1)])
def test_amount_wrong(dtype, limit, amount):
    message = f"Amount of rshift_rne must be from 0 to {limit}, not [{amount}]"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        apply_binary("rshift_rne", np.array([1], dtype), np.array([amount], dtype))


@pytest.mark.parametrize("op", ["floordiv", "mod"])
def test_divisor_zero_wrong(op):
    with pytest.raises(ZeroDivisionError) as caught:
        apply_binary(op, np.array([1]), np.array([0]))
    assert str(caught.value) == f"Divisor of {op} must not be zero"


def test_floats_are_silent():
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    assert apply_binary("div", one, zero)[0] == np.inf
    assert np.isnan(apply_binary("div", zero, zero)[0])
    assert apply_binary("mul", one * 3e38, one * 3e38).dtype == np.float32


@pytest.mark.parametrize("function", ["exp", "log", "sqrt", "tanh", "erf", "floor", "ceil"])
def test_functions(function):
    for dtype, tolerance in (("float32", 1e-6), ("float64", 1e-15)):
        result = apply_call(function, np.array([0.75], dtype))
        assert result.dtype == dtype
        assert math.isclose(result[0], getattr(math, function)(0.75), rel_tol=tolerance)


def test_rint_and_abs():
    assert apply_call("rint", np.array([0.5, 1.5, -2.5])).tolist() == [0, 2, -2]
    assert apply_call("abs", np.array([-128, 5], "int8")).tolist() == [-128, 5]


def test_casts():
    assert apply_cast(np.array([300, -1]), "uint8").tolist() == [44, 255]
    assert apply_cast(np.array([-2.7, 2.7]), "int32").tolist() == [-2, 2]
    assert apply_cast(np.array([0, 2]), "bool").tolist() == [False, True]
