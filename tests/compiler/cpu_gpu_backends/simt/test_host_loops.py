"""Loops of the host around kernels: recurrences in time, whose steps need all blocks."""

import re

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.simt.generate import generate
from compiler.cpu_gpu_backends.simt.kernels import SimtError
from compiler.cpu_gpu_backends.simt.lowering import lower
from tests.support.races import find_races, run_kernels
from compiler.ir import interpret, program_text
from compiler.schedule import Schedule
from runtime.devices.emulated import EmulatedDevice
from tests.support.kernels import compute
from runtime.devices.opencl import OpenClDevice

DEVICES = {"cuda": EmulatedDevice, "opencl": OpenClDevice}


def bound(s: Schedule, stage: str, loop: str = "i", threads: int = 32) -> None:
    block, thread = s[stage].split(loop, threads)
    s[stage].bind(block, "blockIdx.x")
    s[stage].bind(thread, "threadIdx.x")


def recurrence(times: int, size: int, batch: te.Extent = 3) -> Schedule:
    """h[t] = tanh(x[t] + w h[t - 1]) in two kernels for each time, h[0] = x[0] in one before."""
    x = te.placeholder((times, batch, size), "float32", "x")
    w = te.placeholder((size, size), "float32", "w")
    k = te.reduce_axis(size, "k")

    def step(h, t):
        s = te.compute((batch, size), lambda n, i: te.sum(w[i, k] * h[t - 1, n, k], k), "s")
        return te.compute((batch, size), lambda n, i: te.tanh(s[n, i] + x[t, n, i]), "next")

    schedule = Schedule([te.scan((times, batch, size), lambda n, i: x[0, n, i], step, "h")], "rnn")
    schedule["s"].reorder("n", "i", "k")
    for stage in ("h", "s", "next"):
        bound(schedule, stage, threads=min(32, size))
        schedule[stage].bind("n", "blockIdx.y")
    return schedule


def inputs_of(times: int, size: int, batch: int, rng) -> dict[str, np.ndarray]:
    return {"x": rng.standard_normal((times, batch, size)).astype(np.float32),
            "w": (rng.standard_normal((size, size)) / size ** 0.5).astype(np.float32)}


def by_numpy(inputs: dict[str, np.ndarray]) -> np.ndarray:
    h = [inputs["x"][0]]
    for x in inputs["x"][1:]:
        h.append(np.tanh(x + h[-1] @ inputs["w"].T))
    return np.array(h)


@pytest.mark.parametrize(("times", "size", "batch", "dialect"), [
    (7, 70, 3, "cuda"), *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        (7, 70, 3, "opencl"), (2, 5, 1, "cuda"), (2, 5, 1, "opencl")))])
def test_a_recurrence_equals_numpy(times: int, size: int, batch: int, dialect: str, rng) -> None:
    """One kernel for the beginning, then two for each time, in order."""
    schedule, inputs = recurrence(times, size, batch), inputs_of(times, size, batch, rng)
    code = generate(schedule.program, dialect)
    assert [(launch.kernel, launch.numbers) for launch in code.launches] == [("k0_rnn", ()), *(
        (f"k{kernel}_rnn", (time,)) for time in range(1, times) for kernel in (1, 2))]
    assert [buffer.name for buffer in code.temporaries] == ["s"]
    found = compute(DEVICES[dialect](), code, inputs)["h"]
    np.testing.assert_allclose(found, by_numpy(inputs), 1e-5, 1e-5)


def test_turns_race_with_nobody(rng) -> None:
    kernels, inputs = lower(recurrence(4, 40).program), inputs_of(4, 40, 3, rng)
    assert not find_races(kernels, inputs)
    np.testing.assert_allclose(run_kernels(kernels, inputs)["h"], by_numpy(inputs), 1e-5, 1e-5)


@pytest.mark.parametrize("dialect", [
    "opencl", pytest.param("cuda", marks=pytest.mark.slow)])
def test_numbers_of_turns_come_before_parameters(dialect: str, rng) -> None:
    """Any number of sequences."""
    code = generate(recurrence(5, 9, te.symbol("n")).program, dialect)
    for batch in (1, 4):
        inputs = inputs_of(5, 9, batch, rng)
        found = compute(DEVICES[dialect](), code, inputs)["h"]
        np.testing.assert_allclose(found, by_numpy(inputs), 1e-5, 1e-5)
    assert code.at(n=4).launches[-1].numbers == (4, 4)


@pytest.mark.parametrize("dialect", [
    "cuda", pytest.param("opencl", marks=pytest.mark.slow)])
def test_loops_of_the_host_are_nested(dialect: str, rng) -> None:
    """Plain loops around loops over blocks, whose variables are read, too."""
    x = te.placeholder((3, 4, 40), "float32", "x")
    y = te.compute((3, 4, 40), lambda a, b, i: x[a, b, i] * 2 + te.cast(a * 4 + b, "float32"), "y")
    schedule = Schedule([y], "table")
    bound(schedule, "y")
    inputs = {"x": rng.standard_normal((3, 4, 40)).astype(np.float32)}
    code = generate(schedule.program, dialect)
    assert [launch.numbers for launch in code.launches] == [
        (a, b) for a in range(1, 4) for b in range(1, 5)]
    np.testing.assert_array_equal(compute(DEVICES[dialect](), code, inputs)["y"],
                                  interpret(schedule.program, inputs)["y"])


def sums(decomposed: bool) -> Schedule:
    """Sums of columns, a row at a time: a loop of the host over rows."""
    x, k = te.placeholder((5, 40), "float32", "x"), te.reduce_axis(5, "k")
    schedule = Schedule([te.compute((40,), lambda i: te.sum(x[k, i], k), "y")], "sums")
    schedule["y"].reorder("k", "i")
    if decomposed:
        schedule["y"].decompose_reduction("k")
    for loop in re.findall(r"for (\S*i\S*) in", program_text(schedule.program)):
        schedule["y"].bind(loop, "blockIdx.x")
    return schedule


def test_a_sum_begins_outside_of_a_host_loop(rng) -> None:
    inputs = {"x": rng.standard_normal((5, 40)).astype(np.float32)}
    found = compute(EmulatedDevice(), generate(sums(True).program), inputs)["y"]
    np.testing.assert_allclose(found, inputs["x"].sum(0), 1e-5, 1e-6)
    with pytest.raises(SimtError, match="^sums: k, around loops over blocks, must not be an axis "
                                        "of a sum: decompose_reduction takes its beginning out\n"):
        generate(sums(False).program)


def test_a_host_loop_of_unknown_extent_wrong() -> None:
    x = te.placeholder((te.symbol("n"), 40), "float32", "x")
    schedule = Schedule([te.compute(x.shape, lambda a, i: x[a, i] * 2, "y")], "rows")
    bound(schedule, "y")
    with pytest.raises(SimtError, match="^rows: extent of y_a, around loops over blocks, must be a "
                                        "number, not n\n"):
        generate(schedule.program)
