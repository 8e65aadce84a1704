"""The SDRAM controller against a model of the chip that knows the rules."""

import random
from collections import deque
from dataclasses import replace

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from fpga.emulation.sdram_chip import RULES, SdramChip
from fpga.gateware.sdram import SdramController
from fpga.sdram import ULX3S, Timing
from tests.support.amaranth_sim import simulate
from tests.support.machines import TINY, machine

SMALL = replace(ULX3S, init=500, refresh=1500)
CLOCK = 80e6


class Board(wiring.Component):
    def __init__(self, config, clock=CLOCK, chip=SMALL):
        self.controller = SdramController(config, chip, clock)
        self.chip = SdramChip(chip, clock)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller, m.submodules.chip = self.controller, self.chip
        wiring.connect(m, self.controller.pins, self.chip.pins)
        m.submodules.array = array = Memory(shape=16, depth=1 << 15, init=[])   # of few rows
        w_port, r_port, cells = array.write_port(granularity=8), array.read_port(), self.chip.cells
        m.d.comb += [w_port.addr.eq(cells.addr), w_port.data.eq(cells.w_data),
                     w_port.en.eq(cells.w_mask), r_port.addr.eq(cells.addr),
                     cells.r_data.eq(r_port.data)]
        return m


def transfer(board, requests, seed=0, eager=1.0, cycles=60_000):
    """Performs requests (write, address, beats, data of each beat, mask of each beat); the beats
    read, the errors of the acknowledgements, and the cycles taken.
    """
    port, rng = board.controller.mem, random.Random(seed)
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
            *_, asked, given, beat, comes, ack, acked, broken = await ctx.tick().sample(
                port.request.valid & port.request.ready, port.wdata.valid & port.wdata.ready,
                port.rdata.payload, port.rdata.valid & port.rdata.ready, port.ack.payload,
                port.ack.valid, board.chip.broken)
            taken += 1
            assert not broken, [rule for bit, rule in enumerate(RULES) if broken >> bit & 1]
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

    simulate(board, testbench, max_cycles=cycles)
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


@pytest.mark.parametrize("config", [TINY.config, machine("2x8x8").config], ids=lambda c: c.name)
@pytest.mark.parametrize("eager", [1.0, 0.4])
def test_random_requests(config, eager):
    requests, expected = requests_of(config, 150, seed=1)
    read, acks, _ = transfer(Board(config), requests, eager=eager)
    assert not any(acks) and len(read) == len(expected)
    for (beat, error), (place, cell) in zip(read, expected, strict=True):
        assert not error
        assert {lane: beat >> 8 * lane & 0xFF for lane in cell} == cell, hex(place)


def test_a_stream_of_reads_fills_the_chips_bus():
    """Two bytes a cycle, but for opening rows and refreshes."""
    config = machine("2x8x8").config
    requests = [(False, 64 * number, 64 // config.bus_bytes, [], []) for number in range(64)]
    _, _, cycles = transfer(Board(config), requests)
    begin = transfer(Board(config), requests[:1])[2]
    assert (cycles - begin) * 2 < 1.12 * 63 * 64


def test_beyond_the_chip_there_are_errors():
    config = TINY.config
    beyond = SMALL.size_bytes
    requests = [(True, 0, 1, [0x01020304], [15]), (False, beyond, 2, [], []), (False, 0, 1, [], []),
                (True, beyond + 64, 2, [1, 2], [15, 15]), (True, 4, 1, [5], [15]),
                (False, 4, 1, [], [])]
    read, acks, _ = transfer(Board(config), requests)
    assert acks == [0, 1, 0]
    assert [error for _, error in read] == [1, 1, 0, 0]
    assert read[2][0] == 0x01020304 and read[3][0] == 5


@pytest.mark.parametrize("rule", ["rcd", "rp", "ras", "rc", "rfc", "wr", "mrd", "refresh", "init"])
def test_the_model_notices_a_controller_that_breaks_a_rule(rule):
    # So fast, and so slow a chip, that each rule is what holds a command back.
    slow = {"rc": {"rc": 100}, "wr": {"wr": 60}}.get(rule, {})
    board = Board(TINY.config, 133e6, replace(SMALL, **slow))
    was = getattr(board.controller.timing, rule)
    faulty = {"refresh": 40 * was, "init": was // 2}.get(rule, was - 1 if rule != "ras" else 1)
    board.controller.timing = replace(board.controller.timing, **{rule: faulty})
    write = rule == "wr"
    requests = [(write, 4096 * row, 1, [row], [15]) for row in range(6)] * 40
    with pytest.raises(AssertionError) as failure:
        transfer(board, requests)
    assert rule in str(failure.value)


def test_a_clock_too_fast_for_the_chip():
    with pytest.raises(ValueError, match="at most 133 MHz, not 166"):
        ULX3S.at(166e6)
    assert ULX3S.at(133e6).cas == 3 and ULX3S.at(80e6) == Timing(
        rcd=2, rp=2, ras=4, rc=6, rrd=2, rfc=6, wr=2, mrd=2, refresh=625, init=16000, cas=2)
    slow = ULX3S.at(25e6)
    assert (slow.wr, slow.mrd, slow.rcd) == (2, 2, 1)
