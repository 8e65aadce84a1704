"""Hazards: sources in acc that are destinations not yet written."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.hw.loops import COMPUTE_OPERANDS

SOURCES = data.StructLayout({"a_acc": 1, "b_acc": 1, "a": COMPUTE_OPERANDS["a"],
                             "b": COMPUTE_OPERANDS["b"]})
"""The sources of an iteration: whether they are in acc, and their entries."""


class Hazards(wiring.Component):
    """Flags that hold the iteration in the issue slot back while a write to acc is pending.

    An entry that is written by an iteration of cycle t (`writes`) is pending up to
    ``t + write_cycles``. There is a flag for each place that a destination can be in between issue
    and write. It is set when an iteration enters the slot and moves along with that destination, so
    that registers alone decide.

    Parameters
    ----------
    depth : entries of acc, a power of two; bits of addresses above it do not count.
    write_cycles : from the issue of an iteration to its write.

    Members
    -------
    enters, incoming : an iteration enters the slot at the end of the cycle, and its sources.
    writes, entry : the iteration in the slot is issued and writes to acc, and where.
    pending : a source of the iteration in the slot is pending.
    """

    def __init__(self, depth: int, write_cycles: int):
        self.depth, self.write_cycles = depth, write_cycles
        super().__init__({"enters": In(1), "incoming": In(SOURCES), "writes": In(1),
                          "entry": In(COMPUTE_OPERANDS["dst"]), "pending": Out(1)})

    def elaborate(self, platform):
        m = Module()
        destinations = [Signal(data.StructLayout({"acc": 1, "entry": COMPUTE_OPERANDS["dst"]}),
                               name=f"s{cycle}_destination")
                        for cycle in range(1, self.write_cycles + 1)]
        m.d.sync += [destinations[0].acc.eq(self.writes), destinations[0].entry.eq(self.entry),
                     *(later.eq(before) for before, later in
                       zip(destinations, destinations[1:], strict=False))]

        flags = [Signal(name=f"s0_waits_for_s{cycle}") for cycle in range(1, self.write_cycles + 1)]
        waits_for_later = Signal(name="s0_waits_for_later")     # for others than the first
        places = [(self.writes, self.entry), *((place.acc, place.entry) for place in destinations)]
        meets = [self._meets(acc, entry) for acc, entry in places[:len(flags)]]
        with m.If(self.enters):
            m.d.sync += [*(flag.eq(meet) for flag, meet in zip(flags, meets, strict=True)),
                         waits_for_later.eq(Cat(meets[1:]).any())]
        with m.Else():
            m.d.sync += [*(flag.eq(before) for flag, before in
                           zip(flags, (0, *flags), strict=False)),
                         waits_for_later.eq(Cat(flags[:-1]).any())]
        m.d.comb += self.pending.eq(flags[0] | waits_for_later)
        return m

    def _meets(self, acc: Value, entry: Value) -> Value:
        """High if a source of the incoming iteration is this destination."""
        width = Shape.cast(range(self.depth)).width
        incoming = self.incoming
        return acc & Cat(in_acc & (address[:width] == entry[:width]) for in_acc, address in
                         ((incoming.a_acc, incoming.a), (incoming.b_acc, incoming.b))).any()
