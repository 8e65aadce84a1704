"""Every operator in C, in all dialects, against the interpreter."""

from functools import cache, partial

import numpy as np
import pytest

from compiler import te
from tests.support.gpu_schedules import schedule_elementwise
from compiler.cpu_gpu_backends.simt.generate import generate_all
from compiler.ir import Program, interpret
from compiler.te import Binary, Call, numpy_dtype
from runtime.devices.device import DeviceMissing
from runtime.devices.emulated import EmulatedDevice
from tests.support.kernels import compute
from runtime.devices.opencl import OpenClDevice
from tests.support.effort import Effort
from tests.support.metal import computed_as_cxx

INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64")
OPS = ("add", "sub", "mul", "min", "max", "floordiv", "mod", "and", "or", "xor", "shl", "shr",
       "rshift_rne", "lt", "ge", "eq")
FLOAT_OPS = ("add", "sub", "mul", "div", "min", "max", "lt", "ne")
FUNCTIONS = ("abs", "exp", "log", "sqrt", "tanh", "erf", "floor", "ceil", "rint", "tf32",
             "sin", "atan", "sinh", "asinh")
SIZE = 64


def values(dtype: str, rng: np.random.Generator, positive: bool = False) -> np.ndarray:
    """Random numbers, the first of which are the same for every operand."""
    if dtype.startswith("float"):
        found = rng.normal(size=SIZE).astype(dtype)
        found = np.abs(found) + np.float32(0.5) if positive else found
    else:
        info = np.iinfo(dtype)
        found = rng.integers(1 if positive else info.min, 7 if positive else info.max, SIZE, dtype,
                             endpoint=True)
    found[:7] = range(1, 8)
    return found


def binary(op: str, dtype: str):
    a, b = (te.placeholder((SIZE,), dtype, name=name) for name in "ab")
    return te.compute((SIZE,), lambda i: te.cast(Binary(op, a[i], b[i]), (
        "int32" if op in te.COMPARISONS else dtype)), name="y")


def unary(function: str):
    a = te.placeholder((SIZE,), "float32", name="a")
    return te.compute((SIZE,), lambda i: Call(function, (te.abs(a[i]) if function in ("log", "sqrt")
                                                         else a[i],)), name="y")


def cast(source: str, target: str):
    a = te.placeholder((SIZE,), source, name="a")
    return te.compute((SIZE,), lambda i: te.cast(a[i], target), name="y")


def index_arithmetic():
    a = te.placeholder((SIZE,), "int32", name="a")
    return te.compute((SIZE,), lambda i: a[(i * 7 + 3) % SIZE] + te.cast(
        (i - 40) // 7 * 1000 + (i - 40) % 7, "int32") + te.cast(i * 100_000_000_000, "int32"),
        name="y")


def chosen_index():
    """The greater of a number of 64 bits and a choice of indices, which are narrower."""
    a = te.placeholder((SIZE,), "int64", name="a")
    return te.compute((SIZE,), lambda i: te.maximum(a[i], te.select(
        a[i] > 0, i, te.const(-1, "int64"))), name="y")


NESTED = ("add", "sub", "mul", "and", "or", "xor", "min", "max")
INNER = {**{op: partial(Binary, op) for op in NESTED},
         "abs": lambda a, b: te.abs(a ^ b), "select": lambda a, b: te.select(a < b, b, a),
         "cast": lambda a, b: te.cast(te.cast(a, "int16") - 5, a.dtype)}


def nested(outer: str, dtype: str):
    """An operator of every kind of expression, on either side, in one number."""
    a, b = (te.placeholder((SIZE,), dtype, name=name) for name in "ab")

    def value(i):
        total, x, y = te.const(1, dtype), a[i], b[i]
        for inside in INNER.values():
            total = total * 3 + Binary(outer, inside(x, y), x)
            total = total * 3 + Binary(outer, y, inside(x, y))
        return total

    return te.compute((SIZE,), value, name="y")


COMPUTED = {
    **{f"{op}_{dtype}": binary(op, dtype) for dtype in INTEGERS for op in OPS},
    **{f"{op}_float32": binary(op, "float32") for op in FLOAT_OPS},
    **{f"{function}_function": unary(function) for function in FUNCTIONS},
    **{f"{source}_to_{target}": cast(source, target) for source in ("int8", "int32", "uint8")
       for target in (*INTEGERS, "float32", "bool") if source != target},
    **{f"nested_{op}_{dtype}": nested(op, dtype) for op in NESTED
       for dtype in ("uint8", "int16", "int64")},
    "indices": index_arithmetic(), "chosen_index": chosen_index(),
}


@cache
def programs_of_all() -> list[Program]:
    return [schedule_elementwise(y, name, 16).program for name, y in COMPUTED.items()]


DIALECTS = ("cuda", "opencl", "metal")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_operator(rng: np.random.Generator, dialect: str) -> None:
    try:
        run = computed_as_cxx if dialect == "metal" else partial(
            compute, EmulatedDevice() if dialect == "cuda" else OpenClDevice())
    except DeviceMissing as error:
        pytest.skip(str(error))
    if Effort.quick:        # of integers all operators, each on some types; of others a third
        first, whole = DIALECTS.index(dialect), len(INTEGERS) * len(OPS)
        programs = programs_of_all()[first:whole:5] + programs_of_all()[whole + first::3]
    else:
        programs = programs_of_all()
    for program, code in zip(programs, generate_all(programs, dialect)):
        inputs = {b.name: values(b.dtype, rng, b.name == "b") for b in program.inputs}
        found, wanted = run(code, inputs)["y"], interpret(program, inputs)["y"]
        assert found.dtype == numpy_dtype(program.outputs[0].dtype)
        if program.name.endswith("_function"):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=program.name)
        else:
            np.testing.assert_array_equal(found, wanted, err_msg=program.name)
