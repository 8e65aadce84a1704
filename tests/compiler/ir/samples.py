"""Small computations that many tests schedule, and data for them."""

import numpy as np

from compiler import te
from compiler.ir import Program, interpret, verify
from compiler.ops.integers.arithmetic import PARAM, requantize
from compiler.te import Tensor


def scaled(n: int = 10) -> Tensor:
    """``b[i] = 3 * a[i]``, ``c[i] = b[i] + 1``, int32."""
    a = te.placeholder((n,), "int32", "a")
    b = te.compute((n,), lambda i: a[i] * 3, "b")
    return te.compute((n,), lambda i: b[i] + 1, "c")


def matmul(m: int = 4, n: int = 6, k: int = 8, dtype: str = "int32") -> Tensor:
    """``c = x @ y``."""
    x, y = te.placeholder((m, k), dtype, "x"), te.placeholder((k, n), dtype, "y")
    r = te.reduce_axis(k, "k")
    return te.compute((m, n), lambda i, j: te.sum(x[i, r] * y[r, j], r), "c")


def shifted(n: int = 10, reach: int = 2) -> Tensor:
    """``c[i] = b[i] + b[i + reach]`` where ``b = 2 * a`` has `reach` more elements."""
    a = te.placeholder((n + reach,), "int32", "a")
    b = te.compute((n + reach,), lambda i: a[i] * 2, "b")
    return te.compute((n,), lambda i: b[i] + b[i + reach], "c")


def convolution(size=(5, 5), ci=2, co=2, kernel=3, stride=1, padding=1, zero=3,
                block=(1, 4, 4)) -> Tensor:
    """An int8 convolution of blocked tensors: pad, accumulate, requantize."""
    (h, w), (b, bi, bo), k, p, s = size, block, kernel, padding, stride
    oh, ow = (h + 2 * p - k) // s + 1, (w + 2 * p - k) // s + 1
    x = te.placeholder((1, h, w, ci, b, bi), "int8", "x")
    weight = te.placeholder((co, k, k, ci, bo, bi), "int8", "w")
    par = te.placeholder((co, bo), PARAM, "par")

    def padded(n, y, x_, c, l, i):
        inside = te.all_of(y >= p, y < h + p, x_ >= p, x_ < w + p)
        return te.select(inside, x[n, y - p, x_ - p, c, l, i], zero)

    pad = te.compute((1, h + 2 * p, w + 2 * p, ci, b, bi),
                     lambda n, h, w, c, b, i: padded(n, h, w, c, b, i), "pad")
    kh, kw = te.reduce_axis(k, "kh"), te.reduce_axis(k, "kw")
    c, i = te.reduce_axis(ci, "ci"), te.reduce_axis(bi, "i")
    acc = te.compute((1, oh, ow, co, b, bo), lambda n, oh, ow, co, b, o: te.sum(
        pad[n, oh * s + kh, ow * s + kw, c, b, i].astype("int32")
        * weight[co, kh, kw, c, o, i].astype("int32"), (kh, kw, c, i)), "acc")
    return te.compute((1, oh, ow, co, b, bo), lambda n, oh, ow, co, b, o: requantize(
        acc[n, oh, ow, co, b, o], par[co, o].bias, par[co, o].mult, par[co, o].shift,
        zero, -128, 127).astype("int8"), "out")


def arrays(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs of a program, small enough that requantized values differ."""
    rng = np.random.default_rng(seed)
    return {buffer.name: _array(buffer, rng) for buffer in program.inputs}


def _array(buffer, rng: np.random.Generator) -> np.ndarray:
    dtype = te.numpy_dtype(buffer.dtype)
    if te.is_record(buffer.dtype):
        array = np.zeros(buffer.shape, dtype)
        array["bias"] = rng.integers(-100, 100, buffer.shape)
        array["mult"] = rng.integers(1 << 15, 1 << 16, buffer.shape)
        array["shift"] = 24
        return array
    if te.is_float(buffer.dtype):
        return rng.integers(-3, 4, buffer.shape).astype(dtype)      # sums are exact in any order
    return rng.integers(-100, 100, buffer.shape).astype(dtype)


def assert_same_meaning(before: Program, after: Program, seed: int = 0):
    """Both compute the same, to the bit, and the second is well formed."""
    verify(after)
    inputs = arrays(before, seed)
    expected, found = interpret(before, inputs), interpret(after, inputs)
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert array.dtype == found[name].dtype
        np.testing.assert_array_equal(found[name], array, err_msg=name)
