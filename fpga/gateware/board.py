"""A whole board: clocks, accelerator, memory, and the pins of all three."""

from amaranth.hdl import *
from amaranth.lib import io, wiring

from accel.machine.config import AccelConfig
from accel.machine.machine import Machine
from fpga.gateware import margins
from fpga.boards import BlockRam, Board
from fpga.gateware.clocks import CHIP, Clocks
from fpga.gateware.memory import controller
from fpga.gateware.pads import SdramPads
from fpga.gateware.top import Accelerator
from fpga.gateware.pll import Pll


def require(board: Board, config: AccelConfig, clock_hz: int) -> None:
    """Raises ValueError for a bus that the memory chip or the link to the host lacks, and for a
    clock that the chip or the serial line cannot keep.
    """
    if config.bus_bytes < 4:
        raise ValueError(f"bus_bytes on a board must be at least 4, not {config.bus_bytes}: words "
                         f"of the link to the host have 4 bytes")
    if not isinstance(board.memory, BlockRam):
        board.memory.burst(config.bus_bytes)
        margins.require(board.memory, clock_hz)
    board.baud_rate(clock_hz)


class BoardTop(Elaboratable):
    """The top of a board, for a platform of `Board.make_platform` and arguments that `require`
    accepts.
    """

    def __init__(self, board: Board, machine: Machine, pll: Pll):
        self._board, self._pll = board, pll
        clock_hz, memory = round(pll.clock_hz), board.memory
        self._memory = controller(machine.config, memory, clock_hz)
        self._accelerator = Accelerator(machine, memory.size_bytes, clock_hz,
                                        board.baud_rate(clock_hz))

    def elaborate(self, platform):
        m = Module()
        board = self._board
        m.domains += ClockDomain("sync"), ClockDomain(CHIP, reset_less=True)
        m.submodules.clocks = Clocks(
            self._pll, margins.LEAD * 1e-9, platform.request(platform.default_clk, dir="-"),
            platform.request(board.button, dir="-") if board.button else None)
        m.submodules.accelerator = accelerator = self._accelerator
        m.submodules.memory = memory = self._memory
        wiring.connect(m, accelerator.mem, memory.mem)
        if not isinstance(board.memory, BlockRam):
            m.submodules.pads = pads = SdramPads(board.memory, platform.request("sdram", dir="-"))
            wiring.connect(m, memory.pins, pads.pins)
        uart = platform.request("uart", dir="-")
        m.submodules.rx, m.submodules.tx = rx, tx = io.Buffer("i", uart.rx), io.Buffer("o", uart.tx)
        m.d.comb += [accelerator.rx.eq(rx.i), tx.o.eq(accelerator.tx)]
        return m
