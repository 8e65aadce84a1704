"""Networks of sequences, quantized by us, on the accelerator: every convolution and pool."""

from itertools import product

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from accel.sim.meaning import functional
from accel.sim.rtl import verilated
from accel.sim.timed import cycle
from compiler.graph import Graph, evaluate, optimize, partition, subgraph
from compiler.quantize import quantize
from tests.support.integer_graphs import Net, run_program
from tests.support.machines import MACHINES, TINY

SHAPES = ((1, 3, 31, 8), (2, 6, 17, 9), (1, 1, 40, 5))
"""Images, channels, length, and channels of the layers."""


def network(images: int, channels: int, length: int, width: int) -> Graph:
    """The integer graph of convolutions, pools and sums of sequences, in one and two phases."""
    rng, constants, nodes = np.random.default_rng(length), [], []

    def constant(*shape: int) -> str:
        array = (0.4 * rng.standard_normal(shape)).astype(np.float32)
        constants.append(numpy_helper.from_array(array, f"k{len(constants)}"))
        return constants[-1].name

    def add(op: str, *inputs: str, **attrs) -> str:
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], f"n{len(nodes)}", **attrs))
        return nodes[-1].output[0]

    a = add("Relu", add("Conv", "x", constant(width, channels, 5), constant(width), strides=[2],
                        pads=[2, 1]))
    b = add("MaxPool", a, kernel_shape=[3], pads=[1, 1])
    c = add("Conv", add("Add", a, b), constant(width, 1, 3), group=width, dilations=[2],
            pads=[2, 2])
    c = add("AveragePool", add("Concat", a, c, axis=1), kernel_shape=[3], strides=[2], pads=[1, 1])
    y = add("ConvTranspose", c, constant(2 * width, 4, 4), strides=[2])
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (("x", (images, channels, length)), (y, None))]
    model = helper.make_model(helper.make_graph(nodes, "g", info[:1], info[1:], constants),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    samples = rng.standard_normal((8 * images, channels, length), np.float32)
    made = quantize(model, samples)
    return optimize(made.graph)


def on_accelerator(graph: Graph, machine: Machine) -> Graph:
    target = AccelTarget(machine)
    parts = partition(graph, lambda node: target.refusal(graph, node))
    part, = (segment for segment in parts.segments if segment.target == "accel")
    return subgraph(graph, part)


def assert_equal(graph: Graph, machine: Machine, simulators) -> None:
    rng = np.random.default_rng(1)
    samples = {name: rng.integers(-128, 128, graph.values[name].shape).astype(np.int8)
               for name in graph.inputs}
    program = AccelTarget(machine).compile(graph).program
    for simulator in simulators:
        found = run_program(machine, program, samples, simulator.simulate)
        for name, wanted in evaluate(graph, samples).items():
            assert len(np.unique(wanted)) > 9
            np.testing.assert_array_equal(found[name], wanted)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name, shape", [
    *product(["2x8x8", "tiny-1x4x4"], (*SHAPES[1:], SHAPES[0]))])
def test_one_segment_has_all_layers(name: str, shape) -> None:
    graph = on_accelerator(network(*shape), MACHINES[name])
    ops = [node.op for node in graph.nodes]
    assert ops.count("qconv2d") == 2 and {"qmaxpool", "qadd", "qavgpool", "qconcat",
                                          "qconvtranspose2d"} <= set(ops)
    assert_equal(graph, MACHINES[name], (functional, cycle))


@pytest.mark.slow
def test_rtl() -> None:
    assert_equal(on_accelerator(network(2, 3, 13, 5), TINY), TINY, (verilated,))


def test_a_copy_that_nothing_on_the_accelerator_reads_is_left_to_the_host() -> None:
    """Channels last in memory become channels first only byte by byte."""
    net = Net(3)
    y = net.conv(net.input(1, 4, 3, 5), 8, (1, 1))
    z = net.reshape(y, 1, 8, 15)
    target, graph = AccelTarget(TINY), net.graph(z)
    assert [target.refusal(graph, node) for node in graph.nodes] == [
        None, "no layer reads its result, and a reshape by the host costs less than a copy"]
    free = net.graph(net.transpose(z, 0, 2, 1))             # strides, no copy
    assert [target.refusal(free, node) for node in free.nodes] == [None] * 3
    read = net.graph(net.matmul(z, z, trans_b=True))
    assert [target.refusal(read, node) for node in read.nodes] == [None] * 4
