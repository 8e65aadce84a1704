import random
from dataclasses import replace

import pytest

from accel.hw.moving.load import Load
from accel.hw.moving.unpack import unpacked
from accel.machine.config import BUFFERS, WEIGHT_BITS, preset
from accel.machine.isa import DMA, encode
from accel.machine.status import ACTIVITIES, Status
from accel.machine.timing import TIMING
from tests.support.amaranth_sim import put, ready, stalls
from tests.support.dma_bench import (BASE, Bench, Events, feed_commands, grant, instruction,
                                     iterations, random_instruction, watch)
from tests.support.effort import Effort, tries
from tests.support.memory_model import Memory
from tests.support.slow_cases import each_once

TINY = preset("tiny-1x4x4")
LOADED = TINY.structure.unit("load").writes
NARROW = replace(TINY, bus_bytes=4)         # an entry of wgt is wider
WIDE = replace(TINY, bus_bytes=16)          # an entry of inp is narrower
PACKED = replace(TINY, weight_bits=(8, 4, 2))
FEW = replace(WIDE, weight_bits=(8, 4))
LONG_INPUTS = replace(PACKED, operand="int16")
WIDEST = replace(TINY, bus_bytes=64)
SIZE = 0x1800


class Buffers:
    """Bytes of the buffers that load writes; `record` watches the ports."""

    def __init__(self, config, load):
        self.config, self.load, self.writes = config, load, []
        self.data = {name: bytearray(config.buffers[name].size_bytes) for name in LOADED}

    async def record(self, ctx):
        cycle = 0
        ports = [getattr(self.load, name) for name in LOADED]
        async for _, _, *values in ctx.tick().sample(
                *(p[field] for p in (vars(port) for port in ports)
                  for field in ("addr", "data", "mask"))):
            for index, name in enumerate(LOADED):
                n = self.config.written_bytes(name)
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
        run, bits = fields["run"], WEIGHT_BITS[fields.get("bits", 0)]
        for dram, address, pad in iterations(fields):
            low = fields.get("pad_value", 0)
            pads = low, fields.get("pad_high", low)
            moved = (bytes(pads[byte & 1] for byte in range(address, address + run)) if pad
                     else memory[dram:dram + run])
            elements = [element for byte in moved for element in unpacked(byte, bits)]
            first = address * 8 // bits
            data[BUFFERS[fields["buffer"]]][first:first + len(elements)] = bytes(elements)
    return data


def run(config, programs, latency=4, memory_stall=0.0, token_stall=0.0, cycles=30_000):
    """Run until all instructions have retired."""
    bench, simulation = ready(Bench, config, Load, "load")
    memory = Memory(contents(), config.bus_bytes, latency, stalls(3, memory_stall))
    buffers, events = Buffers(config, bench.unit), Events()
    simulation.run(bench.retired(len(programs), events, memory), processes=[
        memory.serve(bench.arbiter.mem), buffers.record, watch(bench.unit, events),
        grant(bench.unit, stalls(4, token_stall)), feed_commands(bench.unit, programs)],
        max_cycles=cycles)
    return memory, buffers, events


@pytest.mark.one_in(3)
@pytest.mark.parametrize("memory_stall, token_stall", [
    pytest.param(0, 0, marks=pytest.mark.slow), (0.4, 0.5)])
@pytest.mark.parametrize("config", [
    pytest.param(NARROW, id="narrow"), pytest.param(FEW, id="packed, wide"),
    pytest.param(LONG_INPUTS, id="packed, int16"),
    pytest.param(WIDE, id="wide", marks=pytest.mark.slow),
    pytest.param(PACKED, id="packed", marks=pytest.mark.slow)])
def test_matches_its_meaning(config, memory_stall, token_stall):
    rng = random.Random(config.bus_bytes)
    buffers = LOADED if config.weight_bits == (8,) else ("wgt", "wgt", "inp")
    programs = [random_instruction(rng, config, rng.choice(buffers), SIZE, True) | {
        "waits": rng.randrange(16), "signals": rng.randrange(16)} for _ in range(tries(24))]
    memory, buffers, events = run(config, programs, 6, memory_stall, token_stall)
    assert buffers.data == meaning(config, memory.data, programs)
    assert [index for _, index in events.retired] == list(range(len(programs)))
    assert events.signalled == [p["signals"] for p in programs]
    assert not events.errors
    assert all(activity.bit_count() == 1 for activity in events.activity)


def shared(config, fields: dict) -> list[tuple[int, int]]:
    """How many beats each run of an instruction has, 0 if it is padding, and how many of them the
    run before it has, too, as the docstring of `Overlap` says.
    """
    n, found, before = config.bus_bytes, [], range(0)
    last = None
    for dram, _, pad in iterations(fields):
        if pad:
            found.append((0, 0))
            continue
        beats = range(dram // n, (dram + fields["run"] - 1) // n + 1)
        follows = last is not None and last <= dram and len(before) <= config.kept_beats
        found.append((len(beats), len(before) - before.index(beats[0])
                      if follows and beats[0] in before else 0))
        before, last = beats, dram
    return found


def steps(config, fields: dict) -> int:
    """Steps of an instruction, as the docstring of `Stepper` counts them."""
    n, total = config.bus_bytes, 0
    for (dram, address, _), (beats, again) in zip(
            iterations(fields), shared(config, fields), strict=True):
        chunks = (address % n + fields["run"] - 1) // n + 1
        total += chunks + (beats > 1 and address % n < dram % n and not again)
    return total


@pytest.mark.parametrize("config", [NARROW, WIDE], ids=["narrow", "wide"])
def test_latency(config):
    latency = 7
    memory, buffers, events = run(config, [instruction(config, "inp", run=4)], latency)
    taken = events.started[0][0] - 1
    accepted = memory.log[0][0]
    assert accepted == taken + TIMING.load_cycles + 1       # offered to the arbiter one before
    assert memory.moved == [(accepted + 1 + latency, False)]
    step = memory.moved[0][0]
    assert [cycle for cycle, *_ in buffers.writes] == [step + 3]
    assert events.retired == [(step + 1 + 5, 0)]


ROWS = [
    *({"run": run, "dram": offset, "address": target, "loops": [
        {"extent": 3, "dram": 200, "buffer": 600},
        {"extent": 5, "dram": step, "buffer": run + gap, "before": pad}]}
      for run, gap in ((1, 0), (3, 1), (9, 0), (9, 7), (21, 11), (33, 0), (90, 3))
      for step, offset, target, pad in ((0, 3, 1, 0), (1, 6, 5, 1), (6, 0, 2, 0), (6, 5, 0, 0),
                                        (7, 62, 0, 2), (16, 9, 3, 0), (-2, 40, 1, 0))),
    {"run": 21, "dram": 43, "loops": [{"extent": 2, "dram": 14}, {"extent": 2, "before": 1},
                                      {"extent": 9, "dram": 6, "buffer": 32, "after": 1}]}]
"""Rows of windows that overlap, touch or leave gaps, forwards and backwards, at any place of a beat
and of a block of 64 bytes, with padding before, behind and between."""


@each_once("part, config", range(3), (NARROW, WIDE, WIDEST))
def test_rows_that_overlap_read_what_they_share_once(part, config):
    rows = ROWS[part::12 if Effort.quick else 3]
    programs = [instruction(config, "inp", **row) for row in rows]
    for stall in (0.4,) if Effort.quick else (0, 0.4):
        memory, buffers, events = run(config, programs, 9, stall)
        assert buffers.data == meaning(config, memory.data, programs)
        assert len(events.retired) == len(programs) and not events.errors
        assert len(memory.moved) == sum(beats - again for program in programs
                                        for beats, again in shared(config, program)
                                        if beats > again)


def test_a_row_does_not_share_with_another_instruction():
    """What lies there may have been stored between them."""
    row = instruction(WIDE, "inp", run=9, dram=3)
    memory, _, _ = run(WIDE, [row, row])
    assert [address for _, _, address, _ in memory.log] == [BASE["program"]] * 2


SHORT = {"runs of 3": {"run": 3, "loops": [{"extent": 60, "dram": 3, "buffer": 4}]},
         "runs of 21": {"run": 21, "dram": 5,
                        "loops": [{"extent": 20, "dram": 96, "buffer": 21}]}}
LONG = {"aligned": {"run": 512}, "up": {"run": 511, "address": 1},
        "down": {"run": 511, "dram": 3, "address": 1}, "padding": {
            "run": 100, "pad_value": 9, "loops": [{"extent": 5, "before": 9, "buffer": 101}]}}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [*LONG, *SHORT])
@pytest.mark.parametrize("config", [NARROW, WIDE], ids=["narrow", "wide"])
def test_one_step_a_cycle(config, name):
    fields = instruction(config, "inp", **(LONG | SHORT)[name])
    _, buffers, events = run(config, [fields], 0)
    busy = [cycle for cycle, activity in enumerate(events.activity)
            if ACTIVITIES[activity.bit_length() - 1] == "busy"]
    total = steps(config, fields)
    ideal = sum(-(-(dram % config.bus_bytes + fields["run"]) // config.bus_bytes)
                for dram, *_ in iterations(fields))
    runs = len(list(iterations(fields)))
    assert total <= ideal + runs
    data = busy[3:]                                     # without arming, take and start
    assert len(data) == total
    assert data[-1] - data[0] == total - 1


@pytest.mark.one_in(3)
@pytest.mark.parametrize("bits", [8, 4, 2])
def test_packed_weights_come_faster(bits):
    """A beat of memory is a step, whatever it unpacks to: 1024 weights."""
    fields = instruction(PACKED, "wgt", run=1024 * bits // 8, bits=WEIGHT_BITS.index(bits))
    _, buffers, events = run(PACKED, [fields], 0)
    cycles = [cycle for cycle, *_ in buffers.writes]
    assert cycles == list(range(cycles[0], cycles[0] + 1024 * bits // 8 // PACKED.bus_bytes))
    assert sum(byte != 0 for byte in buffers.data["wgt"][:1024]) > 512
    assert not any(buffers.data["wgt"][1024:])


def test_requests_run_ahead_of_data():
    programs = [instruction(NARROW, "inp", run=4, loops=[{"extent": 20, "dram": 64}])] * 4
    memory, _, _ = run(NARROW, programs, latency=120)
    accepted, first_data = [cycle for cycle, *_ in memory.log], memory.moved[0][0]
    assert memory.most_open == 64
    assert accepted[63] < first_data                    # 60 of three instructions, 4 of another
    assert accepted[:20] == list(range(accepted[0], accepted[0] + 20))
    assert accepted[20] == accepted[19] + 2             # one cycle for the start


@pytest.mark.one_in(4)
@pytest.mark.parametrize("fields, index, status", [
    ({"buffer": BUFFERS.index("out"), "run": 4}, 1, Status.ILLEGAL),
    ({"buffer": 7, "run": 4}, 1, Status.ILLEGAL),
    ({"buffer": 1, "run": 4, "bits": 3}, 1, Status.ILLEGAL),
    ({"buffer": 0, "run": 4, "bits": 1}, 1, Status.ILLEGAL),
    ({"buffer": 1, "run": 4, "address": 2045, "bits": 1}, 1, Status.ADDRESS),
    ({"buffer": 1, "run": 4, "address": 1021, "bits": 2}, 1, Status.ADDRESS),
    ({"buffer": 0, "address": 2045, "run": 4}, 1, Status.ADDRESS),
    ({"buffer": 0, "address": 0xFFFFFF, "run": 2}, 1, Status.ADDRESS),
    ({"buffer": 2, "run": 8, "loops": [{"extent": 300, "buffer": 8, "before": 300}]}, 1,
     Status.ADDRESS),
    ({"buffer": 0, "run": 4, "dram": SIZE}, 1, Status.BUS),
    ({"buffer": 0, "run": 128, "dram": (1 << 32) - 64}, 1, Status.BUS),     # the first half
])
def test_an_instruction_with_an_error_goes_its_way(fields, index, status):
    config = PACKED if "bits" in fields else NARROW
    good = instruction(config, "inp", run=40)
    bench_programs = [good, fields, good]
    memory, _, events = run(config, bench_programs, 20)
    assert list(dict.fromkeys((i, s) for _, i, s in events.errors)) == [(index, status)]
    assert [i for _, i in events.retired] == [0, 1, 2]


def test_the_last_byte_of_a_buffer_is_inside():
    fields = instruction(NARROW, "inp", run=3, address=2045)
    memory, buffers, events = run(NARROW, [fields])
    assert buffers.data == meaning(NARROW, memory.data, [fields])
    assert not events.errors


def test_dram_addresses_wrap():
    fields = instruction(NARROW, "inp", base=2, run=8, dram=-(BASE["activations"] - 4) % (1 << 32))
    memory, buffers, _ = run(NARROW, [fields])
    assert buffers.data["inp"][:8] == memory.data[4:12]


def test_nothing_starts_without_tokens():
    bench, simulation = ready(Bench, NARROW, Load, "load")
    unit = bench.unit

    async def testbench(ctx):
        ctx.set(unit.commands.payload, {"index": 7, "word": encode(DMA, {"waits": 0b1010})})
        ctx.set(unit.commands.valid, 1)
        for available in (0, 0b0010, 0b1000, 0b0101):
            ctx.set(unit.available, available)
            await ctx.tick()
            assert ctx.get(unit.waits) == 0b1010
            assert not ctx.get(unit.take)
            assert ctx.get(unit.idle) and ctx.get(unit.blocked)
            assert ctx.get(unit.blocked_index) == 7
            missing = "gemm" if not available & 0b0010 else "store"
            assert ctx.get(unit.activity) == 1 << ACTIVITIES.index(missing)
        ctx.set(unit.available, 0b1010)
        ctx.set(unit.halt, 1)
        await ctx.tick()
        assert not ctx.get(unit.take) and not ctx.get(unit.blocked)
        ctx.set(unit.halt, 0)
        await ctx.tick()
        assert ctx.get(unit.take)
        await ctx.tick()
        assert ctx.get(unit.started) and ctx.get(unit.started_index) == 7
        assert not ctx.get(unit.idle)
    simulation.run(testbench)


def test_blocked_by_a_signal():
    bench, simulation = ready(Bench, NARROW, Load, "load")
    unit, memory = bench.unit, Memory(contents(), 4)
    word = encode(DMA, {"signals": 0b0110, "run": 4})

    async def testbench(ctx):
        await put(ctx, unit.commands, {"index": 3, "word": word})
        await ctx.tick()
        ctx.set(unit.commands.payload, {"index": 4, "word": encode(DMA, {"waits": 1})})
        ctx.set(unit.commands.valid, 1)
        cycles = 0
        while not ctx.get(unit.blocked):
            assert not ctx.get(unit.idle) and cycles < 40
            ctx.set(unit.refused, ctx.get(unit.signal))
            await ctx.tick()
            cycles += 1
        assert ctx.get(unit.signal) and ctx.get(unit.signals) == 0b0110
        assert ctx.get(unit.blocked_index) == 3 and not ctx.get(unit.retired)
        assert ctx.get(unit.activity) == 1 << ACTIVITIES.index("signal")
        ctx.set(unit.refused, 0)
        ctx.set(unit.signalled, 1)
        assert ctx.get(unit.retired) and ctx.get(unit.retired_index) == 3
        assert not ctx.get(unit.blocked)
        await ctx.tick()
        assert ctx.get(unit.idle) and ctx.get(unit.blocked) and ctx.get(unit.blocked_index) == 4
    simulation.run(testbench, processes=[memory.serve(bench.arbiter.mem)])


def test_a_request_that_waits_keeps_the_unit_from_being_idle():
    bench, simulation = ready(Bench, NARROW, Load, "load")
    unit = bench.unit
    outside = encode(DMA, {"run": 4, "loops": [{"extent": 2, "buffer": 4096}]})

    async def testbench(ctx):
        ctx.set(bench.arbiter.fetch.request.valid, 1)           # goes first, and stays
        await put(ctx, unit.commands, {"index": 0, "word": outside})
        failed = False
        for _ in range(12):
            failed = failed or ctx.get(unit.error)
            assert not ctx.get(unit.idle)
            await ctx.tick()
        assert failed
    simulation.run(testbench)
