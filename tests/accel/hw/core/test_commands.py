# amaranth: UnusedElaboratable=no
import random
from dataclasses import replace
from itertools import product

import pytest

from accel.hw import parts
from accel.hw.core.commands import CommandQueue
from accel.hw.parts import ECP5
from accel.machine.config import preset
from accel.machine.timing import TIMING
from tests.accel.hw.test_parts import Platformed, Scarce, dp16kd
from tests.support.amaranth_sim import ready, stalls
from tests.support.effort import tries

CONFIGS = {n: replace(preset("tiny-1x4x4"), bus_bytes=n) for n in (4, 16, 64)}


@pytest.fixture(autouse=True)
def primitives(monkeypatch):
    monkeypatch.setattr(parts, "Instance", lambda kind, **pins: dp16kd(pins))


async def give(ctx, port, word, index, config, pause=lambda: False):
    """Assemble an instruction."""
    ctx.set(port.index, index)
    for place in range(64 // config.bus_bytes):
        ctx.set(port.lane, 0)
        while pause():
            ctx.set(port.beat, random.getrandbits(8 * config.bus_bytes))
            await ctx.tick()
        ctx.set(port.beat, word >> 8 * config.bus_bytes * place)
        ctx.set(port.lane, 1 << place)
        await ctx.tick()
    ctx.set(port.lane, 0)
    ctx.set(port.index, ~index)


PLATFORMS = {"generic": None, "ecp5": ECP5(), "scarce": Scarce()}


def made(config, platform):
    return Platformed(CommandQueue(config), PLATFORMS[platform])


def play(config, platform, *testbenches):
    dut, simulation = ready(made, config, platform)
    simulation.run(*(bench(dut.part) for bench in testbenches), max_cycles=9000)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("platform, bus_bytes, depth, slow", [
    *product(PLATFORMS, CONFIGS, (1, 2, 8), (0.0, 0.98))])
def test_keeps_its_own_in_order(platform, bus_bytes, depth, slow):
    config, rng = replace(CONFIGS[bus_bytes], queue_depth=depth), random.Random(depth)
    words = [rng.getrandbits(512) for _ in range(tries(60))]
    own = [rng.random() < 0.6 for _ in words]
    seen = []

    def fetch(dut):
        async def bench(ctx):
            pause = stalls(1, 0.1)
            for index, (word, mine) in enumerate(zip(words, own, strict=True)):
                await give(ctx, dut.i, word, index, config, pause)
                while pause():
                    await ctx.tick()
                ctx.set(dut.i.push, mine)
                while mine and not ctx.get(dut.i.ready):
                    await ctx.tick()
                await ctx.tick()
                ctx.set(dut.i.push, 0)
        return bench

    def unit(dut):
        async def bench(ctx):
            wait = stalls(2, slow)
            while len(seen) < sum(own):
                ctx.set(dut.o.ready, not wait())
                if ctx.get(dut.o.valid & dut.o.ready):
                    seen.append((ctx.get(dut.o.p.index), ctx.get(dut.o.p.word)))
                await ctx.tick()
        return bench

    play(config, platform, fetch, unit)
    assert seen == [(index, word) for index, word in enumerate(words) if own[index]]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_latency_room_and_pause(platform):
    config, seen = replace(CONFIGS[16], queue_depth=4), []

    def bench(dut):
        async def testbench(ctx):
            for index in range(4):
                assert ctx.get(dut.some) == (index > 0)
                await give(ctx, dut.i, 1000 + index, index, config)
                ctx.set(dut.i.push, 1)
                assert ctx.get(dut.i.ready)
                await ctx.tick()
                ctx.set(dut.i.push, 0)
                if index == 0:
                    for _ in range(TIMING.queue_cycles - 1):
                        assert ctx.get(dut.some) and not ctx.get(dut.o.valid)
                        await ctx.tick()
                    assert ctx.get(dut.o.valid) and ctx.get(dut.o.p.word) == 1000
            assert not ctx.get(dut.i.ready)
            await give(ctx, dut.i, 7, 7, config)            # beyond those that fit, not pushed
            ctx.set(dut.o.ready, 1)
            for _ in range(9):
                seen.append((ctx.get(dut.o.valid), ctx.get(dut.o.p.index), ctx.get(dut.o.p.word)))
                await ctx.tick()
            assert ctx.get(dut.i.ready) and not ctx.get(dut.some)
        return testbench

    play(config, platform, bench)
    assert seen[:8] == [(1 - left, index, 1000 + index) for index in range(4) for left in (0, 1)]
    assert not seen[8][0]
