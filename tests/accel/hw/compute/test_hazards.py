"""Hazards against a list of all writes."""

import random

import pytest

from accel.hw.compute.hazards import Hazards
from tests.support.amaranth_sim import simulate

DEPTH = 8
BEYOND = 8 * DEPTH          # a bit of an address that does not count


def random_source(rng):
    return {"a_acc": rng.randrange(2), "b_acc": rng.randrange(2),
            "a": rng.randrange(4) + rng.choice((0, BEYOND)), "b": rng.randrange(4)}


@pytest.mark.parametrize("write_cycles", [2, 5, 9])
@pytest.mark.parametrize("often", [0.2, 0.8])
def test_matches_meaning(write_cycles, often):
    rng = random.Random(write_cycles)
    dut, writes, waits, expected = Hazards(DEPTH, write_cycles), [], [], []
    entered = -1, {"a_acc": 0, "b_acc": 0, "a": 0, "b": 0}

    def is_pending(cycle):
        begin, source = entered
        return any(source[f"{name}_acc"] and source[name] % DEPTH == entry
                   for name in "ab" for written, entry in writes
                   if written <= begin and cycle - written <= write_cycles)

    async def bench(ctx):
        nonlocal entered
        for cycle in range(400):
            waits.append(bool(ctx.get(dut.pending)))
            expected.append(is_pending(cycle))
            enters, incoming = rng.random() < often, random_source(rng)
            issued, entry = rng.random() < 0.5, rng.randrange(4)
            ctx.set(dut.enters, enters)
            ctx.set(dut.incoming, incoming)
            ctx.set(dut.writes, issued)
            ctx.set(dut.entry, entry)
            writes.extend([(cycle, entry)] * issued)
            entered = (cycle, incoming) if enters else entered
            await ctx.tick()

    simulate(dut, bench)
    assert waits == expected and set(waits) == {False, True}


def test_latency():
    """A destination of cycle 0 is pending up to `write_cycles`, and not longer."""
    dut, waits = Hazards(DEPTH, 4), []

    async def bench(ctx):
        for cycle in range(8):
            waits.append(ctx.get(dut.pending))
            ctx.set(dut.writes, cycle == 0)
            ctx.set(dut.enters, cycle == 0)
            ctx.set(dut.entry, 3)
            ctx.set(dut.incoming, {"a_acc": 1, "a": 3})
            await ctx.tick()

    simulate(dut, bench)
    assert waits == [0, 1, 1, 1, 1, 0, 0, 0]
