"""The shared scratchpad: the first bytes of the activations segment, kept on chip."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.hw.moving.arbiter import block_bits, read_port, write_port
from accel.hw.parts import RAM_CYCLES, Ram, delayed
from accel.hw.queue import Queue
from accel.machine.config import AccelConfig


class Shared(wiring.Component):
    """Answers the bursts of load and store whose addresses are its own; others pass.

    Its addresses are the `shared_bytes` from `base` on, modulo 2^32, so that a tensor may lie in it
    in part. It reads and writes a beat of the bus a cycle each, beside the memory.

    Reads are answered in the order of requests: of bursts of either side up to `bursts` wait. A
    burst that is accepted in cycle t, with nothing before it, offers its first beat in
    t + 2 + `shared_cycles`, then one a cycle. A read of the memory passes combinationally, but not
    while beats from here are on their way.

    A write waits until all writes of the other side are acknowledged. A burst that is accepted in
    cycle t takes its first beat in t + 1, one a cycle, and is acknowledged two cycles after its
    last.

    Members
    -------
    base : the first of its addresses, a multiple of a block; constant while a program runs.
    reader, writer : load and store.
    reader_mem, writer_mem : the arbiter.
    """

    def __init__(self, config: AccelConfig):
        self._config = config
        super().__init__({
            "base": In(32), "reader": In(read_port(config)), "writer": In(write_port(config)),
            "reader_mem": Out(read_port(config)), "writer_mem": Out(write_port(config)),
        })

    def elaborate(self, platform):
        m, config = Module(), self._config
        width = 8 * config.bus_bytes
        m.submodules.storage = storage = Ram(
            width, config.shared_bytes // config.bus_bytes, 8)
        self._reads(m, storage)
        self._writes(m, storage)
        return m

    def _own(self, addr: Value) -> tuple[Value, Value]:
        """Decodes an address: is it one of those here, and in which beat of them does it lie?"""
        low = block_bits(self._config)
        block = (addr[low:] - self.base[low:])[:32 - low]
        bits = exact_log2(self._config.shared_bytes)
        beat = Cat(addr[exact_log2(self._config.bus_bytes):low], block)
        return ~block[bits - low:].any(), beat[:bits - exact_log2(self._config.bus_bytes)]

    def _reads(self, m: Module, storage: Ram):
        timing, request, mem = self._config.timing, self.reader.request, self.reader_mem
        own, place = self._own(request.p.addr)
        last = self._config.last_bits
        m.submodules.order = order = Queue(
            data.StructLayout({"own": 1, "place": len(place), "last": last}), timing.bursts)
        m.submodules.beats = beats = Queue(
            8 * self._config.bus_bytes, timing.shared_room, 1)
        m.d.comb += [
            mem.request.payload.eq(request.payload),
            mem.request.valid.eq(request.valid & ~own & order.i.ready),
            request.ready.eq(order.i.ready & (own | mem.request.ready)),
            order.i.valid.eq(request.valid & (own | mem.request.ready)),
            order.i.p.own.eq(own), order.i.p.place.eq(place), order.i.p.last.eq(request.p.last),
        ]
        # The beats of a burst: those that are read from the memory here, `there` of which have not
        # been taken, and those that pass.
        beat, there, head = Signal(last), Signal(range(timing.shared_room + 1)), order.o
        issued, passed, taken = Signal(), Signal(), Signal()
        passes = head.valid & ~head.p.own & (there == 0)
        m.d.comb += [
            issued.eq(head.valid & head.p.own & (there != timing.shared_room)),
            passed.eq(passes & mem.rdata.valid & self.reader.rdata.ready),
            taken.eq(beats.o.valid & self.reader.rdata.ready),
            head.ready.eq((issued | passed) & (beat == head.p.last)),
            storage.r_addr.eq(head.p.place + beat), storage.r_en.eq(issued),
            beats.i.valid.eq(delayed(m, issued, timing.shared_cycles, "issued")),
            beats.i.payload.eq(delayed(m, storage.r_data, timing.shared_cycles - RAM_CYCLES,
                                       "data", reset_less=True)),
            beats.o.ready.eq(self.reader.rdata.ready),
            mem.rdata.ready.eq(passes & self.reader.rdata.ready),
            self.reader.rdata.valid.eq(beats.o.valid | passes & mem.rdata.valid),
            self.reader.rdata.p.data.eq(Mux(there == 0, mem.rdata.p.data, beats.o.payload)),
            self.reader.rdata.p.error.eq((there == 0) & mem.rdata.p.error),
        ]
        m.d.sync += there.eq(there + issued - taken)
        with m.If(issued | passed):
            m.d.sync += beat.eq(Mux(head.ready, 0, beat + 1))

    def _writes(self, m: Module, storage: Ram):
        timing, request, mem = self._config.timing, self.writer.request, self.writer_mem
        own, place = self._own(request.p.addr)
        # Bursts that are not acknowledged, all of one side; of the one here, the beats to come.
        unanswered, here = Signal(range(timing.bursts + 1)), Signal()
        at, left, writes = Signal.like(place), Signal(self._config.last_bits + 1), Signal()
        acknowledged, accepted, free = Signal(), Signal(), Signal()
        ends = writes & (left == 1)
        m.d.comb += [
            free.eq((unanswered == 0) | (here == own)),
            mem.request.payload.eq(request.payload),
            mem.request.valid.eq(request.valid & ~own & free),
            request.ready.eq(free & Mux(own, (left == 0) | ends, mem.request.ready)),
            accepted.eq(request.valid & request.ready),
            writes.eq((left != 0) & self.writer.wdata.valid),
            storage.w_addr.eq(at), storage.w_data.eq(self.writer.wdata.p.data),
            storage.w_en.eq(self.writer.wdata.p.mask & writes.replicate(len(storage.w_en))),
            mem.wdata.payload.eq(self.writer.wdata.payload),
            mem.wdata.valid.eq(self.writer.wdata.valid & (left == 0)),
            self.writer.wdata.ready.eq((left != 0) | mem.wdata.ready),
            self.writer.ack.valid.eq(mem.ack.valid | delayed(m, ends, 2, "ends")),
            self.writer.ack.p.error.eq(mem.ack.valid & mem.ack.p.error),
            mem.ack.ready.eq(1), acknowledged.eq(self.writer.ack.valid),
        ]
        m.d.sync += unanswered.eq(unanswered + accepted - acknowledged)
        with m.If(writes):
            m.d.sync += [at.eq(at + 1), left.eq(left - 1)]
        with m.If(accepted):
            m.d.sync += here.eq(own)
        with m.If(accepted & own):
            m.d.sync += [at.eq(place), left.eq(request.p.last + 1)]
