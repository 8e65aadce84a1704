"""The SDRAM controller against a model of the chip that knows the rules."""

from dataclasses import replace

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from fpga.emulation.sdram_chip import RULES, SdramChip
from fpga.gateware.pads import simulated_pads
from fpga.gateware.sdram import SdramController
from fpga.boards.sdram import ULX3S, SdramTiming
from tests.support import memory_port
from tests.support.effort import tries
from tests.support.machines import TINY, machine
from tests.support.memory_port import agree, requests_of
from tests.support.slow_cases import each_once

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
        simulated_pads(m, self.chip.chip, self.controller.pins, self.chip.pins)
        m.submodules.array = array = Memory(shape=16, depth=1 << 15, init=[])   # of few rows
        w_port, r_port, cells = array.write_port(granularity=8), array.read_port(), self.chip.cells
        m.d.comb += [w_port.addr.eq(cells.addr), w_port.data.eq(cells.w_data),
                     w_port.en.eq(cells.w_mask), r_port.addr.eq(cells.addr),
                     cells.r_data.eq(r_port.data)]
        return m


def transfer(board, requests, **options):
    return memory_port.transfer(board, board.controller.mem, requests,
                                broken=board.chip.broken, rules=RULES, **options)


@each_once("config, eager", (TINY.config, machine("2x8x8").config), (1.0, 0.4))
def test_random_requests(config, eager):
    requests, expected = requests_of(config, tries(150), seed=1)
    read, acks, _ = transfer(Board(config), requests, eager=eager)
    assert not any(acks)
    agree(read, expected)


@pytest.mark.slow
def test_a_stream_of_reads_fills_the_chips_bus():
    """Two bytes a cycle, but for opening rows and refreshes."""
    config = machine("2x8x8").config
    requests = [(False, 64 * number, 64 // config.bus_bytes, [], []) for number in range(64)]
    _, _, cycles = transfer(Board(config), requests)
    begin = transfer(Board(config), requests[:1])[2]
    assert (cycles - begin) * 2 < 1.12 * 63 * 64


@pytest.mark.slow
@pytest.mark.parametrize("clock", [44_444_444, pytest.param(88_888_889, marks=pytest.mark.slow)])
def test_clocks_at_which_ras_and_rp_are_shorter_than_rc(clock):
    """A refresh, too, waits for what is left of a row's cycle."""
    timing = ULX3S.at(clock)
    assert timing.ras + timing.rp < timing.rc
    requests = [(False, 4096 * row, 1, [], []) for row in range(8)] * 60
    transfer(Board(TINY.config, clock, replace(SMALL, refresh=1700)), requests)


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


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rule", ["rcd", "rp", "ras", "rc", "rfc", "wr", "mrd", "refresh", "init"])
def test_the_model_notices_a_controller_that_breaks_a_rule(rule):
    # So fast, and so slow a chip, that each rule is what holds a command back.
    slow = {"rc": {"rc": 100}, "wr": {"wr": 60}, "ras": {"ras": 90, "rc": 120}}.get(rule, {})
    board = Board(TINY.config, 133e6, replace(SMALL, **slow))
    was = getattr(board.controller.timing, rule)
    faulty = {"refresh": 40 * was, "init": was // 2}.get(rule, was - 1)
    board.controller.timing = replace(board.controller.timing, **{rule: faulty})
    write = rule == "wr"
    times = 40 if rule == "refresh" else 4
    requests = [(write, 4096 * row, 1, [row], [15]) for row in range(6)] * times
    with pytest.raises(AssertionError) as failure:
        transfer(board, requests)
    assert rule in str(failure.value)


def test_a_clock_too_fast_for_the_chip():
    with pytest.raises(ValueError, match="at most 133 MHz, not 166"):
        ULX3S.at(166e6)
    assert ULX3S.at(133e6).cas == 3 and ULX3S.at(80e6) == SdramTiming(
        rcd=2, rp=2, ras=4, rc=6, rrd=2, rfc=6, wr=2, mrd=2, refresh=625, init=16000, cas=2)
    slow = ULX3S.at(25e6)
    assert (slow.wr, slow.mrd, slow.rcd) == (2, 2, 1)
