# amaranth: UnusedElaboratable=no
"""A serial line, bit by bit."""

import random

import pytest
from amaranth.hdl import Fragment, Module

from fpga.gateware.uart import Uart, divisor
from tests.support.amaranth_sim import simulate
from tests.support.effort import tries

BITS = 10           # of a byte on the line


def levels(byte: int, stop: int = 1) -> list[int]:
    """A start bit, the lowest bit first, a stop bit."""
    return [0, *(byte >> bit & 1 for bit in range(8)), stop]


def received(line: list[int], cycles: int = 8) -> list[int]:
    """What a receiver makes of levels, one a cycle."""
    dut, found = Uart(cycles), []

    async def listen(ctx):
        while True:
            *_, valid, byte = await ctx.tick().sample(dut.received.valid, dut.received.payload)
            if valid:
                found.append(byte)

    async def play(ctx):
        for level in line:
            ctx.set(dut.rx, level)
            await ctx.tick()
        ctx.set(dut.rx, 1)
        for _ in range((BITS + 2) * cycles):
            await ctx.tick()

    simulate(dut, play, processes=[listen], max_cycles=len(line) + 100 * cycles)
    return found


def played(data: bytes, cycles: float, gap: int = 0) -> list[int]:
    """Levels of bytes whose bits take so many cycles each, `gap` cycles apart."""
    line: list[int] = []
    for byte in data:
        begin = len(line)
        for number, level in enumerate(levels(byte)):
            line += [level] * (begin + round((number + 1) * cycles) - len(line))
        line += [1] * gap
    return line


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cycles", [4, 5, 16])
@pytest.mark.parametrize("gap", [0, 3])
def test_bytes_are_received(cycles, gap):
    data = random.Random(cycles).randbytes(30) + b"\x00\xff\x55\xaa"
    assert received(played(data, cycles, gap), cycles) == list(data)


@pytest.mark.parametrize("off", [0.98, pytest.param(1.02, marks=pytest.mark.slow)])
def test_a_sender_whose_clock_is_off(off):
    """The sender's clock is off by as much as `divisor` allows on one side."""
    data = random.Random(1).randbytes(tries(30))
    assert received(played(data, 100 * off), 100) == list(data)


def test_a_short_low_is_no_byte():
    """Shorter than half of a start bit."""
    line = [1] * 20 + [0] * 3 + [1] * 100 + played(b"\x5a", 8)
    assert received(line) == [0x5A]


def test_a_byte_without_a_stop_bit_is_none():
    """The line is low for longer than a byte; what comes after a pause is received."""
    line = [level for level in levels(0, stop=0) for _ in range(8)] + [1] * 200 + played(b"A", 8)
    assert received(line) == [ord("A")]


def sending(dut, data: bytes, rest: int):
    """A testbench that hands bytes over without a gap, then waits for `rest` cycles."""
    async def testbench(ctx):
        for byte in data:
            ctx.set(dut.sent.payload, byte)
            ctx.set(dut.sent.valid, 1)
            ready = False
            while not ready:
                *_, ready = await ctx.tick().sample(dut.sent.ready)
        ctx.set(dut.sent.valid, 0)
        for _ in range(rest):
            await ctx.tick()
    return testbench


@pytest.mark.parametrize("cycles", [4, 7])
def test_bytes_are_sent(cycles):
    """Each bit so many cycles, the lowest first; back to back where there are enough bytes."""
    data, dut, line = random.Random(2).randbytes(8), Uart(cycles), []

    async def listen(ctx):
        while True:
            *_, level = await ctx.tick().sample(dut.tx)
            line.append(level)

    simulate(dut, sending(dut, data, 12 * cycles), processes=[listen])
    begin = line.index(0)
    assert all(line[:begin])
    assert _sent(line[begin:], cycles) == list(data)


def _sent(line: list[int], cycles: int) -> list[int]:
    """Bytes of a line, each of whose levels must last whole bits."""
    result, at = [], 0
    while 0 in line[at:]:
        at = line.index(0, at)
        bits = [set(line[at + n * cycles:at + (n + 1) * cycles]) for n in range(BITS)]
        assert all(len(one) == 1 for one in bits)
        values = [one.pop() for one in bits]
        assert (values[0], values[-1]) == (0, 1)
        result.append(sum(bit << place for place, bit in enumerate(values[1:9])))
        at += BITS * cycles
    return result


def test_what_is_sent_is_received():
    """At four cycles a bit, the least."""
    data, dut, found = random.Random(3).randbytes(40), Uart(4), []

    async def wire(ctx):
        while True:
            ctx.set(dut.rx, ctx.get(dut.tx))
            *_, valid, byte = await ctx.tick().sample(dut.received.valid, dut.received.payload)
            if valid:
                found.append(byte)

    simulate(dut, sending(dut, data, 100), processes=[wire])
    assert bytes(found) == data


def test_the_line_is_synchronized():
    """It changes at any time; simulations do not see what becomes of that."""
    found = []

    class Platform:
        def get_ff_sync(self, one):
            found.append((one.i, one._stages))
            return Module()

    dut = Uart(8)
    Fragment.get(dut, Platform()).prepare()
    assert len(found) == 1 and found[0][0] is dut.rx and found[0][1] >= 2


def test_divisors():
    assert divisor(80_000_000, 20_000_000) == 4 and divisor(50_000_000, 115_200) == 434
    assert divisor(50_000_000, 3_000_000) == 17         # 1.96 % too slow


@pytest.mark.parametrize("clock_hz, baud", [(25_000_000, 3_000_000), (50_000_000, 20_000_000)])
def test_rates_that_a_clock_cannot_keep(clock_hz, baud):
    with pytest.raises(ValueError, match=(
            rf"^Baud rate must be one that {clock_hz} Hz divided by at least 4 comes within 2% of, "
            rf"not {baud}$")):
        divisor(clock_hz, baud)
