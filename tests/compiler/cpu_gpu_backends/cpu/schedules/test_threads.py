"""Threads share what takes long enough, and change no bit."""

from dataclasses import replace

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.cpu.schedules.schedule import own_schedule, schedule
from compiler.cpu_gpu_backends.cpu.schedules.threads import LEAST
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.llvm.instruction_sets import AVX2
from compiler.graph import Builder, Graph, TensorType
from compiler.ir import For, Program, lower, walk_stmts
from compiler.schedule import Schedule
from tests.support.float_graphs import inputs_of

ONE_THREAD = Vectors(replace(AVX2, registers=8))
TWO_THREADS = replace(ONE_THREAD, threads=2)


def shared(program: Program) -> list[tuple[int, int]]:
    """Iterations and threads of loops that threads share."""
    return [(s.extent, int(dict(s.annotations)["num_threads"])) for s in walk_stmts(program.body)
            if isinstance(s, For) and s.kind == "parallel" and isinstance(s.extent, int)]


def network() -> Graph:
    rng = np.random.default_rng(0)
    net = Builder("net")
    net.add_input("x", TensorType((1, 16, 30, 29), "float32"))
    w = net.add_constant("w", rng.standard_normal((32, 16, 3, 3)).astype(np.float32))
    m = net.add_constant("m", rng.standard_normal((29, 64)).astype(np.float32))
    x = net.emit("conv2d", "conv", ["x", w], "c", strides=(1, 1), pads=(1, 1, 1, 1))
    x = net.emit("matmul", "product", [net.emit("relu", "relu", [x], "r"), m], "p")
    x = net.emit("tanh", "tanh", [x], "t")
    return net.finish([net.emit("mean", "mean", [x], "y", axes=(2,), keepdims=0)])


@pytest.mark.parametrize("threads", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_results_are_the_same_to_the_bit(threads: int) -> None:
    graph, inputs = network(), inputs_of(network())
    alone, together = CpuTarget().compile(graph), CpuTarget(threads=threads).compile(graph)
    assert together(inputs)["y"].tobytes() == alone(inputs)["y"].tobytes()
    loops = [loop for step in together.steps if step.kernel for loop in shared(step.kernel.program)]
    assert len(loops) >= 2 and {number for _, number in loops} == {threads}
    assert all(extent >= threads for extent, _ in loops)
    assert not any("GOMP" in text for text in alone.text)


def test_only_long_loops_are_shared_and_only_what_is_independent() -> None:
    x = te.placeholder((64, 1 << 15), "float32", "x")
    short = te.compute((64,), lambda i: x[i, 0] * 2.0, "short")
    scanned = te.scan(x.shape, lambda i: x[0, i], lambda s, t: te.compute(
        (1 << 15,), lambda i: s[t - 1, i] * 0.5 + x[t, i], "next"), "scanned")
    assert x.shape[0] < LEAST
    for result in (short, scanned):
        assert shared(own_schedule(lower([result], "f"), TWO_THREADS).program) == []


def test_every_thread_has_its_own_copies() -> None:
    """Where images are padded one by one, no two threads may pad into the same place."""
    net = Builder("net")
    net.add_input("x", TensorType((8, 12, 57, 57), "float32"))
    net.add_input("w", TensorType((12, 6, 3, 3), "float32"))
    graph = net.finish([net.emit("conv2d", "conv", ["x", "w"], "y", strides=(1, 1),
                                 pads=(1, 1, 1, 1), group=2)])
    alone, together = CpuTarget().compile(graph), CpuTarget(threads=4).compile(graph)
    step, = together.steps
    assert step.kernel is not None and shared(step.kernel.program)
    assert len(step.kernel.program.outputs) == 1
    inputs = inputs_of(graph)
    assert together(inputs)["y"].tobytes() == alone(inputs)["y"].tobytes()


def test_a_plan_says_what_is_shared() -> None:
    x = te.placeholder((64, 1 << 15), "float32", "x")
    program = lower([te.compute(x.shape, lambda i, j: x[i, j] * 2.0, "y")], "f")
    text = own_schedule(program, TWO_THREADS).text()
    assert shared(Schedule.replay(program, text).program) == [(64, 2)]
    assert shared(schedule(program, ONE_THREAD, text)) == [(64, 2)]
