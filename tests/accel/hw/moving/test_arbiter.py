import random

import pytest

from accel.hw.moving.arbiter import Arbiter
from accel.machine.config import preset
from accel.machine.timing import TIMING
from tests.support.amaranth_sim import put, simulate, stalls
from tests.support.memory_model import Memory

CONFIG = preset("tiny-1x4x4")
N = CONFIG.bus_bytes
SIZE = 0x1000


def random_bursts(rng: random.Random, count: int, low: int, high: int) -> list[tuple[int, int]]:
    """(address, beats) inside [low, high)."""
    bursts = []
    for _ in range(count):
        block = rng.randrange(low // 64, high // 64) * 64
        first = rng.randrange(64 // N)
        bursts.append((block + first * N, rng.randrange(1, 64 // N - first + 1)))
    return bursts


def request_all(client, bursts, stall):
    async def testbench(ctx):
        for addr, beats in bursts:
            while stall():
                await ctx.tick()
            await put(ctx, client.request, {"addr": addr, "last": beats - 1})
    return testbench


def read_all(client, bursts, stall, into):
    async def testbench(ctx):
        left = sum(beats for _, beats in bursts)
        while left:
            ctx.set(client.rdata.ready, not stall())
            *_, moved, beat = await ctx.tick().sample(
                client.rdata.valid & client.rdata.ready, client.rdata.payload)
            if moved:
                into.append(beat.data)
                left -= 1
        ctx.set(client.rdata.ready, 0)
    return testbench


def write_all(client, beats, stall):
    async def testbench(ctx):
        for beat, mask in beats:
            while stall():
                await ctx.tick()
            await put(ctx, client.wdata, {"data": beat, "mask": mask})
    return testbench


@pytest.mark.one_in(2)
@pytest.mark.parametrize("p_stall", [0, 0.4])
def test_three_clients_share_a_memory(p_stall):
    rng, dut = random.Random(1), Arbiter(CONFIG)
    reads = {name: random_bursts(rng, 60, 0, SIZE // 2) for name in ("fetch", "load")}
    writes = random_bursts(rng, 60, SIZE // 2, SIZE)
    beats = [(rng.getrandbits(8 * N), rng.randrange(1 << N)) for _, n in writes for _ in range(n)]
    memory = Memory(bytearray(rng.randbytes(SIZE)), N, 5, stalls(2, p_stall))
    expected, stream = bytearray(memory.data), iter(beats)
    for addr, count in writes:
        for beat in range(count):
            data, mask = next(stream)
            for lane in range(N):
                if mask >> lane & 1:
                    expected[addr + beat * N + lane] = data >> 8 * lane & 0xFF
    seen = {name: [] for name in reads}

    async def answers(ctx):
        left = len(writes)
        while left:
            *_, acked = await ctx.tick().sample(dut.store.ack.valid)
            left -= acked

    simulate(dut, answers, write_all(dut.store, beats, stalls(3, p_stall)),
             request_all(dut.store, writes, stalls(4, p_stall)),
             *(request_all(getattr(dut, name), reads[name], stalls(5, p_stall)) for name in reads),
             *(read_all(getattr(dut, name), reads[name], stalls(6, p_stall), seen[name])
               for name in reads), processes=[memory.serve(dut.mem)])
    assert memory.data == expected
    for name, bursts in reads.items():
        assert seen[name] == [int.from_bytes(expected[addr + i * N:addr + i * N + N], "little")
                              for addr, count in bursts for i in range(count)]


def test_fetch_goes_before_store_before_load():
    dut = Arbiter(CONFIG)

    async def testbench(ctx):
        ctx.set(dut.mem.request.ready, 1)
        order = [(dut.fetch, 0x40), (dut.store, 0x80), (dut.load, 0xC0)]
        for client, addr in order:
            ctx.set(client.request.payload, {"addr": addr, "last": 0})
            ctx.set(client.request.valid, 1)
        for client, addr in order:
            asking = [c for c, _ in order if ctx.get(c.request.valid)]
            assert [c for c in asking if ctx.get(c.request.ready)] == [client]
            await ctx.tick()
            ctx.set(client.request.valid, 0)
            assert ctx.get(dut.mem.request.valid)               # a cycle after the client's
            assert ctx.get(dut.mem.request.p.addr) == addr
            assert ctx.get(dut.mem.request.p.write) == (client is dut.store)
        assert ctx.get(dut.open) == 3
    simulate(dut, testbench)


def test_as_many_bursts_as_may_be_open():
    dut = Arbiter(CONFIG)

    async def testbench(ctx):
        ctx.set(dut.mem.request.ready, 1)
        ctx.set(dut.load.rdata.ready, 1)
        ctx.set(dut.load.request.valid, 1)
        for _ in range(TIMING.bursts):
            assert ctx.get(dut.load.request.ready)              # one a cycle
            await ctx.tick()
        for _ in range(3):
            assert not ctx.get(dut.load.request.ready)
            await ctx.tick()
        ctx.set(dut.mem.rdata.valid, 1)
        await ctx.tick()
        ctx.set(dut.mem.rdata.valid, 0)
        assert not ctx.get(dut.load.request.ready)              # closed a cycle later
        await ctx.tick()
        assert ctx.get(dut.load.request.ready) and ctx.get(dut.open) == TIMING.bursts - 1
    simulate(dut, testbench)


def test_write_data_waits_for_its_request():
    dut = Arbiter(CONFIG)

    async def testbench(ctx):
        ctx.set(dut.mem.wdata.ready, 1)
        ctx.set(dut.store.wdata.valid, 1)
        await put(ctx, dut.store.request, {"addr": 0, "last": 1})
        for _ in range(3):                                      # the memory does not accept it
            assert not ctx.get(dut.mem.wdata.valid) and not ctx.get(dut.store.wdata.ready)
            await ctx.tick()
        ctx.set(dut.mem.request.ready, 1)
        assert not ctx.get(dut.mem.wdata.valid)
        for valid in (True, True, False):
            await ctx.tick()
            assert ctx.get(dut.mem.wdata.valid) == ctx.get(dut.moved_store) == valid
    simulate(dut, testbench)
