"""Registers behind AXI4-Lite (AMBA AXI protocol specification, ARM IHI 0022, part B)."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from fpga.gateware.registers import READ_CYCLES
from fpga.link.registers import WORDS

ADDRESS_BITS = 12       # the least size that tools assign
SLVERR = 0b10


def axi4_lite_port() -> Signature:
    """The five channels as a master sees them, 32 bits wide."""
    def address(c: str) -> dict:
        return {f"a{c}addr": Out(ADDRESS_BITS), f"a{c}prot": Out(3), f"a{c}valid": Out(1),
                f"a{c}ready": In(1)}

    return Signature({
        **address("w"), **address("r"),
        "wdata": Out(32), "wstrb": Out(4), "wvalid": Out(1), "wready": In(1),
        "bresp": In(2), "bvalid": In(1), "bready": Out(1),
        "rdata": In(32), "rresp": In(2), "rvalid": In(1), "rready": Out(1),
    })


class Axi4LiteSlave(wiring.Component):
    """Performs one access at a time; a read and a write that both wait take turns.

    An access beyond the last register, or a write of less than a word, does nothing and is answered
    with SLVERR.

    Members
    -------
    axi : the channels; an address counts bytes, its two lowest bits are ignored.
    addr, r_data, w_en, w_data : those of `fpga.gateware.registers.Registers`.
    """

    def __init__(self):
        super().__init__({
            "axi": In(axi4_lite_port()),
            "addr": Out(range(WORDS)), "r_data": In(32), "w_en": Out(1), "w_data": Out(32),
        })

    def elaborate(self, platform):
        m = Module()
        axi = self.axi
        reads, read_addr = self._kept(m, axi.arvalid, axi.arready, axi.araddr[2:])
        addressed, write_addr = self._kept(m, axi.awvalid, axi.awready, axi.awaddr[2:])
        given, data = self._kept(m, axi.wvalid, axi.wready, Cat(axi.wdata, axi.wstrb))
        with m.If(axi.bready):
            m.d.sync += axi.bvalid.eq(0)
        with m.If(axi.rready):
            m.d.sync += axi.rvalid.eq(0)
        m.d.comb += self.w_data.eq(data)
        waits = Signal(range(READ_CYCLES + 1))
        with m.FSM():
            with m.State("IDLE"):
                # A read waits for at most one write: the next one cannot arrive a cycle later.
                with m.If(addressed & given & ~axi.bvalid):
                    known = (write_addr < WORDS) & data[32:].all()
                    m.d.comb += [self.addr.eq(write_addr), self.w_en.eq(known)]
                    m.d.sync += [addressed.eq(0), given.eq(0), axi.bvalid.eq(1),
                                 axi.bresp.eq(Mux(known, 0, SLVERR))]
                with m.Elif(reads & ~axi.rvalid):
                    m.d.comb += self.addr.eq(read_addr)
                    m.d.sync += waits.eq(READ_CYCLES - 1)
                    m.next = "READ"
            with m.State("READ"):
                m.d.sync += waits.eq(waits - 1)
                with m.If(waits == 0):
                    known = read_addr < WORDS
                    m.d.sync += [reads.eq(0), axi.rvalid.eq(1),
                                 axi.rdata.eq(Mux(known, self.r_data, 0)),
                                 axi.rresp.eq(Mux(known, 0, SLVERR))]
                    m.next = "IDLE"
        return m

    def _kept(self, m: Module, valid, ready, payload) -> tuple[Signal, Signal]:
        """A flag for a stored payload, and the payload; its reader clears the flag."""
        there, kept = Signal(), Signal(len(payload), reset_less=True)
        m.d.comb += ready.eq(~there)
        with m.If(valid & ready):
            m.d.sync += [there.eq(1), kept.eq(payload)]
        return there, kept
