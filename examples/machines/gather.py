"""A machine with a unit that gathers: the rows of a table that numbers name, as embeddings are.
docs/structure.md says more.

    lockstep check --machine examples/machines/gather.py --count 20

The table lies in a buffer of its own, `rows`, which load fills: a block of lanes is an entry. For
each entry of the result, `gather` reads one whose every row begins with a number of 16 bits, which
names a row of the table of `width` entries::

    result[e, b] = rows[(first + number[e, b] * width + e) mod entries of rows]

e counts the entries of a row of the instruction. Where its innermost loop does not move `a`, one
number gives a whole row of the table. So every number names entries that there are.
"""

import numpy as np
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring

from accel.hw.parts import delayed
from accel.hw.queue import Queue, tally
from accel.machine.streams import StreamShape

NUMBER_BITS = 16
"""Of a number that names a row; with elements of a byte it takes two of them, the low one first."""


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
        named = fields.first + number * fields.width + place    # the buffer's power of two wraps it
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


def gathered(rows: np.ndarray, table: np.ndarray, first: int, width: int) -> np.ndarray:
    """The blocks of the table, (entries, lanes), that the numbers in entries name: of rows (rows,
    entries, batch, lanes) the same."""
    numbers = np.ascontiguousarray(rows).view(np.uint16)[..., 0].astype(np.int64)
    places = np.arange(rows.shape[1])[:, None]
    return table[(first + numbers * width + places) % len(table)]
