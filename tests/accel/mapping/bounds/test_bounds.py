"""Lower bounds of layers: against the simulator, against numbers that are counted by hand."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from accel.figures.traffic import dram_bytes
from accel.machine.config import preset
from accel.machine.dram import Dram
from accel.machine.intrinsics import SHIPPED, on_each_vector
from accel.machine.machine import Machine
from accel.machine.structure import SHIPPED_STRUCTURE
from accel.mapping.bounds import bound_of, bounds_of_tilings
from accel.mapping.bounds.tilings import every_tiling, listed
from accel.mapping.bounds.traffic import LayerFacts
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.lowering import LoweringError
from accel.mapping.plans.choices import Choices
from accel.mapping.schedules import most_threads, shape_of
from accel.mapping.schedules.tiles import tiles_in_pieces, whole_tiles
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from tests.support.integer_graphs import Net

SEED = 7

TWO = {"structure": SHIPPED_STRUCTURE.with_vectors(2), "vector_beats": 4}

MACHINES = (("tiny-1x4x4", {}), ("ecp5-1x8x8", {"vector_beats": 2}), ("pynq-1x16x16", {}),
            ("tiny-1x4x4", {"memory": Dram(latency=0)}),
            ("ecp5-1x2x2", {"memory": Dram(latency=15, outstanding=3, bytes_per_cycle=2,
                                           row_bytes=1024, row_miss=4, row_closed=2, banks=4,
                                           in_order=True, beat_cycles=3)}),
            ("pynq-1x16x16", {"bus_bytes": 16, "batch": 2}))


def machine_of(name: str, **changes) -> Machine:
    config = replace(preset(name), **changes)
    return Machine(config, on_each_vector(config.structure, SHIPPED))


def layer_of(machine: Machine, net: Net, result: str):
    """The last layer of a network, and what makes programs of it alone."""
    groups, program = AccelTarget(machine).parts(net.graph(result))
    return groups[-1][-1].layer, program


def measured(machine: Machine, layer: MappedLayer, program, tiles, threads: int) -> tuple[int, int]:
    """The cycles of a program of one layer, and the bytes that it moves."""
    made = program([(Choices(machine, 2).part(layer, {}, tiles, threads),)])
    run = cycle.simulate_model(machine, made, values=False)
    return run.cycles, int(dram_bytes(machine, made).sum())


def nets(random: Random) -> Iterator[tuple[Net, str]]:
    """Small layers of every kind: kernels, strides, pads, groups, products, elements."""
    for kind in ("convolution", "plain", "depthwise", "groups", "pool", "dense", "product", "add",
                 "transposed", "convolution", "average", "below", "terms", "residual", "sums",
                 "sums of rows"):
        net = Net(random.randrange(100), 9 if kind == "terms" else 8, slopes=kind == "below")
        yield net, result_of(net, kind, random)


def result_of(net: Net, kind: str, random: Random) -> str:
    """The result of a layer of a kind, behind a change of scale where that is of use."""
    size = random.randint(4, 10), random.randint(4, 10)
    kernel = random.randint(1, 4), random.randint(1, 4)
    strides = random.randint(1, 3), random.randint(1, 3)
    pads = tuple(random.randrange(kernel[axis % 2]) for axis in range(4))
    channels, outputs = random.randint(5, 30), random.randint(5, 40)
    window = {"kernel": kernel, "strides": strides, "pads": pads}
    match kind:
        case "plain":
            return net.conv(net.input(1, 3, *size), outputs, **window)
        case "dense":
            return net.dense(net.input(random.choice((1, 5)), 3 * channels), outputs)
        case "product":
            a, b = net.input(2, *size), net.input(2, size[1], outputs, name="b")
            return net.matmul(a, b, zeros=random.choice(((0, 0), (3, 0), (-128, 7))))
        case "sums of rows":
            x, weight = net.input(9, channels), net.constant(np.ones((outputs, channels), np.int8))
            return net.add_node("qdense", x, weight, planes=3)
        case "groups":
            return net.conv(net.rescale(net.input(1, 16, *size)), 24, group=4, **window)
    x = net.rescale(net.input(1, channels, *size))
    match kind:
        case "depthwise":
            return net.conv(x, channels, group=channels, **window)
        case "pool":
            return net.max_pool(x, **window)
        case "average":
            return net.average_pool(x, **window)
        case "transposed":
            return net.conv_transpose(x, outputs)
        case "sums":
            weight = net.constant(np.ones((outputs, channels, *kernel), np.int8))
            return net.add_node("qconv2d", x, weight, strides=strides, pads=pads, pad_value=0,
                                planes=3)
        case "add":
            return net.add(x, net.rescale(x))
        case "residual":
            pads = tuple(side for end in (0, 1) for side in (
                (size - 1) // 2 if end == 0 else size // 2 for size in kernel))
            return net.conv(x, channels, kernel, pads=pads, met=x)
    return net.conv(x, outputs, **window)


@pytest.mark.slow
def test_no_tiling_is_better_than_its_bound() -> None:
    random, tried = Random(SEED), 0
    print("seed", SEED)
    for number, (net, result) in enumerate(nets(random)):
        name, changes = MACHINES[number % len(MACHINES)]
        machine = machine_of(name, **changes)
        layer, program = layer_of(machine, net, result)
        whole = bound_of(machine, layer)
        for threads in (1, 2):
            ways = sorted(bounds_of_tilings(machine, layer, threads), key=lambda way: way[0])
            way = random.choice(ways[:len(ways) // 2 + 1]) if threads == 1 else ways[0]
            least, moved, tiles = way
            cycles, size = measured(machine, layer, program, tiles, threads)
            tried += 1
            assert whole.cycles <= least <= cycles, (name, layer.name, tiles, threads)
            assert whole.dram_bytes <= moved <= size, (name, layer.name, tiles, threads)
    assert tried == 32


@pytest.mark.one_in(3)
@pytest.mark.parametrize("changes", [
    {"channels": 4, "memory": Dram(latency=0)},
    {"channels": 2, "memory": Dram(latency=9, bytes_per_cycle=1.5)},
    {"channels": 4, "memory": Dram(latency=9, bytes_per_cycle=0.5)}], ids=str)
def test_channels_move_no_more_than_their_bound(changes) -> None:
    """Units move bytes side by side, and slow channels add up."""
    machine = machine_of("tiny-1x4x4", **changes)
    apart = machine_of("tiny-1x4x4", **changes | {"channels": 1})
    for net, result in [*nets(Random(SEED))][::4]:
        layer, program = layer_of(machine, net, result)
        for threads in (1, 2):
            for least, moved, tiles in sorted(
                    bounds_of_tilings(machine, layer, threads), key=lambda way: way[0])[:2]:
                cycles, size = measured(machine, layer, program, tiles, threads)
                assert least <= cycles and moved <= size, (layer.name, tiles, threads)
        assert bound_of(machine, layer).cycles <= bound_of(apart, layer).cycles


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pool", "add", "below", "convolution"])
def test_no_tiling_for_two_units_of_vector_is_better_than_its_bound(kind) -> None:
    random, machine = Random(SEED), machine_of("tiny-1x4x4", **TWO)
    net = Net(1, 8, slopes=kind == "below")
    layer, program = layer_of(machine, net, result_of(net, kind, random))
    assert layer.operator.sharers == 2
    whole = bound_of(machine, layer)
    for threads in (1, 2, 4):
        if threads <= most_threads(shape_of(layer.operator), 2):
            least, _, tiles = min(bounds_of_tilings(machine, layer, threads),
                                  key=lambda way: way[0])
            cycles, _ = measured(machine, layer, program, tiles, threads)
            assert whole.cycles <= least <= cycles, (tiles, threads)
    alone = bound_of(machine_of("tiny-1x4x4", vector_beats=4), layer)
    assert whole.vector == -(-alone.vector // 2)


@pytest.mark.parametrize("changes", [{}, {"bus_bytes": 8}])
def test_a_layer_of_one_tile_by_hand(changes) -> None:
    """8 channels of 2x2 pixels, 1x1, to 4 channels: 4 * 2 block products of 4x4."""
    machine = machine_of("tiny-1x4x4", memory=Dram(latency=0), **changes)
    net = Net(1)
    layer, _ = layer_of(machine, net, net.conv(net.rescale(net.input(1, 8, 2, 2)), 4, (1, 1)))
    bound = bound_of(machine, layer)
    loaded = 4 * 8 + 8 * 4 + 4 * 8              # pixels, weights, parameters
    assert (bound.gemm, bound.vector, bound.loaded) == (8, 4, loaded)
    assert bound.dram_bytes == loaded + 4 * 4
    # input, weights, gemm, parameters, vector, store, FINISH
    assert bound.moved == bound.dram_bytes + 7 * 64
    assert bound.busy == -(-bound.moved // machine.config.bus_bytes)


def test_compulsory_traffic_where_all_fits_and_more_where_it_does_not() -> None:
    for name, fits in (("pynq-1x16x16", True), ("tiny-1x4x4", False)):
        machine = machine_of(name)
        net = Net(1)
        layer, _ = layer_of(machine, net, net.conv(net.rescale(net.input(1, 32, 12, 12)), 64))
        compulsory = layer.size("x", *layer.constants, "output")
        bound = bound_of(machine, layer)
        assert (bound.dram_bytes == compulsory) == fits and bound.dram_bytes >= compulsory, name


def test_every_tiling_is_what_the_template_offers() -> None:
    machine = machine_of("tiny-1x4x4")
    for net, result in nets(Random(1)):
        layer, _ = layer_of(machine, net, result)
        shape = shape_of(layer.operator)
        offered = [*whole_tiles(shape), *tiles_in_pieces(shape)]
        assert sorted(listed(every_tiling(shape))) == sorted(offered), shape


def test_a_layer_that_fits_no_buffer_is_refused() -> None:
    machine = machine_of("tiny-1x4x4")
    net = Net(1)
    layer, _ = layer_of(machine, net, net.conv(net.input(1, 3, 8, 8), 4))
    assert layer.operator.row                       # windows of 7 entries, loaded as they are
    with pytest.raises(LoweringError, match="conv2d_0: a tile must fit the buffers of tiny-1x4x4"):
        bound_of(machine_of("tiny-1x4x4", inp_bytes=16), layer)


@pytest.mark.parametrize("columns, waits", [(12, 300 + 4 - 64), (8, 300 + 4 - 64), (4, 0)])
def test_waits_for_bursts_by_hand(columns, waits) -> None:
    """Elements of a narrow matrix lie in one beat, and share its burst. No load of 64 waits."""
    machine = machine_of("tiny-1x4x4", bus_bytes=8, memory=Dram(latency=300))
    net = Net(3)
    result = net.matmul(net.input(1, 24, 32), net.input(1, 32, columns, name="b"))
    facts = LayerFacts(machine, layer_of(machine, net, result)[0])
    assert facts.waits == waits
    elements, loads = np.array([64, 128, 128, 640]), np.array([1, 1, 4, 2])
    assert facts.weight_cycles(elements, loads).tolist() == [
        64, 128 + waits, 128, 640 + 8 * waits]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("latency, ratio", [(64, 1.1), (300, 1.4)])
def test_elements_that_are_bursts_of_their_own(latency, ratio) -> None:
    """A product whose second matrix is loaded column by column, 1,536 elements."""
    machine = machine_of("pynq-1x16x16", memory=Dram(latency=latency))
    net = Net(3)
    result = net.matmul(net.input(1, 24, 32), net.input(1, 32, 48, name="b"))
    layer, program = layer_of(machine, net, result)
    cycles = []
    for threads in (1, 2):
        for least, _, tiles in sorted(bounds_of_tilings(machine, layer, threads))[:5]:
            cycles.append(measured(machine, layer, program, tiles, threads)[0])
            assert least <= cycles[-1], (tiles, threads)
    assert min(cycles) <= ratio * bound_of(machine, layer).cycles
