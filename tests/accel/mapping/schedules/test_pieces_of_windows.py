"""Pools whose windows fit no buffer: they are loaded and folded piece by piece."""

from unittest.mock import patch

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.mapping.plans.text import tiles_from, tiles_text
from accel.mapping.schedules import ranking, tiles_of
from accel.mapping.schedules.demands import piece_of
from accel.mapping.schedules.tiles import Shape, Tiles
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from compiler.plans import PlanRefused
from tests.support.effort import tries
from tests.support.integer_graphs import Net, assert_right, assert_simulators_agree
from tests.support.machines import MACHINES, SHORT, TINY

POOL = Shape(2, 3, 2, 1, (7, 5), (1, 1), False, 1, 1, 1)
kernels = st.tuples(st.integers(1, 9), st.integers(1, 24))


@settings(max_examples=tries(25))
@given(st.sampled_from(("short", "short-batch")), st.integers(1, 3), st.integers(1, 11), kernels,
       st.tuples(st.integers(0, 2), st.integers(0, 2)), st.booleans(), st.booleans(),
       st.sampled_from((1, 2)))
def test_windows_of_any_size(name, images, channels, kernel, more, average, padded,
                             threads) -> None:
    assume(kernel[0] * kernel[1] > 8)
    net = Net(channels)
    x = net.rescale(net.input(images, channels, kernel[0] + more[0], kernel[1] + more[1]))
    pads = (kernel[0] - 1, 0, 0, kernel[1] - 1) if padded else (0, 0, 0, 0)
    strides = (kernel[0] // 2 + 1, kernel[1] // 2 + 1) if padded else (1, 1)
    y = (net.average_pool(x, kernel, strides, pads, 7, pixelwise=channels % 2 == 0) if average
         else net.max_pool(x, kernel, strides, pads))
    assert_right(MACHINES[name], net.graph(y), net.samples(), threads)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "shape"), [
    ("tiny-1x4x4", (2, 9, 33, 29)), ("tiny-1x4x4", (1, 4, 2, 700)), ("2x8x8", (3, 11, 80, 70)),
    ("1x32x16", (2, 33, 127, 41)), ("pynq-1x16x16", (1, 20, 112, 112))])
def test_averages_of_large_images(name: str, shape: tuple[int, ...]) -> None:
    """Also of extents that no number divides."""
    machine = MACHINES.get(name) or Machine(preset(name))
    net = Net(3)
    graph = net.graph(net.average(net.rescale(net.input(*shape))))
    program = assert_right(machine, graph, net.samples())
    assert {i.fields["reset"] for i in program.instructions(machine)
            if i.name == "reduce_add"} == {0, 1}


@pytest.mark.slow
def test_every_simulator_computes_the_same() -> None:
    net = Net(4)
    x = net.rescale(net.input(2, 5, 7, 11))
    graph = net.graph(net.average(x), net.max_pool(x, (6, 9), (1, 1), (2, 0, 1, 3)))
    samples = net.samples()
    program = assert_right(SHORT, graph, samples)
    assert_simulators_agree(SHORT, program, samples)


def test_pieces_that_overlap_are_faster_than_a_window_that_fits_once() -> None:
    net = Net(5)
    graph = net.graph(net.average(net.rescale(net.input(1, 9, 20, 20))))

    def cycles() -> int:
        return cycle.simulate(TINY, AccelTarget(TINY).compile(graph).program, values=False).cycles

    pieces = cycles()
    with (patch.object(ranking, "tiles_in_pieces", lambda shape: ()),
          patch.dict("accel.mapping.plans.choices._chosen", clear=True)):
        assert pieces < cycles()


def test_a_piece_is_rows_or_a_part_of_one() -> None:
    assert [piece_of((7, 5), pieces) for pieces in (1, 2, 3, 4, 7, 14, 21, 35)] == [
        (7, 5), (4, 5), (3, 5), (2, 5), (1, 5), (1, 3), (1, 2), (1, 1)]


def test_a_plan_has_pieces() -> None:
    few = Tiles(1, 1, 2, 1, pieces=14)
    assert tiles_text(few, 2) == "rows=1 columns=1 channels=2 depth=1 pieces=14 threads=2"
    assert tiles_from(tiles_text(few, 2), TINY.config, POOL, 2, {}) == (few, 2)
    assert "pieces" not in tiles_text(Tiles(1, 1, 2, 1), 2)
    for text in ("rows=1 columns=2 channels=2 depth=1 pieces=7 threads=2",
                 "rows=1 columns=1 channels=2 depth=1 pieces=5 threads=2"):
        with pytest.raises(PlanRefused, match="must be cut into equal pieces"):
            tiles_from(text, TINY.config, POOL, 2, {})


def test_operators_with_products_are_not_cut() -> None:
    net = Net(6)
    graph = net.graph(net.conv(net.rescale(net.input(1, 4, 6, 6)), 4, (2, 4)))
    operator = AccelTarget(SHORT).compile(graph).layers[-1].operator
    assert tiles_of(SHORT, operator, 1)[0].pieces == 1
