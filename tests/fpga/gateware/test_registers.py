# amaranth: UnusedElaboratable=no
"""The registers between a link and a core that is played here."""

import random
from dataclasses import replace

import pytest

from accel.hw.interface import INDEX_BITS
from accel.machine.config import UNITS, ConfigError
from accel.machine.isa import BASES
from accel.machine.machine import Machine
from accel.machine.status import COUNTERS, Status
from fpga.gateware.registers import READ_CYCLES, Registers
from fpga.link.identity import decoded
from fpga.link.registers import ADDRESSES, MAGIC, RECORD_BYTES, REGISTERS, VERSION, WORDS
from tests.support.amaranth_sim import simulate
from tests.support.machines import TINY

MEMORY, CLOCK = 1 << 20, 50_000_000


def made() -> Registers:
    return Registers(TINY, MEMORY, CLOCK)


async def read(ctx, dut, address: int) -> int:
    ctx.set(dut.addr, address)
    for _ in range(READ_CYCLES):
        await ctx.tick()
    return ctx.get(dut.r_data)


async def read_register(ctx, dut, name: str) -> int:
    words = next(one.words for one in REGISTERS if one.name == name)
    return sum([await read(ctx, dut, ADDRESSES[name] + at) << 32 * at for at in range(words)])


async def write(ctx, dut, address: int, value: int) -> None:
    ctx.set(dut.addr, address)
    ctx.set(dut.w_data, value)
    ctx.set(dut.w_en, 1)
    await ctx.tick()
    ctx.set(dut.w_en, 0)


def test_addresses_do_not_overlap_and_leave_no_gap():
    places = [at for one in REGISTERS for at in range(ADDRESSES[one.name],
                                                      ADDRESSES[one.name] + one.words)]
    assert places == list(range(WORDS))


def test_constants_say_what_the_board_is():
    dut, found = made(), {}

    async def bench(ctx):
        for name in ("magic", "version", "machine", "memory_bytes", "clock_hz"):
            found[name] = await read_register(ctx, dut, name)

    simulate(dut, bench)
    assert found == {"magic": MAGIC, "version": VERSION, "machine": int(TINY.hash, 16),
                     "memory_bytes": MEMORY, "clock_hz": CLOCK}


def test_only_writable_registers_keep_what_is_written():
    """Each word is written, then each is read, one a cycle."""
    dut, rng = made(), random.Random(0)
    values = [rng.getrandbits(32) for _ in range(WORDS)]
    before, after = [], []

    async def sweep(ctx, into):
        for cycle in range(WORDS + READ_CYCLES):
            ctx.set(dut.addr, min(cycle, WORDS - 1))
            await ctx.tick()
            if cycle >= READ_CYCLES - 1 and len(into) < WORDS:
                into.append(ctx.get(dut.r_data))

    async def bench(ctx):
        await sweep(ctx, before)
        for address, value in enumerate(values):
            await write(ctx, dut, address, value)
        await sweep(ctx, after)
        assert ctx.get(dut.core.count) == values[ADDRESSES["count"]] % (1 << INDEX_BITS)
        for name in BASES:
            assert ctx.get(getattr(dut.core, f"base_{name}")) == values[ADDRESSES[f"base_{name}"]]

    simulate(dut, bench)
    kept = {ADDRESSES[one.name]: (1 << one.bits) - 1 for one in REGISTERS if one.writable}
    assert after == [value & kept[at] if at in kept else old
                     for at, (old, value) in enumerate(zip(before, values, strict=True))]


def test_the_record_is_the_machines():
    dut, found = made(), []

    async def bench(ctx):
        found.append(await read_register(ctx, dut, "record"))

    simulate(dut, bench)
    assert decoded(found[0].to_bytes(RECORD_BYTES, "little")) == TINY.record


def test_what_the_core_says():
    """Each of its signals is in its own register, in its own bits."""
    dut, rng = made(), random.Random(1)
    core, wanted, found = dut.core, {}, {}

    counters = [rng.getrandbits(40) for _ in COUNTERS]

    async def count(ctx):
        """Shows the counter that is asked for."""
        while True:
            ctx.set(core.counter_value, counters[min(ctx.get(core.counter), len(COUNTERS) - 1)])
            await ctx.changed(core.counter)

    async def bench(ctx):
        for unit in UNITS:
            wanted[f"waiting_{unit}"] = rng.getrandbits(INDEX_BITS)
            ctx.set(getattr(core, f"{unit}_waiting_index"), wanted[f"waiting_{unit}"])
        for bit, unit in enumerate(UNITS):
            ctx.set(getattr(core, f"{unit}_waiting"), 0b0110 >> bit & 1)
        ctx.set(core.status, Status.DEADLOCK)
        ctx.set(core.status_unit, 3)
        ctx.set(core.status_index, 77)
        wanted.update(waiting=0b0110, status=int(Status.DEADLOCK) | 3 << 8, index=77)
        wanted.update(zip(COUNTERS, counters, strict=True))
        for name in wanted:
            found[name] = await read_register(ctx, dut, name)

    simulate(dut, bench, processes=[count])
    assert found == wanted


def test_a_number_that_differs_starts_one_run():
    """The same one again does nothing; one that comes while a run is on starts when it is over."""
    dut, starts = made(), []
    core, run = dut.core, ADDRESSES["run"]

    async def watch(ctx):
        cycle = 0
        while True:
            *_, start = await ctx.tick().sample(core.start)
            starts.append(cycle) if start else None
            cycle += 1

    async def wait(ctx, cycles=5):
        for _ in range(cycles):
            await ctx.tick()

    async def bench(ctx):
        # As after a run of before: `done` of a core stays until its next start.
        ctx.set(core.done, 1)
        await wait(ctx)
        assert not starts and not ctx.get(dut.busy)
        await write(ctx, dut, run, 5)
        ctx.set(core.done, 0)
        await wait(ctx)
        assert len(starts) == 1 and ctx.get(dut.busy)
        await write(ctx, dut, run, 5)
        await wait(ctx)
        assert len(starts) == 1 and await read_register(ctx, dut, "done") == 0
        await write(ctx, dut, run, 6)
        await wait(ctx)
        assert len(starts) == 1
        ctx.set(core.done, 1)
        await ctx.tick()
        ctx.set(core.done, 0)
        await wait(ctx)
        assert len(starts) == 2 and ctx.get(dut.busy)
        assert await read_register(ctx, dut, "done") == 5
        ctx.set(core.done, 1)
        await wait(ctx)
        assert len(starts) == 2 and not ctx.get(dut.busy)
        assert await read_register(ctx, dut, "done") == 6
        await write(ctx, dut, run, 6)
        await wait(ctx)
        assert len(starts) == 2

    simulate(dut, bench, processes=[watch])


def test_the_interrupt_comes_with_the_end_of_a_run_and_stays_until_it_is_seen_to():
    dut, seen = made(), []
    core, run, interrupt = dut.core, ADDRESSES["run"], ADDRESSES["interrupt"]

    async def after(ctx, cycles=3):
        for _ in range(cycles):
            await ctx.tick()
        seen.append(ctx.get(dut.interrupt))

    async def bench(ctx):
        await write(ctx, dut, run, 1)           # a run that nobody wants to hear of
        ctx.set(core.done, 1)
        await after(ctx)
        await write(ctx, dut, run, 2)
        ctx.set(core.done, 0)
        await write(ctx, dut, interrupt, 1)
        await after(ctx, 20)
        ctx.set(core.done, 1)
        await after(ctx)
        await after(ctx, 20)
        await write(ctx, dut, interrupt, 0)
        await after(ctx)
        await write(ctx, dut, interrupt, 1)     # after the end of the run: at once
        await after(ctx)
        ctx.set(core.done, 0)
        await write(ctx, dut, run, 3)           # the next run takes it back
        await after(ctx)

    simulate(dut, bench)
    assert seen == [0, 0, 1, 1, 0, 1, 0]


def test_a_board_has_one_memory() -> None:
    several = Machine(replace(TINY.config, name="several", channels=2))
    with pytest.raises(ConfigError, match="^channels of several must be 1 on a board, not 2: "
                                          "there is one memory behind its core$"):
        Registers(several, MEMORY, CLOCK)
