"""Beginning and end of a run: errors, deadlock, completion."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from accel.hw.interface import INDEX_BITS
from accel.hw.parts import delayed, trail
from accel.machine.status import Status
from accel.machine.structure import FETCH, SHIPPED_STRUCTURE, Structure
from accel.machine.timing import CoreTiming

_UNIT = data.StructLayout({"idle": 1, "blocked": 1, "blocked_index": INDEX_BITS, "queued": 1})

_ERROR = data.StructLayout({"error": 1, "index": INDEX_BITS, "status": Status})


class Control(wiring.Component):
    """Starts a run and determines how it ends.

    A run is on `begin_cycles` after `start`. It ends `status_cycles` after FINISH retires, or when
    nothing has moved for `patience_cycles`: nothing that could change that is under way then. From
    then on `halt` is set. `done` rises `settling_cycles` + `over_cycles` after that, or
    `over_cycles` after all units were seen idle or blocked and no memory request open, whichever is
    later. An error ends nothing: of all errors of a run that of the lowest instruction is the
    status in the end. Where there is none, it is a deadlock if nothing moved. Whatever comes from
    outside passes a register first. (Cycles: `accel.machine.timing`.)

    Members
    -------
    start : pulse; ignored while a run is on.
    clear : everything is to be reset.
    running, halt, done : a run is on; nothing new may start; the run is over.
    fetching : a run is on and goes on.
    units : what each unit says, and whether its queue holds something, in the order of
        units.
    errors : in the order of `Structure.reporters`.
    fetch_blocked, fetch_index, finished : fetch cannot go on; the instruction at hand; FINISH
        retires.
    memory_open : a burst is under way.
    status, status_unit, status_index : the result.
    waiting : for each unit whether it waits, after a deadlock.
    """

    def __init__(self, timing: CoreTiming, structure: Structure = SHIPPED_STRUCTURE):
        self._timing = timing
        count, self._fetch = len(structure.units), structure.reporters.index(FETCH)
        super().__init__({
            "start": In(1), "clear": Out(1), "running": Out(1), "halt": Out(1), "done": Out(1),
            "fetching": Out(1),
            "units": In(data.ArrayLayout(_UNIT, count)),
            "errors": In(data.ArrayLayout(_ERROR, count + 1)),
            "fetch_blocked": In(1), "fetch_index": In(INDEX_BITS), "finished": In(1),
            "memory_open": In(1), "status": Out(Status), "status_unit": Out(8),
            "status_index": Out(INDEX_BITS), "waiting": Out(count),
        })

    def elaborate(self, platform):
        m = Module()
        settled, stuck = self._quiet(m)
        fetch_index = _later(m, self.fetch_index, "fetch_index")
        patience, settling = (Signal(range(self._timing.patience_cycles)),
                              Signal(range(self._timing.settling_cycles + 1)))
        failed = Signal()           # the status is that of an error
        (error, error_unit, error_index, error_status), finished = self._errors(m)
        waits, wait_unit, wait_index = self._tournament(m, "wait", [
            (u.blocked, Const(code, 8), u.blocked_index) for code, u in enumerate(self._seen)])

        ends = Signal()             # the status is set
        with m.If(ends):
            m.d.sync += [self.halt.eq(1), self.fetching.eq(0)]
        with m.If(self.running & ~self.halt):
            m.d.sync += patience.eq(Mux(stuck, patience + 1, 0))
            m.d.comb += ends.eq(finished | (stuck & (patience == self._timing.patience_cycles - 1)))
            with m.If(error & (~failed | (error_index < self.status_index))):
                m.d.sync += [self.status.eq(error_status), self.status_unit.eq(error_unit),
                             self.status_index.eq(error_index), failed.eq(1)]
            with m.If(finished & ~failed):
                m.d.sync += [self.status.eq(Status.DONE),
                             self.status_unit.eq(self._fetch),
                             self.status_index.eq(fetch_index)]
            with m.Elif(ends & ~failed):
                m.d.sync += [
                    self.status.eq(Status.DEADLOCK),
                    self.status_unit.eq(Mux(waits, wait_unit, self._fetch)),
                    self.status_index.eq(Mux(waits, wait_index, fetch_index)),
                    self.waiting.eq(Cat(u.blocked for u in self._seen)),
                ]
        on, ending = Signal(), Signal()
        runs = trail(m, self.running, self._timing.extra("counter_cycles") + 1, "running")
        m.d.comb += on.eq(Cat(runs).any())
        m.d.sync += [ending.eq(on), self.done.eq(self.done | ending & ~on)]
        with m.If(self.running & self.halt):
            with m.If(settling != self._timing.settling_cycles):
                m.d.sync += settling.eq(settling + 1)
            with m.Elif(settled):
                m.d.sync += self.running.eq(0)
        self._begin(m, on | ending, settling, patience, failed)
        return m

    def _begin(self, m: Module, ending: Value, settling: Signal, patience: Signal,
               failed: Signal):
        """`start`, `clear`, and at least a cycle in which what `clear` resets is reset."""
        begins = Signal()
        cleared = [Signal(name=f"cleared{cycle}") for cycle in range(
            self._timing.extra("begin_cycles") + 1)]
        m.d.comb += begins.eq(self.start & ~(ending | self.clear | Cat(cleared).any()))
        m.d.sync += [self.clear.eq(begins), Cat(cleared).eq(Cat(self.clear, *cleared))]
        with m.If(begins):
            m.d.sync += self.done.eq(0)
        with m.If(self.clear):
            m.d.sync += [self.status.eq(Status.RUNNING), self.halt.eq(0), self.waiting.eq(0),
                         patience.eq(0), settling.eq(0), failed.eq(0)]
        with m.If(cleared[-1]):
            m.d.sync += [self.running.eq(1), self.fetching.eq(1)]

    def _quiet(self, m: Module) -> tuple[Signal, Signal]:
        """Two bits: nothing moves; nothing ever will."""
        self._seen = seen = [_later(m, unit, f"unit{code}") for code, unit in enumerate(self.units)]
        memory_open = _later(m, self.memory_open, "memory_open")
        fetch_blocked = _later(m, self.fetch_blocked, "fetch_blocked")
        quiet = Signal(2)
        still = ~memory_open & Cat(u.idle | u.blocked for u in seen).all()
        m.d.sync += quiet.eq(Cat(
            still, still & fetch_blocked & Cat(u.blocked | ~u.queued for u in seen).all()))
        settled, stuck = delayed(m, quiet, self._timing.extra("seen_cycles"), "quiet")
        return settled, stuck

    def _errors(self, m: Module) -> tuple[tuple, Signal]:
        """The error of the lowest instruction of a cycle, and `finished`, which takes as long."""
        candidates = []
        for code, error in enumerate(self.errors):
            seen = _later(m, error, f"error{code}")
            candidates.append((seen.error, Const(code, 8), seen.index, seen.status))
        finished = delayed(m, self.finished, self._timing.status_cycles - 1, "finished")
        return self._tournament(m, "error", candidates), finished

    def _tournament(self, m: Module, name: str, candidates: list[tuple]) -> tuple:
        """Selects of (valid, unit, index, ...) the valid one with the lowest index, the first on a
        tie; one round, of neighbours, a cycle."""
        number = 0
        while len(candidates) > 1:
            winners = [self._first(*candidates[at:at + 2]) for at in range(0, len(candidates), 2)]
            candidates = [tuple(_later(m, field, f"{name}{number}_{place}_{position}")
                                for position, field in enumerate(winner))
                          for place, winner in enumerate(winners)]
            number += 1
        return candidates[0]

    def _first(self, best: tuple, other: tuple | None = None) -> tuple:
        if other is None:
            return best
        wins = other[0] & (~best[0] | (other[2] < best[2]))
        return (best[0] | other[0], *(Mux(wins, mine, theirs)
                                      for mine, theirs in zip(other[1:], best[1:])))


def _later(m: Module, value, name: str):
    """The value, or view, one cycle later."""
    shape = value.shape()
    register = Signal(shape, name=name)
    m.d.sync += register.eq(value)
    return register
