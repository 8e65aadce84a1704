"""Inputs whose pixels are read one after the other, as matrices."""

import numpy as np
import pytest

from compiler import te
from compiler.cpu_gpu_backends.gpu.flat_inputs import with_flat_inputs
from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.graph import Graph
from compiler.graph.reference import evaluate
from compiler.ir import Program, interpret, lower
from runtime.devices.emulated import EmulatedDevice
from tests.support.float_graphs import FloatNet, inputs_of
from tests.support.nvrtc import require_nvrtc


def pixels(shape: tuple[int, ...], place) -> Program:
    """``t[p, c] = x[place(p), c]``, and x as it is behind it."""
    x = te.placeholder(shape, "int32", "x")
    count = int(np.prod(shape[:-1]))
    t = te.compute((count, shape[-1]), lambda p, c: x[(*place(p), c)] * 2, "t")
    y = te.compute(shape, lambda n, h, w, c: (
        x[n, h, w, c] + t[(n * shape[1] + h) * shape[2] + w, c]), "y")
    return lower([y], "main")


def test_all_that_reads_an_image_reads_the_matrix(rng) -> None:
    program = pixels((2, 3, 5, 4), lambda p: (p // 15, p // 5 % 3, p % 5))
    flat = with_flat_inputs(program)
    buffer, = flat.inputs
    assert buffer.shape == (30, 4)
    x = rng.integers(-9, 9, (2, 3, 5, 4)).astype(np.int32)
    np.testing.assert_array_equal(interpret(flat, {"x": x.reshape(30, 4)})["y"],
                                  interpret(program, {"x": x})["y"])


@pytest.mark.parametrize("place", [
    lambda p: (p // 15, p // 5 % 3, 4 - p % 5), lambda p: (p % 2, p // 2 % 3, p // 6)])
def test_images_that_are_read_in_another_order_stay(place) -> None:
    program = pixels((2, 3, 5, 4), place)
    assert with_flat_inputs(program) is program


def one_by_one() -> Graph:
    net = FloatNet(2, 160, 9, 7)
    y = net.conv("x", 72, 1)
    return net.finish([net.op("relu", net.conv(net.op("relu", y), 136, 1))])


@pytest.mark.slow
@pytest.mark.parametrize(("archs", "word"), [
    (("sm_90a",), "TensorMap x0_map0"),
    pytest.param((), "const half* __restrict__ x0", marks=pytest.mark.slow)])
def test_convolutions_of_single_pixels_are_products_of_matrices(archs, word: str) -> None:
    graph = one_by_one()
    require_nvrtc()
    segment = GpuTarget("cuda", "cuda", precision="f16", archs=archs).compile(graph)
    shapes = [[buffer.shape for buffer in step.code.inputs[:2]] for step in segment.steps
              if step.code and "conv2d" in step.code.name]
    assert shapes == [[(126, 160), (72, 160)], [(126, 72), (136, 72)]]
    assert word in segment.text[0]
    inputs = inputs_of(graph)
    found, = segment.on(EmulatedDevice())(inputs).values.values()
    wanted, = evaluate(graph, inputs).values()
    assert 1e-7 < np.abs(found - wanted).max() / np.abs(wanted).max() < 2**-8


def test_windows_apart_are_no_matrix() -> None:
    net = FloatNet(2, 64, 9, 7)
    graph = net.finish([net.op("relu", net.conv("x", 72, 1, stride=2))])
    segment = GpuTarget("cuda", "cuda", precision="f16").compile(graph)
    first = next(step.code for step in segment.steps if step.code and "conv2d" in step.code.name)
    assert first.inputs[0].shape == (2, 9, 7, 64)
