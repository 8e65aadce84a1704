"""Multipliers, shifts and the one rounding, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.graph import ScaleRefused, add_multipliers, quantize_multiplier, requantize


def exact(total: int, mult: int, shift: int, zp: int, lo: int, hi: int) -> int:
    """Python's round of a Fraction is half to even of the exact value."""
    return min(max(zp + round(Fraction(total * mult, 2**shift)), lo), hi)


TOTALS = st.integers(-2**32, 2**32 - 1)
MULTS = st.one_of(st.just(0), st.integers(2**15, 2**16 - 1))
INT8 = st.integers(-128, 127)


@given(st.lists(TOTALS, min_size=1, max_size=20), MULTS, st.integers(0, 46), INT8, INT8, INT8)
def test_requantize_is_exact(totals: list[int], mult: int, shift: int, zp: int, a: int,
                             b: int) -> None:
    lo, hi = min(a, b), max(a, b)
    found = requantize(np.array(totals, np.float64), mult, shift, zp, lo, hi)
    assert found.dtype == np.int8
    assert found.tolist() == [exact(total, mult, shift, zp, lo, hi) for total in totals]


@given(st.lists(st.integers(-2**47 - 2**31, 2**47 + 2**31 - 1), min_size=1, max_size=20),
       st.integers(2**15, 2**16 - 1), st.integers(0, 46), INT8)
def test_requantize_of_48_bits_is_exact(totals: list[int], mult: int, shift: int, zp: int) -> None:
    found = requantize(np.array(totals), mult, shift, zp, -128, 127)
    assert found.tolist() == [exact(total, mult, shift, zp, -128, 127) for total in totals]


def test_a_tie_of_48_bits_is_seen() -> None:
    """One unit above a half, in products that float64 does not hold."""
    half = 2**45
    for mult in range(32769, 32869, 2):
        total = (half + 1) * pow(mult, -1, 2 * half) % (2 * half)
        found = requantize(np.array([total]), mult, 46, 0, -2**15, 2**15 - 1, np.int16)
        assert found.tolist() == [exact(total, mult, 46, 0, -2**15, 2**15 - 1)]


def test_requantize_rounds_half_to_even() -> None:
    totals = np.array([-7, -5, -3, -1, 1, 3, 5, 7], np.float64)
    assert requantize(totals, 2**15, 16, 0, -128, 127).tolist() == [-4, -2, -2, 0, 0, 2, 2, 4]


def test_requantize_rounds_once() -> None:
    """0.49999 stays below one half; two roundings would make it 1."""
    assert requantize(np.array([65535.0]), 2**15, 32, 0, -128, 127).tolist() == [0]
    assert requantize(np.array([2.0**16 + 1]), 2**15, 32, 0, -128, 127).tolist() == [1]


def test_requantize_at_the_ends_of_its_range() -> None:
    totals = np.array([-2.0**32, 2.0**32 - 1])
    assert requantize(totals, 65535, 46, 3, -128, 127).tolist() == [-1, 7]
    assert requantize(totals, 65535, 0, 3, -100, 99).tolist() == [-100, 99]


def test_requantize_takes_a_multiplier_for_each_channel() -> None:
    totals = np.array([[100.0, 100.0, 100.0]])
    mult, shift = np.array([0, 2**15, 2**15]), np.array([0, 15, 17])
    assert requantize(totals, mult, shift, -1, -128, 127).tolist() == [[-1, 99, 24]]


@given(st.floats(2.0**-31, 65535))
def test_multiplier_is_the_nearest(real: float) -> None:
    mult, shift = quantize_multiplier(real)
    assert 2**15 <= mult < 2**16 and 0 <= shift <= 46
    error = abs(Fraction(mult, 2**shift) - Fraction(real))
    assert error <= Fraction(1, 2**(shift + 1))
    assert error <= Fraction(real) / 2**16


@pytest.mark.parametrize(("real", "pair"), [
    (0.0, (0, 0)),
    (1.0, (2**15, 15)),
    (0.5, (2**15, 16)),
    (65535.0, (65535, 0)),
    (2.0**-31, (2**15, 46)),
    (1 - 2.0**-18, (2**15, 15)),        # rounds up to the next power of two
    (0.75 + 2.0**-17, (49152, 16)),     # a tie goes to the even multiplier
    (0.75 + 3 * 2.0**-17, (49154, 16)),
])
def test_multiplier(real: float, pair: tuple[int, int]) -> None:
    assert quantize_multiplier(real) == pair


@pytest.mark.parametrize("real", [-0.5, 2.0**-32, 65536.0, float("inf"), float("nan")])
def test_multiplier_wrong(real: float) -> None:
    with pytest.raises(ScaleRefused) as refusal:
        quantize_multiplier(real)
    assert str(refusal.value) == (
        f"requantization scale must be 0 or between 2**-31 and 65535, not {real!r}")


@given(st.floats(2.0**-20, 1000), st.floats(2.0**-20, 1000))
def test_add_multipliers(a: float, b: float) -> None:
    ma, mb, shift = add_multipliers(a, b)
    assert 2**15 <= max(ma, mb) < 2**16 and min(ma, mb) >= 0
    for real, mult in ((a, ma), (b, mb)):
        assert abs(Fraction(mult, 2**shift) - Fraction(real)) <= Fraction(1, 2**shift)


def test_add_multipliers_of_one_scale() -> None:
    assert add_multipliers(1.0, 1.0) == (2**15, 2**15, 15)
    assert add_multipliers(0.25, 1.0) == (2**13, 2**15, 15)


@pytest.mark.parametrize(("a", "b", "shown"), [
    (-1.0, 1.0, "-1.0"), (70000.0, 1.0, "70000.0"), (2.0**-40, 2.0**-41, f"{2.0**-40!r}")])
def test_add_multipliers_wrong(a: float, b: float, shown: str) -> None:
    with pytest.raises(ScaleRefused) as refusal:
        add_multipliers(a, b)
    assert str(refusal.value) == (
        f"requantization scale must be 0 or between 2**-31 and 65535, not {shown}")


def test_machine_files_of_version_0_1_find_it():
    from compiler.ops import fixed_point

    assert fixed_point.quantize_multiplier is quantize_multiplier
