"""Activations and weights of other types than int8: layers of int16 on machines that declare it, to
the bit, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lockstep
from accel.machine.intrinsics import instructions
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.mapping.memory.misfits import WIDE_MACHINE
from accel.mapping.target import AccelTarget
from compiler.graph import evaluate
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.machines import LONG, TINY, machine

BATCHED = Machine(machine("2x8x8").config, instructions("int16", "int8", "int16"))
WIDE = Machine(machine("1x32x16").config, instructions("int16", "int16", "int16"))
PACKED = Machine(replace(LONG.config, weight_bits=(8, 4)), LONG.declarations)
LONG_WEIGHTS = Machine(TINY.config, instructions("int8", "int16", "int8"))
MACHINES = {"tiny": LONG, "2x8x8": BATCHED, "1x32x16": WIDE, "packed": PACKED}


def layers(net: Net) -> str:
    """Every kind of layer that 16 bits have, one after the other."""
    x = net.conv(net.input(2, 3, 13, 12), 8, strides=(2, 2), pads=(1, 1, 1, 1), pad_value=301)
    y = net.conv(x, 8, pads=(1, 1, 1, 1), pad_value=-5, group=8)
    z = net.add(net.conv(x, 8, (1, 1)), y)
    joined = net.concat(net.rescale(z), net.leaky_relu(x), y)
    cut = net.slice(joined, (0, 2, 1), (8, 24, 1))
    pooled = net.max_pool(net.upsample(cut, 2, 1), (3, 3), (2, 2), (1, 1, 1, 1))
    spread = net.conv_transpose(net.average_pool(pooled), 6)
    return net.dense(net.flatten(net.average(spread)), 10)


@pytest.mark.parametrize("name", ["2x8x8", *(
    pytest.param(name, marks=pytest.mark.slow) for name in ("tiny", "1x32x16", "packed"))])
def test_every_layer_is_right(name) -> None:
    net = Net(7, 4 if name == "packed" else 8, "int16")
    y = layers(net)
    program = assert_right(MACHINES[name], net.graph(y), net.samples())
    assert len(program.layers) >= 11
    assert {slot.dtype for slot in (*program.inputs, *program.outputs)} == {"int16"}


@pytest.mark.parametrize("target", [LONG, BATCHED])
def test_arithmetic_of_one_and_of_two_tensors_is_right(target) -> None:
    """A hard sigmoid, and the product with a gate for each channel."""
    net = Net(3, element="int16")
    x, gate = net.input(2, 6, 5, 4), net.input(2, 6, 1, 1, name="gate")
    bounded = net.add_node("qmap", gate, function=(
        "requantize((x0 + 700), 40000, 16, -300, -20000, 20000)"))
    y = net.add_node("qmap", x, bounded, function=(
        "requantize(((x0 - 5) * x1), 50000, 30, 12, -32768, 32767)"))
    assert_right(target, net.graph(y), net.samples())


@settings(max_examples=tries(6))
@given(st.integers(0, 1 << 16), st.sampled_from((LONG, BATCHED, WIDE)), st.integers(1, 9),
       st.integers(1, 9), st.sampled_from(((1, 1), (3, 3), (2, 5))),
       st.integers(-2**15, 2**15 - 1), st.sampled_from((1, 2)))
def test_convolutions_are_right(seed, machine, inward, outward, kernel, pad_value, threads) -> None:
    """Padding has two bytes; images are plain, or as layers leave them."""
    net = Net(seed, element="int16")
    x = net.input(2, inward, 7, 8)
    y = net.conv(net.rescale(x) if seed % 2 else x, outward, kernel, (1, 2), (1, 1, 1, 1),
                 pad_value)
    assert_right(machine, net.graph(y), net.samples(), threads)


def test_weights_of_16_bits() -> None:
    """Weights of 16 bits are right with int8 activations and with int16 ones."""
    for bits in (8, 11):
        for target, element in ((LONG_WEIGHTS, "int8"), (WIDE, "int16")):
            net = Net(3, bits, element)
            y = net.dense(net.flatten(net.conv(net.input(1, 5, 6, 6), 8)), 7)
            segment = AccelTarget(target).compile(net.graph(y))
            assert {layer.constants["w"].dtype.name for layer in segment.layers} == {"int16"}
            assert_right(target, net.graph(y), net.samples())


@pytest.mark.slow
def test_the_simulators_agree() -> None:
    net = Net(11, element="int16")
    graph = net.graph(layers(net))
    assert_simulators_agree(LONG, AccelTarget(LONG).compile(graph).program, net.samples())


def test_rows_of_matrices_lie_in_elements() -> None:
    """Reshapes and transposes are strides of elements, and copies move whole ones."""
    net = Net(5, element="int16")
    x = net.dense(net.input(6, 5, 9), 12)
    y = net.rescale(net.transpose(net.reshape(x, 6, 5, 3, 4), 0, 2, 1, 3))
    assert_right(LONG, net.graph(y), net.samples())


REFUSED = {
    "int16 on a machine of int8": (
        TINY, Net(1, element="int16"), "its input is int16; the accelerator takes int8; a machine "
        "as examples/machines/int16.py takes int16"),
    "int8 on a machine of int16": (LONG, Net(1), "its input is int8; the accelerator takes int16"),
    "weights of 16 bits on a machine of 8": (
        LONG, Net(1, 11, "int16"), "its weights must be sums of 3 int8, not reach -1010 and 1020"),
    "inputs without a sign": (
        Machine(TINY.config, instructions("uint8")), Net(1),
        "gemm takes uint8 and vector writes int8; a layer has one type of activations"),
    "results of other bits than inputs": (
        Machine(TINY.config, instructions("int16")), Net(1),
        "gemm takes int16 and vector writes int8; a layer has one type of activations"),
    "weights without a sign": (
        Machine(TINY.config, instructions(wgt="uint8")), Net(1),
        "its weight is int8; gemm takes uint8"),
}


def test_the_machine_that_a_refusal_names_is_there() -> None:
    named = load_machine(Path(__file__).parents[3] / WIDE_MACHINE)
    net = Net(1, element="int16")
    graph = net.graph(net.conv(net.input(1, 4, 5, 5), 4))
    assert AccelTarget(named).refusal(graph, graph.nodes[0]) is None


@pytest.mark.parametrize("case", REFUSED)
def test_other_types_stay_on_the_host(case) -> None:
    target, empty, reason = REFUSED[case]
    net = Net(1, empty.weight_bits, empty.element)
    graph = net.graph(net.conv(net.input(1, 4, 5, 5), 4))
    assert AccelTarget(target).refusal(graph, graph.nodes[0]) == reason
    module = lockstep.compile(graph, "accel", machine=target, sim="functional")
    samples = net.samples()
    found, = module(samples).values()
    assert not module.accelerated
    np.testing.assert_array_equal(found, *evaluate(graph, samples).values())


def test_a_second_factor_of_other_bits_is_refused() -> None:
    """Products of two computed matrices are of 8 bits, and the second lies in wgt."""
    net = Net(1)
    graph = net.graph(net.matmul(net.input(4, 8), net.input(8, 4, name="y")))
    assert AccelTarget(LONG_WEIGHTS).refusal(graph, graph.nodes[0]) == (
        "its second factor is int8; gemm takes int16")
