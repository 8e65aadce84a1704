# amaranth: UnusedElaboratable=no
"""Beats that load keeps, and what runs have in common: components against their meaning."""

import random
from dataclasses import replace

import pytest
from amaranth.lib import data

from accel.hw.moving.beats import Beats, Overlap
from accel.hw.parts import ECP5
from accel.machine.config import preset
from accel.machine.timing import TIMING
from tests.support.amaranth_sim import collect, feed, put, simulate, stalls
from tests.support.slow_cases import each_once

TINY = preset("tiny-1x4x4")
WIDTHS = pytest.mark.parametrize("bus_bytes", [4, 8, 64])


class Ecp5Beats(Beats):
    """As on an ECP5: what is not accepted is written, too, and overwritten."""

    def elaborate(self, platform):
        return super().elaborate(ECP5())


def beats_of(config) -> data.StructLayout:
    return data.StructLayout({"data": config.bus_bytes * 8, "error": 1})


@each_once("bus_bytes, make, stalled", [4, 8, 64], [Ecp5Beats, Beats],
           [(0.6, 0.2), (0, 0), (0.2, 0.6)])
def test_the_latest_beats_can_be_seen(bus_bytes, make, stalled):
    """A reader takes one after the other, and looks at any of those that are kept."""
    p_in, p_out = stalled
    config = replace(TINY, bus_bytes=bus_bytes)
    rng, dut = random.Random(bus_bytes), make(config, beats_of(config))
    count = 4 * TIMING.beats
    beats = [{"data": rng.randbytes(bus_bytes), "error": rng.randrange(2)} for _ in range(count)]
    sent = [{**beat, "data": int.from_bytes(beat["data"], "little")} for beat in beats]

    def seen(number: int, late: int) -> tuple[bytes, int]:
        return bytes(beats[number - (late >> lane & 1)]["data"][lane]
                     for lane in range(bus_bytes)), beats[number]["error"]

    async def reader(ctx):
        taken, stall = 0, stalls(7, p_out)
        while taken < count:
            take = ctx.get(dut.valid) and not stall()
            oldest = max(taken - config.kept_beats, 0)
            number = taken if take else rng.randrange(oldest, max(taken, 1))
            late = rng.getrandbits(bus_bytes) if number > oldest else 0
            ctx.set(dut.at, number % TIMING.beats)
            ctx.set(dut.late, late)
            ctx.set(dut.take, take)
            if take or taken:
                found = ctx.get(dut.data).to_bytes(bus_bytes, "little"), ctx.get(dut.error)
                assert found == seen(number, late)
            await ctx.tick()
            taken += take

    simulate(dut, feed(dut.i, sent, stalls(5, p_in)), reader)


@WIDTHS
def test_room_for_beats_that_are_not_taken(bus_bytes):
    config = replace(TINY, bus_bytes=bus_bytes)
    dut = Beats(config, beats_of(config))

    async def testbench(ctx):
        for number in range(TIMING.beats - config.kept_beats):
            assert ctx.get(dut.i.ready)
            await put(ctx, dut.i, {"data": number, "error": 0})
            assert ctx.get(dut.valid) and ctx.get(dut.data) == 0        # a cycle later
        assert not ctx.get(dut.i.ready)
        ctx.set(dut.take, 1)
        await ctx.tick()
        assert ctx.get(dut.i.ready)
    simulate(dut, testbench)


def meaning(config, runs: list[dict]) -> list[int]:
    """How many beats of each run the run before has."""
    n, found, before = config.bus_bytes, [], None
    for run in runs:
        again = 0
        if not run["pad"]:
            first = run["dram"] // n
            if before is not None and before["dram"] <= run["dram"]:
                ends = (before["dram"] + before["run"]) // n
                if first <= ends < before["dram"] // n + config.kept_beats:
                    again = ends - first + 1
            before = run
        found.append(again)
        before = None if run["last"] else before
    return found


@WIDTHS
@pytest.mark.parametrize("p_in, p_out", [(0, 0), (0.5, 0.5)])
def test_runs_share_what_the_run_before_has(bus_bytes, p_in, p_out):
    config, rng = replace(TINY, bus_bytes=bus_bytes), random.Random(bus_bytes)
    runs: list[dict] = []
    for _ in range(60):
        size, step = rng.choice((0, 2, 8, 20, 63, 64, 300)), rng.choice((0, 1, 6, 9, 21, -1, -7))
        dram = rng.randrange(100, 400) if rng.randrange(8) else rng.randrange(1 << 32) - 400
        for number in range(6):
            runs.append({"dram": max(dram + number * step, 0), "run": size,
                         "pad": int(rng.random() < 0.1), "last": int(number == 5),
                         "address": rng.randrange(1 << 24), "pad_value": rng.randrange(256),
                         "buffer": rng.randrange(8)})
    dut, seen = Overlap(config), []
    simulate(dut, feed(dut.i, runs, stalls(1, p_in)),
             collect(dut.o, len(runs), seen, stalls(2, p_out)))
    assert [item.again for item in seen] == meaning(config, runs)
    assert any(item.again for item in seen) and not all(item.again for item in seen)
    assert [{name: item[name] for name in runs[0]} for item in seen] == runs
