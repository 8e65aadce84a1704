"""Beginning and end of a run: errors, deadlock, completion."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.config import UNITS
from accel.hw.interface import INDEX_BITS
from accel.status import REPORTERS, Status

__all__ = ["PATIENCE", "Control"]

PATIENCE = 8
"""Cycles for which nothing has to move until that is called a deadlock."""

_UNIT = data.StructLayout({"idle": 1, "blocked": 1, "blocked_index": INDEX_BITS, "queued": 1})

_ERROR = data.StructLayout({"error": 1, "index": INDEX_BITS, "status": Status})


class Control(wiring.Component):
    """Starts a run and finds out how it ends.

    The first error, or FINISH, sets the status one cycle later; from then on `halt` is set, and
    `done` rises in the cycle after all units are idle or blocked and no memory request is open. Of
    errors in one cycle that of the lowest instruction counts. A deadlock is what docs/machine.md
    calls so, for `PATIENCE` cycles: nothing that could change it is under way then.

    Members
    -------
    start : pulse; ignored while a run is on.
    begin : the cycle of a `start` that counts.
    running, halt, done : a run is on; nothing new may start; the run is over.
    units : what each unit says, and whether its queue holds something, in the order of `UNITS`.
    errors : in the order of `REPORTERS`.
    fetch_blocked, fetch_index, finished : fetch cannot go on; the instruction at hand; FINISH
        retires.
    memory_open : a burst is under way.
    status, status_unit, status_index : the result.
    waiting : for each unit whether it waits, after a deadlock.
    """

    def __init__(self):
        super().__init__({
            "start": In(1), "begin": Out(1), "running": Out(1), "halt": Out(1), "done": Out(1),
            "units": In(data.ArrayLayout(_UNIT, len(UNITS))),
            "errors": In(data.ArrayLayout(_ERROR, len(REPORTERS))),
            "fetch_blocked": In(1), "fetch_index": In(INDEX_BITS), "finished": In(1),
            "memory_open": In(1), "status": Out(Status), "status_unit": Out(8),
            "status_index": Out(INDEX_BITS), "waiting": Out(len(UNITS)),
        })

    def elaborate(self, platform):
        m = Module()
        units = list(self.units)
        fetch = REPORTERS.index("fetch")
        settled = ~self.memory_open & Cat(u.idle | u.blocked for u in units).all()
        stuck = settled & self.fetch_blocked & Cat(u.blocked | ~u.queued for u in units).all()
        patience = Signal(range(PATIENCE))
        error, error_unit, error_index, error_status = self._first(
            [(e.error, Const(code, 8), e.index, e.status) for code, e in enumerate(self.errors)])
        waits, wait_unit, wait_index = self._first(
            [(u.blocked, Const(code, 8), u.blocked_index) for code, u in enumerate(units)])

        m.d.comb += [self.begin.eq(self.start & ~self.running),
                     self.halt.eq(self.status != Status.RUNNING)]
        with m.If(self.running & ~self.halt):
            m.d.sync += patience.eq(Mux(stuck, patience + 1, 0))
            with m.If(error):
                m.d.sync += [self.status.eq(error_status), self.status_unit.eq(error_unit),
                             self.status_index.eq(error_index)]
            with m.Elif(self.finished):
                m.d.sync += [self.status.eq(Status.DONE), self.status_unit.eq(fetch),
                             self.status_index.eq(self.fetch_index)]
            with m.Elif(stuck & (patience == PATIENCE - 1)):
                m.d.sync += [
                    self.status.eq(Status.DEADLOCK),
                    self.status_unit.eq(Mux(waits, wait_unit, fetch)),
                    self.status_index.eq(Mux(waits, wait_index, self.fetch_index)),
                    self.waiting.eq(Cat(u.blocked for u in units)),
                ]
        with m.If(self.running & self.halt & settled):
            m.d.sync += [self.running.eq(0), self.done.eq(1)]
        with m.If(self.begin):
            m.d.sync += [self.running.eq(1), self.done.eq(0), self.status.eq(Status.RUNNING),
                         self.waiting.eq(0), patience.eq(0)]
        return m

    def _first(self, candidates: list[tuple]) -> tuple:
        """Of (valid, unit, index, ...) the valid one with the lowest index, the first on a tie."""
        best, *others = candidates
        for one in others:
            wins = one[0] & (~best[0] | (one[2] < best[2]))
            best = (best[0] | one[0], *(Mux(wins, mine, theirs)
                                        for mine, theirs in zip(one[1:], best[1:])))
        return best
