"""The slice of the RTL takes the cycles of the cycle simulator, and follows edits."""

from pathlib import Path
from symtable import symtable

import numpy as np
import pytest

from accel.machine.config import preset
from accel.machine.dram import Dram
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, ProgramError, finish
from accel.machine.status import Status
from accel.sim.checking.check import MAX_CYCLES, cases
from accel.sim.checking.differences import differ_in_time
from accel.sim.meaning import functional
from accel.sim.programs.generate import generate
from accel.sim.slice import simulator as slice_
from accel.sim.timed import cycle
from bench.support.edits import EDITS, Edit, edited_tree, judged
from tests.support.effort import tries

MACHINE = Machine(preset("tiny-1x4x4"))
HARDWARE = Path(cycle.__file__).parents[2] / "hw"


@pytest.mark.slow
def test_programs_and_faults_take_the_cycles_of_the_cycle_simulator() -> None:
    seen = set()
    for case in cases(MACHINE, tries(20), 3):
        run, expected = (simulate(MACHINE, case.program, case.memory, values=False,
                                  max_cycles=MAX_CYCLES, **case.timing)
                         for simulate in (slice_.simulate, cycle.simulate_model))
        assert differ_in_time(run, expected) is None, case.name
        seen.add(run.status)
    assert seen >= {Status.DONE, Status.DEADLOCK, Status.ADDRESS}


@pytest.mark.parametrize("dram", [
    Dram(33, 3, 5, bytes_per_cycle=3.1, row_bytes=64, row_miss=4, banks=1, refresh_interval=200,
         refresh_cycles=30),
    Dram(15, 3, bytes_per_cycle=2, row_bytes=1024, row_miss=4, row_closed=2, banks=4,
         in_order=True, refresh_interval=625, refresh_cycles=8, origin=0xFFFFF000)])
def test_it_has_the_memory_of_the_others(dram: Dram) -> None:
    case = generate(MACHINE, 4)
    run, expected = (simulate(MACHINE, case.program, case.memory, values=False, dram=dram)
                     for simulate in (slice_.simulate, cycle.simulate_model))
    assert run.ok and differ_in_time(run, expected) is None


def test_values_are_those_of_the_functional_simulator() -> None:
    case = generate(MACHINE, 2)
    before = case.memory.copy()
    run = slice_.simulate(MACHINE, case.program, case.memory)
    expected = functional.simulate(MACHINE, case.program, case.memory)
    np.testing.assert_array_equal(run.memory, expected.memory)
    np.testing.assert_array_equal(case.memory, before)
    assert run.simulator == "slice" and run.timeline is None and run.accesses is None
    alone = slice_.simulate(MACHINE, case.program, case.memory, values=False)
    np.testing.assert_array_equal(alone.memory, before)


def test_a_measure_is_the_time_of_a_run() -> None:
    case = generate(MACHINE, 2)
    assert differ_in_time(slice_.measure(MACHINE, case.program),
                          cycle.measure(MACHINE, case.program)) is None


def test_events_are_filled_where_they_are_watched() -> None:
    case = generate(MACHINE, 2)
    events = np.full((2, case.program.count), -1, np.int64)
    run = slice_.simulate(MACHINE, case.program, case.memory, values=False, events=events)
    assert np.all(events >= 0) and run.start is not None
    np.testing.assert_array_equal(events, [run.start, run.retire])


@pytest.mark.parametrize("limit", [1, 3, 480])
def test_the_watchdog_ends_a_run(limit: int) -> None:
    case = generate(MACHINE, 5)
    run = slice_.simulate(MACHINE, case.program, case.memory, values=False, max_cycles=limit)
    assert (run.status, run.cycles) == (Status.WATCHDOG, limit)


def test_a_program_of_another_machine_is_refused() -> None:
    program = AccelProgram.assemble(Machine(preset("ecp5-1x2x2")), [finish()])
    with pytest.raises(ProgramError, match="^Program was compiled for machine "):
        slice_.simulate(MACHINE, program)


def test_what_only_computes_is_gone() -> None:
    """Time does not depend on values in this hardware."""
    assert not slice_.sliced_core(MACHINE).has_values


def globals_of(source: str) -> set[str]:
    """The names that no scope of a module binds, or only its outermost."""
    tables, names = [symtable(source, "edited", "exec")], set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        names |= {one.get_name() for one in table.get_symbols() if one.is_global()}
    return names


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_changes_one_place_of_the_hardware(name: str) -> None:
    source = (HARDWARE / EDITS[name].file).read_text()
    edited = EDITS[name].applied(source)
    assert edited != source
    assert globals_of(edited) <= globals_of(source)
    with pytest.raises(ValueError, match="the pattern must occur once, not 0 times: nowhere$"):
        Edit(EDITS[name].file, "nowhere", "").applied(source)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a relay after fetch's requests", "zeros pass at once"])
def test_it_follows_an_edit_and_the_cycle_simulator_is_not_used(name: str, tmp_path: Path) -> None:
    found = judged(edited_tree(tmp_path, name), "tiny-1x4x4", 12, 1)
    assert found["simulators"] == ["slice"] and found["different"] == []
    assert found["stale"] and found["has_values"] == EDITS[name].needs_values
