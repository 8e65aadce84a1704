import pytest

from accel.hw.core.control import Control
from accel.machine.config import UNITS
from accel.machine.status import REPORTERS, Status
from accel.machine.timing import TIMING
from tests.support.amaranth_sim import simulate


async def pass_by(ctx, cycles):
    for _ in range(cycles):
        await ctx.tick()


async def begin(ctx, dut):
    for unit in dut.units:
        ctx.set(unit.idle, 1)
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)
    assert ctx.get(dut.clear)
    await pass_by(ctx, TIMING.begin_cycles - 1)
    assert ctx.get(dut.running) and not ctx.get(dut.halt) and not ctx.get(dut.done)


def result(ctx, dut):
    return (Status(ctx.get(dut.status)), REPORTERS[ctx.get(dut.status_unit)],
            ctx.get(dut.status_index))


def finishes(ctx, dut):
    ctx.set(dut.finished, 1)


def nothing_moves(ctx, dut):
    ctx.set(dut.fetch_blocked, 1)


@pytest.mark.parametrize("end", [finishes, nothing_moves])
def test_of_all_errors_that_of_the_lowest_instruction_is_reported_in_the_end(end):
    dut = Control(TIMING)

    async def testbench(ctx):
        await begin(ctx, dut)
        for code, (status, index) in {0: (Status.BUS, 9), 2: (Status.ILLEGAL, 7),
                                      4: (Status.TOKENS_LEFT, 8)}.items():
            ctx.set(dut.errors[code].error, 1)
            ctx.set(dut.errors[code].status, status)
            ctx.set(dut.errors[code].index, index)
        await ctx.tick()
        for code in (0, 2, 4):
            ctx.set(dut.errors[code].error, 0)
        await pass_by(ctx, TIMING.status_cycles - 1)
        assert not ctx.get(dut.halt) and result(ctx, dut) == (Status.ILLEGAL, "vector", 7)
        for index in (12, 6, 7):                        # later, and one of them lower
            ctx.set(dut.errors[1].error, 1)
            ctx.set(dut.errors[1].status, Status.ADDRESS)
            ctx.set(dut.errors[1].index, index)
            await ctx.tick()
        ctx.set(dut.errors[1].error, 0)
        await pass_by(ctx, 3 * TIMING.patience_cycles)
        assert not ctx.get(dut.halt)
        end(ctx, dut)
        await pass_by(ctx, TIMING.patience_cycles + TIMING.settling_cycles + TIMING.over_cycles + 3)
        assert ctx.get(dut.done) and result(ctx, dut) == (Status.ADDRESS, "gemm", 6)
    simulate(dut, testbench)


def test_done_waits_for_units_and_memory():
    dut = Control(TIMING)

    async def testbench(ctx):
        await begin(ctx, dut)
        ctx.set(dut.finished, 1)
        ctx.set(dut.fetch_index, 3)
        ctx.set(dut.memory_open, 1)
        ctx.set(dut.units[1].idle, 0)
        await ctx.tick()
        ctx.set(dut.finished, 0)
        await pass_by(ctx, TIMING.status_cycles - 1)
        for member, value in ((dut.memory_open, 0), (dut.units[1].blocked, 1)):
            for _ in range(TIMING.settling_cycles + 4):
                assert ctx.get(dut.halt) and not ctx.get(dut.done)
                await ctx.tick()
            ctx.set(member, value)
        await pass_by(ctx, TIMING.over_cycles + 2)
        assert ctx.get(dut.done) and not ctx.get(dut.running)
        assert result(ctx, dut) == (Status.DONE, "fetch", 3)
    simulate(dut, testbench)


def test_a_deadlock_takes_patience_and_names_the_first_that_waits():
    dut = Control(TIMING)

    async def testbench(ctx):
        await begin(ctx, dut)
        for unit, index in ((1, 6), (3, 5)):
            ctx.set(dut.units[unit].idle, unit == 1)
            ctx.set(dut.units[unit].blocked, 1)
            ctx.set(dut.units[unit].queued, 1)
            ctx.set(dut.units[unit].blocked_index, index)
        ctx.set(dut.fetch_blocked, 1)
        for _ in range(TIMING.patience_cycles - 1):
            await ctx.tick()
        ctx.set(dut.memory_open, 1)                     # something moves after all
        await ctx.tick()
        ctx.set(dut.memory_open, 0)
        for _ in range(TIMING.patience_cycles + 2):
            assert not ctx.get(dut.halt)
            await ctx.tick()
        assert result(ctx, dut) == (Status.DEADLOCK, "store", 5)
        assert ctx.get(dut.waiting) == 1 << UNITS.index("gemm") | 1 << UNITS.index("store")
    simulate(dut, testbench)


def test_no_deadlock_while_anything_can_go_on():
    dut = Control(TIMING)

    async def testbench(ctx):
        await begin(ctx, dut)
        ctx.set(dut.fetch_blocked, 1)
        # each of these alone: a unit works, takes its next command soon, or fetch goes on
        for member, busy, quiet in ((dut.units[0].idle, 0, 1), (dut.units[0].queued, 1, 0),
                                    (dut.fetch_blocked, 0, 1), (dut.memory_open, 1, 0)):
            ctx.set(member, busy)
            for _ in range(3 * TIMING.patience_cycles):
                await ctx.tick()
                assert not ctx.get(dut.halt)
            ctx.set(member, quiet)
    simulate(dut, testbench)


def test_start_counts_only_between_runs():
    dut = Control(TIMING)

    async def testbench(ctx):
        await begin(ctx, dut)
        ctx.set(dut.start, 1)
        await ctx.tick()
        assert not ctx.get(dut.clear)
        ctx.set(dut.start, 0)
        ctx.set(dut.finished, 1)
        await ctx.tick()
        ctx.set(dut.finished, 0)
        await pass_by(ctx, TIMING.end_cycles - 2)
        assert not ctx.get(dut.done)
        await ctx.tick()
        assert ctx.get(dut.done)
        await begin(ctx, dut)
        assert result(ctx, dut)[0] is Status.RUNNING
    simulate(dut, testbench)
