"""The gateware of a board with SDRAM and its chip, as one design for Verilator.

A reset is one of everything, as when the board is switched on; what is in the chip's cells stays.
"""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.machine import Machine
from fpga.emulation.sdram_chip import RULES, SdramChip, cells_port
from fpga.gateware.pads import simulated_pads
from fpga.gateware.sdram import SdramController
from fpga.gateware.top import Accelerator
from fpga.sdram import Sdram

__all__ = ["SdramBoard"]


class SdramBoard(wiring.Component):
    """See the module's text.

    Members
    -------
    rx, tx : the serial line.
    stuck : the chip's data pins are stuck at 1.
    busy : a run is on.
    broken : a bit for each of `fpga.emulation.sdram_chip.RULES`.
    cells : the chip's memory array, which lies outside.
    """

    def __init__(self, machine: Machine, chip: Sdram, clock_hz: int, baud: int):
        self._accelerator = Accelerator(machine, chip.size_bytes, clock_hz, baud)
        self._controller = SdramController(machine.config, chip, clock_hz)
        self._chip = SdramChip(chip, clock_hz)
        super().__init__({"rx": In(1, init=1), "tx": Out(1), "stuck": In(1), "busy": Out(1),
                          "broken": Out(len(RULES)), "cells": Out(cells_port(chip))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.accelerator = accelerator = self._accelerator
        m.submodules.controller = controller = self._controller
        m.submodules.chip = self._chip
        wiring.connect(m, accelerator.mem, controller.mem)
        wiring.connect(m, self._chip.cells, wiring.flipped(self.cells))
        there = self._chip.pins
        pins = there.signature.flip().create()
        m.d.comb += [getattr(there, name).eq(getattr(pins, name)) for name in
                     ("command", "bank", "address", "dq_o", "dq_oe", "mask")]
        simulated_pads(m, self._chip.chip, controller.pins, pins)
        m.d.comb += [
            pins.dq_i.eq(Mux(self.stuck, 0xFFFF, there.dq_i)), accelerator.rx.eq(self.rx),
            self.tx.eq(accelerator.tx), self.busy.eq(accelerator.busy),
            self.broken.eq(self._chip.broken),
        ]
        return m
