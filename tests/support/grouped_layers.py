"""A small network of matrices whose groups of inputs have ranges of their own."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 96


def network(rng) -> onnx.ModelProto:
    """Four dense layers; the weights of a group have ranges of their own."""
    nodes, constants, value = [], [], "x"
    for place in range(4):
        weight = rng.standard_normal((WIDTH, WIDTH)) * rng.uniform(
            0.1, 1, (WIDTH // 32, WIDTH)).repeat(32, axis=0) / np.sqrt(WIDTH)
        constants.append(numpy_helper.from_array(weight.astype(np.float32), f"w{place}"))
        nodes += [helper.make_node("MatMul", [value, f"w{place}"], [f"m{place}"], f"dense{place}"),
                  helper.make_node("Relu", [f"m{place}"], [f"r{place}"], f"relu{place}")]
        value = f"r{place}"
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "m", [info("x", TensorProto.FLOAT, ["N", WIDTH])],
                              [info(value, TensorProto.FLOAT, ["N", WIDTH])], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
