"""Factors of products as halves: what is stored so, who reads it, and that types stay."""

import numpy as np
import pytest

from compiler.graph import Graph, evaluate, verify
from compiler.graph.lowering import StoreHalves
from compiler.te import numpy_dtype
from tests.support.float_graphs import FloatNet, inputs_of

KINDS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def halved(graph: Graph, dtype: str = "float16") -> list[str]:
    """The operators with halves. The graph is right and computes nearly the same."""
    made = verify(StoreHalves(dtype)(graph))
    inputs = inputs_of(graph)
    assert (made.inputs, made.outputs) == (graph.inputs, graph.outputs)
    found = evaluate(made, inputs)
    for name, array in evaluate(graph, inputs).items():
        assert found[name].dtype == array.dtype
        assert np.abs(found[name] - array).max() <= 16 * KINDS[dtype] * np.abs(array).max()
    for node in made.nodes:
        if node.op in ("conv2d", "dense", "matmul"):
            assert [made.values[value].dtype for value in node.inputs[:2]] == [dtype] * 2
            assert made.values[node.outputs[0]].dtype == "float32"
    return [node.op for node in made.nodes]


@pytest.mark.parametrize("dtype", KINDS)
def test_all_that_read_a_factor_read_it_in_halves(dtype: str) -> None:
    net = FloatNet(1, 8, 6, 6)
    x = net.op("relu", net.conv("x", 8))
    y = net.op("relu", net.op("add", net.conv(net.op("relu", net.conv(x, 8)), 8), x))
    assert halved(net.finish([y]), dtype) == [
        "cast", "conv2d", "relu", "cast", "conv2d", "relu", "cast", "conv2d", "cast", "add", "relu"]


def test_what_chooses_elements_goes_on_in_halves() -> None:
    net = FloatNet(1, 8, 6, 6)
    x = net.op("relu", net.conv("x", 8))
    x = net.op("maxpool", x, kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0))
    x = net.op("reshape", x, shape=(8, 9))
    x = net.op("matmul", x, net.op("transpose", x, perm=(1, 0)))
    assert halved(net.finish([x])) == ["cast", "conv2d", "relu", "maxpool", "cast", "reshape",
                                       "transpose", "matmul"]


def test_results_of_the_graph_are_float32() -> None:
    net = FloatNet(1, 8, 6, 6)
    x = net.op("relu", "x")
    chosen = net.op("slice", x, begin=(0, 0, 1, 0), end=(1, 8, 5, 6), step=(1, 1, 1, 1))
    y = net.conv(chosen, 4)
    assert halved(net.finish([x, chosen, y])) == ["relu", "cast", "slice", "cast", "conv2d"]


def test_what_has_no_product_stays() -> None:
    net = FloatNet(2, 3)
    graph = net.finish([net.op("relu", "x")])
    assert StoreHalves("float16")(graph) is graph


def test_a_constant_that_others_read_stays_there_in_float32() -> None:
    net = FloatNet(2, 3)
    w = net.add_constant("w", np.full((2, 3), 1 + 2.0**-12, np.float32))
    turned = net.add_constant("t", np.ones((3, 2), np.float32))
    graph = net.finish([net.op("matmul", w, turned), net.op("add", "x", w)])
    made = StoreHalves("float16")(graph)
    assert sorted((name, array.dtype) for name, array in made.constants.items()) == [
        ("t.halves", np.float16), ("w", np.float32), ("w.halves", np.float16)]
    assert numpy_dtype("float16") == made.constants["w.halves"].dtype
