"""Tensors without dimensions among the operands and results of sums: every schedule takes them, or
leaves them to another.
"""

from pathlib import Path

import numpy as np
import pytest

from compiler.cpu_gpu_backends.c.network import network_files
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.graph import Builder, Graph, TensorType, evaluate
from runtime.devices.emulated import EmulatedDevice
from runtime.devices.opencl import OpenClDevice
from tests.support.c_text import call_network, compile_c, needs_c


def sums(dtype: str, *cases: tuple) -> Graph:
    """Sums of products of `a` and `b`, of these shapes, along axes; of bytes as int32."""
    net, results = Builder("sums"), []
    for number, (a, b, axes) in enumerate(cases):
        factors = []
        for name, shape in ((f"a{number}", a), (f"b{number}", b)):
            net.add_input(name, TensorType(shape, dtype))
            if dtype == "int8":
                net.emit("cast", f"{name}_cast", [name], name := f"{name}_wide", to="int32")
            factors.append(name)
        product = net.emit("mul", f"mul{number}", factors, f"p{number}")
        results.append(net.emit("reduce_sum", f"sum{number}", [product], f"y{number}", axes=axes,
                                keepdims=0))
    return net.finish(results)


CASES = (((3, 5, 16), (), (0,)), ((2, 3, 5, 16), (), (1,)), ((16,), (16,), (0,)),
         ((16,), (), (0,)), ((3, 16), (), (0, 1)))


@pytest.mark.parametrize(("target", "dtype"), [
    ("cpu", "float32"), ("cpu", "int8"), ("cuda", "float32"), ("opencl", "int8"),
    pytest.param("c", "float32", marks=needs_c), *(
        pytest.param(*one, marks=pytest.mark.slow) for one in (
            ("cuda", "int8"), ("opencl", "float32"))),
    pytest.param("c", "int8", marks=[needs_c, pytest.mark.slow])])
def test_sums_with_numbers(target: str, dtype: str, tmp_path: Path,
                           rng: np.random.Generator) -> None:
    graph = sums(dtype, *CASES)
    given = {name: rng.integers(-9, 10, graph.values[name].shape).astype(dtype)
             for name in graph.inputs}
    if target == "cpu":
        found = CpuTarget().compile(graph)(given)
    elif target == "c":
        files = network_files(graph, "net", apart=False)
        found = call_network(compile_c(files.alone, tmp_path), files, graph, given)
    else:
        device = EmulatedDevice() if target == "cuda" else OpenClDevice()
        found = GpuTarget(target, target).compile(graph).on(device)(given).values
    for name, array in evaluate(graph, given).items():
        np.testing.assert_array_equal(found[name], array, name)
