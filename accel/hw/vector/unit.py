"""The vector unit."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out, Signature
from amaranth.utils import exact_log2

from accel.datapath.floats import FORMATS
from accel.datapath.plan import plan
from accel.hw.compute.datapath import Datapath
from accel.hw.interface import INDEX_BITS, acc_port, entry_read, table_read, unit_signature
from accel.hw.issue import Issue, outside, pass_through, report, wrong_bank
from accel.hw.loops import COMPUTE_OPERANDS, Ahead, LoopNest
from accel.hw.parts import delayed, registered
from accel.hw.compute.update import Update, updates_of
from accel.machine.config import AccelConfig
from accel.machine.declare import unit_of
from accel.machine.machine import Machine
from accel.machine.structure import IMMEDIATE, UnitKind
from compiler.te import bits, is_float

from .decode import Decode, operation_layout
from accel.hw.compute.hazards import Hazards
from .operands import Operands
from .stored import narrowed

TAG = data.StructLayout({"out": 1, "last": 1, "banks": 2})


def out_port(config: AccelConfig, buffer: str | None = None) -> Signature:
    """Write port of a buffer of results as vector sees it: one part of an entry a cycle."""
    geometry = config.parts[buffer or config.structure.roles.out]
    return Signature({"w_addr": Out(range(geometry.depth)), "w_en": Out(1),
                      "w_data": Out(geometry.entry_bytes * 8)})


class Vector(wiring.Component):
    """Element-wise work on acc, res, par and tab, from the plan of the unit's bodies.

    Throughput: one iteration a cycle, two cycles if its two sources are in the same buffer; with
    `AccelConfig.vector_beats` so many times that, as the parts of an entry are then taken one after
    the other, each as an iteration of its own.
    Latency: the first iteration of an instruction is issued, that is, presents its addresses,
    `issue_cycles` after the instruction is taken, at the earliest, and is written
    ``plan.write_cycles`` later. The loops run up to `ahead` iterations ahead of the
    issue. An instruction retires two cycles after its last write, if its signals are granted at
    once. No cycle is lost between instructions of three iterations or more.

    Issue waits while

    - a source in acc is the destination of an iteration that is not yet written: the earliest read
      is in the cycle after the write of all parts; an iteration with two such sources waits for
      both before it reads either;
    - a source in acc needs the read port in a cycle in which an accumulating iteration reads its
      destination (``latency`` cycles after its own issue).

    ::

        0                 addresses of acc, res and par
        2                 their data; sources are selected into registers
        3                 operands: stage 0 of the data path
        latency           address of acc for an update that accumulates
        3 + latency       value and destination meet
        4 + latency       write to acc or out

    Signals of iteration t carry the cycle in their name: ``s0_`` in the issue slot, where it waits.
    (The data path counts its own stages, from cycle 3.)
    """

    def __init__(self, machine: Machine, unit: str = UnitKind.VECTOR):
        self.machine, self.unit = machine, unit_of(machine.structure, unit)
        self.plan = plan(machine, self.unit.name)
        config, parts = machine.config, machine.config.parts
        self.word = machine.formats[self.unit.name]
        operation = operation_layout(self.plan, self.word, self.unit)
        self.tag = data.StructLayout({"index": INDEX_BITS, "operation": operation})
        self.iteration = data.StructLayout({
            **COMPUTE_OPERANDS, "assign": 1, "last": 1, "operation": operation})
        self.lanes = config.lanes // config.vector_beats        # of a part
        self.lookups = self.plan.count("lookup")
        # Buffers in the order of roles: accumulators, tensors, records, tables, results.
        (acc, res), (par,), (tab,), (_, out) = map(self.unit.at, ("a", "record", "table", "dst"))
        super().__init__({**unit_signature(machine.structure), res: Out(entry_read(parts[res])),
                          par: Out(entry_read(parts[par])),
                          acc: Out(acc_port(parts[acc])), out: Out(out_port(config, out)),
                          **({tab: Out(table_read((parts[tab].depth - 1).bit_length(),
                                                  self.lookups))} if self.lookups else {})})
        self._names = acc, res, par, tab, out
        self._acc, self._res, self._par, self._out = (
            getattr(self, name) for name in (acc, res, par, out))

    def elaborate(self, platform):
        m, timing = Module(), self.machine.config.timing
        m.submodules.issue = issue = Issue(self.word, self.plan.retire_depth,
                                           self.machine.structure)
        m.submodules.decode = decode = Decode(self.plan, self.word,
                                               self.machine.immediates[self.unit.name], self.unit)
        m.submodules.nest = nest = LoopNest(
            self.word["loops"].shape, COMPUTE_OPERANDS, self.tag, timing)
        m.submodules.ahead = ahead = Ahead(self.iteration, timing)
        pass_through(m, self, issue, self._acc)
        word, operation = data.View(self.word, self.commands.p.word), nest.out_tag.operation
        _, folds = updates_of(self.plan, operation.select)
        m.d.comb += [
            # An instruction stands at the head for a cycle, at least, before it is taken.
            decode.word.eq(word), nest.tag.operation.eq(decode.operation),
            nest.empty.eq(decode.operation.illegal),
            nest.base.eq(word.base), nest.loops.eq(word.loops),
            nest.tag.index.eq(self.commands.p.index), nest.step.eq(ahead.step),
            nest.load.eq(issue.load), issue.ready.eq(nest.ready),
            ahead.made.eq(nest.made), ahead.valid.eq(nest.valid),
            ahead.i.last.eq(nest.last), ahead.i.operation.eq(operation),
            ahead.i.assign.eq((operation.reset & nest.first) | ~folds.any()),
            *(ahead.i[name].eq(nest.out[name]) for name in COMPUTE_OPERANDS),
        ]
        report(m, self, moves=nest.valid, index=nest.out_tag.index,
               illegal=operation.illegal, address=self._outside(nest, operation))

        slot = _Slot(self)
        updates, _ = updates_of(self.plan, slot.iteration.operation.select)
        m.submodules.update = update = Update(updates, self.lanes, self._depth, TAG.size,
                                               self.plan.value_bits, timing.read_cycles)
        s0_folding = Signal()           # an update reads acc
        self._slot(m, slot, ahead, s0_folding)
        m.d.comb += [issue.working.eq(nest.busy | ahead.some | slot.full),
                     issue.standing.eq(slot.full & ~slot.issued)]
        self._read(m, slot, update)
        self._operands(m, slot, update)
        self._update(m, slot, update, s0_folding, platform)
        m.d.comb += [issue.done.eq(data.View(TAG, update.tag).last),
                     issue.done_banks.eq(data.View(TAG, update.tag).banks)]
        return m

    def _outside(self, nest: LoopNest, operation) -> Value:
        """High if an iteration has an address that its buffer, or its banks, do not have."""
        buffers, acc = self.machine.config.buffers, self._names[0]
        tests = []
        third = ((operation.c, operation.entry),) if self.plan.third else ()
        for chosen, address in ((operation.a, nest.out.a), (operation.b, nest.out.b), *third,
                                (operation.to, nest.out.dst)):
            for scope, _ in chosen.shape():
                if scope == IMMEDIATE:
                    continue
                depth = buffers[scope].depth
                bad = outside(address, depth)
                if scope == acc:
                    bad |= wrong_bank(address, depth, operation.banks)
                tests.append(chosen[scope] & bad)
        return Cat(tests).any()

    def _slot(self, m: Module, slot: "_Slot", ahead: Ahead, folding: Value):
        """Iterations enter the slot, wait there, and are issued part by part."""
        iteration, free, reads_acc = slot.iteration, Signal(), slot.reads_acc
        acc = self._names[0]
        m.submodules.hazards = hazards = Hazards(self.machine.config.buffers[acc].depth,
                                                 self.plan.write_cycles)
        coming = ahead.o.p
        m.d.comb += [
            hazards.enters.eq(free), hazards.incoming.a_acc.eq(coming.operation.a[acc]),
            hazards.incoming.b_acc.eq(coming.operation.b[acc]),
            hazards.incoming.a.eq(coming.a), hazards.incoming.b.eq(coming.b),
            hazards.writes.eq(slot.issued & iteration.operation.to[acc]),
            hazards.entry.eq(iteration.dst),
            slot.moves.eq(slot.full & ~hazards.pending & ~(reads_acc & folding)),
            slot.issued.eq(slot.moves & slot.final),
            free.eq(~slot.full | (slot.issued & slot.last_beat)), ahead.o.ready.eq(free),
        ]
        with m.If(free):
            m.d.sync += [slot.full.eq(ahead.o.valid), slot.second.eq(0), iteration.eq(coming),
                         slot.final.eq(~coming.operation.twice), slot.beat.eq(0),
                         reads_acc.eq(coming.operation.a[acc] | coming.operation.b[acc])]
        with m.Elif(slot.moves):        # its second source, or its next part
            m.d.sync += [slot.second.eq(~slot.final), slot.beat.eq(slot.beat + slot.final),
                         slot.final.eq(~slot.final | ~iteration.operation.twice)]

    def _read(self, m: Module, slot: "_Slot", update: Update):
        """Addresses of acc, res and par. An iteration that waits reads as well, so that
        `slot.moves`, which comes late, is not in the way.
        """
        iteration, operation = slot.iteration, slot.iteration.operation
        acc, res, par, *_ = self._names

        def address(buffer: str) -> Value:      # a, unless only b is to be read, or it is b's turn
            entry = Mux(slot.second | ~operation.a[buffer], iteration.b, iteration.a)
            return self._part(buffer, entry, slot.beat)

        m.d.comb += [
            self._acc.r_addr.eq(Mux(update.r_en, update.r_addr, address(acc))),
            self._acc.r_en.eq(update.r_en | (slot.full & slot.reads_acc)),
            self._res.addr.eq(address(res)),
            self._res.en.eq(slot.full & (operation.a[res] | operation.b[res])),
            self._par.addr.eq(self._part(par, self._entry(iteration, par), slot.beat)),
            self._par.en.eq(slot.full & (operation.b[par] | self._is_third(operation, par))),
        ]

    def _is_third(self, operation, buffer: str) -> Value:
        """High if the instruction reads `buffer` at c."""
        return operation.c[buffer] if buffer in self.plan.third else Const(0)

    def _entry(self, iteration, buffer: str) -> Value:
        """The entry of records or tables that an iteration reads."""
        if buffer not in self.plan.third:
            return iteration.b
        operation = iteration.operation
        return Mux(operation.c[buffer], operation.entry, iteration.b)

    @property
    def _depth(self) -> int:
        return max(self.machine.config.parts[scope].depth for scope in self.unit.writes)

    def _part(self, buffer: str, entry: Value, beat: Value) -> Value:
        """Address of the part of an entry whose turn it is."""
        config = self.machine.config
        count = config.parts[buffer].depth // config.buffers[buffer].depth
        return Cat(beat[:exact_log2(count)], entry)

    def _operands(self, m: Module, slot: "_Slot", update: Update):
        """Data of the buffers through the operand registers and the data path."""
        m.submodules.datapath = datapath = Datapath(self.plan)
        m.submodules.operands = operands = Operands(self.machine.config, self.plan, datapath.widths,
                                                  self.unit)
        acc, res, par, tab, _ = self._names
        fetch, operation = operands.s0_fetch, slot.iteration.operation
        m.d.comb += [
            fetch.a.eq(slot.moves & ~(operation.twice & slot.final)), fetch.b.eq(slot.issued),
            fetch.operation.eq(operation), fetch.table.eq(self._entry(slot.iteration, tab)),
            *(getattr(operands, f"s2_{name}").eq(value) for name, value in (
                (acc, self._acc.r_data), (res, self._res.data), (par, self._par.data))),
            datapath.valid.eq(operands.s2_issued),
            datapath.select.eq(operands.s2_operation.select),
            *(getattr(datapath, name).eq(operands.s2_operation[name])
              for name in self.plan.immediates),
            *(getattr(datapath, bus).eq(operands.s3[bus]) for bus in self.plan.buses),
            update.value.eq(datapath.value),
        ]
        if self.lookups:
            wiring.connect(m, datapath.tab, wiring.flipped(getattr(self, tab)))

    def _update(self, m: Module, slot: "_Slot", update: Update, folding: Signal, platform):
        """Passes issued elements to the update when their values arrive, and writes results."""
        s0_element = Signal(update.element_layout)
        iteration, operation = slot.iteration, slot.iteration.operation
        tag = data.View(TAG, s0_element.tag)
        before = delayed(m, s0_element, self.plan.fold_cycles - 1, "element")
        stored, acc, out = self.machine.config.output, self._names[0], self._names[-1]
        wide = self.plan.value_bits
        m.d.comb += [
            s0_element.valid.eq(slot.issued & ~operation.illegal),
            s0_element.acc.eq(slot.issued & operation.to[acc]),
            s0_element.addr.eq(Cat(slot.beat, iteration.dst)),
            s0_element.assign.eq(iteration.assign),
            s0_element.update.eq(updates_of(self.plan, operation.select)[1]),
            tag.out.eq(slot.issued & operation.to[out]),
            tag.last.eq(slot.issued & iteration.last & slot.last_beat),
            tag.banks.eq(operation.banks),
            update.element.eq(delayed(m, before, 1, "folding_element")),
            folding.eq(registered(m, platform, before.acc & ~before.assign, "folds")),
            update.r_data.eq(self._acc.r_data),
            self._acc.w_addr.eq(update.w_addr), self._acc.w_en.eq(update.w_en),
            self._acc.w_data.eq(update.w_data),
            self._out.w_addr.eq(update.w_addr), self._out.w_en.eq(data.View(TAG, update.tag).out),
            self._out.w_data.eq(Cat(_stored(update.w_data.word_select(lane, wide), stored)
                                   for lane in range(self.lanes))),
        ]


def _stored(value: Value, dtype: str) -> Value:
    """A result as out has it: the low bits of an integer, a rounded float32 in its type."""
    return narrowed(value, FORMATS[dtype]) if is_float(dtype) else value[:bits(dtype)]


class _Slot:
    """The registers of the iteration that is being issued, and what it does in this cycle."""

    def __init__(self, unit: Vector):
        self.iteration = Signal(unit.iteration, name="s0_iteration", reset_less=True)
        self.full = Signal(name="s0_full")
        self.second = Signal(name="s0_second")                  # of two sources in one buffer
        self.final = Signal(name="s0_final", reset_less=True)   # the last source of this part
        self.reads_acc = Signal(name="s0_reads_acc", reset_less=True)
        self.beat = Signal(range(unit.machine.config.vector_beats), name="s0_beat", reset_less=True)
        self.last_beat = self.beat.all() if len(self.beat) else Const(1)
        self.moves = Signal(name="s0_moves")                    # a source is read
        self.issued = Signal(name="s0_issued")                  # the last source of a part is read
