"""Programs with a planted fault: what they hold, and that nothing takes them for good."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from accel.datapath.plan import open_instructions
from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.machine.status import Status
from accel.machine.timing import TIMING
from accel.proof.legal import IllegalProgram, prove
from accel.sim.meaning import functional
from accel.sim.rtl import verilated
from accel.sim.timed import cycle
from accel.sim.checking.locate import differ
from accel.sim.programs.faults import FAULTS, plant
from tests.support.effort import tries

MACHINE = Machine(preset("tiny-1x4x4"))
SEEDS = range(4 * len(FAULTS))


@functools.cache
def planted(seed):
    return plant(MACHINE, seed)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_proof_refuses_it_and_both_simulators_stop_alike(seed):
    case = planted(seed)
    with pytest.raises(IllegalProgram):
        prove(MACHINE, case.program)
    expected = functional.simulate(MACHINE, case.program, case.memory)
    run = verilated.simulate(MACHINE, case.program, case.memory, **case.timing)
    assert expected.status is not Status.DONE
    assert differ(expected, run) == ""


TIMINGS = [{"latency": 0}, {"latency": 200, "outstanding": 1},
           {"latency": 7, "stall_seed": 5, "bytes_per_cycle": 1.5}]


def test_two_faults_end_alike_under_every_timing():
    cases = [planted(seed) for seed in range(tries(225)) if seed // len(FAULTS) % 2]
    assert all(", " in case.fault.split(":")[0] for case in cases)
    for case in cases:
        expected = functional.simulate(MACHINE, case.program, case.memory)
        for timing in TIMINGS:
            run = cycle.simulate(MACHINE, case.program, case.memory, values=False, **timing)
            assert (run.status, run.unit, run.index) == (expected.status, expected.unit,
                                                         expected.index), (case.fault, timing)


def test_the_lower_instruction_is_reported_though_fetch_meets_its_error_first():
    long = [{"extent": 4000}]
    outside = 1 << 15
    stream = [Instruction("gemm", "gemm", {"banks": 1, "reset": 1, "loops": long}),
              Instruction("gemm", "gemm", {"banks": 1, "reset": 1, "base": {"a": outside}}),
              Instruction("store", "store", {"buffer": 0}), finish()]
    program = AccelProgram.assemble(MACHINE, stream, io_bytes=64)
    words = program.words.copy()
    words[3, 0] = 0                     # an illegal opcode
    program = replace(program, words=words)
    for simulate in (functional.simulate, cycle.simulate, verilated.simulate):
        run = simulate(MACHINE, program)
        assert (run.status, run.unit, run.index) == (Status.ADDRESS, "gemm", 1)


GIVING = {"gemm": {"banks": 1, "reset": 1}, "store": {"buffer": 5, "base": 3}}
REFUSED = 255                   # the first signal that finds its counter full


@pytest.mark.one_in(3)
@pytest.mark.parametrize("unit, wrong, behind, status, index", [
    ("gemm", {"banks": 2}, 0, Status.ADDRESS, REFUSED + 1),
    ("gemm", {"banks": 2}, open_instructions(MACHINE, "gemm") - 2, Status.ADDRESS, None),
    ("gemm", {"banks": 2}, open_instructions(MACHINE, "gemm") - 1, Status.DEADLOCK, REFUSED),
    ("store", {"buffer": 0}, TIMING.in_flight - 2, Status.ILLEGAL, None),
    ("store", {"buffer": 0}, TIMING.in_flight - 1, Status.DEADLOCK, REFUSED),
    ("store", {"dram": 1 << 30}, 0, Status.DEADLOCK, REFUSED),      # never the oldest
])
def test_an_error_behind_a_signal_that_is_refused(unit, wrong, behind, status, index):
    """So many instructions start behind it; a bus error counts when its instruction is the oldest.
    """
    plain = Instruction(unit, unit, GIVING[unit])
    giving = replace(plain, fields={**plain.fields, "signals": 1})
    last = replace(plain, fields={**plain.fields, **wrong})
    stream = [*[giving] * (REFUSED + 1), *[plain] * behind, last, finish()]
    program = AccelProgram.assemble(MACHINE, stream, io_bytes=64)
    for simulate in (functional.simulate, cycle.simulate, verilated.simulate):
        run = simulate(MACHINE, program)
        expected = (status, unit, REFUSED + 1 + behind if index is None else index)
        assert (run.status, run.unit, run.index) == expected, simulate.__module__


def test_the_memory_holds_the_program_with_the_fault():
    for case in map(planted, SEEDS):
        first, words = case.program.bases["program"], case.program.words.reshape(-1)
        np.testing.assert_array_equal(case.memory[first:first + words.size], words)


def test_a_seed_repeats_itself():
    case, again = planted(5), plant(MACHINE, 5)
    assert (again.fault, again.timing) == (case.fault, case.timing)
    np.testing.assert_array_equal(again.memory, case.memory)


def test_another_kind_has_its_turn_where_a_machine_has_nothing_for_one():
    """Copies alone have no place of an operand that they do not take."""
    few = Machine(MACHINE.config, tuple(
        one for one in MACHINE.declarations if one.name in ("load", "store", "gemm", "copy")))
    case = plant(few, 1)
    assert case.fault and not case.fault.startswith("opcode")
    assert functional.simulate(few, case.program, case.memory).status is not Status.DONE
