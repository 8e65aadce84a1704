"""Small ONNX models to train."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROWS, CHANNELS, CLASSES = 4, 3, 5
Arrays = dict[str, np.ndarray]


def model_of(nodes: Sequence[onnx.NodeProto], shape: Sequence[int | str], arrays: Arrays,
             output: str = "y", opset: int = 17) -> onnx.ModelProto:
    """A model with the input `x` of this shape and these initializers."""
    graph = helper.make_graph(
        list(nodes), "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()])
    return helper.make_model(graph, ir_version=8,
                             opset_imports=[helper.make_opsetid("", opset)])


def normed(rng: np.random.Generator) -> onnx.ModelProto:
    """A convolution, a batch norm of its sums, and one row of results for each image of 4 x 4."""
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)     # noqa: E731
    nodes = [helper.make_node("Conv", ["x", "conv.weight"], ["s"], "conv", pads=[1] * 4),
             helper.make_node("BatchNormalization",
                              ["s", "norm.scale", "norm.bias", "norm.mean", "norm.variance"],
                              ["n"], "norm", momentum=0.8),
             helper.make_node("Relu", ["n"], ["r"], "relu"),
             helper.make_node("GlobalAveragePool", ["r"], ["g"], "pool"),
             helper.make_node("Flatten", ["g"], ["f"], "flatten"),
             helper.make_node("Gemm", ["f", "dense.weight", "dense.bias"], ["y"], "dense")]
    return model_of(nodes, (1, 2, 4, 4), {
        "conv.weight": draw(CHANNELS, 2, 3, 3), "norm.scale": draw(CHANNELS),
        "norm.bias": draw(CHANNELS), "norm.mean": draw(CHANNELS),
        "norm.variance": 1 + draw(CHANNELS) ** 2,
        "dense.weight": draw(CHANNELS, CLASSES), "dense.bias": draw(CLASSES)})


def dropping(share: float, opset: int = 17) -> onnx.ModelProto:
    """A factor for each of 64 elements of a row, and a dropout of the products."""
    nodes = [helper.make_node("Mul", ["x", "w"], ["m"], "mul")]
    if opset < 12:
        nodes.append(helper.make_node("Dropout", ["m"], ["y"], "drop", ratio=share))
        return model_of(nodes, (ROWS, 64), {"w": np.ones(64, np.float32)}, opset=opset)
    nodes.append(helper.make_node("Dropout", ["m", "ratio"], ["y"], "drop"))
    return model_of(nodes, (ROWS, 64), {"w": np.ones(64, np.float32),
                                        "ratio": np.array(share, np.float32)})
