"""The memory of a board, as simulators take it, against the gateware."""

import re
from dataclasses import replace

import pytest

from accel.machine.dram import Dram
from accel.machine.machine import Machine
from accel.sim.timed import cycle
from examples.digits.data import held_out
from fpga.boards import BOARDS, BlockRam, BoardError, board
from fpga.device import BoardDevice
from fpga.emulation.emulated import EmulatedBoard
from fpga.gateware.memory import dram_of
from fpga.link.host import HostLink
from fpga.link.serial_port import SerialLine
from fpga.memory import on_board
from fpga.boards.sdram import ULX3S
from runtime import compile_for
from tests.fpga.test_emulated import DIGITS
from tests.support.machines import TINY, machine

MOST = 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name, mhz", [("ulx3s-85f", 80), ("ecpix5-85f", 80), ("ulx3s-85f", 100)])
def test_a_network_takes_the_cycles_of_the_board(name, mhz):
    """The emulated board is the gateware; what the simulator leaves out is less than `MOST`."""
    one = on_board(TINY, name, mhz)
    with EmulatedBoard(one, board(name).memory, clock_hz=mhz * 1_000_000) as emulated:
        device = BoardDevice(one, HostLink(SerialLine(emulated.port, emulated.baud)))
        module, runs = compile_for(DIGITS, device), []
        wait, device.wait = device.wait, lambda: runs.append(wait()) or runs[-1]
        module({"image": held_out()[0][:1]})
        assert not emulated.broken_rules
    (program,), (run,) = [segment.program for segment in module.accelerated], runs
    simulated = cycle.simulate(one, program, values=False).cycles
    assert abs(simulated / run.cycles - 1) < MOST, (simulated, run.cycles)


def test_it_follows_from_the_chip_and_the_clock():
    wide = machine("2x8x8").config
    assert dram_of(wide, ULX3S, 80e6) == Dram(
        15, 3, bytes_per_cycle=2, row_bytes=1024, row_miss=4, banks=4, row_closed=2, in_order=True,
        beat_cycles=3, refresh_interval=625, refresh_cycles=8)
    assert dram_of(TINY.config, ULX3S, 80e6) == replace(dram_of(wide, ULX3S, 80e6), latency=13)
    slow = replace(ULX3S, rcd=40, rp=60, rfc=100, refresh=5000, column_bits=8)
    assert dram_of(wide, slow, 100e6) == Dram(
        15, 3, bytes_per_cycle=2, row_bytes=512, row_miss=10, banks=4, row_closed=4, in_order=True,
        beat_cycles=3, refresh_interval=500, refresh_cycles=16)
    assert dram_of(wide, BlockRam(1 << 18), 80e6) == Dram(8, 3, in_order=True)


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_has_one(name):
    one = on_board(TINY, name)
    assert one.config.memory == dram_of(TINY.config, board(name).memory, board(name).mhz * 1e6)
    assert one.config.clock_mhz == board(name).mhz and one.hash == TINY.hash


@pytest.mark.parametrize("one, name, mhz, message", [
    (TINY, "de10", None, f"Board must be one of {', '.join(BOARDS)}, not 'de10'"),
    (TINY, "ulx3s-85f", 200, "Memory of ulx3s-85f cannot be that of tiny-1x4x4: Clock of SDRAM of "
                             "the ULX3S must be at most 133 MHz, not 200"),
    (Machine(replace(TINY.config, name="wide", bus_bytes=32)), "ulx3s-85f", None,
     "Memory of ulx3s-85f cannot be that of wide: Bus before an SDRAM must be of 2, 4, 8 or 16 "
     "bytes, not 32"),
])
def test_memory_wrong(one, name, mhz, message):
    with pytest.raises(BoardError, match=f"^{re.escape(message)}$"):
        on_board(one, name, mhz)
