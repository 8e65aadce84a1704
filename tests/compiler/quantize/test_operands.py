"""Constants that are added and joined, and means before products: quantized, or left in float."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.mapping.selecting.selection import select
from compiler.frontend import convert
from compiler.graph import evaluate, optimize
from compiler.quantize import Quantized, quantize
from tests.support.machines import TINY

TOKENS, CHANNELS = 9, 8


class Writer:
    """A float model over tokens [1,9,8]."""

    def __init__(self):
        self.rng = np.random.default_rng(4)
        self.nodes: list = []
        self.constants: list = []

    def constant(self, array) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"k{len(self.constants)}"))
        return self.constants[-1].name

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant((self.rng.normal(size=shape) * scale).astype(np.float32))

    def node(self, op: str, *inputs: str, **attrs) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [f"{name}.out"], name, **attrs))
        return f"{name}.out"

    def product(self, x: str, inputs: int = CHANNELS) -> str:
        return self.node("MatMul", x, self.normal(inputs, CHANNELS, scale=inputs ** -0.5))

    def quantized(self, y: str) -> tuple[onnx.ModelProto, Quantized]:
        shape = [1, TOKENS, CHANNELS]
        graph = helper.make_graph(
            self.nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        samples = self.rng.normal(size=(8, TOKENS, CHANNELS)).astype(np.float32)
        return model, quantize(model, {"x": samples})


def position(w: Writer) -> str:
    return w.product(w.node("Add", w.product("x"), w.normal(TOKENS, CHANNELS)))


def class_token(w: Writer) -> str:
    joined = w.node("Concat", w.normal(1, 1, CHANNELS), w.product("x"), axis=1)
    return w.product(joined)


def mean(w: Writer) -> str:
    """A mean of what no quantized layer makes."""
    x = w.node("Softmax", w.product("x"), axis=-1)
    return w.product(w.node("ReduceMean", x, axes=[1], keepdims=0))


def maximum(w: Writer) -> str:
    return w.product(w.node("ReduceMax", w.product("x"), axes=[1], keepdims=0))


def pad(w: Writer) -> str:
    """Around tokens as an image of one channel, which no window reads."""
    x = w.node("Reshape", w.product("x"), w.constant(np.array([1, 1, TOKENS, CHANNELS])))
    x = w.node("Pad", x, w.constant(np.array([0, 0, 1, 0, 0, 0, 0, 0])))
    return w.product(x)


@pytest.mark.parametrize(("build", "op"), [
    (pad, "pad"), (position, "qadd"), (class_token, "qconcat"), (mean, "qmean"),
    (maximum, "qmaxpool")])
def test_they_are_integer_operators(build: Callable, op: str) -> None:
    w = Writer()
    y = build(w)
    model, found = w.quantized(y)
    graph = optimize(convert(found.model))
    floats = {node.op for node in graph.nodes if graph.values[node.outputs[0]].dtype == "float32"}
    assert op in {node.op for node in graph.nodes} and graph.notes == ()
    assert not floats & {"add", "concat", "reduce_sum", "reduce_max", "div"} or build is mean
    x = w.rng.normal(size=(1, TOKENS, CHANNELS)).astype(np.float32)
    real, integer = (evaluate(g, {"x": x})[y] for g in (optimize(convert(model)), graph))
    noise = np.square(real - integer).mean() / np.square(real).mean()
    assert noise < 2e-3


@pytest.mark.parametrize("op", ["Sub", "Max", "Min", "Mul"])
def test_what_is_compared_or_subtracted_has_one_scale(op: str) -> None:
    """Then it is one instruction on stored integers, and one for the scale of the result."""
    w = Writer()
    a, b = w.product("x"), w.node("MatMul", "x", w.normal(CHANNELS, CHANNELS, scale=0.3))
    _, found = w.quantized(w.product(w.node(op, a, b)))
    graph = optimize(convert(found.model))
    (node,) = (node for node in graph.nodes if node.op == "qmap")
    stored = {"Sub": "(x0 - x1)", "Max": "(max(x0, x1) ", "Min": "(min(x0, x1) "}
    assert node.attrs["function"].startswith(f"requantize({stored.get(op, '((x')}")
    steps = [step.intrinsic.name for step in select(TINY, graph, node).steps]
    assert op == "Mul" or len(steps) <= 3 and steps[-1] == "requantize"


def test_a_mask_stays_in_float() -> None:
    """It would leave few steps for what it is added to."""
    w = Writer()
    mask = np.where(np.tri(TOKENS, CHANNELS, dtype=bool), 0, -1e4).astype(np.float32)
    _, found = w.quantized(w.product(w.node("Add", w.product("x"), w.constant(mask))))
    reasons = {layer.name: layer.reason for layer in found.layers}
    assert reasons["add1"].startswith("its constant spans 1e+04, more than 8 times what else it "
                                      "reads, ")


@pytest.mark.parametrize("first", [False, True])
def test_a_factor_of_several_dimensions_is_an_operand(first: bool) -> None:
    """As the cosines of rotary positions are, which are the same for all heads."""
    w = Writer()
    x = w.node("Reshape", w.product("x"), w.constant(np.array([TOKENS, 2, CHANNELS // 2])))
    cosines = w.constant(np.cos(w.rng.normal(size=(TOKENS, 1, CHANNELS // 2)).astype(np.float32)))
    x = w.node("Mul", *((cosines, x) if first else (x, cosines)))
    y = w.product(w.node("Reshape", x, w.constant(np.array([1, TOKENS, CHANNELS]))))
    _, found = w.quantized(y)
    assert all(layer.quantized for layer in found.layers) and (found.decibels or 0) > 30
    graph = optimize(convert(found.model))
    (node,) = (node for node in graph.nodes if node.op == "qmap")
    (constant,) = graph.constants.keys() & {*node.inputs}
    assert graph.constants[constant].shape == (TOKENS, 2, CHANNELS // 2) and not graph.notes


def test_a_mask_is_part_of_a_softmax() -> None:
    w = Writer()
    mask = np.where(np.tri(TOKENS, CHANNELS, dtype=bool), 0, -np.inf).astype(np.float32)
    scores = w.node("Softmax", w.node("Add", w.product("x"), w.constant(mask)), axis=-1)
    _, found = w.quantized(w.product(scores))
    assert all(layer.quantized for layer in found.layers) and (found.decibels or 0) > 25
    ops = [node.op for node in optimize(convert(found.model)).nodes]
    assert "qsoftmax" in ops and "softmax" not in ops


def test_an_endless_constant_stays_in_float() -> None:
    w = Writer()
    mask = np.where(np.eye(TOKENS, CHANNELS, dtype=bool), -np.inf, 0).astype(np.float32)
    scores = w.node("Softmax", w.node("Add", w.product("x"), w.constant(mask)), axis=1)
    _, found = w.quantized(w.product(scores))
    reasons = {layer.name: layer.reason for layer in found.layers}
    assert reasons["add1"] == ("one of its inputs is a constant that is no tensor of finite "
                               "float32 numbers")


def test_a_mean_inside_of_a_norm_stays_in_float() -> None:
    w = Writer()
    x = w.product("x")
    _, found = w.quantized(w.product(w.node("Sub", x, w.node("ReduceMean", x, axes=[1]))))
    assert not any(layer.op == "mean" for layer in found.layers)
