"""Which tilings of a layer `accelerator.tilings` measures."""

from accel.mapping.schedules import Tiles
from bench.accelerator.tilings import some


def test_few_tilings_are_all_measured() -> None:
    tiles = [Tiles(size, 1, 1, 1) for size in range(1, 10)]
    assert some(tiles, 9) == some(tiles, 20) == tiles


def test_of_many_the_first_and_some_of_the_others_are_measured() -> None:
    tiles = [Tiles(size, 1, 1, 1) for size in range(1, 1001)]
    chosen = some(tiles, 20)
    assert chosen[:10] == tiles[:10]
    places = [tiles.index(one) for one in chosen[10:]]
    assert places == [10 + 99 * at for at in range(10)]
