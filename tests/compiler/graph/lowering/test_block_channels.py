"""Images in blocks of channels: what computes there, what does not, and that values stay."""

import numpy as np
import pytest

from compiler.graph import Graph, TensorType, evaluate, verify
from compiler.graph.lowering import BlockChannels
from tests.support.float_graphs import FloatNet, assert_near, inputs_of, random_graph
from tests.support.integer_graphs import Net as IntegerNet


def blocked(graph: Graph) -> list[str]:
    """The operators of the graph with blocks, which is right and computes the same."""
    made = verify(BlockChannels(lambda _: 0)(graph))
    inputs = inputs_of(graph)
    assert (made.inputs, made.outputs) == (graph.inputs, graph.outputs)
    found = evaluate(made, inputs)
    for name, array in evaluate(graph, inputs).items():
        assert_near(found[name], array)
    return [node.op for node in made.nodes]


BACK = ["reshape", "transpose", "reshape"]


def test_a_residual_network_changes_its_order_twice() -> None:
    net = FloatNet(1, 3, 20, 20)
    x = net.op("relu", net.conv("x", 32, stride=2))
    y = net.op("relu", net.conv(x, 32))
    x = net.op("relu", net.op("add", net.conv(y, 32), x))
    x = net.op("maxpool", x, kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    x = net.op("globalavgpool", x)
    assert blocked(net.finish([x])) == [
        "conv2d_into_blocks", "relu", "conv2d_blocks", "relu", "conv2d_blocks", "add", "relu",
        "pool_max", "mean", *BACK]


def test_pixels_that_are_skipped_are_left_out_before() -> None:
    """Where each result sees one pixel; none is left out between taps or beside pads."""
    net = FloatNet(2, 5, 7, 8)
    x = net.conv("x", 24)
    y = net.op("conv2d", x, net.constant(48, 24, 1, 1), strides=(2, 3), pads=(0, 0, 0, 0))
    z = net.op("conv2d", x, net.constant(48, 24, 1, 1), strides=(2, 2), pads=(1, 1, 1, 1))
    ops = blocked(net.finish([y, z, net.conv(x, 16, stride=2)]))
    assert [op for op in ops if "blocks" in op or op == "slice"] == [
        "conv2d_blocks", "slice", "conv2d_blocks", "conv2d_blocks", "conv2d_blocks"]


@pytest.mark.parametrize("channels", [1, 8, 16, 24, 33])
def test_channels_of_any_number(channels: int) -> None:
    net = FloatNet(2, 5, 6, 7)
    x = net.op("leakyrelu", net.conv("x", channels), alpha=0.125)
    x = net.op("add", net.conv(x, channels, group=channels), x)
    ops = blocked(net.finish([net.conv(x, 3, kernel=1)]))
    depthwise = "depthwise_blocks" if channels > 1 else "conv2d_blocks"
    assert [op for op in ops if "blocks" in op] == ["conv2d_blocks", depthwise, "conv2d_blocks"]


def test_constants_and_gates_of_channels() -> None:
    net = FloatNet(1, 24, 6, 7)
    x = net.conv("x", 24)
    gate = net.op("tanh", net.conv(net.op("globalavgpool", x), 24, kernel=1))
    x = net.op("mul", x, gate)
    x = net.op("div", net.op("add", x, net.constant(24, 1, 1)), net.constant(1, 24, 1, 1))
    x = net.op("sub", net.add_constant("one", np.ones(1, np.float32)), x)
    ops = blocked(net.finish([net.conv(x, 16)]))
    assert ops.count("transpose") == 2 and ops[-len(BACK):] == BACK


def test_numbers_for_each_pixel() -> None:
    for channels, changes in ((32, 2), (24, 4)):        # lanes that are no channel would differ
        net = FloatNet(1, 8, 6, 7)
        x = net.op("mul", net.conv("x", channels), net.constant(6, 7))
        assert blocked(net.finish([net.conv(x, 16)])).count("transpose") == changes


def test_a_number_that_is_none_leaves_blocks() -> None:
    """0 / 0 in lanes that are no channel would spoil every sum."""
    net = FloatNet(1, 8, 6, 7)
    x = net.conv("x", 24)
    x = net.op("div", x, net.op("add", x, x))
    ops = blocked(net.finish([net.conv(x, 16)]))
    assert ops.index("slice") < ops.index("div")


@pytest.mark.parametrize("channels", [1, 16, 24])
def test_one_number_of_one_channel_meets_all_channels(channels: int) -> None:
    """In blocks it would stand in one lane of sixteen, in front of fifteen zeros."""
    net = FloatNet(1, 8, 6, 7)
    number = net.op("globalavgpool", net.conv("x", 1))
    x = net.op("add", net.conv("x", channels), number)
    ops = blocked(net.finish([net.conv(x, 16)]))
    assert ("slice" in ops[:ops.index("add")]) == (channels > 1)


def test_numbers_of_the_run_stay_out_of_lanes_that_are_no_channel() -> None:
    """0 to the power of -1 would spoil every sum, and only the run knows the power."""
    net = FloatNet(1, 8, 6, 7)
    x = net.op("exp", net.conv("x", 24))
    number = net.op("globalavgpool", net.conv("x", 1))
    one = net.add_constant("one", np.ones((1, 1, 1, 1), np.float32))
    x = net.op("pow", x, net.op("sub", number, net.op("add", number, one)))
    ops = blocked(net.finish([net.conv(x, 16)]))
    assert ops.index("slice") < ops.index("pow")


def test_whole_blocks_are_joined_as_they_are() -> None:
    for channels, joined in ((16, True), (20, False)):
        net = FloatNet(1, 8, 6, 7)
        parts = [net.conv("x", channels), net.conv("x", 32)]
        ops = blocked(net.finish([net.conv(net.op("concat", *parts, axis=1), 16)]))
        assert ops.count("transpose") == (2 if joined else 5)


def test_groups_of_whole_blocks() -> None:
    net = FloatNet(1, 64, 6, 7)
    assert "conv2d_blocks" in blocked(net.finish([net.conv("x", 32, group=2)]))


@pytest.mark.parametrize(("inputs", "outputs", "groups", "joined"), [
    (16, 32, 2, 1), (64, 64, 8, 4), (32, 64, 8, 2), (64, 64, 16, 4), (64, 32, 16, 0),
    (24, 48, 3, 0), (48, 24, 3, 0), (24, 24, 3, 0), (32, 32, 16, 0), (16, 32, 16, 0)])
def test_groups_that_make_up_blocks_are_joined(inputs, outputs, groups: int, joined: int) -> None:
    net = FloatNet(2, inputs, 6, 7)
    graph = net.finish([net.conv("x", outputs, group=groups)])
    ops = blocked(graph)
    assert ("conv2d_blocks" in ops) == (joined > 0)
    assert [node.attrs.get("group") for node in BlockChannels(lambda _: 0)(graph).nodes
            if node.op == "conv2d_blocks"] == [joined] * (joined > 0)


@pytest.mark.parametrize(("inputs", "outputs", "kernel"), [(16, 32, (2, 2)), (20, 12, (3, 1))])
def test_transposed_convolutions_whose_windows_lie_apart(inputs: int, outputs: int, kernel) -> None:
    net = FloatNet(2, inputs, 4, 5)
    x = net.op("convtranspose2d", "x", net.constant(inputs, outputs, *kernel),
               net.constant(outputs), strides=kernel, pads=(0, 0, 0, 0))
    ops = blocked(net.finish([net.conv(net.op("relu", x), 16)]))
    assert "convtranspose2d" not in ops and ops.count("conv2d_blocks") == 2


def test_transposed_convolutions_whose_windows_overlap_stay() -> None:
    net = FloatNet(1, 16, 4, 5)
    x = net.op("convtranspose2d", "x", net.constant(16, 16, 3, 3), strides=(2, 2),
               pads=(0, 0, 0, 0))
    assert blocked(net.finish([x])) == ["convtranspose2d"]


def test_weights_that_are_computed_stay() -> None:
    net = FloatNet(1, 8, 6, 7)
    net.add_input("w", TensorType((8, 8, 3, 3), "float32"))
    graph = net.finish([net.op("conv2d", "x", "w", strides=(1, 1), pads=(0, 0, 0, 0))])
    assert BlockChannels()(graph) is graph


@pytest.mark.parametrize("seed", range(20))
def test_random_networks(seed: int) -> None:
    blocked(random_graph(seed, 16))


# Images of int8


def blocked_bytes(net: IntegerNet, *outputs: str) -> list[str]:
    """The operators of the graph with blocks, which computes the same to the bit."""
    graph = net.graph(*outputs)
    made, inputs = verify(BlockChannels()(graph)), net.samples()
    found = evaluate(made, inputs)
    for name, array in evaluate(graph, inputs).items():
        np.testing.assert_array_equal(found[name], array)
    return [node.op for node in made.nodes]


def test_a_quantized_residual_network_changes_its_order_once() -> None:
    net = IntegerNet()
    x = net.conv(net.input(1, 3, 20, 20), 32, strides=(2, 2), pads=(1, 1, 1, 1), pad_value=-7)
    y = net.conv(net.max_pool(x, (3, 3), (2, 2), (1, 1, 1, 1)), 48, (1, 1))
    z = net.conv(y, 48, pads=(1, 1, 1, 1), pad_value=5, group=48)
    x = net.concat(net.add(net.conv(z, 48, pads=(1, 1, 1, 1), group=3), y), z)
    table = net.constant(net.rng.permutation(256).astype(np.uint8).view(np.int8))
    x = net.average(net.add_node("qtable", net.leaky_relu(x), table))
    assert blocked_bytes(net, x) == [
        "qconv2d_into_blocks", "pool_max", "qconv2d_blocks", "qdepthwise_blocks", "qconv2d_blocks",
        "qadd", "qconcat", "qleakyrelu", "qtable", "qmean", *BACK]


@pytest.mark.parametrize("channels", [1, 8, 33])
def test_quantized_channels_of_any_number(channels: int) -> None:
    net = IntegerNet(channels)
    x = net.conv(net.input(2, 5, 6, 7), channels, strides=(2, 1), dilations=(1, 2))
    x = net.add(net.conv(net.affine(x), channels, (1, 1), group=channels),
                net.affine(x, factors=(-128, 127)))
    x = net.conv_transpose(net.rescale(x), 3, pad_value=-11)
    ops = blocked_bytes(net, x, net.conv_transpose(x, 4, (3, 3)))
    assert sum("blocks" in op for op in ops) == 3 and "qconvtranspose2d" in ops


def test_sums_that_may_not_fit_stay_as_they_are() -> None:
    net = IntegerNet()
    wide = net.conv(net.input(1, 67000, 1, 1), 1, (1, 1))
    net.constants["k0"][:] = 127        # 255 * 127 * 67000 is more than 31 bits
    assert blocked_bytes(net, wide) == ["qconv2d"]
    net.constants["k0"][:] = 63
    assert "qconv2d_blocks" in blocked_bytes(net, wide)


def test_scales_above_one_stay_as_they_are() -> None:
    """2**shift is a little more, or less, than the largest multiplier."""
    net = IntegerNet()
    conv = net.conv(net.input(1, 16, 3, 3), 16, (1, 1))
    shift = next(array for name, array in net.constants.items() if array.shape == (16,)
                 and array.max() < 64)
    shift[:] = 16
    assert "qconv2d_blocks" in blocked_bytes(net, conv)
    shift[5] = 15
    assert blocked_bytes(net, conv) == ["qconv2d"]


@pytest.mark.parametrize("channels", [16, 24])
def test_sums_that_meet_a_residual(channels: int) -> None:
    net = IntegerNet(channels)
    x = net.conv(net.input(1, 5, 6, 7), channels, pads=(1, 1, 1, 1))
    y = net.conv(x, channels, pads=(1, 1, 1, 1), pad_value=3, met=x)
    graph = net.graph(net.conv(y, channels, met=net.conv(y, channels, group=channels)))
    made, samples = verify(BlockChannels(lambda _: 0)(graph)), net.samples()
    assert [node.op for node in made.nodes].count("qconv2d_add_blocks") == 2
    assert [node.op for node in made.nodes].count("transpose") == 2
    for value, wanted in evaluate(graph, samples).items():
        np.testing.assert_array_equal(evaluate(made, samples)[value], wanted)


def test_sums_in_groups_that_meet_a_residual_stay() -> None:
    net = IntegerNet(1)
    x = net.input(1, 16, 6, 7)
    graph = net.graph(net.conv(x, 16, pads=(1, 1, 1, 1), group=4, met=x))
    assert [node.op for node in BlockChannels(lambda _: 0)(graph).nodes] == ["qconv2d_add"]
