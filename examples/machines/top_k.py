"""A machine with a unit that finds the greatest of a row, or the least, and where they are.
docs/structure.md says more.

    lockstep check --machine examples/machines/top_k.py --count 20

A row of numbers lies along the lanes of a row of entries, each row of an entry by itself. `top_k`
gives the `k` greatest of its first `count` numbers, the greatest first, of equals the first; the
rest of the row is 0. `part` says what of them:

- 0: the numbers themselves
- 1: the low element of each one's place in the row, which has 16 bits
- 2: the high one; where elements have 16 bits it is 0

So are places written that bytes cannot hold: each part is a row of its own. With `least` it gives
the least.
"""

from dataclasses import replace

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring

from accel.machine.config import AccelConfig, preset
from accel.machine.intrinsics import SHIPPED, stream_op
from accel.machine.machine import Machine
from accel.machine.streams import Applied, Bound, Computes, StreamShape
from accel.machine.structure import SHIPPED_STRUCTURE, BufferRecord
from compiler.tensorize import Immediate

MOST = 16
"""The most numbers of a row that are kept."""

PLACE_BITS = 16

LONGEST = 1024
"""Entries of a row: places of the elements of the widest ones have 16 bits."""


class TopK(wiring.Component):
    """Takes one number of each row a cycle into a chain of `MOST` cells in descending order: a cell
    keeps what it has, or takes the number, or what the cell before it had. A row of n entries of L
    lanes takes n (L + 1) cycles, and then gives an entry a cycle.
    """

    def __init__(self, shape: StreamShape):
        self.shape = shape
        self._rows, self._lanes = shape.a[0]
        self._chain = -(-MOST // self._lanes) * self._lanes     # whole entries
        self._number = shape.a_elements.elem_shape
        super().__init__(shape.members)

    def elaborate(self, platform):
        m, lanes = Module(), self._lanes
        held = Signal(self.shape.i)                 # the entry whose numbers are taken
        busy, giving = Signal(), Signal()
        lane, place = Signal(range(lanes)), Signal(PLACE_BITS + 1)
        entries = Signal(PLACE_BITS)                # of the row: taken, then left to be given
        given = Signal(PLACE_BITS)                  # numbers of the row that have been given
        chains = [self._chain_of(m, row, held, busy, lane, place, given)
                  for row in range(self._rows)]
        m.d.comb += [self.i.ready.eq(~busy & ~giving), self.o.valid.eq(giving),
                     self.o.p.last.eq(entries == 1), self.o.p.data.eq(Cat(chains))]
        with m.If(busy):
            m.d.sync += [lane.eq(lane + 1), place.eq(place + 1)]
            with m.If(lane == lanes - 1):
                m.d.sync += [busy.eq(0), giving.eq(held.last), lane.eq(0)]
        with m.Elif(giving & self.o.ready):
            m.d.sync += [entries.eq(entries - 1), given.eq(given + lanes)]
            with m.If(self.o.p.last):
                m.d.sync += [giving.eq(0), place.eq(0), given.eq(0)]
        with m.Elif(self.i.valid & self.i.ready):
            m.d.sync += [held.eq(self.i.p), busy.eq(1), entries.eq(entries + 1)]
        return m

    def _chain_of(self, m: Module, row: int, held, busy: Value, lane: Value, place: Value,
                  given: Value):
        """The cells of one row of entries; gives the lanes of the result that come next."""
        bits, lanes, fields = self._number.width, self._lanes, held.fields
        cell = data.StructLayout({"there": 1, "number": self._number, "place": PLACE_BITS})
        cells = [Signal(cell, name=f"row{row}_cell{number}") for number in range(self._chain)]
        turned = fields.least.any().replicate(bits)         # so that the least are the greatest
        whole = held.data.word_select(row, lanes * bits)
        new = Signal(cell, name=f"row{row}_new")
        m.d.comb += [new.there.eq(1), new.place.eq(place),
                     new.number.eq(whole.word_select(lane, bits) ^ turned)]
        before, old = Const(0), new
        for one in cells:
            behind = Signal()                               # the new number is before this one
            m.d.comb += behind.eq(~one.there | (new.number > one.number))
            with m.If(busy & (place < fields.count) & behind):
                m.d.sync += one.eq(Mux(before, old, new))
            before, old = behind, one
        with m.If(self.o.valid & self.o.ready):
            for one, later in zip(cells, [*cells[lanes:], *[Const(0)] * lanes]):
                m.d.sync += one.eq(Mux(self.o.p.last, 0, later))

        def shown(number: int):
            one, k = cells[number], fields.k
            low, high = one.place[:bits], (one.place >> bits)[:bits]
            part = Mux(fields.part == 0, one.number.as_unsigned() ^ turned,
                       Mux(fields.part == 1, low, high))
            return Mux(one.there & (given + number < k), part, 0)[:bits]
        return Cat(shown(number) for number in range(lanes))


def greatest(rows: np.ndarray, count: int, k: int, part: int, least: int) -> np.ndarray:
    """What `top_k` gives of rows of entries (rows, entries, batch, lanes): the same shape."""
    lines = rows.transpose(0, 2, 1, 3).reshape(len(rows), rows.shape[2], -1)
    numbers = lines[..., :count].astype(np.int64)
    order = np.argsort(numbers if least else -numbers, axis=-1, kind="stable")[..., :min(k, MOST)]
    bits = 8 * rows.itemsize
    parts = (np.take_along_axis(numbers, order, -1), order, order >> bits)
    result = np.zeros(lines.shape, np.int64)
    result[..., :order.shape[-1]] = parts[min(part, 2)]
    places = result.reshape(*lines.shape[:2], *rows.shape[1::2]).transpose(0, 2, 1, 3)
    return places.astype(rows.dtype)


def bound(elements: int, lanes: int, order: Applied) -> Bound | None:
    """The immediates of a network's operator, of as few numbers as there are cells for."""
    if order.attrs["count"] > MOST or elements >= 1 << PLACE_BITS:
        return None
    return {"count": elements, "k": order.attrs["count"], "part": order.attrs["part"],
            "least": 1 - order.attrs["largest"]}, None


def machine_of(config: AccelConfig) -> Machine:
    """A geometry with the unit."""
    structure = SHIPPED_STRUCTURE.with_stream(
        "sorter", (("a", "res"), ("dst", "firsts")),
        (BufferRecord("firsts", ("batch", "block_out"), "output", "out_bytes"),))
    lanes = config.block_out
    instruction = stream_op(
        "top_k", "sorter", TopK, greatest, longest=LONGEST, fields=(
            Immediate("count", "uint16", 0, (1 << PLACE_BITS) - 1),
            Immediate("k", "uint8", 0, 31), Immediate("part", "uint8", 0, 3),
            Immediate("least", "uint8", 0, 1)),
        computes=Computes(("qorder",), bound, lambda n: n * (lanes + 2)))
    return Machine(replace(config, name=f"{config.name}-top-k", structure=structure),
                   (*SHIPPED, instruction))


machine = machine_of(preset("tiny-1x4x4"))
