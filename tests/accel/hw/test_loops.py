"""Loop nests against nested loops."""

import random
from itertools import product

import pytest

from accel.hw.loops import COMPUTE_OPERANDS, LoopNest
from accel.machine.isa import GEMM, VECTOR
from accel.machine.timing import TIMING, CoreTiming
from tests.support.amaranth_sim import simulate

LAYOUTS = {"gemm": (GEMM, 6), "vector": (VECTOR, 5)}


def random_nest(rng, levels):
    loops = [{"extent": rng.choice((1, 1, 1, 2, 2, 3)),
              **{name: rng.choice((0, 1, 7, rng.randrange(1 << 16))) for name in ("dst", "a", "b")}}
             for _ in range(levels)]
    base = {name: rng.randrange(1 << 16) for name in ("dst", "a", "b")}
    return {"base": base, "loops": loops, "empty": rng.random() < 0.1}


def meaning(nest):
    """(dst, a, b, first, last) of every iteration."""
    loops = nest["loops"]
    counts = list(product(*(range(loop["extent"]) for loop in loops)))
    if nest["empty"]:
        counts = counts[:1]
    for number, at in enumerate(counts):
        addresses = [(nest["base"][name] + sum(loop[name] * i for loop, i in zip(loops, at)))
                     % (1 << 16) for name in ("dst", "a", "b")]
        first = not any(i for loop, i in zip(loops, at) if loop["dst"] == 0)
        yield (*addresses, first, number == len(counts) - 1)


def run(layout, nests, p_stall, seed=0, cycles=TIMING.nest_cycles):
    """Iterations as they come, and the cycles in which none came until the last had come."""
    dut = LoopNest(layout["loops"].shape, COMPUTE_OPERANDS, 8, CoreTiming(nest_cycles=cycles))
    rng, seen, empty = random.Random(seed), [], []

    async def bench(ctx):
        waiting = list(nests)
        while len(seen) < sum(len(list(meaning(nest))) for nest in nests):
            ctx.set(dut.step, rng.random() >= p_stall)
            if waiting:
                loops = [{**loop, "extent": loop["extent"] - 1} for loop in waiting[0]["loops"]]
                ctx.set(dut.base, waiting[0]["base"])
                ctx.set(dut.loops, loops)
                ctx.set(dut.empty, waiting[0]["empty"])
                ctx.set(dut.tag, len(waiting))
            load = bool(waiting) and ctx.get(dut.ready) and rng.random() >= p_stall
            ctx.set(dut.load, load)
            waiting = waiting[1:] if load else waiting
            if ctx.get(dut.valid):
                seen.append((*(ctx.get(dut.out[name]) for name in COMPUTE_OPERANDS),
                             *(ctx.get(getattr(dut, name)) for name in ("first", "last"))))
                ended = sum(one[-1] for one in seen) - seen[-1][-1]
                assert ctx.get(dut.out_tag) == len(nests) - ended
            empty.append(not ctx.get(dut.valid))
            await ctx.tick()

    simulate(dut, bench)
    return seen, sum(empty)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("p_stall", [pytest.param(0.0, marks=pytest.mark.slow), 0.4])
@pytest.mark.parametrize("unit", LAYOUTS)
def test_matches_nested_loops(unit, p_stall):
    layout, levels = LAYOUTS[unit]
    rng = random.Random(1)
    nests = [random_nest(rng, levels) for _ in range(12)]
    seen, _ = run(layout, nests, p_stall)
    assert seen == [one for nest in nests for one in meaning(nest)]


@pytest.mark.parametrize("cycles", [TIMING.nest_cycles, TIMING.nest_cycles + 2])
def test_no_cycle_between_instructions(cycles):
    rng = random.Random(2)
    nests = [random_nest(rng, 6) for _ in range(12)]
    seen, empty = run(GEMM, nests, 0.0, cycles=cycles)
    assert seen == [one for nest in nests for one in meaning(nest)]
    assert empty == 1 + cycles                  # the first load's cycle, and the way out


@pytest.mark.slow
def test_longest_extent():
    loops = [{"extent": 1, "dst": 0, "a": 0, "b": 0} for _ in range(4)]
    loops.append({"extent": 300, "dst": 0, "a": 3, "b": -1 % (1 << 16)})
    nest = {"base": {"dst": 1, "a": 2, "b": 5}, "loops": loops, "empty": False}
    seen, _ = run(VECTOR, [nest], 0.0)
    assert seen == list(meaning(nest)) and len(seen) == 300
