"""ONNX models as graphs: names, types, constants, shapes."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend import convert, load
from compiler.graph import Graph, evaluate, verify


def info(name: str, *shape: int | str | None, dtype: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name: str, values, dtype: str = "float32") -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def made(nodes, inputs, outputs, constants=(), opset: int = 17, shapes=None) -> Graph:
    graph = helper.make_graph(nodes, "g", inputs, [info(name) for name in outputs],
                              list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return verify(convert(model, "m", shapes))


TEXT = """\
graph small {
  input x: float32[2,1,4,4]
  const w: float32[2,1,3,3] crc32=c1dafa31
  const k: float32[] = 0.5
  c: float32[2,2,2,2] = conv2d(x, w) {pads=(1,1,0,0), strides=(2,2)}  # conv
  r: float32[2,2,2,2] = relu(c)  # Relu_1
  s: float32[2,2,2,2] = add(r, k)  # Add_3
  f: float32[2,8] = reshape(s) {shape=(2,8)}  # Relu_1_1
  y: float32[2,8] = identity(f)  # Identity_5
  output y: float32[2,8]
}
"""


def small_model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w", ""], ["c"], "conv", strides=[2, 2],
                         auto_pad="SAME_LOWER"),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Constant", [], ["k"], value_float=0.5),
        helper.make_node("Add", ["r", "k"], ["s"]),
        helper.make_node("Flatten", ["s"], ["f"], "Relu_1"),
        helper.make_node("Identity", ["f"], ["y"]),
    ]
    w = np.arange(18, dtype=np.float32).reshape(2, 1, 3, 3)
    graph = helper.make_graph(nodes, "g", [info("x", "N", 1, 4, 4), info("w", 2, 1, 3, 3)],
                              [info("y", "N", 8)], [constant("w", w)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=3)


def test_text(tmp_path: Path) -> None:
    """Names are the model's; nameless nodes are called by operator and place; an initializer that
    is also an input is a constant; the absent bias is absent.
    """
    onnx.save(small_model(), tmp_path / "small.onnx")
    assert str(load(tmp_path / "small.onnx", {"N": 2})) == TEXT
    assert str(load(str(tmp_path / "small.onnx"), {"N": 2})) == TEXT


def test_external_data(tmp_path: Path) -> None:
    onnx.save(small_model(), tmp_path / "small.onnx", save_as_external_data=True,
              location="w.bin", size_threshold=0)
    assert str(load(tmp_path / "small.onnx", {"N": 2})) == TEXT


@pytest.mark.parametrize("opset", [10, 11, 13, 15, 18, 21, 23, onnx.defs.onnx_opset_version()])
def test_opsets(opset: int) -> None:
    graph = made([helper.make_node("Relu", ["x"], ["h"]),
                  helper.make_node("MaxPool", ["h"], ["y"], kernel_shape=[2, 2])],
                 [info("x", 1, 1, 3, 3)], ["y"], opset=opset)
    assert [node.op for node in graph.nodes] == ["relu", "maxpool"]


def test_shapes_bind_every_symbol() -> None:
    graph = made([helper.make_node("Add", ["a", "b"], ["y"])],
                 [info("a", "N", None), info("b", "N", 1)], ["y"],
                 shapes={"N": 4, "a.1": 3})
    assert str(graph.values["y"]) == "float32[4,3]"


def test_shapes_of_reshape_and_flatten() -> None:
    nodes = [helper.make_node("Reshape", ["x", "s"], ["a"]),
             helper.make_node("Flatten", ["x"], ["b"], axis=-1),
             helper.make_node("Flatten", ["x"], ["c"], axis=3),
             helper.make_node("Reshape", ["x", "t"], ["d"])]
    graph = made(nodes, [info("x", 2, 3, 4)], ["a", "b", "c", "d"],
                 [constant("s", [0, -1], "int64"), constant("t", [4, 0, 2, 1], "int64")])
    assert [graph.values[name].shape for name in "abcd"] == [(2, 12), (6, 4), (24, 1), (4, 3, 2, 1)]


def test_gemm_and_matmul() -> None:
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1),
             helper.make_node("MatMul", ["x", "v"], ["z"])]
    graph = made(nodes, [info("x", 2, 3)], ["y", "z"],
                 [constant("w", np.ones((4, 3))), constant("b", [5]),
                  constant("v", np.ones((3, 1)))])
    found = evaluate(graph, {"x": np.array([[1, 2, 3], [0, 0, 1]], np.float32)})
    assert found["y"].tolist() == [[11] * 4, [6] * 4]
    assert found["z"].tolist() == [[6], [1]]


def test_quantization_has_explicit_parameters() -> None:
    """A scale of one element becomes a scalar; an absent zero point becomes a constant."""
    nodes = [helper.make_node("QuantizeLinear", ["x", "s"], ["q"], "q"),
             helper.make_node("QuantizeLinear", ["x", "s"], ["i"], "i", output_dtype=3),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], "y"),
             helper.make_node("DequantizeLinear", ["b", "v"], ["w"], "w", axis=-1)]
    graph = made(nodes, [info("x", 2, 3)], ["y", "w", "i"],
                 [constant("s", [0.5]), constant("z", [0], "uint8"),
                  constant("b", [[1, 2], [3, 4]], "int32"), constant("v", [1, 2])],
                 opset=21)
    assert [str(graph.values[name]) for name in ("q", "i", "y", "w")] == [
        "uint8[2,3]", "int8[2,3]", "float32[2,3]", "float32[2,2]"]
    types = [[str(graph.values[name]) for name in node.inputs[1:]] for node in graph.nodes]
    assert types == [["float32[]", "uint8[]"], ["float32[]", "int8[]"], ["float32[]", "uint8[]"],
                     ["float32[2]", "int32[2]"]]
    assert [node.attrs["axis"] for node in graph.nodes] == [0, 0, 0, 1]
    found = evaluate(graph, {"x": np.array([[-1, 0.25, 0.75], [1, 200, 0]], np.float32)})
    assert found["y"].tolist() == [[0, 0, 1], [1, 127.5, 0]]
    assert found["i"].tolist() == [[-2, 0, 2], [2, 127, 0]]
    assert found["w"].tolist() == [[1, 4], [3, 8]]


def test_constants_of_every_form() -> None:
    nodes = [helper.make_node("Constant", [], ["a"], value_floats=[1.0, 2.0]),
             helper.make_node("Constant", [], ["b"], value=constant("", [[3]])),
             helper.make_node("Constant", [], ["c"], value_float=4.0),
             helper.make_node("Constant", [], ["s"], value_ints=[2, 1]),
             helper.make_node("Constant", [], ["n"], value_int=-1),
             helper.make_node("Add", ["a", "b"], ["ab"]),
             helper.make_node("Add", ["ab", "c"], ["d"]),
             helper.make_node("Reshape", ["d", "s"], ["y"]),
             helper.make_node("Reshape", ["y", "n"], ["z"])]
    graph = made(nodes, [], ["y", "z"])
    assert evaluate(graph, {})["y"].tolist() == [[8], [9]]
    assert evaluate(graph, {})["z"].tolist() == [8, 9]


def test_an_initializer_may_be_an_output() -> None:
    graph = made([helper.make_node("Relu", ["x"], ["y"])], [info("x", 1)], ["y", "w"],
                 [constant("w", [7])])
    assert evaluate(graph, {"x": np.array([1], np.float32)})["w"].tolist() == [7]


def test_unused_initializers_are_left_out() -> None:
    graph = made([helper.make_node("Relu", ["x"], ["y"])], [info("x", 1)], ["y"],
                 [constant("w", [7], "float64")])
    assert dict(graph.constants) == {}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_root_mean_square_normalization_of_onnx_runtime(dtype: str) -> None:
    """Both of its results; what is behind the axis counts as one."""
    rng = np.random.default_rng(3)
    x, scale = rng.normal(size=(2, 3, 4)).astype(dtype), rng.normal(size=(3, 4)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = made([helper.make_node("SimplifiedLayerNormalization", ["x", "s"], ["y", "i"], axis=-2,
                                   epsilon=0.01)],
                 [info("x", 2, 3, 4, dtype=kind)], ["y", "i"], [constant("s", scale, dtype)])
    found = evaluate(graph, {"x": x})
    inverse = 1 / np.sqrt((x.astype(float) ** 2).mean((1, 2), keepdims=True) + 0.01)
    assert (found["y"].dtype, found["i"].dtype) == (dtype, "float32")
    np.testing.assert_allclose(found["i"], inverse, 1e-6)
    limit = 2e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(found["y"], x * inverse * scale, limit)
