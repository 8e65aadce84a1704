"""Updates against one after the other."""

import random

import pytest

from accel.hw.compute.update import Update
from accel.machine.timing import TIMING
from tests.support.amaranth_sim import simulate

LANES, DEPTH = 2, 8
KINDS = {"sum": lambda old, new: old + new, "max": max, "min": min}


def wrapped(value, bits=32):
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def run(updates, elements, bits=32, reading=TIMING.read_cycles):
    """Memory afterwards; an element, or none, a cycle: (acc, addr, assign, kind, values)."""
    dut = Update(updates, LANES, DEPTH, 4, bits, reading)
    memory = [[0] * LANES for _ in range(DEPTH)]

    def packed(values):
        return sum(value % (1 << bits) << bits * lane for lane, value in enumerate(values))

    def unpacked(raw):
        return [wrapped(raw >> bits * lane, bits) for lane in range(LANES)]

    async def bench(ctx):
        awaited = [packed([-77] * LANES)] * reading
        for cycle in range(len(elements) + 6 + reading):
            element = elements[cycle] if cycle < len(elements) else None
            if element:
                acc, addr, assign, kind, _ = element
                ctx.set(dut.element, {"valid": 1, "acc": acc, "addr": addr, "assign": assign,
                                      "tag": cycle % 16,
                                      "update": 1 << updates.index(kind) if kind else 0})
            else:
                ctx.set(dut.element, {"addr": 3})
            old = reading + 1
            late = elements[cycle - old] if old <= cycle < len(elements) + old else None
            ctx.set(dut.value, packed(late[4] if late else [5] * LANES))
            ctx.set(dut.r_data, awaited.pop(0))
            awaited.append(packed(memory[ctx.get(dut.r_addr)]) if ctx.get(dut.r_en)
                           else random.getrandbits(LANES * bits))
            if ctx.get(dut.w_en):
                memory[ctx.get(dut.w_addr)] = unpacked(ctx.get(dut.w_data))
                assert ctx.get(dut.tag) == (cycle - old - 1) % 16
            await ctx.tick()

    simulate(dut, bench)
    return memory


def meaning(elements, bits=32):
    memory = [[0] * LANES for _ in range(DEPTH)]
    for acc, addr, assign, kind, values in filter(None, elements):
        if acc:
            old = memory[addr]
            memory[addr] = list(values) if assign or not kind else [
                wrapped(KINDS[kind](one, value), bits) for one, value in zip(old, values)]
    return memory


@pytest.mark.parametrize("reading", [2, 3, 5])
@pytest.mark.parametrize("spread", [1, 2, 4, 8])
def test_whatever_a_read_takes(spread, reading):
    rng = random.Random(spread)
    elements = [None if rng.random() < 0.2 else
                (rng.random() < 0.9, rng.randrange(spread), rng.random() < 0.1, "sum",
                 [rng.randrange(-99, 99) for _ in range(LANES)]) for _ in range(150)]
    assert run(("sum",), elements, reading=reading) == meaning(elements)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("spread", [1, 2, 4, 8])
@pytest.mark.parametrize("updates", [("sum",), ("sum", "max", "min"), ("min",)])
def test_matches_one_after_the_other(updates, spread):
    rng = random.Random(spread)
    random.seed(3)
    elements = [None if rng.random() < 0.15 else
                (rng.random() < 0.9, rng.randrange(spread), rng.random() < 0.1,
                 rng.choice(updates),
                 [rng.choice((rng.randrange(-1 << 31, 1 << 31), rng.randrange(-9, 9)))
                  for _ in range(LANES)]) for _ in range(300)]
    assert run(updates, elements) == meaning(elements)


@pytest.mark.parametrize("bits", [16, 24, 48])
def test_lanes_of_other_widths(bits):
    rng = random.Random(bits)
    updates = ("sum", "max", "min")
    elements = [(True, rng.randrange(2), rng.random() < 0.1, rng.choice(updates),
                 [rng.choice((rng.randrange(-1 << bits - 1, 1 << bits - 1), rng.randrange(-9, 9)))
                  for _ in range(LANES)]) for _ in range(200)]
    assert run(updates, elements, bits) == meaning(elements, bits)


def test_only_assignments():
    elements = [(True, k % 3, True, "", [k, -k]) for k in range(20)]
    assert run((), elements) == meaning(elements)
