"""The check finds what is wrong, and where; the RTL agrees with the functional simulator."""

import re
from dataclasses import replace

import numpy as np
import pytest

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Counters, Run, Status
from accel.proof.legal import IllegalProgram
from accel.sim.checking import check as checking
from accel.sim.meaning import functional
from accel.sim.rtl import verilated
from accel.sim.checking.check import COUNT, cases, check, default_simulators
from accel.sim.checking.coverage import Coverage
from accel.sim.checking.geometries import quick_simulators
from accel.sim.checking.locate import cut, differ
from accel.sim.programs.case import Case
from accel.sim.programs.directed import directed
from accel.sim.programs.generate import generate
from accel.sim.programs.late import late
from tests.support.effort import Effort
from tests.support.machines import LONG, PACKED

MACHINE = Machine(preset("tiny-1x4x4"))


def plain(machine: Machine, case: Case) -> Run:
    return functional.simulate(machine, case.program, case.memory)


def wrong(change):
    """A functional simulator that takes the instructions that `change` makes for those it gets."""
    def simulate(machine: Machine, case: Case) -> Run:
        stream = [change(one) for one in case.program.instructions(machine)]
        words = AccelProgram.assemble(machine, stream).words
        return functional.simulate(machine, replace(case.program, words=words), case.memory)
    return simulate


def with_field(name, **fields):
    return lambda one: (replace(one, fields={**one.fields, **fields}) if one.name == name else one)


@pytest.mark.slow
def test_the_rtl_agrees_and_every_bin_is_filled(monkeypatch):
    """The quick run has fewer programs than the command; those of this seed fill every bin too."""
    seen, count = [], COUNT // 5 if Effort.quick else COUNT
    monkeypatch.setattr(checking, "COUNT", count)
    report = check(MACHINE, count, 3, progress=lambda done, total: seen.append((done, total)))
    assert report.difference is None, report.difference.describe()
    assert report.empty == [] and report.ok
    total = len(directed(MACHINE)) + count + count // 2 + len(late(MACHINE))
    assert report.programs == total and seen[0] == (0, total) and seen[-1] == (total, total)
    assert all(filled == total for filled, total in report.coverage.totals().values())
    assert report.cycles > 100_000


@pytest.mark.slow
def test_packed_weights():
    """Every way to unpack is there, and a simulator that does not extend signs, or takes fewer
    bytes from memory, is found."""
    report = check(PACKED, 2, 0, quick_simulators(PACKED))
    assert report.ok, report.difference
    assert report.coverage.ran["load of 4 bits"] > 1 and report.coverage.ran["load of 2 bits"] > 1
    assert "load of 4 bits ran " in checking.ran([report])
    forms = [name for name in report.coverage.counts["form"] if "wgt" in name]
    assert forms == [f"load wgt{bits}{padding}" for padding in ("", " with padding")
                     for bits in ("", " of 4 bits", " of 2 bits")]
    for bits, other in ((1, 2), (2, 0)):
        found = check(PACKED, 2, 0, {"right": plain, "wrong": wrong(
            lambda one, bits=bits, other=other: with_field("load", bits=other)(one)
            if one.fields.get("bits") == bits else one)}).difference
        assert found is not None and found.simulators == ("right", "wrong")


@pytest.mark.slow
def test_elements_of_16_bits():
    """A simulator that pads with one byte for both, or clamps to eight bits, is found."""
    report = check(LONG, 2, 0, quick_simulators(LONG))
    assert report.ok, report.difference
    for change in (lambda one: with_field("load", pad_high=one.fields["pad_value"])(one)
                   if one.name == "load" else one,
                   lambda one: with_field("requantize", lo=-128)(one)
                   if one.fields.get("lo", 0) < -128 else one):
        found = check(LONG, 2, 0, {"right": plain, "wrong": wrong(change)}).difference
        assert found is not None and found.simulators == ("right", "wrong")


@pytest.mark.slow
def test_another_seed_has_other_programs(monkeypatch):
    monkeypatch.setattr(checking, "directed", lambda machine: [])       # those are the same
    a, b = (check(MACHINE, 2, seed, {"functional": plain}) for seed in (1, 2))
    assert a.instructions != b.instructions
    assert a.coverage.empty and a.empty == []       # with so few programs they are no failure


@pytest.mark.slow
def test_empty_bins_fail(monkeypatch):
    """In a check of as many programs as fill them: here of a few."""
    monkeypatch.setattr(checking, "directed", lambda machine: directed(machine)[-1:])
    monkeypatch.setattr(checking, "COUNT", 2)
    report = check(MACHINE, 2, 0, {"functional": plain})
    assert report.difference is None and not report.ok
    assert "stall: vector for bank" in report.empty
    assert report.as_json()["empty"] == report.empty


@pytest.mark.parametrize("name", [pytest.param("sub", marks=pytest.mark.slow), "requantize",
                                  pytest.param("reduce_max", marks=pytest.mark.slow)])
def test_the_first_wrong_instruction_is_named(name, monkeypatch):
    if Effort.quick:                            # those are longer
        monkeypatch.setattr(checking, "directed", lambda machine: [])
    other = {"sub": "add", "requantize": "copy", "reduce_max": "reduce_min"}[name]
    report = check(MACHINE, 8, 0, {
        "right": plain, "wrong": wrong(lambda one: replace(one, name=other)
                                       if one.name == name else one)})
    found = report.difference
    assert found is not None and not report.ok
    assert found.simulators == ("right", "wrong")
    assert found.text.startswith(name)
    told = re.fullmatch(
        rf"(seed \d+|full counter, .*|forms .*): right and wrong differ: instruction \d+ "
        rf"`{name} .*`: byte "
        r"\d+ of .* is [0-9a-f]{2}; [0-9a-f]{2} \(\d+ bytes of memory differ, from (\d+): "
        r"([0-9a-f ]+); ([0-9a-f ]+)\)", found.describe())
    assert told, found.describe()
    case, = (case for case in cases(MACHINE, 8, 0) if case.name == told[1])
    shown = min(8, len(case.memory) - int(told[2]))
    assert [len(bytes.fromhex(told[side])) for side in (3, 4)] == [shown, shown]


@pytest.mark.slow
def test_a_wrong_load_shows_where_its_bytes_are_used():
    report = check(MACHINE, 4, 0, {"right": plain,
                                   "wrong": wrong(with_field("load", pad_value=77))})
    assert report.difference is not None and report.difference.instruction >= 0
    assert not report.difference.text.startswith("load")


def test_a_simulator_that_stops_is_a_difference():
    def stops(machine, case):
        return Run(Status.WATCHDOG)

    report = check(MACHINE, 1, 0, {"right": plain, "stuck": stops})
    assert report.difference is not None
    assert report.difference.detail.startswith("done; watchdog: fetch, instruction 0")


def test_where_is_not_looked_for_if_nobody_asks():
    def stops(machine, case):
        return Run(Status.WATCHDOG)

    report = check(MACHINE, 1, 0, {"right": plain, "stuck": stops}, locate=False)
    assert report.difference is not None
    assert report.difference.describe() == ("full counter, load to gemm: right and stuck differ: "
                                            "done; watchdog: fetch, instruction 0")


@pytest.mark.parametrize("change", [{"index": 1 << 20}, {"unit": "nobody"}, {"waiting": {"x": 1}},
                                    {"status": Status.DONE}], ids=lambda change: next(iter(change)))
def test_a_wrong_end_of_a_program_with_a_fault_is_a_difference(change, monkeypatch):
    monkeypatch.setattr(checking, "directed", lambda machine: [])       # those have no fault

    def blames(machine, case):
        run = plain(machine, case)
        return replace(run, **change) if case.fault else run

    report = check(MACHINE, 2, 0, {"right": plain, "wrong": blames})
    assert report.difference is not None and report.difference.case == "fault 0"
    assert report.difference.instruction == -1


def test_a_proof_that_refuses_is_a_difference(monkeypatch):
    def refuse(machine, program):
        raise IllegalProgram("no good")

    monkeypatch.setattr(checking, "prove", refuse)
    report = check(MACHINE, 1, 0, {"functional": plain})
    assert report.difference is not None
    assert report.difference.describe() == (
        "full counter, load to gemm: generator and proof differ: no good")


def test_events_of_simulators_that_have_time_are_compared():
    rtl = default_simulators()["verilated"]

    def late(machine, case):
        run = rtl(machine, case)
        return replace(run, start=run.start + (np.arange(run.start.size) == 3),
                       retire=run.retire)

    report = check(MACHINE, 1, 0, {"functional": plain, "late": late, "verilated": rtl})
    assert report.difference is not None and report.difference.instruction == 3
    assert report.difference.simulators == ("late", "verilated")
    assert re.fullmatch(r"load starts in cycle \d+; in cycle \d+", report.difference.detail)


def test_counters_that_do_not_add_up_are_a_difference():
    def dozing(machine, case):
        run = verilated.simulate(machine, case.program, case.memory, **case.timing)
        idle = {unit: {**causes, "command": causes["command"] - 1}
                for unit, causes in run.counters.activity.items()}
        return replace(run, counters=Counters(idle, run.counters.bytes))

    report = check(MACHINE, 1, 0, {"functional": plain, "dozing": dozing})
    assert report.difference is not None
    assert re.fullmatch(r"load counts \d+ cycles of \d+", report.difference.detail)


def test_a_cut_shows_accumulators_and_results():
    case = generate(MACHINE, 0)
    for length in (5, case.program.count - 1):
        shown = cut(MACHINE, case, length)
        run = plain(MACHINE, shown.case)
        assert run.ok
        rtl = verilated.simulate(MACHINE, shown.case.program, shown.case.memory, **case.timing)
        assert differ(run, rtl) == ""
        config = MACHINE.config
        assert len(shown.places) >= config.out_bytes + config.acc_bytes
        assert shown.places[-1] == "byte 3 of lane 3 of acc entry 255"


def test_coverage_counts_what_an_instruction_exercises():
    coverage = Coverage(MACHINE)
    assert "loop: gemm loop 5" in coverage.empty and "token: store to load" in coverage.empty
    case = directed(MACHINE)[0]
    coverage.add(case, plain(MACHINE, case))
    assert coverage.counts["loop"]["gemm loop 0"] == 1
    assert coverage.counts["bypass"]["gemm at distance 1"] == 1
    assert coverage.counts["bypass"]["gemm at distance 2"] == 0
    assert coverage.counts["token"]["load to gemm"] == 257
    assert coverage.counts["stall"]["load for signal"] == 0     # that takes a run with time
