"""Programs that fail late: where and why they end."""

from dataclasses import replace

import pytest

from accel.machine.config import UNITS, preset
from accel.machine.machine import Machine
from accel.machine.status import Status
from accel.sim.meaning import functional
from accel.sim.programs.late import LATE, late
from tests.support.machines import PACKED

MACHINE = Machine(preset("tiny-1x4x4"))
WIDE = Machine(replace(preset("tiny-1x4x4"), name="wide", batch=2, block_in=8, block_out=16,
                       wgt_bytes=8192, acc_bytes=8192, bus_bytes=16))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("machine", [MACHINE, WIDE, PACKED], ids=["tiny", "wide", "packed"])
def test_late_programs_end_as_they_say(machine):
    ends = set()
    for case in late(machine):
        run = functional.simulate(machine, case.program, case.memory)
        assert run.describe().partition(" (waiting")[0] == case.fault
        assert run.index >= LATE
        if run.status is Status.DEADLOCK:
            assert set(run.waiting) == set(UNITS) and min(run.waiting.values()) == run.index
        ends.add((run.status, run.unit))
    unpacking = {(Status.ILLEGAL, "load")} if machine is PACKED else set()
    assert ends == {(status, unit) for status in (Status.DEADLOCK, Status.ADDRESS)
                    for unit in UNITS} | {(Status.ILLEGAL, "fetch")} | unpacking


@pytest.mark.parametrize("unit", ["load", "store"])
def test_each_high_bit_of_an_offset_counts(unit):
    """Without one of them the run ends sooner: its bytes are outside the memory."""
    case, = (case for case in late(MACHINE) if case.name == f"late address of {unit}")
    dram = MACHINE.formats[unit]["dram"]
    for bit in range(15, dram.width):
        words = case.program.words.copy()
        words[LATE + 1, (dram.offset + bit) // 8] ^= 1 << (dram.offset + bit) % 8
        memory = case.memory.copy()
        memory[:words.size] = words.reshape(-1)
        run = functional.simulate(MACHINE, replace(case.program, words=words), memory)
        assert (run.status, run.unit, run.index) == (Status.BUS, unit, LATE + 1), bit
