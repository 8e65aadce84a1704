"""An SDRAM behind the core's memory port.

Requests are performed one after another, their beats as one READ or WRITE each, back to back while
a row stays open; each bank keeps its row open until another is wanted or a refresh is due. The
chip's bursts are as long as a beat of the port. A byte address is, from the highest bit, row, bank,
column, byte: neighbouring rows of 1 KiB lie in different banks.

Pins have registers of their own in both directions, and the chip's clock is that of the controller
but for a lead (`fpga.gateware.pads`). READ data are taken from those registers, `READ_DELAY` cycles
after the chip's own latency. Core and pins pull the controller's cells apart, so wires take most of
a cycle: all inputs and outputs are registered, and so are the state of a beat (whether its row is
open, in the cycle after its address) and the elapsed time.
"""

from dataclasses import dataclass

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature
from amaranth.utils import exact_log2

from accel.hw.interface import memory_port
from accel.hw.queue import Queue
from accel.machine.config import AccelConfig
from accel.machine.dram import Dram
from accel.machine.timing import TIMING
from fpga.boards.sdram import Command, Sdram, SdramTiming

READ_DELAY = 4
"""Cycles of the registers: of the command on its way out, two here and one at the pins; and of the
data on their way in, at the pins."""

LOOK_CYCLES = 2
"""From a request, or a change of the rows, until the state of its row is known, and a command may
follow."""

NEXT_CYCLES = 3
"""From the last READ of a request, or a WRITE, to the first command of what comes next."""

CHIP_BYTES = 2                  # of the chip's bus, a cycle
PRECHARGE_ALL = 1 << 10         # address bit 10
REFRESHES_AT_FIRST = 8
KEPT_BEATS = 16                 # of reads that the port does not take at once


def sdram_memory(config: AccelConfig, chip: Sdram, clock_hz: float) -> Dram:
    """The memory that a simulator takes for chip and controller: it follows from their rules. Two
    are left out: a WRITE after a READ waits until the bus has turned around, and a PRECHARGE waits
    longer after a WRITE than after a READ. Raises ValueError as the controller does.
    """
    timing, burst = chip.at(clock_hz), chip.burst(config.bus_bytes)
    opened = max(timing.rcd, LOOK_CYCLES)
    return Dram(
        latency=LOOK_CYCLES + _age(timing, burst) + TIMING.queue_cycles, outstanding=1,
        in_order=True,
        bytes_per_cycle=CHIP_BYTES, beat_cycles=NEXT_CYCLES, banks=4,
        row_bytes=CHIP_BYTES << chip.column_bits, row_closed=opened,
        row_miss=max(timing.rp, LOOK_CYCLES) + opened,
        refresh_interval=timing.refresh, refresh_cycles=timing.rp + timing.rfc)


def _age(timing: SdramTiming, burst: int) -> int:
    """Cycles from the READ of a beat until its last column is here."""
    return timing.cas + READ_DELAY + burst - 1


def sdram_pins(chip: Sdram) -> Signature:
    """The chip's pins except its clock, before their registers."""
    return Signature({
        "command": Out(3, init=Command.NOP), "bank": Out(2), "address": Out(max(chip.row_bits, 11)),
        "dq_o": Out(16), "dq_oe": Out(1), "dq_i": In(16), "mask": Out(2),
    })


@dataclass(frozen=True)
class _Timer:
    """Counts down to zero; the register `over` says that it has arrived."""

    left: Signal
    over: Signal


class SdramController(wiring.Component):
    """The controller; the module's docstring describes it.

    Members
    -------
    mem : a memory port; addresses beyond the chip are answered with an error.
    pins : `sdram_pins`. `mask` high keeps a byte from being written.

    Parameters
    ----------
    config : the configuration of the port.
    chip, clock_hz : the rules, and the clock that turns them into cycles.
    """

    def __init__(self, config: AccelConfig, chip: Sdram, clock_hz: float):
        self._bus_bytes, self.chip, self.timing = config.bus_bytes, chip, chip.at(clock_hz)
        self._burst = chip.burst(self._bus_bytes)       # columns of a beat
        super().__init__({"mem": In(memory_port(config)), "pins": Out(sdram_pins(chip))})

    def elaborate(self, platform):
        m = Module()
        timing, pins = self.timing, self.pins
        self._order, self._where = Signal(Command, init=Command.NOP), Signal.like(pins.address)
        self._at = Signal(2)                            # command, address and bank for the pins
        m.d.sync += [pins.command.eq(self._order), pins.address.eq(self._where),
                     pins.bank.eq(self._at), self._order.eq(Command.NOP)]
        self._request(m)
        self._look(m)
        reads = timing.cas + self._burst + 1            # READ to WRITE: the bus turns around
        self._any = self._timer(m, "any", max(timing.init, timing.rfc, timing.rp, timing.mrd))
        self._ras, self._rc = self._timer(m, "ras", timing.ras), self._timer(m, "rc", timing.rc)
        self._column = self._timer(m, "column", self._burst)
        self._precharge = self._timer(m, "precharge", self._burst + timing.wr)
        self._turn = self._timer(m, "turn", reads)
        step = Signal(range(REFRESHES_AT_FIRST + 3))
        self._refresh_due, self._room, self._given = Signal(), Signal(), Signal()
        self._write_data(m)
        self._read_data(m)
        with m.FSM():
            with m.State("POWER"):
                self._wait(m, self._any, timing.init)
                m.next = "SETUP"
            with m.State("SETUP"):
                with m.If(self._any.over):
                    m.d.sync += step.eq(step + 1)
                    with m.If(step == 0):
                        self._all_closed(m)
                    with m.Elif(step <= REFRESHES_AT_FIRST):
                        self._refresh(m)
                    with m.Else():
                        mode = exact_log2(self._burst) | timing.cas << 4
                        self._command(m, Command.MODE, mode)
                        m.d.sync += self._at.eq(0)
                        self._wait(m, self._any, timing.mrd)
                        m.next = "RUN"
            with m.State("RUN"):
                self._run(m)
        self._count_refreshes(m)
        return m

    def _timer(self, m: Module, name: str, most: int) -> _Timer:
        timer = _Timer(Signal(range(most + 1), name=f"wait_{name}"),
                       Signal(init=1, name=f"over_{name}"))
        m.d.sync += timer.over.eq(timer.left <= 1)
        with m.If(timer.left != 0):
            m.d.sync += timer.left.eq(timer.left - 1)
        return timer

    def _wait(self, m: Module, timer: _Timer, cycles: int) -> None:
        """Restarts the timer, unless it already ends later."""
        with m.If(timer.left < max(cycles - 1, 0)):
            m.d.sync += [timer.left.eq(max(cycles - 1, 0)), timer.over.eq(0)]

    def _command(self, m: Module, command: Command, address=0) -> None:
        m.d.sync += [self._order.eq(command), self._where.eq(address)]

    def _request(self, m: Module) -> None:
        """Holds the current request, and where its next beat lies."""
        request = self.mem.request
        self._busy, self._writes = Signal(), Signal()
        self._address, self._wrong = Signal(32), Signal()
        self._read, self._write = Signal(), Signal()    # a beat is asked for, or taken, in a cycle
        self._ends = Signal()                           # the request's last beat
        left, last = Signal.like(request.p.last), Signal()
        beat = exact_log2(self._bus_bytes)
        size = exact_log2(self.chip.size_bytes)
        column = self.chip.column_bits + 1
        self._bank = self._address[column:column + 2]
        self._row = self._address[column + 2:size]
        self._col = self._address[1:column]
        self._next = self._read | self._write
        m.d.comb += [request.ready.eq(~self._busy), self._ends.eq(self._next & last)]
        m.d.sync += self._at.eq(self._bank)
        with m.If(self._next):
            m.d.sync += [left.eq(left - 1), last.eq(left == 1), self._busy.eq(~last),
                         self._address[beat:].eq(self._address[beat:] + 1)]
        with m.If(~self._busy):
            m.d.sync += [self._busy.eq(request.valid), left.eq(request.p.last),
                         last.eq(request.p.last == 0), self._writes.eq(request.p.write),
                         self._address.eq(request.p.addr),
                         self._wrong.eq(request.p.addr[size:] != 0)]

    def _look(self, m: Module) -> None:
        """Looks whether a row is open in the bank of the beat, and whether it is the beat's; known
        while `_seen` is set.
        """
        self._open = Signal(4)
        self._rows = Array(Signal(self.chip.row_bits, name=f"row{bank}") for bank in range(4))
        self._seen, self._is_open, self._hit = Signal(), Signal(), Signal()
        self._changes = Signal()                        # a row is opened or closed in this cycle
        is_open = self._open.bit_select(self._bank, 1)
        m.d.sync += [
            self._seen.eq(self._busy & ~self._next & ~self._changes), self._is_open.eq(is_open),
            self._hit.eq(is_open & (self._rows[self._bank] == self._row)),
        ]

    def _run(self, m: Module) -> None:
        """Decides what to do with the request, or a refresh."""
        timing, any_over = self.timing, self._any.over
        closes = self._precharge.over & self._ras.over & any_over
        with m.If(self._refresh_due):
            with m.If((self._open != 0) & closes):
                self._all_closed(m)
            with m.Elif((self._open == 0) & any_over & self._rc.over):
                self._refresh(m)
        with m.Elif(~self._seen):
            pass
        with m.Elif(self._wrong):                       # out of range: passes without a command
            m.d.comb += [self._write.eq(self._writes & self._given),
                         self._read.eq(~self._writes & self._room)]
        with m.Elif(self._hit):
            with m.If(any_over & self._column.over):
                with m.If(self._writes & self._given & self._turn.over):
                    m.d.comb += self._write.eq(1)
                    self._command(m, Command.WRITE, self._col)
                    self._wait(m, self._precharge, self._burst - 1 + timing.wr)
                    self._wait(m, self._column, self._burst)
                with m.Elif(~self._writes & self._room):
                    m.d.comb += self._read.eq(1)
                    self._command(m, Command.READ, self._col)
                    self._wait(m, self._precharge, self._burst)
                    self._wait(m, self._turn, timing.cas + self._burst + 1)
                    self._wait(m, self._column, self._burst)
        with m.Elif(self._is_open):
            with m.If(closes):
                self._command(m, Command.PRECHARGE)
                m.d.comb += self._changes.eq(1)
                m.d.sync += self._open.bit_select(self._bank, 1).eq(0)
                self._wait(m, self._any, timing.rp)
        with m.Elif(any_over & self._rc.over):
            self._command(m, Command.ACTIVE, self._row)
            m.d.comb += self._changes.eq(1)
            m.d.sync += [self._open.bit_select(self._bank, 1).eq(1),
                         self._rows[self._bank].eq(self._row)]
            self._wait(m, self._any, timing.rcd)
            self._wait(m, self._ras, timing.ras)
            self._wait(m, self._rc, timing.rc)

    def _all_closed(self, m: Module) -> None:
        self._command(m, Command.PRECHARGE, PRECHARGE_ALL)
        m.d.comb += self._changes.eq(1)
        m.d.sync += self._open.eq(0)
        self._wait(m, self._any, self.timing.rp)

    def _refresh(self, m: Module) -> None:
        self._command(m, Command.REFRESH)
        m.d.sync += self._refresh_due.eq(0)
        self._wait(m, self._any, self.timing.rfc)

    def _count_refreshes(self, m: Module) -> None:
        """Counts refreshes: one is due every `refresh` cycles, and may be delayed by work in
        progress.
        """
        left = Signal(range(self.timing.refresh), init=self.timing.refresh - 1)
        m.d.sync += left.eq(left - 1)
        with m.If(left == 0):
            m.d.sync += [left.eq(self.timing.refresh - 1), self._refresh_due.eq(1)]

    def _write_data(self, m: Module) -> None:
        """Writes the columns of a beat one after another, and acknowledges after the last beat. A
        beat is taken in the cycle after its command, in which no other one is requested. A beat
        that is present and not being taken is `_given` a cycle later.
        """
        wdata, pins, ack = self.mem.wdata, self.pins, self.mem.ack
        words, masks = Signal(8 * self._bus_bytes), Signal(self._bus_bytes)
        left = Signal(range(self._burst + 1))
        m.d.sync += [wdata.ready.eq(self._write), self._given.eq(wdata.valid & ~wdata.ready)]
        with m.If(wdata.ready):
            m.d.sync += [Cat(pins.dq_o, words).eq(wdata.p.data), left.eq(self._burst - 1),
                         Cat(pins.mask, masks).eq(~wdata.p.mask), pins.dq_oe.eq(~self._wrong)]
        with m.Elif(left != 0):
            m.d.sync += [Cat(pins.dq_o, words).eq(words), left.eq(left - 1),
                         Cat(pins.mask, masks).eq(masks)]
        with m.Else():
            m.d.sync += [pins.dq_oe.eq(0), pins.mask.eq(0)]
        m.d.sync += [ack.valid.eq(self._ends & self._writes), ack.p.error.eq(self._wrong)]

    def _read_data(self, m: Module) -> None:
        """Collects columns as they come into beats for the port, which has room for them."""
        m.submodules.kept = kept = Queue(8 * self._bus_bytes + 1, KEPT_BEATS, TIMING.queue_cycles)
        rdata = self.mem.rdata
        age = _age(self.timing, self._burst)
        coming, wrong = Signal(age), Signal(age)        # beats, by their age
        beat, error, arrived = Signal(8 * self._bus_bytes), Signal(), Signal()
        m.d.sync += [coming.eq(Cat(self._read, coming)), wrong.eq(Cat(self._wrong, wrong)),
                     beat.eq(Cat(beat, self.pins.dq_i)[16:]), error.eq(wrong[-1]),
                     arrived.eq(coming[-1])]
        m.d.comb += [
            Cat(rdata.p.data, rdata.p.error).eq(kept.o.payload), rdata.valid.eq(kept.o.valid),
            kept.o.ready.eq(rdata.ready), kept.i.valid.eq(arrived),
            kept.i.payload.eq(Cat(beat, error)),
        ]
        free, taken = Signal(range(KEPT_BEATS + 1), init=KEPT_BEATS), Signal()
        m.d.sync += [taken.eq(rdata.valid & rdata.ready), free.eq(free + taken - coming[0]),
                     self._room.eq(free > 2)]           # two more may have been requested by now
