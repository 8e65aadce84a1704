"""What tiles cost: each part of the formula where it alone decides, and against the simulator."""

from dataclasses import replace

import numpy as np
import pytest

from accel.mapping.plans.choices import Choices
from accel.mapping.schedules import Cost
from accel.mapping.schedules.cost import FAR
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from tests.support.effort import tries
from tests.support.integer_graphs import Net
from tests.support.machines import TINY

COST = Cost(tiles=10, steps=1, products=2000, loads=100, burst=50, lanes=60, kept=0, turns=0,
            filled=1, ends=7)


def test_an_array_that_never_waits() -> None:
    assert COST.cycles == 10 * 2000 + 7
    assert replace(COST, steps=3).cycles == 10 * 3 * 2000 + 7
    assert (COST.work, COST.traffic) == (20000, 1500)


def test_vector_may_take_longest() -> None:
    assert replace(COST, lanes=2500).cycles == 10 * 2500 + 7


def test_the_bus_may_take_longest() -> None:
    """Then the next loads wait for no buffer, and latency is hidden."""
    assert replace(COST, loads=3000).cycles == 10 * 3050 + 7
    assert replace(COST, steps=4, loads=3000).cycles == 10 * (4 * 3000 + 50) + 7


def test_late_loads() -> None:
    """A load that takes the whole step comes `FAR` too late; each wait is half of the next."""
    assert replace(COST, loads=2000, burst=0).cycles == 10 * (2000 + FAR / 2) + 7
    assert replace(COST, steps=4, loads=2000, burst=0).cycles == 10 * 4 * (2000 + FAR / 2) + 7


def test_results_of_a_tile_delay_one_of_its_steps() -> None:
    late = replace(COST, steps=4, loads=1000, burst=1000)
    assert late.cycles == 10 * (4 * 2000 + FAR) + 7
    assert replace(late, burst=800).cycles == 10 * 4 * 2000 + 7


def test_what_stays_is_loaded_in_time_that_is_left() -> None:
    assert replace(COST, kept=1850, turns=3).cycles == 10 * 2000 + 7
    assert replace(COST, kept=1950, turns=3).cycles == 10 * 2000 + 3 * 100 + 7
    assert replace(COST, kept=1950, turns=3).traffic == COST.traffic + 3 * 1950


def test_what_stays_is_loaded_in_the_last_step_of_a_tile() -> None:
    """Where loads leave no time in it, in time of its own."""
    steps = replace(COST, steps=3, turns=3)
    assert replace(steps, kept=1950).cycles == steps.cycles + 3 * 100
    assert replace(steps, kept=1850).cycles == steps.cycles
    busy = replace(COST, steps=3, loads=3000)
    assert replace(busy, kept=1950, turns=3).cycles == busy.cycles + 3 * 1950


def test_smaller_tiles_at_the_edges_take_less_time_where_their_loads_do() -> None:
    assert replace(COST, filled=0.9).cycles == np.ceil(
        10 * (0.9 + 0.1 * (150 + FAR) / 2000) * 2000 + 7)
    assert replace(COST, filled=0.9, loads=3000).cycles == 10 * 3050 + 7


SECOND = replace(COST, products=40, loads=100, burst=50, lanes=0)


def test_a_second_layer_that_comes_in_time() -> None:
    both = COST.beside(SECOND, True, 1, 2)
    assert both.cycles == 10 * 2000 + 14
    assert (both.batches, both.batch, both.lanes) == (10, 150, 100)


def test_tiles_of_a_second_layer_without_operands_hold_up_loads() -> None:
    few, many = (COST.beside(replace(SECOND, tiles=tiles), False, 1, 2).cycles
                 for tiles in (20, 40))
    assert few == 10 * 2000 + 14
    assert many - few == 10 * (FAR + 2 * 40 + 100 + FAR)


def test_sums_of_a_second_layer_wait_for_their_bank() -> None:
    """Where there are several for a tile, and gemm leaves no bank within it."""
    second = replace(SECOND, tiles=20)
    apart, waiting = (COST.beside(second, sums, 1, 2).cycles for sums in (False, True))
    assert waiting - apart == 10 * (FAR + 60 + 40)
    in_steps = replace(COST, steps=2)
    assert in_steps.beside(second, True, 1, 2).cycles == in_steps.beside(second, False, 1, 2).cycles


def test_tiles_of_all_channels_come_in_batches() -> None:
    """After as many tiles of the first layer as have their channels."""
    both = COST.beside(replace(SECOND, tiles=3), False, 5, 2)
    assert (both.batches, both.pause) == (2, 0)
    assert both.batch == SECOND.traffic * 0.3 / 2
    many = COST.beside(replace(SECOND, tiles=20), False, 5, 2)
    assert many.pause == 4 * (FAR + 2 * 40) + 100 + FAR
    assert many.cycles == 10 * 2000 + 2 * many.pause + 14


def test_many_at_once_cost_what_each_does() -> None:
    costs = [replace(COST, tiles=tiles, steps=steps, loads=loads)
             for tiles in (1, 8) for steps in (1, 3) for loads in (10, 1990, 5000)]
    many = Cost(*(np.array(column) for column in zip(*(
        [getattr(cost, name) for name in Cost.__slots__] for cost in costs), strict=True)))
    places = np.arange(len(costs))[::-1]
    for wanted, cycles in zip(costs[::-1], many.of(places).cycles, strict=True):
        assert wanted.cycles == cycles
    assert replace(COST, kept=np.array(3)).single == replace(COST, kept=3)


@pytest.mark.slow
@pytest.mark.parametrize("pooled", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_simulator_likes_what_the_formula_likes(pooled: bool) -> None:
    """The chosen tiling of a convolution, alone or with a pool, is among the best."""
    net = Net(5)
    x = net.conv(net.rescale(net.input(1, 16, 12, 12)), 16, (3, 3), pads=(1, 1, 1, 1))
    graph = net.graph(net.max_pool(x, (2, 2), (2, 2)) if pooled else x)
    groups, program = AccelTarget(TINY).parts(graph)
    choices, (first, chosen) = Choices(TINY, 2), groups
    layers = [part.layer for part in chosen]
    assert len(layers) == 1 + pooled
    most = max(24, tries(40))
    ways = choices.pairs(*layers, most) if pooled else choices.others(layers[0], most)
    mine, *others = (cycle.measure(TINY, program([first, way])).cycles
                     for way in (chosen, *ways))
    assert len(others) > 20
    assert mine < 1.03 * min(others)
