"""`te.erf` on every back end, against the C library's error function in float64."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.c.kernels import kernels_text
from compiler.cpu_gpu_backends.llvm import build
from compiler.cpu_gpu_backends.simt.generate import generate_all
from compiler.graph import evaluate
from compiler.graph.graph import TensorType
from compiler.graph.rewrite import Builder
from compiler.ir import interpret, lower
from runtime.devices.emulated import EmulatedDevice
from tests.support.c_text import call, compile_c, needs_c
from tests.support.gpu_schedules import schedule_elementwise
from tests.support.kernels import compute

NUMBERS = np.concatenate([np.linspace(-4, 4, 61), [-np.inf, np.inf, 1e-30]]).astype(np.float32)


def tensor() -> te.Tensor:
    x = te.placeholder(NUMBERS.shape, "float32", "x")
    return te.compute(NUMBERS.shape, lambda i: te.erf(x[i]), "y")


def interpreted(folder: Path) -> np.ndarray:
    return interpret(lower([tensor()], "errors"), {"x": NUMBERS})["y"]


def native(folder: Path) -> np.ndarray:
    return build(lower([tensor()], "errors")).compute({"x": NUMBERS})["y"]


def in_c(folder: Path) -> np.ndarray:
    program = lower([tensor()], "errors")
    return call(compile_c(kernels_text({"errors": program}), folder), "errors", program,
                {"x": NUMBERS})["y"]


def on_gpu(folder: Path) -> np.ndarray:
    program = schedule_elementwise(tensor(), "errors", 16).program
    (code,) = generate_all([program])
    return compute(EmulatedDevice(), code, {"x": NUMBERS})["y"]


def in_a_graph(folder: Path) -> np.ndarray:
    builder = Builder("errors")
    x = builder.add_input("x", TensorType(NUMBERS.shape, "float32"))
    builder.emit("erf", "erf", [x], "y")
    return evaluate(builder.finish(["y"]), {"x": NUMBERS})["y"]


@pytest.mark.parametrize("run", [
    interpreted, native, pytest.param(in_c, marks=needs_c),
    pytest.param(on_gpu, marks=pytest.mark.slow), in_a_graph])
def test_erf(run: Callable[[Path], np.ndarray], tmp_path: Path) -> None:
    wanted = [math.erf(float(x)) for x in NUMBERS]
    np.testing.assert_allclose(run(tmp_path), wanted, rtol=4e-7)


@pytest.mark.parametrize(("dialect", "name"), [
    ("cuda", "erff("), ("opencl", "erf("), ("metal", "error_function(")])
def test_texts_call_the_languages_own(dialect: str, name: str) -> None:
    (code,) = generate_all([schedule_elementwise(tensor(), "errors", 16).program], dialect)
    assert name in code.text
