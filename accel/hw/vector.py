"""The vector unit."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out, Signature
from amaranth.utils import exact_log2

from accel.datapath.plan import plan
from accel.hw.datapath import Datapath
from accel.hw.gemm import delayed, updates_of
from accel.hw.interface import INDEX_BITS, acc_port, entry_read, unit_signature
from accel.hw.issue import Issue, outside, pass_through, report, wrong_bank
from accel.hw.loops import COMPUTE_OPERANDS, NEST_CYCLES, Ahead, LoopNest
from accel.hw.parts import registered, spread
from accel.hw.queue import QUEUE_CYCLES
from accel.hw.update import Update
from accel.machine.config import PARAM_BYTES, AccelConfig
from accel.machine.isa import DESTINATIONS, SOURCES_A, SOURCES_B, VECTOR
from accel.machine.machine import Machine
from compiler.ops.arithmetic import PARAM
from compiler.te import record_fields

__all__ = ["ISSUE_CYCLES", "Vector", "out_port"]

PARAMETERS = tuple(record_fields(PARAM))
IMMEDIATES = ("imm", "ma", "mb", "s", "zp", "lo", "hi")
TAG = data.StructLayout({"out": 1, "last": 1, "banks": 2})

ISSUE_CYCLES = 1 + NEST_CYCLES + QUEUE_CYCLES + 1
"""From the cycle in which an instruction is taken to the issue of its first iteration."""


def out_port(config: AccelConfig) -> Signature:
    """Write port of out as vector sees it: one part of an entry a cycle."""
    geometry = config.parts["out"]
    return Signature({"w_addr": Out(range(geometry.depth)), "w_en": Out(1),
                      "w_data": Out(geometry.entry_bytes * 8)})


class Vector(wiring.Component):
    """Element-wise work on acc, res and par, from the plan of the unit's bodies.

    Throughput: one iteration a cycle, two cycles if its two sources are in the same buffer; with
    `AccelConfig.vector_beats` so many times that, as the parts of an entry are then taken one after
    the other, each as an iteration of its own.
    Latency: the first iteration of an instruction is issued, that is, presents its addresses,
    `ISSUE_CYCLES` after the instruction is taken, at the earliest, and is written
    ``plan.write_cycles`` later. The loops run up to `accel.hw.loops.AHEAD` iterations ahead of the
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
    """

    def __init__(self, machine: Machine):
        self.machine = machine
        self.plan = plan(machine, "vector")
        config = machine.config
        self.slot = data.StructLayout({
            **COMPUTE_OPERANDS, "assign": 1, "last": 1, "operation": self.operation})
        self.lanes = config.lanes // config.vector_beats        # of a part
        super().__init__({**unit_signature(), "res": Out(entry_read(config.parts["res"])),
                          "par": Out(entry_read(config.parts["par"])),
                          "acc": Out(acc_port(config.parts["acc"])), "out": Out(out_port(config))})

    @property
    def operation(self) -> data.StructLayout:
        """An instruction, decoded: which body, which sources (one-hot), and what it carries."""
        return data.StructLayout({
            "select": len(self.plan.bodies),
            "a": data.StructLayout(dict.fromkeys(SOURCES_A, 1)),
            "b": data.StructLayout(dict.fromkeys(SOURCES_B, 1)),
            "to": data.StructLayout(dict.fromkeys(DESTINATIONS, 1)),
            "twice": 1, "illegal": 1, "reset": 1, "banks": 2,
            **{name: VECTOR[name].shape for name in IMMEDIATES}})

    def elaborate(self, platform):
        m = Module()
        m.submodules.issue = issue = Issue(VECTOR, self.plan.retire_depth)
        decoded = self.operation
        tag = data.StructLayout({"index": INDEX_BITS, "operation": decoded})
        m.submodules.nest = nest = LoopNest(VECTOR["loops"].shape, COMPUTE_OPERANDS, tag)
        m.submodules.ahead = ahead = Ahead(self.slot)
        pass_through(m, self, issue)
        word, operation = data.View(VECTOR, self.commands.p.word), nest.out_tag.operation
        # An instruction stands at the head for a cycle, at least, before it is taken.
        coming = Signal(decoded, reset_less=True)
        self._decode(m, word, coming)
        ready = Signal(decoded, name="decoded", reset_less=True)
        m.d.sync += ready.eq(coming)
        _, folds = updates_of(self.plan, operation.select)
        m.d.comb += [
            nest.base.eq(word.base), nest.loops.eq(word.loops),
            nest.tag.operation.eq(ready), nest.empty.eq(ready.illegal),
            nest.tag.index.eq(self.commands.p.index), nest.step.eq(ahead.step),
            nest.load.eq(issue.load), issue.ready.eq(nest.ready),
            ahead.made.eq(nest.made), ahead.valid.eq(nest.valid),
            ahead.i.last.eq(nest.last), ahead.i.operation.eq(operation),
            ahead.i.assign.eq((operation.reset & nest.first) | ~folds.any()),
            *(ahead.i[name].eq(nest.out[name]) for name in COMPUTE_OPERANDS),
        ]
        report(m, self, moves=nest.valid, index=nest.out_tag.index,
               illegal=operation.illegal, address=self._outside(nest, operation))

        self._folding = Signal(name="folding")      # an update reads acc
        self._beat = Signal(range(self.machine.config.vector_beats), name="beat", reset_less=True)
        slot, final, go = self._slot(m, ahead, issue)
        m.d.comb += issue.working.eq(nest.busy | ahead.some | self._full)
        self._operands(m, slot, go, final, platform)
        self._update(m, slot, go & final, issue, platform)
        return m

    def _decode(self, m: Module, word, decoded):
        """Sources that the body uses, of which per-channel parameters are always in par. A selector
        that the body does not take makes the instruction illegal."""
        select = [word.opcode == code for code in self.plan.opcodes]
        rules = [{operand.name: operand.scopes for operand in (*body.operands, body.dst)}
                 for body in self.plan.bodies]

        def takes(*names):
            return Cat(test for test, rule in zip(select, rules, strict=True)
                       if any(name in rule for name in names)).any()

        uses_a, uses_b, uses_record = takes("a"), takes("b"), takes(*PARAMETERS)
        wrong = [~Cat(select).any()]
        for codes, field, key in ((SOURCES_A, word.a_source, "a"), (SOURCES_B, word.b_source, "b"),
                                  (DESTINATIONS, word.destination, "dst")):
            for code, scope in enumerate(codes):
                refuse = [test for test, rule in zip(select, rules, strict=True)
                          if key in rule and scope not in rule[key]]
                wrong.append((field == code) & Cat(refuse).any())
        illegal = Cat(wrong).any()
        m.d.comb += [
            decoded.select.eq(Cat(select)), decoded.illegal.eq(illegal),
            decoded.reset.eq(word.reset), decoded.banks.eq(word.banks),
            decoded.twice.eq((decoded.a.acc & decoded.b.acc) | (decoded.a.res & decoded.b.res)),
            *(decoded.a[scope].eq(uses_a & ~illegal & (word.a_source == code))
              for code, scope in enumerate(SOURCES_A)),
            *(decoded.b[scope].eq(~illegal & ((uses_b & (word.b_source == code))
                                              | (uses_record if scope == "par" else 0)))
              for code, scope in enumerate(SOURCES_B)),
            *(decoded.to[scope].eq(~illegal & (word.destination == code))
              for code, scope in enumerate(DESTINATIONS)),
            *(decoded[name].eq(word[name]) for name in IMMEDIATES),
        ]

    def _outside(self, nest: LoopNest, operation) -> Value:
        buffers = self.machine.config.buffers
        tests = []
        for chosen, address in ((operation.a, nest.out.a), (operation.b, nest.out.b),
                                (operation.to, nest.out.dst)):
            for scope, _ in chosen.shape():
                if scope == "imm":
                    continue
                depth = buffers[scope].depth
                bad = outside(address, depth)
                if scope == "acc":
                    bad |= wrong_bank(address, depth, operation.banks)
                tests.append(chosen[scope] & bad)
        return Cat(tests).any()

    def _slot(self, m: Module, ahead: Ahead, issue: Issue):
        """The iteration that is being issued; it waits here. Returns it, whether its part reads the
        last of its sources, and whether it moves."""
        slot, self._full, second = Signal(self.slot, reset_less=True), Signal(name="full"), Signal()
        final, reads_acc = Signal(reset_less=True), Signal(reset_less=True)
        go, free = Signal(), Signal()
        updates, _ = updates_of(self.plan, slot.operation.select)
        m.submodules.update = self._updater = Update(
            updates, self.lanes, self._depth, TAG.size)
        complete = final & self._last_beat
        pending = self._pending(m, ahead.o.p, slot, go & final, free)
        m.d.comb += [
            go.eq(self._full & ~pending & ~(reads_acc & self._folding)),
            free.eq(~self._full | (go & complete)), ahead.o.ready.eq(free),
            issue.standing.eq(self._full & ~(go & final)),
        ]
        with m.If(free):
            coming = ahead.o.p.operation
            m.d.sync += [self._full.eq(ahead.o.valid), second.eq(0), slot.eq(ahead.o.p),
                         final.eq(~coming.twice), reads_acc.eq(coming.a.acc | coming.b.acc),
                         self._beat.eq(0)]
        with m.Elif(go):                # its second source, or its next part
            m.d.sync += [second.eq(~final), final.eq(~final | ~slot.operation.twice),
                         self._beat.eq(self._beat + final)]

        def address(buffer):            # a, unless only b is to be read, or it is b's turn
            entry = Mux(second | ~slot.operation.a[buffer], slot.b, slot.a)
            return self._part(buffer, entry)

        update = self._updater
        # An iteration that waits reads as well, so that `go`, which comes late, is not in the way.
        m.d.comb += [
            self.acc.r_addr.eq(Mux(update.r_en, update.r_addr, address("acc"))),
            self.acc.r_en.eq(update.r_en | (self._full & reads_acc)),
            self.res.addr.eq(address("res")),
            self.res.en.eq(self._full & (slot.operation.a.res | slot.operation.b.res)),
            self.par.addr.eq(self._part("par", slot.b)),
            self.par.en.eq(self._full & slot.operation.b.par),
        ]
        return slot, final, go

    @property
    def _depth(self) -> int:
        return max(self.machine.config.parts[scope].depth for scope in DESTINATIONS)

    @property
    def _last_beat(self) -> Value:
        return self._beat.all() if len(self._beat) else Const(1)

    def _part(self, buffer: str, entry: Value) -> Value:
        """Address of the part of an entry whose turn it is."""
        config = self.machine.config
        count = config.parts[buffer].depth // config.buffers[buffer].depth
        return Cat(self._beat[:exact_log2(count)], entry)

    def _pending(self, m: Module, incoming, slot, issued: Value, free: Value):
        """Whether a source of the slot is a destination that is not yet written.

        A flag for each place that a destination can be in between issue and write. It is set when
        the iteration enters the slot and moves along with that destination, so that what decides is
        registers only.
        """
        places = [Signal(data.StructLayout({"acc": 1, "addr": COMPUTE_OPERANDS["dst"]}),
                         name=f"place{k}")
                  for k in range(self.plan.write_cycles)]
        flags = [Signal(name=f"pending{k}") for k in range(self.plan.write_cycles)]
        m.d.sync += [places[0].acc.eq(issued & slot.operation.to.acc), places[0].addr.eq(slot.dst)]
        m.d.sync += [later.eq(place) for place, later in zip(places, places[1:], strict=False)]
        rest = Signal(name="pending_rest")          # whether a flag but the first is set
        operation, bits = incoming.operation, range(self.machine.config.buffers["acc"].depth)
        width = Shape.cast(bits).width

        def same(acc, addr):
            return acc & Cat(source.acc & (address[:width] == addr[:width]) for source, address in
                             ((operation.a, incoming.a), (operation.b, incoming.b))).any()

        before = [(issued & slot.operation.to.acc, slot.dst),
                  *((place.acc, place.addr) for place in places)]
        found = [same(*one) for one in before[:len(flags)]]
        with m.If(free):
            m.d.sync += [*(flag.eq(one) for flag, one in zip(flags, found, strict=True)),
                         rest.eq(Cat(found[1:]).any())]
        with m.Else():
            m.d.sync += [*(flag.eq(one) for flag, one in zip(flags, (0, *flags), strict=False)),
                         rest.eq(Cat(flags[:-1]).any())]
        return flags[0] | rest

    def _operands(self, m: Module, slot, go: Value, final: Value, platform):
        """Data of acc, res and par into the operand registers and through the data path."""
        lanes, (_, columns) = self.lanes, self.machine.config.vector_tile
        m.submodules.datapath = datapath = Datapath(self.plan)
        fetch = Signal(data.StructLayout({"a": 1, "b": 1, "operation": self.operation}))
        m.d.comb += [fetch.a.eq(go & ~(slot.operation.twice & final)), fetch.b.eq(go & final),
                     fetch.operation.eq(slot.operation)]
        coming = delayed(m, fetch, 1, "fetch")
        arrived = delayed(m, coming, 1, "fetched")
        operation = arrived.operation

        def control(value: Value, name: str) -> list[Signal]:
            return spread(m, platform, value, f"takes_{name}", lanes)

        take = {"a": control(coming.a, "a"), "b": control(coming.b, "b")}
        from_a = control(coming.operation.a.acc, "a_acc")
        from_b = {name: control(coming.operation.b[name], f"b_{name}") for name in SOURCES_B}
        record = data.ArrayLayout(_record(), columns)
        par = data.View(record, self.par.data)
        res = data.View(data.ArrayLayout(signed(8), lanes), self.res.data)
        acc = data.View(data.ArrayLayout(signed(32), lanes), self.acc.r_data)

        a, b = (Signal(data.ArrayLayout(signed(32), lanes), name=f"operand_{name}",
                       reset_less=True) for name in "ab")
        for lane in range(lanes):
            with m.If(take["a"][lane]):
                m.d.sync += a[lane].eq(Mux(from_a[lane], acc[lane], res[lane]))
            sources = {"acc": acc[lane], "res": res[lane], "imm": operation.imm,
                       "par": par[lane % columns].bias}
            with m.If(take["b"][lane]):
                m.d.sync += b[lane].eq(_choose(
                    *((from_b[name][lane], value) for name, value in sources.items())))
        buses = {"a": a, "b": b, "bias": [b[channel] for channel in range(columns)]}
        for name in PARAMETERS[1:]:
            buses[name] = [Signal.like(par[channel][name], name=f"{name}{channel}", reset_less=True)
                           for channel in range(columns)]
            m.d.sync += [register.eq(par[channel][name])
                         for channel, register in enumerate(buses[name])]
        for bus in self.plan.buses:
            width = datapath.widths[bus]
            m.d.comb += [getattr(datapath, bus).word_select(k, width).eq(element)
                         for k, element in enumerate(buses[bus])]
        m.d.comb += [datapath.valid.eq(arrived.b), datapath.select.eq(operation.select)]
        for name in self.plan.immediates:
            m.d.comb += getattr(datapath, name).eq(operation[name])
        m.d.comb += self._updater.value.eq(datapath.value)

    def _update(self, m: Module, slot, issued: Value, issue: Issue, platform):
        update = self._updater
        element = Signal(update.element_layout)
        tag, written = data.View(TAG, element.tag), data.View(TAG, update.tag)
        soon = delayed(m, element, self.plan.fold_cycles - 1, "element")
        m.d.comb += [
            element.valid.eq(issued & ~slot.operation.illegal),
            element.acc.eq(issued & slot.operation.to.acc),
            element.addr.eq(Cat(self._beat, slot.dst)),
            element.assign.eq(slot.assign),
            element.update.eq(updates_of(self.plan, slot.operation.select)[1]),
            tag.out.eq(issued & slot.operation.to.out),
            tag.last.eq(issued & slot.last & self._last_beat),
            tag.banks.eq(slot.operation.banks),
            update.element.eq(delayed(m, soon, 1, "element_soon")),
            self._folding.eq(registered(m, platform, soon.acc & ~soon.assign, "folds")),
            update.r_data.eq(self.acc.r_data),
            self.acc.w_addr.eq(update.w_addr), self.acc.w_en.eq(update.w_en),
            self.acc.w_data.eq(update.w_data),
            self.out.w_addr.eq(update.w_addr), self.out.w_en.eq(written.out),
            self.out.w_data.eq(Cat(update.w_data.word_select(lane, 32)[:8]
                                   for lane in range(self.lanes))),
            issue.done.eq(written.last), issue.done_banks.eq(written.banks),
        ]


def _record() -> data.StructLayout:
    """A lane of par: the record as the compiler declares it, in a power of two of bytes."""
    shapes = {"int32": signed(32), "uint16": unsigned(16), "uint8": unsigned(8)}
    fields = {name: shapes[dtype] for name, dtype in record_fields(PARAM).items()}
    used = sum(shape.width for shape in fields.values())
    return data.StructLayout({**fields, "unused": PARAM_BYTES * 8 - used})


def _choose(*cases: tuple[Value, Value]) -> Value:
    """The value whose test holds, of tests that exclude each other."""
    result: Value = Const(0)
    for test, value in cases:
        result = result | Mux(test, value, 0)
    return result
