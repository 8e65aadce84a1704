"""Requantization in floats gives the integers it stands for, or does not take place."""

from functools import partial

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.cpu.schedules.roundings import in_floats, in_words
from compiler.ir import interpret, lower
from compiler.ops.integers.arithmetic import add_scaled, requantize, requantize_by_word

EDGES = [-2**31, 2**31 - 1, -1, 0, 1, 2, 3, 5, 6, -2, -6, 2**30, -2**30 + 1, 98304, 163840, -98304]


def both(element, count: int) -> tuple:
    program = lower([te.compute((count,), element, "y")], "f")
    return program, in_floats(program)


@pytest.mark.parametrize("bits_to_drop", [0, 1, 16, 47, 63])
@pytest.mark.parametrize(("zp", "low", "high"), [(0, -128, 127), (-7, -7, 100), (100, -32768, 0)])
def test_requantization(bits_to_drop: int, zp: int, low: int, high: int) -> None:
    rng = np.random.default_rng(bits_to_drop)
    sums = np.array([*EDGES, *rng.integers(-2**31, 2**31, 500)], np.int32)
    x = te.placeholder(sums.shape, "int32", "x")

    def requantized(mult: int, i):
        bias, shift = te.const(2**31 - 1, "int32"), te.const(bits_to_drop, "uint8")
        return requantize(x[i], bias, te.const(mult, "uint16"), shift, zp, low, high)

    for mult in (32768, 40000, 65535):
        plain, floats = both(partial(requantized, mult), len(sums))
        assert "float64" in str(floats)
        np.testing.assert_array_equal(interpret(floats, {"x": sums})["y"],
                                      interpret(plain, {"x": sums})["y"])


def test_scaled_sums_of_all_bytes() -> None:
    a, b = (te.placeholder((1 << 16,), "int8", name) for name in "ab")
    every = np.arange(-128, 128).astype(np.int8)
    inputs = {"a": np.repeat(every, 256), "b": np.tile(every, 256)}
    def scaled(c: int, i):
        left, right = a[i].astype("int32"), b[i].astype("int32")
        return add_scaled(left, right, 32768, 65535, c, 16, -3, -128, 127).astype("int8")

    for c, dtype in ((-2**31, "float64"), (32768, "float32"), (2**24, "float32"),
                     (-2**24, "float32"), (2**24 + 1, "float64"), (2**31 - 1, "float64")):
        plain, floats = both(partial(scaled, c), 1 << 16)       # halves at 32768
        assert dtype in str(floats)
        assert ("float32" in str(floats)) == (dtype == "float32")
        np.testing.assert_array_equal(interpret(floats, inputs)["y"],
                                      interpret(plain, inputs)["y"])


@pytest.mark.parametrize(("amount", "dtype"), [(15, "float32"), (16, "float32"), (17, "float64")])
def test_what_is_rounded_in_float32_lies_beyond_the_bounds(amount: int, dtype: str) -> None:
    """A product of 31 bits, of which the bounds keep the 24 that float32 has."""
    x = np.arange(-2**15, 2**15).astype(np.int16)
    given = te.placeholder(x.shape, "int16", "x")

    def product(i):
        total = given[i].astype("int64") * te.const(61111, "uint16").astype("int64")
        return te.clamp(te.rshift_rne(total, amount), -255, 255).astype("int16")

    plain, floats = both(product, len(x))
    assert dtype in str(floats)
    np.testing.assert_array_equal(interpret(floats, {"x": x})["y"], interpret(plain, {"x": x})["y"])


def in_two_ways(element, inputs: dict) -> str:
    """The program in words, which computes what it did."""
    (count,) = next(iter(inputs.values())).shape
    program = lower([te.compute((count,), element, "y")], "f")
    words = in_words(program)
    np.testing.assert_array_equal(interpret(words, inputs)["y"], interpret(program, inputs)["y"])
    assert "rshift_rne" not in str(words) and "float" not in str(words)
    return str(words)


@pytest.mark.parametrize("amount", [1, 2, 7, 30, 31, 32, 33, 34, 35, 39, 47, 61])
@pytest.mark.parametrize(("zp", "low", "high"), [(0, -128, 127), (-7, -7, 100), (100, -32768, 0)])
def test_products_of_words_are_rounded_in_words(amount: int, zp: int, low: int, high: int) -> None:
    """Halves among them, and what lies one beside."""
    rng = np.random.default_rng(amount)
    mult = rng.integers(0, 2**31, 900)
    exact = (rng.integers(-400, 400, 900) * 2**amount + rng.integers(-1, 2, 900)
             + 2**(amount - 1)) // np.maximum(mult, 1)
    total = np.clip(exact + rng.integers(-1, 2, 900), -2**31, 2**31 - 1)
    mult[:300], total[:300] = 2**30, np.clip(            # ties: odd multiples of a half
        (2 * rng.integers(-300, 300, 300) + 1) << max(amount - 31, 0), -2**31, 2**31 - 1)
    total[300:300 + len(EDGES)] = EDGES
    x, m = (te.placeholder((900,), "int32", name) for name in "xm")
    in_two_ways(lambda i: requantize_by_word(x[i], m[i], amount, zp, low, high),
                {"x": total.astype(np.int32), "m": mult.astype(np.int32)})


def test_an_upper_word_takes_no_shift_and_a_short_sum_no_64_bits() -> None:
    x, m = (te.placeholder((4,), "int32", name) for name in "xm")
    given = {"x": np.array([5, -2**31, 2**31 - 1, -1], np.int32),
             "m": np.array([2**30, 2**31 - 1, 2**31 - 1, 2**30], np.int32)}
    text = in_two_ways(lambda i: requantize_by_word(x[i], m[i], 38, 3, -128, 127), given)
    assert "Const(value=32, dtype='int64')" in text and "value=38" not in text
    b = te.placeholder((256,), "int8", "b")
    text = in_two_ways(lambda i: add_scaled(b[i].astype("int32"), b[i].astype("int32"), 32768,
                                            40000, 5, 16, -3, -128, 127),
                       {"b": np.arange(-128, 128).astype(np.int8)})
    assert text.count("dtype='int64'") < text.count("dtype='int32'")


def test_what_cuts_off_less_than_a_word_keeps_two_bits_below() -> None:
    """Sums of 16 bits times 24: of 40 bits, 22 are cut off, and 20 before rounding."""
    x = te.placeholder((1 << 16,), "int16", "x")
    text = in_two_ways(lambda i: te.clamp(te.rshift_rne(
        x[i].astype("int64") * te.const(2**23 + 2**21 + 1, "int64"), 22) + 0, -2**17, 2**17),
        {"x": np.arange(-2**15, 2**15).astype(np.int16)})
    assert "Const(value=20, dtype='int64')" in text


def test_a_half_that_a_word_does_not_hold_beside_the_product() -> None:
    x = te.placeholder((1 << 16,), "int16", "x")
    in_two_ways(lambda i: te.clamp(te.rshift_rne(
        x[i].astype("int64") * te.const(40000, "int64"), 31), -128, 127),
        {"x": np.arange(-2**15, 2**15).astype(np.int16)})


def test_sums_of_more_than_63_bits_stay_as_they_are() -> None:
    x = te.placeholder((4,), "int64", "x")
    program = lower([te.compute((4,), lambda i: te.clamp(te.rshift_rne(x[i], 5), -128, 127), "y")],
                    "f")
    assert in_words(program) == program


def test_more_than_53_bits_stay_integers() -> None:
    x, shift = te.placeholder((4,), "int64", "x"), te.placeholder((4,), "uint8", "s")
    def word(i):
        return x[i].astype("int32").astype("int64")

    for element in (lambda i: te.clamp(te.rshift_rne(x[i] * 3, 5), -128, 127),
                    lambda i: te.clamp(te.rshift_rne(word(i) * word(i) + 1, 5), -128, 127),
                    lambda i: te.clamp(te.rshift_rne(x[i].astype("int32").astype("int64") << 30, 5),
                                       -128, 127),
                    lambda i: te.clamp(te.rshift_rne(x[i].astype("int32").astype("int64"),
                                                     shift[i].astype("int64")), -128, 127),
                    lambda i: te.clamp(x[i] + 1, -128, 127)):
        plain, floats = both(element, 4)
        assert floats == plain
