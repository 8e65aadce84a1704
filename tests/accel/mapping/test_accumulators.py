"""Layers on machines whose accumulators have other widths than 32 bits: to the bit, and what could
wrap stays on the host."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import lockstep
from accel.machine.intrinsics import instructions, vector_op
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from compiler.frontend import convert
from compiler.graph import evaluate, optimize
from compiler.graph.passes.pipeline import standard_passes
from compiler.te import abs as magnitude
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import LONG, TINY, example


def declared(accumulator: str, element: str = "int8", weight: str = "int8") -> Machine:
    return Machine(replace(TINY.config, name=accumulator),
                   instructions(element, weight, element, accumulator))


WIDE, LONGER = declared("int48", "int16", "int16"), declared("int40", "int16")
SHORT, MIDDLE, BYTES = declared("int16"), declared("int24"), declared("int48")


def layers(net: Net) -> str:
    """Every kind of layer that sums, and arithmetic of several values."""
    x = net.conv(net.input(2, 3, 9, 8), 8, strides=(2, 2), pads=(1, 1, 1, 1), pad_value=30)
    y = net.conv(x, 8, pads=(1, 1, 1, 1), pad_value=-5, group=8)
    z = net.add(net.conv(x, 8, (1, 1)), y)
    joined = net.concat(net.rescale(z), net.leaky_relu(x), y)
    pooled = net.max_pool(net.upsample(joined, 2, 1), (3, 3), (2, 2), (1, 1, 1, 1))
    spread = net.conv_transpose(net.average_pool(net.conv(pooled, 4, (1, 1))), 6)
    return net.dense(net.flatten(net.average(spread)), 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["int16", "int48 of int16", *(
    pytest.param(name, marks=pytest.mark.slow) for name in ("int24", "int40 of int16", "int48"))])
def test_every_layer_is_right(name) -> None:
    machine = {"int16": SHORT, "int24": MIDDLE, "int40 of int16": LONGER, "int48": BYTES,
               "int48 of int16": WIDE}[name]
    net = Net(7, 4 if machine is SHORT else 8, machine.config.output)
    program = assert_right(machine, net.graph(layers(net)), net.samples())
    assert len(program.layers) >= 11


def test_sums_of_more_than_32_bits_are_right() -> None:
    """Products of 16 bits by 16, of which few make a sum that int32 does not hold."""
    net = Net(3, 16, "int16")
    x = net.conv(net.input(1, 5, 9, 7), 8, sums="int64")
    y = net.conv_transpose(net.conv(x, 8, group=4, sums="int64"), 3, sums="int64")
    graph = net.graph(y)
    assert_right(WIDE, graph, net.samples())
    short = replace(graph, nodes=tuple(
        replace(node, attrs={**node.attrs, "sums": "int32"}) for node in graph.nodes))
    (found,), (wrapped,) = (evaluate(one, net.samples()).values() for one in (graph, short))
    assert (found != wrapped).any()


def test_arithmetic_of_several_values_is_covered_in_the_accumulator() -> None:
    """An instruction of one's own is found, as it is in 32 bits."""
    for machine in (MIDDLE, BYTES):
        acc = machine.config.accumulator
        own = vector_op("absdiff", lambda a, b: magnitude(a - b), accumulator=acc)
        target = AccelTarget(Machine(machine.config, (*machine.declarations, own)))
        net = Net(4)
        x, y = net.input(1, 8, 5, 5), net.input(1, 8, 5, 5, name="y")
        graph = net.graph(net.add_node("qmap", x, y, function="clamp(abs(x0 - x1), -128, 100)"))
        assert "absdiff" in target.compile(graph).layers[0].operator.by.values()
        assert_right(target.machine, graph, net.samples())


REFUSED = {
    "weights of 8 bits": (SHORT, 8, lambda net, x: net.conv(x, 4),
                          "its sums could reach 316707, beyond 32767 of int16; acc of the machine "
                          "holds int16"),
    "a product of matrices": (
        MIDDLE, 8, lambda net, x: net.matmul(net.input(600, 900, name="a"),
                                             net.input(900, 4, name="b")),
        "its sums could reach 14745600, beyond 8388607 of int24; acc of the machine holds int24"),
    "an average of many": (
        SHORT, 8, lambda net, x: net.average(net.upsample(x, 4, 4)),
        "its sums could reach 51200, beyond 32767 of int16; acc of the machine holds int16"),
    "more than the operator's own sums": (
        BYTES, 8, lambda net, x: net.conv(net.conv(x, 70000, (1, 1)), 1, (5, 5)),
        "its sums could reach"),
    "sums of 64 bits on a machine of 32": (
        TINY, 8, lambda net, x: net.conv(net.conv(x, 70000, (1, 1)), 1, (5, 5), sums="int64"),
        "its sums could reach"),
    "a place": (BYTES, 8, lambda net, x: net.add_node("qargmax", x, axis=1),
                "it is computed in int32; acc of the machine holds int48"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_sums_that_could_wrap_are_refused(case) -> None:
    machine, bits, build, reason = REFUSED[case]
    net = Net(1, bits)
    graph = net.graph(build(net, net.input(1, 4, 5, 5)))
    found = AccelTarget(machine).refusal(graph, graph.nodes[-1])
    assert found is not None and found.startswith(reason)


def deep(inputs: int = 520) -> onnx.ModelProto:
    """A quantized network, int16 by int8, of which the first layer sums many products of 127."""
    rng = np.random.default_rng(5)
    constants = {
        "scale": np.float32(2.0**-15), "zero": np.int16(0), "wide": np.float32(2.0**-4),
        "step": np.float32(2.0**-7), "none": np.int8(0),
        "first": (127 * rng.choice((-1, 1), (6, inputs, 1, 1))).astype(np.int8),
        "second": rng.integers(-127, 128, (4, 6, 1, 1)).astype(np.int8)}
    nodes = []

    def add(op: str, *values: str) -> str:
        nodes.append(helper.make_node(op, values, [f"{op}{len(nodes)}"], f"{op}{len(nodes)}"))
        return nodes[-1].output[0]

    value = "x"
    for weight, scale in (("first", "scale"), ("second", "wide")):
        read = add("DequantizeLinear", add("QuantizeLinear", value, scale, "zero"), scale, "zero")
        value = add("Conv", read, add("DequantizeLinear", weight, "step", "none"))
    value = add("DequantizeLinear", add("QuantizeLinear", value, "wide", "zero"), "wide", "zero")
    graph = helper.make_graph(
        nodes, "deep", [helper.make_tensor_value_info("x", 1, (1, inputs, 2, 2))],
        [helper.make_tensor_value_info(value, 1, (1, 4, 2, 2))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_networks_that_32_bits_refuse() -> None:
    """The deep layer stays on the accelerator where acc is wider, and is what its operator says."""
    model = deep()
    feeds = {"x": np.random.default_rng(1).uniform(-1, 1, (1, 520, 2, 2)).astype(np.float32)}
    narrow = lockstep.compile(model, "accel", machine=LONG)
    assert [note for note in narrow.graph.notes if "accumulator could reach" in note] == [
        "Conv3 (conv2d) stays in float: its accumulator could reach 2.164e+09 in channel 0, "
        "beyond 2147483647"]
    module = lockstep.compile(model, "accel", machine=example("int16_deep"))
    assert len(module.accelerated) == 1 and len(module.accelerated[0].program.layers) == 2
    exact = optimize(convert(model), standard_passes(True, 48))
    assert [node.attrs.get("sums") for node in exact.nodes if node.op == "qconv2d"] == [
        "int64", None]
    found, = module(feeds).values()
    np.testing.assert_array_equal(found, *evaluate(exact, feeds).values())
    np.testing.assert_allclose(found, *narrow(feeds).values(), atol=0.07)
    np.testing.assert_array_equal(found, *lockstep.compile(exact, "cpu")(feeds).values())
    assert np.abs(found).max() > 1


def test_another_type_of_sums_is_refused() -> None:
    net = Net(1)
    with pytest.raises(ValueError, match="sums must be int32 or int64, not 'int48'"):
        net.conv(net.input(1, 4, 5, 5), 4, sums="int48")


