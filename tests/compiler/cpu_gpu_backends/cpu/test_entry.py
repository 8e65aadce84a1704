"""A segment is one native function, which gives what its steps give one by one."""

from concurrent.futures import ThreadPoolExecutor
from ctypes import CFUNCTYPE, c_int32, c_void_p, cast

import numpy as np
import pytest

from compiler.cpu_gpu_backends.cpu import calls
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.llvm import Kernel
from compiler.graph import Builder, Graph, TensorType, evaluate
from tests.support.effort import tries
from tests.support.float_graphs import assert_near, inputs_of, random_graph


@pytest.mark.parametrize("most", [2, calls.MOST_CALLS])
@pytest.mark.parametrize("seed", range(tries(6)))
def test_the_function_does_what_the_steps_do(monkeypatch: pytest.MonkeyPatch, seed: int,
                                             most: int) -> None:
    monkeypatch.setattr(calls, "MOST_CALLS", most)
    segment = CpuTarget().compile(random_graph(seed, 14))
    inputs = inputs_of(segment.graph)
    block = np.zeros(segment.plan.size, np.uint8)
    one_by_one = segment.run({**segment.constants, **inputs}, block)
    for name, array in segment(inputs).items():
        np.testing.assert_array_equal(array, one_by_one[name], strict=True)


def views() -> Graph:
    """Outputs that show an input, a constant, another output, and nothing of these."""
    net = Builder("views")
    x = net.add_input("x", TensorType((4, 6), "float32"))
    k = net.add_constant("k", np.arange(12, dtype=np.float32).reshape(3, 4))

    def rows(value: str, begin: int, end: int, output: str) -> str:
        width = net.values[value].shape[1]
        return net.emit("slice", output, [value], output, begin=(begin, 0), end=(end, width),
                        step=(1, 1))

    part, row = rows(x, 1, 3, "part"), rows(k, 2, 3, "row")
    made = net.emit("tanh", "tanh", [rows(x, 2, 4, "lower")], "made")
    flat = net.emit("reshape", "flat", [rows(made, 1, 2, "last")], "flat", shape=(3, 2))
    return net.finish([part, row, made, flat, x])


def test_outputs_that_are_views_are_the_callers() -> None:
    graph = views()
    segment, inputs = CpuTarget().compile(graph), inputs_of(graph)
    wanted = evaluate(graph, inputs)
    before = {name: array.copy() for name, array in inputs.items()}
    found = segment(inputs)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6, strict=True)
    for name in ("part", "row", "x"):
        found[name][:] = 7
    np.testing.assert_array_equal(inputs["x"], before["x"])
    np.testing.assert_allclose(segment(inputs)["row"], wanted["row"])


def test_a_segment_of_views_alone_has_no_function() -> None:
    net = Builder("views")
    x = net.add_input("x", TensorType((4, 6), "float32"))
    graph = net.finish([net.emit("reshape", "flat", [x], "y", shape=(24,))])
    segment, inputs = CpuTarget().compile(graph), inputs_of(graph)
    np.testing.assert_array_equal(segment(inputs)["y"], inputs["x"].reshape(24))


def test_threads_have_blocks_of_their_own() -> None:
    graph = random_graph(3, 14)
    segment = CpuTarget().compile(graph)
    cases = [inputs_of(graph, seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for inputs, found in zip(cases, pool.map(segment, cases), strict=True):
            for name, array in evaluate(graph, inputs).items():
                assert_near(found[name], array)


@pytest.mark.parametrize("most", [2, calls.MOST_CALLS])
def test_a_kernel_that_cannot_run_is_told(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Its status is the function's, and what comes after it does not run."""
    monkeypatch.setattr(calls, "MOST_CALLS", most)
    ran: list[int] = []
    kernels = []

    def address(kernel: Kernel) -> int | None:
        """A function in the kernel's place; the second one cannot run."""
        number = len(kernels)
        kernels.append(CFUNCTYPE(c_int32)(lambda: ran.append(number) or number == 1))
        return cast(kernels[-1], c_void_p).value

    monkeypatch.setattr(Kernel, "address", property(address))
    graph = random_graph(0, 14)
    with pytest.raises(MemoryError, match=f"^{graph.name} cannot allocate its local buffers$"):
        CpuTarget().compile(graph)(inputs_of(graph))
    assert ran == [0, 1] and len(kernels) > 2
