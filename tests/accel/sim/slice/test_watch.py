"""Timelines of the slice: those of the cycle simulator, row by row, and of units that it lacks."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine.config import preset
from accel.machine.dram import Dram
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, finish
from accel.machine.status import Run
from accel.sim.checking.check import MAX_CYCLES, cases
from accel.sim.programs.case import Case
from accel.sim.programs.generate import generate
from accel.sim.slice import simulator as slice_
from accel.sim.timed import cycle
from tests.support.effort import tries
from tests.support.streams import both_of, machine_of, row_instruction

MACHINE = Machine(preset("tiny-1x4x4"))
ARRAYS = tuple(Machine(replace(preset("tiny-1x4x4"), name=name, dataflow=name))
               for name in ("weight_stationary", "output_stationary"))


def few_of() -> Machine:
    """A machine with a unit of streams and few instructions else, whose slice is made soon."""
    whole = machine_of()
    return Machine(whole.config, tuple(one for one in whole.declarations if one.name in (
        "load", "store", "gemm", "requantize", "reduce_add", "reverse", "raise_by")))


def both(machine: Machine, case: Case, max_cycles: int = MAX_CYCLES) -> list[Run]:
    """The slice and the cycle simulator, with timelines."""
    return [simulate(machine, case.program, case.memory, values=False, timeline=True,
                     max_cycles=max_cycles, **case.timing)
            for simulate in (slice_.simulate, cycle.simulate_model)]


def require_equal(machine: Machine, case: Case, max_cycles: int = MAX_CYCLES) -> None:
    run, expected = both(machine, case, max_cycles)
    assert run.timeline is not None and expected.timeline is not None
    assert run.timeline.activities == expected.timeline.activities
    for unit in machine.structure.names:
        np.testing.assert_array_equal(run.timeline.spans[unit], expected.timeline.spans[unit],
                                      f"{case.name}: {unit}")


def require_whole(machine: Machine, run: Run) -> None:
    """The rows of each unit follow each other from the first cycle and add up to its counters."""
    assert run.timeline is not None
    for unit, rows in run.timeline.spans.items():
        assert rows[0, 0] == 0 and np.all(np.diff(rows[:, 0]) > 0) and rows[-1, 0] < run.cycles
        lengths = np.diff(np.append(rows[:, 0], run.cycles))
        names = machine.structure.activities
        sums = np.bincount(rows[:, 1], lengths, len(names)).astype(int)
        assert dict(zip(names, sums.tolist())) == run.counters.activity[unit], unit


def test_it_is_that_of_the_cycle_simulator() -> None:
    """Random, directed, faulty and late programs: every end of a run."""
    for case in cases(MACHINE, tries(20), 5):
        require_equal(MACHINE, case)


@pytest.mark.parametrize("limit", [1, 3, 9, 480, 481])
def test_the_watchdog_ends_it_as_that_of_the_cycle_simulator(limit: int) -> None:
    require_equal(MACHINE, generate(MACHINE, 5), limit)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [
    *ARRAYS, Machine(preset("pynq-1x16x16")), load_machine("examples/machines/bfloat16.py"),
    Machine(replace(preset("tiny-1x4x4"), name="shared", shared_bytes=4096))],
    ids=lambda machine: machine.config.name)
def test_it_is_that_of_the_cycle_simulator_on_other_machines(machine: Machine) -> None:
    for case in cases(machine, 40, 5):
        require_equal(machine, case)


@pytest.mark.slow
def test_it_is_that_of_the_cycle_simulator_with_two_units_of_vector() -> None:
    machine = load_machine("examples/machines/two_vectors.py")
    assert cycle.models(machine)
    for case in cases(machine, 40, 5):
        require_equal(machine, case)


@pytest.mark.slow
@pytest.mark.parametrize("make", [few_of, pytest.param(both_of, marks=pytest.mark.slow)])
def test_it_adds_up_to_the_counters_of_any_machine(make) -> None:
    machine = make()
    assert not cycle.models(machine)
    for case in list(cases(machine, 3, 1))[-8:]:
        run = cycle.simulate(machine, case.program, case.memory, values=False, timeline=True,
                             max_cycles=MAX_CYCLES, **case.timing)
        assert run.simulator == "slice"
        require_whole(machine, run)


def test_a_unit_of_ones_own_works_on_what_has_started_first() -> None:
    machine = few_of()
    rows = [row_instruction(machine, "reverse", 1, length, {}) for length in (12, 3, 4)]
    run = cycle.simulate(machine, AccelProgram.assemble(machine, [*rows, finish()]),
                         values=False, timeline=True, dram=Dram(latency=0))
    assert run.ok and run.timeline is not None
    names = run.timeline.activities
    busy = [index for _, what, index in run.timeline.spans["turn"].tolist()
            if names[what] == "busy"]
    assert list(dict.fromkeys(busy)) == [0, 1, 2]
    ends = {index: first for first, _, index in run.timeline.spans["turn"].tolist()}
    assert ends[1] == run.retire[0] + 1 and run.start[1] < run.retire[0]


def test_without_one_a_run_has_the_same_time() -> None:
    case = generate(MACHINE, 4)
    one, other = (slice_.simulate(MACHINE, case.program, case.memory, values=False,
                                  timeline=timeline, **case.timing) for timeline in (True, False))
    assert other.timeline is None and one.counters == other.counters
    np.testing.assert_array_equal(one.start, other.start)
