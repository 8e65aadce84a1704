"""Every operator on every type, native against the reference arithmetic, bit for bit."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.llvm import Processor, build
from compiler.ir import interpret, lower
from compiler.te import ARITHMETIC, BITWISE, COMPARISONS, Binary, Call
from tests.compiler.cpu_gpu_backends.checks import FLOATS, INTEGERS, edges, marked, pairs

DIVISIONS = ("div", "floordiv", "mod")
EXACT = ("abs", "sqrt", "floor", "ceil", "rint")
FUNCTIONS = ("exp", "log", "tanh", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
             "cosh", "asinh", "acosh", "atanh")


def assert_same(tensor: te.Tensor, inputs: dict[str, np.ndarray], rtol: float = 0) -> None:
    program = lower([tensor], "p")
    expected = interpret(program, inputs)[tensor.name]
    if tensor.dtype == "bfloat16":
        expected = expected.astype(np.float32)
    for kind in ("serial", "vectorize"):
        found = build(marked(program, **{f"{tensor.name}_i": kind})).compute(inputs)[tensor.name]
        assert found.dtype == te.numpy_dtype(tensor.dtype)
        if tensor.dtype == "bfloat16":          # NumPy does not know its NaN
            found = found.astype(np.float32)
        if rtol:
            np.testing.assert_allclose(found, expected, rtol)
            continue
        np.testing.assert_array_equal(found, expected)
        if te.is_float(tensor.dtype):
            number = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(expected)[number])


def binary(op: str, dtype: str, a: np.ndarray, b: np.ndarray) -> None:
    x, y = (te.placeholder(a.shape, dtype, name) for name in "ab")
    assert_same(te.compute(a.shape, lambda i: Binary(op, x[i], y[i]), "y"), {"a": a, "b": b})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op, dtype", [*product(sorted((ARITHMETIC | BITWISE | COMPARISONS)
                                                       - {"div", "rshift_rne"}), INTEGERS)])
def test_integers(op, dtype):
    a, b = pairs(dtype)
    if op in DIVISIONS:
        a, b = a[b != 0], b[b != 0]
    binary(op, dtype, a, b)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_of_integers_truncates(dtype):
    """The reference divides in floating point, exactly for numbers as short as these."""
    a, b = pairs(dtype)
    short = (b != 0) & (abs(a.astype(float)) < 2 ** 52) & (abs(b.astype(float)) < 2 ** 52)
    if dtype.startswith("i"):
        short &= ~((a == np.iinfo(dtype).min) & (b == -1))
    binary("div", dtype, a[short], b[short])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", DIVISIONS)
def test_division_by_zero_does_not_trap(op, dtype):
    x, y = (te.placeholder((4,), dtype, name) for name in "ab")
    kernel = build(lower([te.compute((4,), lambda i: Binary(op, x[i], y[i]), "y")], "p"))
    kernel.compute({"a": np.arange(4).astype(dtype), "b": np.zeros(4, dtype)})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op, divisor, dtype", [*product(
    ["floordiv", "mod"], [1, 2, 3, 8, 100, -1, -2, -5], INTEGERS)])
def test_constant_divisors(op, divisor, dtype):
    if divisor < 0 and dtype.startswith("u"):
        return
    a, _ = pairs(dtype)
    x = te.placeholder(a.shape, dtype, "a")
    assert_same(te.compute(a.shape, lambda i: Binary(op, x[i], te.const(divisor, dtype)), "y"),
                {"a": a})


@pytest.mark.parametrize("dtype", INTEGERS)
def test_rounding_shift(dtype):
    a, _ = pairs(dtype)
    limit = np.iinfo(dtype).bits
    values, amounts = np.repeat(a, limit), np.tile(np.arange(limit), len(a)).astype(dtype)
    binary("rshift_rne", dtype, values, amounts)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op, amount, dtype", [*product(
    ["shl", "shr"], [0, 1, 7, 8, 16, 31, 32, 64, 100], INTEGERS)])
def test_constant_shifts(op, amount, dtype):
    a, _ = pairs(dtype)
    x = te.placeholder(a.shape, dtype, "a")
    assert_same(te.compute(a.shape, lambda i: Binary(op, x[i], te.const(amount, dtype)), "y"),
                {"a": a})


@pytest.mark.parametrize("op", ["and", "or", "xor", "eq", "ne", "lt", "ge", "min", "max", "add",
                                "mul"])
def test_conditions(op):
    binary(op, "bool", *pairs("bool"))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", sorted((ARITHMETIC | COMPARISONS) - {"min", "max"}))
def test_floats(op, dtype):
    binary(op, dtype, *pairs(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["min", "max"])
def test_extrema_of_floats(op, dtype):
    """NaN wins. Which zero does is left open by NumPy, so the pairs of two zeros are left out."""
    a, b = pairs(dtype)
    some = (a != 0) | (b != 0)
    binary(op, dtype, a[some], b[some])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("op", ["min", "max"])
def test_extrema_of_floats_by_their_bits(op, dtype, monkeypatch):
    """As for processors without floats; of two zeros the negative one is less."""
    monkeypatch.setattr(Processor, "floats", ())
    a, b = pairs(dtype)
    some = (a != 0) | (b != 0)
    binary(op, dtype, a[some], b[some])
    x, y = (te.placeholder((2,), dtype, name) for name in "ab")
    zeros = build(lower([te.compute((2,), lambda i: Binary(op, x[i], y[i]), "y")], "p")).compute(
        {"a": np.array([0, -0.0], dtype), "b": np.array([-0.0, 0], dtype)})["y"]
    assert np.signbit(zeros).tolist() == [op == "min"] * 2


@pytest.mark.one_in(3)
@pytest.mark.parametrize("function, dtype", [*product((*EXACT, *FUNCTIONS), FLOATS)])
def test_functions(function, dtype):
    values = edges(dtype)
    x = te.placeholder(values.shape, dtype, "a")
    tolerance = 0 if function in EXACT else 4 * float(ml_dtypes.finfo(dtype).eps)
    assert_same(te.compute(values.shape, lambda i: Call(function, (x[i],)), "y"), {"a": values},
                tolerance)


@pytest.mark.parametrize("dtype", FLOATS)
def test_powers(dtype):
    a, b = (np.array(values).astype(dtype) for values in
            ([2, 0.5, -2, -2, 0, 0, 9, np.inf], [10, -3, 3, 0.5, 0, -1, 0.5, -1]))
    x, y = (te.placeholder(a.shape, dtype, name) for name in "xy")
    assert_same(te.compute(a.shape, lambda i: Call("pow", (x[i], y[i])), "z"), {"x": a, "y": b},
                4 * float(ml_dtypes.finfo(dtype).eps))


def test_floats_as_tensor_cores_take_them():
    ties = np.array([1 + 2**-11, 1 + 2**-12, -1 - 2**-11], np.float32)
    values = np.concatenate([edges("float32"), ties])
    x = te.placeholder(values.shape, "float32", "a")
    assert_same(te.compute(values.shape, lambda i: te.tf32(x[i]), "y"), {"a": values})


@pytest.mark.parametrize("dtype", INTEGERS)
def test_absolute_values_of_integers(dtype):
    values = edges(dtype)
    x = te.placeholder(values.shape, dtype, "a")
    assert_same(te.compute(values.shape, lambda i: te.abs(x[i]), "y"), {"a": values})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source, target", [*product((*INTEGERS, *FLOATS, "bool"), repeat=2)])
def test_casts(source, target):
    values = edges(source)
    if source in FLOATS and target in INTEGERS:     # NumPy leaves the rest to the processor
        info = np.iinfo(target)
        values = values[[info.min <= float(v) <= info.max // 2 for v in values]]
    x = te.placeholder(values.shape, source, "a")
    assert_same(te.compute(values.shape, lambda i: te.cast(x[i], target), "y"), {"a": values})


def test_conversions_that_do_not_fit_saturate():
    x = te.placeholder((4,), "float32", "a")
    kernel = build(lower([te.compute((4,), lambda i: te.cast(x[i], "int8"), "y")], "p"))
    values = np.array([1e9, -1e9, np.nan, -np.inf], np.float32)
    assert kernel.compute({"a": values})["y"].tolist() == [127, -128, 0, -128]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value", [0.1, -0.0, float("inf"), float("-inf"), float("nan"), 1e-42])
def test_constants(value, dtype):
    assert_same(te.compute((2,), lambda i: te.select(i < 1, te.const(value, dtype), 1.0), "y"), {})


def test_bitwise_operators_of_floats_wrong():
    x = te.placeholder((2,), "float32", "a")
    with pytest.raises(TypeError, match="^Operands of xor must be integers, not float32$"):
        build(lower([te.compute((2,), lambda i: x[i] ^ x[i], "y")], "p"))
