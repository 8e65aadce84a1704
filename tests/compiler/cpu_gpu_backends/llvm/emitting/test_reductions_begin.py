"""Where reductions begin: on processors and on GPUs, against NumPy, wherever in the nest."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest

from compiler import te
from tests.support.gpu_schedules import argmax
from compiler.cpu_gpu_backends.llvm import build
from compiler.cpu_gpu_backends.simt.generate import generate_all
from compiler.cpu_gpu_backends.simt.lowering import lower
from tests.support.races import find_races, run_kernels
from compiler.ir import Program, interpret
from compiler.schedule import Schedule, bind, rfactor
from compiler.te import Tensor, numpy_dtype
from runtime.devices.device import DeviceMissing
from runtime.devices.emulated import EmulatedDevice
from tests.support.kernels import compute
from runtime.devices.opencl import OpenClDevice
from tests.support.effort import Effort
from tests.support.slow_cases import some_of_each

ROWS, COLUMNS, DEPTH, STEPS = 5, 6, 10, 7
Arrays = dict[str, np.ndarray]


def reduced(op: str, dtype: str) -> Tensor:
    """``y[i, j]`` over two axes, 10 and 7 long."""
    a = te.placeholder((ROWS, DEPTH, STEPS), dtype, "a")
    b = te.placeholder((DEPTH, STEPS, COLUMNS), dtype, "b")
    k, r = te.reduce_axis(DEPTH, "k"), te.reduce_axis(STEPS, "r")
    return te.compute((ROWS, COLUMNS), lambda i, j: getattr(te, op)(
        te.minimum(a[i, k, r], b[k, r, j]), axis=(k, r)), name="y")


def wanted(op: str, x: Arrays) -> Arrays:
    terms = np.minimum(x["a"][..., None], x["b"][None])
    return {"y": getattr(np, op)(terms, axis=(1, 2)).astype(terms.dtype)}


def nothing(s: Schedule) -> None:
    """The program as it stands."""


def outermost(s: Schedule) -> None:
    s["y"].reorder("r", "k", "y_i", "y_j", reassociate=True)


def between(s: Schedule) -> None:
    s["y"].reorder("k", "y_i", "r", "y_j", reassociate=True)


def ragged(s: Schedule) -> None:
    s["y"].split("k", 4)
    s["y"].split("r", 3)
    s["y"].reorder("r_o", "y_i", "k_o", "r_i", "y_j", "k_i", reassociate=True)


def ragged_rows(s: Schedule) -> None:
    """Names that copies of the loops might take."""
    s["y"].split("y_i", 2, "i_0", "i")
    s["y"].split("k", 4, "j_0", "k_0")
    s["y"].split("y_j", 4, "j_1", "j")
    s["y"].reorder("j_0", "i_0", "r", "i", "j_1", "k_0", "j", reassociate=True)


def nested_names(s: Schedule) -> None:
    """The copy of i, inside of i_0, must not be i_0."""
    s["y"].split("y_i", 2, "i_0", "i")
    s["y"].reorder("i_0", "k", "i", "r", "y_j", reassociate=True)


def fused(s: Schedule) -> None:
    s["y"].fuse("k", "r")
    s["y"].split("k_r", 16)
    s["y"].reorder("k_r_i", "y_i", "k_r_o", "y_j", reassociate=True)


def factored(s: Schedule) -> None:
    s.apply(rfactor, "y", "k", reassociate=True)
    s["y_rf"].reorder("r", "k", "y_rf_j", "y_rf_i", reassociate=True)


def factored_tails(s: Schedule) -> None:
    s["y"].split("k", 3)
    s.apply(rfactor, "y", "k_o", reassociate=True)
    s["y"].reorder("y_k_o", "y_i", "y_j", reassociate=True)


def rows_on_threads(s: Schedule) -> None:
    s["y"].split("y_j", 4)
    s["y"].reorder("y_i", "k", "y_j_o", "y_j_i", "r", reassociate=True)
    s["y"].bind("y_i", "blockIdx.x")
    s["y"].bind("y_j_i", "threadIdx.x")


def axes_on_threads(s: Schedule) -> None:
    """Threads reduce together, several times for one element."""
    s["y"].split("k", 4)
    s["y"].reorder("y_i", "y_j", "r", "k_i", "k_o", reassociate=True)
    s["y"].bind("y_i", "blockIdx.x")
    s.apply(bind, "k_i", "threadIdx.x", reassociate=True)


WAYS: tuple[Callable[[Schedule], None], ...] = (
    nothing, outermost, between, ragged, ragged_rows, nested_names, fused, factored,
    factored_tails, rows_on_threads, axes_on_threads)
TYPES = (("sum", "int32"), ("sum", "float32"), ("max", "int8"), ("min", "int32"),
         ("max", "float32"))
PRODUCTS = {f"{way.__name__}_{op}_{dtype}": (way, op, dtype) for way in WAYS for op, dtype in TYPES}


# The first of the greatest, of several that are equal


def first_outermost(s: Schedule) -> None:
    s["place"].reorder("k", "place_i")


def first_ragged(s: Schedule) -> None:
    s["place"].split("k", 7)
    s["place"].reorder("k_i", "place_i", "k_o")


def first_factored(s: Schedule) -> None:
    s["place"].split("k", 7)
    s.apply(rfactor, "place", "k_o")
    s["place_rf"].reorder("k_o", "k_i", "place_rf_i")


def first_on_threads(s: Schedule) -> None:
    s["place"].split("k", 7)
    s["place"].reorder("place_i", "k_o", "k_i")
    s["place"].bind("place_i", "blockIdx.x")
    s.apply(bind, "k_i", "threadIdx.x")


FIRSTS = {f"{way.__name__}_{dtype}": (way, dtype)
          for way in (nothing, first_outermost, first_ragged, first_factored, first_on_threads)
          for dtype in ("int8", "float32")}


def ties(dtype: str, rng: np.random.Generator) -> Arrays:
    """Rows of few values, one of them of nothing but the least."""
    kind = numpy_dtype(dtype)
    x = rng.integers(0, 3, (ROWS, 30)).astype(kind)
    x[2] = -np.inf if kind.kind == "f" else np.iinfo(kind).min
    return {"x": x}


@lru_cache(None)
def program(name: str) -> Program:
    if name in FIRSTS:
        way, dtype = FIRSTS[name]
        schedule = Schedule(list(argmax(ROWS, 30, dtype)), name)
    else:
        way, op, dtype = PRODUCTS[name]
        schedule = Schedule([reduced(op, dtype)], name)
    way(schedule)
    return schedule.program


def case(name: str, rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    """Inputs, and what NumPy says of them."""
    if name in FIRSTS:
        x = ties(FIRSTS[name][1], rng)
        return x, {"place": np.argmax(x["x"], axis=1), "top": np.max(x["x"], axis=1)}
    _, op, dtype = PRODUCTS[name]
    kind = numpy_dtype(dtype)
    x = {b.name: rng.integers(-99, 100, b.shape).astype(kind) for b in program(name).inputs}
    if (op, kind.kind) == ("max", "f"):
        x["a"][1], x["a"][2, 3, 4] = -np.inf, np.nan
    return x, wanted(op, x)


def assert_equal(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", (*PRODUCTS, *FIRSTS))
def test_on_processors(rng, name: str) -> None:
    inputs, expected = case(name, rng)
    assert_equal(interpret(program(name), inputs), expected)
    assert_equal(build(program(name)).compute(inputs), expected)


@some_of_each(5, "name", [n for n in (*PRODUCTS, *FIRSTS) if "on_threads" in n],
              kind=lambda name: name.rpartition("_on_threads")[0])
def test_on_threads(rng, name: str) -> None:
    inputs, expected = case(name, rng)
    for shuffles in (False, True):
        kernels = lower(program(name), shuffles=shuffles)
        assert find_races(kernels, inputs) == []
        assert_equal(run_kernels(kernels, inputs), expected)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["cuda", "opencl"])
def test_on_devices(rng, dialect: str) -> None:
    try:
        device = EmulatedDevice() if dialect == "cuda" else OpenClDevice()
    except DeviceMissing as error:
        pytest.skip(str(error))
    names = (*PRODUCTS, *FIRSTS)[::6 if Effort.quick else 1]     # six: each way once, all types
    for code in generate_all([program(name) for name in names], dialect):
        inputs, expected = case(code.name, rng)
        assert_equal(compute(device, code, inputs), expected)
