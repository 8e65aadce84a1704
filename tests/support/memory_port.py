"""What a memory behind the core's port must do: random requests, and a model of their meaning."""

import random
from collections import deque

from amaranth.hdl import Const

from tests.support.amaranth_sim import simulate

__all__ = ["agree", "requests_of", "transfer"]


def transfer(dut, port, requests, seed=0, eager=1.0, cycles=60_000, broken=None, rules=()):
    """Performs requests (write, address, beats, data of each beat, mask of each beat) on a memory
    port of `dut`; the beats read, the errors of the acknowledgements, and the cycles taken.

    `broken` is a value that stays zero; its bits are called `rules`.
    """
    broken, rng = Const(0) if broken is None else broken, random.Random(seed)
    read, acks, left = [], [], deque(requests)
    data = deque(beat for one in requests if one[0] for beat in zip(one[3], one[4]))
    wanted_reads = sum(one[2] for one in requests if not one[0])
    wanted_acks = sum(one[0] for one in requests)
    taken = 0

    async def testbench(ctx):
        nonlocal taken
        asking = giving = False
        while len(read) < wanted_reads or len(acks) < wanted_acks:
            asking = asking or (bool(left) and rng.random() < eager)
            giving = giving or (bool(data) and rng.random() < eager)
            ctx.set(port.request.valid, asking)
            ctx.set(port.wdata.valid, giving)
            ctx.set(port.rdata.ready, rng.random() < eager)
            if left:
                write, addr, beats, *_ = left[0]
                ctx.set(port.request.payload, {"addr": addr, "last": beats - 1, "write": write})
            if data:
                ctx.set(port.wdata.payload, {"data": data[0][0], "mask": data[0][1]})
            *_, asked, given, beat, comes, ack, acked, wrong = await ctx.tick().sample(
                port.request.valid & port.request.ready, port.wdata.valid & port.wdata.ready,
                port.rdata.payload, port.rdata.valid & port.rdata.ready, port.ack.payload,
                port.ack.valid, broken)
            taken += 1
            assert not wrong, [rule for bit, rule in enumerate(rules) if wrong >> bit & 1]
            if asked:
                left.popleft()
                asking = False
            if given:
                data.popleft()
                giving = False
            if comes:
                read.append((beat.data, beat.error))
            if acked:
                acks.append(ack.error)

    simulate(dut, testbench, max_cycles=cycles)
    return read, acks, taken


def requests_of(config, count: int, seed: int, space: int = 4 << 12):
    """Random requests, and the beats that reads must give: later ones see earlier ones."""
    rng, memory, expected, requests = random.Random(seed), {}, [], []
    width = config.bus_bytes
    for _ in range(count):
        beats = rng.randint(1, 64 // width)
        addr = 64 * rng.randrange(space // 64) + width * rng.randint(0, 64 // width - beats)
        write = rng.random() < 0.5 or not memory
        if not write and rng.random() < 0.7:                    # something that was written
            addr = rng.choice([*memory]) // 64 * 64
        data = [rng.getrandbits(8 * width) for _ in range(beats)]
        masks = [rng.choice((-1, rng.getrandbits(width))) & (1 << width) - 1 for _ in range(beats)]
        requests.append((write, addr, beats, data, masks))
        for at in range(beats):
            place = addr + at * width
            if not write:
                expected.append((place, dict(memory.get(place, {}))))
                continue
            cell = memory.setdefault(place, {})
            for lane in range(width):
                if masks[at] >> lane & 1:
                    cell[lane] = data[at] >> 8 * lane & 0xFF
    return requests, expected


def agree(read, expected):
    """Asserts that the beats read are those that `requests_of` expects."""
    assert len(read) == len(expected)
    for (beat, error), (place, cell) in zip(read, expected, strict=True):
        assert not error
        assert {lane: beat >> 8 * lane & 0xFF for lane in cell} == cell, hex(place)
