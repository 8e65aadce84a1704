"""Weights of few bits with a factor for each channel and group of inputs, right to the bit."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lockstep
from accel.machine import isa
from accel.machine.intrinsics import SHIPPED, instructions
from accel.machine.machine import Machine
from accel.mapping.memory.factors import factors_of
from accel.mapping.target import AccelTarget
from compiler.frontend.onnx.importing import convert
from compiler.graph import Graph, TensorType, evaluate
from compiler.graph.division.partition import ACCEL
from compiler.quantize import quantize_ranges
from lockstep.testing import zoo
from lockstep.testing.networks import decoders
from lockstep.testing.networks.decoders import DecoderSizes
from tests.support.decoders import machine, made
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.machines import MACHINES, PACKED

SMALL = Machine(replace(PACKED.config, name="small", wgt_bytes=512, res_bytes=64, acc_bytes=512,
                        out_bytes=64, par_bytes=128))
"""A tile holds all groups of a few channels."""

NAMES = {**MACHINES, "packed": PACKED, "small": SMALL}


def weights_of(rng, channels: int, depth: int, size: int, most: int, bits: int = 4) -> np.ndarray:
    """int16: random integers of so many bits times random factors of groups."""
    end = 1 << bits - 1
    factors = rng.integers(1, most + 1, (channels, -(-depth // size)))
    integers = rng.integers(-end, end, (channels, depth))
    return (integers * np.repeat(factors, size, axis=1)[:, :depth]).astype(np.int16)


class GroupedNet(Net):
    """A net whose dense layers have such weights."""

    def grouped(self, x: str, channels: int, size: int, most: int, bits: int = 4) -> str:
        y = self.dense(x, channels)
        return self._with(y, weights_of(self.rng, channels, self.values[x].shape[-1], size, most,
                                        bits))

    def pointwise(self, x: str, channels: int, size: int, most: int) -> str:
        y = self.conv(x, channels, (1, 1))
        return self._with(y, weights_of(self.rng, channels, self.values[x].shape[1], size, most)
                          [:, :, None, None])

    def _with(self, y: str, weights: np.ndarray) -> str:
        _, weight, bias, _, shift = self.nodes[-1].inputs[:5]
        self.values[weight], self.constants[weight] = TensorType.of(weights), weights
        spread = max(1.0, float(np.sqrt(np.square(weights, dtype=float).sum(axis=1).mean())))
        self.constants[shift] = np.full(len(weights), round(np.log2(61000 * spread)), np.int32)
        self.constants[bias] = self.rng.integers(-int(25 * spread), int(25 * spread) + 1,
                                                 len(weights)).astype(np.int32)
        return y


def exactly(graph: Graph, samples: dict[str, np.ndarray]) -> np.ndarray:
    """The results of an only dense layer, group by group in integers of any size."""
    node, = graph.nodes
    x, (w, bias, mult, shift) = samples["x"], (graph.constants[v] for v in node.inputs[1:])
    total = x.astype(object) @ w.T.astype(object) + bias
    mult, shift = mult.astype(object), shift.astype(object)
    rounded = (total * mult + (1 << shift - 1)) >> shift
    return np.clip(rounded + node.attrs["zp"], node.attrs["lo"], node.attrs["hi"]).astype(np.int8)


@settings(max_examples=tries(20))
@given(st.integers(0, 1 << 16), st.sampled_from(("packed", "small", "2x8x8")), st.integers(1, 5),
       st.integers(1, 70), st.integers(1, 20), st.sampled_from((32, 64)),
       st.sampled_from((100, 127, 1000)), st.sampled_from((2, 4, 5)), st.sampled_from((1, 2)))
def test_any_extents(seed, name, rows, depth, channels, size, most, bits, threads):
    net = GroupedNet(seed)
    graph = net.graph(net.grouped(net.input(rows, depth), channels, size, most, bits))
    samples = net.samples()
    assert_right(NAMES[name], graph, samples, threads)
    np.testing.assert_array_equal(evaluate(graph, samples)[graph.outputs[0]],
                                  exactly(graph, samples))


@pytest.mark.parametrize("most, moved", [(127, 1), (1000, 2)])
def test_bytes_in_memory(most, moved):
    """4 bits a weight, and one byte or two for each channel and group."""
    net = GroupedNet(2)
    graph = net.graph(net.grouped(net.input(1, 64), 16, 16, most))
    program = assert_right(PACKED, graph, net.samples())
    assert program.weights.size == 16 * 64 // 2 + 16 * 4 * moved + 16 * 8
    to_wgt = [one.fields["bits"] for one in program.instructions(PACKED)
              if one.unit == "load" and isa.BUFFERS[one.fields["buffer"]] == "wgt"]
    assert set(to_wgt) == {1}
    names = {one.name for one in program.instructions(PACKED)}
    assert {"gemm", "mul", "add", "requantize"} <= names


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name, most", [
    *product(("tiny-1x4x4", "small", "packed", "2x8x8"), (127, 1000))])
def test_simulators_agree(name, most):
    net = GroupedNet(5)
    graph = net.graph(net.grouped(net.input(3, 48), 10, 16, most))
    program = assert_right(NAMES[name], graph, net.samples())
    assert_simulators_agree(NAMES[name], program, net.samples())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [
    "small", "2x8x8", *(pytest.param(name, marks=pytest.mark.slow)
                        for name in ("packed", "tiny-1x4x4"))])
def test_layers_around_it_and_convolutions_of_pixels(name):
    net = GroupedNet(3)
    x = net.pointwise(net.rescale(net.input(2, 16, 5, 6)), 12, 8, 120)
    y = net.max_pool(net.pointwise(x, 9, 8, 3000))
    graph = net.graph(net.grouped(net.flatten(net.average(y)), 7, 8, 100))
    assert_right(NAMES[name], graph, net.samples())


def test_below_zero_it_may_have_another_multiplier():
    net = GroupedNet(4, slopes=True)
    graph = net.graph(net.grouped(net.input(3, 32), 8, 16, 100))
    assert_right(PACKED, graph, net.samples())


@pytest.mark.parametrize("accumulator", ["int24", "int40"])
def test_other_accumulators(accumulator):
    net = GroupedNet(6)
    graph = net.graph(net.grouped(net.input(2, 32), 8, 16, 60))
    assert_right(Machine(PACKED.config, instructions(accumulator=accumulator)), graph,
                 net.samples())


def test_a_machine_without_products_of_elements_leaves_it_to_the_host():
    net = GroupedNet(1)
    graph = net.graph(net.grouped(net.input(1, 32), 4, 16, 100))
    machine = Machine(PACKED.config, tuple(one for one in SHIPPED if one.name != "mul"))
    assert AccelTarget(machine).refusal(graph, graph.nodes[-1]) == (
        "no vector instruction computes acc * low")


def test_groups_of_less_than_a_block_are_refused():
    net = GroupedNet(1)
    graph = net.graph(net.grouped(net.input(1, 64), 8, 16, 100))
    reason = AccelTarget(MACHINES["1x32x16"]).refusal(graph, graph.nodes[-1])
    assert reason is not None and reason.startswith("its weights must be sums of 3 int8, not reach")


def test_a_tile_holds_all_groups_of_its_channels():
    net = GroupedNet(1)
    graph = net.graph(net.grouped(net.input(1, 400), 8, 16, 100))
    reason = AccelTarget(SMALL).refusal(graph, graph.nodes[-1])
    assert reason == ("Tile of one pixel must fit the buffers of small: acc needs 51 of 32 "
                      "entries, wgt needs 100 of 32 entries, res needs 25 of 16 entries")


# Factors


@settings(max_examples=tries(60))
@given(st.integers(0, 1 << 16), st.integers(1, 12), st.integers(1, 100),
       st.sampled_from((4, 8, 16)), st.integers(1, 4), st.sampled_from((1, 90, 127, 2000)),
       st.sampled_from((2, 3, 4, 8)))
def test_factors_give_the_weights(seed, channels, depth, block, blocks, most, bits):
    most = min(most, 255) if bits == 8 else most
    weights = weights_of(np.random.default_rng(seed), channels, depth, block * blocks, most, bits)
    found = factors_of(weights, block)
    assert found is not None
    spread = np.repeat(found.factors, found.blocks * block, axis=1)[:, :depth]
    np.testing.assert_array_equal(found.integers * spread.astype(np.int64), weights)
    size = 1 << max(bits, 2) - 1
    if -(-depth // block) % blocks == 0 and bits != 3:
        assert found.integers.min(initial=0) >= -size and found.integers.max(initial=0) < size
    packed = found.packed(4, 12).astype(np.int64)
    numbers = packed[:, :, 0] + (256 * packed[:, :, 1] if found.bytes_ == 2 else 0)
    np.testing.assert_array_equal(
        numbers.transpose(0, 2, 1).reshape(12, -1)[:channels], found.factors)


def test_a_factor_is_negative_where_that_saves_bits():
    found = factors_of(np.array([[8, -7, 3, 8]], np.int16) * 5, 4)
    assert found is not None
    assert found.factors.tolist() == [[-5]] and found.integers.tolist() == [[-8, 7, -3, -8]]


def test_a_factor_beyond_a_byte_leaves_a_part_to_the_integers():
    found = factors_of(np.array([[200, -200, 600, 0]], np.int16), 4)
    assert found is not None and found.bytes_ == 1
    assert found.factors.tolist() == [[-100]] and found.integers.tolist() == [[-2, 2, -6, 0]]


def test_weights_of_no_groups():
    assert factors_of(np.array([[301, 300, 1, 7]], np.int16), 4) is None


def test_of_equal_bytes_groups_are_as_large_as_can_be():
    found = factors_of(np.full((4, 64), 300, np.int16), 4)
    assert found is not None and found.blocks == 16


# A decoder


@pytest.mark.slow
def test_tokens_of_a_decoder_are_those_of_the_processor():
    """All its layers between the first and the last; on a machine of few buffers, too."""
    one = made("llama", True, DecoderSizes(1, 32, 4, 2, 48, 12), 8)
    model = quantize_ranges(one.real, zoo.fill(one.net).ranges, weight_bits=4, weight_groups=16)
    states = decoders.states(one.net)
    packed = replace(machine(), config=replace(machine().config, weight_bits=(8, 4)))
    found = lockstep.decoder(convert(model), "accel,cpu", machine=packed, sim="cycle",
                             states=states, cache=False)
    wanted = lockstep.decoder(convert(model), "cpu", states=states)
    (compiled,) = (step.compiled for step in found.module.steps if step.segment.target == ACCEL)
    assert sum("groups of 16" in layer.note for layer in compiled.layers) == 6
    for token in np.random.default_rng(3).standard_normal((3, 1, 32), np.float32):
        feeds = {one.net.source: token}
        np.testing.assert_array_equal(found(feeds)["logits"], wanted(feeds)["logits"])
