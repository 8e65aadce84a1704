"""Requantization in float64 gives the integers it stands for, or does not take place."""

from functools import partial

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.cpu.roundings import in_float64
from compiler.ir import interpret, lower
from compiler.ops.arithmetic import add_scaled, requantize

EDGES = [-2**31, 2**31 - 1, -1, 0, 1, 2, 3, 5, 6, -2, -6, 2**30, -2**30 + 1, 98304, 163840, -98304]


def both(element, count: int) -> tuple:
    program = lower([te.compute((count,), element, "y")], "f")
    return program, in_float64(program)


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

    for c in (-2**31, 32768, 2**31 - 1):        # halves at 32768
        plain, floats = both(partial(scaled, c), 1 << 16)
        assert "float64" in str(floats)
        np.testing.assert_array_equal(interpret(floats, inputs)["y"],
                                      interpret(plain, inputs)["y"])


def test_more_than_53_bits_stay_integers() -> None:
    x, shift = te.placeholder((4,), "int64", "x"), te.placeholder((4,), "uint8", "s")
    def word(i):
        return x[i].astype("int32").astype("int64")

    for element in (lambda i: te.clamp(te.rshift_rne(x[i] * 3, 5), -128, 127),
                    lambda i: te.clamp(te.rshift_rne(word(i) * word(i), 5), -128, 127),
                    lambda i: te.clamp(te.rshift_rne(x[i].astype("int32").astype("int64") << 30, 5),
                                       -128, 127),
                    lambda i: te.clamp(te.rshift_rne(x[i].astype("int32").astype("int64"),
                                                     shift[i].astype("int64")), -128, 127),
                    lambda i: te.clamp(x[i] + 1, -128, 127)):
        plain, floats = both(element, 4)
        assert floats == plain
