"""A stream unit that computes the first of the two operators of a softmax, and leaves the other."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, stream_op
from accel.machine.machine import Machine
from accel.machine.streams import Computes, StreamShape
from accel.machine.structure import SHIPPED_STRUCTURE, BufferRecord
from compiler.tensorize import Immediate

LONGEST = 64
"""Entries of a row that `Below` can keep."""


class Below(wiring.Component):
    """Each element less the greatest of the first `count` of its row, and 127: takes a row, then
    gives it; 2 n cycles a row of n entries."""

    def __init__(self, shape: StreamShape):
        self.shape = shape
        super().__init__(shape.members)

    def elaborate(self, platform):
        m, (batch, lanes), elements = Module(), self.shape.a[0], self.shape.a_elements
        m.submodules.row = row = memory.Memory(shape=elements.size, depth=LONGEST, init=[])
        write, read = row.write_port(), row.read_port(domain="comb")
        at, end, gives = Signal(range(LONGEST)), Signal(range(LONGEST)), Signal()
        came, gone = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        m.d.comb += [
            self.i.ready.eq(~gives), self.o.valid.eq(gives), self.o.p.last.eq(at == end),
            write.addr.eq(at), write.data.eq(self.i.p.data), write.en.eq(came), read.addr.eq(at)]
        given, kept = data.View(elements, self.i.p.data), data.View(elements, read.data)
        result = data.View(self.shape.dst_elements, self.o.p.data)
        for b in range(batch):
            greatest = Signal(signed(8), name=f"greatest{b}")
            found = Mux(at == 0, -128, greatest)
            for lane in range(lanes):
                element = given[b * lanes + lane]
                next_found = Signal(signed(8), name=f"found{b}_{lane}")
                counts = at * lanes + lane < self.i.p.fields.count
                m.d.comb += [
                    next_found.eq(Mux(counts & (element > found), element, found)),
                    result[b * lanes + lane].eq(kept[b * lanes + lane] - greatest + 127)]
                found = next_found
            with m.If(came):
                m.d.sync += greatest.eq(found)
        with m.If(came):
            m.d.sync += at.eq(at + 1)
            with m.If(self.i.p.last):
                m.d.sync += [at.eq(0), end.eq(at), gives.eq(1)]
        with m.If(gone):
            m.d.sync += at.eq(at + 1)
            with m.If(at == end):
                m.d.sync += [at.eq(0), gives.eq(0)]
        return m


def below(rows, count):
    _, n, _, lanes = rows.shape
    counts, wide = (np.arange(n * lanes) < count).reshape(n, 1, lanes), rows.astype(np.int64)
    return wide - np.where(counts, wide, -128).max((1, 3), keepdims=True) + 127


def below_of(cycles: Callable[[int], int] = lambda n: 2 * n) -> Machine:
    """A machine with the unit, which says that a row of n entries takes so many cycles."""
    structure = SHIPPED_STRUCTURE.with_stream(
        "below", [("a", "res"), ("dst", "less")],
        [BufferRecord("less", ("batch", "block_out"), "output", 2048)])
    instruction = stream_op(
        "below_max", "below", Below, below, fields=(Immediate("count", "uint16", 0, 65535),),
        longest=LONGEST, computes=Computes(
            ("qbelow_max",), lambda elements, lanes, one: ({"count": elements}, None), cycles))
    return Machine(replace(preset("tiny-1x4x4"), name="below", structure=structure),
                   (*SHIPPED, instruction))
