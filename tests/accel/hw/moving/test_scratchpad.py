# amaranth: UnusedElaboratable=no
import random
from dataclasses import replace

import pytest

from accel.hw.moving.scratchpad import InputScratchpad, OutputScratchpad, TableScratchpad
from accel.machine.config import AccelConfig, BufferGeometry, preset
from accel.machine.timing import TIMING
from tests.support.amaranth_sim import simulate
from tests.support.slow_cases import each_once

TINY = preset("tiny-1x4x4")


def with_bus(bus_bytes: int, beats: int) -> AccelConfig:
    return replace(TINY, bus_bytes=bus_bytes, vector_beats=beats)


def words(memory: bytearray, index: int, size: int) -> int:
    return int.from_bytes(memory[index * size:(index + 1) * size], "little")


def run(dut, write, read, w_size: int, r_size: int, size: int, drive, steps: int = 300,
        late: bool = False):
    """Random writes and reads in every cycle, reads never at what is being written, or was in the
    cycle before where that comes `late`.

    Every read is checked `read_cycles` cycles later against a plain array of bytes.
    """
    rng, pending = random.Random(size + w_size), []
    count = -(-size // w_size)
    memory = bytearray(max(size, count * w_size))

    async def testbench(ctx):
        before = 0
        for address in range(count):                # nothing is read that was not written
            memory[address * w_size:(address + 1) * w_size] = drive(ctx, rng, address, True)
            await ctx.tick()
        for cycle in range(steps):
            address = rng.randrange(count)
            target = rng.randrange(size // r_size)
            apart = all(not target * r_size - w_size < place * w_size < (target + 1) * r_size
                        for place in ((address, before) if late and cycle else (address,)))
            reads = apart and (cycle > 0 or not late) and rng.random() < 0.8
            before = address
            ctx.set(read.addr, target)
            ctx.set(read.en, reads)
            if reads:
                pending.append((cycle + TIMING.read_cycles, words(memory, target, r_size)))
            old = memory[address * w_size:(address + 1) * w_size]
            memory[address * w_size:(address + 1) * w_size] = drive(ctx, rng, address, False, old)
            if pending and pending[0][0] == cycle:
                assert ctx.get(read.data) == pending.pop(0)[1]
            await ctx.tick()
    simulate(dut, testbench)


@each_once("part, bus_bytes", [("inp", 1), ("wgt", 1), ("par", 1), ("par", 2), ("res", 4)],
           [4, 8, 32])
def test_input_matches_an_array_of_bytes(part, bus_bytes):
    buffer, beats = part
    config = with_bus(bus_bytes, beats)
    assert not config.rows_of(config.buffers[buffer], writes=False).divides
    input_matches(config, (config.buffers | config.parts)[buffer])


@each_once("entry, bus_bytes", [(3, 5), (12, 9), (24, 7), (25, 5), (1, 100)],
           [1, 8, 64])
def test_input_of_any_size_matches_an_array_of_bytes(entry, bus_bytes):
    """Entries and chunks of which neither is a multiple of the other, and odd depths."""
    block, depth = entry
    size = max(-(-2 * bus_bytes // block), depth) * block
    config = replace(TINY, block_in=block, bus_bytes=bus_bytes, inp_bytes=size,
                     **{f"{name}_bytes": 1 << 16 for name in ("wgt", "res", "out", "par", "acc")})
    input_matches(config, config.buffers["inp"])


def input_matches(config: AccelConfig, geometry: BufferGeometry) -> None:
    bus_bytes, dut = config.bus_bytes, InputScratchpad(config, geometry)

    def drive(ctx, rng, address, everything, old=b""):
        data = rng.randbytes(bus_bytes)
        mask = (1 << bus_bytes) - 1 if everything else rng.randrange(1 << bus_bytes)
        ctx.set(dut.write.addr, address)
        ctx.set(dut.write.data, int.from_bytes(data, "little"))
        ctx.set(dut.write.mask, mask)
        return bytes(data[i] if mask >> i & 1 else old[i] for i in range(bus_bytes))

    run(dut, dut.write, dut.read, bus_bytes, geometry.entry_bytes, geometry.size_bytes, drive,
        late=config.rows_of(geometry, writes=False).divides)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("bus_bytes", [4, 8, 64])
@pytest.mark.parametrize("ports", [1, 3])
def test_tables_match_an_array_of_bytes(ports, bus_bytes):
    """Every port reads a byte of its own in every cycle, while chunks are written elsewhere."""
    config = replace(TINY, bus_bytes=bus_bytes, tab_bytes=1024, inp_bytes=2048)
    dut = TableScratchpad(config, config.parts["tab"], ports)
    rng, memory = random.Random(ports), bytearray(1024)
    chunks, wanted = 1024 // bus_bytes, [[None] * ports] * TIMING.read_cycles

    async def testbench(ctx):
        for cycle in range(chunks + 300):
            address = cycle if cycle < chunks else rng.randrange(chunks)
            mask = (1 << bus_bytes) - 1 if cycle < chunks else rng.randrange(1 << bus_bytes)
            data = rng.randbytes(bus_bytes)
            ctx.set(dut.write.addr, address)
            ctx.set(dut.write.data, int.from_bytes(data, "little"))
            ctx.set(dut.write.mask, mask)
            places = [rng.randrange(1024) for _ in range(ports)]
            enabled = [cycle >= chunks and place // bus_bytes != address and rng.random() < 0.8
                       for place in places]
            ctx.set(dut.read.addr, places)
            ctx.set(dut.read.en, sum(yes << port for port, yes in enumerate(enabled)))
            wanted.append([memory[place] - (memory[place] >> 7 << 8) if yes else None
                           for place, yes in zip(places, enabled)])
            for byte in range(bus_bytes):
                if mask >> byte & 1:
                    memory[address * bus_bytes + byte] = data[byte]
            for port, value in enumerate(wanted[cycle]):
                assert value is None or ctx.get(dut.read.data[port]) == value
            await ctx.tick()

    simulate(dut, testbench)


@each_once("rows, bus_bytes", [(1, 1), (4, 1), (4, 2), (1, 4)], [4, 16])
def test_output_matches_an_array_of_bytes(rows, bus_bytes):
    batch, beats = rows
    output_matches(replace(TINY, bus_bytes=bus_bytes, batch=batch, vector_beats=beats))


@each_once("lanes, bus_bytes", [(3, 1), (12, 1), (12, 4), (24, 2), (25, 1), (1, 1)],
           [1, 8, 64])
def test_output_of_any_size_matches_an_array_of_bytes(lanes, bus_bytes):
    block, beats = lanes
    output_matches(replace(
        TINY, block_out=block, bus_bytes=bus_bytes, vector_beats=beats,
        out_bytes=max(-(-2 * bus_bytes // block), 7) * block,
        **{f"{name}_bytes": 1 << 16 for name in ("wgt", "res", "inp", "par", "acc")}))


def output_matches(config: AccelConfig) -> None:
    bus_bytes, geometry = config.bus_bytes, config.parts["out"]
    dut = OutputScratchpad(config, geometry)

    def drive(ctx, rng, address, everything, old=b""):
        data = rng.randbytes(geometry.entry_bytes)
        enabled = everything or rng.random() < 0.7
        ctx.set(dut.write.w_addr, address)
        ctx.set(dut.write.w_data, int.from_bytes(data, "little"))
        ctx.set(dut.write.w_en, enabled)
        return data if enabled else old

    run(dut, dut.write, dut.read, geometry.entry_bytes, bus_bytes, geometry.size_bytes, drive)
