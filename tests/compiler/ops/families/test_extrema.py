"""Places of extrema, and orders, of elements with NaN among them, on every kind of target."""

from collections.abc import Mapping
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

NAN, INF = np.nan, np.inf
ROWS = np.array([[3, NAN, 1, INF, NAN], [NAN, NAN, NAN, NAN, NAN], [2, 5, 5, -1, 0],
                 [-INF, -INF, -INF, NAN, -INF], [-INF, 0, -0.0, 0, -INF]], np.float32)


def graph(dtype: str = "float32") -> Graph:
    net = Builder("order")
    net.add_input("x", TensorType(ROWS.shape, dtype))
    for op in ("argmax", "argmin"):
        for last in (0, 1):
            net.emit(op, f"{op}{last}", ["x"], f"{op}_{last}", axis=1, keepdims=0, last=last)
    for largest in (0, 1):
        net.emit("sorted_places", f"sort{largest}", ["x"], f"sorted_{largest}", axis=1, count=5,
                 largest=largest)
    net.emit("reshape", "image", ["x"], "image", shape=(1, 1, *ROWS.shape))
    net.emit("pool_place", "pool", ["image"], "pooled", kernel=(2, 3), strides=(1, 1),
             pads=(1, 1, 0, 1), dilations=(1, 1))
    return net.finish(["argmax_0", "argmax_1", "argmin_0", "argmin_1", "sorted_0", "sorted_1",
                       "pooled"])


def in_c(net: Graph, given: Mapping[str, np.ndarray], folder: Path) -> Mapping[str, np.ndarray]:
    files = network_files(net, "net", apart=False)
    return call_network(compile_c(files.alone, folder), files, net, given)


def computed(target: str, net: Graph, given: Mapping[str, np.ndarray], folder: Path):
    if target == "cpu":
        return CpuTarget().compile(net)(given)
    if target == "c":
        return in_c(net, given, folder)
    device = EmulatedDevice() if target == "cuda" else OpenClDevice()
    return GpuTarget(target, target).compile(net).on(device)(given).values


def test_a_nan_is_the_greatest_and_the_first_or_last_of_its_kind() -> None:
    made = evaluate(graph(), {"x": ROWS})
    assert made["sorted_1"].tolist() == [[1, 4, 3, 0, 2], [0, 1, 2, 3, 4], [1, 2, 0, 4, 3],
                                         [3, 0, 1, 2, 4], [1, 2, 3, 0, 4]]
    assert made["sorted_0"].tolist() == [[2, 0, 3, 1, 4], [0, 1, 2, 3, 4], [3, 4, 0, 1, 2],
                                         [0, 1, 2, 4, 3], [0, 4, 1, 2, 3]]
    assert made["argmax_0"].tolist() == [1, 0, 1, 3, 1]
    assert made["argmax_1"].tolist() == [4, 4, 2, 3, 3]
    assert made["argmin_0"].tolist() == [1, 0, 3, 3, 0]
    assert made["argmin_1"].tolist() == [4, 4, 3, 3, 4]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("target", "dtype"), [
    *((target, dtype) for target in ("cpu", "cuda") for dtype in ("float32", "float16")),
    ("opencl", "float32"), pytest.param("c", "float32", marks=needs_c)])
def test_every_target_orders_nan_as_numpy_does(target: str, dtype: str, tmp_path: Path) -> None:
    net, given = graph(dtype), {"x": ROWS.astype(dtype)}
    found = computed(target, net, given, tmp_path)
    for name, array in evaluate(net, given).items():
        np.testing.assert_array_equal(found[name], array, name)
