"""Programs with a planted fault: what they hold, and that nothing takes them for good."""

import numpy as np
import pytest

from accel.access import IllegalProgram, prove
from accel.config import preset
from accel.machine import Machine
from accel.sim import functional, verilated
from accel.sim.faults import FAULTS, plant
from accel.sim.locate import differ
from accel.status import Status

MACHINE = Machine(preset("tiny-1x4x4"))
CASES = [plant(MACHINE, seed) for seed in range(4 * len(FAULTS))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fault.split(":")[0])
def test_the_proof_refuses_it_and_both_simulators_stop_alike(case):
    with pytest.raises(IllegalProgram):
        prove(MACHINE, case.program)
    expected = functional.simulate(MACHINE, case.program, case.memory)
    run = verilated.simulate(MACHINE, case.program, case.memory, **case.timing)
    assert expected.status is not Status.DONE
    assert differ(expected, run) == ""


def test_the_memory_holds_the_program_with_the_fault():
    for case in CASES:
        first, words = case.program.bases["program"], case.program.words.reshape(-1)
        np.testing.assert_array_equal(case.memory[first:first + words.size], words)


def test_a_seed_repeats_itself():
    again = plant(MACHINE, 5)
    assert (again.fault, again.timing) == (CASES[5].fault, CASES[5].timing)
    np.testing.assert_array_equal(again.memory, CASES[5].memory)
