"""Weights of 9 bits are two weights of bytes, of the same inputs twice."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.graph import evaluate, verify
from compiler.graph.lowering import BytesOfWeights
from tests.support.integer_graphs import Net

PRODUCTS = {
    "convolution": lambda net, x: net.conv(x, 8, (3, 2), pads=(1, 0, 1, 1), pad_value=-7, met=x),
    "transposed": lambda net, x: net.conv_transpose(x, 5, (2, 3), (2, 2), pad_value=9),
    "dense": lambda net, x: net.dense(net.flatten(x), 11),
    "rows": lambda net, x: net.dense(x, 6, met=x),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_bytes(name: str) -> None:
    net = Net(len(name), 9)
    graph = net.graph(PRODUCTS[name](net, net.input(2, 8, 5, 6)))
    samples, made = net.samples(), verify(BytesOfWeights()(graph))
    assert "concat" in [node.op for node in made.nodes]
    assert {made.values[value].dtype for node in made.nodes for value in node.inputs[:3]
            if len(made.values[value].shape) > 1} == {"int8"}
    for value, wanted in evaluate(graph, samples).items():
        np.testing.assert_array_equal(evaluate(made, samples)[value], wanted)


def test_inputs_are_joined_once() -> None:
    net = Net(1, 9)
    x = net.input(1, 4, 5, 5)
    graph = net.graph(net.conv(x, 4), net.conv(x, 3))
    weights = {node.inputs[1]: graph.constants[node.inputs[1]].clip(-255, 254)
               for node in graph.nodes}
    made = BytesOfWeights()(replace(graph, constants={**graph.constants, **weights}))
    assert sorted(node.op for node in made.nodes) == ["concat", "qconv2d", "qconv2d"]


@pytest.mark.parametrize(("bits", "element", "group"), [
    (8, "int8", 1), (16, "int8", 1), (9, "int16", 1), (9, "int8", 4)])
def test_what_stays(bits: int, element: str, group: int) -> None:
    """Bytes, weights that are no differences of bytes, activations of 16 bits, groups."""
    net = Net(1, bits, element)
    graph = net.graph(net.conv(net.input(1, 4, 5, 5), 4, group=group))
    assert BytesOfWeights()(graph) is graph
