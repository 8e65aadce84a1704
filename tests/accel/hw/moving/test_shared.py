import random

import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib import wiring

from accel.hw.moving.arbiter import Arbiter
from accel.hw.moving.shared import Shared
from accel.machine.config import preset
from dataclasses import replace
from tests.accel.hw.moving.test_arbiter import random_bursts, read_all, request_all, write_all
from tests.support.amaranth_sim import simulate, stalls
from tests.support.effort import tries
from tests.support.memory_model import Memory

CONFIG = replace(preset("tiny-1x4x4"), shared_bytes=1024)
N = CONFIG.bus_bytes
BASE, SIZE = 0x200, 0x800       # the scratchpad lies in the middle of what is read and written


class Behind(Elaboratable):
    """The scratchpad before an arbiter."""

    def __init__(self):
        self.shared, self.arbiter = Shared(CONFIG), Arbiter(CONFIG)

    def elaborate(self, platform):
        m = Module()
        m.submodules.shared, m.submodules.arbiter = shared, arbiter = self.shared, self.arbiter
        wiring.connect(m, shared.reader_mem, arbiter.load)
        wiring.connect(m, shared.writer_mem, arbiter.store)
        m.d.comb += shared.base.eq(BASE)
        return m


@pytest.mark.parametrize("p_stall", [pytest.param(0, marks=pytest.mark.slow), 0.4])
def test_bursts_of_both_sides_keep_their_order(p_stall):
    """Reads see what was written before; the memory behind is not touched in the scratchpad's
    place."""
    rng, dut = random.Random(1), Behind()
    writes = [(block, 64 // N) for block in range(0, SIZE, 64)]
    rng.shuffle(writes)
    writes += random_bursts(rng, tries(100), 0, SIZE)
    beats = [(rng.getrandbits(8 * N), rng.randrange(1 << N) if at >= SIZE // N else -1 % (1 << N))
             for at in range(sum(count for _, count in writes))]
    reads = random_bursts(rng, tries(150), 0, SIZE)
    before = rng.randbytes(SIZE)
    memory = Memory(bytearray(before), N, 5, stalls(2, p_stall))
    expected, stream = bytearray(SIZE), iter(beats)
    for addr, count in writes:
        for place in range(addr, addr + count * N, N):
            data, mask = next(stream)
            for lane in range(N):
                if mask >> lane & 1:
                    expected[place + lane] = data >> 8 * lane & 0xFF
    seen = []

    async def answers(ctx):
        left = len(writes)
        while left:
            *_, acked = await ctx.tick().sample(dut.shared.writer.ack.valid)
            left -= acked
        await request_all(dut.shared.reader, reads, stalls(5, p_stall))(ctx)

    simulate(dut, answers, write_all(dut.shared.writer, beats, stalls(3, p_stall)),
             request_all(dut.shared.writer, writes, stalls(4, p_stall)),
             read_all(dut.shared.reader, reads, stalls(6, p_stall), seen),
             processes=[memory.serve(dut.arbiter.mem)])
    assert seen == [int.from_bytes(expected[addr + i * N:addr + i * N + N], "little")
                    for addr, count in reads for i in range(count)]
    own = slice(BASE, BASE + CONFIG.shared_bytes)
    assert memory.data[own] == before[own]
    assert memory.data[:BASE] == expected[:BASE]
    assert memory.data[own.stop:] == expected[own.stop:]


def test_latency_and_throughput():
    """A beat comes two cycles, and those of the scratchpad, after its burst was accepted; then one
    a cycle, across bursts."""
    dut, cycles = Shared(CONFIG), []

    async def reads(ctx):
        ctx.set(dut.base, BASE)
        ctx.set(dut.reader.rdata.ready, 1)
        ctx.set(dut.reader.request.payload, {"addr": BASE, "last": 3})
        ctx.set(dut.reader.request.valid, 1)
        for cycle in range(16):
            ctx.set(dut.reader.request.valid, cycle < 2)
            *_, there = await ctx.tick().sample(dut.reader.rdata.valid)
            cycles.extend([cycle] * there)
    simulate(dut, reads)
    assert cycles == [*range(2 + CONFIG.timing.shared_cycles, 2 + CONFIG.timing.shared_cycles + 8)]
