from dataclasses import replace

import pytest

from accel.hw.moving.dma import Stepper
from accel.machine.config import preset
from tests.support.amaranth_sim import feed, ready
from tests.support.effort import Effort

CONFIG = replace(preset("tiny-1x4x4"), bus_bytes=8)


def steps(runs: list[dict], kept: int = 0):
    """All steps of some runs, and the cycles in which they were taken."""
    stepper, simulation = ready(Stepper, CONFIG, 24, 32, 1, kept)
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
    simulation.run(feed(stepper.i, runs), testbench, max_cycles=40_000)
    return found, cycles


def move(found: list[dict], kept: bool = False) -> dict[int, int]:
    """Which source byte the steps put at every target byte. If none are `kept`, the beat of a step
    must be taken by it, and that before it by the step that took the latest."""
    moved, beat, before = {}, None, None
    for step in found:
        before, beat = beat, step["beat"] if step["take"] or kept else None
        for lane in range(8):
            place = step["chunk"] * 8 + (lane + step["rotate"]) % 8
            if step["mask"] >> place % 8 & 1:
                late = step["late"] >> lane & 1
                assert step["write"] and place not in moved
                assert kept or (before if late else beat) == step["beat"] - late
                moved[place] = (step["beat"] - late) * 8 + lane
    return moved


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source", range(8))
@pytest.mark.parametrize("target", range(8))
def test_every_alignment(source, target):
    lengths = (1, 2, 7, 8, 9, 15, 16, 17, 30)
    runs = [{"source": 64 + source, "target": 128 + target, "run": run - 1} for run in lengths]
    found, cycles = steps(runs)
    assert cycles == list(range(cycles[0], cycles[0] + len(found)))     # no gap between runs
    for run in lengths:
        count = next(i for i, step in enumerate(found, 1) if step["end"])
        mine, found = found[:count], found[count:]
        assert move(mine) == {128 + target + i: 64 + source + i
                                                   for i in range(run)}
        beats, chunks = -(-(source + run) // 8), -(-(target + run) // 8)
        assert count == chunks + (beats > 1 and target < source)
        assert sum(step["take"] for step in mine) == beats


@pytest.mark.slow
def test_the_longest_run():
    found, _ = steps([{"source": 3, "target": 5, "run": 65535}])
    assert move(found) == {5 + i: 3 + i for i in range(65536)}


def test_filling_takes_nothing():
    found, _ = steps([{"source": 3, "target": 5, "run": 19, "fill": 1}])
    assert [step["mask"] for step in found] == [0xE0, 0xFF, 0xFF, 0x01]
    assert not any(step["take"] or step["late"] for step in found)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("source", range(8))
def test_beats_that_the_run_before_has_taken(source):
    """Runs that begin in beats of the run before: a step a chunk, and no beat is taken twice."""
    ways = [(target, run, step) for target in range(8) for run in (1, 5, 9, 21, 33)
            for step in range(run)]
    for target, run, step in ways[source::15 if Effort.quick else 3]:
        first, count = 64 + source, (source + run - 1) // 8 + 1
        again = 8 + count - (first + step) // 8
        found, cycles = steps([
            {"source": first, "target": 128 + target, "run": run - 1},
            {"source": first + step, "target": 512 + target, "run": run - 1, "again": again}],
            kept=8)
        assert cycles == list(range(cycles[0], cycles[0] + len(found)))
        place = next(i for i, one in enumerate(found, 1) if one["end"])
        assert move(found[:place], True) == {128 + target + i: first + i for i in range(run)}
        assert move(found[place:], True) == {512 + target + i: first + step + i for i in range(run)}
        assert len(found) - place == (target + run - 1) // 8 + 1
        last = (first + step + run - 1) // 8
        assert [one["beat"] for one in found if one["take"]] == list(range(8, last + 1))
