"""One memory port for fetch, the unit that loads and the one that stores."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, Signature
from amaranth.utils import exact_log2

from accel.hw.interface import memory_port
from accel.hw.parts import delayed
from accel.hw.queue import Queue
from accel.machine.config import AccelConfig
from accel.machine.structure import FETCH

def block_bits(config: AccelConfig) -> int:
    """Bits of an address within a block; no burst crosses a boundary of blocks."""
    return exact_log2(config.block_bytes)



def burst_layout(config: AccelConfig) -> data.StructLayout:
    """A request of a client: beats − 1 in `last`; the rules of the memory port hold."""
    return data.StructLayout({"addr": 32, "last": config.last_bits})


def read_port(config: AccelConfig) -> Signature:
    """Read port of a unit. The unit accepts its beats without waiting for any other."""
    memory = memory_port(config).members
    return Signature({"request": Out(stream.Signature(burst_layout(config))),
                      "rdata": memory["rdata"]})


def write_port(config: AccelConfig) -> Signature:
    """Write port of a unit, which has all beats of a burst when it requests it, and is always
    ready for `ack`.
    """
    memory = memory_port(config).members
    return Signature({"request": Out(stream.Signature(burst_layout(config))),
                      "wdata": memory["wdata"],
                      "ack": memory["ack"]})


class Arbiter(wiring.Component):
    """Interleaves the bursts of its clients: fetch before store before load, burst by burst.

    A request is offered to the memory in the cycle after the client's; one a cycle, while fewer
    than `bursts` are open (one is closed `closing_cycles` after its last beat or acknowledgement).
    Write data is offered from the cycle after the memory accepted its request. Data that is read
    and acknowledgements pass through combinationally.

    Members
    -------
    fetch, and the names of the two units : the clients.
    mem : the memory.
    open : bursts that were accepted from clients and are not complete.
    moved_{client} : a beat passes in this cycle.
    """

    def __init__(self, config: AccelConfig):
        self._timing, self._last = config.timing, config.last_bits
        self._beats = max(16, config.burst_beats)
        load, store = config.structure.roles.load, config.structure.roles.store
        super().__init__({
            FETCH: In(read_port(config)), load: In(read_port(config)),
            store: In(write_port(config)), "mem": Out(memory_port(config)),
            "open": Out(range(config.timing.bursts + 1)),
            **{f"moved_{client}": Out(1) for client in config.structure.clients},
        })
        self.clients, self.bursts = (FETCH, store, load), config.timing.bursts
        self.ended = config.timing.extra("closing_cycles")
        self._fetch, self._load, self._store = (
            getattr(self, name) for name in (FETCH, load, store))
        self._moved_fetch, self._moved_load, self._moved_store = (
            getattr(self, f"moved_{name}") for name in (FETCH, load, store))

    def elaborate(self, platform):
        m, bursts = Module(), self._timing.bursts
        m.submodules.owners = owners = Queue(
            data.StructLayout({"load": 1, "last": self._last}), bursts, self._timing.queue_cycles)
        full = Signal()             # no more may be open
        self._requests(m, owners, full)
        read_done = self._reads(m, owners)
        self._writes(m)
        opened, closed = Signal(name="opened"), Signal(2, name="closed")
        left = Signal.like(self.open, name="left")
        one_more = Signal.like(self.open)
        m.d.comb += [
            opened.eq(Cat(client.request.valid & client.request.ready
                          for client in (self._fetch, self._store, self._load)).any()),
            left.eq(self.open - closed[0] - closed[1]),
            one_more.eq(self.open + 1 - closed[0] - closed[1]),
        ]
        ended = delayed(m, Cat(read_done, self.mem.ack.valid), self.ended, "ended")
        m.d.sync += [closed.eq(ended),
                     self.open.eq(Mux(opened, one_more, left)),
                     full.eq(Mux(opened, left == bursts - 1, left == bursts))]
        return m

    def _requests(self, m: Module, owners: Queue, full: Signal):
        """The client with the highest priority fills the request register."""
        request = self.mem.request
        free = Signal()
        m.d.comb += free.eq((~request.valid | request.ready) & ~full)
        with m.If(request.ready):
            m.d.sync += request.valid.eq(0)
        taken = Const(0, 1)
        for client in (self._fetch, self._store, self._load):
            m.d.comb += client.request.ready.eq(free & ~taken)
            with m.If(client.request.valid & client.request.ready):
                m.d.sync += [request.valid.eq(1), request.p.addr.eq(client.request.p.addr),
                             request.p.last.eq(client.request.p.last),
                             request.p.write.eq(client is self._store)]
                if client is not self._store:     # as deep as bursts may be open: always ready
                    m.d.comb += [owners.i.valid.eq(1), owners.i.p.load.eq(client is self._load),
                                 owners.i.p.last.eq(client.request.p.last)]
            taken = taken | client.request.valid

    def _reads(self, m: Module, owners: Queue) -> Value:
        """Passes beats to the owner of the oldest burst; returns whether it ends in this cycle."""
        beat, moved = Signal(self._last, name="beat"), Signal(name="moved")
        rdata = self.mem.rdata
        for client, mine, count in ((self._fetch, ~owners.o.p.load, self._moved_fetch),
                                    (self._load, owners.o.p.load, self._moved_load)):
            m.d.comb += [client.rdata.payload.eq(rdata.payload),
                         client.rdata.valid.eq(rdata.valid & owners.o.valid & mine),
                         count.eq(client.rdata.valid & client.rdata.ready)]
            with m.If(owners.o.valid & mine):
                m.d.comb += rdata.ready.eq(client.rdata.ready)
        m.d.comb += [moved.eq(self._moved_fetch | self._moved_load),
                     owners.o.ready.eq(moved & (beat == owners.o.p.last))]
        with m.If(moved):
            m.d.sync += beat.eq(Mux(owners.o.ready, 0, beat + 1))
        return owners.o.ready

    def _writes(self, m: Module):
        """Beats follow their accepted request: `due` counts those that may pass."""
        request, wdata = self.mem.request, self.mem.wdata
        due = Signal(range(self._timing.bursts * self._beats + 1), name="due")
        some = Signal(name="some_due")
        accepted = request.valid & request.ready & request.p.write
        m.d.comb += [
            wdata.payload.eq(self._store.wdata.payload),
            wdata.valid.eq(self._store.wdata.valid & some),
            self._store.wdata.ready.eq(wdata.ready & some),
            self._moved_store.eq(wdata.valid & wdata.ready),
            self._store.ack.payload.eq(self.mem.ack.payload),
            self._store.ack.valid.eq(self.mem.ack.valid),
            self.mem.ack.ready.eq(1),
        ]
        m.d.sync += [
            due.eq(due + Mux(accepted, request.p.last + 1, 0) - self._moved_store),
            some.eq(accepted | Mux(self._moved_store, due != 1, some)),
        ]
