"""The board's side of the link, with the host's frames at one side and memory at the other."""

import random

import pytest

from fpga.gateware.link import LinkServer
from fpga.link.frames import (ANSWER, READ, READ_REGISTERS, REFUSED, WRITE, WRITE_REGISTER,
                              Frame, Unframe, framed)
from fpga.link.registers import ADDRESSES, WORDS
from tests.support.amaranth_sim import ready
from tests.support.effort import Effort
from tests.support.machines import TINY, machine
from tests.support.memory_model import Memory

MACHINES = [TINY, machine("2x8x8")]


def word(value: int) -> bytes:
    return value.to_bytes(4, "little")


def talk(config, requests, memory, registers=None, busy=0, between=4, line=None, cycles=200_000,
         patience=2500):
    """Answers to requests that are sent one after another, each when the last is answered or
    `patience` cycles have passed, and `between` cycles more; registers are a list of words.
    """
    (dut, simulation), unframe, answers = ready(LinkServer, config), Unframe(), []
    registers = [0] * WORDS if registers is None else registers
    sent = [line(framed(one)) if line else framed(one) for one in requests]

    async def host(ctx):
        ctx.set(dut.busy, busy)
        for raw in sent:
            for byte in raw:
                await put_byte(ctx, byte)
            before, quiet = len(answers), 0
            while len(answers) == before and quiet < patience:
                await ctx.tick()
                quiet += 1
            for _ in range(between):
                await ctx.tick()

    async def put_byte(ctx, byte):
        ctx.set(dut.received.payload, byte)
        ctx.set(dut.received.valid, 1)
        await ctx.tick()
        ctx.set(dut.received.valid, 0)
        await ctx.tick()

    async def listen(ctx):
        rng = random.Random(1)
        while True:
            ctx.set(dut.sent.ready, rng.random() < 0.5)
            *_, byte, valid, ready = await ctx.tick().sample(
                dut.sent.payload, dut.sent.valid, dut.sent.ready)
            if valid and ready:
                answers.extend(unframe.feed(bytes((byte,))))

    async def words(ctx):
        history = [0, 0]
        while True:
            ctx.set(dut.r_data, history[0])
            *_, addr, write, value = await ctx.tick().sample(dut.addr, dut.w_en, dut.w_data)
            history = [history[1], registers[addr] if addr < WORDS else 0]
            if write:
                registers[addr] = value

    simulation.run(host, processes=[listen, words, memory.serve(dut.mem)], max_cycles=cycles)
    assert not unframe.dropped
    return answers


@pytest.mark.parametrize("machine", [
    pytest.param(MACHINES[0], marks=pytest.mark.slow), *MACHINES[1:]],
    ids=lambda one: one.config.name)
def test_memory_is_written_and_read(machine):
    rng = random.Random(0)
    memory = Memory(bytearray(1024), machine.config.bus_bytes)
    requests, expected, model = [], [], bytearray(1024)
    for number in range(4 if Effort.quick else 8):
        size = 64 * rng.randint(1, 4)
        at = 64 * rng.randrange((1024 - size) // 64 + 1)
        if rng.random() < 0.5:
            data = bytes(rng.choice((0x7D, 0x7E, 0, rng.randrange(256))) for _ in range(size))
            model[at:at + size] = data
            requests.append(Frame(number, WRITE, word(at) + data))
            expected.append(Frame(number, WRITE | ANSWER))
        else:
            requests.append(Frame(number, READ, word(at) + bytes((size - 1,))))
            expected.append(Frame(number, READ | ANSWER, bytes(model[at:at + size])))
    assert talk(machine.config, requests, memory) == expected
    assert memory.data == model


def test_registers():
    registers = list(range(1000, 1000 + WORDS))
    at = ADDRESSES["count"]
    requests = [Frame(0, WRITE_REGISTER, word(at) + word(0x7E7D1234)),
                Frame(1, READ_REGISTERS, word(at - 1) + bytes((2,))),
                Frame(2, READ_REGISTERS, word(WORDS - 1) + bytes((0,)))]
    answers = talk(TINY.config, requests, Memory(bytearray(64), 4), registers)
    assert registers[at] == 0x7E7D1234
    assert answers == [Frame(0, WRITE_REGISTER | ANSWER),
                       Frame(1, READ_REGISTERS | ANSWER,
                             word(1000 + at - 1) + word(0x7E7D1234) + word(1000 + at + 1)),
                       Frame(2, READ_REGISTERS | ANSWER, word(1000 + WORDS - 1))]


def test_what_is_no_request_is_refused():
    memory = Memory(bytearray(64), 4)
    wrong = [(5, b""), (READ, word(32) + b"\x3f"), (READ, word(0) + b"\x3e"), (READ, word(0)),
             (WRITE, word(0)), (WRITE, word(0) + bytes(63)), (WRITE, word(4) + bytes(64)),
             (READ_REGISTERS, word(WORDS) + b"\0"), (READ_REGISTERS, word(0) + b"\x40"),
             (WRITE_REGISTER, word(WORDS) + word(1)), (WRITE_REGISTER, word(0) + b"\1"),
             (READ, word(1 << 20) + b"\x3f"), (WRITE, word(1 << 20) + bytes(64))]
    requests = [Frame(number, kind, body) for number, (kind, body) in enumerate(wrong)]
    good = Frame(len(wrong), READ, word(0) + b"\x3f")
    assert talk(TINY.config, [*requests, good], memory) == [
        *(Frame(one.sequence, REFUSED) for one in requests),
        Frame(good.sequence, READ | ANSWER, bytes(64))]
    assert not any(memory.data)


def test_memory_is_refused_while_a_run_is_on():
    requests = [Frame(1, READ, word(0) + b"\x3f"), Frame(2, WRITE, word(0) + b"\1" * 64),
                Frame(3, READ_REGISTERS, word(0) + b"\0")]
    memory = Memory(bytearray(64), 4)
    kinds = [one.kind for one in talk(TINY.config, requests, memory, busy=1)]
    assert kinds == [REFUSED, REFUSED, READ_REGISTERS | ANSWER]
    assert not any(memory.data) and not memory.log


def test_damaged_frames_do_nothing():
    """A byte of each second frame flipped, dropped or doubled: no answer, no write, no loss of the
    next.
    """
    rng, number = random.Random(3), iter(range(1000))

    def line(raw: bytes) -> bytes:
        if next(number) % 2:
            return raw
        at, way = rng.randrange(1, len(raw) - 1), rng.randrange(3)
        if way == 0:
            return raw[:at] + bytes((raw[at] ^ 1 << rng.randrange(8),)) + raw[at + 1:]
        return raw[:at] + (b"" if way == 1 else raw[at:at + 1] * 2) + raw[at + 1:]

    memory = Memory(bytearray(64), 4)
    requests = [Frame(n, WRITE, word(0) + bytes((n if n % 2 else 0xEE,)) * 64)
                for n in range(4 if Effort.quick else 8)]
    answers = talk(TINY.config, requests, memory, line=line, cycles=400_000, patience=600)
    assert [one.sequence for one in answers] == list(range(1, len(requests), 2))
    assert memory.data == bytes((len(requests) - 1,)) * 64


@pytest.mark.slow
def test_an_overlong_frame_is_dropped():
    memory = Memory(bytearray(1024), 4)
    requests = [Frame(1, WRITE, word(0) + bytes(320)), Frame(2, READ, word(0) + b"\x3f")]
    assert [one.sequence for one in talk(TINY.config, requests, memory, patience=800)
            ] == [2]
