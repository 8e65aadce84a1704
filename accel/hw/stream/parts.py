"""Parts for components of one's own: a table in every lane, reciprocals, requantization."""

from math import prod

from amaranth.hdl import *
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from accel.machine.streams import StreamShape
from compiler.ops.families.row_functions import RECIPROCALS

FIRST_RECIPROCALS = tuple(int(number) + 192 for number in RECIPROCALS)
"""First approximations of 2**22 / v, by bits 6 to 13 of v, a number of 15 bits, the highest 1."""


class LaneTables(wiring.Component):
    """Copies of the table that the unit reads, one for each lane: all lanes look up at once.

    `begin` in cycle t asks for the entries, one a cycle; `busy` is high from t + 1 to
    t + entries + `read_cycles`. A place with `en` in cycle t gives its value from t + 1 on, until
    another one is asked for.

    Parameters
    ----------
    shape : of the component around it, with a table of elements whose number is a power of two.
    entries, lanes : of the table, a power of two; copies of it.
    bits : low ones of each element, which are kept.

    Members
    -------
    table : as the component has it.
    place, value : of each lane, the number of an element from the first one on, and its bits.
    """

    def __init__(self, shape: StreamShape, entries: int, lanes: int, bits: int):
        assert shape.table is not None
        self.shape, self.entries, self.lanes, self.bits = shape, entries, lanes, bits
        self.elements = prod(shape.table[1])
        super().__init__({
            "begin": In(1), "busy": Out(1), "table": shape.members["table"], "en": In(1),
            "place": In(data.ArrayLayout(range(entries * self.elements), lanes)),
            "value": Out(data.ArrayLayout(bits, lanes))})

    def elaborate(self, platform):
        m, entries, inside = Module(), self.entries, exact_log2(self.elements)
        asked, came = Signal(range(entries + 1), init=entries), Signal(range(entries))
        asks, coming = Signal(), Signal(self.shape.read_cycles)
        m.d.comb += [asks.eq(asked != entries), self.busy.eq(asks | coming.any()),
                     self.table.addr.eq(asked), self.table.en.eq(asks)]
        m.d.sync += [coming.eq(Cat(asks, coming)), came.eq(came + coming[-1]),
                     asked.eq(Mux(self.begin, 0, asked + asks))]
        width = len(self.table.data) // self.elements
        kept = Cat(self.table.data.word_select(number, width)[:self.bits]
                   for number in range(self.elements))
        for lane in range(self.lanes):
            m.submodules[f"copy{lane}"] = copy = memory.Memory(
                shape=len(kept), depth=entries, init=[])
            write, read, place = copy.write_port(), copy.read_port(), self.place[lane]
            number = Signal(inside, name=f"number{lane}")
            m.d.comb += [write.addr.eq(came), write.en.eq(coming[-1]), write.data.eq(kept),
                         read.addr.eq(place[inside:]), read.en.eq(self.en),
                         self.value[lane].eq(read.data.word_select(number, self.bits))]
            with m.If(self.en):
                m.d.sync += number.eq(place)
        return m


def reciprocal(m: Module, total: Value) -> tuple[Value, Value]:
    """The factor, of 15 bits, and the shift to the right that divide by a number, times 2**28; of 0
    those of 1. They follow the number by five cycles.

    A table and a step of Newton's method, as the operators of rows have them
    (`compiler.ops.families.row_functions`).
    """
    exponent: Value = Const(0)
    for bit in range(1, len(total)):
        exponent = Mux(total[bit], bit, exponent)
    n, v, a, error, factor = (Signal(shape) for shape in (5, 15, 9, signed(17), 15))
    better = (a << 7) + (a * error >> 15)
    m.d.sync += [
        n.eq(exponent), v.eq((total | (total == 0)) << (30 - n)[:5] >> 16),
        a.eq(Array(FIRST_RECIPROCALS)[v[6:14]]), error.eq((1 << 22) - v * a),
        factor.eq(Mux(better > 32767, 32767, better))]
    return factor, Mux(n > 13, n - 13, 0)[:5]


def requantized(product: Value, shift: Value, zp: Value, lo: Value, hi: Value) -> Value:
    """The quotient of a product by ``2**shift``, a tie to the even one, plus a zero point, within
    bounds: what `compiler.ops.integers.fixed_point.requantize` gives."""
    most = len(product) + 1                 # greater shifts give the same: 0, or a tie to it
    shift = Mux(shift > most, most, shift)[:most.bit_length()]
    half = ((1 << most) - 1 >> 1) >> (most - shift)[:most.bit_length()]
    odd = (product >> shift)[0] & (shift != 0)
    number = (product + half + odd >> shift) + zp
    number = Mux(number < lo, lo, number)
    return Mux(number > hi, hi, number)
