"""A small network in float with |a - b| and Max between convolutions, and samples for calibration.

    python examples/distance.py [FOLDER]

writes ``distance.onnx`` and ``distance.npz``: two branches of a hard-swish stem, their distance,
the greater of it and one of them, ten outputs. Weights and samples are random, from a fixed seed.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPES = {"stem.weight": (8, 3, 3, 3), "left.weight": (8, 8, 3, 3), "right.weight": (8, 8, 1, 1),
          "head.weight": (10, 8)}


def network() -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    constants = [numpy_helper.from_array(
        (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32), name)
        for name, shape in SHAPES.items()]
    nodes = [helper.make_node("Conv", ["x", "stem.weight"], ["stem"], "stem"),
             helper.make_node("HardSwish", ["stem"], ["active"], "hswish"),
             helper.make_node("Conv", ["active", "left.weight"], ["left"], "left", pads=[1] * 4),
             helper.make_node("Conv", ["active", "right.weight"], ["right"], "right"),
             helper.make_node("Sub", ["left", "right"], ["difference"], "difference"),
             helper.make_node("Abs", ["difference"], ["distance"], "distance"),
             helper.make_node("Max", ["distance", "left"], ["greater"], "greater"),
             helper.make_node("GlobalAveragePool", ["greater"], ["pooled"], "mean"),
             helper.make_node("Flatten", ["pooled"], ["flat"], "flat"),
             helper.make_node("Gemm", ["flat", "head.weight"], ["y"], "head", transB=1)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (("x", (1, 3, 16, 16)), ("y", (1, 10))))
    graph = helper.make_graph(nodes, "distance", [x], [y], constants)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def samples(count: int = 8) -> np.ndarray:
    return np.random.default_rng(4).normal(size=(count, 3, 16, 16)).astype(np.float32)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    onnx.save(network(), folder / "distance.onnx")
    np.savez(folder / "distance.npz", x=samples())
    print(f"{folder / 'distance.onnx'}, {folder / 'distance.npz'}")
