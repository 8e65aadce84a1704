"""Functions that are written out: their largest errors, in units in the last place."""

import math

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.llvm import build, emit, optimized
from compiler.cpu_gpu_backends.llvm.machine import MACHINES, host
from compiler.ir import Program, lower
from compiler.schedule import Schedule
from compiler.te import Call

EXACT = {"exp": np.exp, "log": np.log, "tanh": np.tanh,
         "erf": lambda x: np.array([math.erf(value) for value in x])}
BOUNDS = {"exp": 1.5, "log": 1.0, "tanh": 1.5, "erf": 1.5}      # as `functions` says
SIZE = 1 << 16


def applied(name: str, dtype: str, size: int = SIZE) -> Program:
    x = te.placeholder((size,), dtype, "x")
    return lower([te.compute((size,), lambda i: Call(name, (x[i],)), "y")], name)


def worst(name: str, program: Program, machine, stride: int) -> float:
    kernel, largest = build(program, machine), 0.0
    patterns = np.arange(0, 1 << 32, stride, dtype=np.uint64).astype(np.uint32)
    for begin in range(0, len(patterns), SIZE):
        x = np.resize(patterns[begin:begin + SIZE], SIZE).view(np.float32)
        found = kernel.compute({"x": x})["y"]
        with np.errstate(all="ignore"):
            exact = EXACT[name](x.astype(np.float64))
            rounded = exact.astype(np.float32)
            unit = np.spacing(np.abs(rounded)).astype(np.float64)
            same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
            error = np.where(same, 0, np.abs(found - exact) / unit)
        assert not np.isnan(error).any()
        assert (np.signbit(found) == np.signbit(rounded))[~np.isnan(rounded)].all()
        largest = max(largest, error.max())
    return largest


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", BOUNDS)
def test_largest_error(name, fused):
    machine = host()
    if not fused and machine.has("fma"):
        machine = machine.without("fma")
    assert worst(name, applied(name, "float32"), machine, 9973) <= BOUNDS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDS)
def test_largest_error_of_many(name):
    assert worst(name, applied(name, "float32"), host(), 61) <= BOUNDS[name]


@pytest.mark.parametrize("name", BOUNDS)
def test_loops_become_vectors_and_need_no_library(name):
    text = optimized(emit(applied(name, "float32")), MACHINES["x86-64-v3"])
    assert " x float>" in text and "declare float" not in text and "@expf" not in text


@pytest.mark.parametrize("name", BOUNDS)
def test_doubles_are_those_of_the_c_library(name, rng):
    x = rng.normal(size=64) ** 2
    found = build(applied(name, "float64", 64)).compute({"x": x})["y"]
    np.testing.assert_allclose(found, [getattr(math, name)(v) for v in x], rtol=1e-15)


def test_exponentials_are_the_same_with_and_without_an_instruction_for_powers_of_two():
    """Also where results are subnormal, overflow, or are no numbers."""
    if not host().has("avx512f"):
        pytest.skip("needs a processor with avx512f")
    x = te.placeholder((SIZE,), "float32", "x")
    s = Schedule([te.compute((SIZE,), lambda i: te.exp(x[i]), "y")])
    s["y"].vectorize(s["y"].split("i", 16)[1])
    patterns = np.arange(0, 1 << 32, 65537, dtype=np.uint64).astype(np.uint32)[:SIZE // 2]
    near = np.linspace(-106, 90, SIZE - len(patterns)).astype(np.float32)
    given = np.concatenate([patterns.view(np.float32), near])
    kernels = [build(s.program, machine) for machine in (host(), host().without("avx512f"))]
    assert ["scalef" in kernel.text for kernel in kernels] == [True, False]
    found, wanted = (kernel.compute({"x": given})["y"] for kernel in kernels)
    np.testing.assert_array_equal(found, wanted)
    assert (wanted[wanted > 0] < np.finfo(np.float32).tiny).sum() > 100


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["rint", "floor", "ceil"])
@pytest.mark.skipif(host().architecture != "x86_64", reason="needs an x86-64 processor")
def test_roundings_without_an_instruction_are_those_of_numpy(name: str, dtype: str) -> None:
    """SSE2 has none."""
    around = np.array([0, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 2.0 ** 9 + 0.5, 2.0 ** 10 - 0.5, 2.0 ** 11,
                       np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal,
                       *(2.0 ** exponent * part for exponent in (22, 23, 51, 52)
                         for part in (0.5 + 2.0 ** -21, 1, 1.5) if dtype != "float16")], dtype)
    values = np.concatenate([around, -around])
    program = applied(name, dtype, len(values))
    found = build(program, MACHINES["x86-64"]).compute({"x": values})["y"]
    wanted = getattr(np, name)(values)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
