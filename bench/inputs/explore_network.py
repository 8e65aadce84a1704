"""A network that is simulated in a few hundredths of a second: two convolutions in int8.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, HIDDEN, SIZE = 16, 32, 12


def write_small_network(path: Path, seed: int = 0) -> None:
    """Writes an ONNX file in QDQ form: a 3x3 and a 1x1 convolution with seeded random weights."""
    random = np.random.default_rng(seed)
    constants = {"scale": np.float32(0.05), "zero": np.int8(0), "weight_scale": np.float32(0.01),
                 "bias_scale": np.float32(0.0005), "bias_zero": np.int32(0)}
    nodes: list[onnx.NodeProto] = []

    def node(kind: str, inputs: list[str], output: str, **attributes) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], output, **attributes))
        return output

    def quantized(name: str, value: str) -> str:
        node("QuantizeLinear", [value, "scale", "zero"], f"{name}.q")
        return node("DequantizeLinear", [f"{name}.q", "scale", "zero"], f"{name}.dq")

    def convolution(name: str, value: str, inputs: int, outputs: int, kernel: int) -> str:
        constants[f"{name}.w"] = random.integers(-127, 128, (outputs, inputs, kernel, kernel)
                                                 ).astype(np.int8)
        constants[f"{name}.b"] = random.integers(-500, 500, outputs).astype(np.int32)
        weights = node("DequantizeLinear", [f"{name}.w", "weight_scale", "zero"], f"{name}.wdq")
        bias = node("DequantizeLinear", [f"{name}.b", "bias_scale", "bias_zero"], f"{name}.bdq")
        return quantized(name, node("Conv", [value, weights, bias], name, pads=[kernel // 2] * 4))

    hidden = convolution("conv1", quantized("image", "x"), CHANNELS, HIDDEN, 3)
    result = convolution("conv2", hidden, HIDDEN, CHANNELS, 1)
    shape = (1, CHANNELS, SIZE, SIZE)
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              path)
