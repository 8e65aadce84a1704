"""The fetch unit: reads the program, hands each instruction to its unit, performs FINISH."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.hw.moving.arbiter import burst_layout, read_port
from accel.hw.core.commands import handover, word_part
from accel.hw.interface import INDEX_BITS
from accel.hw.parts import follows
from accel.hw.queue import Queue, relay, tally
from accel.machine.isa import WORD_BYTES
from accel.machine.machine import FINISH, Machine
from accel.machine.status import Status

class Fetch(wiring.Component):
    """The fetch unit. It works while `run` is set; a reset takes it back to the first instruction.

    The first request is offered in the second cycle of `run`; up to `prefetch` words are on the
    way, and there is always room for them. A word is assembled in the queues (`handover`), and
    offered to its own three cycles after its last beat came, at best one every
    WORD_BYTES / bus_bytes + 1 cycles, two where a beat has several words; its opcode is decoded
    meanwhile. FINISH starts in its first cycle here and retires in a later one, the first after
    `quiet` was set.

    Errors, for the instruction at hand: an unknown opcode; a word that came with a bus error;
    FINISH with tokens left. The error is a pulse; nothing is handed on after it: fetch stays
    blocked.

    Members
    -------
    run : work.
    base, count : address of the program, a multiple of 64; number of its instructions.
    mem : read port at the arbiter.
    (the name of each unit) : to its queue.
    quiet : in the cycle before, all queues were empty and all units idle.
    tokens_empty : all token counters are zero.
    started, started_index, retired, retired_index : events of FINISH.
    error, error_index, error_status : which failed, and how.
    blocked : the queue at hand is full, FINISH waits, the program has ended without FINISH, or the
        instruction at hand has an error.
    index : position of the instruction at hand, `count` at the end.
    """

    def __init__(self, machine: Machine):
        self._machine, self._units = machine, machine.structure.names
        super().__init__({
            "run": In(1), "base": In(32), "count": In(INDEX_BITS),
            "mem": Out(read_port(machine.config)),
            **{unit: Out(handover(machine.config)) for unit in self._units},
            "quiet": In(1), "tokens_empty": In(1),
            "started": Out(1), "started_index": Out(INDEX_BITS),
            "retired": Out(1), "retired_index": Out(INDEX_BITS),
            "error": Out(1), "error_index": Out(INDEX_BITS), "error_status": Out(Status),
            "blocked": Out(1), "index": Out(INDEX_BITS),
        })

    def elaborate(self, platform):
        m = Module()
        config, timing = self._machine.config, self._machine.config.timing
        beats = WORD_BYTES // word_part(config)
        m.submodules.buffer = buffer = Queue(
            data.StructLayout({"data": word_part(config) * 8, "error": 1}),
            timing.prefetch * beats, timing.queue_cycles)
        full, bad = Signal(), Signal()
        kind = Signal(data.StructLayout({"finish": 1, **dict.fromkeys(self._units, 1)}),
                      reset_less=True)     # one-hot; zero: the opcode is unknown
        handed = Signal()           # the word at hand leaves in this cycle
        last = self._assemble(m, platform, buffer, full, bad, kind, handed)
        self._prefetch(m, beats, last)
        rdata = self.mem.rdata
        m.d.comb += [
            buffer.i.valid.eq(rdata.valid), buffer.i.payload.eq(self._part(m, rdata)),
            rdata.ready.eq(1),          # no more is requested than there is room for
        ]
        self._hand_on(m, full & self.run, bad, kind, handed)
        return m

    def _part(self, m: Module, rdata) -> Value:
        """What is of the word that comes, if a beat is longer than that: for each word its beat is
        read."""
        bus, arrived = self._machine.config.bus_bytes, Signal(INDEX_BITS)
        if bus <= WORD_BYTES:
            return Value.cast(rdata.payload)
        with m.If(rdata.valid & rdata.ready):
            m.d.sync += arrived.eq(arrived + 1)
        place = ((self.base >> exact_log2(WORD_BYTES)) + arrived)[:exact_log2(bus // WORD_BYTES)]
        return Cat(rdata.p.data.word_select(place, WORD_BYTES * 8), rdata.p.error)

    def _prefetch(self, m: Module, beats: int, freed: Value):
        timing = self._machine.config.timing
        m.submodules.requests = requests = relay(burst_layout(self._machine.config),
                                                timing.relay_cycles)
        requested, request = Signal(INDEX_BITS), requests.i
        accepted = request.valid & request.ready
        _, _, full = tally(m, "ahead", timing.prefetch, accepted, freed)
        wiring.connect(m, requests.o, wiring.flipped(self.mem.request))
        m.d.comb += [
            request.valid.eq(self.run & (requested != self.count)
                             & ~full),
            request.p.addr.eq(self._beat_of(self.base + (requested << exact_log2(WORD_BYTES)))),
            request.p.last.eq(beats - 1),
        ]
        with m.If(accepted):
            m.d.sync += requested.eq(requested + 1)

    def _beat_of(self, address: Value) -> Value:
        """The beat in which a word begins."""
        bus = self._machine.config.bus_bytes
        low = exact_log2(bus)
        return address if bus <= WORD_BYTES else Cat(Const(0, low), address[low:])

    def _assemble(self, m: Module, platform, buffer: Queue, full, bad, kind, handed) -> Value:
        """Hands beats to the queues; returns whether this one is the last of its word."""
        beats = WORD_BYTES // word_part(self._machine.config)
        place = Signal(beats, init=1)       # of the next beat, one-hot
        moved = buffer.o.valid & buffer.o.ready
        last = moved & place[-1]
        m.d.comb += buffer.o.ready.eq(~full)
        for unit in self._units:
            port = getattr(self, unit)
            # Until a beat is there its place may hold anything.
            written = follows(platform, moved) & ~full
            m.d.comb += [port.beat.eq(buffer.o.p.data), port.index.eq(self.index),
                         port.lane.eq(Mux(written, place, 0))]
        with m.If(handed):
            m.d.sync += full.eq(0)
        with m.If(moved):
            m.d.sync += [full.eq(last), place.eq(place.rotate_left(1)),
                         bad.eq(bad | buffer.o.p.error)]
        opcode, units = buffer.o.p.data[:8], self._machine.units
        with m.If(moved & place[0]):
            m.d.sync += [kind.finish.eq(opcode == FINISH), *(
                kind[unit].eq(Cat(opcode == op for op, of in units.items() if of == unit).any())
                for unit in self._units)]
        return last

    def _hand_on(self, m: Module, there: Value, bad: Signal, kind, handed: Signal):
        """Decides what happens to the word at hand."""
        finishing, begun, wrong, over = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            self.error_index.eq(self.index), self.started_index.eq(self.index),
            self.retired_index.eq(self.index), self.error.eq(wrong & ~over),
            finishing.eq(there & ~bad & kind.finish), self.started.eq(finishing & ~begun),
        ]
        m.d.sync += [begun.eq(finishing), over.eq(over | wrong | self.retired)]
        with m.If(handed):
            m.d.sync += self.index.eq(self.index + 1)
        ready = []
        for unit in self._units:
            port = getattr(self, unit)
            m.d.comb += port.push.eq(there & ~bad & kind[unit])
            ready.append(kind[unit] & port.ready)
        m.d.comb += handed.eq(there & ~bad & Cat(ready).any())

        with m.If(there & bad):
            m.d.comb += [wrong.eq(1), self.blocked.eq(1), self.error_status.eq(Status.BUS)]
        with m.Elif(finishing):
            settled = begun & self.quiet
            m.d.comb += [self.blocked.eq(~(settled & self.tokens_empty)),
                         self.retired.eq(settled & self.tokens_empty & ~over),
                         wrong.eq(settled & ~self.tokens_empty),
                         self.error_status.eq(Status.TOKENS_LEFT)]
        with m.Elif(there):
            m.d.comb += [wrong.eq(~kind.as_value().any()), self.blocked.eq(~handed),
                         self.error_status.eq(Status.ILLEGAL)]
        with m.Elif(self.run & (self.index == self.count)):
            m.d.comb += self.blocked.eq(1)
