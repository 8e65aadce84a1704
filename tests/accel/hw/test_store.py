import random
from dataclasses import replace

import pytest

from accel.config import preset
from accel.hw.store import Store
from tests.support.amaranth_sim import simulate, stalls
from tests.support.dma_bench import (BASE, Bench, Events, feed_commands, grant, instruction,
                                     iterations, random_instruction, watch)
from tests.support.memory_model import Memory

TINY = preset("tiny-1x4x4")
NARROW = replace(TINY, bus_bytes=4)
WIDE = replace(TINY, bus_bytes=16)
SIZE = 0x1800


def contents(config) -> bytes:
    return random.Random(1).randbytes(config.buffers["out"].size_bytes)


def serve_out(config, port):
    """The buffer that store reads: `READ_LATENCY` is 2."""
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


def run(config, programs, latency=4, memory_stall=0.0, token_stall=0.0, ends=None, cycles=30_000):
    """Run until `ends` instructions retired (all, if None), or one failed."""
    bench = Bench(config, Store(config), "store")
    memory = Memory(bytearray(SIZE), config.bus_bytes, latency, stalls(3, memory_stall))
    events = Events()

    async def finished(ctx):
        while len(events.retired) + len(events.errors) < (len(programs) if ends is None else ends):
            await ctx.tick()
        for _ in range(4):
            await ctx.tick()

    simulate(bench, finished, processes=[
        memory.serve(bench.arbiter.mem), serve_out(config, bench.unit.out),
        watch(bench.unit, events), grant(bench.unit, stalls(4, token_stall)),
        feed_commands(bench.unit, programs)], max_cycles=cycles)
    return memory, events


@pytest.mark.parametrize("memory_stall, token_stall", [(0, 0), (0.4, 0.5)])
@pytest.mark.parametrize("config", [NARROW, WIDE], ids=["narrow", "wide"])
def test_matches_its_meaning(config, memory_stall, token_stall):
    rng = random.Random(config.bus_bytes)
    programs = [random_instruction(rng, config, "out", SIZE, False) | {
        "waits": rng.randrange(16), "signals": rng.randrange(16)} for _ in range(25)]
    memory, events = run(config, programs, 6, memory_stall, token_stall)
    assert memory.data == meaning(config, programs)
    assert [index for _, index in events.retired] == list(range(25))
    assert events.signalled == [p["signals"] for p in programs]
    assert not events.errors
    assert all(activity.bit_count() == 1 for activity in events.activity)
