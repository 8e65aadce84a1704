"""A small segmentation network in float whose last operator is ArgMax over channels, and samples.

    python examples/argmax.py [FOLDER]

writes ``argmax.onnx`` and ``argmax.npz``: two convolutions and the class of every pixel, one of 21,
which are several blocks of channels. Two classes have the same weights, so that values are equal:
the first one wins. Weights and samples are random, from a fixed seed.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = 21
TWINS = (5, 18)
"""Classes of the same weights, in different blocks of channels."""


def network() -> onnx.ModelProto:
    rng = np.random.default_rng(5)
    shapes = {"stem.weight": (8, 3, 3, 3), "head.weight": (CLASSES, 8, 1, 1)}
    arrays = {name: (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
              for name, shape in shapes.items()}
    arrays["head.weight"][TWINS[1]] = arrays["head.weight"][TWINS[0]]
    nodes = [helper.make_node("Conv", ["x", "stem.weight"], ["stem"], "stem", pads=[1] * 4),
             helper.make_node("Relu", ["stem"], ["active"], "relu"),
             helper.make_node("Conv", ["active", "head.weight"], ["logits"], "head"),
             helper.make_node("ArgMax", ["logits"], ["class"], "classes", axis=1, keepdims=0)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 12, 12))
    y = helper.make_tensor_value_info("class", TensorProto.INT64, (1, 12, 12))
    graph = helper.make_graph(nodes, "argmax", [x], [y], [
        numpy_helper.from_array(array, name) for name, array in arrays.items()])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def samples(count: int = 8) -> np.ndarray:
    return np.random.default_rng(6).normal(size=(count, 3, 12, 12)).astype(np.float32)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    onnx.save(network(), folder / "argmax.onnx")
    np.savez(folder / "argmax.npz", x=samples())
    print(f"{folder / 'argmax.onnx'}, {folder / 'argmax.npz'}")
