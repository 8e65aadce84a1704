"""Unpacking: a chunk of memory becomes a write of wgt, in the next cycle."""

import random
from dataclasses import replace

import pytest

from accel.hw.moving.unpack import Unpack, unpacked
from accel.machine.config import WEIGHT_BITS, preset
from tests.support.amaranth_sim import simulate

TINY = preset("tiny-1x4x4")
CONFIGS = {f"{bits} at {bus} bytes": replace(TINY, weight_bits=bits, bus_bytes=bus)
           for bits, bus in (((8, 4), 4), ((8, 2), 8), ((8, 4, 2), 4), ((8, 4, 2), 16))}


@pytest.mark.parametrize("byte, bits, elements", [
    (0xA5, 8, [-91]), (0xA5, 4, [5, -6]), (0x78, 4, [-8, 7]), (0xA5, 2, [1, 1, -2, -2]),
    (0x1B, 2, [-1, -2, 1, 0])])
def test_elements_of_a_byte(byte, bits, elements):
    assert unpacked(byte, bits) == [element & 0xFF for element in elements]


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_matches_its_meaning_one_chunk_a_cycle(config):
    """Random chunks at random places, one after the other; each is written a cycle later."""
    rng, bus = random.Random(str(config)), config.bus_bytes
    width = config.written_bytes("wgt")
    given = []
    for _ in range(200):
        bits = rng.choice(config.weight_bits)
        addr = rng.randrange(config.wgt_bytes * bits // 8 // bus)
        given.append((bits, addr, rng.randbytes(bus), rng.randrange(1 << bus)))
    unpack, found = Unpack(config), []

    async def testbench(ctx):
        for bits, addr, chunk, mask in given:
            ctx.set(unpack.data, int.from_bytes(chunk, "little"))
            ctx.set(unpack.mask, mask)
            ctx.set(unpack.addr, addr)
            ctx.set(unpack.bits, WEIGHT_BITS.index(bits))
            await ctx.tick()
            write = unpack.write
            found.append({ctx.get(write.addr) * width + lane: ctx.get(write.data) >> 8 * lane & 0xFF
                          for lane in range(width) if ctx.get(write.mask) >> lane & 1})

    simulate(unpack, testbench)
    for (bits, addr, chunk, mask), written in zip(given, found, strict=True):
        group = 8 // bits
        assert written == {(addr * bus + at) * group + part: value
                           for at, byte in enumerate(chunk) if mask >> at & 1
                           for part, value in enumerate(unpacked(byte, bits))}
