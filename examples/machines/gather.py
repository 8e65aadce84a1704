"""A machine with a unit that gathers: the rows of a table that numbers name, as embeddings are.
docs/structure.md says more.

    lockstep check --machine examples/machines/gather.py --count 20

The table lies in a buffer of its own, `rows`, which load fills: a block of lanes is an entry. For
each entry of the result, `gather` reads one whose every row begins with a number of 16 bits, which
names a row of the table of `width` entries::

    result[e, b] = table[(number[e, b] * width + e) mod entries of the table]

e counts the entries of a row of the instruction. Where its innermost loop does not move `a`, one
number gives a whole row of the table. Every number names entries that there are.
"""

from dataclasses import replace

import numpy as np
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring

from accel.hw.parts import delayed
from accel.hw.queue import Queue, tally
from accel.machine.config import AccelConfig, preset
from accel.machine.intrinsics import SHIPPED, stream_op
from accel.machine.machine import Machine
from accel.machine.streams import Applied, Bound, Computes, StreamShape
from accel.machine.structure import SHIPPED_STRUCTURE, BufferRecord
from compiler.tensorize import Immediate

NUMBER_BITS = 16
"""Bits of a number that names a row: of bytes it takes two, the low one first."""


class Gather(wiring.Component):
    """Reads the table once a cycle: for each row of an entry. The result of an entry that is
    accepted in cycle t is offered in t + `read_cycles` + 2, at the earliest.
    """

    def __init__(self, shape: StreamShape):
        self.shape = shape
        self._rows = shape.a[0][0]
        super().__init__(shape.members)

    def elaborate(self, platform):
        m, shape, rows = Module(), self.shape, self._rows
        entry, fields = self.i.p.data, self.i.p.fields
        row, place = Signal(range(rows)), Signal(NUMBER_BITS)
        final = row == rows - 1
        m.submodules.results = results = Queue(shape.o, 1 << (shape.read_cycles + 2).bit_length())
        wiring.connect(m, results.o, wiring.flipped(self.o))
        # Entries that are accepted and not yet taken: what is read must have room.
        accepted, taken = self.i.valid & self.i.ready, self.o.valid & self.o.ready
        *_, full = tally(m, "held", results.depth, accepted, taken)
        read = self.i.valid & ~full
        m.d.comb += self.i.ready.eq(~full & final)
        with m.If(read):
            m.d.sync += row.eq(Mux(final, 0, row + 1))
        with m.If(accepted):
            m.d.sync += place.eq(Mux(self.i.p.last, 0, place + 1))

        number = entry.word_select(row, len(entry) // rows)[:NUMBER_BITS]
        named = number * fields.width + place           # the unit takes the low bits
        tag = data.StructLayout({"there": 1, "whole": 1, "last": 1})
        s0 = Signal(tag)
        m.d.comb += [s0.there.eq(read), s0.whole.eq(read & final), s0.last.eq(self.i.p.last)]
        m.d.sync += [self.table.addr.eq(named), self.table.en.eq(read)]
        arrives = delayed(m, s0, 1 + shape.read_cycles, "read")

        blocks = Signal(len(self.o.p.data))                     # the earliest row is lowest
        gathered = Cat(blocks, self.table.data)[len(self.table.data):]
        with m.If(arrives.there):
            m.d.sync += blocks.eq(gathered)
        m.d.comb += [results.i.valid.eq(arrives.whole), results.i.p.data.eq(gathered),
                     results.i.p.last.eq(arrives.last)]
        return m


def gathered(rows: np.ndarray, table: np.ndarray, width: int) -> np.ndarray:
    """The blocks of the table, (entries, lanes), that the numbers in rows (rows, entries, batch,
    lanes) name: the same shape."""
    numbers = np.ascontiguousarray(rows).view(np.uint16)[..., 0].astype(np.int64)
    places = np.arange(rows.shape[1])[:, None]
    return table[(numbers * width + places) % len(table)]


def bound(elements: int, lanes: int, lookup: Applied) -> Bound:
    """The width of the table of a network's lookup, and its blocks: a power of two of them."""
    table, = lookup.constants
    width = -(-table.shape[1] // lanes)
    blocks = np.zeros((1 << (len(table) * width - 1).bit_length(), lanes), table.dtype)
    blocks[:len(table) * width].reshape(len(table), -1)[:, :table.shape[1]] = table
    return {"width": width}, blocks


instruction = stream_op(
    "gather", "gatherer", Gather, gathered,
    fields=(Immediate("width", "uint16", 0, (1 << NUMBER_BITS) - 1),),
    computes=Computes(("qgather",), bound, lambda n: n, repeats=True))


def machine_of(config: AccelConfig, rows_bytes: int = 16384) -> Machine:
    """A geometry with the unit, and so many bytes for tables."""
    structure = SHIPPED_STRUCTURE.with_stream(
        "gatherer", (("a", "res"), ("table", "rows"), ("dst", "gathered")),
        (BufferRecord("rows", ("block_out",), "output", rows_bytes),
         BufferRecord("gathered", ("batch", "block_out"), "output", "out_bytes")))
    return Machine(replace(config, name=f"{config.name}-gather", structure=structure),
                   (*SHIPPED, instruction))


machine = machine_of(preset("tiny-1x4x4"))
