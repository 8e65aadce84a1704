"""The front end of units on entries: taking instructions, holding banks, retiring in order."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from accel.hw.interface import INDEX_BITS, unit_signature
from accel.hw.queue import Queue, tally
from accel.machine.isa import HEADER
from accel.machine.status import Status
from accel.machine.structure import SHIPPED_STRUCTURE, Structure

BANKS = 2

ERRORS = ("error", "error_index", "error_status")
"""Members of a unit that its front end leaves to it."""

def record_layout(structure: Structure = SHIPPED_STRUCTURE) -> data.StructLayout:
    """The layout of what a unit keeps of an instruction until it retires."""
    return data.StructLayout({"index": INDEX_BITS, "signals": len(structure.units)})


class Issue(wiring.Component):
    """Starts a unit's instructions and retires them.

    The instruction at the head of the queue is armed in a cycle in which its tokens are all there,
    `depth` leaves room and `halt` is low. From the next cycle on it asks for its banks, and is
    taken as soon as the unit can load it (`ready`) and they are granted; it is started in the
    cycle after that. An instruction is done with its last write (`done`); its banks are free, and
    it signals, from the next cycle on, in order. Throughput: one instruction in three cycles.

    Activity: ``busy`` when the unit's loops step or an instruction is armed or taken; ``hazard``
    when they stand; else what the head of the queue waits for: tokens, then room (``signal``), then
    banks; else ``signal`` when the oldest instruction is refused, else ``command``.

    Parameters
    ----------
    layout : the unit's instruction word; its field `banks` counts, where it has one.
    depth : instructions that are started and not retired, at most; a power of two.
    structure : the units that it may wait for.

    Members
    -------
    those of `unit_signature` but the error's, and
    request, granted, hold : to acc (`acc_port`).
    ready, load : the unit's loops can be loaded at the end of the cycle; they are.
    working, standing : there are iterations that are not issued; none is in this cycle, because
        of a hazard.
    done, done_banks : the last write of the oldest instruction that is not done, and its banks.
    """

    def __init__(self, layout: data.StructLayout, depth: int,
                 structure: Structure = SHIPPED_STRUCTURE):
        self.layout, self.depth, self.structure = layout, depth, structure
        members = {name: member for name, member in unit_signature(structure).items()
                   if name not in ERRORS}
        super().__init__({
            **members,
            "request": Out(BANKS), "granted": In(1), "hold": Out(BANKS),
            "ready": In(1), "load": Out(1), "working": In(1), "standing": In(1),
            "done": In(1), "done_banks": In(BANKS),
        })

    def elaborate(self, platform):
        m = Module()
        head = self.commands
        word = data.View(self.layout, head.p.word)
        banks = word.banks if "banks" in dict(self.layout) else Const(0, BANKS)
        header = data.View(HEADER, head.p.word)
        missing, armed, arming = Signal(len(self.waits)), Signal(), Signal()
        # `take` comes late; what need not know in the same cycle follows `started`.
        _, opened, full = tally(m, "opened", self.depth, self.started, self.retired)
        _, finished, _ = tally(m, "finished", self.depth, self.done, self.retired)
        _, unfinished, _ = tally(m, "unfinished", self.depth, self.started, self.done)
        m.d.comb += [
            self.waits.eq(Mux(head.valid, header.waits, 0)),
            missing.eq(self.waits & ~self.available),
            arming.eq(head.valid & ~armed & ~missing.any() & ~full & ~self.halt),
            self.request.eq(Mux(armed, banks, 0)),
            self.take.eq(armed & self.ready & self.granted),
            self.load.eq(self.take),
            head.ready.eq(self.take),
        ]
        m.d.sync += [armed.eq(Mux(armed, ~self.take, arming)), self.started.eq(self.take)]
        # The queue still shows an instruction in the cycle after it was taken.
        m.d.comb += self.started_index.eq(head.p.index)

        self._hold(m, banks)
        oldest, there = self._records(m, header.signals)
        m.d.comb += [
            self.signal.eq(finished & there),
            self.signals.eq(oldest.signals),
            self.retired.eq(self.signalled),
            self.retired_index.eq(oldest.index),
            self.idle.eq(~opened & ~armed & ~self.started),
        ]
        m.d.comb += [
            self.blocked.eq(~unfinished & ~armed & ~self.started
                            & Mux(self.idle, missing.any(), self.refused)),
            self.blocked_index.eq(Mux(self.idle, head.p.index, oldest.index)),
        ]
        self._activity(m, missing, full, arming)
        return m

    def _hold(self, m: Module, banks: Value):
        """A bank is held while an instruction that names it is not done."""
        for bank in range(BANKS):
            _, held, _ = tally(m, f"users{bank}", self.depth, self.take & banks[bank],
                               self.done & self.done_banks[bank])
            m.d.comb += self.hold[bank].eq(held)

    def _records(self, m: Module, signals: Value) -> tuple[data.View, Value]:
        """Queue of what retirement needs; returns its head, and whether it is there."""
        m.submodules.records = records = Queue(record_layout(self.structure), self.depth, 2,
                                               pause=True)
        m.d.comb += [records.i.valid.eq(self.started), records.i.p.index.eq(self.started_index),
                     records.i.p.signals.eq(signals), records.o.ready.eq(self.retired)]
        return records.o.p, records.o.valid

    def _activity(self, m: Module, missing: Value, full: Value, arming: Value):
        def now(name: str):
            return self.activity.eq(1 << self.structure.activities.index(name))

        waiting = self.commands.valid & ~self.halt
        m.d.comb += [self.watched.working.eq(self.working), self.watched.waiting.eq(waiting)]
        with m.If(self.take | arming | (self.working & ~self.standing)):
            m.d.comb += now("busy")
        with m.Elif(self.working):
            m.d.comb += now("hazard")
        for bit, unit in enumerate(self.structure.names):
            with m.Elif(waiting & missing[bit]):
                m.d.comb += now(unit)
        with m.Elif((waiting & full) | (~waiting & self.refused)):
            m.d.comb += now("signal")
        with m.Elif(waiting):
            m.d.comb += now("bank")
        with m.Else():
            m.d.comb += now("command")


def pass_through(m: Module, unit: wiring.Component, issue: Issue, acc=None):
    """Connect the members that a unit and its front end share, and its banks: those of its port
    `acc`, where it has one."""
    connect(m, flipped(unit.commands), issue.commands)
    for name, member in unit_signature().items():
        if name == "commands" or name in ERRORS:
            continue
        outer, inner = getattr(unit, name), getattr(issue, name)
        m.d.comb += outer.eq(inner) if member.flow == Out else inner.eq(outer)
    if acc is None:
        m.d.comb += issue.granted.eq(1)
    else:
        m.d.comb += [acc.request.eq(issue.request), acc.hold.eq(issue.hold),
                     issue.granted.eq(acc.granted)]


def outside(address: Value, depth: int) -> Value:
    """High if an address is outside a buffer of so many entries, or bytes."""
    return address >= depth if depth & (depth - 1) else address[exact_log2(depth):].any()


def wrong_bank(address: Value, depth: int, banks: Value) -> Value:
    """High if an address in acc is in a bank that `banks` does not name."""
    second, _ = bank_place(address, depth)
    return ~banks.bit_select(second, 1)


def bank_place(address: Value, depth: int) -> tuple[Value, Value]:
    """The bank of an address in acc, which has so many entries in both, and its place there."""
    if depth & (depth - 1):
        second = address >= depth // 2
        place = address - Mux(second, depth // 2, 0)
        return second, place[:(depth // 2 - 1).bit_length()]
    top = exact_log2(depth) - 1
    return address[top], address[:top]


def report(m: Module, unit: wiring.Component, *, moves: Value, index: Value, illegal: Value,
           address: Value):
    """Report the instruction of every iteration with an error, a cycle after its addresses.

    `moves` is high for one cycle of each iteration; `illegal` goes before `address`.
    """
    m.d.sync += [unit.error.eq(moves & (illegal | address)), unit.error_index.eq(index),
                 unit.error_status.eq(Mux(illegal, Status.ILLEGAL, Status.ADDRESS))]
