"""The common parts of load and store: they walk runs, realign bytes and retire in order.

::

    commands --> Front --> runs ... (load.py, store.py) ... completed --> Front --> signals
                             '--> Stepper: source beats to target chunks, byte by byte
"""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.hw.interface import INDEX_BITS, unit_signature
from accel.hw.issue import outside as is_outside, record_layout
from accel.hw.loops import Ahead, LoopNest
from accel.hw.parts import delayed
from accel.hw.queue import Queue
from accel.machine.config import WEIGHT_BITS, AccelConfig
from accel.machine.isa import BASES, formats
from accel.machine.status import Status

BASE_REGISTERS = data.ArrayLayout(32, len(BASES))

DATA_PATH = ("watched",)
"""Members of a unit that its front end leaves to its data path."""


def run_layout(word: data.StructLayout) -> data.StructLayout:
    """One iteration of an instruction with this word: byte addresses, bytes − 1, and whether it is
    the last. Of packed elements `address` counts what a byte of memory unpacks to."""
    return data.StructLayout({"dram": 32, "address": 24, "run": 16, "pad": 1, "pad_value": 8,
                              "buffer": word["buffer"].width, **_optional(word), "last": 1})


def _optional(word: data.StructLayout) -> dict[str, int]:
    """The bits of the fields of a word that not every machine has: how elements are packed, and the
    high byte of padding."""
    return {name: bits for name, bits in (("bits", 2), ("pad_high", 8)) if name in dict(word)}


class Front(wiring.Component):
    """Control of a DMA unit: takes instructions, walks their loops, retires them in order.

    The instruction at the head of the queue is armed in a cycle in which its tokens are all there
    and there is room, and can be taken from the next cycle on. One that is taken in cycle t has
    started in t + 1 (where its selectors are checked and its addresses set up) and offers its first
    run in t + `run_cycles`; one run a cycle. The loops run up to `ahead` runs ahead;
    the next instruction is taken two cycles before they are done with the one before, or later. Up
    to `in_flight` instructions are between their start and their retirement; a completion in cycle
    t asks for its signals in t + `queue_cycles`. One instruction in three cycles retires.

    Errors: a buffer that the unit does not take, or not so packed, in the cycle of the start; bytes
    outside the buffer, when the run is handed on; a completion with an error, from when it is the
    oldest until it has signalled. An instruction with an error goes its way, with wrong bytes.

    Parameters
    ----------
    unit : which unit it is; its instructions may name the buffers that it has ports at.

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

    def __init__(self, config: AccelConfig, unit: str):
        self._config, self._structure = config, config.structure
        self._buffers = [(config.structure.buffer_names.index(name), name)
                         for name in config.structure.unit(unit).buffers]
        self._word = formats(config)[unit]
        self._run = run_layout(self._word)
        super().__init__({
            **{name: member for name, member in unit_signature(config.structure).items()
               if name not in DATA_PATH},
            "bases": In(BASE_REGISTERS), "run": Out(stream.Signature(self._run)),
            "completed": In(1), "completed_error": In(1), "moving": In(1), "drained": In(1),
        })

    def elaborate(self, platform):
        m, timing = Module(), self._config.timing
        # The queue still shows an instruction in the cycle after it was taken.
        word, index = self._word(self.commands.p.word), self.commands.p.index
        setup, armed, arming, missing = Signal(), Signal(), Signal(), Signal(len(self.waits))
        illegal, outside, bus_error = Signal(), Signal(), Signal()
        m.submodules.held = held = Queue(record_layout(self._structure), timing.in_flight,
                                         timing.queue_cycles, pause=True)
        # Of those held whether it is bad.
        m.submodules.complete = complete = Queue(
            1, timing.in_flight, timing.queue_cycles, pause=True)
        m.submodules.nest = nest = LoopNest(
            self._word["loops"].shape, {"dram": 32, "buffer": 24}, data.StructLayout({
                "index": INDEX_BITS, "run": 16, "pad_value": 8,
                "buffer": self._word["buffer"].width, **_optional(self._word)}), timing)
        m.submodules.ahead = ahead = Ahead(self._run, timing)

        m.d.comb += [
            self.waits.eq(Mux(self.commands.valid, word.waits[:len(self.waits)], 0)),
            missing.eq(self.waits & ~self.available),
            arming.eq(self.commands.valid & ~armed & ~missing.any() & held.i.ready
                      & ~self.halt),
            self.take.eq(armed & nest.ready & ~setup),
            self.commands.ready.eq(self.take),
            held.i.valid.eq(setup), held.i.p.index.eq(index), held.i.p.signals.eq(word.signals),
            self.started.eq(setup), self.started_index.eq(index),
        ]
        m.d.sync += [setup.eq(self.take), armed.eq(Mux(armed, ~self.take, arming))]

        self._walk(m, nest, ahead, word, index, setup, illegal, outside)
        self._retire(m, held, complete, bus_error)
        # In order of age: who is masked is not the lowest.
        m.d.comb += self.error.eq(illegal | outside | bus_error)
        with m.If(bus_error):
            m.d.comb += [self.error_status.eq(Status.BUS), self.error_index.eq(held.o.p.index)]
        with m.Elif(outside):
            m.d.comb += [self.error_status.eq(Status.ADDRESS), self.error_index.eq(self._checked)]
        with m.Else():
            m.d.comb += [self.error_status.eq(Status.ILLEGAL), self.error_index.eq(index)]

        still = self.drained & ~(setup | nest.busy | ahead.some)
        waiting = self.refused
        starved = self.commands.valid & missing.any()
        m.d.comb += [
            self.idle.eq(still & ~armed & ~complete.some & ~held.some),
            self.blocked.eq(still & ~armed & (waiting | starved & ~held.some)),
            self.blocked_index.eq(Mux(waiting, held.o.p.index, index)),
        ]
        self._activity(m, {"busy": self.moving | self.take | arming | setup,
                           "signal": waiting & still, "memory": held.some | armed}, starved,
                       missing)
        return m

    def _walk(self, m: Module, nest: LoopNest, ahead: Ahead, word, index: Value, setup: Signal,
              illegal: Signal, outside: Signal):
        """From an instruction to runs, which are checked."""
        legal, run, past, passes = Signal(), Signal(self._run), Signal(25), Signal()
        cycles = self._config.timing.check_cycles
        tags = ["run", "pad_value", "buffer", *_optional(self._word)]
        m.d.comb += [
            nest.base.buffer.eq(word.address),
            nest.base.dram.eq(self.bases[word.base] + word.dram),
            nest.loops.eq(word.loops), nest.load.eq(setup), nest.step.eq(ahead.step),
            nest.tag.index.eq(index),
            *(nest.tag[name].eq(word[name]) for name in tags),
            past.eq(nest.out.buffer + nest.out_tag.run), ahead.made.eq(nest.made),
        ]
        with m.Switch(word.buffer):
            for code, name in self._buffers:
                with m.Case(code):
                    m.d.comb += legal.eq(self._packs(name, word))
        with m.Switch(nest.out_tag.buffer):
            for code, name in self._buffers:
                with m.Case(code):
                    m.d.comb += passes.eq(self._passes(name, past, nest.out_tag))
        there, bad = (delayed(m, value, cycles, name)
                      for value, name in ((nest.valid, "there"), (passes, "bad")))
        self._checked = delayed(m, nest.out_tag.index, cycles, "checked", reset_less=True)
        m.d.comb += [
            run.dram.eq(nest.out.dram), run.address.eq(nest.out.buffer),
            *(run[name].eq(nest.out_tag[name]) for name in tags),
            run.pad.eq(nest.pad), run.last.eq(nest.last),
        ]
        m.d.comb += [illegal.eq(setup & ~legal), outside.eq(there & bad),
                     ahead.valid.eq(there),
                     ahead.i.eq(delayed(m, run, cycles, "run", reset_less=True))]
        wiring.connect(m, ahead.o, wiring.flipped(self.run))

    def _packed(self, buffer: str) -> bool:
        return self._structure.buffer(buffer).packed

    def _packs(self, buffer: str, word) -> Value | int:
        """High if elements of the buffer may be packed as the word says."""
        if "bits" not in dict(self._word):
            return 1
        codes = (WEIGHT_BITS.index(bits) for bits in self._config.weight_bits)
        return Cat(word.bits == code for code in codes).any() if self._packed(buffer) else (
            word.bits == 0)

    def _passes(self, buffer: str, past: Value, tag) -> Value:
        """High if the address `past` lies outside the buffer."""
        size = self._config.buffers[buffer].size_bytes
        passes = is_outside(past, size)
        if self._packed(buffer) and "bits" in dict(self._word):
            for code in (1, 2):
                passes = Mux(tag.bits == code, is_outside(past, size >> code), passes)
        return passes

    def _retire(self, m: Module, held: Queue, complete: Queue, bus_error: Signal):
        m.d.comb += [
            complete.i.valid.eq(self.completed), complete.i.payload.eq(self.completed_error),
            self.signals.eq(held.o.p.signals),
            self.signal.eq(complete.o.valid),
            self.retired.eq(self.signalled), self.retired_index.eq(held.o.p.index),
            complete.o.ready.eq(self.signalled), held.o.ready.eq(self.signalled),
            bus_error.eq(complete.o.valid & complete.o.payload),
        ]

    def _activity(self, m: Module, states: dict[str, Value], starved: Value, missing: Value):
        """The first state that holds; with nothing held, the first token that is missing."""
        taken = Const(0, 1)
        conditions = states | {unit: starved & missing[i] for i, unit in enumerate(
            self._structure.names)}
        for name, condition in (conditions | {"command": Const(1, 1)}).items():
            m.d.comb += self.activity[self._structure.activities.index(name)].eq(condition & ~taken)
            taken = taken | condition


def connect_unit(m: Module, outer, inner) -> None:
    """Hand the ports of `unit_signature` through from a component to the one inside it."""
    for name, member in unit_signature().items():
        if name in DATA_PATH:
            continue
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
    first step writes nothing. That step is not needed where the run before has taken the first
    beat. A run that is accepted in cycle t offers its first step in t + 1; one step a cycle,
    without a gap between runs.

    A step says how to form the chunk. Take the beat, in the lanes of `late` the beat before it, and
    rotate that upwards by `rotate` bytes; a step that fills is not rotated.

    Parameters
    ----------
    source_bits, target_bits : widths of byte addresses, at least those of an offset in a beat.
    tag : shape of what is handed on with every step of a run.
    kept : how many beats before those that are still to come the source keeps.

    Members
    -------
    i : runs: byte addresses `source` and `target`, bytes − 1, `fill` if there is no source; `again`
        of its first beats were taken by the runs before, at most `kept`.
    o : steps: `take` a beat, `write` a chunk with `mask`; `beat`, `chunk` are their addresses;
        `end` for the last step of a run. What was taken before is no beat to take.
    busy : a run is inside.
    next_beat : the address of the beat behind the latest run.
    """

    def __init__(self, config: AccelConfig, source_bits: int, target_bits: int, tag, kept: int = 0):
        self.bus_bytes = bus_bytes = config.bus_bytes
        self._offset_bits = offset = exact_log2(bus_bytes)
        super().__init__({
            "i": In(stream.Signature(data.StructLayout({
                "source": source_bits, "target": target_bits, "run": 16, "fill": 1,
                "again": range(kept + 1), "tag": tag}))),
            "o": Out(stream.Signature(data.StructLayout({
                "take": 1, "write": 1, "end": 1, "fill": 1, "rotate": offset, "late": bus_bytes,
                "mask": bus_bytes, "beat": source_bits - offset, "chunk": target_bits - offset,
                "tag": tag}))),
            "busy": Out(1), "next_beat": Out(source_bits - offset),
        })

    def elaborate(self, platform):
        m = Module()
        n, run, step = self._offset_bits, self.i.p, self.o.p
        source, target = run.source[:n], run.target[:n]
        source_end, target_end = Signal(17), Signal(17)
        lower, several, passed = Signal(), Signal(), Signal()
        m.d.comb += [
            source_end.eq(source + run.run), target_end.eq(target + run.run),
            lower.eq((target < source) & ~run.fill), several.eq(source_end[n:] != 0),
            passed.eq(lower & several & (run.again != 0)),
        ]

        beats, chunks = (Signal(17 - n, name=name) for name in ("beats", "chunks"))   # to go, − 1
        again = Signal.like(run.again, name="again")        # of those to read, not to take
        reads, fresh, last, skip, first = (Signal(name=name) for name in (
            "reads", "fresh", "last", "skip", "first"))
        first_lane, last_lane, late_after = (Signal(n, name=name) for name in (
            "first_lane", "last_lane", "late_after"))
        fields = {name: Signal.like(step[name], name=name, reset_less=name != "beat")
                  for name in ("beat", "chunk", "rotate", "fill", "tag")}
        accept, fire = self.i.valid & self.i.ready, self.o.valid & self.o.ready

        m.d.comb += [
            self.o.valid.eq(self.busy), self.i.ready.eq(~self.busy | fire & step.end),
            *(step[name].eq(register) for name, register in fields.items()),
            step.take.eq(reads & fresh), step.write.eq(~skip), step.end.eq(~skip & last),
            self.next_beat.eq(step.beat + reads),
        ]
        for lane in range(self.bus_bytes):
            m.d.comb += [step.late[lane].eq(lane > late_after),
                         step.mask[lane].eq(~skip & (~first | (lane >= first_lane))
                                            & (~last | (lane <= last_lane)))]
        with m.If(fire):
            m.d.sync += [self.busy.eq(~step.end), skip.eq(0), beats.eq(beats - 1),
                         reads.eq(reads & (beats != 0)), fields["beat"].eq(self.next_beat),
                         again.eq(again - 1), fresh.eq(fresh | (again == 1))]
            with m.If(step.write):
                m.d.sync += [chunks.eq(chunks - 1), last.eq(chunks == 1), first.eq(0),
                             fields["chunk"].eq(step.chunk + 1)]
        with m.If(accept):
            m.d.sync += [
                self.busy.eq(1), skip.eq(lower & several & ~passed), first.eq(1),
                beats.eq(source_end[n:] - passed), reads.eq(~run.fill),
                again.eq(run.again - passed), fresh.eq(run.again == passed),
                chunks.eq(target_end[n:]), last.eq(target_end[n:] == 0),
                first_lane.eq(target), last_lane.eq(target_end[:n]),
                late_after.eq(Mux(run.fill | lower & ~several, ~0, source - target - 1)),
                fields["rotate"].eq(Mux(run.fill, 0, target - source)),
                fields["fill"].eq(run.fill),
                fields["beat"].eq(run.source[n:] + passed), fields["chunk"].eq(run.target[n:]),
                fields["tag"].eq(run.tag),
            ]
        return m


PLAIN_LEVELS = 7
"""Levels of a rotation without signals between them: each mentions the one before three times, and
Amaranth writes each mention anew."""


def rotate(m: Module, beat: Value, count: Value) -> Value:
    """The beat, rotated upwards by `count` bytes."""
    for level, bit in enumerate(count):
        if len(count) > PLAIN_LEVELS:
            before, beat = beat, Signal(len(beat), name=f"rotated_{level}")
            m.d.comb += beat.eq(before)
        beat = Mux(bit, beat.rotate_left(8 << level), beat)
    return beat


def merge(beat: Value, previous: Value, late: Value) -> Value:
    """The beat, in the lanes of `late` the previous one."""
    return Cat(Mux(bit, previous.word_select(lane, 8), beat.word_select(lane, 8))
               for lane, bit in enumerate(late))
