"""Beats of memory that load has and does not read again: runs that overlap share them."""

from amaranth.hdl import *
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.hw.moving.dma import merge, run_layout
from accel.hw.parts import ECP5, delayed
from accel.hw.queue import tally
from accel.machine.config import AccelConfig
from accel.machine.isa import formats


def loaded_layout(config: AccelConfig) -> data.StructLayout:
    """A run of load (`run_layout`)."""
    return run_layout(formats(config)[config.structure.roles.load])


def fetched_layout(config: AccelConfig) -> data.StructLayout:
    """A run (`run_layout`); `again` of its first beats have been read for the runs before it."""
    run = loaded_layout(config)
    return data.StructLayout({**dict(run.members), "again": range(config.kept_beats + 1)})


class Overlap(wiring.Component):
    """Finds the beats that a run has in common with the one before. Combinational.

    The run before is the last of the same instruction that is no padding. They share beats if that
    has at most `kept_beats`, if it begins where this one does or before, and if the first beat of
    this one is among them.

    Members
    -------
    i, o : runs, behind also with `again`.
    """

    def __init__(self, config: AccelConfig):
        self._config = config
        super().__init__({"i": In(stream.Signature(loaded_layout(config))),
                          "o": Out(stream.Signature(fetched_layout(config)))})

    def elaborate(self, platform):
        m = Module()
        n, run = exact_log2(self._config.bus_bytes), self.i.p
        kept = self._config.kept_beats
        first = Signal(32, reset_less=True)                 # address of the run before
        beats = Signal(range(kept + 1), reset_less=True)    # of the run before
        known = Signal()
        passed, end = Signal(32 - n), Signal(17)
        m.d.comb += [
            self.o.valid.eq(self.i.valid), self.i.ready.eq(self.o.ready),
            *(self.o.p[name].eq(run[name]) for name in dict(run.shape())),
            passed.eq(run.dram[n:] - first[n:]), end.eq(run.dram[:n] + run.run),
        ]
        near, far = passed[:len(beats)], passed[len(beats):]
        with m.If(known & ~run.pad & ~far.any() & (near < beats)
                  & ((near != 0) | (run.dram[:n] >= first[:n]))):
            m.d.comb += self.o.p.again.eq(beats - near)
        with m.If(self.i.valid & self.i.ready):
            with m.If(~run.pad):
                m.d.sync += [first.eq(run.dram), beats.eq(end[n:] + 1)]
            m.d.sync += known.eq(~run.last & Mux(run.pad, known, end[n:] < kept))
        return m


class Beats(wiring.Component):
    """The beats from memory. They are taken in order; the latest `kept_beats` of those that were
    taken can still be seen.

    What is accepted in cycle t can be taken in t + `beat_cycles`. One beat a cycle. `i.ready` and
    `valid` are registers. Even and odd beats have a memory each, so that two neighbours are read at
    once.

    Parameters
    ----------
    shape : of a beat: `data` and `error`.

    Members
    -------
    i : beats.
    valid, take : there is a beat that was not taken; take it.
    at : number of a beat, modulo `beats`, from the first one since the reset.
    late : lanes of the beat before it.
    data, error : that beat, in the lanes of `late` the one before; whether that beat has an error.
        Combinational.
    """

    def __init__(self, config: AccelConfig, shape):
        self._shape = shape
        self._timing = config.timing
        self._room = config.timing.beats - config.kept_beats
        super().__init__({
            "i": In(stream.Signature(shape)), "valid": Out(1), "take": In(1),
            "at": In(range(config.timing.beats)), "late": In(config.bus_bytes),
            "data": Out(config.bus_bytes * 8), "error": Out(1)})

    def elaborate(self, platform):
        m = Module()
        accepted, tail = self.i.valid & self.i.ready, Signal(range(self._timing.beats))
        _, _, full = tally(m, "beats", self._room, accepted, self.take)
        seen = delayed(m, accepted, self._timing.extra("beat_cycles"), "accepted")
        _, some, _ = tally(m, "seen", self._room, seen, self.take)
        m.d.comb += [self.i.ready.eq(~full), self.valid.eq(some)]
        with m.If(accepted):
            m.d.sync += tail.eq(tail + 1)
        # What is not accepted is overwritten, as in a `Queue`.
        writes = ~full if isinstance(platform, ECP5) else accepted
        rows = []
        for name, number in (("even", self.at), ("odd", self.at - 1)):
            m.submodules[name] = storage = memory.Memory(
                shape=self._shape, depth=self._timing.beats // 2, init=[],
                attrs={"ram_style": "distributed"})
            w_port, r_port = storage.write_port(), storage.read_port(domain="comb")
            m.d.comb += [
                w_port.addr.eq(tail[1:]), w_port.data.eq(self.i.payload),
                w_port.en.eq(writes & (tail[0] == (name == "odd"))), r_port.addr.eq(number[1:])]
            rows.append(r_port.data)
        even, odd = rows
        m.d.comb += [
            self.data.eq(merge(even.data, odd.data, Mux(self.at[0], ~self.late, self.late))),
            self.error.eq(Mux(self.at[0], odd.error, even.error)),
        ]
        return m
