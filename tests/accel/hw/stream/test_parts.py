"""Parts for components of one's own: each against its meaning in NumPy, and its time."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, signed

from accel.hw.stream.parts import FIRST_RECIPROCALS, LaneTables, reciprocal, requantized
from accel.machine.streams import StreamShape
from compiler.ops.integers.fixed_point import requantize
from tests.support.amaranth_sim import simulate
from tests.support.components import bits_of


@pytest.mark.parametrize(("inside", "lanes", "read_cycles"), [(4, 3, 2), (1, 2, 3)])
def test_every_lane_has_the_table(inside: int, lanes: int, read_cycles: int) -> None:
    rng, entries, bits = np.random.default_rng(inside), 8, 14
    shape = StreamShape(((1, lanes), "int8"), ((1, lanes), "int8"), {},
                        (16, (inside,), "int16"), read_cycles)
    tables = LaneTables(shape, entries, lanes, bits)
    table = rng.integers(-2**15, 2**15, (entries, inside)).astype(np.int16)
    wanted = table.reshape(-1).astype(np.int64) & (1 << bits) - 1
    seen: list[int] = []

    async def serve(ctx):
        pending = [0] * (read_cycles - 1)
        while True:
            *_, addr, en = await ctx.tick().sample(tables.table.addr, tables.table.en)
            pending.append(bits_of(table[addr]) if en else 0)
            ctx.set(tables.table.data, pending.pop(0))

    async def look_up(ctx):
        ctx.set(tables.begin, 1)
        await ctx.tick()
        ctx.set(tables.begin, 0)
        while ctx.get(tables.busy):
            seen.append(1)
            await ctx.tick()
        for _ in range(20):
            places = rng.integers(0, entries * inside, lanes)
            for en in (1, 0):                   # another place that nobody asks for
                for lane, place in enumerate(places if en else places[::-1]):
                    ctx.set(tables.place[lane], int(place))
                ctx.set(tables.en, en)
                await ctx.tick()
                assert [ctx.get(tables.value[lane]) for lane in range(lanes)] == [
                    wanted[place] for place in places]

    simulate(tables, look_up, processes=[serve])
    assert len(seen) == entries + read_cycles


def test_reciprocals_are_those_of_row_functions() -> None:
    rng, m, total = np.random.default_rng(3), Module(), Signal(22)
    factor, amount = reciprocal(m, total)
    totals = [0, 1, 2, 3, 2**14, 2**22 - 1, *rng.integers(0, 2**22, 40).tolist(),
              *(rng.integers(0, 2**22, 20) >> 12).tolist()]

    async def follow(ctx):
        for number in totals:
            ctx.set(total, number)
            for _ in range(5):
                await ctx.tick()
            s = max(number, 1)
            n = s.bit_length() - 1
            v = s << 30 - n >> 16
            a = FIRST_RECIPROCALS[v >> 6 & 255]
            assert ctx.get(factor) == min(128 * a + (a * (2**22 - v * a) >> 15), 32767)
            assert ctx.get(amount) == max(n - 13, 0)

    simulate(m, follow)


@pytest.mark.parametrize(("product", "bits"), [(20, 6), (signed(20), 5), (signed(9), 4)], ids=str)
def test_requantized_is_requantize(product, bits: int) -> None:
    rng, m = np.random.default_rng(bits), Module()
    value, shift, result = Signal(product), Signal(bits), Signal(signed(8))
    zp, lo, hi = Signal(signed(8)), Signal(signed(8)), Signal(signed(8))
    m.d.sync += result.eq(requantized(value, shift, zp, lo, hi))
    least = -(1 << len(value) - 1) if value.shape().signed else 0

    async def compare(ctx):
        for number in range(400):
            drawn = int(rng.integers(least, least + (1 << len(value)))) >> int(rng.integers(12))
            shifted, fields = number % (1 << bits), np.sort(rng.integers(-128, 128, 3)).tolist()
            drawn |= int(number % 3 == 0) << max(shifted - 1, 0) & (1 << len(value) - 1) - 1
            for signal, given in zip((value, shift, lo, zp, hi), (drawn, shifted, *fields)):
                ctx.set(signal, given)
            await ctx.tick()
            assert ctx.get(result) == requantize(
                np.array(drawn, np.int64), 1, min(shifted, 46), fields[1], fields[0], fields[2])

    simulate(m, compare)
