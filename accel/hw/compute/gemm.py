"""The gemm unit."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from accel.datapath.plan import plan
from accel.hw.compute.arrays import Feed, keep_sums, keep_weights
from accel.hw.compute.datapath import Datapath
from accel.hw.interface import INDEX_BITS, acc_port, entry_read, unit_signature
from accel.hw.issue import Issue, outside, pass_through, report, wrong_bank
from accel.hw.loops import COMPUTE_OPERANDS, Ahead, LoopNest
from accel.hw.compute.meeting import Meeting
from accel.hw.parts import delayed, field_of
from accel.hw.compute.update import Update, updates_of
from accel.hw.compute.hazards import Hazards
from accel.machine.declare import operand_field, unit_of
from accel.machine.isa import GEMM
from accel.machine.machine import Machine
from accel.machine.structure import UnitKind

TAG = data.StructLayout({"last": 1, "banks": 2})


class Gemm(wiring.Component):
    """Matrix products: ``acc[dst] += inp[a] · wgt[b]``, from the plan of the unit's bodies.

    Throughput: one iteration a cycle, whatever the destinations, and no cycle lost between
    instructions of three iterations or more. Latency: an iteration reads inp and wgt in the cycle
    in which the loops show it (an instruction's first: `address_cycles` after it is taken) and is
    written to acc ``plan.write_cycles`` later; an instruction retires two cycles after its last
    write, if its signals are granted at once. Nothing in the pipeline ever waits.

    ::

        0                 addresses of inp and wgt
        2                 operands: stage 0 of the data path (`read_cycles`)
        latency - 1       address of acc
        2 + latency       value and accumulator meet
        3 + latency       write

    Where acc holds floats, value and accumulator meet in a datapath (`Meeting`), and iterations
    pass a slot, as those of vector do: one waits there while its destination, if it reads it, is
    that of an iteration that is not yet written. So an instruction's first addresses come
    `waiting_cycles` after it is taken, iterations into one destination follow each other in
    ``plan.hazard_cycles + 1``, others in one cycle. ::

        latency           address of acc
        2 + latency       value and accumulator meet
        write_cycles      write: 2 + latency + plan.meeting.latency

    A systolic array (`accel.datapath.array`) takes the place of the datapath where the geometry
    says so. If its weights stay, iterations wait for those of their tile, which come in while the
    tile before is in use (`WeightLoader`): the first iteration of an instruction, and each with
    another `b` than the one before it, follow in `load_cycles` the last such. So an instruction's
    first addresses come ``waiting_cycles + load_cycles - 1`` after it is taken, at the earliest.
    If its sums stay, the iterations of an instruction that follow each other into one destination
    meet acc together: with the last of them, when the next one comes.
    """

    def __init__(self, machine: Machine, unit: str = UnitKind.GEMM):
        self.machine, self.unit = machine, unit_of(machine.structure, unit)
        self.plan = plan(machine, self.unit.name)
        config = machine.config
        (self._dst,) = self.unit.writes
        super().__init__({
            **unit_signature(machine.structure),
            **{name: Out(entry_read(config.seen(self.unit, name))) for name in self.unit.reads},
            self._dst: Out(acc_port(config.buffers[self._dst]))})
        self._acc = getattr(self, self._dst)
        self._left, self._right = (getattr(self, name) for name in self.unit.reads)
        self._depth = config.buffers[self._dst].depth

    def elaborate(self, platform):
        m, config = Module(), self.machine.config
        m.submodules.issue = issue = Issue(GEMM, self.plan.retire_depth, self.machine.structure)
        tag = data.StructLayout({"index": INDEX_BITS, "banks": 2, "reset": 1,
                                 "select": len(self.plan.bodies), **{
                                     name: Shape(interval.width, interval.signed)
                                     for name, interval in self.plan.immediates.items()}})
        m.submodules.nest = nest = LoopNest(
            GEMM["loops"].shape, COMPUTE_OPERANDS, tag, config.timing)
        waits, feed = self.plan.waits, self._feed(m, nest, issue, tag)
        issued = (feed.reads if feed else self._slot(m, nest, issue, tag) if waits else nest)
        weights = feed.right if feed else None
        pass_through(m, self, issue, self._acc)
        word, of = data.View(GEMM, self.commands.p.word), nest.out_tag
        own = self.machine.immediates[self.unit.name]
        m.d.comb += [
            nest.base.eq(word.base), nest.loops.eq(word.loops), nest.load.eq(issue.load),
            nest.tag.index.eq(self.commands.p.index), nest.tag.banks.eq(word.banks),
            nest.tag.reset.eq(word.reset),
            *(nest.tag[name].eq(field_of(word.as_value(), own[name]))
              for name in self.plan.immediates),
            nest.tag.select.eq(Cat(word.opcode == code for code in self.plan.opcodes)),
            *([] if waits else [nest.step.eq(1)]), issue.ready.eq(nest.ready),
            *([] if waits else [issue.working.eq(nest.busy)]),
            self._left.addr.eq(issued.out.a), self._left.en.eq(issued.valid),
            self._right.addr.eq(weights.addr if weights else issued.out.b),
            self._right.en.eq(weights.en if weights else issued.valid),
        ]
        depth = self._depth
        left, right = (config.buffers[name].depth for name in self.unit.reads)
        uses_b = [len(body.operands) > 1 for body in self.plan.bodies]
        reads_b = Const(1) if all(uses_b) else Cat(
            of.select[number] for number, uses in enumerate(uses_b) if uses).any()
        report(m, self, moves=nest.valid, index=of.index, illegal=Const(0),
               address=outside(nest.out.a, left)
               | reads_b & outside(nest.out.b, right)
               | outside(nest.out.dst, depth)
               | wrong_bank(nest.out.dst, depth, of.banks))

        if feed:
            self._update(m, feed.elements, issue, feed.array, feed.assigns)
        else:
            self._update(m, issued, issue, self._datapath(m, issued))
        return m

    def _datapath(self, m: Module, issued) -> Datapath:
        """The datapath, with the operands of what is issued."""
        config, reading = self.machine.config, self.machine.config.timing.read_cycles
        m.submodules.datapath = datapath = Datapath(self.plan, config.dsp_multipliers)
        fields = {operand.name: operand_field(body, operand.name)
                  for body in self.plan.bodies for operand in body.operands}
        for bus in self.plan.buses:
            source = self._left if fields[bus] == "a" else self._right
            m.d.comb += getattr(datapath, bus).eq(source.data)
        m.d.comb += [
            datapath.valid.eq(delayed(m, issued.valid, reading - 1, "there")),
            datapath.select.eq(delayed(m, issued.out_tag.select, reading - 1, "select")),
            *(getattr(datapath, name).eq(
                delayed(m, issued.out_tag[name], reading - 1, name))
              for name in self.plan.immediates)]
        return datapath

    def _feed(self, m: Module, nest: LoopNest, issue: Issue, tag) -> Feed | None:
        """Puts a systolic array behind the loops, where the machine has one."""
        array, config = self.plan.array, self.machine.config
        if array is None:
            return None
        if array.weights_stay:
            columns = config.seen(self.unit, self.unit.reads[1])
            feed = keep_weights(m, array, config, columns, nest, issue, tag)
        else:
            feed = keep_sums(m, array, config, nest, self._assigns(nest), tag)
        m.d.comb += [feed.array.a.eq(self._left.data), feed.array.b.eq(self._right.data)]
        return feed

    def _assigns(self, iteration) -> Value:
        """High if an iteration does not read its destination."""
        _, folds = updates_of(self.plan, iteration.out_tag.select)
        return (iteration.out_tag.reset & iteration.first) | ~folds.any()

    def _slot(self, m: Module, nest: LoopNest, issue: Issue, tag) -> "_Slot":
        """Iterations enter a slot, and are issued when their destination is not on its way."""
        m.submodules.ahead = ahead = Ahead(data.StructLayout({
            "out": data.StructLayout(COMPUTE_OPERANDS), "first": 1, "last": 1, "out_tag": tag}),
            self.machine.config.timing)
        m.submodules.hazards = hazards = Hazards(self._depth, self.plan.hazard_cycles)
        slot, free, coming = _Slot(ahead.o.p.shape()), Signal(), ahead.o.p
        _, folds = updates_of(self.plan, coming.out_tag.select)
        m.d.comb += [
            nest.step.eq(ahead.step), ahead.made.eq(nest.made), ahead.valid.eq(nest.valid),
            ahead.i.first.eq(nest.first), ahead.i.last.eq(nest.last),
            ahead.i.out_tag.eq(nest.out_tag),
            *(ahead.i.out[name].eq(nest.out[name]) for name in COMPUTE_OPERANDS),
            hazards.enters.eq(free), hazards.incoming.a.eq(coming.out.dst),
            hazards.incoming.a_acc.eq(folds.any() & ~(coming.out_tag.reset & coming.first)),
            hazards.writes.eq(slot.valid), hazards.entry.eq(slot.out.dst),
            slot.valid.eq(slot.full & ~hazards.pending),
            free.eq(~slot.full | slot.valid), ahead.o.ready.eq(free),
            issue.working.eq(nest.busy | ahead.some | slot.full),
            issue.standing.eq(slot.full & ~slot.valid),
        ]
        with m.If(free):
            m.d.sync += [slot.full.eq(ahead.o.valid), slot.iteration.eq(coming)]
        return slot

    def _update(self, m: Module, nest, issue, datapath, assigns: Value | None = None):
        """Lets the datapath's values meet acc. With `assigns` the iterations come a cycle late."""
        updates, folds = updates_of(self.plan, nest.out_tag.select)
        shape = self.machine.config.lanes, self._depth, TAG.size
        m.submodules.update = update = (Meeting(self.plan.meeting, *shape) if self.plan.meeting
                                        else Update(updates, *shape, self.plan.value_bits,
                                                    self.machine.config.timing.read_cycles))
        element = Signal(update.element_layout)
        tag = data.View(TAG, element.tag)
        m.d.comb += [
            element.valid.eq(nest.valid), element.acc.eq(nest.valid),
            element.addr.eq(nest.out.dst), element.update.eq(folds),
            element.assign.eq(self._assigns(nest) if assigns is None else assigns),
            tag.last.eq(nest.valid & nest.last), tag.banks.eq(nest.out_tag.banks),
            update.element.eq(delayed(m, element, self.plan.fold_cycles - (assigns is not None),
                                      "element")),
            update.value.eq(datapath.value), update.r_data.eq(self._acc.r_data),
            self._acc.r_addr.eq(update.r_addr), self._acc.r_en.eq(update.r_en),
            self._acc.w_addr.eq(update.w_addr), self._acc.w_en.eq(update.w_en),
            self._acc.w_data.eq(update.w_data),
            issue.done.eq(data.View(TAG, update.tag).last),
            issue.done_banks.eq(data.View(TAG, update.tag).banks),
        ]


class _Slot:
    """The iteration that is being issued; `valid`: it is issued in this cycle."""

    def __init__(self, layout: data.StructLayout):
        self.iteration = Signal(layout, name="slot", reset_less=True)
        self.full, self.valid = Signal(name="slot_full"), Signal(name="slot_issued")
        self.out, self.out_tag = self.iteration.out, self.iteration.out_tag
        self.first, self.last = self.iteration.first, self.iteration.last
