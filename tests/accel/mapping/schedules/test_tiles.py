"""Tiles: what they take is what the schedule takes, and the cheapest that fit are chosen."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.mapping.lowering import LoweringError
from accel.mapping.lowering.memory import Scratchpads
from accel.mapping.memory.layout import blocks_of
from accel.mapping.operators import blocked, convolutions, pools
from accel.mapping.operators.blocked import Activation, Quantization, Window
from accel.mapping.operators.convolutions import ConvolutionForm
from accel.mapping.operators.elementwise import elementwise
from accel.mapping.plans.choices import Choices, groups_text
from accel.mapping.plans.interleave import halves
from accel.mapping.schedules import Cost, schedule, tiles_of
from accel.mapping.schedules.demands import ISSUE, _rows, cost_of, costs_of, fits_in, needs_of
from accel.mapping.schedules.ranking import SLACK, _many, _pairs, choose, choose_together
from accel.mapping.schedules.tiles import (Shape, Tiles, pieces_of, shape_of, tiles_by_rows,
                                           tiles_in_pieces, whole_tiles)
from accel.mapping.target import AccelTarget
from accel.sim.timed import cycle
from compiler import te
from compiler.ir import interpret
from compiler.te import numpy_dtype
from compiler.tensorize.cover import cover, leaf
from tests.support.machines import SHORT, TINY
from tests.support.effort import Effort
from tests.support.networks import convolution_graph

PYNQ = Machine(preset("pynq-1x16x16"))
BLOCKS = blocks_of(TINY.config)
Q = Quantization(0)


def word(name: str) -> te.Expr:
    return leaf(name, "int8", "res").astype("int32")


SUM = cover((word("x0") + word("x1") * word("x1")).astype("int8"), TINY.of_unit("vector"), "out",
            lambda step: (1,))
OPERATORS = {
    "convolution": blocked.convolution("c", Activation(1, 16, 5, 6), 8, Window(
        (2, 3), (2, 1), (1, 0, 0, 1)), 0, Q, BLOCKS),
    "packed": blocked.packed_convolution("p", Activation(1, 3, 5, 6, plain=True), 8, Window(
        (3, 2), (1, 2), (1, 0, 0, 1)), 5, Q, BLOCKS),
    "grouped": convolutions.convolution("g", Activation(1, 16, 4, 3), 16, Window((3, 2)), 2, Q,
                                        BLOCKS, ConvolutionForm(groups=2)),
    "phases": convolutions.convolution("t", Activation(1, 8, 3, 3), 8, Window((2, 3)), 0, Q, BLOCKS,
                                       ConvolutionForm(phases=(2, 1))),
    "max_pool": pools.max_pool("m", Activation(1, 8, 5, 6), Window((2, 3), (1, 2)), BLOCKS),
    "average": pools.global_average_pool("a", Activation(1, 12, 3, 4), Q, BLOCKS),
    "rescale": blocked.rescale("r", Activation(1, 8, 3, 4), Q, BLOCKS),
    "add": elementwise("s", {"x0": Activation(1, 8, 3, 4), "x1": Activation(1, 8, 3, 4)},
                       Activation(1, 8, 3, 4), SUM, BLOCKS),
    "repeated": elementwise("s", {"x0": Activation(1, 8, 3, 4), "x1": Activation(1, 8, 1, 1)},
                            Activation(1, 8, 3, 4), SUM, BLOCKS),
}
any_operator = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


def test_shapes() -> None:
    shape = shape_of(OPERATORS["convolution"])
    assert (shape.rows, shape.columns, shape.channels, shape.depth) == (3, 5, 2, 4)
    assert (shape.weighted, shape.accumulators, shape.parameters, shape.inputs) == (
        True, True, True, 1)
    shape = shape_of(OPERATORS["add"])
    assert (shape.weighted, shape.accumulators, shape.parameters, shape.inputs, shape.depth) == (
        False, 1, 0, 2, 1)
    shape = shape_of(OPERATORS["repeated"])
    assert (shape.accumulators, shape.inputs, shape.repeated) == (1, 1, 1)
    assert shape_of(OPERATORS["average"]).kernel == (3, 4)


@any_operator
def test_axes_have_their_roles_whatever_they_are_called(operator) -> None:
    """Each stage that computes tiles says what its axes are."""
    for role, axes in operator.axes.items():
        assert len(axes) == len(operator[role].shape)
    assert {"quantized", "output"} <= set(operator.axes) <= set(operator.stages)
    renamed = {role: te.compute(operator[role].shape, lambda *indices: te.const(0, "int8"), role)
               for role in ("quantized", "output")}
    assert shape_of(replace(operator, stages=operator.stages | renamed)) == shape_of(operator)


def _some(shape: Shape, every: int) -> list[Tiles]:
    """Some of the tiles, by rows too, and of those in pieces."""
    whole = list(whole_tiles(shape))
    return [*whole[1::every], *list(tiles_by_rows(shape, whole))[::4 * every],
            *list(tiles_in_pieces(shape))[::every if shape.weighted else 1]]


@pytest.mark.one_in(3)
@any_operator
def test_a_schedule_takes_what_its_tiles_need(operator) -> None:
    """Never more, and no less where the window does not reach over the edge."""
    shape, config = shape_of(operator), TINY.config
    for tiles in _some(shape, 32 if Effort.quick else 3):
        program = schedule(TINY, operator, tiles, 1).program
        used = Scratchpads(config, program.body).used()
        needs = {name: need * config.buffers[name].entry_bytes
                 for name, need, _ in needs_of(config, shape, tiles, 1, {})}
        assert {name for name, size in used.items() if size} == set(needs)
        for name, size in needs.items():
            assert used[name] <= size
            assert name in ("inp", "res") or used[name] == size


@any_operator
@pytest.mark.parametrize("machine", [TINY, SHORT], ids=lambda m: m.config.name)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("only", [False, True])
def test_the_cheapest_tiles_that_fit_are_chosen(operator, machine, threads: int, only: bool
                                                ) -> None:
    shape, config = replace(shape_of(operator), only=only), machine.config
    fitting = next(filter(None, (
        [tiles for tiles in candidates if fits_in(config, shape, tiles, threads, {})]
        for candidates in (whole_tiles(shape),
                           () if shape.weighted else tiles_in_pieces(shape)))), [])
    if not fitting:
        with pytest.raises(LoweringError):
            choose(config, shape, threads, cut=False)
        few = [tiles for tiles in whole_tiles(shape) if fits_in(config, shape, tiles, 1, {})]
        assert tiles_of(machine, operator, threads, only)[1] == (1 if few else threads)
        return
    best = choose(config, shape, threads)
    assert best in fitting
    assert cost_of(config, shape, best, threads).cycles == min(
        cost_of(config, shape, tiles, threads).cycles for tiles in fitting)
    assert tiles_of(machine, operator, threads, only) == (best, threads)


def test_the_only_layer_of_a_program_has_tiles_that_take_less_time_where_it_begins() -> None:
    """One among others has tiles with less traffic, as these hide where it begins."""
    chosen, program = AccelTarget(PYNQ).parts(convolution_graph(32, 32, 14, seed=0))
    layer, choices = chosen[0][0].layer, Choices(PYNQ, 2)
    assert groups_text(chosen) == groups_text(choices.groups([layer]))
    ways = chosen, choices.groups([layer], whole=False)
    only, among = (cycle.measure(PYNQ, program(way)).cycles for way in ways)
    assert only < 0.95 * among
    more, less = (cost_of(PYNQ.config, shape_of(layer.operator), way[0][0].tiles, 2).traffic
                  for way in ways)
    assert less < more


@any_operator
@pytest.mark.parametrize("threads", [1, 2])
def test_many_tiles_cost_and_need_what_each_does(operator, threads: int) -> None:
    """Also where each output has several sums, as a leaky relu needs them."""
    config = TINY.config
    for sums in (1, 2):
        shape = replace(shape_of(operator), accumulators=sums)
        tiles = _some(shape, 5)
        costs = costs_of(config, shape, _many(tiles), threads)
        needs = needs_of(config, shape, _many(tiles), threads, {})
        for place, one in enumerate(tiles):
            alone = cost_of(config, shape, one, threads)
            assert alone == Cost(*(_at(getattr(costs, name), place) for name in Cost.__slots__))
            assert [(name, _at(need, place), _at(have, place)) for name, need, have in needs
                    ] == needs_of(config, shape, one, threads, {})


def _at(number, place: int):
    """The number at a place, of an array or of any length."""
    return np.asarray(number).ravel()[place if np.size(number) > 1 else 0]


def test_threads_share_the_buffers() -> None:
    shape = shape_of(OPERATORS["convolution"])
    halves, whole = (needs_of(TINY.config, shape, Tiles(1, 1, 1, 1), threads, {})
                     for threads in (2, 1))
    assert [have * 2 for _, _, have in halves] == [have for _, _, have in whole]
    assert [need for _, need, _ in halves] == [need for _, need, _ in whole]


def test_what_is_loaded_once_has_one_copy() -> None:
    """A stationary operand of all tiles need not fit twice; one that changes must."""
    shape = shape_of(OPERATORS["convolution"])
    for tiles, alone in ((Tiles(1, 5, 2, 4, "w"), {"wgt", "par"}), (Tiles(1, 5, 1, 4, "w"), set()),
                         (Tiles(3, 5, 1, 4, "input"), {"inp"}),
                         (Tiles(1, 5, 1, 4, "input"), set())):
        rooms = {name: have for name, _, have in needs_of(TINY.config, shape, tiles, 2, {})}
        depths = {name: TINY.config.buffers[name].depth for name in rooms}
        assert {name for name in rooms if rooms[name] == depths[name]} == alone


def test_tiles_of_layers_at_the_same_time() -> None:
    """They fit their rooms, and those of the second are parts of those of the first."""
    first, second = (shape_of(OPERATORS[name]) for name in ("convolution", "rescale"))
    second = replace(second, rows=3, columns=5, channels=2)
    rooms = halves(TINY.config, ["out", "par"])
    one, two = choose_together(TINY.config, first, second, 2, rooms) or pytest.fail("none")
    assert fits_in(TINY.config, first, one, 2, rooms[0])
    assert fits_in(TINY.config, second, two, 2, rooms[1])
    assert two.rows == one.rows and two.columns <= one.columns
    assert rooms[0]["out"][1] == rooms[1]["out"][0] == TINY.config.buffers["out"].depth // 2
    assert choose_together(SHORT.config, replace(first, kernel=(5, 5)), second, 2, rooms) is None


@pytest.mark.parametrize("second", [
    Shape(56, 56, 3, 1, (1, 1), (1, 1), False, 2, 1, 0),
    Shape(28, 28, 3, 1, (3, 3), (2, 2), False, 1, 0, 0)], ids=["add", "max_pool"])
def test_pairs_of_tiles_have_the_least_traffic_of_those_as_fast(second: Shape) -> None:
    """What both layers move counts, and no cycles are paid that would be noticed."""
    config, first = PYNQ.config, Shape(56, 56, 3, 6, (3, 3), (1, 1), True, 1, 1, 1)
    rooms = halves(config, ["out", "acc"])
    pairs = [(rank[0], sum(cost_of(config, shape, tiles, 2).traffic for shape, tiles in zip(
        (first, second), both, strict=True)), rank, tuple(both))
        for rank, *both in _pairs(config, first, second, 2, rooms)]
    cycles, cheapest, *_ = min(pairs, key=lambda pair: pair[2:])
    least, slower = (min(traffic for count, traffic, *_ in pairs if count <= cycles * most)
                     for most in (1 + 1 / SLACK, 2))
    assert slower < least < cheapest
    chosen = choose_together(config, first, second, 2, rooms)
    assert [traffic for _, traffic, _, both in pairs if both == chosen] == [least]


def test_windows_along_a_line_share_what_the_bus_moves() -> None:
    """Load writes every row of a window; the bus moves what is not on chip yet. The load takes as
    long as the longer of both.
    """
    window = Window((3, 3), (2, 2))
    shape = shape_of(blocked.packed_convolution(
        "p", Activation(1, 3, 33, 33, plain=True), 16, window, 5, Q, blocks_of(PYNQ.config)))
    assert (shape.row, shape.step, shape.depth) == (9, 6, 2)
    config, pixel = PYNQ.config, shape.depth * PYNQ.config.block_in
    long, square, high = lines = [Tiles(*pixels, 1, 2, "w")
                                  for pixels in ((1, 16), (4, 4), (16, 1))]
    assert [tuple(map(int, _rows(config, shape, tiles, pixel))) for tiles in lines] == [
        (768, 318), (768, 408), (768, 768)]
    for tiles in lines:
        cost = cost_of(config, shape, tiles, 2)
        assert cost.steps * (cost.loads - ISSUE) == 768 / config.bus_bytes
    apart = replace(shape, step=9)              # rows of requests of their own are slow, too
    for tiles in (long, square):
        assert _rows(config, apart, tiles, pixel) == (768, 768)
        assert cost_of(config, apart, tiles, 2).traffic > cost_of(
            config, shape, high, 2).traffic


def test_what_does_not_fit_is_named() -> None:
    shape = replace(shape_of(OPERATORS["convolution"]), phases=5)
    with pytest.raises(LoweringError) as refusal:
        choose(SHORT.config, shape, 2)
    assert str(refusal.value) == (
        "Tile of one pixel must fit the buffers of short 2 times: out needs 5 of 4 entries, "
        "par needs 5 of 2 entries, wgt needs 5 of 4 entries")
    with pytest.raises(LoweringError, match="short 2 times: it must be loaded in pieces"):
        choose(SHORT.config, replace(shape, phases=1, kernel=(5, 5)), 2, cut=False)


def test_sizes_of_pieces() -> None:
    """Whatever the extent, in a number of steps of about its root."""
    for extent in (*range(1, 70), 1000, 65537):
        assert pieces_of(extent) == sorted({-(-extent // count) for count in range(1, extent + 1)})
    assert len(pieces_of(10**8)) < 20000


@pytest.mark.one_in(3)
@any_operator
def test_every_tiling_computes_the_same(operator, rng) -> None:
    """Sampled tilings of the scheduled program, by the interpreter."""
    base = schedule(TINY, operator, *tiles_of(TINY, operator, 1)).program
    arrays = {}
    for buffer in base.inputs:
        raw = rng.integers(0, 256, buffer.size_bytes).astype("uint8")
        if buffer.dtype == "param":
            raw.reshape(-1, 8)[:, 6] %= 47
        arrays[buffer.name] = raw.view(numpy_dtype(buffer.dtype)).reshape(buffer.shape)
    (name, wanted), = interpret(base, arrays).items()
    shape = shape_of(operator)
    for tiles in _some(shape, 197 if Effort.quick else 11):
        for threads in (1, 2):
            program = schedule(TINY, operator, tiles, threads).program
            assert (interpret(program, arrays)[name] == wanted).all()
