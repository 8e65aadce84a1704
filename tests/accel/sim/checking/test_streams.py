"""`check` holds stream units of any machine together, and finds what a component does wrong."""

from dataclasses import replace

import pytest

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.structure import UnitKind
from accel.proof.legal import prove
from accel.sim.checking.check import Report, cases, check
from accel.sim.checking.geometries import quick_simulators
from accel.sim.meaning import functional, values
from accel.sim.programs.directed import directed
from accel.sim.programs.forms import forms
from accel.sim.programs.generate import generate, with_forms
from accel.sim.programs.late import late
from accel.sim.slice import simulator as slice_
from tests.support.spoiled_streams import Late, Lost, Wrong
from tests.support.streams import both_of, machine_of, picks_of

BATCHED = replace(preset("tiny-1x4x4"), batch=2, block_out=8, par_bytes=1024, wgt_bytes=4096,
                  timing=replace(preset("tiny-1x4x4").timing, read_cycles=3, nest_cycles=5,
                                 ahead=2, in_flight=2))


def checked(machine: Machine, count: int) -> Report:
    return check(machine, count, 0, quick_simulators(machine))


@pytest.mark.slow
@pytest.mark.parametrize("make", [machine_of, both_of])
@pytest.mark.parametrize("config", [None, BATCHED], ids=["1x4x4", "2x4x8"])
def test_simulators_agree(make, config) -> None:
    report = checked(make(config), 300)
    assert report.ok, report.difference or report.empty
    assert report.left_out == ("cycle",)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("make", [picks_of, both_of])
def test_directed_programs_are_legal_where_units_read_the_same_buffers(make) -> None:
    machine = make(None)
    for case in directed(machine):
        prove(machine, case.program)


@pytest.mark.parametrize("make", [machine_of, picks_of, both_of])
def test_native_values_are_the_meaning(make) -> None:
    """Programs of streams are executed in the midst of native code."""
    machine = make()
    streams = [form for form in forms(machine) if form.kind is UnitKind.STREAM]
    for case in (with_forms(machine, 0, streams), *(generate(machine, seed) for seed in range(3))):
        prove(machine, case.program)
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
