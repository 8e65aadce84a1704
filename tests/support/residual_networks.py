"""Residual networks of any depth for images of 32 x 32, as ONNX models to train."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STEM, CLASSES = 16, 10


def residual(depth: int, width: int = STEM, size: int = 32, seed: int = 0, stages: int = 3
             ) -> onnx.ModelProto:
    """A ResNet for small images, of K. He et al., CVPR 2016, section 4.2: a convolution, three
    stages of blocks of two, each followed by a batch norm, and a dense layer. `depth` counts
    convolutions and the dense layer; it is the next smaller one of 6 n + 2. Of its `stages` the
    last may be left out.
    """
    rng, nodes, arrays = np.random.default_rng(seed), list[onnx.NodeProto](), {}

    def convolution(name: str, x: str, channels: int, out: int, stride: int = 1, side: int = 3
                    ) -> str:
        weight = rng.standard_normal((out, channels, side, side)) * np.sqrt(
            2 / (channels * side * side))
        arrays[f"{name}.weight"] = weight.astype(np.float32)
        for role, value in (("scale", 1), ("bias", 0), ("mean", 0), ("variance", 1)):
            arrays[f"{name}.norm.{role}"] = np.full(out, value, np.float32)
        nodes.append(helper.make_node("Conv", [x, f"{name}.weight"], [f"{name}.sums"], name,
                                      strides=[stride] * 2, pads=[side // 2] * 4))
        nodes.append(helper.make_node(
            "BatchNormalization", [f"{name}.sums", *(f"{name}.norm.{role}" for role in
                                                     ("scale", "bias", "mean", "variance"))],
            [f"{name}.out"], f"{name}.norm"))
        return f"{name}.out"

    def relu(x: str) -> str:
        nodes.append(helper.make_node("Relu", [x], [f"{x}.relu"], f"{x}.relu"))
        return f"{x}.relu"

    x, channels = relu(convolution("stem", "x", 3, width)), width
    for stage in range(stages):
        for block in range((depth - 2) // 6):
            name, out = f"stage{stage}.block{block}", width << stage
            stride = 1 if out == channels else 2
            inner = relu(convolution(f"{name}.first", x, channels, out, stride))
            inner = convolution(f"{name}.second", inner, out, out)
            around = x if stride == 1 else convolution(f"{name}.around", x, channels, out, 2, 1)
            nodes.append(helper.make_node("Add", [inner, around], [f"{name}.sum"], f"{name}.add"))
            x, channels = relu(f"{name}.sum"), out
    arrays["dense.weight"] = (rng.standard_normal((channels, CLASSES)) / 8).astype(np.float32)
    arrays["dense.bias"] = np.zeros(CLASSES, np.float32)
    nodes += [helper.make_node("GlobalAveragePool", [x], ["pooled"], "pool"),
              helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"),
              helper.make_node("Gemm", ["flat", "dense.weight", "dense.bias"], ["y"], "dense")]
    graph = helper.make_graph(
        nodes, f"resnet{depth}",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, size, size))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
