"""The stream unit: loops that read and write around components of one's own."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from accel.hw.interface import INDEX_BITS, entry_read, unit_signature
from accel.hw.issue import Issue, outside, pass_through
from accel.hw.loops import Ahead, LoopNest
from accel.hw.moving.scratchpad import entry_write
from accel.hw.parts import delayed, field_of
from accel.hw.queue import Queue, tally
from accel.machine.declare import unit_of
from accel.machine.machine import Machine
from accel.machine.status import Status
from accel.machine.streams import StreamForm, number
from accel.machine.structure import UnitKind

_ENTERING = 2
"""Cycles from an entry that was read until a component sees it, of a queue's output register."""

_LATER = 2
"""Instructions that are read, or were, and whose results are not written yet."""


class StreamUnit(wiring.Component):
    """Reads rows, hands them to the component of their instruction, and writes what it makes.

    ::

        commands ── Issue ──┬── reads ── buffers ── entering ── component ──┐
                            └── later ── writes ── ahead ──────────────────┴── dst

    Two nests of loops run by themselves: `reads` as far ahead as `entering` has room, `writes` as
    far as `Ahead` has. Throughput: an entry a cycle, or what the component takes; without a table,
    entries of the next instruction follow at once. A unit with a table begins an instruction when
    the one before is written: the table's place is that of one instruction.
    Latency: the first entry is offered to the component ``3 + nest_cycles + read_cycles`` cycles
    after its instruction is taken, and what the component makes is written in the cycle after it
    is offered; an instruction retires two cycles after its last write, if its signals are granted
    at once.

    Members beside those of every unit: the buffers of its ports.
    """

    def __init__(self, machine: Machine, unit: str = UnitKind.STREAM):
        self.machine, self.unit = machine, unit_of(machine.structure, unit)
        self.forms = [form for form in machine.of_unit(self.unit.name)
                      if isinstance(form, StreamForm)]
        self.word, buffers = machine.formats[self.unit.name], machine.config.buffers
        self._a, (self._dst,) = self.unit.at("a"), self.unit.at("dst")
        self._table = next(iter(self.unit.at("table")), "")
        self._fields = data.StructLayout({
            one.name: number(one.dtype) for form in self.forms for one in form.immediates})
        tag = {"index": INDEX_BITS, "select": len(self.forms), "illegal": 1, "row": 16}
        self.read_tag = data.StructLayout({
            **tag, "source": len(self._a), "outside": 1, "fields": self._fields})
        self.write_tag = data.StructLayout(tag)
        super().__init__({
            **unit_signature(machine.structure),
            **{name: Out(entry_read(buffers[name])) for name in self.unit.reads},
            self._dst: Out(entry_write(buffers[self._dst]))})

    def elaborate(self, platform):
        m, timing = Module(), self.machine.config.timing
        m.submodules.issue = issue = Issue(self.word, timing.in_flight, self.machine.structure)
        m.submodules.reads = reads = LoopNest(_loops("a"), {"a": 16}, self.read_tag, timing)
        m.submodules.writes = writes = LoopNest(_loops("dst"), {"dst": 16}, self.write_tag, timing)
        m.submodules.later = later = Queue(data.StructLayout({
            "base": 16, "loops": _loops("dst"), "tag": self.write_tag}), _LATER)
        pass_through(m, self, issue)
        _, held, _ = tally(m, "held", timing.in_flight, issue.load, issue.done)
        word, tag, coming = data.View(self.word, self.commands.p.word), reads.tag, later.i.p
        self._decode(m, word, tag)
        m.d.comb += [
            issue.working.eq(held),
            issue.ready.eq(reads.ready & later.i.ready & (~held if self._table else 1)),
            reads.load.eq(issue.load), later.i.valid.eq(issue.load),
            reads.empty.eq(tag.illegal), reads.base.a.eq(word.base.a),
            coming.base.eq(word.base.dst), *_linked(reads.loops, word.loops, "a"),
            *_linked(coming.loops, word.loops, "dst"),
            *(coming.tag[name].eq(tag[name]) for name, _ in self.write_tag),
            writes.load.eq(later.o.valid & writes.ready), later.o.ready.eq(writes.ready),
            writes.empty.eq(later.o.p.tag.illegal), writes.base.dst.eq(later.o.p.base),
            writes.loops.eq(later.o.p.loops), writes.tag.eq(later.o.p.tag),
        ]
        components = [form.component(form.shape) for form in self.forms]
        for form, component in zip(self.forms, components, strict=True):
            m.submodules[f"component_{form.name}"] = component
        self._read(m, reads, components)
        wrong = self._write(m, issue, writes, components)
        if self._table:
            self._look_up(m, issue, word, tag.select, components)
        self._report(m, reads, writes, wrong)
        return m

    def _decode(self, m: Module, word: data.View, tag: data.View):
        """Decodes the word at the head of the queue."""
        opcodes, buffers = self.machine.opcodes, self.machine.config.buffers
        own, wrong = self.machine.immediates[self.unit.name], []
        row = word.loops[-1].extent
        for which, form in enumerate(self.forms):
            here = word.opcode == opcodes[form.name]
            known = Cat(word.a_source == self._a.index(name) for name in form.operands[0].scopes)
            m.d.comb += tag.select[which].eq(here)
            wrong.append(here & (~known.any() | (row >= form.longest)))
        m.d.comb += [
            tag.index.eq(self.commands.p.index), tag.illegal.eq(Cat(wrong).any()), tag.row.eq(row),
            *(tag.source[code].eq(word.a_source == code) for code in range(len(self._a))),
            *(tag.fields[name].eq(field_of(self.commands.p.word, own[name]))
              for name, _ in self._fields),
        ]
        if self._table:
            m.d.comb += tag.outside.eq(
                word.base.b + (Const(1) << word.entries) > buffers[self._table].depth)

    def _read(self, m: Module, reads: LoopNest, components: list[wiring.Component]):
        """Entries go from buffers to the component of their instruction."""
        timing, tag = self.machine.config.timing, reads.out_tag
        depth = 1 << (timing.nest_cycles + timing.read_cycles + _ENTERING).bit_length()
        width = max(len(component.i.p.data) for component in components)
        m.submodules.entering = entering = Queue(data.StructLayout({
            "data": width, "fields": self._fields, "last": 1, "select": len(components)}),
            depth, _ENTERING)
        _, _, full = tally(m, "entries", depth, reads.made, entering.o.valid & entering.o.ready)
        ends = _row_ends(m, "reads", reads)
        rows = []
        for code, name in enumerate(self._a):
            port = getattr(self, name)
            m.d.comb += [port.addr.eq(reads.out.a), port.en.eq(reads.valid & tag.source[code])]
            rows.append(port.data)
        source, valid, last, select, fields = (
            delayed(m, value, timing.read_cycles, name) for value, name in (
                (tag.source, "source"), (reads.valid, "valid"), (ends, "ends"),
                (tag.select, "select"), (tag.fields, "fields")))
        found, taken = rows[0], []
        for code, row in list(enumerate(rows))[1:]:
            found = Mux(source[code], row, found)
        for which, component in enumerate(components):
            here = entering.o.p.select[which]
            m.d.comb += [
                component.i.valid.eq(entering.o.valid & here),
                component.i.p.data.eq(entering.o.p.data), component.i.p.last.eq(entering.o.p.last),
                *(component.i.p.fields[name].eq(entering.o.p.fields[name])
                  for name in self.forms[which].shape.fields)]
            taken.append(here & component.i.ready)
        m.d.comb += [
            reads.step.eq(~full), entering.i.valid.eq(valid), entering.i.p.data.eq(found),
            entering.i.p.fields.eq(fields), entering.i.p.last.eq(last),
            entering.i.p.select.eq(select), entering.o.ready.eq(Cat(taken).any())]

    def _write(self, m: Module, issue: Issue, writes: LoopNest,
               components: list[wiring.Component]) -> data.View:
        """Results go to their places; returns the error of one that ends its row elsewhere."""
        m.submodules.ahead = ahead = Ahead(data.StructLayout({
            "dst": 16, "select": len(components), "ends": 1, "last": 1, "index": INDEX_BITS}),
            self.machine.config.timing)
        place, port = ahead.o.p, getattr(self, self._dst)
        wrong = Signal(data.StructLayout({"error": 1, "index": INDEX_BITS}))
        m.d.comb += [
            writes.step.eq(ahead.step), ahead.made.eq(writes.made), ahead.valid.eq(writes.valid),
            ahead.i.dst.eq(writes.out.dst), ahead.i.select.eq(writes.out_tag.select),
            ahead.i.ends.eq(_row_ends(m, "writes", writes)), ahead.i.last.eq(writes.last),
            ahead.i.index.eq(writes.out_tag.index)]
        offered, found, last = Const(0), components[0].o.p.data, components[0].o.p.last
        for which, component in enumerate(components):
            here = place.select[which]
            m.d.comb += component.o.ready.eq(ahead.o.valid & here)
            offered |= here & component.o.valid
            found = Mux(here, component.o.p.data, found)
            last = Mux(here, component.o.p.last, last)
        taken = ahead.o.valid & offered
        m.d.comb += ahead.o.ready.eq(offered)
        m.d.sync += [
            port.w_en.eq(taken), port.w_addr.eq(place.dst), port.w_data.eq(found),
            issue.done.eq(taken & place.last),
            wrong.error.eq(taken & (last != place.ends)), wrong.index.eq(place.index)]
        return wrong

    def _look_up(self, m: Module, issue: Issue, word: data.View, select: Value,
                 components: list[wiring.Component]):
        """The table of the instruction at work: addresses are modulo its entries."""
        port = getattr(self, self._table)
        here, first = Signal(len(components)), Signal(len(port.addr))
        mask = Signal(len(port.addr))
        with m.If(issue.load):
            m.d.sync += [here.eq(select), first.eq(word.base.b),
                         mask.eq((Const(1) << word.entries) - 1)]
        place = Const(0)
        for which, component in enumerate(components):
            place |= Mux(here[which], component.table.addr, 0)
            m.d.comb += component.table.data.eq(port.data)
        m.d.comb += [port.addr.eq(first + (place & mask)), port.en.eq(Cat(
            here[which] & component.table.en
            for which, component in enumerate(components)).any())]

    def _report(self, m: Module, reads: LoopNest, writes: LoopNest, wrong: data.View):
        """Errors, of the oldest instruction first: later ones do not count beside it."""
        buffers = self.machine.config.buffers
        reading, writing = reads.out_tag, writes.out_tag
        far = Cat(reading.source[code] & outside(reads.out.a, buffers[name].depth)
                  for code, name in enumerate(self._a)).any() | reading.outside
        beyond = outside(writes.out.dst, buffers[self._dst].depth)
        sides = ((reads.valid, reading, far), (writes.valid, writing, beyond))
        m.d.sync += self.error.eq(0)
        for valid, tag, address in sides:
            with m.If(valid & (tag.illegal | address)):
                m.d.sync += [self.error.eq(1), self.error_index.eq(tag.index),
                             self.error_status.eq(Mux(tag.illegal, Status.ILLEGAL,
                                                      Status.ADDRESS))]
        with m.If(wrong.error):
            m.d.sync += [self.error.eq(1), self.error_index.eq(wrong.index),
                         self.error_status.eq(Status.ILLEGAL)]


def _loops(operand: str) -> data.ArrayLayout:
    return data.ArrayLayout(data.StructLayout({"extent": 16, operand: 16}), 5)


def _linked(loops: data.View, word: data.View, operand: str):
    """Assigns the loops of one operand those of a word."""
    return [loops[level][name].eq(word[level][name])
            for level in range(5) for name in ("extent", operand)]


def _row_ends(m: Module, name: str, nest: LoopNest) -> Value:
    """High with the last entry of a row among those that a nest makes."""
    at, ends = Signal(16, name=f"{name}_at"), Signal(name=f"{name}_ends")
    m.d.comb += ends.eq(nest.last | (at == nest.out_tag.row))
    with m.If(nest.valid):
        m.d.sync += at.eq(Mux(ends, 0, at + 1))
    return ends
