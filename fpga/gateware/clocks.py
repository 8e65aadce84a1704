"""Clocks and reset of a board with an ECP5, from its oscillator and one PLL."""

from amaranth.hdl import *
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer

from fpga.gateware.pll import Pll

CHIP = "chip"
"""Domain of a memory chip's clock: that of ``sync``, earlier by a lead."""


class Clocks(Elaboratable):
    """Drives the domains ``sync`` and `CHIP`. In reset until the PLL is locked, and by the button.

    Parameters
    ----------
    pll : settings.
    lead : seconds by which the clock of `CHIP` precedes that of ``sync``.
    oscillator, button : ports of the board; None without a button.
    """

    def __init__(self, pll: Pll, lead: float, oscillator: io.PortLike,
                 button: io.PortLike | None):
        self._pll, self._lead, self._oscillator, self._button = pll, lead, oscillator, button

    def elaborate(self, platform):
        m = Module()
        m.submodules.oscillator = oscillator = io.Buffer("i", self._oscillator)
        locked, reset, pll = Signal(), Signal(), self._pll
        m.d.comb += reset.eq(~locked)
        if self._button is not None:
            m.submodules.button = button = io.Buffer("i", self._button)
            m.d.comb += reset.eq(~locked | button.i)
        m.submodules.reset = ResetSynchronizer(reset)
        later, eighths = pll.lead(self._lead)
        m.submodules.pll = Instance(
            "EHXPLLL",
            # Analog settings that Lattice's tools choose for any frequency.
            a_ICP_CURRENT="12", a_LPF_RESISTOR="8", a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2", a_FREQUENCY_PIN_CLKI=f"{pll.input_hz / 1e6:g}",
            p_PLLRST_ENA="DISABLED", p_INTFB_WAKE="DISABLED", p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED",
            p_CLKI_DIV=pll.reference, p_CLKFB_DIV=pll.feedback,
            p_FEEDBK_PATH="INT_OS3", p_CLKOS3_ENABLE="ENABLED", p_CLKOS3_DIV=1,
            p_CLKOS3_CPHASE=0, p_CLKOS3_FPHASE=0,
            p_CLKOP_ENABLE="ENABLED", p_CLKOP_DIV=pll.output, p_CLKOP_CPHASE=pll.phase(0),
            p_CLKOP_FPHASE=0,
            p_CLKOS_ENABLE="ENABLED", p_CLKOS_DIV=pll.output, p_CLKOS_CPHASE=pll.phase(later),
            p_CLKOS_FPHASE=eighths,
            i_CLKI=oscillator.i, i_RST=Const(0), i_STDBY=Const(0), i_PHASESEL0=Const(0),
            i_PHASESEL1=Const(0), i_PHASEDIR=Const(1), i_PHASESTEP=Const(1),
            i_PHASELOADREG=Const(1), i_PLLWAKESYNC=Const(0), i_ENCLKOP=Const(0),
            o_CLKOP=ClockSignal(), o_CLKOS=ClockSignal(CHIP), o_LOCK=locked)
        return m
