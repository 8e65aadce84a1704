"""A machine with a unit that computes the softmax of rows in one pass: docs/structure.md.

The arithmetic is the compiler's (`compiler.ops.families.row_functions`), so results are equal to
those of all other targets to the bit. The powers of a network's scale are a table.
"""

from dataclasses import replace

import numpy as np
from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring

import lockstep
from accel.hw.stream.parts import FIRST_RECIPROCALS, LaneTables, reciprocal, requantized
from accel.machine.intrinsics import SHIPPED, stream_op
from accel.machine.streams import Computes, StreamShape
from accel.machine.structure import SHIPPED_STRUCTURE, BufferRecord
from compiler.ops.integers.fixed_point import requantize
from compiler.tensorize import Immediate

LONGEST, WIDE, FILL = 64, 32, 8         # entries of a row; powers in an entry, entries of a table
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
    a = np.array(FIRST_RECIPROCALS)[v >> 6 & 255]
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
        m.submodules.powers = powers = LaneTables(self.shape, FILL, batch * lanes, bits=14)
        wiring.connect(m, powers.table, wiring.flipped(self.table))
        write, read, fields = row.write_port(), row.read_port(), Signal(layout["fields"])
        # Stages: s1 an entry, s2 its places, s3 powers, s4 what they are of the sum, s5 scaled.
        valid, last, counted = Signal(5), Signal(5), [Signal(range(lanes + 1)) for _ in range(4)]
        at, end, here = Signal(range(LONGEST)), Signal(range(LONGEST)), Signal(range(lanes + 1))
        issue, results, move, came, done = (Signal() for _ in range(5))
        count = Mux(issue, fields.count, self.i.p.fields.count)
        left = Mux(count > at * lanes, count - at * lanes, 0)[:16]
        m.d.comb += [
            move.eq(self.o.ready | ~self.o.valid), came.eq(self.i.valid & self.i.ready),
            done.eq(move & valid[4] & last[4]), here.eq(Mux(left > lanes, lanes, left)),
            write.addr.eq(at), write.data.eq(self.i.p.data), write.en.eq(came), read.addr.eq(at),
            read.en.eq(move), powers.begin.eq(came & (at == 0)), powers.en.eq(move)]
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
                with m.If(~powers.busy):
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
        given, kept = (data.View(self.shape.a_elements, one) for one in (self.i.p.data, read.data))
        result = data.View(self.shape.dst_elements, self.o.p.data)
        for b in range(batch):
            own = range(b * lanes, (b + 1) * lanes)
            greatest, total = Signal(signed(8)), Signal(14 + (LONGEST * lanes).bit_length())
            found = _greatest(m, Mux(at == 0, -128, greatest), [given[k] for k in own], here)
            (factor, amount), part, terms = reciprocal(m, total), Signal.like(total), []
            for lane, k in enumerate(own):
                power, share, scaled = (Signal(width) for width in (14, 29, 45))
                terms.append(Mux(lane < counted[2], power, 0))
                m.d.comb += powers.place[k].eq(kept[k] - greatest + 127)
                with m.If(move):
                    m.d.sync += [
                        power.eq(powers.value[k]), share.eq(power * factor >> amount),
                        scaled.eq(share * fields.mult), result[k].eq(requantized(
                            scaled, fields.shift[:6], fields.zp, fields.lo, fields.hi))]
            with m.If(came):
                m.d.sync += [total.eq(0), greatest.eq(found)]
            with m.Elif(move):
                m.d.sync += [part.eq(sum(terms)),
                             total.eq(total + Mux(valid[3] & ~results, part, 0))]
        return m


def _greatest(m, found, elements, count):
    """The greatest of a number and the first `count` elements."""
    for lane, x in enumerate(elements):
        m.d.comb += (greater := Signal(signed(8))).eq(
            Mux((lane < count) & (x > found), x, found))
        found = greater
    return found


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
