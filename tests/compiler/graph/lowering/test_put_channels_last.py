"""Images with their channels last for tensor cores: which convolutions, what is converted, and that
values stay.
"""

import numpy as np

from compiler.graph import Graph, evaluate, verify
from compiler.graph.lowering import PutChannelsLast
from tests.support.float_graphs import FloatNet, assert_near, inputs_of
from tests.support.integer_graphs import Net as IntegerNet


def made(graph: Graph, *dtypes: str) -> list[str]:
    """The operators with channels last; the graph is right and computes the same."""
    last = verify(PutChannelsLast(dtypes or ("float32",))(graph))
    inputs = inputs_of(graph)
    assert (last.inputs, last.outputs) == (graph.inputs, graph.outputs)
    found = evaluate(last, inputs)
    for name, array in evaluate(graph, inputs).items():
        assert_near(found[name], array)
    return [node.op for node in last.nodes]


def test_a_residual_network_changes_its_order_twice() -> None:
    net = FloatNet(2, 3, 20, 20)
    x = net.op("relu", net.conv("x", 16, 2, stride=2))
    x = net.op("maxpool", x, kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    y = net.op("relu", net.conv(net.conv(x, 16, group=16), 16))
    x = net.op("globalavgpool", net.op("relu", net.op("add", net.conv(y, 16), x)))
    assert made(net.finish([x])) == [
        "conv2d", "relu", "maxpool", "relayout", "depthwise_last", "conv2d_last", "relu",
        "conv2d_last", "add", "relu", "relayout", "globalavgpool"]


def test_a_result_that_others_read_is_there_in_both_orders() -> None:
    net = FloatNet(1, 8, 5, 5)
    x = net.conv("x", 8)
    y = net.op("reshape", x, shape=(8, 25))
    assert made(net.finish([x, y, net.conv(x, 4)])) == [
        "relayout", "conv2d_last", "relayout", "reshape", "conv2d_last", "relayout"]


def test_what_tensor_cores_do_not_take_stays() -> None:
    net = FloatNet(1, 3, 6, 6)
    few, groups = net.conv("x", 8, 1), net.conv(net.conv("x", 8, 2), 8, group=2)
    graph = net.finish([few, groups, net.conv(few, 8, group=8), net.conv("x", 4)])
    assert PutChannelsLast(("float32",))(graph) is graph     # channels alone are no product
    net = FloatNet(1, 16, 6, 6)
    graph = net.finish([net.conv("x", 8)])
    assert PutChannelsLast(("int8",))(graph) is graph


def test_rows_of_windows_of_few_channels_are_one_axis() -> None:
    net = FloatNet(2, 3, 9, 8)
    graph = net.finish([net.op("relu", net.conv("x", 8, 5, stride=2))])
    assert made(graph) == ["relayout", "pad", "conv2d_last", "relu", "relayout"]
    weights = PutChannelsLast(("float32",))(graph).constants.values()
    assert (8, 5, 5 * 4) in [array.shape for array in weights]


def test_pixels_of_one_image_are_in_both_orders_at_once() -> None:
    net = FloatNet(1, 16, 1, 1)
    assert made(net.finish([net.op("tanh", net.conv("x", 16, 1))])) == [
        "reshape", "conv2d_last", "reshape", "tanh"]


def test_bytes() -> None:
    net = IntegerNet()
    x = net.conv(net.input(1, 16, 9, 8), 24, (3, 3), (2, 1), (1, 0, 1, 2), pad_value=-9)
    x = net.conv(net.conv(x, 24, pads=(1,) * 4, pad_value=4, group=24), 20, dilations=(2, 1))
    graph = net.graph(x)
    last = verify(PutChannelsLast(("int8",))(graph))
    given = {value: np.random.default_rng(1).integers(
        -128, 128, graph.values[value].shape).astype(np.int8) for value in graph.inputs}
    found = evaluate(last, given)
    for name, array in evaluate(graph, given).items():
        np.testing.assert_array_equal(found[name], array)
    assert [node.op for node in last.nodes] == [
        "relayout", "qconv2d_last", "qdepthwise_last", "qconv2d_last", "relayout"]
