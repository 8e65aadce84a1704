"""Simulation of Amaranth components: stream endpoints, and runs that cannot hang.

Testbenches wait in plain loops over ``await ctx.tick()``: `.until()` and `.repeat()` leave a
generator behind in a testbench that is abandoned, and Python warns.
"""

import random
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from amaranth.sim import Simulator

__all__ = ["collect", "feed", "get", "put", "simulate", "stalls"]


def stalls(seed: int, probability: float) -> Callable[[], bool]:
    """A seeded source of stalls: true in this share of the calls."""
    rng = random.Random(seed)
    return lambda: rng.random() < probability


async def put(ctx, stream, payload: Any) -> None:
    """Hand one payload over; return in the cycle after the transfer."""
    ctx.set(stream.payload, payload)
    ctx.set(stream.valid, 1)
    ready = False
    while not ready:
        *_, ready = await ctx.tick().sample(stream.ready)
    ctx.set(stream.valid, 0)


async def get(ctx, stream) -> Any:
    """Accept one payload; return in the cycle after the transfer."""
    ctx.set(stream.ready, 1)
    valid = False
    while not valid:
        *_, payload, valid = await ctx.tick().sample(stream.payload, stream.valid)
    ctx.set(stream.ready, 0)
    return payload


def feed(stream, payloads: Iterable[Any], stall: Callable[[], bool] = lambda: False):
    """A testbench that hands all payloads over, with stalls in between."""
    async def testbench(ctx):
        for payload in payloads:
            while stall():
                await ctx.tick()
            await put(ctx, stream, payload)
    return testbench


def collect(stream, count: int, into: list, stall: Callable[[], bool] = lambda: False):
    """A testbench that appends `count` payloads to `into`, with stalls in between."""
    async def testbench(ctx):
        while len(into) < count:
            while stall():
                await ctx.tick()
            into.append(await get(ctx, stream))
    return testbench


def simulate(dut, *testbenches, processes=(), max_cycles=10_000, vcd=None):
    """Run until every testbench returns; fail instead of hanging.

    `processes` are background testbenches: they stand for what surrounds the component and need
    not end.
    """
    async def watchdog(ctx):
        for _ in range(max_cycles):
            await ctx.tick()
        raise TimeoutError(f"Simulation must finish in {max_cycles} cycles")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim = Simulator(dut)
        sim.add_clock(1e-6)
        for testbench in testbenches:
            sim.add_testbench(testbench)
        for process in (*processes, watchdog):
            sim.add_testbench(process, background=True)
        if vcd is None:
            sim.run()
        else:
            with sim.write_vcd(str(vcd)):
                sim.run()
