"""Dependence tokens: one counter for each ordered pair of units."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from accel.hw.queue import tally
from accel.machine.structure import SHIPPED_STRUCTURE, Structure
from accel.machine.timing import CoreTiming


def token_port(count: int) -> Signature:
    """The token signals of one of `count` units, named as in `unit_signature`.

    waits, available : `available` is the set of units whose tokens for this unit are there.
    take : take one token from each unit in `waits`; they must be available.
    signals, signal, signalled, refused : a request that stands is granted in the cycle after the
        first in which no counter of a unit in `signals` is full: each of these units gets one
        token. In the cycle after one in which some counter was full, it is refused.
    """
    return Signature({"waits": Out(count), "available": In(count), "take": Out(1),
                      "signals": Out(count), "signal": Out(1), "signalled": In(1),
                      "refused": In(1)})


class Tokens(wiring.Component):
    """Counters, each of `token_bits` bits.

    `available`, `signalled` and `refused` are registers. A token that is signalled in cycle t is
    available in t + 1, one that is taken in t is gone in t + 2: a unit looks at `available` again
    in t + 2 or later, and signals again not before. A counter may be taken from and signalled to in
    one cycle; a full one that is taken from in t is full until t + 1. A unit may signal itself.

    Members
    -------
    units : ports, in the order of units.
    empty : all counters are zero.
    """

    def __init__(self, timing: CoreTiming, structure: Structure = SHIPPED_STRUCTURE):
        self._timing, self.names = timing, structure.names
        count = len(self.names)
        super().__init__({"units": In(token_port(count)).array(count), "empty": Out(1)})
        self.counters: list[list[Signal]] = []

    def elaborate(self, platform):
        m = Module()
        left = []
        for number, (source, port) in enumerate(zip(self.names, self.units, strict=True)):
            row, fulls = [], []
            for place, (target, user) in enumerate(zip(self.names, self.units, strict=True)):
                signalled = port.signalled & port.signals[place]
                taken = Signal(name=f"{source}_to_{target}_taken")
                m.d.sync += taken.eq(user.take & user.waits[number])
                count, some, full = tally(m, f"{source}_to_{target}", self._timing.tokens,
                                          signalled, taken)
                m.d.comb += user.available[number].eq(some)
                row.append(count)
                fulls.append(full)
                left.append(some)
            stands, fits = port.signal & ~port.signalled, ~(port.signals & Cat(fulls)).any()
            m.d.sync += [port.signalled.eq(stands & fits), port.refused.eq(stands & ~fits)]
            self.counters.append(row)
        m.d.comb += self.empty.eq(~Cat(left).any())
        return m
