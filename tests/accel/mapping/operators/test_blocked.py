"""Blocked int8 operators, unscheduled, against the reference of graphs; their arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.mapping.memory.layout import pack_weights
from accel.mapping.operators import blocked, pools
from accel.mapping.operators.blocked import (Activation, BlockedOperator, Blocks, Quantization,
                                             Window)
from compiler import te
from compiler.graph import Node, evaluate_node
from compiler.ops.records.windows import window_shape
from compiler.ir import interpret, lower, verify
from compiler.ops.integers.arithmetic import PARAM, add_scaled, requantize

BLOCKS = Blocks(2, 8, 4)
Q = Quantization(-3, -120, 99)
CLAMP = {"zp": -3, "lo": -120, "hi": 99}
WINDOW = Window((2, 3), (1, 2), (1, 0, 0, 2))
ATTRS = {"kernel": (2, 3), "strides": (1, 2), "pads": (1, 0, 0, 2)}


def stored(x: np.ndarray, activation: Activation, fill: int = 0, blocks: Blocks = BLOCKS
           ) -> np.ndarray:
    """An NCHW array in memory's layout; `fill` stands in the padding lanes."""
    n, c, h, w = x.shape
    if activation.plain:
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    groups, _, _, batch, padded = activation.stored_shape(blocks)
    whole = np.full((groups * batch, padded, h, w), fill, np.int8)
    whole[:n, :c] = x
    return np.ascontiguousarray(
        whole.reshape(groups, batch, padded, h, w).transpose(0, 3, 4, 1, 2))


def run(operator: BlockedOperator, arrays: dict[str, np.ndarray], n: int, c: int) -> np.ndarray:
    """The operator's output as NCHW, from arrays by role."""
    program = verify(lower([operator.output], "op"))
    named = {operator[role].name: array.reshape(operator[role].shape)
             for role, array in arrays.items()}
    (found,) = interpret(program, named).values()
    groups, height, width, batch, count, size = found.shape
    nchw = found.transpose(0, 3, 4, 5, 1, 2).reshape(groups * batch, count * size, height, width)
    return nchw[:n, :c]


def params(channels: int, rng, blocks: Blocks = BLOCKS) -> tuple[np.ndarray, list[np.ndarray]]:
    """Records of every padded channel, and bias, mult, shift of the logical ones."""
    record = np.zeros((blocks.padded(channels),), te.numpy_dtype(PARAM))
    record["bias"] = rng.integers(-5000, 5000, record.shape)
    record["mult"] = rng.integers(1 << 15, 1 << 16, record.shape)
    record["shift"] = rng.integers(20, 26, record.shape)
    return record, [record[key][:channels].astype(np.int32) for key in ("bias", "mult", "shift")]


images = pytest.mark.parametrize("plain", [True, False])


def activation(plain: bool, c: int, rng) -> tuple[Activation, np.ndarray]:
    return Activation(3, c, 4, 5, plain), rng.integers(-128, 128, (3, c, 4, 5)).astype(np.int8)


@images
def test_convolution(plain: bool, rng) -> None:
    known, x = activation(plain, 5, rng)
    weights = rng.integers(-128, 128, (6, 5, 2, 3)).astype(np.int8)
    padded = np.zeros((8, 8, 2, 3), np.int8)
    padded[:6, :5] = weights
    w = padded.reshape(2, 4, 1, 8, 2, 3).transpose(0, 4, 5, 2, 1, 3)
    record, vectors = params(6, rng)
    operator = blocked.convolution("c", known, 6, WINDOW, 9, Q, BLOCKS)
    found = run(operator, {"x": stored(x, known, 77), "w": w, "params": record}, 3, 6)
    node = Node("qconv2d", "c", (), (), {**ATTRS, "pad_value": 9, **CLAMP})
    wanted = evaluate_node(node, [x, weights, *vectors])
    assert 20 < wanted.std()
    np.testing.assert_array_equal(found, wanted)


@images
def test_convolution_by_blocks_that_do_not_divide_each_other(plain: bool, rng) -> None:
    """Seven channels are ten in memory, of which three blocks of three are read; what is in those
    beyond has no weight."""
    blocks = Blocks(2, 3, 5)
    known, x = activation(plain, 7, rng)
    weights = rng.integers(-128, 128, (6, 7, 2, 3)).astype(np.int8)
    record, vectors = params(6, rng, blocks)
    operator = blocked.convolution("c", known, 6, WINDOW, 9, Q, blocks)
    assert operator["input"].shape[3:] == (3, 2, 3) and operator.output.shape[4:] == (2, 5)
    found = run(operator, {"x": stored(x, known, 77, blocks), "params": record,
                           "w": pack_weights(weights, known, blocks)}, 3, 6)
    node = Node("qconv2d", "c", (), (), {**ATTRS, "pad_value": 9, **CLAMP})
    np.testing.assert_array_equal(found, evaluate_node(node, [x, weights, *vectors]))


@images
def test_max_pool(plain: bool, rng) -> None:
    known, x = activation(plain, 9, rng)
    window = Window((2, 3), (1, 2), (1, 0, 0, 2))
    found = run(pools.max_pool("m", known, window, BLOCKS), {"x": stored(x, known)}, 3, 9)
    wanted = evaluate_node(Node("qmaxpool", "m", (), (), ATTRS), [x])
    np.testing.assert_array_equal(found, wanted)


@images
def test_global_average(plain: bool, rng) -> None:
    known, x = activation(plain, 9, rng)
    record, _ = params(9, rng)
    record["bias"], record["mult"], record["shift"] = 60, 52429, 18
    operator = pools.global_average_pool("a", known, Q, BLOCKS)
    found = run(operator, {"x": stored(x, known), "params": record}, 3, 9)
    attrs = {"bias": 60, "mult": 52429, "shift": 18, **CLAMP}
    np.testing.assert_array_equal(found, evaluate_node(
        Node("qglobalavgpool", "a", (), (), attrs), [x]))


@images
def test_rescale(plain: bool, rng) -> None:
    known, x = activation(plain, 3, rng)
    record, _ = params(3, rng)
    record["bias"], record["mult"], record["shift"] = 5, 40000, 15
    found = run(blocked.rescale("r", known, Q, BLOCKS),
                {"x": stored(x, known), "params": record}, 3, 3)
    attrs = {"bias": 5, "mult": 40000, "shift": 15, **CLAMP}
    np.testing.assert_array_equal(found, evaluate_node(Node("qrescale", "r", (), (), attrs), [x]))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 3),
       st.integers(0, 3), st.integers(0, 3))
def test_a_window_has_the_outputs_of_the_graphs_rule(h, w, kernel, stride, low, high) -> None:
    if h + low + high < kernel or w + low + high < kernel:
        return
    window = Window((kernel, kernel), (stride, stride), (low, low, high, high))
    assert window.outputs(Activation(1, 1, h, w)) == window_shape(
        (h, w), window.kernel, window.strides, window.pads)


def folded(build, *values) -> int:
    """The value of an expression of constants, by the interpreter."""
    out = te.compute((1,), lambda i: build(*values), "out")
    return int(interpret(lower([out], "p"), {})["out"][0])


int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int8 = st.integers(-128, 127)


def rhe(value: int, amount: int) -> int:
    return round(Fraction(value, 1 << amount))


@given(int32, int32, st.integers(0, 65535), st.integers(0, 63), int8, int8, int8)
def test_requantize_rounds_the_exact_value_once(acc, bias, mult, shift, zp, lo, hi) -> None:
    def build(*values):
        types = ("int32", "int32", "uint16", "uint8")
        a, b, m, s = (te.const(v, t) for v, t in zip(values, types, strict=True))
        return requantize(a, b, m, s, zp, lo, hi)
    wanted = min(max(zp + rhe((acc + bias) * mult, shift), lo), hi)
    assert folded(build, acc, bias, mult, shift) == wanted


@given(int32, int32, st.integers(0, 65535), st.integers(0, 65535), int32, st.integers(0, 63),
       int8, int8, int8)
def test_add_scaled_rounds_the_exact_value_once(a, b, ma, mb, c, s, zp, lo, hi) -> None:
    wanted = min(max(zp + rhe(a * ma + b * mb + c, s), lo), hi)
    assert folded(lambda a, b: add_scaled(te.const(a, "int32"), te.const(b, "int32"), ma, mb, c,
                                          s, zp, lo, hi), a, b) == wanted
    variable = folded(lambda a, b: add_scaled(
        te.const(a, "int32"), te.const(b, "int32"), te.const(ma, "uint16"),
        te.const(mb, "uint16"), te.const(c, "int32"), te.const(s, "uint8"), te.const(zp, "int8"),
        te.const(lo, "int8"), te.const(hi, "int8")), a, b)
    assert variable == wanted
