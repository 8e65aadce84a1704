"""Systolic arrays against their meaning, and gemm with them."""

import random
from dataclasses import replace

import numpy as np
import pytest

from accel.datapath.plan import plan
from accel.hw.compute.gemm import Gemm
from accel.hw.compute.systolic import OutputStationary, WeightStationary
from accel.hw.compute.weights import WeightLoader
from accel.machine.config import (DATAFLOWS, OUTPUT_STATIONARY, WEIGHT_STATIONARY, ConfigError)
from accel.machine.intrinsics import SHIPPED, gemm_op, instructions
from accel.machine.machine import Machine
from accel.machine.rules import DeclarationError
from accel.machine.timing import TIMING
from compiler import te
from tests.accel.hw.compute.test_gemm import OWN, multiply, run
from tests.support.amaranth_sim import ready
from tests.support.effort import tries
from tests.support.slow_cases import each_once
from tests.support.unit_bench import BATCHED, FLOATS, TINY, assert_means_program, random_gemm

ARRAYS = DATAFLOWS[1:]
WIDE = instructions("uint16", "int16", "int16")


def machine(dataflow, config=TINY, declarations=SHIPPED, **fields):
    return Machine(replace(config, dataflow=dataflow, **fields), declarations)


SIZES = [(TINY, SHIPPED, {}), (BATCHED, SHIPPED, {}),
         (TINY, instructions(accumulator="int16"), {"block_in": 2, "block_out": 8}),
         (BATCHED, WIDE, {"block_out": 2, "dsp_multipliers": 3, "inp_bytes": 256,
                          "wgt_bytes": 1024, "acc_bytes": 2048})]


def numbers(rng, interval, *shape):
    return rng.choice([interval.low, interval.high, *rng.integers(
        interval.low, interval.high + 1, 9)], shape)


def word_of(values, width):
    return sum((int(value) & (1 << width) - 1) << width * place
               for place, value in enumerate(np.reshape(values, -1)))


def results(array, value):
    """The numbers of `value`, of shape (batch, block_out)."""
    parts = [value >> array.bits * place & (1 << array.bits) - 1
             for place in range(array.batch * array.block_out)]
    return wrapped(np.array(parts, object), array.bits).reshape(array.batch, array.block_out)


async def see(ctx, dut, seen, cycles=1):
    """Keep what the array gives, cycle by cycle."""
    for _ in range(cycles):
        seen.append(results(dut.array, ctx.get(dut.value)))
        await ctx.tick()


def wrapped(values, bits):
    half = 1 << bits - 1
    return (values + half) % (1 << bits) - half


def test_tiles_are_read_in_order_while_the_one_before_is_in_use():
    """A column a cycle, the last one first; no column before the tile that waits is taken."""
    whole = machine(WEIGHT_STATIONARY)
    array, config = plan(whole, "gemm").array, whole.config
    columns = config.seen(whole.structure.unit("gemm"), "wgt")
    dut, simulation = ready(WeightLoader, array, columns, config.timing)
    read, taken, tiles = [], [], [3, 1, 6, 1]

    async def bench(ctx):
        for now in range(80):
            some = now < 2 * len(tiles) and now % 2 == 0
            ctx.set(dut.valid, some)
            ctx.set(dut.tile, tiles[now // 2] if some else 0)
            taken.append(now % 11 == 10 and bool(ctx.get(dut.full)))
            ctx.set(dut.taken, taken[-1])
            if ctx.get(dut.en):
                read.append(ctx.get(dut.addr))
            assert len(read) <= (1 + sum(taken)) * array.block_out
            await ctx.tick()

    simulation.run(bench, max_cycles=100)
    last = array.block_out - 1
    assert read == [tile * array.block_out + last - column
                    for tile in tiles for column in range(array.block_out)]
    assert sum(taken) == len(tiles)


@pytest.mark.parametrize("config, declarations, fields", SIZES)
def test_weights_stay_until_others_take_their_place(config, declarations, fields):
    """Steps at random, each tile of weights switched to as soon as it is there or later, while
    columns of the next come at random steps."""
    array = plan(machine(WEIGHT_STATIONARY, config, declarations, **fields), "gemm").array
    rng = np.random.default_rng(1)
    tiles = numbers(rng, array.b, 6, array.block_out, array.block_in).astype(object)
    dut, simulation = ready(WeightStationary, array)
    expected, seen = [], []

    async def bench(ctx):
        used = coming = column = 0      # the tile in use, after the first; the one that comes
        while len(expected) < 120:
            switch = coming > used and rng.random() < 0.5
            shift = coming - used <= switch and coming < len(tiles) and rng.random() < 0.8
            a = numbers(rng, array.a, array.batch, array.block_in).astype(object)
            ctx.set(dut.a, word_of(a, array.a.width))
            ctx.set(dut.switch, switch)
            ctx.set(dut.shift, shift)
            ctx.set(dut.b, word_of(tiles[coming, array.block_out - 1 - column] if shift else
                                   np.zeros(array.block_in), array.b.width))
            used += switch
            expected.append(wrapped(a @ tiles[used - 1].T, array.bits) if used else None)
            column += shift
            if column == array.block_out:
                column, coming = 0, coming + 1
            await see(ctx, dut, seen)
        await see(ctx, dut, seen, array.latency)

    simulation.run(bench, max_cycles=1000)
    assert sum(one is not None for one in expected) > 50
    for step, one in enumerate(expected):
        assert one is None or (seen[step + array.latency] == one).all(), step


@pytest.mark.parametrize("config, declarations, fields", SIZES)
def test_sums_stay_until_they_begin_anew(config, declarations, fields):
    array = plan(machine(OUTPUT_STATIONARY, config, declarations, **fields), "gemm").array
    rng = np.random.default_rng(1)
    dut, simulation = ready(OutputStationary, array, 5)
    expected, seen = [], []

    async def bench(ctx):
        total = 0
        await ctx.tick().repeat(array.latency)
        for _ in range(80):
            a = numbers(rng, array.a, array.batch, array.block_in).astype(object)
            b = numbers(rng, array.b, array.block_out, array.block_in).astype(object)
            restart = not expected or rng.random() < 0.3
            ctx.set(dut.a, word_of(a, array.a.width))
            ctx.set(dut.b, word_of(b, array.b.width))
            ctx.set(dut.restart, restart)
            total = wrapped((0 if restart else total) + a @ b.T, array.bits)
            expected.append(total)
            await see(ctx, dut, seen)
        await see(ctx, dut, seen, array.latency)

    simulation.run(bench, max_cycles=1000)
    for step, one in enumerate(expected):
        assert (seen[step + array.latency] == one).all(), step


@each_once("size, dataflow", SIZES, ARRAYS)     # the arrays alone have all sizes
def test_gemm_matches_meaning(size, dataflow):
    config, declarations, fields = size
    own, rng = machine(dataflow, config, declarations, **fields), random.Random(2)
    assert_means_program(Gemm, own, [random_gemm(own, rng) for _ in range(tries(50))], refuse=0.2,
                         seed=1)


@pytest.mark.parametrize("config", [TINY, BATCHED], ids=lambda config: config.name)
def test_latency_of_weights_that_stay(config):
    """An instruction's first iteration waits for its weights; others follow in one cycle."""
    own = machine(WEIGHT_STATIONARY, config)
    made, out = plan(own, "gemm"), run([multiply(5)], own)
    first = TIMING.waiting_cycles - 1 + made.array.load_cycles + made.write_cycles
    assert [cycle - out.started[0] + 1 for cycle, *_ in out.writes] == [
        first + k for k in range(5)]
    assert out.retired[0] - out.writes[-1][0] == 2


def test_throughput_of_weights_that_stay():
    """Iterations of one tile follow each other in one cycle, and tiles in as many as their
    weights take to come in, or as they have iterations."""
    own = machine(WEIGHT_STATIONARY, BATCHED)
    columns = plan(own, "gemm").array.load_cycles
    one = {"dst": 1, "a": 1, "b": 0}
    for count in (1, 3, columns, columns + 5):
        loops = [{"extent": 1, "dst": 0, "a": 0, "b": 0}] * 4
        loops += [{"extent": 6, "dst": 0, "a": 0, "b": 1}, {"extent": count, **one, "a": 0}]
        out = run([multiply(loops=loops)], own)
        written = [cycle for cycle, *_ in out.writes]
        tile = max(count, columns)
        assert [cycle - written[0] for cycle in written] == [
            tile * number + k for number in range(6) for k in range(count)]


def test_output_stationary_writes_a_sum_once():
    """Neighbours into one destination meet acc together, whichever of them assigns."""
    own = machine(OUTPUT_STATIONARY)
    made, out = plan(own, "gemm"), run([multiply(9), multiply(3, dst_stride=1), multiply(2)], own)
    delay = TIMING.nest_cycles + made.write_cycles
    assert [(cycle - delay, place) for cycle, _, place in out.writes] == [
        (10, 0), (11, 0), (12, 1), (13, 2), (15, 0)]


@pytest.mark.parametrize("dataflow", ARRAYS)
@pytest.mark.parametrize("declarations, name, reason", [
    ((*SHIPPED, gemm_op("near", term=lambda x, w: te.abs(x - w))), "near",
     "it does not sum products of a row of each operand over block_in, and the elements of a "
     "systolic array have a multiplier and an adder, nothing else"),
    (OWN.declarations, "centred", "immediate zero would travel with each product, and the elements "
     "of a systolic array have a multiplier and an adder, nothing else"),
    (FLOATS.declarations, "gemm", "the order in which float32 is summed up is part of its "
     "meaning, and an array has another")], ids=["terms", "immediates", "floats"])
def test_other_bodies_are_refused(dataflow, declarations, name, reason):
    with pytest.raises(DeclarationError) as refused:
        machine(dataflow, declarations=declarations)
    assert str(refused.value) == (f"dataflow must be adder_tree for {name}, not {dataflow!r}: "
                                  f"{reason}")


def test_other_dataflows_are_refused():
    with pytest.raises(ConfigError, match="^dataflow must be adder_tree, weight_stationary or "
                                          "output_stationary, not 'row_stationary'$"):
        replace(TINY, dataflow="row_stationary")
