"""A model of an SDRAM chip, after its data sheet, that checks the rules.

It sees only the controller's pins. Every broken rule sets a bit that stays.
"""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from fpga.gateware.sdram import sdram_pins
from fpga.boards.sdram import Command, Sdram

RULES = ("init", "mode", "rcd", "rp", "ras", "rc", "rrd", "rfc", "wr", "mrd", "refresh", "row",
         "bus")
"""Names of `fpga.boards.sdram.Sdram`; and: ``mode``: not burst and latency that this clock allows;
``row``: a column of a closed bank, an open bank opened, a refresh with open banks; ``bus``: both
sides drive the data."""

POSTPONED = 8       # refreshes that may be late (JEDEC Standard 21-C, 3.11.5)
BANKS = 4


def cells_port(chip: Sdram) -> wiring.Signature:
    """Words of 16 bits; a word's address is bank after column, row after bank."""
    return wiring.Signature({"addr": Out(2 + chip.row_bits + chip.column_bits),
                             "w_data": Out(16), "w_mask": Out(2), "r_data": In(16)})


class SdramChip(wiring.Component):
    """The model of a chip; the module's docstring describes it.

    Members
    -------
    pins : the controller's, seen from the chip; sampled at the clock's rising edge.
    broken : a bit for each of `RULES`.
    cells : the memory array, which lies outside: in every cycle one word is read, which is there
        in the next, and its bytes in `w_mask` are written.

    Parameters
    ----------
    chip, clock_hz : the source of the rules.
    """

    def __init__(self, chip: Sdram, clock_hz: float):
        self.chip, self.timing = chip, chip.at(clock_hz)
        super().__init__({"pins": In(sdram_pins(chip)), "broken": Out(len(RULES)),
                          "cells": Out(cells_port(chip))})

    def elaborate(self, platform):
        m = Module()
        pins, self._rules = self.pins, {name: Signal(name=f"broken_{name}") for name in RULES}
        m.d.sync += self.broken.eq(self.broken | Cat(self._rules[name] for name in RULES))
        self._is = {command: pins.command == command for command in Command}
        self._open, self._rows = Signal(BANKS), Array(
            Signal(self.chip.row_bits, name=f"row{bank}") for bank in range(BANKS))
        self._burst, self._latency = Signal(4), Signal(3)       # of the mode register
        self._all = pins.address[10]
        self._stores = Signal(BANKS)            # a word is written in this cycle
        self._states(m)
        self._times(m)
        self._refreshes(m)
        self._columns(m)
        return m

    def _break(self, m: Module, rule: str, when) -> None:
        with m.If(when):
            m.d.comb += self._rules[rule].eq(1)

    def _states(self, m: Module) -> None:
        pins, mode, timing = self.pins, self.pins.address, self.timing
        here = self._open.bit_select(pins.bank, 1)
        with m.If(self._is[Command.ACTIVE]):
            m.d.sync += [here.eq(1), self._rows[pins.bank].eq(pins.address)]
            self._break(m, "row", here)
        with m.If(self._is[Command.PRECHARGE]):
            m.d.sync += self._open.eq(Mux(self._all, 0, self._open & ~(1 << pins.bank)))
        with m.If(self._is[Command.REFRESH]):
            self._break(m, "row", self._open != 0)
        with m.If(self._is[Command.MODE]):
            m.d.sync += [self._burst.eq(1 << mode[:2]), self._latency.eq(mode[4:7])]
            self._break(m, "row", self._open != 0)
            self._break(m, "mode", mode[2] | mode[3] | (mode[4:7] != timing.cas)
                        | (mode[7:] != 0))
        column = self._is[Command.READ] | self._is[Command.WRITE]
        self._break(m, "row", column & ~here)
        self._break(m, "mode", column & (self._burst == 0))
        self._break(m, "mode", column & self._all)              # auto-precharge is not used

    def _since(self, m: Module, name: str, event, most: int) -> Signal:
        """Cycles since an event, at most `most`; that many at first."""
        since = Signal(range(most + 1), init=most, name=f"since_{name}")
        with m.If(event):
            m.d.sync += since.eq(1)
        with m.Elif(since != most):
            m.d.sync += since.eq(since + 1)
        return since

    def _times(self, m: Module) -> None:
        """Measures the cycles since each kind of event, for the rules of a command."""
        pins, timing, of = self.pins, self.timing, self._is
        column, something = of[Command.READ] | of[Command.WRITE], ~of[Command.NOP]
        powered = Signal(range(timing.init + 1))
        with m.If(powered != timing.init):
            m.d.sync += powered.eq(powered + 1)
            self._break(m, "init", something)
        refreshed = self._since(m, "refresh", of[Command.REFRESH], timing.rfc)
        self._break(m, "rfc", something & (refreshed < timing.rfc))
        moded = self._since(m, "mode", of[Command.MODE], timing.mrd)
        self._break(m, "mrd", something & (moded < timing.mrd))
        opened = self._since(m, "active", of[Command.ACTIVE], timing.rrd)
        self._break(m, "rrd", of[Command.ACTIVE] & (opened < timing.rrd))
        for bank in range(BANKS):
            mine = pins.bank == bank
            closes = of[Command.PRECHARGE] & (mine | self._all)
            opens = of[Command.ACTIVE] & mine
            active = self._since(m, f"active{bank}", opens, timing.rc)
            closed = self._since(m, f"precharge{bank}", closes, timing.rp)
            written = self._since(m, f"write{bank}", self._stores[bank], timing.wr)
            self._break(m, "rcd", column & mine & (active < timing.rcd))
            self._break(m, "ras", closes & self._open[bank] & (active < timing.ras))
            self._break(m, "rc", (opens | of[Command.REFRESH]) & (active < timing.rc))
            self._break(m, "rp", (opens | of[Command.REFRESH] | of[Command.MODE])
                        & (closed < timing.rp))
            self._break(m, "wr", closes & (written < timing.wr))

    def _refreshes(self, m: Module) -> None:
        """Counts the refreshes that are owed once the mode is set."""
        timing, owed = self.timing, Signal(range(-1, POSTPONED + 2))
        ready, left = Signal(), Signal(range(timing.refresh), init=timing.refresh - 1)
        done, due = self._is[Command.REFRESH], Signal()
        with m.If(self._is[Command.MODE]):
            m.d.sync += ready.eq(1)
        with m.If(ready):
            m.d.comb += due.eq(left == 0)
            m.d.sync += [left.eq(Mux(due, timing.refresh - 1, left - 1)),
                         owed.eq(Mux(done & ~due & (owed <= 0), owed, owed + due - done))]
            self._break(m, "refresh", owed > POSTPONED)

    def _columns(self, m: Module) -> None:
        """Bursts: takes write data as they come, gives read data after the latency."""
        pins, chip = self.pins, self.chip
        cells = self.cells
        read, write = self._is[Command.READ], self._is[Command.WRITE]
        number, bank = Signal(4), Signal(2)             # the next column's within the burst
        first, reading, writing = Signal(chip.column_bits), Signal(), Signal()
        new = read | write
        with m.If(new):
            m.d.sync += [number.eq(1), bank.eq(pins.bank), first.eq(pins.address),
                         reading.eq(read & (self._burst > 1)),
                         writing.eq(write & (self._burst > 1))]
        with m.Elif(number == self._burst - 1):
            m.d.sync += [reading.eq(0), writing.eq(0), number.eq(0)]
        with m.Else():
            m.d.sync += number.eq(number + 1)
        at, where = Signal(chip.column_bits), Signal(2)
        offset = Mux(new, 0, number)
        begin = Mux(new, pins.address[:chip.column_bits], first)
        inside = self._burst - 1                        # a burst turns round within its block
        m.d.comb += [where.eq(Mux(new, pins.bank, bank)),
                     at.eq((begin & ~inside) | ((begin + offset) & inside))]
        stores = write | (writing & ~new)
        m.d.comb += [cells.addr.eq(Cat(at, where, self._rows[where])), cells.w_data.eq(pins.dq_o),
                     cells.w_mask.eq(Mux(stores & pins.dq_oe, ~pins.mask, 0)),
                     self._stores.eq(Mux(stores, 1 << where, 0))]
        self._break(m, "bus", stores & ~pins.dq_oe)
        drives, shown = read | (reading & ~new), cells.r_data
        for age in range(self.timing.cas):
            later = Signal(name=f"drives{age}")
            m.d.sync += later.eq(drives)
            drives = later
            if age:
                word = Signal(16, name=f"shown{age}")
                m.d.sync += word.eq(shown)
                shown = word
        m.d.comb += pins.dq_i.eq(Mux(drives, shown, 0xDEAD))
        self._break(m, "bus", drives & pins.dq_oe)
