"""Values of floats meeting their destination, against one after the other."""

import random

import numpy as np
import pytest

from accel.datapath.plan import plan
from accel.hw.compute.meeting import Meeting
from accel.machine.timing import TIMING
from tests.support.amaranth_sim import simulate
from tests.support.unit_bench import FLOATS

LANES, DEPTH = 2, 8
MADE = plan(FLOATS, "gemm")


def packed(values):
    return int.from_bytes(np.asarray(values, np.float32).tobytes(), "little")


def unpacked(raw):
    return np.frombuffer(raw.to_bytes(4 * LANES, "little"), np.float32)


def run(elements):
    """Memory afterwards, and the cycles of writes; an element, or none, a cycle: (acc, addr,
    assign, values)."""
    dut = Meeting(MADE.meeting, LANES, DEPTH, 4)
    memory, writes = np.full((DEPTH, LANES), 0.5, np.float32), []

    async def bench(ctx):
        first = second = 0
        for cycle in range(len(elements) + TIMING.read_cycles + MADE.meeting.latency + 1):
            element = elements[cycle] if cycle < len(elements) else None
            acc, addr, assign, _ = element or (0, 3, 0, None)
            ctx.set(dut.element, {"valid": element is not None, "acc": acc, "addr": addr,
                                  "assign": assign, "update": 1, "tag": cycle % 16})
            issued = cycle - TIMING.read_cycles
            late = elements[issued] if 0 <= issued < len(elements) else None
            ctx.set(dut.value, packed(late[3] if late else [9, 9]))
            ctx.set(dut.r_data, second)
            second = first
            first = (packed(memory[ctx.get(dut.r_addr)]) if ctx.get(dut.r_en)
                     else random.getrandbits(64))
            if ctx.get(dut.w_en):
                writes.append(cycle)
                memory[ctx.get(dut.w_addr)] = unpacked(ctx.get(dut.w_data))
                assert ctx.get(dut.tag) == (cycle - TIMING.read_cycles - MADE.meeting.latency) % 16
            await ctx.tick()

    simulate(dut, bench)
    return memory, writes


@pytest.mark.parametrize("distance", [
    MADE.hazard_cycles + 1, pytest.param(3 * MADE.hazard_cycles, marks=pytest.mark.slow)])
def test_matches_one_after_the_other(rng, distance):
    """Elements are far enough from those with their destination."""
    elements, memory, free = [], np.full((DEPTH, LANES), 0.5, np.float32), [0] * DEPTH
    for cycle in range(100):
        places = [place for place in range(DEPTH) if free[place] <= cycle]
        if not places or rng.random() < 0.1:
            elements.append(None)
            continue
        addr, acc, assign = (int(rng.choice(places)), bool(rng.random() < 0.9),
                             bool(rng.random() < 0.2))
        values = (rng.normal(size=LANES) * 2.0 ** rng.integers(-3, 4, LANES)).astype(np.float32)
        elements.append((acc, addr, assign, values))
        if acc:
            memory[addr] = values if assign else memory[addr] + values
            free[addr] = cycle + distance
    assert (run(elements)[0] == memory).all()


def test_latency():
    assert run([(True, 2, False, [1, 2])])[1] == [TIMING.read_cycles + MADE.meeting.latency]


def test_one_cycle_less_is_too_near():
    """So the plan's distance is the least."""
    one = (True, 1, False, [1, 1])

    def total(distance):
        return run([one, *[None] * (distance - 1), one])[0][1][0]

    assert total(MADE.hazard_cycles + 1) == 2.5 and total(MADE.hazard_cycles) == 1.5
