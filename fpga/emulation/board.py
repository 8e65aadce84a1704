"""The gateware of a board and its memory chip, if it has one, as one design for Verilator.

A reset resets everything, as power-on does, but the chip's cells keep their contents. The core is
most of the simulated design. It has its own copy of the clock, which may stop while no run is on:
nothing in the core changes then.
"""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from accel.hw.core import Core
from accel.machine.machine import Machine
from fpga.boards import BlockRam
from fpga.emulation.sdram_chip import RULES, SdramChip, cells_port
from fpga.gateware.memory import controller
from fpga.gateware.pads import simulated_pads
from fpga.gateware.top import Accelerator
from fpga.boards.sdram import ULX3S, Sdram


class OwnClock(Elaboratable):
    """Wraps an elaboratable: its clock and reset become the signals `clk` and `rst`."""

    def __init__(self, inner):
        self._inner, self._domain = inner, ClockDomain("own", local=True)
        # Within modules of the core they keep their names.
        self._domain.clk = self.clk = Signal(name="clk")
        self._domain.rst = self.rst = Signal(name="rst")

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    def elaborate(self, platform):
        m = Module()
        m.domains.own = self._domain
        m.submodules.inner = DomainRenamer("own")(self._inner)
        return m


class EmulatedGateware(wiring.Component):
    """The design of an emulated board; the module's docstring describes it.

    Members
    -------
    rx, tx : the serial line.
    stuck : the chip's data pins are stuck at 1; without a chip, nothing is.
    core_clk : the core's clock. It rises with that of everything else, or not at all.
    busy, starts : a run is on; a run is on from the next cycle.
    broken : a bit for each of `fpga.emulation.sdram_chip.RULES`.
    cells : the chip's memory array, which lies outside.
    """

    def __init__(self, machine: Machine, memory: Sdram | BlockRam, clock_hz: int, baud: int):
        self._core = OwnClock(Core(machine))
        self._accelerator = Accelerator(machine, memory.size_bytes, clock_hz, baud, self._core)
        self._controller = controller(machine.config, memory, clock_hz)
        self._chip = SdramChip(memory, clock_hz) if isinstance(memory, Sdram) else None
        super().__init__({"rx": In(1, init=1), "tx": Out(1), "stuck": In(1), "core_clk": In(1),
                          "busy": Out(1), "starts": Out(1), "broken": Out(len(RULES)),
                          "cells": Out(cells_port(memory if self._chip else ULX3S))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.accelerator = accelerator = self._accelerator
        m.submodules.controller = self._controller
        wiring.connect(m, accelerator.mem, self._controller.mem)
        if self._chip:
            self._attach(m, self._chip)
        m.d.comb += [
            accelerator.rx.eq(self.rx), self.tx.eq(accelerator.tx),
            self.busy.eq(accelerator.busy), self.starts.eq(accelerator.starts),
            self._core.clk.eq(self.core_clk), self._core.rst.eq(ResetSignal()),
        ]
        return m

    def _attach(self, m: Module, chip: SdramChip) -> None:
        """Connects the chip to the controller's pins and to its cells."""
        m.submodules.chip = chip
        wiring.connect(m, chip.cells, wiring.flipped(self.cells))
        there = chip.pins
        pins = there.signature.flip().create()
        m.d.comb += [getattr(there, name).eq(getattr(pins, name)) for name in
                     ("command", "bank", "address", "dq_o", "dq_oe", "mask")]
        simulated_pads(m, chip.chip, self._controller.pins, pins)
        m.d.comb += [pins.dq_i.eq(Mux(self.stuck, 0xFFFF, there.dq_i)),
                     self.broken.eq(chip.broken)]
