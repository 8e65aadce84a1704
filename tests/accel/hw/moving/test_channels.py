"""Channels to memory: to fetch, load and store they are one memory, in which all may move at once.
"""

import random
from dataclasses import replace

import pytest

from accel.hw.moving.channels import Channels
from accel.machine.config import AccelConfig, preset
from tests.accel.hw.moving.test_arbiter import random_bursts, read_all, request_all, write_all
from tests.support.amaranth_sim import put, simulate, stalls
from tests.support.effort import tries
from tests.support.memory_model import Memory

SIZE = 0x1000


def several(channels: int) -> AccelConfig:
    return replace(preset("tiny-1x4x4"), channels=channels)


def behind(config: AccelConfig, data: bytearray, p_stall: float) -> list[Memory]:
    """A memory for each port, all with the same bytes, and a latency of its own."""
    return [Memory(data, config.bus_bytes, 3 + 4 * number, stalls(20 + number, p_stall))
            for number in range(config.channels)]


def served(dut: Channels, config: AccelConfig, memories: list[Memory]) -> list:
    return [memory.serve(getattr(dut, port))
            for memory, port in zip(memories, config.memory_ports, strict=True)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("channels", [2, 4])
@pytest.mark.parametrize("p_stall", [pytest.param(0, marks=pytest.mark.slow), 0.4])
def test_clients_see_one_memory_in_the_order_of_their_requests(channels: int, p_stall: float):
    config = several(channels)
    n, rng, dut = config.bus_bytes, random.Random(1), Channels(config)
    reads = {name: random_bursts(rng, tries(120), 0, SIZE // 2) for name in ("fetch", "load")}
    writes = random_bursts(rng, tries(120), SIZE // 2, SIZE)
    beats = [(rng.getrandbits(8 * n), rng.randrange(1 << n)) for _, k in writes for _ in range(k)]
    memory, stream = bytearray(rng.randbytes(SIZE)), iter(beats)
    seen: dict[str, list] = {name: [] for name in reads}
    expected, memories = bytearray(memory), behind(config, memory, p_stall)
    for addr, count in writes:
        for place in range(addr, addr + count * n, n):
            beat, mask = next(stream)
            for lane in range(n):
                if mask >> lane & 1:
                    expected[place + lane] = beat >> 8 * lane & 0xFF

    async def answers(ctx):
        ctx.set(dut.store.ack.ready, 1)
        left = len(writes)
        while left:
            *_, acked = await ctx.tick().sample(dut.store.ack.valid)
            left -= acked

    simulate(dut, answers, write_all(dut.store, beats, stalls(3, p_stall)),
             request_all(dut.store, writes, stalls(4, p_stall)),
             *(request_all(getattr(dut, name), reads[name], stalls(5, p_stall)) for name in reads),
             *(read_all(getattr(dut, name), reads[name], stalls(6, p_stall), seen[name])
               for name in reads), processes=served(dut, config, memories))
    assert memory == expected
    for name, bursts in reads.items():
        assert seen[name] == [int.from_bytes(expected[addr + i * n:addr + i * n + n], "little")
                              for addr, count in bursts for i in range(count)]
    for number, one in enumerate(memories):
        assert one.log and all(addr // 64 % channels == number for _, _, addr, _ in one.log)


def test_clients_of_different_channels_move_in_the_same_cycle():
    """Load reads 64 bytes of one channel while store writes as many to the other."""
    config = several(2)
    dut = Channels(config)
    moved: dict[str, list[int]] = {"load": [], "store": []}
    memories = behind(config, bytearray(SIZE), 0)

    async def watch(ctx):
        ctx.set(dut.load.rdata.ready, 1)
        ctx.set(dut.store.wdata.valid, 1)
        for cycle in range(40):
            sampled = await ctx.tick().sample(dut.moved_load, dut.moved_store)
            for name, one in zip(moved, sampled[-2:], strict=True):
                moved[name].extend([cycle] * one)

    async def ask(ctx):
        await put(ctx, dut.load.request, {"addr": 0, "last": 15})
        await put(ctx, dut.store.request, {"addr": 64, "last": 15})

    simulate(dut, watch, ask, processes=served(dut, config, memories))
    assert [len(cycles) for cycles in moved.values()] == [16, 16]
    assert all(cycles == list(range(cycles[0], cycles[0] + 16)) for cycles in moved.values())
    assert max(moved["store"][0], moved["load"][0]) < min(moved["store"][-1], moved["load"][-1])


@pytest.mark.slow
def test_latency_of_a_beat_is_a_cycle():
    config = several(2)
    dut = Channels(config)

    async def reads(ctx):
        ctx.set(dut.mem1.request.ready, 1)
        ctx.set(dut.fetch.rdata.ready, 1)
        await put(ctx, dut.fetch.request, {"addr": 64, "last": 0})
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.mem0.request.valid) and ctx.get(dut.open)
        ctx.set(dut.mem1.rdata.valid, 1)
        assert ctx.get(dut.mem1.rdata.ready) and not ctx.get(dut.fetch.rdata.valid)
        await ctx.tick()
        ctx.set(dut.mem1.rdata.valid, 0)
        assert ctx.get(dut.fetch.rdata.valid) and ctx.get(dut.moved_fetch)
        await ctx.tick()
        assert not ctx.get(dut.fetch.rdata.valid)
    simulate(dut, reads)


def test_a_channel_that_is_early_leaves_its_memory_to_others():
    """Two bursts of the second channel wait for one of the first, and fetch gets what it reads."""
    config = several(2)
    dut, beats = Channels(config), 64 // config.bus_bytes

    async def reads(ctx):
        for port in (getattr(dut, name) for name in config.memory_ports):
            ctx.set(port.request.ready, 1)
        for client in (dut.load, dut.fetch):
            ctx.set(client.rdata.ready, 1)
        for addr in (0, 64, 192):
            await put(ctx, dut.load.request, {"addr": addr, "last": beats - 1})
        await put(ctx, dut.fetch.request, {"addr": 320, "last": 0})
        ctx.set(dut.mem1.rdata.valid, 1)
        assert config.channel_beats == 2 * beats
        for _ in range(2 * beats + 1):
            assert ctx.get(dut.mem1.rdata.ready)
            assert not ctx.get(dut.load.rdata.valid)
            await ctx.tick()
        ctx.set(dut.mem1.rdata.valid, 0)
        assert ctx.get(dut.fetch.rdata.valid)
    simulate(dut, reads)
