"""ONNX files of one operator."""

from pathlib import Path

import onnx
from onnx import TensorProto, helper

__all__ = ["operator_model"]


def operator_model(path: Path, op: str, shape: list, outputs: int = 1) -> Path:
    names = [f"y{n}" for n in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], [name], f"{op.lower()}{n}")
         for n, name in enumerate(names)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names])
    onnx.save(helper.make_model(graph, ir_version=10,
                                opset_imports=[helper.make_opsetid("", 17)]), path)
    return path
