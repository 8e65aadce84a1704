"""Stream units for tests: components that keep a row, that compute at once, and that read a table.
"""

from dataclasses import replace

import numpy as np
from amaranth.hdl import Module, Signal
from amaranth.lib import data, memory, wiring

from accel.machine.config import AccelConfig, preset
from accel.machine.intrinsics import SHIPPED, stream_op
from accel.machine.machine import Machine
from accel.machine.program import Instruction
from accel.machine.streams import StreamShape
from accel.machine.structure import SHIPPED_STRUCTURE, BufferRecord
from compiler.tensorize import Immediate

LONGEST = 12
"""Entries that `Reverse` can keep."""


class Reverse(wiring.Component):
    """The entries of a row, the last first. Takes a row, then gives it; 2 n + 1 cycles a row."""

    def __init__(self, shape: StreamShape):
        super().__init__(shape.members)

    def elaborate(self, platform):
        m = Module()
        width = len(self.i.p.data)
        m.submodules.kept = kept = memory.Memory(shape=width, depth=LONGEST, init=[])
        write, read = kept.write_port(), kept.read_port(domain="comb")
        count, gives = Signal(range(LONGEST + 1)), Signal()
        m.d.comb += [
            self.i.ready.eq(~gives), self.o.valid.eq(gives),
            write.addr.eq(count), write.data.eq(self.i.p.data),
            write.en.eq(self.i.valid & self.i.ready),
            read.addr.eq(count - 1), self.o.p.data.eq(read.data), self.o.p.last.eq(count == 1),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [count.eq(count + 1), gives.eq(self.i.p.last)]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [count.eq(count - 1), gives.eq(count != 1)]
        return m


def reversed_rows(rows):
    return rows[:, ::-1]


class Raise(wiring.Component):
    """Adds a number to each element, in the same cycle."""

    def __init__(self, shape: StreamShape):
        self.shape = shape
        super().__init__(shape.members)

    def elaborate(self, platform):
        m = Module()
        given = data.View(self.shape.a_elements, self.i.p.data)
        made = data.View(self.shape.dst_elements, self.o.p.data)
        m.d.comb += [
            self.o.valid.eq(self.i.valid), self.i.ready.eq(self.o.ready),
            self.o.p.last.eq(self.i.p.last),
            *(made[k].eq(given[k] + self.i.p.fields.more) for k in range(len(given)))]
        return m


def raised(rows, more):
    return rows + more


class Pick(wiring.Component):
    """The entry of the table whose number is the first element; an entry at a time."""

    def __init__(self, shape: StreamShape):
        self.shape = shape
        super().__init__(shape.members)

    def elaborate(self, platform):
        m = Module()
        cycles = self.shape.read_cycles
        left, busy, last = Signal(range(cycles + 1)), Signal(), Signal()
        made = Signal.like(self.o.p.data)
        m.d.comb += [
            self.i.ready.eq(~busy), self.table.en.eq(self.i.valid & ~busy),
            self.table.addr.eq(data.View(self.shape.a_elements, self.i.p.data)[0].as_unsigned()),
            self.o.valid.eq(busy & (left == 0)), self.o.p.data.eq(made), self.o.p.last.eq(last),
        ]
        with m.If(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.If(left == 1):
            m.d.sync += made.eq(self.table.data)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [busy.eq(1), left.eq(cycles), last.eq(self.i.p.last)]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += busy.eq(0)
        return m


def picked(rows, table):
    return table[rows[:, :, 0, 0].astype(np.int64) % len(table)]


MORE = (Immediate("more", "int8", -128, 127),)
TILE = ("batch", "block_out")


def machine_of(config: AccelConfig | None = None, reverse=Reverse, **names: str) -> Machine:
    """A machine with a unit ``turn`` that reverses rows of entries of res, or adds to them. `names`
    are others for units and buffers."""
    structure = SHIPPED_STRUCTURE.with_stream(
        "turn", [("a", "res"), ("dst", "turned")], [BufferRecord("turned", TILE, "output", 2048)]
    ).renamed(names)
    unit = names.get("turn", "turn")
    declared = (stream_op("reverse", unit, reverse, reversed_rows, longest=LONGEST),
                stream_op("raise_by", unit, Raise, raised, fields=MORE))
    return Machine(replace(config or preset("tiny-1x4x4"), name="streams", structure=structure),
                   SHIPPED + declared)


def picks_of(config: AccelConfig | None = None) -> Machine:
    """A machine with a unit ``pick`` that reads a table in inp, by entries of res or of a buffer of
    its own; two instructions with a component each share the table's port."""
    structure = SHIPPED_STRUCTURE.with_stream(
        "pick", [("a", "res"), ("a", "places"), ("table", "inp"), ("dst", "picked")],
        [BufferRecord("picked", ("batch", "block_in"), "operand", 2048),
         BufferRecord("places", TILE, "output", 1024)])
    declared = tuple(stream_op(name, "stream", Pick, picked) for name in ("pick_from", "pick_too"))
    return Machine(replace(config or preset("tiny-1x4x4"), name="picks", structure=structure),
                   SHIPPED + declared)


def row_instruction(machine: Machine, name: str, rows: int, length: int, base: dict[str, int],
                    step: int = 1, source: str = "res", entries: int = 0,
                    **fields: int) -> Instruction:
    """Rows one behind the other, their entries `step` apart; addresses wrap nowhere."""
    unit, far = machine.unit_of(name), abs(step) * length
    back = (length - 1) * abs(step) if step < 0 else 0
    place = {key: base.get(key, 0) + back * (key != "b") for key in ("a", "dst", "b")}
    around = {"extent": rows, "a": far, "dst": far}
    row = {"extent": length, "a": step % (1 << 16), "dst": step % (1 << 16)}
    return Instruction(name, unit, {
        "opcode": machine.opcodes[name], "entries": entries, "base": place,
        "a_source": machine.structure.unit(unit).at("a").index(source),
        "loops": [around, {"extent": 1}, {"extent": 1}, {"extent": 1}, row], **fields},
        structure=machine.structure)
