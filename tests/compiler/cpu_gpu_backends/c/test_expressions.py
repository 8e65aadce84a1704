"""Every operator on every type, in C against the reference arithmetic, bit for bit."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.c.kernels import kernels_text
from compiler.ir import interpret, lower
from compiler.te import ARITHMETIC, BITWISE, COMPARISONS, Binary, Call
from tests.compiler.cpu_gpu_backends.checks import FLOATS, INTEGERS, edges, pairs
from tests.support.c_text import call, compile_c, needs_c

pytestmark = needs_c

DIVISIONS = ("floordiv", "mod")
EXACT = ("abs", "sqrt", "floor", "ceil", "rint")
FUNCTIONS = ("exp", "log", "tanh", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
             "cosh", "asinh", "acosh", "atanh")
PIXEL = te.record("c_pixel", level="int16", alpha="float32", half="float16", on="bool",
                  wide="float64", count="uint8")

Arrays = dict[str, np.ndarray]
Case = tuple[te.Tensor, Arrays, float]      # relative tolerance last


def binary(op: str, dtype: str, a: np.ndarray, b: np.ndarray) -> Case:
    x, y = (te.placeholder(a.shape, dtype, name) for name in "ab")
    return te.compute(a.shape, lambda i: Call(op, (x[i], y[i])) if op == "pow" else Binary(
        op, x[i], y[i]), "y"), {"a": a, "b": b}, 0


def constant(value: float, dtype: str) -> Case:
    return te.compute((2,), lambda i: te.select(i < 1, te.const(value, dtype), 1.0), "y"), {}, 0


def unary(dtype: str, values: np.ndarray, body: Callable, rtol: float = 0) -> Case:
    x = te.placeholder(values.shape, dtype, "a")
    return te.compute(values.shape, lambda i: body(x[i]), "y"), {"a": values}, rtol


def integers():
    for dtype in INTEGERS:
        for op in sorted((ARITHMETIC | BITWISE | COMPARISONS) - {"div", "rshift_rne"}):
            a, b = pairs(dtype)
            keep = b != 0 if op in DIVISIONS else slice(None)
            yield f"{op}_{dtype}", binary(op, dtype, a[keep], b[keep])
        a, b = pairs(dtype)
        short = (b != 0) & (abs(a.astype(float)) < 2**52) & (abs(b.astype(float)) < 2**52)
        if dtype.startswith("i"):
            short &= ~((a == np.iinfo(dtype).min) & (b == -1))
        yield f"div_{dtype}", binary("div", dtype, a[short], b[short])
        limit = np.iinfo(dtype).bits
        amounts = np.tile(np.arange(limit), len(a)).astype(dtype)
        yield f"rshift_rne_{dtype}", binary("rshift_rne", dtype, np.repeat(a, limit), amounts)
        yield f"abs_{dtype}", unary(dtype, edges(dtype), te.abs)
        for op, numbers in (("floordiv", (1, 3, 8, -1, -5)), ("mod", (1, 3, 8, -1, -5)),
                            ("shl", (0, 7, 31, 63)), ("shr", (0, 7, 31, 63))):
            for number in numbers:
                if number > 0 or number == 0 or dtype.startswith("i"):
                    yield f"{op}_by_{number}_{dtype}".replace("-", "m"), unary(
                        dtype, a, lambda x, op=op, number=number, dtype=dtype: Binary(
                            op, x, te.const(number, dtype)))


def floats():
    for op in ("and", "or", "xor", "eq", "ne", "lt", "ge", "min", "max", "add", "mul"):
        yield f"{op}_bool", binary(op, "bool", *pairs("bool"))
    for dtype in FLOATS:
        a, b = pairs(dtype)
        for op in sorted(ARITHMETIC | COMPARISONS):
            some = (a != 0) | (b != 0) if op in ("min", "max") else slice(None)
            yield f"{op}_{dtype}", binary(op, dtype, a[some], b[some])
        tolerance = 4 * float(ml_dtypes.finfo(dtype).eps)
        for function in (*EXACT, *FUNCTIONS):
            yield f"{function}_{dtype}_function", unary(
                dtype, edges(dtype), lambda x, function=function: Call(function, (x,)),
                0 if function in EXACT else tolerance)
        a, b = (np.array(values).astype(dtype) for values in
                ([2, 0.5, -2, -2, 0, 0, 9, np.inf], [10, -3, 3, 0.5, 0, -1, 0.5, -1]))
        yield f"pow_{dtype}", (binary("pow", dtype, a, b)[0], {"a": a, "b": b}, tolerance)
        for value in (0.1, -0.0, float("inf"), float("-inf"), float("nan"), 1e-42):
            name = f"constant_{value}_{dtype}".replace(".", "_").replace("-", "m")
            yield name, constant(value, dtype)
    ties = np.array([1 + 2**-11, 1 + 2**-12, -1 - 2**-11], np.float32)
    yield "tf32", unary("float32", np.concatenate([edges("float32"), ties]), te.tf32)


def casts():
    for source in (*INTEGERS, *FLOATS, "bool"):
        for target in (*INTEGERS, *FLOATS, "bool"):
            values = edges(source)
            if source in FLOATS and target in INTEGERS:     # NumPy leaves the rest to the processor
                info = np.iinfo(target)
                values = values[[info.min <= float(v) <= info.max // 2 for v in values]]
            yield f"{source}_to_{target}", unary(source, values, lambda x, target=target: te.cast(
                x, target))
    fine = np.array([1 + 2**-11 + 2**-30, 1 + 3 * 2**-11 - 2**-40, 2**-25 + 2**-60, 65519.999999,
                     65520.0, 1e300, -1e-300, 2**-24 * 1.5], np.float64)
    yield "rounded_once", unary("float64", fine, lambda x: te.cast(x, "float16"))


def others():
    a = te.placeholder((64,), "int32", "a")
    given = {"a": np.arange(64, dtype=np.int32) * 1001}
    yield "indices", (te.compute((64,), lambda i: a[(i * 7 + 3) % 64] + te.cast(
        (i - 40) // 7 * 1000 + (i - 40) % 7, "int32") + te.cast(i * 100_000_000_000, "int32"),
        "y"), given, 0)
    yield "wide", (te.compute((64,), lambda i: te.select(i < 9, te.const(3, "int64"), 5) * te.const(
        2_000_000_000, "int64") + te.cast(a[i], "int64"), "y"), given, 0)
    yield "guarded", (te.compute((70,), lambda i: te.select(
        te.all_of(i >= 3, i < 67), a[i - 3], -1), "y"), given, 0)
    yield "twice", (te.compute((64,), lambda i: te.select((a[i] * a[i] + 7 >> 3) < 99, (
        a[i] * a[i] + 7 >> 3) - 5, (a[i] * a[i] + 7 >> 3) * 2), "y"), given, 0)
    p = te.placeholder((5,), PIXEL, "p")
    records = np.zeros(5, te.numpy_dtype(PIXEL))
    records["level"], records["alpha"] = [-2, -1, 0, 300, -32768], [0.5, -1, np.inf, 1e-42, 3]
    records["half"], records["on"], records["wide"] = [1, 2.5, -0.0, 6e4, 1e-7], True, 1 / 3
    records["on"][2], records["count"] = False, [0, 1, 255, 128, 7]
    yield "records", (te.compute((5,), lambda i: te.select(
        p[i].on, te.cast(p[i].alpha, "float64") + p[i].wide, te.cast(p[i].level, "float64"))
        + te.cast(p[i].half, "float64") * te.cast(p[i].count, "float64"), "y"), {"p": records}, 0)


GROUPS = {"integers": integers, "floats": floats, "casts": casts, "others": others}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("flags", [
    ("-O0",), pytest.param(("-O3", "-march=native"), marks=pytest.mark.slow),
    pytest.param(("-O1", "-fsanitize=undefined", "-fno-sanitize-recover"), marks=pytest.mark.slow)],
    ids=" ".join)
def test_every_operator_on_every_type(group, flags, tmp_path):
    cases = {f"f_{name}": case for name, case in GROUPS[group]()}
    programs = {name: lower([tensor], name) for name, (tensor, _, _) in cases.items()}
    library = compile_c(kernels_text(programs), tmp_path, *flags)
    for name, (_, inputs, rtol) in cases.items():
        wanted = interpret(programs[name], inputs)["y"]
        assert_same(call(library, name, programs[name], inputs)["y"], wanted, rtol, name)


def assert_same(found: np.ndarray, wanted: np.ndarray, rtol: float, name: str) -> None:
    assert found.dtype == wanted.dtype
    if wanted.dtype == ml_dtypes.bfloat16:          # NumPy does not know its NaN
        found, wanted = found.astype(np.float32), wanted.astype(np.float32)
    if rtol:
        np.testing.assert_allclose(found, wanted, rtol, err_msg=name)
        return
    np.testing.assert_array_equal(found, wanted, name)
    if wanted.dtype.kind == "f":
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(wanted)[number], name)


def test_conversions_that_do_not_fit_saturate(tmp_path):
    x = te.placeholder((4,), "float32", "a")
    program = lower([te.compute((4,), lambda i: te.cast(x[i], "int8"), "y")], "p")
    values = np.array([1e9, -1e9, np.nan, -np.inf], np.float32)
    found = call(compile_c(kernels_text({"f": program}), tmp_path), "f", program, {"a": values})
    assert found["y"].tolist() == [127, -128, 0, -128]


def test_division_by_zero_does_not_trap(tmp_path):
    zeros = {dtype: {"a": np.arange(4).astype(dtype), "b": np.zeros(4, dtype)}
             for dtype in INTEGERS}
    programs = {f"f_{op}_{dtype}": lower([binary(op, dtype, *arrays.values())[0]], op)
                for dtype, arrays in zeros.items() for op in ("div", *DIVISIONS)}
    library = compile_c(kernels_text(programs), tmp_path)
    for name, program in programs.items():
        call(library, name, program, zeros[program.inputs[0].dtype])


def test_bitwise_operators_of_floats_wrong():
    x = te.placeholder((2,), "float32", "a")
    with pytest.raises(ValueError, match="^Operands of xor must be integers, not float32$"):
        kernels_text({"f": lower([te.compute((2,), lambda i: x[i] ^ x[i], "y")], "p")})
