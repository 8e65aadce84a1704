"""`check` holds stream units of any machine together, and finds what a component does wrong."""

from dataclasses import replace

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.sim.checking.check import Report, cases, check
from accel.sim.checking.geometries import quick_simulators
from accel.sim.meaning import functional, values
from accel.sim.programs.late import late
from accel.sim.slice import simulator as slice_
from tests.support.streams import Reverse, machine_of, picks_of

BATCHED = replace(preset("tiny-1x4x4"), batch=2, block_out=8, par_bytes=1024, wgt_bytes=4096,
                  timing=replace(preset("tiny-1x4x4").timing, read_cycles=3, nest_cycles=5,
                                 ahead=2, in_flight=2))


def checked(machine: Machine, count: int) -> Report:
    return check(machine, count, 0, quick_simulators(machine))


@pytest.mark.slow
@pytest.mark.parametrize("make", [machine_of, picks_of])
@pytest.mark.parametrize("config", [None, BATCHED], ids=["1x4x4", "2x4x8"])
def test_simulators_agree(make, config) -> None:
    report = checked(make(config), 300)
    assert report.ok, report.difference or report.empty
    assert report.left_out == ("cycle",)


@pytest.mark.parametrize("make", [machine_of, picks_of])
def test_native_values_are_the_meaning(make) -> None:
    """Programs of streams are executed in the midst of native code."""
    machine = make()
    for case in cases(machine, 3):
        if case.name.startswith(("seed", "forms")):
            one, other = (simulate(machine, case.program, case.memory)
                          for simulate in (functional.simulate, values.simulate))
            assert one.ok and other.ok and (one.memory == other.memory).all()


def test_reports_have_the_name_of_a_renamed_unit() -> None:
    machine = machine_of(turn="mirror", turned="faces", res="tiles", load="reader")
    for case in late(machine):
        if "of mirror" in case.name:
            run = functional.simulate(machine, case.program, case.memory)
            assert run.unit == "mirror" and "mirror" in run.describe()
            assert run.describe() == case.fault or run.waiting
    assert sum("of mirror" in case.name for case in late(machine)) == 2


# ---- planted errors ----------------------------------------------------------------------------

class Around(wiring.Component):
    """`Reverse`, and something of its own between it and the unit."""

    def __init__(self, shape):
        self.inner = Reverse(shape)
        super().__init__(shape.members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = self.inner
        m.d.comb += [
            inner.i.payload.eq(self.i.payload), inner.i.valid.eq(self.i.valid),
            self.i.ready.eq(inner.i.ready), self.o.payload.eq(inner.o.payload),
            self.o.valid.eq(inner.o.valid), inner.o.ready.eq(self.o.ready)]
        self.changed(m, inner)
        return m


class Wrong(Around):
    """One bit of the third entry of a row is another."""

    def changed(self, m, inner):
        at = Signal(4)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += at.eq(at + 1)
            with m.If(self.o.p.last):
                m.d.sync += at.eq(0)
        with m.If(at == 2):
            m.d.comb += self.o.p.data[5].eq(~inner.o.p.data[5])


class Lost(Around):
    """The end of a row of three entries is lost: the next row's entries are of the same row."""

    def changed(self, m, inner):
        at = Signal(4)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += at.eq(at + 1)
            with m.If(self.i.p.last):
                m.d.sync += at.eq(0)
        with m.If(at == 2):
            m.d.comb += inner.i.p.last.eq(0)


class Late(Around):
    """A row is offered a cycle later."""

    def changed(self, m, inner):
        waited = Signal()
        with m.If(inner.o.valid & ~waited):
            m.d.sync += waited.eq(1)
            m.d.comb += [self.o.valid.eq(0), inner.o.ready.eq(0)]
        with m.If(self.o.valid & self.o.ready & self.o.p.last):
            m.d.sync += waited.eq(0)


@pytest.mark.slow
def test_a_wrong_value_is_found() -> None:
    difference = checked(machine_of(reverse=Wrong), 20).difference
    assert difference is not None
    assert difference.simulators == ("functional", "verilated")
    assert difference.text.startswith("reverse ")
    assert "of turned is" in difference.detail


@pytest.mark.slow
def test_a_lost_end_of_a_row_is_found() -> None:
    difference = checked(machine_of(reverse=Lost), 20).difference
    assert difference is not None
    assert difference.simulators == ("functional", "slice")


@pytest.mark.slow
def test_another_time_is_followed() -> None:
    """The slice is made of the netlist, so it has the time of any component."""
    machine, slower = machine_of(), machine_of(reverse=Late)
    assert checked(slower, 20).difference is None
    case = next(case for case in cases(machine, 0) if case.name == "long wait for turn")
    words = replace(case.program, machine_hash=slower.hash)
    one, other = (slice_.simulate(which, program, case.memory, values=False, **case.timing)
                  for which, program in ((machine, case.program), (slower, words)))
    assert other.cycles - one.cycles > 10_000
