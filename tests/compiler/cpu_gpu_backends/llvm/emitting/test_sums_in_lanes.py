"""Sums in lanes have the same bytes under every schedule, on processors and GPUs."""

from collections.abc import Callable

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.llvm import MACHINES, build, host, optimized
from compiler.cpu_gpu_backends.llvm.emitting.emit import emit
from compiler.cpu_gpu_backends.simt.generate import generate_all
from compiler.cpu_gpu_backends.simt.lowering import lower as kernels_of
from tests.support.races import find_races, run_kernels
from compiler.ir import Program, interpret
from compiler.schedule import Schedule, peel
from compiler.te import Tensor
from runtime.devices.device import DeviceMissing
from runtime.devices.emulated import EmulatedDevice
from tests.support.kernels import compute
from runtime.devices.opencl import OpenClDevice
from tests.support.summation import in_lanes

ROWS, TERMS, LANES = 6, 100, 16


def sums(lanes: int = LANES) -> Tensor:
    x, k = te.placeholder((ROWS, TERMS), "float32", "x"), te.reduce_axis(TERMS, "k")
    return te.compute((ROWS,), lambda i: te.sum(x[i, k], k, lanes=lanes), "y")


def plain(s: Schedule) -> None:
    """The program as it stands."""


def vectors(s: Schedule) -> None:
    """A row at a time, its lanes in registers."""
    s["y_lanes"].reorder("k_o", "lane")
    s["y_lanes"].vectorize("lane")
    s["y_lanes"].compute_at("y_i")


def whole_vectors(s: Schedule) -> None:
    """The last turn, which has no term for some lanes, by itself."""
    vectors(s)
    s["y_lanes"].decompose_reduction("k_o")
    s.apply(peel, "k_o")


def narrow(s: Schedule) -> None:
    s["y_lanes"].split("lane", 4)
    s["y_lanes"].reorder("lane_o", "k_o", "lane_i")
    s["y_lanes"].vectorize("lane_i")
    s["y_lanes"].compute_at("y_i")


def threads(s: Schedule, count: int = 2) -> None:
    whole_vectors(s)
    s["y"].parallel("i")
    s["y"].annotate("i", "num_threads", count)


def turns_unrolled(s: Schedule) -> None:
    s["y_lanes"].split("k_o", 3)
    s["y_lanes"].reorder("k_o_o", "k_o_i", "lane")
    s["y_lanes"].unroll("k_o_i")
    s["y_lanes"].vectorize("lane")


CPU_WAYS: tuple[Callable[[Schedule], None], ...] = (
    plain, vectors, whole_vectors, narrow, threads, turns_unrolled)


def blocks(s: Schedule) -> None:
    """A block for each row, a thread for each lane."""
    s["y"].bind("i", "blockIdx.x")
    s["y_lanes"].set_scope("shared")
    s["y_lanes"].compute_at("y_i")
    s["y_lanes"].bind("lane", "threadIdx.x")


def rows_on_threads(s: Schedule) -> None:
    s["y"].bind("i", "threadIdx.x")
    s["y_lanes"].compute_at("y_i")
    s["y_lanes"].set_scope("local")


GPU_WAYS = (blocks, rows_on_threads)


def scheduled(way: Callable[[Schedule], None], name: str = "main") -> Program:
    schedule = Schedule([sums()], name)
    way(schedule)
    assert Schedule.replay([sums()], schedule.text()).program.body == schedule.program.body
    return schedule.program


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(ROWS, TERMS)).astype(np.float32)


@pytest.fixture(scope="module")
def wanted(x) -> bytes:
    return np.array([in_lanes(row, LANES) for row in x]).tobytes()


@pytest.mark.parametrize("way", CPU_WAYS)
def test_on_processors(x, wanted, way):
    program = scheduled(way)
    assert interpret(program, {"x": x})["y"].tobytes() == wanted
    machines = [host()] + [host().without(f) for f in ("avx2", "avx") if host().has(f)]
    for machine in machines:
        for contract in (False, True):
            found = build(program, machine, contract=contract).compute({"x": x})["y"]
            assert found.tobytes() == wanted


def test_any_number_of_threads(x, wanted):
    for count in (1, 3):
        kernel = build(scheduled(lambda s, count=count: threads(s, count)))
        assert kernel.compute({"x": x})["y"].tobytes() == wanted


def test_terms_are_added_in_registers():
    """At most the sums of the lanes are added one by one."""
    machine = MACHINES["x86-64-v3"]
    text = optimized(emit(scheduled(whole_vectors), machine), machine)
    assert "fadd <" in text and text.count("fadd float ") < ROWS * LANES


@pytest.mark.parametrize("way", GPU_WAYS)
def test_without_races(x, wanted, way):
    for shuffles in (False, True):
        kernels = kernels_of(scheduled(way), shuffles=shuffles)
        assert find_races(kernels, {"x": x}) == []
        assert run_kernels(kernels, {"x": x})["y"].tobytes() == wanted


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dialect", ["cuda", "opencl"])
def test_on_devices(x, wanted, dialect):
    try:
        device = EmulatedDevice() if dialect == "cuda" else OpenClDevice()
    except DeviceMissing as error:
        pytest.skip(str(error))
    programs = [scheduled(way, way.__name__) for way in GPU_WAYS]
    for code in generate_all(programs, dialect):
        assert compute(device, code, {"x": x})["y"].tobytes() == wanted
