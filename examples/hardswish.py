"""A small network in float with blocks like those of MobileNet-v3, and samples for calibration.

    python examples/hardswish.py [FOLDER]

writes ``hardswish.onnx`` and ``hardswish.npz``: a stem, three blocks of an expansion, a depthwise
convolution, a gate by hard sigmoid and a projection, and a classifier; hard-swish stands five times
as the operator of ONNX, and four times as the operators that other exporters write. Weights and
samples are random, from a fixed seed.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE, CLASSES = 64, 10
BLOCKS = ((64, 5, 24, 2), (96, 5, 24, 1), (144, 3, 48, 2))
"""Expanded channels, extent of the depthwise convolution, channels of the result, stride."""


@dataclass
class Network:
    """Nodes in order; methods return the name of the value that they make."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(11))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    swishes: int = 0

    def add(self, op: str, name: str, *inputs: str, **attributes) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def constant(self, name: str, array) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def conv(self, x: str, name: str, inputs: int, outputs: int, kernel: int = 1, stride: int = 1,
             group: int = 1) -> str:
        shape = (outputs, inputs // group, kernel, kernel)
        weight = self.rng.normal(size=shape) * np.sqrt(2 / np.prod(shape[1:]))
        return self.add("Conv", name, x, self.constant(f"{name}.weight", weight),
                        self.constant(f"{name}.bias", self.rng.normal(size=outputs) * 0.2),
                        kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4,
                        group=group)

    def hard_swish(self, x: str) -> str:
        """By turns as one operator and as x relu6(x + 3) / 6."""
        self.swishes += 1
        name = f"{x}.hswish"
        if self.swishes % 2:
            return self.add("HardSwish", name, x)
        bounds = [self.constant(f"{name}.{bound}", bound) for bound in (0, 6)]
        moved = self.add("Add", f"{name}.moved", x, self.constant(f"{name}.three", 3))
        product = self.add("Mul", f"{name}.product", x, self.add(
            "Clip", f"{name}.gate", moved, *bounds))
        return self.add("Div", name, product, self.constant(f"{name}.divisor", 6))

    def gate(self, x: str, name: str, channels: int) -> str:
        squeezed = max(8, channels // 4)
        pooled = self.add("GlobalAveragePool", f"{name}.pool", x)
        inner = self.add("Relu", f"{name}.relu", self.conv(pooled, f"{name}.less", channels,
                                                           squeezed))
        outer = self.conv(inner, f"{name}.more", squeezed, channels)
        return self.add("Mul", f"{name}.gated", x, self.add(
            "HardSigmoid", f"{name}.gate", outer, alpha=1 / 6, beta=0.5))

    def block(self, x: str, name: str, inputs: int, wide: int, kernel: int, outputs: int,
              stride: int) -> str:
        y = self.hard_swish(self.conv(x, f"{name}.expand", inputs, wide))
        y = self.hard_swish(self.conv(y, f"{name}.depthwise", wide, wide, kernel, stride, wide))
        y = self.conv(self.gate(y, name, wide), f"{name}.project", wide, outputs)
        return self.add("Add", f"{name}.sum", x, y) if (stride, inputs) == (1, outputs) else y


def network(size: int = SIZE) -> onnx.ModelProto:
    net = Network()
    x, channels = net.hard_swish(net.conv("x", "stem", 3, 16, 3, 2)), 16
    for number, (wide, kernel, outputs, stride) in enumerate(BLOCKS, 1):
        x = net.block(x, f"block{number}", channels, wide, kernel, outputs, stride)
        channels = outputs
    x = net.hard_swish(net.conv(x, "last", channels, 192))
    x = net.hard_swish(net.conv(net.add("GlobalAveragePool", "pool", x), "wide", 192, 256))
    x = net.add("Flatten", "y", net.conv(x, "classes", 256, CLASSES))
    typed = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in (("x", (1, 3, size, size)), ("y", (1, CLASSES)))]
    graph = helper.make_graph(net.nodes, "hardswish", typed[:1], typed[1:], net.constants)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def samples(count: int = 8, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(12).normal(size=(count, 3, size, size)).astype(np.float32)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    onnx.save(network(), folder / "hardswish.onnx")
    np.savez(folder / "hardswish.npz", x=samples())
    print(f"{folder / 'hardswish.onnx'}, {folder / 'hardswish.npz'}")
