"""Results over operands that nobody reads afterwards: the lead is enough, and not more than it
must be; and sums on processors without vectors, which make it short.
"""

import ctypes

import numpy as np
import pytest

from compiler.cpu_gpu_backends.cpu.groups import group_program
from compiler.cpu_gpu_backends.cpu.lowering import passes
from compiler.cpu_gpu_backends.cpu.overlaps import lead
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.cpu_gpu_backends.llvm import instruction_sets as sets
from compiler.cpu_gpu_backends.groups import recipe_of
from compiler.cpu_gpu_backends.llvm import build
from compiler.graph import Builder, Graph, TensorType, evaluate
from compiler.graph.fusion import fuse
from compiler.graph.passes.pipeline import optimize
from compiler.ir import Alloc, walk_stmts
from tests.support.integer_graphs import Net

SCALAR = Vectors(sets.SMALL, doubles=False, stacked=256)


def kernel_of(graph: Graph, op: str):
    """The kernel of the group that has the operator, the graph that it is of, and the group."""
    graph = optimize(graph, passes(SCALAR))
    group = next(group for group in fuse(graph).groups
                 if any(node.op == op for node in group.nodes))
    program = group_program(recipe_of(graph, group), SCALAR)
    return build(program, in_place=[buffer.name for buffer in program.inputs]), graph, group


def computed(kernel, arrays: list[np.ndarray], before: int | None, size: int, of: int = 0
             ) -> np.ndarray:
    """The result, where it begins so many bytes before an operand, or apart from all."""
    room = size + arrays[of].nbytes + (before or 0) + 64
    block = np.zeros(2 * room, np.uint8)
    begin = room if before is not None else 0
    operand = block[begin:begin + arrays[of].nbytes]
    operand[:] = arrays[of].reshape(-1).view(np.uint8)
    places = [array.ctypes.data for array in arrays]
    places[of] = operand.ctypes.data
    made = begin - before if before is not None else room
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * (len(arrays) + 1))
    assert function(kernel.address)(*places, block[made:].ctypes.data) == 0
    return block[made:made + size].copy()


def assert_lead(graph: Graph, op: str, most: int) -> None:
    """With its lead the result is the one that it is apart; with less it is another one. No buffer
    is allocated for a copy.
    """
    kernel, graph, group = kernel_of(graph, op)
    rng = np.random.default_rng(3)
    arrays = [np.ascontiguousarray(graph.constants[value]) if value in graph.constants else
              rng.integers(-128, 128, graph.values[value].shape).astype(np.int8)
              for value in group.inputs]
    size = int(kernel.program.outputs[0].size_bytes)
    wanted = computed(kernel, arrays, None, size)
    needed = lead(kernel.program, kernel.program.inputs[0])
    assert needed <= most
    for before in (needed, needed + 1, needed + 64):
        np.testing.assert_array_equal(computed(kernel, arrays, before, size), wanted)
    assert any((computed(kernel, arrays, needed - less, size) != wanted).any()
               for less in range(1, needed + 64))
    stages = [stmt.buffer for stmt in walk_stmts(kernel.program.body) if isinstance(stmt, Alloc)]
    assert sum(int(stage.size_bytes) for stage in stages) <= 16 * len(stages)
    assert len(kernel.program.outputs) == 1


@pytest.mark.parametrize(("shape", "outputs", "kernel", "strides", "pads", "more", "most"), [
    ((1, 8, 9, 8), 8, (3, 3), (1, 1), (1, 1, 1, 1), {}, 9 * 8 + 16),        # a row and a pixel
    ((1, 8, 6, 7), 20, (1, 1), (1, 1), (0, 0, 0, 0), {}, 42 * 12 + 8),      # the result is longer
    ((2, 5, 7, 6), 6, (3, 3), (1, 2), (1, 0, 2, 1), {"dilations": (2, 1)}, 5 * 42),
    ((1, 12, 8, 7), 12, (3, 3), (1, 1), (1, 1, 1, 1), {"group": 12}, 8 * 12 + 4),
    ((1, 12, 8, 7), 12, (3, 3), (2, 2), (0, 0, 1, 1), {"group": 12}, 8)])
def test_a_convolution_follows_itself(shape, outputs, kernel, strides, pads, more, most) -> None:
    net = Net()
    graph = net.graph(net.conv(net.input(*shape), outputs, kernel, strides, pads, pad_value=-5,
                               **more))
    depthwise = more.get("group", 1) > 1
    assert_lead(graph, "qdepthwise_last" if depthwise else "qconv2d_direct", most)


def test_what_a_sum_reads_again_and_again_stays_whole() -> None:
    """A dense layer reads all of its input for every output."""
    net = Net()
    kernel, *_ = kernel_of(net.graph(net.dense(net.input(1, 24), 18)), "qdense")
    assert lead(kernel.program, kernel.program.inputs[0]) == 18


def test_maps_write_where_they_read() -> None:
    net = Builder("g")
    net.add_input("x", TensorType((5, 7), "int32"))
    kernel, *_ = kernel_of(net.finish([net.emit("transpose", "t", ["x"], "t", perm=(1, 0))]),
                           "transpose")
    assert lead(kernel.program, kernel.program.inputs[0]) == (4 * 7 + 1 - 4) * 4
    net = Builder("g")
    net.add_input("x", TensorType((5, 7), "float32"))
    kernel, *_ = kernel_of(net.finish([net.emit("relu", "r", ["x"], "r")]), "relu")
    assert lead(kernel.program, kernel.program.inputs[0]) == 4      # one element, read and written


def test_a_network_without_vectors_means_the_same() -> None:
    net = Net()
    x = net.conv(net.input(1, 3, 13, 11), 10, (3, 3), (2, 1), (1, 1, 0, 1), pad_value=3)
    y = net.conv(x, 10, (3, 3), (1, 1), (1, 1, 1, 1), pad_value=4, group=10)
    graph = net.graph(net.conv(y, 6, (1, 1)))
    lowered = optimize(graph, passes(SCALAR))
    assert [node.op for node in lowered.nodes] == [
        "relayout", "qconv2d_direct", "qdepthwise_last", "qconv2d_direct", "relayout"]
    given = {value: np.random.default_rng(1).integers(
        -128, 128, graph.values[value].shape).astype(np.int8) for value in graph.inputs}
    for name, array in evaluate(graph, given).items():
        np.testing.assert_array_equal(evaluate(lowered, given)[name], array)
