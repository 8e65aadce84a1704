"""The pins of an SDRAM chip, each with its register in its I/O cell.

The chip's clock is that of the domain `fpga.gateware.clocks.CHIP`, which leads by
`fpga.gateware.margins.LEAD`; `fpga/gateware/margins.py` computes the resulting margins.
"""

from types import SimpleNamespace

from amaranth.hdl import *
from amaranth.lib import io, wiring
from amaranth.lib.wiring import In

from fpga.gateware.clocks import CHIP
from fpga.gateware.sdram import sdram_pins
from fpga.boards.sdram import Sdram


class SdramPads(wiring.Component):
    """Registers of the pins: one cycle from `pins` to the chip, one from the chip to `pins`.

    Parameters
    ----------
    ports : amaranth_boards' ``sdram``: clk, clk_en, cs where the board has them; ras,
        cas, we, ba, a, dq, dqm. Active-low ones are inverted ports.
    """

    def __init__(self, chip: Sdram, ports):
        self._ports = ports
        super().__init__({"pins": In(sdram_pins(chip))})

    def elaborate(self, platform):
        m = Module()
        pins, ports = self.pins, self._ports
        outputs = {
            "ras": ~pins.command[2], "cas": ~pins.command[1], "we": ~pins.command[0],
            "ba": pins.bank, "a": pins.address, "dqm": pins.mask,
            # Until the clock runs, these are low, and the chip ignores its pins.
            "clk_en": Const(1), "cs": Const(1),
        }
        for name, value in outputs.items():
            if hasattr(ports, name):
                m.submodules[name] = buffer = io.FFBuffer("o", getattr(ports, name))
                m.d.comb += buffer.o.eq(value)
        m.submodules.dq = dq = io.FFBuffer("io", ports.dq)
        m.d.comb += [dq.o.eq(pins.dq_o), dq.oe.eq(pins.dq_oe), pins.dq_i.eq(dq.i)]
        if hasattr(ports, "clk"):
            m.submodules.clk = clock = io.DDRBuffer("o", ports.clk, o_domain=CHIP)
            m.d.comb += [clock.o[0].eq(1), clock.o[1].eq(0)]
        return m


def simulated_pads(m: Module, chip: Sdram, controller, there) -> None:
    """Connects a controller and a chip in simulation (`sdram_pins` both) with the delays of
    `SdramPads`. The chip has no clock of its own there.
    """
    widths = {"ras": 1, "cas": 1, "we": 1, "ba": 2, "a": max(chip.row_bits, 11), "dqm": 2}
    ports = SimpleNamespace(
        dq=io.SimulationPort("io", 16, name="dq"),
        **{name: io.SimulationPort("o", width, name=name) for name, width in widths.items()})
    m.submodules.pads = pads = SdramPads(chip, ports)
    wiring.connect(m, controller, pads.pins)
    m.d.comb += [
        there.command.eq(~Cat(ports.we.o, ports.cas.o, ports.ras.o)), there.bank.eq(ports.ba.o),
        there.address.eq(ports.a.o), there.mask.eq(ports.dqm.o), there.dq_o.eq(ports.dq.o),
        there.dq_oe.eq(ports.dq.oe[0]), ports.dq.i.eq(there.dq_i),
    ]
