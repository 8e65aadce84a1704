from dataclasses import replace

import pytest

from accel.hw.dma import Stepper
from accel.machine.config import preset
from tests.support.amaranth_sim import feed, simulate

CONFIG = replace(preset("tiny-1x4x4"), bus_bytes=8)


def steps(stepper: Stepper, runs: list[dict]):
    """All steps of some runs, and the cycles in which they were taken."""
    found, cycles = [], []

    async def testbench(ctx):
        ctx.set(stepper.o.ready, 1)
        ends, cycle = 0, 0
        while ends < len(runs):
            *_, valid, step = await ctx.tick().sample(stepper.o.valid, stepper.o.payload)
            if valid:
                found.append({name: step[name] for name in (
                    "take", "write", "end", "rotate", "late", "mask", "beat", "chunk")})
                cycles.append(cycle)
                ends += step.end
            cycle += 1
    simulate(stepper, feed(stepper.i, runs), testbench, max_cycles=40_000)
    return found, cycles


def move(source: int, target: int, run: int, found: list[dict]) -> dict[int, int]:
    """Which source byte the steps put at every target byte."""
    moved, previous, rotated = {}, {}, {}
    for step in found:
        previous = rotated
        if step["take"]:
            rotated = {(lane + step["rotate"]) % 8: step["beat"] * 8 + lane for lane in range(8)}
        for lane in range(8):
            if step["mask"] >> lane & 1:
                place = step["chunk"] * 8 + lane
                assert step["write"] and place not in moved
                moved[place] = (previous if step["late"] >> lane & 1 else rotated)[lane]
    return moved


@pytest.mark.parametrize("source", range(8))
@pytest.mark.parametrize("target", range(8))
def test_every_alignment(source, target):
    lengths = (1, 2, 7, 8, 9, 15, 16, 17, 30)
    stepper = Stepper(CONFIG, 24, 32, 1)
    runs = [{"source": 64 + source, "target": 128 + target, "run": run - 1} for run in lengths]
    found, cycles = steps(stepper, runs)
    assert cycles == list(range(cycles[0], cycles[0] + len(found)))     # no gap between runs
    for run in lengths:
        count = next(i for i, step in enumerate(found, 1) if step["end"])
        mine, found = found[:count], found[count:]
        assert move(source, target, run, mine) == {128 + target + i: 64 + source + i
                                                   for i in range(run)}
        beats, chunks = -(-(source + run) // 8), -(-(target + run) // 8)
        assert count == chunks + (beats > 1 and target < source)
        assert sum(step["take"] for step in mine) == beats


def test_the_longest_run():
    found, _ = steps(Stepper(CONFIG, 24, 32, 1), [{"source": 3, "target": 5, "run": 65535}])
    assert move(3, 5, 65536, found) == {5 + i: 3 + i for i in range(65536)}


def test_filling_takes_nothing():
    found, _ = steps(Stepper(CONFIG, 24, 32, 1), [{"source": 3, "target": 5, "run": 19, "fill": 1}])
    assert [step["mask"] for step in found] == [0xE0, 0xFF, 0xFF, 0x01]
    assert not any(step["take"] or step["late"] for step in found)
