"""What load and store share: walking an instruction's runs, realigning bytes, retiring in order.

::

    commands --> Front --> runs ... (load.py, store.py) ... completed --> Front --> signals
                             '--> Stepper: source beats to target chunks, byte by byte
"""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.config import BUFFERS, UNITS, AccelConfig
from accel.hw.interface import INDEX_BITS, unit_signature
from accel.hw.queue import Queue
from accel.isa import BASES, DMA
from accel.status import ACTIVITIES, Status

__all__ = ["BASE_REGISTERS", "IN_FLIGHT", "RUN", "Front", "Stepper", "connect_unit", "merge",
           "rotate"]

IN_FLIGHT = 8
"""Instructions of one unit that have started and not retired."""

BASE_REGISTERS = data.ArrayLayout(32, len(BASES))

RUN = data.StructLayout({"dram": 32, "address": 24, "run": 16, "pad": 1,
                         "pad_value": 8, "buffer": 3, "last": 1})
"""One iteration of an instruction: byte addresses, bytes − 1, and whether it is the last."""


class Front(wiring.Component):
    """Control of a DMA unit: takes instructions, walks their loops, retires them in order.

    An instruction taken in cycle t has started in t + 1 (where its selectors are checked and its
    addresses set up) and offers its first run in t + 2; one run a cycle. The next one is taken in
    the cycle after its last run was accepted, or later. Up to `IN_FLIGHT` instructions are between
    their start and their retirement; a completion in cycle t asks for its signals in t + 1.

    Errors: a buffer that the unit does not take, in the cycle of the start; bytes outside the
    buffer, in the cycle in which the run would be offered; a completion with an error, instead of
    signalling. After an error nothing more is taken.

    Parameters
    ----------
    buffers : names of those that instructions of the unit may name.

    Members
    -------
    (those of `unit_signature`)
    bases : base registers.
    run : the runs, in order.
    completed, completed_error : pulse: all bytes of the oldest instruction that is not complete
        have been moved; some of them with an error.
    moving : the data path moves bytes in this cycle.
    drained : nothing of any run is left in the data path, or in the memory system.
    """

    def __init__(self, config: AccelConfig, buffers: tuple[str, ...]):
        self._config, self._buffers = config, buffers
        super().__init__(unit_signature() | {
            "bases": In(BASE_REGISTERS), "run": Out(stream.Signature(RUN)),
            "completed": In(1), "completed_error": In(1), "moving": In(1), "drained": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        word, index = Signal(DMA, reset_less=True), Signal(INDEX_BITS, reset_less=True)
        setup, walking, failed = Signal(), Signal(), Signal()
        fault, bus_fault, tokens_there = Signal(), Signal(), Signal()
        m.submodules.held = held = Queue(
            data.StructLayout({"index": INDEX_BITS, "signals": len(UNITS)}), IN_FLIGHT)
        m.submodules.complete = complete = Queue(1, IN_FLIGHT)      # of those held; is it an error

        head = DMA(self.commands.p.word)
        m.d.comb += [
            self.waits.eq(Mux(self.commands.valid, head.waits[:len(UNITS)], 0)),
            tokens_there.eq((self.waits & ~self.available) == 0),
            self.take.eq(self.commands.valid & tokens_there & held.i.ready
                         & ~(setup | walking | self.halt | failed)),
            self.commands.ready.eq(self.take),
            held.i.valid.eq(self.take),
            held.i.p.index.eq(self.commands.p.index), held.i.p.signals.eq(head.signals),
            self.started.eq(setup), self.started_index.eq(index),
        ]
        m.d.sync += setup.eq(self.take)
        with m.If(self.take):
            m.d.sync += [word.eq(head), index.eq(self.commands.p.index)]

        self._walk(m, word, setup, walking, fault)
        m.d.sync += failed.eq(failed | self.error)
        self._retire(m, held, complete, bus_fault)
        m.d.comb += self.error.eq(fault | bus_fault)
        with m.If(bus_fault):
            m.d.comb += [self.error_status.eq(Status.BUS), self.error_index.eq(held.o.p.index)]
        with m.Else():
            m.d.comb += [self.error_status.eq(Mux(setup, Status.ILLEGAL, Status.ADDRESS)),
                         self.error_index.eq(index)]

        still = self.drained & ~(setup | walking)
        waiting = complete.o.valid & ~complete.o.ready
        starved = self.commands.valid & ~tokens_there
        m.d.comb += [
            self.idle.eq(still & ~complete.o.valid & ((held.level == 0) | failed)),
            self.blocked.eq(still & ~self.take & (waiting | starved & (held.level == 0))),
            self.blocked_index.eq(Mux(waiting, held.o.p.index, self.commands.p.index)),
        ]
        self._activity(m, {"busy": self.moving | self.take | setup, "signal": waiting & still,
                           "memory": held.level != 0}, starved)
        return m

    def _walk(self, m: Module, word, setup: Signal, walking: Signal, fault: Signal):
        """Four nested loops with running addresses: those at which each loop's iteration began."""
        loops = word.loops
        count = len(loops)
        at = [Signal(16, name=f"at{i}", reset_less=True) for i in range(count)]
        dram = [Signal(32, name=f"dram{i}", reset_less=True) for i in range(count)]
        address = [Signal(24, name=f"address{i}", reset_less=True) for i in range(count)]
        ended = Cat(at[i] == loops[i].extent for i in range(count))
        legal, inside, pads, past = Signal(), Signal(), Signal(count), Signal(25)

        m.d.comb += past.eq(address[-1] + word.run)
        with m.Switch(word.buffer):
            for name in self._buffers:
                with m.Case(BUFFERS.index(name)):
                    m.d.comb += [legal.eq(1),
                                 inside.eq(past < self._config.buffers[name].size_bytes)]
        m.d.comb += [
            *(pads[i].eq((at[i] < loops[i].before) | (at[i] + loops[i].after > loops[i].extent))
              for i in range(count)),
            fault.eq(setup & ~legal | walking & ~inside),
            self.run.valid.eq(walking & inside),
            self.run.p.dram.eq(dram[-1]), self.run.p.address.eq(address[-1]),
            self.run.p.run.eq(word.run), self.run.p.pad.eq(pads.any()),
            self.run.p.pad_value.eq(word.pad_value), self.run.p.buffer.eq(word.buffer),
            self.run.p.last.eq(ended.all()),
        ]
        with m.If(setup):
            m.d.sync += [walking.eq(legal), *(a.eq(word.address) for a in address),
                         *(d.eq(self.bases[word.base] + word.dram) for d in dram),
                         *(i.eq(0) for i in at)]
        with m.If(self.run.valid & self.run.ready):
            next_dram, next_address = Signal(32), Signal(24)
            for i in range(count):
                inner_ended = ended[i + 1:].all()
                with m.If(inner_ended & ~ended[i]):
                    m.d.comb += [next_dram.eq(dram[i] + loops[i].dram),
                                 next_address.eq(address[i] + loops[i].buffer)]
                    m.d.sync += at[i].eq(at[i] + 1)
                with m.If(inner_ended):
                    m.d.sync += [dram[i].eq(next_dram), address[i].eq(next_address)]
                    with m.If(ended[i]):
                        m.d.sync += at[i].eq(0)
            with m.If(self.run.p.last):
                m.d.sync += walking.eq(0)
        with m.If(walking & fault):
            m.d.sync += walking.eq(0)

    def _retire(self, m: Module, held: Queue, complete: Queue, bus_fault: Signal):
        m.d.comb += [
            complete.i.valid.eq(self.completed), complete.i.payload.eq(self.completed_error),
            self.signals.eq(held.o.p.signals),
            self.signal.eq(complete.o.valid & ~complete.o.payload),
            self.retired.eq(self.signal & self.signalled), self.retired_index.eq(held.o.p.index),
            complete.o.ready.eq(complete.o.payload | self.signalled),
            held.o.ready.eq(complete.o.valid & complete.o.ready),
            bus_fault.eq(complete.o.valid & complete.o.payload),
        ]

    def _activity(self, m: Module, states: dict[str, Value], starved: Value):
        """The first state that holds; with nothing held, the first token that is missing."""
        taken = Const(0, 1)
        missing = self.waits & ~self.available
        conditions = states | {unit: starved & missing[i] for i, unit in enumerate(UNITS)}
        for name, condition in (conditions | {"command": Const(1, 1)}).items():
            m.d.comb += self.activity[ACTIVITIES.index(name)].eq(condition & ~taken)
            taken = taken | condition


def connect_unit(m: Module, outer, inner) -> None:
    """Hand the ports of `unit_signature` through from a component to the one inside it."""
    for name, member in unit_signature().items():
        if member.is_signature:
            wiring.connect(m, wiring.flipped(getattr(outer, name)), getattr(inner, name))
        elif member.flow is Out:
            m.d.comb += getattr(outer, name).eq(getattr(inner, name))
        else:
            m.d.comb += getattr(inner, name).eq(getattr(outer, name))


class Stepper(wiring.Component):
    """Cuts runs of bytes into steps that move them from source beats to target chunks.

    Beats and chunks are both bus_bytes wide and aligned on their side; a step takes at most one
    beat and writes at most one chunk. A run costs as many steps as it touches chunks, and one more
    if it touches several beats and its offset is smaller in the chunk than in the beat: then its
    first step writes nothing. A run that is accepted in cycle t offers its first step in t + 1;
    one step a cycle, without a gap between runs.

    A step says how to form the chunk. Rotate the beat upwards by `rotate` bytes; in the lanes of
    `late`, the rotated beat of the previous step counts instead.

    Parameters
    ----------
    source_bits, target_bits : widths of byte addresses, at least those of an offset in a beat.
    tag : shape of what is handed on with every step of a run.

    Members
    -------
    i : runs: byte addresses `source` and `target`, bytes − 1, `fill` if there is no source.
    o : steps: `take` a beat, `write` a chunk with `mask`; `beat`, `chunk` are their addresses;
        `end` for the last step of a run.
    busy : a run is inside.
    """

    def __init__(self, config: AccelConfig, source_bits: int, target_bits: int, tag):
        self._bus_bytes = bus_bytes = config.bus_bytes
        self._offset_bits = offset = exact_log2(bus_bytes)
        super().__init__({
            "i": In(stream.Signature(data.StructLayout({
                "source": source_bits, "target": target_bits, "run": 16, "fill": 1, "tag": tag}))),
            "o": Out(stream.Signature(data.StructLayout({
                "take": 1, "write": 1, "end": 1, "fill": 1, "rotate": offset, "late": bus_bytes,
                "mask": bus_bytes, "beat": source_bits - offset, "chunk": target_bits - offset,
                "tag": tag}))),
            "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        n, run, step = self._offset_bits, self.i.p, self.o.p
        source, target = run.source[:n], run.target[:n]
        source_end, target_end = Signal(17), Signal(17)
        lower, single = Signal(), Signal()
        m.d.comb += [
            source_end.eq(source + run.run), target_end.eq(target + run.run),
            lower.eq((target < source) & ~run.fill), single.eq(source_end[n:] == 0),
        ]

        beats, chunks = Signal(18 - n), Signal(17 - n)      # beats to take; chunks to write − 1
        skip, first = Signal(), Signal()
        first_lane, last_lane, late_lanes = Signal(n), Signal(n), Signal(n)
        fields = {name: Signal.like(step[name], name=name, reset_less=True)
                  for name in ("beat", "chunk", "rotate", "fill", "tag")}
        accept, fire = self.i.valid & self.i.ready, self.o.valid & self.o.ready

        m.d.comb += [
            self.o.valid.eq(self.busy), self.i.ready.eq(~self.busy | fire & step.end),
            *(step[name].eq(register) for name, register in fields.items()),
            step.take.eq(beats != 0), step.write.eq(~skip), step.end.eq(~skip & (chunks == 0)),
        ]
        for lane in range(self._bus_bytes):
            m.d.comb += [step.late[lane].eq(lane < late_lanes),
                         step.mask[lane].eq(~skip & (~first | (lane >= first_lane))
                                            & ((chunks != 0) | (lane <= last_lane)))]
        with m.If(fire):
            m.d.sync += [self.busy.eq(~step.end), skip.eq(0), beats.eq(beats - step.take),
                         fields["beat"].eq(step.beat + step.take)]
            with m.If(step.write):
                m.d.sync += [chunks.eq(chunks - 1), first.eq(0),
                             fields["chunk"].eq(step.chunk + 1)]
        with m.If(accept):
            m.d.sync += [
                self.busy.eq(1), skip.eq(lower & ~single), first.eq(1),
                beats.eq(Mux(run.fill, 0, source_end[n:] + 1)), chunks.eq(target_end[n:]),
                first_lane.eq(target), last_lane.eq(target_end[:n]),
                late_lanes.eq(Mux(run.fill | lower & single, 0, target - source)),
                fields["rotate"].eq(target - source), fields["fill"].eq(run.fill),
                fields["beat"].eq(run.source[n:]), fields["chunk"].eq(run.target[n:]),
                fields["tag"].eq(run.tag),
            ]
        return m


def rotate(beat: Value, count: Value) -> Value:
    """The beat, rotated upwards by `count` bytes."""
    for level, bit in enumerate(count):
        beat = Mux(bit, beat.rotate_left(8 << level), beat)
    return beat


def merge(beat: Value, previous: Value, late: Value) -> Value:
    """The chunk: in the lanes of `late` from the previous beat."""
    return Cat(Mux(bit, previous.word_select(lane, 8), beat.word_select(lane, 8))
               for lane, bit in enumerate(late))
