"""The core's memory port as an AXI4 master (AMBA AXI protocol specification, ARM IHI 0022, AXI4).

Requests become INCR bursts as wide as the port. A burst must not cross a boundary of 4 KiB
(A3.4.1); a request that does becomes two bursts, and their responses one acknowledgement. All
transactions have ID 0, so that each channel keeps its order, as the port asks. Addresses, write
data and their valids come from registers: only `rready`, which follows the core, depends on an
input of the same cycle.
"""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, Signature
from amaranth.utils import exact_log2

from accel.hw.interface import memory_port
from accel.machine.config import AccelConfig, ConfigError

MOST_BYTES = 128        # of a beat
PAGE_BITS = 12          # of an address within 4 KiB
INCR = 1
BUFFERABLE_MODIFIABLE = 0b0011      # normal memory, uncached: the interconnect may merge bursts


def axi4_port(bus_bytes: int) -> Signature:
    """The five channels as a master sees them, under the names of the specification. Refuses a bus
    that is wider than its beats may be (ConfigError)."""
    if bus_bytes > MOST_BYTES:
        raise ConfigError(f"bus_bytes must be at most {MOST_BYTES} behind AXI4, whose beats have "
                          f"no more, not {bus_bytes}")

    def address(c: str) -> dict:
        return {f"a{c}id": Out(1), f"a{c}addr": Out(32), f"a{c}len": Out(8), f"a{c}size": Out(3),
                f"a{c}burst": Out(2), f"a{c}cache": Out(4), f"a{c}prot": Out(3),
                f"a{c}valid": Out(1), f"a{c}ready": In(1)}

    return Signature({
        **address("w"), **address("r"),
        "wdata": Out(8 * bus_bytes), "wstrb": Out(bus_bytes), "wlast": Out(1),
        "wvalid": Out(1), "wready": In(1),
        "bid": In(1), "bresp": In(2), "bvalid": In(1), "bready": Out(1),
        "rid": In(1), "rdata": In(8 * bus_bytes), "rresp": In(2), "rlast": In(1),
        "rvalid": In(1), "rready": Out(1),
    })


class Axi4Master(wiring.Component):
    """The AXI4 master; the module's docstring describes it.

    Members
    -------
    mem : the core's memory port (docs/machine.md, "Memory port"); its bursts may cross any
      boundary.
    axi : the master's channels.

    Parameters
    ----------
    outstanding : the most write bursts without a response. The core alone limits reads.
    """

    def __init__(self, config: AccelConfig, outstanding: int = 64):
        self._bus_bytes, self._outstanding = config.bus_bytes, outstanding
        # Beats − 1 of a burst, and whether another one of the same request follows.
        self._burst = data.StructLayout({"last": config.last_bits, "split": 1})
        super().__init__({"mem": In(memory_port(config)), "axi": Out(axi4_port(config.bus_bytes))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.lengths = lengths = SyncFIFO(width=self._burst.size, depth=self._outstanding)
        m.submodules.answers = answers = SyncFIFO(width=1, depth=self._outstanding)
        self._addresses(m, lengths, answers)
        self._write_data(m, lengths)
        self._responses(m, answers)
        self._read_data(m)
        return m

    def _addresses(self, m: Module, lengths: SyncFIFO, answers: SyncFIFO):
        """Passes requests, each as one burst or two, to the channels AW and AR."""
        axi, request = self.axi, self.mem.request
        asked = request.payload
        beat = exact_log2(self._bus_bytes)
        in_page = Signal(PAGE_BITS - beat + 1)          # beats up to the boundary
        second, splits = Signal(), Signal()
        m.d.comb += [
            in_page.eq((1 << (PAGE_BITS - beat)) - asked.addr[beat:PAGE_BITS]),
            splits.eq((asked.last >= in_page) & ~second),
        ]
        burst = Signal(self._burst)
        addr = Mux(second, Cat(Const(0, PAGE_BITS), asked.addr[PAGE_BITS:] + 1), asked.addr)
        m.d.comb += burst.split.eq(splits)
        with m.If(second):
            m.d.comb += burst.last.eq(asked.last - in_page)
        with m.Elif(splits):
            m.d.comb += burst.last.eq(in_page - 1)
        with m.Else():
            m.d.comb += burst.last.eq(asked.last)

        room = lengths.w_rdy & answers.w_rdy
        free = Mux(asked.write, (~axi.awvalid | axi.awready) & room, ~axi.arvalid | axi.arready)
        issue = Signal()
        m.d.comb += [
            issue.eq(request.valid & free), request.ready.eq(free & ~splits),
            lengths.w_data.eq(burst), lengths.w_en.eq(issue & asked.write),
            answers.w_data.eq(splits), answers.w_en.eq(issue & asked.write),
        ]
        with m.If(issue):
            m.d.sync += second.eq(splits)
        for c, chosen in (("w", asked.write), ("r", ~asked.write)):
            valid, ready = getattr(axi, f"a{c}valid"), getattr(axi, f"a{c}ready")
            m.d.comb += [
                getattr(axi, f"a{c}size").eq(beat), getattr(axi, f"a{c}burst").eq(INCR),
                getattr(axi, f"a{c}cache").eq(BUFFERABLE_MODIFIABLE),
            ]
            with m.If(issue & chosen):
                m.d.sync += [valid.eq(1), getattr(axi, f"a{c}addr").eq(addr),
                             getattr(axi, f"a{c}len").eq(burst.last)]
            with m.Elif(ready):
                m.d.sync += valid.eq(0)

    def _write_data(self, m: Module, lengths: SyncFIFO):
        """Passes beats of writes, and marks the last one of each burst."""
        axi, wdata = self.axi, self.mem.wdata
        burst = data.View(self._burst, lengths.r_data)
        count = Signal.like(burst.last)
        free, last, take = ~axi.wvalid | axi.wready, Signal(), Signal()
        m.d.comb += [
            last.eq(count == burst.last), wdata.ready.eq(free & lengths.r_rdy),
            take.eq(wdata.valid & wdata.ready), lengths.r_en.eq(take & last),
        ]
        with m.If(take):
            m.d.sync += [axi.wvalid.eq(1), axi.wdata.eq(wdata.payload.data),
                         axi.wstrb.eq(wdata.payload.mask), axi.wlast.eq(last),
                         count.eq(Mux(last, 0, count + 1))]
        with m.Elif(axi.wready):
            m.d.sync += axi.wvalid.eq(0)

    def _responses(self, m: Module, answers: SyncFIFO):
        """Gives one acknowledgement a request, with an error if one of its bursts had one."""
        axi, ack = self.axi, self.mem.ack
        failed, failing = Signal(), Signal()
        m.d.comb += [axi.bready.eq(1), answers.r_en.eq(axi.bvalid),
                     failing.eq(failed | axi.bresp[1])]
        m.d.sync += ack.valid.eq(axi.bvalid & ~answers.r_data)
        with m.If(axi.bvalid):
            m.d.sync += [ack.payload.error.eq(failing), failed.eq(failing & answers.r_data)]

    def _read_data(self, m: Module):
        axi, rdata = self.axi, self.mem.rdata
        m.d.comb += [rdata.valid.eq(axi.rvalid), rdata.payload.data.eq(axi.rdata),
                     rdata.payload.error.eq(axi.rresp[1]), axi.rready.eq(rdata.ready)]
