import random
from dataclasses import replace

import pytest

from accel.config import BUFFERS, preset
from accel.hw.load import LOADED, Load
from accel.status import ACTIVITIES, Status
from tests.support.amaranth_sim import simulate, stalls
from tests.support.dma_bench import (BASE, Bench, Events, feed_commands, grant, instruction,
                                     iterations, random_instruction, watch)
from tests.support.memory_model import Memory

TINY = preset("tiny-1x4x4")
NARROW = replace(TINY, bus_bytes=4)         # an entry of wgt is wider
WIDE = replace(TINY, bus_bytes=16)          # an entry of inp is narrower
SIZE = 0x1800


class Buffers:
    """Bytes of the buffers that load writes; `record` watches the ports."""

    def __init__(self, config, load):
        self.config, self.load, self.writes = config, load, []
        self.data = {name: bytearray(config.buffers[name].size_bytes) for name in LOADED}

    async def record(self, ctx):
        n, cycle = self.config.bus_bytes, 0
        ports = [getattr(self.load, name) for name in LOADED]
        async for _, _, *values in ctx.tick().sample(
                *(p[field] for p in (vars(port) for port in ports)
                  for field in ("addr", "data", "mask"))):
            for index, name in enumerate(LOADED):
                addr, data, mask = values[3 * index:3 * index + 3]
                if mask:
                    self.writes.append((cycle, name, addr))
                for lane in range(n):
                    if mask >> lane & 1:
                        self.data[name][addr * n + lane] = data >> 8 * lane & 0xFF
            cycle += 1


def contents(seed: int = 0) -> bytearray:
    return bytearray(random.Random(seed).randbytes(SIZE))


def meaning(config, memory: bytes, programs: list[dict]) -> dict[str, bytearray]:
    data = {name: bytearray(config.buffers[name].size_bytes) for name in LOADED}
    for fields in programs:
        run = fields["run"]
        for dram, address, pad in iterations(fields):
            data[BUFFERS[fields["buffer"]]][address:address + run] = (
                bytes([fields["pad_value"]] * run) if pad else memory[dram:dram + run])
    return data


def run(config, programs, latency=4, memory_stall=0.0, token_stall=0.0, ends=None, cycles=30_000):
    """Run until `ends` instructions retired (all, if None), or one failed."""
    bench = Bench(config, Load(config), "load")
    memory = Memory(contents(), config.bus_bytes, latency, stalls(3, memory_stall))
    buffers, events = Buffers(config, bench.unit), Events()

    async def finished(ctx):
        while len(events.retired) + len(events.errors) < (len(programs) if ends is None else ends):
            await ctx.tick()
        for _ in range(4):
            await ctx.tick()

    simulate(bench, finished, processes=[
        memory.serve(bench.arbiter.mem), buffers.record, watch(bench.unit, events),
        grant(bench.unit, stalls(4, token_stall)), feed_commands(bench.unit, programs)],
        max_cycles=cycles)
    return memory, buffers, events


@pytest.mark.parametrize("memory_stall, token_stall", [(0, 0), (0.4, 0.5)])
@pytest.mark.parametrize("config", [NARROW, WIDE], ids=["narrow", "wide"])
def test_matches_its_meaning(config, memory_stall, token_stall):
    rng = random.Random(config.bus_bytes)
    programs = [random_instruction(rng, config, rng.choice(LOADED), SIZE, True) | {
        "waits": rng.randrange(16), "signals": rng.randrange(16)} for _ in range(25)]
    memory, buffers, events = run(config, programs, 6, memory_stall, token_stall)
    assert buffers.data == meaning(config, memory.data, programs)
    assert [index for _, index in events.retired] == list(range(25))
    assert events.signalled == [p["signals"] for p in programs]
    assert not events.errors
    assert all(activity.bit_count() == 1 for activity in events.activity)
