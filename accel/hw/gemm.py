"""The gemm unit."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from accel.datapath.plan import plan
from accel.hw.datapath import Datapath
from accel.hw.interface import INDEX_BITS, READ_LATENCY, acc_port, entry_read, unit_signature
from accel.hw.issue import Issue, outside, pass_through, report, wrong_bank
from accel.hw.loops import COMPUTE_OPERANDS, NEST_CYCLES, LoopNest
from accel.hw.update import Update
from accel.machine.isa import GEMM
from accel.machine.machine import Machine

__all__ = ["ADDRESS_CYCLES", "Gemm", "delayed", "updates_of"]

TAG = data.StructLayout({"last": 1, "banks": 2})

ADDRESS_CYCLES = 1 + NEST_CYCLES
"""Cycles from taking an instruction to its first addresses."""


class Gemm(wiring.Component):
    """Matrix products: ``acc[dst] += inp[a] · wgt[b]``, from the plan of the unit's bodies.

    Throughput: one iteration a cycle, whatever the destinations, and no cycle lost between
    instructions of three iterations or more. Latency: an iteration reads inp and wgt in the cycle
    in which the loops show it (an instruction's first: `ADDRESS_CYCLES` after it is taken) and is
    written to acc ``plan.write_cycles`` later; an instruction retires two cycles after its last
    write, if its signals are granted at once. Nothing in the pipeline ever waits.

    ::

        0                 addresses of inp and wgt
        2                 operands: stage 0 of the data path
        latency - 1       address of acc
        2 + latency       value and accumulator meet
        3 + latency       write
    """

    def __init__(self, machine: Machine):
        self.machine = machine
        self.plan = plan(machine, "gemm")
        config = machine.config
        entries = {name: Out(entry_read(config.buffers[name])) for name in ("inp", "wgt")}
        super().__init__({**unit_signature(), **entries,
                          "acc": Out(acc_port(config.buffers["acc"]))})

    def elaborate(self, platform):
        m = Module()
        config = self.machine.config
        m.submodules.issue = issue = Issue(GEMM, self.plan.retire_depth)
        tag = data.StructLayout({"index": INDEX_BITS, "banks": 2, "reset": 1,
                                 "select": len(self.plan.bodies)})
        m.submodules.nest = nest = LoopNest(GEMM["loops"].shape, COMPUTE_OPERANDS, tag)
        pass_through(m, self, issue)
        word, of = data.View(GEMM, self.commands.p.word), nest.out_tag
        m.d.comb += [
            nest.base.eq(word.base), nest.loops.eq(word.loops), nest.load.eq(issue.load),
            nest.tag.index.eq(self.commands.p.index), nest.tag.banks.eq(word.banks),
            nest.tag.reset.eq(word.reset),
            nest.tag.select.eq(Cat(word.opcode == code for code in self.plan.opcodes)),
            nest.step.eq(1), issue.ready.eq(nest.ready), issue.working.eq(nest.busy),
            self.inp.addr.eq(nest.out.a), self.inp.en.eq(nest.valid),
            self.wgt.addr.eq(nest.out.b), self.wgt.en.eq(nest.valid),
        ]
        depth = config.buffers["acc"].depth
        uses_b = [len(body.operands) > 1 for body in self.plan.bodies]
        reads_b = Const(1) if all(uses_b) else Cat(
            of.select[number] for number, uses in enumerate(uses_b) if uses).any()
        report(m, self, moves=nest.valid, index=of.index, illegal=Const(0),
               address=outside(nest.out.a, config.buffers["inp"].depth)
               | reads_b & outside(nest.out.b, config.buffers["wgt"].depth)
               | outside(nest.out.dst, depth)
               | wrong_bank(nest.out.dst, depth, of.banks))

        m.submodules.datapath = datapath = Datapath(self.plan, config.dsp_multipliers)
        for bus in self.plan.buses:
            m.d.comb += getattr(datapath, bus).eq(getattr(self, bus).data)
        m.d.comb += [datapath.valid.eq(delayed(m, nest.valid, READ_LATENCY - 1, "there")),
                     datapath.select.eq(delayed(m, of.select, READ_LATENCY - 1, "select"))]
        self._update(m, nest, issue, datapath)
        return m

    def _update(self, m: Module, nest, issue, datapath):
        updates, folds = updates_of(self.plan, nest.out_tag.select)
        m.submodules.update = update = Update(
            updates, self.machine.config.lanes, self.machine.config.buffers["acc"].depth, TAG.size)
        element = Signal(update.element_layout)
        tag = data.View(TAG, element.tag)
        m.d.comb += [
            element.valid.eq(nest.valid), element.acc.eq(nest.valid),
            element.addr.eq(nest.out.dst), element.update.eq(folds),
            element.assign.eq((nest.out_tag.reset & nest.first) | ~folds.any()),
            tag.last.eq(nest.valid & nest.last), tag.banks.eq(nest.out_tag.banks),
            update.element.eq(delayed(m, element, self.plan.fold_cycles, "element")),
            update.value.eq(datapath.value), update.r_data.eq(self.acc.r_data),
            self.acc.r_addr.eq(update.r_addr), self.acc.r_en.eq(update.r_en),
            self.acc.w_addr.eq(update.w_addr), self.acc.w_en.eq(update.w_en),
            self.acc.w_data.eq(update.w_data),
            issue.done.eq(data.View(TAG, update.tag).last),
            issue.done_banks.eq(data.View(TAG, update.tag).banks),
        ]


def delayed(m: Module, signal: Signal, cycles: int, name: str) -> Signal:
    """The signal as it was; registers start at zero."""
    for number in range(cycles):
        later = Signal.like(signal, name=f"{name}_{number + 1}", init=None)
        m.d.sync += later.eq(signal)
        signal = later
    return signal


def updates_of(plan, select: Value) -> tuple[tuple[str, ...], Value]:
    """Kinds of update that accumulate among a plan's bodies, and which is selected, one-hot."""
    kinds = tuple(dict.fromkeys(body.update for body in plan.bodies if body.update != "assign"))
    chosen = [Cat(select[number] for number, body in enumerate(plan.bodies)
                  if body.update == kind).any() for kind in kinds]
    return kinds, Cat(chosen) if kinds else Const(0, 1)
