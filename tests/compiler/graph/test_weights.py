"""Passes that compute weights beforehand: batch norms folded, dense weights in rows."""

import numpy as np
import pytest

from compiler.graph import Builder, Graph, TensorType, evaluate, optimize
from compiler.graph.passes import FoldScales, TransposeWeights
from tests.support.float_graphs import assert_near, inputs_of

SUMS = ("conv2d", "grouped", "convtranspose2d", "grouped transposed", "dense", "dense transposed")


class Net(Builder):
    """Random constants; `sums` is one convolution or dense layer of x with 6 channels."""

    def __init__(self):
        super().__init__("net")
        self.rng = np.random.default_rng(0)

    def constant(self, *shape: int) -> str:
        name = self.fresh("k")
        return self.add_constant(name, self.rng.standard_normal(shape).astype(np.float32))

    def sums(self, form: str, bias: bool = True) -> str:
        made = [self.constant(6)] if bias else []
        if form.startswith("dense"):
            self.add_input("x", TensorType((2, 5), "float32"))
            turned = form.endswith("transposed")
            weight = self.constant(*((6, 5) if turned else (5, 6)))
            return self.emit("dense", "sums", ["x", weight, *made], "s", trans_b=int(turned))
        group = 2 if form.startswith("grouped") else 1
        self.add_input("x", TensorType((2, 4, 5, 3), "float32"))
        op = "convtranspose2d" if "transpose" in form else "conv2d"
        weight = (self.constant(6, 4 // group, 3, 2) if op == "conv2d"
                  else self.constant(4, 6 // group, 3, 2))
        return self.emit(op, "sums", ["x", weight, *made], "s", strides=(1, 1), pads=(1, 0, 0, 1),
                         group=group)

    def per_channel(self, value: str) -> str:
        rank = len(self.values[value].shape)
        return self.constant(1, 6, *(1,) * (rank - 2))

    def norm(self, value: str, name: str = "norm") -> str:
        scaled = self.emit("mul", f"{name}.mul", [value, self.per_channel(value)], f"{name}.m")
        return self.emit("add", f"{name}.add", [self.per_channel(value), scaled], f"{name}.a")


def assert_same(graph: Graph, made: Graph) -> None:
    inputs = inputs_of(graph)
    for name, array in evaluate(graph, inputs).items():
        assert_near(evaluate(made, inputs)[name], array)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("form", SUMS)
def test_a_batch_norm_is_folded_into_weights(form: str, bias: bool) -> None:
    net = Net()
    graph = net.finish([net.emit("relu", "relu", [net.norm(net.sums(form, bias))], "y")])
    made = optimize(graph, [FoldScales()])
    assert len(made.nodes) == 2 and made.nodes[1].op == "relu"
    assert set(made.constants) == {"sums:weight", "sums:bias"}
    assert_same(graph, made)


def test_single_numbers_are_folded_too() -> None:
    net = Net()
    value = net.emit("mul", "half", [net.sums("conv2d"), net.constant()], "h")
    graph = net.finish([net.emit("add", "moved", [value, net.constant(1, 1, 1)], "y")])
    made = optimize(graph, [FoldScales()])
    assert ops(made) == ["conv2d"]
    assert_same(graph, made)


def test_differences_are_folded_where_the_constant_is_taken_away() -> None:
    net = Net()
    sums = net.sums("conv2d")
    value = net.emit("sub", "centred", [sums, net.per_channel(sums)], "d")
    graph = net.finish([net.emit("mul", "scaled", [value, net.per_channel(value)], "y")])
    made = optimize(graph, [FoldScales()])
    assert ops(made) == ["conv2d"]
    assert_same(graph, made)


def test_a_constant_less_the_sums_stays() -> None:
    net = Net()
    sums = net.sums("conv2d")
    graph = net.finish([net.emit("sub", "turned", [net.per_channel(sums), sums], "y")])
    assert ops(optimize(graph, [FoldScales()])) == ["conv2d", "sub"]


@pytest.mark.parametrize("case", ["an output", "read twice", "for each pixel", "computed",
                                  "a computed weight"])
def test_what_must_not_be_folded_stays(case: str) -> None:
    net = Net()
    value = net.sums("conv2d")
    if case == "a computed weight":
        net = Net()
        for name, shape in (("x", (1, 4, 5, 3)), ("w", (6, 4, 1, 1))):
            net.add_input(name, TensorType(shape, "float32"))
        value = net.emit("conv2d", "sums", ["x", "w"], "s", strides=(1, 1), pads=(0,) * 4)
    other = net.per_channel(value)
    if case == "for each pixel":
        other = net.constant(*net.values[value].shape)
    elif case == "computed":
        other = net.emit("globalavgpool", "mean", [value], "g")
    outputs = [net.emit("mul", "mul", [value, other], "y")]
    if case == "an output":
        outputs.append(value)
    elif case == "read twice":
        outputs.append(net.emit("relu", "relu", [value], "r"))
    graph = net.finish(outputs)
    assert ops(optimize(graph, [FoldScales()])) == ops(graph)


@pytest.mark.parametrize("shape", [(4, 1), (4, 4)])
def test_a_bias_of_rows_is_not_folded(shape: tuple[int, int]) -> None:
    """Though there are as many rows as channels."""
    net = Net()
    net.add_input("x", TensorType((4, 5), "float32"))
    value = net.emit("dense", "sums", ["x", net.constant(4, 5), net.constant(*shape)], "s",
                     trans_b=1)
    graph = net.finish([net.emit("mul", "mul", [value, net.constant(4)], "y")])
    made = optimize(graph, [FoldScales()])
    assert ops(made) == ["dense", "mul"]
    assert_same(graph, made)


def test_dense_weights_are_turned_once() -> None:
    net = Net()
    for name in "xz":
        net.add_input(name, TensorType((2, 5), "float32"))
    weight, bias = net.constant(6, 5), net.constant(6)
    for name in "xz":
        net.emit("dense", f"dense_{name}", [name, weight, bias], f"y{name}", trans_b=1)
    graph = net.finish(["yx", "yz"])
    made = optimize(graph, [TransposeWeights()])
    assert [node.attrs["trans_b"] for node in made.nodes] == [0, 0]
    assert {name: array.shape for name, array in made.constants.items()} == {
        bias: (6,), f"{weight}:transposed": (5, 6)}
    inputs = inputs_of(graph)
    for name, array in evaluate(graph, inputs).items():
        np.testing.assert_array_equal(evaluate(made, inputs)[name], array)


def test_computed_dense_weights_stay() -> None:
    net = Net()
    for name, shape in (("x", (2, 5)), ("w", (6, 5))):
        net.add_input(name, TensorType(shape, "float32"))
    graph = net.finish([net.emit("dense", "dense", ["x", "w"], "y", trans_b=1)])
    assert optimize(graph, [TransposeWeights()]) is graph
