# amaranth: UnusedElaboratable=no
import random

import pytest
from amaranth.lib import data

from accel.hw.parts import ECP5
from accel.hw.queue import Queue, Relay, relay
from tests.support.amaranth_sim import collect, feed, get, put, simulate, stalls

ITEM = data.StructLayout({"a": 7, "b": 3})


class Ecp5Queue(Queue):
    """A queue as on an ECP5: it also writes what is not pushed, and overwrites it."""

    def elaborate(self, platform):
        return super().elaborate(ECP5())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("p_in, p_out", [(0, 0), (0.6, 0.2), (0.2, 0.6)])
@pytest.mark.parametrize("make", [
    lambda: Queue(ITEM, 1), lambda: Queue(ITEM, 2), lambda: Queue(ITEM, 8),
    lambda: Queue(ITEM, 1, 2), lambda: Queue(ITEM, 8, 2),
    lambda: Ecp5Queue(ITEM, 2), lambda: Ecp5Queue(ITEM, 8, 2), lambda: Queue(ITEM, 8, 5),
    lambda: Ecp5Queue(ITEM, 8, 2, pause=True), lambda: Relay(ITEM),
    lambda: relay(ITEM, 3)],
    ids=["1", "2", "8", "registered 1", "registered 8", "ecp5 2", "ecp5 registered 8",
         "latency 5", "ecp5 pause 8", "relay", "relay 3"])
def test_order_and_fields_are_kept(make, p_in, p_out):
    rng = random.Random(1)
    items = [{"a": rng.randrange(128), "b": rng.randrange(8)} for _ in range(60)]
    dut, seen = make(), []
    simulate(dut, feed(dut.i, items, stalls(1, p_in)), collect(dut.o, 60, seen, stalls(2, p_out)))
    assert [{"a": item.a, "b": item.b} for item in seen] == items


def test_latency_is_one_cycle():
    dut = Queue(8, 4)

    async def testbench(ctx):
        await put(ctx, dut.i, 5)
        assert ctx.get(dut.o.valid) and ctx.get(dut.o.payload) == 5
    simulate(dut, testbench)


@pytest.mark.parametrize("cycles", [2, 3, 5])
def test_latency_of_a_register(cycles):
    dut = Queue(8, 4, cycles)

    async def testbench(ctx):
        await put(ctx, dut.i, 5)
        for _ in range(cycles - 1):
            assert ctx.get(dut.some) and not ctx.get(dut.o.valid)
            await ctx.tick()
        assert ctx.get(dut.o.valid) and ctx.get(dut.o.payload) == 5
    simulate(dut, testbench)


@pytest.mark.parametrize("make, cycles", [
    (lambda: Queue(8, 4, 2), 2), (lambda: Queue(8, 8, 4), 4), (lambda: Relay(8), 1),
    (lambda: relay(8, 2), 2)], ids=["registered", "4", "relay", "relay 2"])
def test_one_item_a_cycle_through_registers(make, cycles):
    dut = make()

    async def testbench(ctx):
        ctx.set(dut.o.ready, 1)
        for value in range(20):
            assert ctx.get(dut.i.ready)
            await put(ctx, dut.i, value)
            assert ctx.get(dut.o.valid) == (value >= cycles - 1)
            assert value < cycles - 1 or ctx.get(dut.o.payload) == value - cycles + 1
    simulate(dut, testbench)


def test_a_pause_shows_what_has_left():
    dut, seen = Queue(8, 4, 2, pause=True), []

    async def testbench(ctx):
        for value in (5, 6):
            await put(ctx, dut.i, value)
        await get(ctx, dut.o)
        for _ in range(2):
            seen.append((ctx.get(dut.o.valid), ctx.get(dut.o.payload)))
            await ctx.tick()
    simulate(dut, testbench)
    assert seen == [(0, 5), (1, 6)]


def test_one_item_a_cycle():
    dut = Queue(8, 4)

    async def testbench(ctx):
        ctx.set(dut.o.ready, 1)
        for value in range(20):
            assert ctx.get(dut.i.ready)
            await put(ctx, dut.i, value)
            assert ctx.get(dut.o.valid) and ctx.get(dut.o.payload) == value
    simulate(dut, testbench)


@pytest.mark.parametrize("latency", [1, 2, 4])
@pytest.mark.parametrize("depth", [1, 2, 8])
def test_holds_as_many_as_its_depth(depth, latency):
    dut = Queue(8, depth, latency)

    async def testbench(ctx):
        for value in range(depth):
            assert ctx.get(dut.some) == (value > 0)
            await put(ctx, dut.i, value)
        assert not ctx.get(dut.i.ready)
        assert await get(ctx, dut.o) == 0
        assert ctx.get(dut.i.ready)
    simulate(dut, testbench)


def test_depth_wrong():
    with pytest.raises(ValueError, match=r"^Depth of a queue must be a power of two, not 6$"):
        Queue(8, 6)
