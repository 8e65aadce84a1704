"""Integer operators against plain loops over Python integers and exact fractions."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from compiler.graph import Builder, Node, TensorType, evaluate, evaluate_node

CLAMP = {"zp": -7, "lo": -120, "hi": 110}


def int8(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def parameters(rng: np.random.Generator, channels: int) -> list[np.ndarray]:
    """Bias, multipliers and shifts that spread results over int8; one channel is off."""
    mult = rng.integers(2**15, 2**16, channels)
    mult[0] = 0
    return [rng.integers(-3000, 3000, channels).astype(np.int32), mult.astype(np.int32),
            rng.integers(21, 25, channels).astype(np.int32)]


def requantized(total: int, mult: int, shift: int, zp: int, lo: int, hi: int) -> int:
    return min(max(zp + round(Fraction(total * mult, 2**shift)), lo), hi)


def convolved(x, w, bias, mult, shift, strides, pads, value) -> np.ndarray:
    """One output at a time, in Python integers."""
    top, left, bottom, right = pads
    height, width = x.shape[2] + top + bottom, x.shape[3] + left + right
    wide = np.full((*x.shape[:2], height, width), value)
    wide[:, :, top:top + x.shape[2], left:left + x.shape[3]] = x
    rows = (height - w.shape[2]) // strides[0] + 1
    columns = (width - w.shape[3]) // strides[1] + 1
    made = np.zeros((x.shape[0], w.shape[0], rows, columns), np.int64)
    for n, c, i, j in product(*map(range, made.shape)):
        window = wide[n, :, i * strides[0]:, j * strides[1]:][:, :w.shape[2], :w.shape[3]]
        total = int((window.astype(int) * w[c].astype(int)).sum()) + int(bias[c])
        made[n, c, i, j] = requantized(total, int(mult[c]), int(shift[c]), **CLAMP)
    return made


@pytest.mark.parametrize(("size", "kernel", "strides", "pads"), [
    ((5, 6), (3, 3), (1, 1), (1, 1, 1, 1)),
    ((7, 5), (3, 2), (2, 1), (0, 1, 2, 0)),
    ((4, 4), (1, 1), (2, 2), (0, 0, 0, 0)),
    ((6, 9), (5, 7), (3, 4), (2, 3, 1, 2)),
    ((1, 1), (3, 3), (1, 1), (1, 1, 1, 1)),
])
def test_qconv2d(rng, size, kernel, strides, pads) -> None:
    x, w = int8(rng, 2, 3, *size), int8(rng, 4, 3, *kernel)
    bias, mult, shift = parameters(rng, 4)
    node = Node("qconv2d", "n", tuple("xwbms"), ("y",),
                {"strides": strides, "pads": pads, "pad_value": 77, **CLAMP})
    found = evaluate_node(node, [x, w, bias, mult, shift])
    assert found.dtype == np.int8
    np.testing.assert_array_equal(
        found, convolved(x, w, bias, mult, shift, strides, pads, 77))
    assert len(np.unique(found)) > 5 or found.size < 20


def test_qconv2d_of_many_images_in_chunks(rng, monkeypatch) -> None:
    x, w = int8(rng, 5, 3, 6, 6), int8(rng, 4, 3, 3, 3)
    node = Node("qconv2d", "n", tuple("xwbms"), ("y",),
                {"strides": (1, 1), "pads": (1, 1, 1, 1), "pad_value": 0, **CLAMP})
    rest = [w, *parameters(rng, 4)]
    whole = evaluate_node(node, [x, *rest])
    monkeypatch.setattr("compiler.ops.families.convolutions.CHUNK_ELEMENTS", 2 * 6 * 6 * 27)
    np.testing.assert_array_equal(evaluate_node(node, [x, *rest]), whole)


def test_qdense(rng) -> None:
    x, w = int8(rng, 6, 37), int8(rng, 5, 37)
    bias, mult, shift = parameters(rng, 5)
    found = evaluate_node(Node("qdense", "n", tuple("xwbms"), ("y",), CLAMP),
                          [x, w, bias, mult, shift])
    wanted = [[requantized(int(row.astype(int) @ w[c].astype(int)) + int(bias[c]), int(mult[c]),
                           int(shift[c]), **CLAMP) for c in range(5)] for row in x]
    assert found.tolist() == wanted


def test_accumulators_wrap_before_the_bias() -> None:
    """2**17 products of 2**14 sum to 2**31, which int32 reads as -2**31."""
    x, w = (np.full((1, 2**17), -128, np.int8) for _ in range(2))
    node = Node("qdense", "n", tuple("xwbms"), ("y",), {"zp": 0, "lo": -128, "hi": 127})
    one = [np.array([value], np.int32) for value in (-1, 2**15, 46)]
    assert evaluate_node(node, [x, w, *one]).item() == requantized(
        -2**31 - 1, 2**15, 46, 0, -128, 127) == -1
    one[2] = np.array([40], np.int32)
    assert evaluate_node(node, [x, w, *one]).item() == -64


def test_qadd_of_every_pair() -> None:
    a, b = (grid.astype(np.int8) for grid in np.meshgrid(np.arange(-128, 128),
                                                         np.arange(-128, 128)))
    attrs = {"ma": 45942, "mb": 21987, "c": 2584626, "shift": 16, **CLAMP}
    found = evaluate_node(Node("qadd", "n", ("a", "b"), ("y",), attrs), [a, b])
    for i, j in product(range(0, 256, 7), range(0, 256, 3)):
        total = int(a[i, j]) * 45942 + int(b[i, j]) * 21987 + 2584626
        assert found[i, j] == requantized(total, 1, 16, **CLAMP)


def test_qadd_rounds_ties_to_even() -> None:
    a = np.arange(-6, 7, dtype=np.int8)
    attrs = {"ma": 2**15, "mb": 0, "c": 0, "shift": 16, "zp": 0, "lo": -128, "hi": 127}
    found = evaluate_node(Node("qadd", "n", ("a", "b"), ("y",), attrs), [a, a])
    assert found.tolist() == [-3, -2, -2, -2, -1, 0, 0, 0, 1, 2, 2, 2, 3]


def test_qmaxpool_pads_with_the_lowest() -> None:
    x = np.array([[[[-128, -5], [-128, -128]]]], np.int8)
    attrs = {"kernel": (2, 2), "strides": (1, 1), "pads": (1, 1, 0, 0)}
    found = evaluate_node(Node("qmaxpool", "n", ("x",), ("y",), attrs), [x])
    assert found.tolist() == [[[[-128, -5], [-128, -5]]]]


def test_qglobalavgpool_rounds_half_to_even() -> None:
    """Averages of 2x2 windows: sums of -6 .. 6 over 4."""
    sums = np.arange(-6, 7)
    x = np.zeros((13, 1, 2, 2), np.int8)
    x[:, 0, 0, 0] = sums
    attrs = {"bias": 0, "mult": 2**15, "shift": 17, "zp": 0, "lo": -128, "hi": 127}
    found = evaluate_node(Node("qglobalavgpool", "n", ("x",), ("y",), attrs), [x])
    assert found.ravel().tolist() == [round(Fraction(int(s), 4)) for s in sums]


def test_qrescale_of_every_value() -> None:
    x = np.arange(-128, 128).astype(np.int8)
    attrs = {"bias": 5, "mult": 40000, "shift": 15, **CLAMP}
    found = evaluate_node(Node("qrescale", "n", ("x",), ("y",), attrs), [x])
    assert found.tolist() == [requantized(int(v) + 5, 40000, 15, **CLAMP) for v in x]


def test_quantize_and_dequantize() -> None:
    x = np.array([-1e9, -0.75, -0.25, 0, 0.25, 0.75, 1.25, 1e9, np.inf], np.float32)
    attrs = {"scale": 0.5, "zp": -128}
    q = evaluate_node(Node("quantize", "n", ("x",), ("y",), attrs), [x])
    assert q.tolist() == [-128, -128, -128, -128, -128, -126, -126, 127, 127]
    back = evaluate_node(Node("dequantize", "n", ("q",), ("y",), attrs), [q])
    assert back.dtype == np.float32
    assert back.tolist() == [0, 0, 0, 0, 0, 1, 1, 127.5, 127.5]


def test_stored_form_is_x_minus_128() -> None:
    x = np.arange(256).astype(np.uint8)
    q = evaluate_node(Node("to_int8", "n", ("x",), ("y",)), [x])
    assert q.dtype == np.int8
    assert q.tolist() == list(range(-128, 128))
    back = evaluate_node(Node("to_uint8", "n", ("q",), ("y",)), [q])
    assert back.dtype == np.uint8
    np.testing.assert_array_equal(back, x)


def two_steps():
    builder = Builder("g")
    builder.add_input("x", TensorType((2, 2), "float32"))
    builder.emit("relu", "r", ["x"], "h")
    builder.emit("reshape", "f", ["h"], "y", shape=(4,))
    return builder.finish(["y"])


def test_evaluate_gives_outputs_or_what_is_asked() -> None:
    x = np.array([[-1, 2], [3, -4]], np.float32)
    assert evaluate(two_steps(), {"x": x})["y"].tolist() == [0, 2, 3, 0]
    assert list(evaluate(two_steps(), {"x": x}, ["h", "x"])) == ["h", "x"]


@pytest.mark.parametrize(("feeds", "sentence"), [
    ({}, "input 'x' must be given"),
    ({"x": np.zeros((2, 2))}, "input 'x' must be float32[2,2], not float64[2,2]"),
    ({"x": np.zeros((1, 2), np.float32)}, "input 'x' must be float32[2,2], not float32[1,2]"),
    ({"x": np.zeros((2, 2), np.float32), "z": np.zeros(1)}, "input must be one of x, not 'z'"),
])
def test_evaluate_wrong(feeds: dict, sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011, compared below
        evaluate(two_steps(), feeds)
    assert str(refusal.value) == sentence
