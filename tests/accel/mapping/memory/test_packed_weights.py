"""Weights of few bits in memory: layers take them where the values and the machine allow, and what
they compute, and how well, is what it was."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lockstep
from accel.figures.traffic import unit_bytes
from accel.machine import isa
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.mapping.lowering import LoweringError
from accel.mapping.lowering.dma import DmaCopy, DmaLoop
from accel.mapping.memory.layout import least_bits, pack_elements
from accel.mapping.schedules import cost_of, shape_of
from accel.mapping.schedules.ranking import PACKED_SLACK, SLACK, _fitting, choose
from accel.mapping.schedules.tiles import Shape, Tiles
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from accel.sim.meaning.units import unpacked
from compiler.graph import evaluate
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right
from tests.support.machines import PACKED, TINY

BOTH = Machine(replace(PACKED.config, name="2x8x8", batch=2, block_in=8, block_out=8,
                       acc_bytes=8192, weight_bits=(8, 4)))


def bits_of(program, machine=PACKED) -> set[int]:
    """Bits of an element of all that is loaded to wgt."""
    return {(8, 4, 2)[one.fields["bits"]] for one in program.instructions(machine)
            if one.unit == "load" and isa.BUFFERS[one.fields["buffer"]] == "wgt"}


@pytest.mark.parametrize("low, high, bits", [
    (0, 0, 2), (-2, 1, 2), (-2, 2, 4), (-3, 1, 4), (-8, 7, 4), (-8, 8, 8), (-9, 7, 8),
    (-128, 127, 8)])
def test_least_bits(low, high, bits):
    array = np.array([low, high], np.int8)
    assert least_bits(array, (8, 4, 2)) == bits
    assert least_bits(array, (8, 4)) == max(4, bits)
    assert least_bits(array, (8,)) == 8


@pytest.mark.parametrize("bits", [4, 2])
def test_packing_is_the_inverse_of_unpacking(bits, rng):
    elements = rng.integers(-(1 << bits - 1), 1 << bits - 1, (3, 4, 8)).astype(np.int8)
    packed = pack_elements(elements, bits)
    assert packed.size == elements.size * bits // 8
    np.testing.assert_array_equal(unpacked(packed, bits).reshape(-1), elements.reshape(-1))


@settings(max_examples=tries(15))
@given(st.integers(0, 1 << 16), st.sampled_from((2, 4)), st.sampled_from((PACKED, BOTH)),
       st.sampled_from((1, 1, 2, 5)), st.integers(1, 9), st.integers(1, 9),
       st.sampled_from(((1, 1), (3, 3), (2, 5))), st.sampled_from((1, 2)))
def test_convolutions_are_right(seed, bits, machine, group, inward, outward, kernel, threads):
    net = Net(seed, bits)
    y = net.conv(net.rescale(net.input(2, group * inward, 7, 8)), group * outward, kernel,
                 (1, 2), (1, 1, 1, 1), 3, group)
    program = assert_right(machine, net.graph(y), net.samples(), threads)
    assert bits_of(program, machine) <= set(machine.config.weight_bits) - {8}


def test_every_layer_with_weights_is_right():
    net = Net(3, 4)
    x = net.conv(net.input(1, 3, 12, 12), 8, strides=(2, 2))        # rows of windows
    x = net.conv(x, 8, pads=(1, 1, 1, 1), group=8)
    x = net.conv_transpose(x, 6)
    y = net.dense(net.flatten(net.max_pool(x)), 10)
    for machine in (PACKED, BOTH):
        program = assert_right(machine, net.graph(y), net.samples())
        assert bits_of(program, machine) == {4}


def test_each_layer_has_its_own_bits():
    """Two, four and eight bits: of the second a single weight is too large for fewer."""
    net = Net(5, 2)
    x = net.conv(net.input(1, 8, 9, 9), 8)
    y = net.conv(x, 8)
    weights = net.constants[net.nodes[-1].inputs[1]]
    weights.flat[7] = 5
    z = net.conv(y, 8)
    net.constants[net.nodes[-1].inputs[1]].flat[9] = -9
    graph = net.graph(z)
    segment = AccelTarget(PACKED).compile(graph)
    assert bits_of(segment.program) == {2, 4, 8}
    assert [layer.operator.weight_bits for layer in segment.layers] == [2, 4, 8]
    assert [layer.note for layer in segment.layers] == [
        "weights of 2 bits in memory", "weights of 4 bits in memory", ""]
    assert_right(PACKED, graph, net.samples())
    plain = AccelTarget(TINY).compile(graph)
    assert {layer.operator.weight_bits for layer in plain.layers} == {8}
    sizes = [[layer.size("w") for layer in some.layers] for some in (segment, plain)]
    assert sizes == [[144, 288, 576], [576, 576, 576]]
    assert [two.other_bytes - one.other_bytes for (one,), (two,) in zip(
        segment.work, plain.work, strict=True)] == [432, 288, 0]
    assert all(raw.size == layer.size("w") for layer in segment.layers
               for raw in (layer.stored("w"),))


def test_a_layer_that_waits_for_weights_is_faster():
    """A dense layer reads each weight once: half the bytes, little more than half the time."""
    net = Net(2, 4)
    graph = net.graph(net.dense(net.input(1, 512), 256))
    runs = []
    for machine in (TINY, PACKED):
        program = AccelTarget(machine).compile(graph).program
        moved = int(unit_bytes(machine, program)["load"].sum())
        runs.append((moved, cycle.simulate(machine, program, bytes_per_cycle=2.).cycles))
    (plain, slow), (packed, fast) = runs
    assert packed < 0.53 * plain and fast < 0.6 * slow


def test_a_saved_module_knows_its_machine(tmp_path):
    """Its weights are packed there, too; a machine that does not unpack them is refused."""
    net = Net(2, 4)
    graph = net.graph(net.dense(net.input(1, 64), 32))
    module = lockstep.compile(graph, "accel", machine=PACKED, sim="functional")
    module.save(tmp_path / "packed.lockstep")
    loaded = lockstep.load(tmp_path / "packed.lockstep", sim="functional")
    program, = (part.program for part in loaded.accelerated)
    assert bits_of(program) == {4} and program.machine_hash == PACKED.hash
    x = net.samples()
    assert all(np.array_equal(found, wanted) for found, wanted in zip(
        loaded(x).values(), evaluate(graph, x).values(), strict=True))
    with pytest.raises(lockstep.ArtifactError, match=r": weight_bits is \[8, 4, 2\], not \[8\], "
                                                     r"words of load have another layout; "):
        lockstep.load(tmp_path / "packed.lockstep", machine=TINY)


def test_the_formula_counts_packed_weights():
    net = Net(2, 4)
    operator, = (layer.operator for layer in AccelTarget(PACKED).compile(
        net.graph(net.dense(net.input(1, 512), 256))).layers)
    tiles, shape = Tiles(1, 1, 4, 128), shape_of(operator)
    packed, plain = (cost_of(PACKED.config, replace(shape, weight_bits=bits), tiles, 1).ends
                     for bits in (shape.weight_bits, 8))
    assert plain - packed == 512 * 256 // 2 // PACKED.config.bus_bytes


def test_tiles_have_the_least_traffic_of_those_as_fast():
    """A memory may be slower than the bus; for packed weights more cycles count as few."""
    config = replace(preset("pynq-1x16x16"), weight_bits=(8, 4))
    layer = Shape(56, 56, 4, 4, (3, 3), (1, 1), True, 1, 1, 1)
    for bits, slack in ((8, SLACK), (4, PACKED_SLACK)):
        shape = replace(layer, weight_bits=bits)
        fitting = [(rank, cost_of(config, shape, other, 2).traffic, other)
                   for rank, other in _fitting(config, shape, 2, {})]
        rank, cheapest, _ = min(fitting)
        least = min(traffic for (cycles, *_), traffic, _ in fitting
                    if cycles <= rank[0] * (1 + 1 / slack))
        assert least < cheapest
        chosen = choose(config, shape, 2)
        assert cost_of(config, shape, chosen, 2).traffic == least


def test_a_copy_that_cuts_a_byte_is_refused():
    loops = (DmaLoop(3, 8, 16, (0, 3)),)
    assert DmaCopy(104, 32, 8, loops).packed(100, 2) == DmaCopy(102, 16, 4, (
        DmaLoop(3, 4, 8, (0, 3)),))
    with pytest.raises(LoweringError, match=r"^Copy of packed elements must begin and end at whole "
                                            r"bytes of 4, not move DmaCopy\(.*\)$"):
        DmaCopy(102, 32, 8, loops).packed(100, 4)
