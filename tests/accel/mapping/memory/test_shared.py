"""The shared scratchpad: which activations lie in it, and networks whose activations do."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.figures.traffic import dram_bytes, shared_bytes
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, ProgramError, finish
from accel.mapping.layers import forms_of
from accel.mapping.memory.allocate import allocate
from accel.mapping.memory.layout import blocks_of
from accel.mapping.memory.shared import allocate_shared
from accel.mapping.memory_map import MemoryMap
from accel.mapping.plans.choices import groups_text
from accel.mapping.programs import demands_of
from accel.mapping.schedules import shape_of
from accel.mapping.schedules.between import kept_traffic
from accel.mapping.target import AccelTarget
from accel.sim.checking.check import check
from accel.sim.timed import cycle
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.lifetimes import assert_apart
from tests.support.machines import TINY

lives = st.tuples(st.integers(0, 9), st.integers(0, 4)).map(lambda p: (p[0], p[0] + p[1]))
values = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2),
                         st.tuples(st.integers(1, 400), st.integers(1, 4), lives), max_size=12)


def with_shared(size: int, like: Machine = TINY) -> Machine:
    return Machine(replace(like.config, name="shared", shared_bytes=size), like.declarations)


@given(values, st.sampled_from([64, 256, 1024]))
def test_no_two_live_values_overlap(wanted, capacity: int) -> None:
    sizes = {name: size for name, (size, _, _) in wanted.items()}
    moved = {name: size * times for name, (size, times, _) in wanted.items()}
    lives = {name: life for name, (_, _, life) in wanted.items()}
    offsets, total = allocate_shared(sizes, lives, moved, capacity)
    assert_apart(offsets, sizes, lives, total)


def test_what_is_moved_most_comes_first_and_what_does_not_fit_lies_there_in_part() -> None:
    sizes = {"often": 192, "twice": 128, "large": 640}
    lives = {"often": (0, 1), "twice": (1, 2), "large": (0, 2)}
    offsets, total = allocate_shared(
        sizes, lives, {"often": 960, "twice": 384, "large": 1280}, 256)
    assert offsets == {"often": 0, "twice": 192, "large": 320} and total == 960
    offsets, _ = allocate_shared(sizes, lives, {"often": 192, "twice": 128, "large": 6400}, 256)
    assert offsets["large"] == 0
    assert allocate(sizes, lives)[0]["large"] == 0


def network() -> Net:
    """A pool, and an addition, that are computed beside the convolution before them."""
    net = Net(5)
    x = net.conv(net.input(1, 3, 24, 24), 16, pads=(1, 1, 1, 1))
    x = net.max_pool(x)
    y = net.conv(x, 16, pads=(1, 1, 1, 1))
    y = net.add(net.conv(y, 16, pads=(1, 1, 1, 1)), x)
    net.conv(y, 8)
    return net


@pytest.mark.slow
@pytest.mark.parametrize("size", [1024, pytest.param(4096, marks=pytest.mark.slow), 1 << 16])
def test_a_network_is_right_and_moves_fewer_bytes(size: int) -> None:
    """Bytes of DRAM of the same tiles become bytes of the scratchpad, in the cycle simulator's
    counters, too."""
    net, machine = network(), with_shared(size)
    graph = net.graph(net.nodes[-1].outputs[0])
    program = assert_right(machine, graph, net.samples())
    groups, _ = AccelTarget(machine).parts(graph)
    same, assemble = AccelTarget(TINY).parts(graph, groups_text(groups))
    whole, own = assemble(same), AccelTarget(TINY).compile(graph).program
    moved, before = dram_bytes(machine, program).sum(), dram_bytes(TINY, whole).sum()
    assert moved + shared_bytes(machine, program).sum() == before
    assert moved < dram_bytes(TINY, own).sum()
    assert shared_bytes(machine, program).sum() >= min(size, 8000)
    run, old = cycle.simulate(machine, program, values=False), cycle.simulate(
        TINY, whole, values=False)
    assert run.ok and sum(run.counters.bytes.values()) < sum(old.counters.bytes.values())
    if size == 1 << 16:
        ends = sum(slot.size_bytes for slot in (*program.inputs, *program.outputs))
        assert moved < before // 2 and program.activations_bytes == size > ends


@pytest.mark.parametrize("pool", [{}, {"kernel": (3, 3), "pads": (1, 1, 1, 1)}])
def test_rows_between_two_layers_lie_in_a_ring(pool: dict[str, tuple[int, ...]]) -> None:
    """All of a tensor of 12,288 bytes is written and read in a scratchpad of 8,192; windows that
    have rows in common reach across the end of the ring."""
    net, machine = Net(5), with_shared(8192)
    x = net.conv(net.input(1, 3, 64, 12), 16, pads=(1, 1, 1, 1))
    program = assert_right(machine, net.graph(net.max_pool(x, **pool)), net.samples())
    assert " + " in program.layers[0][0]
    assert shared_bytes(machine, program).sum() >= 2 * 64 * 12 * 16


@pytest.mark.slow
@pytest.mark.parametrize("pool", [{}, {"kernel": (3, 3), "pads": (1, 1, 1, 1)}])
def test_blocks_of_channels_come_by_rows_where_a_ring_is_to_be_small(
        pool: dict[str, tuple[int, ...]]) -> None:
    """One block after the other would need all of the 12,288 bytes."""
    net, machine = Net(5), with_shared(4096)
    x = net.conv(net.input(1, 32, 48, 8), 32, pads=(1, 1, 1, 1))
    graph = net.graph(net.max_pool(x, **pool))
    program = assert_right(machine, graph, net.samples())
    (first, second), = AccelTarget(machine).parts(graph)[0]
    assert first.tiles.by_rows and second.tiles.by_rows and first.tiles.rows < 48
    assert shared_bytes(machine, program).sum() >= 2 * 48 * 8 * 32
    (alone, _), = AccelTarget(TINY).parts(graph)[0]
    assert not alone.tiles.by_rows


@pytest.mark.parametrize("pool", [{}, {"kernel": (3, 3), "pads": (1, 1, 1, 1)}])
@pytest.mark.parametrize("channels", [(3, 16), (8, 32), (32, 32)])
def test_what_tiles_are_expected_to_keep_is_about_what_a_ring_takes(
        channels: tuple[int, int], pool: dict[str, tuple[int, ...]]) -> None:
    """A tile of one row, of which a window of the pool sees two, is the case that is a row off."""
    net, machine = Net(5), with_shared(1024).in_roles
    x = net.conv(net.input(1, channels[0], 48, 8), channels[1], pads=(1, 1, 1, 1))
    graph = net.graph(net.max_pool(x, **pool))
    forms = forms_of(graph, blocks_of(machine.config))
    groups, _ = AccelTarget(machine).parts(graph)
    demands = demands_of(machine, groups, MemoryMap(graph, groups, forms), True)
    shapes = [shape_of(part.layer.operator) for part in groups[0]]
    size = 48 * 8 * channels[1]
    expected = 2 * size / machine.config.bus_bytes * min(1, 1024 / demands[x].kept)
    assert 1024 <= demands[x].kept < size
    assert 1 <= kept_traffic(machine.config, *shapes, groups[0][0].tiles) / expected <= 1.25
    assert 2 * size <= demands[x].moved < (3 if pool else 2.01) * size
    assert kept_traffic(TINY.config, *shapes, groups[0][0].tiles) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["softmax", "two_vectors"])
def test_machines_with_own_units(name: str) -> None:
    net, own = network(), load_machine(f"examples/machines/{name}.py")
    assert_right(with_shared(4096, own), net.graph(net.nodes[-1].outputs[0]), net.samples())


@pytest.mark.slow
def test_rtl_and_simulators_agree() -> None:
    """On programs of the check, and on a network whose tensors lie there in part and in rings."""
    machine, net = with_shared(1024), network()
    report = check(machine, 20)
    assert report.difference is None and not report.left_out
    program = assert_right(machine, net.graph(net.nodes[-1].outputs[0]), net.samples())
    assert_simulators_agree(machine, program, net.samples())


def test_a_program_without_room_for_the_scratchpad_is_refused() -> None:
    machine = with_shared(1024)
    program = AccelProgram.assemble(machine, [finish()])
    assert program.activations_bytes == 1024
    with pytest.raises(ProgramError, match="^activations_bytes must be at least the shared_bytes "
                                           "of shared, 1024, not 64$"):
        cycle.simulate(machine, replace(program, activations_bytes=64))

