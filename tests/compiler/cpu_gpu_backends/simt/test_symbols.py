"""Extents that are known at launch: one text for all sizes, the grid from the symbols."""

import re
from functools import partial

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda
from tests.support.gpu_schedules import MatmulTiles, matmul, schedule_matmul
from compiler.cpu_gpu_backends.simt.code import MOST
from compiler.cpu_gpu_backends.simt.generate import generate, generate_all
from compiler.cpu_gpu_backends.simt.kernels import SimtError
from compiler.cpu_gpu_backends.simt.lowering import lower
from tests.support.races import find_races, run_kernels
from compiler.ir import Alloc, For, Program, Seq, Stmt, Store
from compiler.native import BuildError
from compiler.schedule import Schedule, bind
from compiler.te import INDEX, Buffer, Const, Var
from runtime.devices.device import DeviceMissing
from runtime.devices.emulated import EmulatedDevice
from tests.support.kernels import compute
from runtime.devices.opencl import OpenClDevice
from tests.support.metal import computed_as_cxx

N, M = te.symbol("n"), te.symbol("m")
BX, TX = "blockIdx.x", "threadIdx.x"
Arrays = dict[str, np.ndarray]


def add() -> Schedule:
    a, b = (te.placeholder((N,), "float32", name) for name in "ab")
    c = te.compute((N,), lambda i: a[i] + b[i], "c")
    schedule = Schedule([c], "add")
    block, thread = schedule["c"].split("i", 32)
    schedule["c"].bind(block, BX)
    schedule["c"].bind(thread, TX)
    return schedule


def turned() -> Schedule:
    """Through a buffer between two kernels, rows and columns unknown, rows serial in the first."""
    x = te.placeholder((N, M), "int32", "x")
    t = te.compute((N, M), lambda i, j: x[i, j] * 2, "t")
    y = te.compute((M, N), lambda j, i: t[i, j] + 1, "y")
    schedule = Schedule([y], "turned")
    block, thread = schedule["t"].split("j", 16)
    schedule["t"].reorder(block, thread, "t_i")
    schedule["t"].bind(block, BX)
    schedule["t"].bind(thread, TX)
    schedule["y"].tile("j", "i", 8, 8)
    for loop, axis in (("y_j_o", "blockIdx.y"), ("y_i_o", BX), ("y_j_i", "threadIdx.y"),
                       ("y_i_i", TX)):
        schedule["y"].bind(loop, axis)
    return schedule


def rows() -> Schedule:
    """Sums of rows of unknown length by 32 threads each."""
    x = te.placeholder((N, M), "int32", "x")
    k = te.reduce_axis(M, "k")
    y = te.compute((N,), lambda i: te.sum(x[i, k], axis=k), "y")
    schedule = Schedule([y], "rows")
    outer, thread = schedule["y"].split("k", 32)
    schedule["y"].reorder(thread, outer)
    schedule["y"].bind("y_i", BX)
    schedule.apply(bind, thread, TX)
    return schedule


def product(n, m, dtype: str, name: str) -> Schedule:
    tiles = MatmulTiles(lanes=4) if isinstance(m, int) and m % 4 == 0 else MatmulTiles()
    return schedule_matmul(matmul(n, m, 27, dtype), name, tiles)


SCHEDULES = {
    "add": (add, lambda x: x["a"] + x["b"]),
    "turned": (turned, lambda x: x["x"].T * 2 + 1),
    "rows": (rows, lambda x: x["x"].sum(1).astype(np.int32)),
    "product_rows": (lambda: product(N, 48, "float32", "product_rows"), lambda x: x["a"] @ x["b"]),
    "product_ragged": (lambda: product(N, 45, "int32", "product_ragged"),
                       lambda x: x["a"] @ x["b"]),
    "product_both": (lambda: product(N, M, "float32", "product_both"), lambda x: x["a"] @ x["b"]),
}
SIZES = ((1, 1), (7, 33), (31, 32), (32, 5), (33, 64), (64, 31), (100, 45))


def inputs_of(program: Program, n: int, m: int, rng: np.random.Generator) -> Arrays:
    shapes = {b.name: [n if e == N else m if e == M else e for e in b.shape]
              for b in program.inputs}
    return {b.name: rng.integers(-9, 9, shapes[b.name]).astype(b.dtype) for b in program.inputs}


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    return {name: make().program for name, (make, _) in SCHEDULES.items()}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dialect", ["cuda", "opencl", "metal"])
def test_one_text_for_all_sizes(programs, rng, dialect: str) -> None:
    try:
        run = computed_as_cxx if dialect == "metal" else partial(
            compute, EmulatedDevice() if dialect == "cuda" else OpenClDevice())
    except DeviceMissing as error:
        pytest.skip(str(error))
    for code in generate_all(list(programs.values()), dialect):
        for n, m in SIZES:
            inputs = inputs_of(programs[code.name], n, m, rng)
            (found,) = run(code, inputs).values()
            np.testing.assert_array_equal(found, SCHEDULES[code.name][1](inputs),
                                          err_msg=f"{code.name} {n} {m}")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.slow if name == "product_ragged" else ())
    for name in SCHEDULES])
def test_no_races_at_any_size(programs, rng, name: str) -> None:
    kernels = lower(programs[name], shuffles=True, intrinsics=True)
    for n, m in ((1, 1), (33, 31)):
        inputs = inputs_of(programs[name], n, m, rng)
        assert find_races(kernels, inputs) == []
        (found,) = run_kernels(kernels, inputs).values()
        np.testing.assert_array_equal(found, SCHEDULES[name][1](inputs))


@pytest.mark.slow
def test_nvrtc_takes_the_text(programs) -> None:
    try:
        cubin = compile_cuda(generate_all(list(programs.values()))[0].text)
    except BuildError as error:
        if "must be installed" not in str(error):
            raise
        pytest.skip(str(error))
    assert all(one.spill_bytes == one.local_bytes == 0 for one in cubin.resources.values())


def test_the_symbol_is_an_argument_and_says_the_grid(programs) -> None:
    code = generate(programs["add"])
    assert "float* __restrict__ c, int n) {" in code.text
    assert "if (bx * 32 + tx < n) c[bx * 32 + tx] = a[bx * 32 + tx]" in code.text
    for n, blocks in ((1, 1), (32, 1), (33, 2)):
        (launch,) = code.at(n=n).launches
        assert (launch.grid, launch.numbers) == ((blocks, 1, 1), (n,))
        assert launch.arguments[0].shape == (n,)


def test_pitches_of_unknown_rows(programs) -> None:
    assert "c[(by * 32 + ty * 4 + i) * m + bx * 32 + tx * 4 + j] = acc[i][j];" in generate(
        programs["product_both"]).text


def test_a_grid_without_blocks_is_not_launched() -> None:
    """``n - 1`` blocks, and what comes before them."""
    x, y = Buffer("x", (N,), "int32"), Buffer("y", (N,), "int32")
    i, j = Var("i"), Var("j")
    body = Seq((For(i, 1, Store(y, (i,), x[i]), BX), For(j, N - 1, Store(y, (j + 1,), x[j]), BX)))
    code = generate(Program("p", (x,), (y,), body, (N,)))
    assert [len(code.at(n=n).launches) for n in (1, 2)] == [1, 2]
    for n in (1, 2, 5):
        given = np.arange(n, dtype=np.int32)
        wanted = [0, *range(n - 1)]
        assert compute(EmulatedDevice(), code, {"x": given})["y"].tolist() == wanted


# Refusals

X, Y = Buffer("x", (N, 64), "float32"), Buffer("y", (N, 64), "float32")
I, J = Var("i"), Var("j")


def refused(body: Stmt, message: str) -> None:
    with pytest.raises(SimtError, match=f"^p: {re.escape(message)}\n"):
        lower(Program("p", (X,), (Y,), body, (N,)))


def test_threads_of_an_unknown_number_wrong() -> None:
    refused(For(J, N, Store(Y, (J, Const(0, INDEX)), X[J, 0]), TX),
            "extent of j (threadIdx.x) must be a number, not n")


def test_room_of_an_unknown_size_inside_of_a_kernel_wrong() -> None:
    t = Buffer("t", (4, N), "float32", "shared")
    refused(For(J, 64, Alloc(t, Store(Y, (Const(0, INDEX), J), X[0, J])), BX),
            "shape of t must be numbers inside a kernel, not [4, n]")


def test_grids_that_differ_wrong() -> None:
    other = For(J, 64, Store(Y, (Const(0, INDEX), J), X[0, J]), BX)
    refused(For(Var("one"), 1, Seq((For(I, N, Store(Y, (I, Const(0, INDEX)), X[I, 0]), BX),
                                    other)), "blockIdx.y"),
            "loops over blockIdx.x must have one extent where it is not a number, not n and 64")


@pytest.mark.parametrize(("values", "message"), [
    ({}, "Parameter n of add must have a value"),
    ({"n": 0}, "Parameter n of add must be a positive integer, not 0"),
    ({"n": 1, "k": 2}, "Parameter of add must be one of n, not 'k'"),
    ({"n": MOST + 1}, f"Parameter n of add must be at most {MOST}, not {MOST + 1}")])
def test_values_wrong(programs, values, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        generate(programs["add"]).at(**values)


def test_too_many_elements_wrong(programs) -> None:
    with pytest.raises(ValueError, match=f"^Buffer x of turned must have at most {MOST} elements, "
                                         f"not {1 << 32}$"):
        generate(programs["turned"]).at(n=1 << 16, m=1 << 16)


def test_a_launch_without_values_wrong(programs) -> None:
    code = generate(programs["product_both"])
    with pytest.raises(ValueError, match="^Code of product_both must be launched at values of its "
                                         "parameters, n, m$"):
        EmulatedDevice().record(code, 0, 0, 0)


def test_arrays_that_do_not_agree_wrong(programs) -> None:
    given = {"a": np.zeros(4, np.float32), "b": np.zeros(5, np.float32)}
    with pytest.raises(ValueError, match=r"^Input b must be float32\[4\], not float32\[5\]$"):
        compute(EmulatedDevice(), generate(programs["add"]), given)
