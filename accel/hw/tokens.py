"""Dependence tokens: one counter for each ordered pair of units."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from accel.config import UNITS

__all__ = ["TOKEN_BITS", "Tokens", "token_port"]

TOKEN_BITS = 8


def token_port() -> Signature:
    """What a unit uses of the tokens; the names are those of `unit_signature`.

    waits, available : `available` is the set of units whose tokens for this unit are there.
    take : take one token from each unit in `waits`; they must be available.
    signals, signal, signalled : when no counter of a unit in `signals` is full, a request is
        granted in the same cycle, and each of these units gets one token.
    """
    count = len(UNITS)
    return Signature({"waits": Out(count), "available": In(count), "take": Out(1),
                      "signals": Out(count), "signal": Out(1), "signalled": In(1)})


class Tokens(wiring.Component):
    """Counters, each of `TOKEN_BITS` bits.

    `available` and `signalled` follow from registers and masks in the same cycle; a token that is
    signalled in cycle t is available in t + 1. A counter may be taken from and signalled to in
    one cycle; a full one is full even if it is taken from in that cycle. A unit may signal itself.

    Members
    -------
    units : ports, in the order of `UNITS`.
    empty : all counters are zero.
    """

    def __init__(self):
        super().__init__({"units": In(token_port()).array(len(UNITS)), "empty": Out(1)})
        self.counters = [[Signal(TOKEN_BITS, name=f"{source}_to_{target}") for target in UNITS]
                         for source in UNITS]

    def elaborate(self, platform):
        m = Module()
        full = (1 << TOKEN_BITS) - 1
        for source, row in enumerate(self.counters):
            port = self.units[source]
            fits = Cat(counter != full for counter in row)
            m.d.comb += port.signalled.eq(port.signal & (port.signals & ~fits == 0))
            for target, counter in enumerate(row):
                user = self.units[target]
                m.d.comb += user.available[source].eq(counter != 0)
                m.d.sync += counter.eq(counter + (port.signalled & port.signals[target])
                                       - (user.take & user.waits[source]))
        m.d.comb += self.empty.eq(Cat(counter for row in self.counters for counter in row) == 0)
        return m
