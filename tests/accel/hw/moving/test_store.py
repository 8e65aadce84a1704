import random
from dataclasses import replace

import pytest

from accel.hw.moving.store import Store
from accel.machine.config import BUFFERS, preset
from accel.machine.status import Status
from accel.machine.timing import TIMING
from tests.support.amaranth_sim import ready, stalls
from tests.support.dma_bench import (Bench, Events, feed_commands, grant, instruction, iterations,
                                     random_instruction, watch)
from tests.support.effort import tries
from tests.support.memory_model import Memory

TINY = preset("tiny-1x4x4")
NARROW = replace(TINY, bus_bytes=4)
WIDE = replace(TINY, bus_bytes=16)
SIZE = 0x1800


def contents(config) -> bytes:
    return random.Random(1).randbytes(config.buffers["out"].size_bytes)


def serve_out(config, port):
    """The buffer that store reads: `read_cycles` is 2."""
    data, n = contents(config), config.bus_bytes

    async def testbench(ctx):
        later = 0
        while True:
            *_, addr, en = await ctx.tick().sample(port.addr, port.en)
            ctx.set(port.data, later)
            later = int.from_bytes(data[addr * n:addr * n + n], "little") if en else 0
    return testbench


def meaning(config, programs: list[dict]) -> bytearray:
    memory, data = bytearray(SIZE), contents(config)
    for fields in programs:
        for dram, address, _ in iterations(fields):
            memory[dram:dram + fields["run"]] = data[address:address + fields["run"]]
    return memory


def run(config, programs, latency=4, memory_stall=0.0, token_stall=0.0, cycles=30_000):
    """Run until all instructions have retired."""
    bench, simulation = ready(Bench, config, Store, "store")
    memory = Memory(bytearray(SIZE), config.bus_bytes, latency, stalls(3, memory_stall))
    events = Events()
    simulation.run(bench.retired(len(programs), events, memory), processes=[
        memory.serve(bench.arbiter.mem), serve_out(config, bench.unit.out),
        watch(bench.unit, events), grant(bench.unit, stalls(4, token_stall)),
        feed_commands(bench.unit, programs)], max_cycles=cycles)
    return memory, events


@pytest.mark.parametrize("memory_stall, token_stall", [
    pytest.param(0, 0, marks=pytest.mark.slow), (0.4, 0.5)])
@pytest.mark.parametrize("config", [NARROW, WIDE], ids=["narrow", "wide"])
def test_matches_its_meaning(config, memory_stall, token_stall):
    rng = random.Random(config.bus_bytes)
    programs = [random_instruction(rng, config, "out", SIZE, False) | {
        "waits": rng.randrange(16), "signals": rng.randrange(16)} for _ in range(tries(24))]
    memory, events = run(config, programs, 6, memory_stall, token_stall)
    assert memory.data == meaning(config, programs)
    assert [index for _, index in events.retired] == list(range(len(programs)))
    assert events.signalled == [p["signals"] for p in programs]
    assert not events.errors
    assert all(activity.bit_count() == 1 for activity in events.activity)


FIRST = TIMING.store_cycles + 3 + TIMING.queue_cycles
"""Cycles from taking an instruction to its first request, if that is of one beat."""


@pytest.mark.parametrize("config", [NARROW, WIDE], ids=["narrow", "wide"])
def test_latency(config):
    latency = 7
    memory, events = run(config, [instruction(config, "out", run=4)], latency)
    taken = events.started[0][0] - 1
    accepted = memory.log[0][0]
    assert accepted == taken + FIRST + 1                # offered to the arbiter one before
    assert memory.moved == [(accepted + 1, True)]
    assert events.retired == [(accepted + 1 + latency + 1 + 3, 0)]


@pytest.mark.parametrize("fields", [
    {"run": 512}, {"run": 511, "address": 1}, {"run": 511, "address": 3, "dram": 1},
    {"run": 512, "dram": 5}])
@pytest.mark.parametrize("config", [NARROW, WIDE], ids=["narrow", "wide"])
def test_one_beat_a_cycle(config, fields):
    memory, events = run(config, [instruction(config, "out", **fields)], 30)
    cycles = [cycle for cycle, _ in memory.moved]
    beats = -(-(fields.get("dram", 0) % config.bus_bytes + fields["run"]) // config.bus_bytes)
    first = memory.log[0][3]                # a shorter first burst leaves before the next is whole
    assert len(cycles) == beats
    assert cycles[first:] == list(range(cycles[first], cycles[first] + beats - first))
    assert cycles[-1] <= events.started[0][0] + FIRST + 64 // config.bus_bytes + beats
    assert len(memory.log) == -(-(fields.get("dram", 0) + fields["run"]) // 64)


@pytest.mark.parametrize("run_bytes", [3, 21])
def test_short_runs_cost_at_most_a_step_more(run_bytes):
    fields = instruction(NARROW, "out", run=run_bytes, address=2,
                         loops=[{"extent": 30, "dram": run_bytes, "buffer": run_bytes + 1}])
    memory, _ = run(NARROW, [fields], 2)
    cycles = [cycle for cycle, _ in memory.moved]
    assert cycles[-1] - cycles[0] < len(cycles) + 30


def test_instructions_overlap():
    programs = [instruction(NARROW, "out", run=64, address=64 * i, dram=64 * i) for i in range(6)]
    memory, events = run(NARROW, programs, latency=100)
    assert memory.log[5][0] < events.retired[0][0]
    assert [index for _, index in events.retired] == list(range(6))


@pytest.mark.parametrize("fields, status", [
    ({"buffer": BUFFERS.index("inp"), "run": 4}, Status.ILLEGAL),
    ({"buffer": BUFFERS.index("out"), "address": 1021, "run": 4}, Status.ADDRESS),
    ({"buffer": BUFFERS.index("out"), "dram": SIZE, "run": 4}, Status.BUS),
    ({"buffer": BUFFERS.index("out"), "dram": SIZE - 0x80, "run": 200}, Status.BUS),
    ({"buffer": BUFFERS.index("out"), "dram": (1 << 32) - 64, "run": 128}, Status.BUS),
])
def test_an_instruction_with_an_error_goes_its_way(fields, status):
    good = instruction(NARROW, "out", run=40)
    _, events = run(NARROW, [good, fields, good], 20)
    assert list(dict.fromkeys((i, s) for _, i, s in events.errors)) == [(1, status)]
    assert [i for _, i in events.retired] == [0, 1, 2]


def test_pads_are_ignored():
    fields = instruction(NARROW, "out", run=8, loops=[{"extent": 2, "dram": 16, "before": 1}])
    memory, _ = run(NARROW, [fields])
    assert memory.data[:8] == memory.data[16:24] == contents(NARROW)[:8]
