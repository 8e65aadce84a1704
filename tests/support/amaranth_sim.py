"""Simulation of Amaranth components: stream endpoints, and runs that cannot hang.

Testbenches wait in plain loops over ``await ctx.tick()``: `.until()` and `.repeat()` leave a
generator behind in a testbench that is abandoned, and Python warns.
"""

import random
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from amaranth.sim import Simulator

__all__ = ["Simulation", "collect", "feed", "get", "put", "ready", "simulate", "stalls"]


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


class Simulation:
    """A component made ready once, which is most of the time of a short run, and run any number of
    times: each run begins anew.
    """

    def __init__(self, dut):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self._sim = Simulator(dut)
        self._sim.add_clock(1e-6)
        self._sim.add_testbench(self._watch, background=True)
        self._benches: list[Callable[[Any], Any]] = []
        self._processes: list[Callable[[Any], Any]] = []
        self._added = {False: 0, True: 0}
        self._max_cycles, self._ran = 0, False

    async def _watch(self, ctx):
        for _ in range(self._max_cycles):
            await ctx.tick()
        raise TimeoutError(f"Simulation must finish in {self._max_cycles} cycles")

    def _add(self, background: bool, wanted: int):
        """A place for each testbench: in a later run it may be another's, or nobody's."""
        for place in range(self._added[background], wanted):
            async def bench(ctx, place=place):
                given = self._processes if background else self._benches
                if place < len(given):
                    await given[place](ctx)
            self._sim.add_testbench(bench, background=background)
        self._added[background] = max(self._added[background], wanted)

    def run(self, *testbenches, processes=(), max_cycles=10_000, vcd=None):
        """Run until every testbench returns; fail instead of hanging.

        `processes` are background testbenches: they stand for what surrounds the component and need
        not end.
        """
        self._benches, self._processes = list(testbenches), list(processes)
        self._max_cycles = max_cycles
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if self._ran:                   # not before: nobody would await the first coroutines
                self._sim.reset()
            self._ran = True
            self._add(False, len(testbenches))
            self._add(True, len(processes))
            if vcd is None:
                self._sim.run()
            else:
                with self._sim.write_vcd(str(vcd)):
                    self._sim.run()


@cache
def ready(make, *arguments):
    """What ``make(*arguments)`` gives and its simulation, the same ones for whoever asks again."""
    dut = make(*arguments)
    return dut, Simulation(dut)


def simulate(dut, *testbenches, processes=(), max_cycles=10_000, vcd=None):
    """One run of a component: see `Simulation.run`."""
    Simulation(dut).run(*testbenches, processes=processes, max_cycles=max_cycles, vcd=vcd)
