"""A machine with a unit that computes the softmax of rows in one pass: docs/structure.md.

The arithmetic is the compiler's (`compiler.ops.families.row_functions`), so results are equal to
those of all other targets to the bit. The powers of a network's scale are a table.
"""

from dataclasses import replace

import numpy as np
from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring

import lockstep
from accel.machine.intrinsics import SHIPPED, stream_op
from accel.machine.streams import Computes, StreamShape
from accel.machine.structure import SHIPPED_STRUCTURE, BufferRecord
from compiler.ops.families.row_functions import RECIPROCALS
from compiler.ops.integers.fixed_point import requantize
from compiler.tensorize import Immediate

LONGEST, WIDE, FILL = 64, 32, 8         # entries of a row; powers in an entry, entries of a table
MOST_SHIFT = 46                         # of a product of 45 bits: greater ones give 0 as well
FIRST = [int(number) + 192 for number in RECIPROCALS]
FIELDS = {"count": "uint16", "mult": "uint16", "shift": "uint8", **dict.fromkeys(
    ("zp", "lo", "hi"), "int8")}


def softmax(rows, table, *, count, mult, shift, zp, lo, hi):
    """Softmax of rows [rows, n, batch, lanes], of which the first `count` elements count. `table`
    has the powers, of 14 bits, at the low eight bits of x - max(x) + 127."""
    wide, (_, n, _, lanes) = rows.astype(np.int64), rows.shape
    powers = np.resize(table.reshape(-1).astype(np.int64) & 0x3fff, WIDE * FILL)
    counts = (np.arange(n * lanes) < count).reshape(n, 1, lanes)
    power = powers[wide - np.where(counts, wide, -128).max((1, 3), keepdims=True) + 127 & 255]
    s = np.maximum(np.where(counts, power, 0).sum((1, 3), keepdims=True), 1)
    exponent = np.frexp(s.astype(np.float64))[1].astype(np.int64) - 1
    v = s << 30 - exponent >> 16
    a = np.array(FIRST)[v >> 6 & 255]
    r = np.minimum(128 * a + (a * (2**22 - v * a) >> 15), 32767)
    return requantize(power * r >> np.maximum(exponent - 13, 0), mult, shift & 63, zp, lo, hi)


class Softmax(wiring.Component):
    """Three passes over a row that it holds: the greatest element while the row comes and lanes
    copy the table, the sum of the powers, and the results. From one row of n entries to the next
    it takes max(n, 11) + 2 n + 12 cycles, where a table is read in two."""

    def __init__(self, shape: StreamShape):
        self.shape = shape
        super().__init__(shape.members)

    def elaborate(self, platform):
        m, (batch, lanes), layout = Module(), self.shape.a[0], self.shape.i.members
        m.submodules.row = row = memory.Memory(shape=layout["data"], depth=LONGEST, init=[])
        write, read, fields = row.write_port(), row.read_port(), Signal(layout["fields"])
        # Stages: s1 an entry, s2 its places, s3 powers, s4 what they are of the sum, s5 scaled.
        valid, last, counted = Signal(5), Signal(5), [Signal(range(lanes + 1)) for _ in range(4)]
        at, end, here = Signal(range(LONGEST)), Signal(range(LONGEST)), Signal(range(lanes + 1))
        issue, results, move, came, done = (Signal() for _ in range(5))
        ask, fill, filling = Signal(range(FILL + 1), init=FILL), Signal(range(FILL)), Signal(
            self.shape.read_cycles)
        count = Mux(issue, fields.count, self.i.p.fields.count)
        left = Mux(count > at * lanes, count - at * lanes, 0)[:16]
        m.d.comb += [
            move.eq(self.o.ready | ~self.o.valid), came.eq(self.i.valid & self.i.ready),
            done.eq(move & valid[4] & last[4]), here.eq(Mux(left > lanes, lanes, left)),
            write.addr.eq(at), write.data.eq(self.i.p.data), write.en.eq(came), read.addr.eq(at),
            read.en.eq(move), self.table.addr.eq(ask), self.table.en.eq(ask != FILL)]
        m.d.sync += [filling.eq(Cat(ask != FILL, filling)), fill.eq(fill + filling[-1]),
                     ask.eq(Mux(came & (at == 0), 0, ask + (ask != FILL)))]
        with m.If(move):
            m.d.sync += [valid.eq(Cat(issue, valid)), last.eq(Cat(at == end, last)),
                         Cat(counted).eq(Cat(here, counted)),
                         self.o.valid.eq(valid[4] & results), self.o.p.last.eq(last[4])]
        with m.FSM():
            with m.State("GREATEST"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(came):
                    m.d.sync += [fields.eq(self.i.p.fields), at.eq(at + 1), end.eq(at)]
                    with m.If(self.i.p.last):
                        m.d.sync += at.eq(0)
                        m.next = "TURN"
            with m.State("TURN"):
                with m.If((ask == FILL) & ~filling.any()):
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += issue.eq(1)
                with m.If(move):
                    m.d.sync += at.eq(at + 1)
                    with m.If(at == end):
                        m.d.sync += at.eq(0)
                        m.next = "WAIT"
            with m.State("WAIT"):
                with m.If(done):
                    m.d.sync += results.eq(~results)
                    m.next = "TURN"
                with m.If(done & results):
                    m.next = "GREATEST"
        for b in range(batch):
            greatest, total = Signal(signed(8)), Signal(14 + (LONGEST * lanes).bit_length())
            part, terms, (reciprocal, amount) = Signal.like(total), [], _reciprocal(m, total)
            found = Mux(at == 0, -128, greatest)
            for lane, k in enumerate(range(b * lanes, (b + 1) * lanes)):
                x = data.View(self.shape.a_elements, self.i.p.data)[k]
                found = _value(m, signed(8), Mux((lane < here) & (x > found), x, found))
                m.submodules[f"powers{k}"] = powers = memory.Memory(
                    shape=14 * WIDE, depth=FILL, init=[])
                into, out = powers.write_port(), powers.read_port()
                x = data.View(self.shape.a_elements, read.data)[k]
                place = _value(m, 8, x - greatest + 127)
                low, power, share, scaled = (Signal(width) for width in (5, 14, 29, 45))
                terms.append(Mux(lane < counted[2], power, 0))
                m.d.comb += [into.addr.eq(fill), into.en.eq(filling[-1]), into.data.eq(Cat(
                    self.table.data.word_select(number, 16)[:14] for number in range(WIDE))),
                    out.addr.eq(place[5:]), out.en.eq(move)]
                with m.If(move):
                    result = data.View(self.shape.dst_elements, self.o.p.data)[k]
                    m.d.sync += [
                        low.eq(place), power.eq(out.data.word_select(low, 14)),
                        share.eq(power * reciprocal >> amount), scaled.eq(share * fields.mult),
                        result.eq(_requantized(scaled, fields))]
            with m.If(came):
                m.d.sync += [total.eq(0), greatest.eq(found)]
            with m.Elif(move):
                m.d.sync += [part.eq(sum(terms)),
                             total.eq(total + Mux(valid[3] & ~results, part, 0))]
        return m


def _value(m, shape, value):
    m.d.comb += (named := Signal(shape)).eq(value)
    return named


def _reciprocal(m, total):
    """The factor and the shift to the right that divide by a sum, five cycles after it."""
    n, v, a, error, r = (Signal(shape) for shape in (5, 15, 9, signed(17), 15))
    better, exponent = (a << 7) + (a * error >> 15), 0
    for bit in range(1, len(total)):
        exponent = Mux(total[bit], bit, exponent)
    m.d.sync += [n.eq(exponent), v.eq((total | (total == 0)) << (30 - n)[:5] >> 16),
                 a.eq(Array(FIRST)[v[6:14]]), error.eq((1 << 22) - v * a),
                 r.eq(Mux(better > 32767, 32767, better))]
    return r, Mux(n > 13, n - 13, 0)[:5]


def _requantized(scaled, fields):
    """The quotient by a power of two, a tie to the even one, with zero point and bounds."""
    shift = Mux(fields.shift[:6] > MOST_SHIFT, MOST_SHIFT, fields.shift[:6])
    ones = ((1 << MOST_SHIFT) - 1 >> 1) >> (MOST_SHIFT - shift)[:6]
    number = (scaled + ones + ((scaled >> shift)[0] & (shift != 0)) >> shift) + fields.zp
    number = Mux(number < fields.lo, fields.lo, number)
    return Mux(number > fields.hi, fields.hi, number)


def bound(elements, lanes, below, applied):
    """The immediates and the table for rows of so many elements."""
    (high, low, _), attrs = applied.constants, applied.attrs
    return {**attrs, "count": elements}, 128 * high.astype(np.int16) + low


structure = SHIPPED_STRUCTURE.with_stream(
    "softmax", [("a", "res"), ("table", "powers"), ("dst", "soft")],
    [BufferRecord("powers", (WIDE,), "int16", 2 * WIDE * FILL),
     BufferRecord("soft", ("batch", "block_out"), "output", "out_bytes")])
instruction = stream_op(
    "softmax", "softmax", Softmax, softmax, fields=[
        Immediate(name, dtype, np.iinfo(dtype).min, np.iinfo(dtype).max)
        for name, dtype in FIELDS.items()], longest=LONGEST,
    computes=Computes(("qbelow_max", "qsoftmax"), bound, lambda n: max(n, 11) + 2 * n + 12))
machine = lockstep.Machine(replace(lockstep.preset("pynq-1x16x16"), structure=structure),
                           (*SHIPPED, instruction))
