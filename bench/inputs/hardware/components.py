"""Components of stream units to judge estimates by, of kinds of hardware that no example has.

None of them was looked at when logic came to be counted as `accel.estimates.logic` does.
"""

from collections.abc import Callable, Mapping

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, wiring

from accel.machine.streams import StreamShape

LANES = 8

SHAPE = StreamShape(((1, LANES), "int8"), ((1, LANES), "int8"),
                    {"low": "int8", "high": "int8", "places": "uint8"})


class _Component(wiring.Component):
    """A component of `SHAPE` that computes an entry in the cycle in which it comes, as its method
    `entry` says: from its elements to those of the result."""

    def __init__(self) -> None:
        super().__init__(SHAPE.members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        given = data.View(SHAPE.a_elements, self.i.p.data)
        moves = Signal()
        m.d.comb += [self.o.valid.eq(self.i.valid), self.i.ready.eq(self.o.ready),
                     self.o.p.last.eq(self.i.p.last), moves.eq(self.i.valid & self.o.ready)]
        results = self.entry(m, [given[lane] for lane in range(LANES)], moves)
        m.d.comb += self.o.p.data.eq(Cat(Value.cast(result)[:8] for result in results))
        return m

    def entry(self, m: Module, given: list[Value], moves: Value) -> list[Value]:
        raise NotImplementedError


class RunningSums(_Component):
    """The sum of each lane so far, of 16 bits, within two bounds: adders and comparisons."""

    def entry(self, m: Module, given: list[Value], moves: Value) -> list[Value]:
        results, fields = [], self.i.p.fields
        for lane, element in enumerate(given):
            kept, total = Signal(signed(16), name=f"kept{lane}"), Signal(signed(16))
            m.d.comb += total.eq(kept + element)
            with m.If(moves):
                m.d.sync += kept.eq(Mux(self.i.p.last, 0, total))
            above = Mux(total > fields.high, fields.high, total)
            results.append(Mux(total < fields.low, fields.low, above))
        return results


class Sorted(_Component):
    """The elements of an entry in ascending order: six rows of exchanges, as K. E. Batcher has
    them in *Sorting Networks and Their Applications* (1968)."""

    PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (1, 3), (4, 6), (5, 7), (1, 2), (5, 6),
             (0, 4), (1, 5), (2, 6), (3, 7), (2, 4), (3, 5), (1, 2), (3, 4), (5, 6))

    def entry(self, m: Module, given: list[Value], moves: Value) -> list[Value]:
        found = list(given)
        for a, b in self.PAIRS:
            turned, low, high = Signal(), Signal(signed(8)), Signal(signed(8))
            m.d.comb += [turned.eq(found[b] < found[a]), low.eq(Mux(turned, found[b], found[a])),
                         high.eq(Mux(turned, found[a], found[b]))]
            found[a], found[b] = low, high
        return found


class Checked(_Component):
    """A checksum of all bits of a row, CRC-32 of ISO 3309 by whole entries: exclusive ors."""

    POLYNOMIAL = 0xEDB88320

    def entry(self, m: Module, given: list[Value], moves: Value) -> list[Value]:
        kept = Signal(32, init=0xFFFFFFFF)
        bits = list(kept)
        for bit in self.i.p.data:
            fed = Signal()
            m.d.comb += fed.eq(bits[0] ^ bit)
            bits = [after ^ fed if self.POLYNOMIAL >> place & 1 else after
                    for place, after in enumerate([*bits[1:], 0])]
        after = Signal(32)
        m.d.comb += after.eq(Cat(bits))
        with m.If(moves):
            m.d.sync += kept.eq(Mux(self.i.p.last, 0xFFFFFFFF, after))
        return [after.word_select(lane % 4, 8) for lane in range(LANES)]


class Turned(_Component):
    """An entry turned by a number of lanes, and its elements shifted: multiplexers."""

    def entry(self, m: Module, given: list[Value], moves: Value) -> list[Value]:
        places, turned = self.i.p.fields.places, Array(given)
        return [turned[(places[:3] + lane)[:3]] >> places[3:6] for lane in range(LANES)]


class Counted(_Component):
    """How often each number of four bits came first in an entry: a memory, and control."""

    def entry(self, m: Module, given: list[Value], moves: Value) -> list[Value]:
        m.submodules.counts = counts = memory.Memory(shape=24, depth=16, init=[])
        write, read = counts.write_port(), counts.read_port(domain="comb")
        clears, place = Signal(init=1), Signal(4)
        number = Value.cast(given[0])[:4]
        m.d.comb += [read.addr.eq(number), write.addr.eq(Mux(clears, place, number)),
                     write.data.eq(Mux(clears, 0, read.data + 1)), write.en.eq(clears | moves)]
        with m.FSM():
            with m.State("CLEAR"):
                m.d.comb += [self.i.ready.eq(0), self.o.valid.eq(0)]
                m.d.sync += place.eq(place + 1)
                with m.If(place == 15):
                    m.d.sync += clears.eq(0)
                    m.next = "COUNT"
            with m.State("COUNT"):
                with m.If(moves & self.i.p.last):
                    m.d.sync += clears.eq(1)
                    m.next = "CLEAR"
        return [read.data.word_select(lane % 3, 8) for lane in range(LANES)]


HELD_OUT: Mapping[str, Callable[[], wiring.Component]] = {
    "running sums": RunningSums, "sorted": Sorted, "checked": Checked, "turned": Turned,
    "counted": Counted}
"""The components by name."""
