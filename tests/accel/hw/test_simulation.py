# amaranth: UnusedElaboratable=no
"""What the tests of units rely on: a simulation that runs again begins anew."""

import pytest

from accel.hw.queue import Queue
from tests.support.amaranth_sim import collect, feed, ready, simulate


def nothing_inside(dut, cycles=8):
    async def testbench(ctx):
        for _ in range(cycles):
            assert not ctx.get(dut.o.valid)
            await ctx.tick()
    return testbench


def test_a_run_begins_anew() -> None:
    """Neither what the run before left in the component nor its testbenches are there."""
    dut, simulation = ready(Queue, 8, 4)
    again = []

    async def endless(ctx):
        while True:
            again.append(len(again))
            await ctx.tick()
    simulation.run(feed(dut.i, [1, 2, 3]), processes=[endless])
    count = len(again)
    simulation.run(nothing_inside(dut))
    assert 0 < count == len(again)
    seen = []
    simulation.run(feed(dut.i, [5, 6]), collect(dut.o, 2, seen), processes=[endless, endless])
    assert seen == [5, 6] and len(again) > count


def test_a_run_that_does_not_end_fails_and_the_next_begins_anew() -> None:
    dut, simulation = ready(Queue, 8, 2)
    with pytest.raises(TimeoutError, match="Simulation must finish in 20 cycles"):
        simulation.run(feed(dut.i, [1, 2, 3, 4]), max_cycles=20)
    with pytest.raises(TimeoutError, match="in 5 cycles"):
        simulation.run(nothing_inside(dut), max_cycles=5)
    simulation.run(nothing_inside(dut))


def test_a_testbench_that_fails_is_heard_each_time() -> None:
    dut, simulation = ready(Queue, 8, 2)

    async def wrong(ctx):
        await ctx.tick()
        assert ctx.get(dut.o.valid)
    for _ in range(2):
        with pytest.raises(AssertionError):
            simulation.run(wrong)
    with pytest.raises(AssertionError):
        simulate(Queue(8, 2), lambda ctx: wrong(ctx))


def test_who_asks_again_gets_the_same() -> None:
    assert ready(Queue, 8, 2) is ready(Queue, 8, 2)
    assert ready(Queue, 8, 2)[0] is not ready(Queue, 8, 4)[0]
