"""A machine with a unit that computes the softmax of rows in one pass: docs/structure.md.

The arithmetic is the compiler's (`compiler.ops.families.row_functions`), so results are equal to
those of all other targets to the bit. The powers of a network's scale are a table, which load
writes.
"""

from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
from amaranth.hdl import *
from amaranth.lib import data, memory, wiring

from accel.machine.streams import StreamShape
from compiler.ops.families.row_functions import RECIPROCALS
from compiler.ops.integers.fixed_point import requantize

LONGEST = 64                    # entries of a row
MOST_SHIFT = 46                 # of a product of 45 bits: it and all above give 0
FIRST = [int(number) + 192 for number in RECIPROCALS]
FIELDS = {"count": "uint16", "mult": "uint16", "shift": "uint8", "zp": "int8", "lo": "int8",
          "hi": "int8"}


def softmax(rows, table, *, count, mult, shift, zp, lo, hi):
    """Softmax of rows [rows, n, batch, lanes], of which the first `count` elements count. `table`
    has the powers, in 14 bits, at the low eight bits of x - max(x) + 127.
    """
    wide, (_, n, _, lanes) = rows.astype(np.int64), rows.shape
    counts = (np.arange(n * lanes) < count).reshape(n, 1, lanes)
    greatest = np.where(counts, wide, -128).max((1, 3), keepdims=True)
    powers = (table[0].astype(np.int64) & 0x3fff)[wide - greatest + 127 & 255]
    s = np.maximum(np.where(counts, powers, 0).sum((1, 3), keepdims=True), 1)
    exponent = np.frexp(s.astype(np.float64))[1].astype(np.int64) - 1
    v = s << 30 - exponent >> 16
    a = np.array(FIRST)[v >> 6 & 255]
    r = np.minimum(128 * a + (a * (2**22 - v * a) >> 15), 32767)
    return requantize(powers * r >> np.maximum(exponent - 13, 0), mult, shift & 63, zp, lo, hi)


class Softmax(wiring.Component):
    """Three passes over a row that it holds: the greatest element while the row comes, the sum of
    the powers, and the results. From one row of n entries to the next it takes 3 n + 12 cycles.
    """

    def __init__(self, shape: StreamShape):
        self.shape = shape
        super().__init__(shape.members)

    def elaborate(self, platform):
        m = Module()
        layout = self.shape.i.members
        m.submodules.row = row = memory.Memory(shape=layout["data"], depth=LONGEST, init=[])
        write, read = row.write_port(), row.read_port()
        self.entry, self.fields = read.data, Signal(layout["fields"])
        # What a pass reads is in s1 an entry, in s2 places in the table, in s3 powers, in s4 what
        # they are of the sum, in s5 that times mult. The second pass adds up, `results` the third.
        self.valid, self.last, self.move, self.came = Signal(5), Signal(5), Signal(), Signal()
        self.first, self.results = Signal(), Signal()
        at, end, issue, done = (Signal(range(LONGEST)), Signal(range(LONGEST)), Signal(), Signal())
        lanes = self.shape.a[0][1]
        self.here, *self.counted = (Signal(range(lanes + 1), name=f"counted{k}") for k in range(4))
        given = Mux(issue, self.fields.count, self.i.p.fields.count)
        left = Mux(given > at * lanes, given - at * lanes, 0)[:16]
        m.d.comb += [
            self.move.eq(self.o.ready | ~self.o.valid), self.came.eq(self.i.valid & self.i.ready),
            done.eq(self.move & self.valid[4] & self.last[4]), self.table.en.eq(1),
            write.addr.eq(at), write.data.eq(self.i.p.data), write.en.eq(self.came),
            read.addr.eq(at), read.en.eq(self.move), self.first.eq(at == 0),
            self.here.eq(Mux(left > lanes, lanes, left))]
        with m.If(self.move):
            m.d.sync += [after.eq(before) for before, after in pairwise([self.here, *self.counted])]
            m.d.sync += [self.valid.eq(Cat(issue, self.valid)),
                         self.last.eq(Cat(at == end, self.last)),
                         self.o.valid.eq(self.valid[4] & self.results), self.o.p.last.eq(self.last[4])]
        with m.FSM():
            with m.State("GREATEST"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.came):
                    m.d.sync += [at.eq(at + 1), self.fields.eq(self.i.p.fields)]
                with m.If(self.came & self.i.p.last):
                    m.d.sync += [at.eq(0), end.eq(at)]
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += issue.eq(1)
                with m.If(self.move):
                    m.d.sync += at.eq(Mux(at == end, 0, at + 1))
                with m.If(self.move & (at == end)):
                    m.next = "WAIT"
            with m.State("WAIT"):
                with m.If(done):
                    m.d.sync += self.results.eq(~self.results)
                    m.next = "TURN"
            with m.State("TURN"):
                m.next = "GREATEST"
                with m.If(self.results):
                    m.next = "READ"
        for b in range(self.shape.a[0][0]):
            self._row(m, b)
        return m

    def _row(self, m, b):
        """The lanes of one row of an entry."""
        lanes = range(b * self.shape.a[0][1], (b + 1) * self.shape.a[0][1])
        given = data.View(self.shape.a_elements, self.i.p.data)
        entry = data.View(self.shape.a_elements, self.entry)
        result = data.View(self.shape.dst_elements, self.o.p.data)
        greatest = Signal(signed(8), name=f"greatest{b}")
        total = Signal(14 + (LONGEST * len(lanes)).bit_length(), name=f"total{b}")
        part = Signal.like(total, name=f"part{b}")
        reciprocal, amount = _reciprocal(m, total, b)
        counted, known = [], Mux(self.first, -128, greatest)
        for lane, k in enumerate(lanes):
            place, power = Signal(8, name=f"place{k}"), Signal(14, name=f"power{k}")
            share, scaled = Signal(29, name=f"share{k}"), Signal(45, name=f"scaled{k}")
            counted.append(Mux(lane < self.counted[2], power, 0))
            known = Mux((lane < self.here) & (given[k] > known), given[k], known)
            with m.If(self.move):
                m.d.sync += [place.eq(entry[k] - greatest + 127),
                             power.eq(self.table.data.word_select(place, 16)),
                             share.eq(power * reciprocal >> amount),
                             scaled.eq(share * self.fields.mult),
                             result[k].eq(_requantized(scaled, self.fields))]
        with m.If(self.move):
            m.d.sync += [part.eq(reduce(add, counted)),
                         total.eq(total + Mux(self.valid[3] & ~self.results, part, 0))]
        with m.If(self.came):
            m.d.sync += [total.eq(0), greatest.eq(known)]


def _reciprocal(m, total, b):
    """The factor and the shift to the right that divide by a sum, five cycles after it."""
    n, v, a, error, r = (Signal(shape, name=f"{name}{b}") for name, shape in (
        ("exponent", 5), ("mantissa", 15), ("first", 9), ("error", signed(17)), ("factor", 15)))
    m.d.sync += n.eq(0)
    for bit in range(1, len(total)):
        with m.If(total[bit]):
            m.d.sync += n.eq(bit)
    better = (a << 7) + (a * error >> 15)
    m.d.sync += [v.eq((total | (total == 0)) << (30 - n)[:5] >> 16), a.eq(Array(FIRST)[v[6:14]]),
                 error.eq((1 << 22) - v * a), r.eq(Mux(better > 32767, 32767, better))]
    return r, Mux(n > 13, n - 13, 0)[:5]


def _requantized(scaled, fields):
    """The quotient by a power of two, a tie to the even one, with zero point and bounds."""
    shift = Mux(fields.shift[:6] > MOST_SHIFT, MOST_SHIFT, fields.shift[:6])
    ones = ((1 << MOST_SHIFT) - 1 >> 1) >> (MOST_SHIFT - shift)[:6]
    odd = (scaled >> shift)[0] & (shift != 0)
    number = (scaled + ones + odd >> shift) + fields.zp
    number = Mux(number < fields.lo, fields.lo, number)
    return Mux(number > fields.hi, fields.hi, number)
