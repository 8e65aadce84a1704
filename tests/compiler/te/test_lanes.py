"""Sums in lanes: the order of their terms, to the bit, and what is refused."""

from math import prod

import numpy as np
import pytest

from compiler import te
from compiler.ir import interpret, lower, program_text
from compiler.te import Tensor
from tests.support.summation import in_lanes


def sums(*extents: int, lanes: int, dtype: str = "float32") -> Tensor:
    """``y[i]``, over all other axes of `x`."""
    x = te.placeholder((3, *extents), dtype, "x")
    axes = tuple(te.reduce_axis(extent, f"k{d}") for d, extent in enumerate(extents))
    return te.compute((3,), lambda i: te.sum(x[(i, *axes)], axes, lanes=lanes), "y")


def values(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Numbers whose sums round, some of them negative zeros."""
    x = np.random.default_rng(prod(shape)).normal(size=shape).astype(te.numpy_dtype(dtype))
    x[..., ::5] = -0.0
    return x


@pytest.mark.parametrize("lanes", [2, 8, 16, 64])
@pytest.mark.parametrize("extents", [(1,), (7,), (16,), (33,), (128,), (5, 16), (4, 6), (7, 7),
                                     (3, 2, 8), (2, 3, 5)])
def test_order_of_terms(extents, lanes):
    x = values(3, *extents)
    found = interpret(lower([sums(*extents, lanes=lanes)], "main"), {"x": x})["y"]
    wanted = [in_lanes(row.reshape(-1), lanes) for row in x]
    assert found.tobytes() == np.array(wanted).tobytes()


def test_the_order_matters():
    x = values(3, 200)
    plain = interpret(lower([sums(200, lanes=1)], "main"), {"x": x})["y"]
    found = interpret(lower([sums(200, lanes=16)], "main"), {"x": x})["y"]
    assert (plain != found).any()


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int32"])
def test_types(dtype):
    x = (values(3, 37) * 9).astype(te.numpy_dtype(dtype))
    found = interpret(lower([sums(37, lanes=8, dtype=dtype)], "main"), {"x": x})["y"]
    assert found.tobytes() == np.array([in_lanes(row, 8) for row in x]).tobytes()


def test_negative_zeros_stay():
    for extent in (3, 8):
        x = np.full((3, extent), -0.0, np.float32)
        found = interpret(lower([sums(extent, lanes=8)], "main"), {"x": x})["y"]
        assert np.signbit(found).all()


def test_text_of_whole_turns():
    assert program_text(lower([sums(2, 8, lanes=4)], "main")) == """\
program main(x: float32[3, 2, 8]) -> y: float32[3]
alloc y_lanes: float32[3, 4]
for y_lanes_i in 0..3:
  for y_lanes_lane in 0..4:
    for k0 in 0..2:
      for k1_o in 0..2:
        y_lanes[y_lanes_i, y_lanes_lane] += x[y_lanes_i, k0, k1_o*4 + y_lanes_lane] begin(k0, k1_o)
for y_i in 0..3:
  y[y_i] = y_lanes[y_i, 0] + y_lanes[y_i, 2] + (y_lanes[y_i, 1] + y_lanes[y_i, 3])
"""


def test_text_of_a_rest():
    text = program_text(lower([sums(2, 5, lanes=2)], "main"))
    assert "x[y_lanes_i, (k0_k1_o*2 + y_lanes_lane) // 5, (k0_k1_o*2 + y_lanes_lane) % 5]" in text
    assert "select(k0_o*4 + y_lanes_lane < 7, x[y_lanes_i, k0_o*4 + y_lanes_lane], -0.0)" in (
        program_text(lower([sums(7, lanes=4)], "main")))


@pytest.mark.parametrize("size", [1, 4, 9, 30])
def test_symbols(size):
    n = te.symbol("n")
    x, k = te.placeholder((n, 3), "float32", "x"), te.reduce_axis(n, "k")
    l = te.reduce_axis(3, "l")
    program = lower([te.compute((1,), lambda i: te.sum(x[k, l], (k, l), lanes=4), "y")], "main")
    given = values(size, 3)
    assert interpret(program, {"x": given})["y"][0] == in_lanes(given.reshape(-1), 4)


def test_in_a_scan():
    x, k = te.placeholder((4, 10), "float32", "x"), te.reduce_axis(10, "k")

    def step(state, t):
        return te.compute((1,), lambda i: te.sum(x[t, k] * state[t - 1, i], k, lanes=4), "next")

    y = te.scan((4, 1), lambda i: x[0, i], step, "y")
    given = values(4, 10)
    found = interpret(lower([y], "main"), {"x": given})["y"][:, 0]
    wanted = [given[0, 0]]
    for t in range(1, 4):
        wanted.append(in_lanes(given[t] * wanted[-1], 4))
    assert found.tolist() == wanted


@pytest.mark.parametrize("lanes", [0, 3, 128, -2, 2.0])
def test_lanes_wrong(lanes):
    with pytest.raises(ValueError, match="^Lanes of sum must be a power of two from 2 to 64, "
                                         f"not {lanes!r}$"):
        sums(8, lanes=lanes)


def test_several_symbols_wrong():
    n, m = te.symbol("n"), te.symbol("m")
    x = te.placeholder((n, m), "float32", "x")
    k, l = te.reduce_axis(n, "k"), te.reduce_axis(m, "l")
    with pytest.raises(ValueError, match="^Extent of l must be a number, as it is of all axes but "
                                         "the first of a sum in lanes$"):
        te.compute((1,), lambda i: te.sum(x[k, l], (k, l), lanes=4), "y")


def test_among_several_values_wrong():
    x, k = te.placeholder((8,), "float32", "x"), te.reduce_axis(8, "k")
    with pytest.raises(ValueError, match="^Sum in lanes in y must be all that a compute defines$"):
        te.compute((1,), lambda i: (te.sum(x[k], k, lanes=4), x[i]), ("y", "z"))
    with pytest.raises(ValueError, match="^Sum in lanes in s must be all that a compute defines$"):
        te.scan((4,), lambda: te.sum(x[k], k, lanes=4),
                lambda s, t: te.compute((), lambda: s[t - 1], "next"), "s")


def test_inside_of_an_expression_wrong():
    x, k = te.placeholder((8,), "float32", "x"), te.reduce_axis(8, "k")
    with pytest.raises(TypeError):
        te.compute((1,), lambda i: te.sum(x[k], k, lanes=4) + x[i], "y")
