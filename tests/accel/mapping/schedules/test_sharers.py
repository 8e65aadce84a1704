"""What tiles cost where units of vector take them in turn."""

from dataclasses import replace

import pytest

from accel.mapping.schedules.cost import FAR, Cost
from accel.mapping.schedules.demands import TURN, cost_of
from accel.mapping.schedules.tiles import Shape, Tiles
from tests.support.machines import TINY

CONFIG = replace(TINY.config, vector_beats=4)
ADDED = Shape(rows=12, columns=8, channels=2, depth=1, kernel=(1, 1), strides=(1, 1),
              weighted=False, inputs=2, accumulators=0, parameters=0)
SUMMED = replace(ADDED, weighted=True, inputs=1, accumulators=1, depth=4)


def cost(shape: Shape, rows: int, sharers: int) -> Cost:
    tiles = Tiles(rows, 8, 2, shape.depth)
    return cost_of(CONFIG, replace(shape, sharers=sharers), tiles, 2)


@pytest.mark.parametrize("rows, busiest", [(4, 2 / 3), (3, 2 / 4), (12, 1)])
def test_the_busiest_unit_has_a_tile_more_where_they_are_odd(rows: int, busiest: float) -> None:
    one, two = (cost(ADDED, rows, sharers).products - TURN for sharers in (1, 2))
    assert one == rows * 8 * 2 * 4 and two == pytest.approx(busiest * one)


def test_two_tiles_of_products_take_as_long_as_one_bank_is_held() -> None:
    """gemm and vector work on a bank one after the other, and there are two."""
    one, two = (cost(SUMMED, 3, sharers) for sharers in (1, 2))
    work, lanes = one.products - TURN, one.lanes
    assert (work, lanes) == (3 * 8 * 2 * 4, 3 * 8 * 2 * 4)
    assert (two.products, two.lanes) == (one.products, (work + lanes) / 2)
    deep = replace(SUMMED, depth=16)
    assert cost(deep, 3, 2).lanes == (4 * work + lanes) / 2     # more than its share
    assert cost(deep, 12, 2).lanes == cost(deep, 12, 1).lanes       # one tile has one unit


def test_a_copy_of_the_buffers_is_held_from_load_to_result() -> None:
    """One for each virtual thread, of layers without products."""
    one, two = (cost(ADDED, 3, sharers) for sharers in (1, 2))
    alone = one.products - TURN
    assert two.held == (alone + two.loads + two.burst + FAR) / 2
    assert one.held == cost(SUMMED, 3, 2).held == 0
    assert two.cycles >= 4 * two.held
