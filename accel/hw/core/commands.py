"""Instructions on their way from fetch to a unit."""

from amaranth.hdl import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, Signature

from accel.hw.interface import COMMAND, INDEX_BITS
from accel.hw.parts import Ram, delayed, follows
from accel.hw.queue import tally
from accel.machine.config import AccelConfig
from accel.machine.isa import WORD_BITS, WORD_BYTES


def word_part(config: AccelConfig) -> int:
    """Bytes of a beat that are of one instruction."""
    return min(config.bus_bytes, WORD_BYTES)


def handover(config: AccelConfig) -> Signature:
    """The signals from fetch to a queue of instructions.

    beat, lane  a part of the instruction that is assembled; which one it is, one-hot, or zero
    index       position of that instruction
    push        it is for this queue: in a cycle after that of its last beat
    ready       there is room; it leaves fetch in a cycle in which both are set
    """
    return Signature({
        "beat": Out(word_part(config) * 8), "lane": Out(WORD_BYTES // word_part(config)),
        "index": Out(INDEX_BITS), "push": Out(1), "ready": In(1),
    })


class CommandQueue(wiring.Component):
    """Keeps the instructions of a unit, in order, `AccelConfig.queue_depth` of them.

    An instruction is assembled where it will stay: every queue has a free row beyond those that
    count, and writes every beat to it; of those that are pushed the row is kept.

    One that is pushed in cycle t is offered in t + `queue_cycles`, at the earliest.
    Nothing is offered in the cycle after one has left, but it is still shown: then what takes it,
    which may come late, does not have to enable a wide register in time. `i.ready` and `o.valid`
    are registers.

    Members
    -------
    i : see `handover`.
    o : instructions.
    some : there are instructions inside.
    """

    def __init__(self, config: AccelConfig):
        self._config = config
        super().__init__({"i": In(handover(config)), "o": Out(stream.Signature(COMMAND)),
                          "some": Out(1)})

    def elaborate(self, platform):
        m = Module()
        depth, part_bits = self._config.queue_depth, word_part(self._config) * 8
        tail, head = Signal(range(2 * depth)), Signal(range(2 * depth))
        push, pop = self.i.push & self.i.ready, self.o.valid & self.o.ready
        move, moved = Signal(), Signal()
        _, some, full = tally(m, "items", depth, push, pop)
        extra = self._config.timing.extra("queue_cycles")
        _, stored, _ = tally(m, "stored", depth, delayed(m, push, extra, "pushed"), move)
        m.d.comb += [self.some.eq(some), self.i.ready.eq(~full), move.eq(stored & ~self.o.valid)]
        m.d.sync += [moved.eq(move), self.o.valid.eq(Mux(self.o.valid, ~self.o.ready, stored))]
        with m.If(push):
            m.d.sync += tail.eq(tail + 1)
        with m.If(move):
            m.d.sync += head.eq(head + 1)

        m.submodules.words = words = Ram(WORD_BITS, 2 * depth, part_bits, shallow=True)
        m.submodules.indexes = indexes = Ram(INDEX_BITS, 2 * depth, shallow=True)
        m.d.comb += [
            words.w_data.eq(self.i.beat.replicate(len(self.i.lane))), words.w_en.eq(self.i.lane),
            indexes.w_data.eq(self.i.index), indexes.w_en.eq(self.i.lane[-1]),
            self.o.p.word.eq(words.r_data), self.o.p.index.eq(indexes.r_data),
        ]
        for ram in (words, indexes):
            m.d.comb += [
                ram.w_addr.eq(tail), ram.r_addr.eq(head), ram.r_move.eq(~self.o.valid),
                # Into the memory's register whatever may be the next one.
                ram.r_en.eq(follows(platform, moved | push)),
            ]
        return m
