"""Operators beside the convolution whose results they read, and from ONNX to the accelerator."""

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from compiler.frontend import convert
from compiler.graph import Graph, evaluate, optimize, partition, subgraph
from tests.support.integer_graphs import Net, assert_right, run_program
from tests.support.machines import TINY
from tests.support.slow_cases import each_once

PYNQ = Machine(preset("pynq-1x16x16"))

AFTER: dict[str, Callable[[Net, str], str]] = {
    "leaky relu": lambda net, x: net.leaky_relu(x),
    "average of each window": lambda net, x: net.average_pool(
        x, (3, 3), (1, 1), (1, 1, 1, 1), 3, pixelwise=True),
    "average": lambda net, x: net.average_pool(x, (2, 2)),
    "upsample": lambda net, x: net.upsample(x, 2, 2),
    "slice": lambda net, x: net.slice(x, (0, 1, 1), (3, 17, 1), (1, 11, 2)),
    "concat": lambda net, x: net.concat(x, net.max_pool(x, (3, 3), (1, 1), (1, 1, 1, 1)), x),
}


@each_once("name, machine", [*AFTER], [TINY, PYNQ])
def test_beside_a_convolution(name: str, machine: Machine) -> None:
    net = Net(5)
    x = net.conv(net.input(1, 8, 12, 12), 20, (3, 3), pads=(1, 1, 1, 1))
    y = AFTER[name](net, x)
    assert_right(machine, net.graph(net.conv(y, 5, (1, 1))), net.samples())


class Writer:
    """A QDQ model, each tensor of scale 1/16 and zero point 3."""

    def __init__(self):
        self.nodes, self.constants = [], []
        self.rng = np.random.default_rng(3)

    def constant(self, array) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"k{len(self.constants)}"))
        return self.constants[-1].name

    def layer(self, op: str, *inputs: str, **attrs) -> str:
        """The operator, and the quantization of its result."""
        made = self.node(op, *inputs, **attrs)
        scale, zero = self.constant(np.float32(1 / 16)), self.constant(np.int8(3))
        return self.node("DequantizeLinear", self.node("QuantizeLinear", made, scale, zero),
                         scale, zero)

    def node(self, op: str, *inputs: str, **attrs) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attrs))
        return name

    def weight(self, *shape: int) -> str:
        values = self.rng.integers(-127, 128, shape).astype(np.int8)
        return self.node("DequantizeLinear", self.constant(values),
                         self.constant(np.float32(0.003)), self.constant(np.int8(0)))

    def graph(self, output: str, shape: list[int]) -> Graph:
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
        made = helper.make_graph(self.nodes, "net", inputs, outputs, self.constants)
        return optimize(convert(helper.make_model(
            made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)))


def test_a_network_of_all_of_them() -> None:
    """An ONNX network becomes one segment of the accelerator, equal to the reference to the bit."""
    w = Writer()
    x = w.layer("Identity", "x")
    bounds = w.constant(np.float32(0)), w.constant(np.float32(6))
    a = w.layer("Clip", w.node("Conv", x, w.weight(7, 3, 3, 3), pads=[1, 1, 1, 1]), *bounds)
    b = w.layer("AveragePool", a, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    c = w.layer("LeakyRelu", w.layer("Conv", b, w.weight(9, 7, 1, 1)), alpha=0.1)
    scales = w.constant(np.array([1, 1, 2, 2], np.float32))
    up = w.layer("Resize", c, "", scales, mode="nearest", nearest_mode="floor",
                 coordinate_transformation_mode="asymmetric")
    joined = w.layer("Concat", a, up, axis=1)
    sides = (w.constant(np.array(side, np.int64)) for side in ([5, 1], [15, 7], [1, 2]))
    cut = w.layer("Slice", joined, *sides)
    y = w.layer("Clip", w.layer("GlobalAveragePool", cut), *bounds)
    graph = w.graph(y, [2, 3, 8, 8])
    target = AccelTarget(TINY)
    parts = partition(graph, lambda node: target.refusal(graph, node))
    assert [segment.target for segment in parts.segments] == ["host", "accel", "host"]
    assert set(parts.reasons.values()) == {"the accelerator has no operator quantize",
                                           "the accelerator has no operator dequantize"}
    part = subgraph(graph, parts.segments[1])
    values = {name: w.rng.integers(-128, 128, part.values[name].shape).astype(np.int8)
              for name in part.inputs}
    found = run_program(TINY, target.compile(part).program, values)
    for name, wanted in evaluate(part, values).items():
        assert len(np.unique(wanted)) > 5
        np.testing.assert_array_equal(found[name], wanted)
