"""The generator of random programs: it repeats itself, is legal, and places only needed tokens.
Programs that are made by hand are what they say."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine import isa
from accel.machine.config import UNITS, AccelConfig, preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Status
from accel.proof.access import IllegalProgram, prove
from accel.sim import cycle, functional
from accel.sim.directed import EXTENTS, LOOPS, directed
from accel.sim.generate import generate
from accel.sim.late import LATE, late

MACHINE = Machine(preset("tiny-1x4x4"))
WIDE = Machine(replace(preset("tiny-1x4x4"), name="wide", batch=2, block_in=8, block_out=16,
                       wgt_bytes=8192, acc_bytes=8192, bus_bytes=16))
SMALL = Machine(replace(preset("tiny-1x4x4"), name="small", inp_bytes=16, wgt_bytes=64,
                        res_bytes=16, par_bytes=128, acc_bytes=64, out_bytes=16))


def test_a_seed_gives_one_program():
    one, again, other = generate(MACHINE, 3), generate(MACHINE, 3), generate(MACHINE, 4)
    assert np.array_equal(one.program.words, again.program.words)
    assert np.array_equal(one.memory, again.memory) and one.timing == again.timing
    assert not np.array_equal(one.program.words, other.program.words)


@pytest.mark.parametrize("machine", [MACHINE, WIDE], ids=["tiny", "wide"])
def test_programs_are_proved_legal_and_end(machine):
    for seed in range(40):
        case = generate(machine, seed)
        prove(machine, case.program)
        assert functional.simulate(machine, case.program, case.memory).ok


def without(case, source, target, number):
    """The program without one signal of a pair and the wait that it matches."""
    stream = case.program.instructions(MACHINE)
    signals = [k for k, one in enumerate(stream) if one.unit == source and target in one.signals]
    waits = [k for k, one in enumerate(stream) if one.unit == target and source in one.waits]
    changes = ((signals[number], "signals", target), (waits[number], "waits", source))
    for place, key, unit in changes:
        fields = stream[place].fields
        mask = fields[key] & ~isa.unit_mask([unit])
        stream[place] = replace(stream[place], fields={**fields, key: mask})
    return replace(case.program, words=AccelProgram.assemble(MACHINE, stream).words)


def test_the_proof_refuses_programs_that_lack_a_token():
    """Most tokens are needed; those that are not were added at random."""
    refused = kept = 0
    for seed in range(4):
        case = generate(MACHINE, seed)
        pairs = [(s, one.unit) for one in case.program.instructions(MACHINE) for s in one.waits]
        for pair in sorted(set(pairs)):
            if pair[0] == pair[1]:
                continue
            for number in range(pairs.count(pair)):
                try:
                    prove(MACHINE, without(case, *pair, number))
                    kept += 1
                except IllegalProgram as error:
                    assert "in no fixed order" in str(error)
                    refused += 1
    assert refused > 40 and kept > 10


LEAST = Machine(AccelConfig("least", 1, 16, 4, inp_bytes=64, wgt_bytes=256, res_bytes=16,
                            par_bytes=128, acc_bytes=64, out_bytes=16, bus_bytes=4))
"""The fewest entries that buffers can have; an entry of wgt is longer than all of res."""


@pytest.mark.parametrize("machine", [MACHINE, WIDE, SMALL, LEAST],
                         ids=["tiny", "wide", "small", "least"])
def test_directed_programs_are_legal(machine):
    for case in directed(machine):
        prove(machine, case.program)
        assert functional.simulate(machine, case.program, case.memory).status is Status.DONE


def loops_of(name):
    """Unit, level and loop of all instructions of a directed program."""
    case, = (case for case in directed(MACHINE) if case.name == name)
    return [(one.unit, level, loop) for one in case.program.instructions(MACHINE)[:-1]
            for level, loop in enumerate(one.fields["loops"])]


def test_every_loop_but_the_first_is_long():
    long = {(unit, level, loop["extent"]) for unit, level, loop in loops_of("long extents")}
    assert long >= {(unit, level, extent) for unit, count in LOOPS.items()
                    for level in range(1, count) for extent in EXTENTS}


def test_every_loop_strides_up_and_down():
    strides = {(unit, level, key, value < (1 << 23 if key == "buffer" else 1 << 15) if key != "dram"
                else value > 0)
               for unit, level, loop in loops_of("long strides")
               for key, value in loop.items() if key in KEYS[unit] and value}
    assert strides == {(unit, level, key, up) for unit, count in LOOPS.items()
                       for level in range(count) for key in KEYS[unit] for up in (False, True)}


KEYS = {"load": ("dram", "buffer"), "gemm": ("dst", "a", "b"), "vector": ("dst", "b"),
        "store": ("dram", "buffer")}


@pytest.mark.parametrize("machine", [MACHINE, WIDE], ids=["tiny", "wide"])
def test_late_programs_end_as_they_say(machine):
    ends = set()
    for case in late(machine):
        run = functional.simulate(machine, case.program, case.memory)
        assert run.describe().partition(" (waiting")[0] == case.fault
        assert run.index >= LATE
        if run.status is Status.DEADLOCK:
            assert set(run.waiting) == set(UNITS) and min(run.waiting.values()) == run.index
        ends.add((run.status, run.unit))
    assert ends == {(status, unit) for status in (Status.DEADLOCK, Status.ADDRESS)
                    for unit in UNITS} | {(Status.ILLEGAL, "fetch")}


def test_directed_programs_make_every_unit_wait_long():
    waited = set()
    for case in directed(MACHINE):
        run = cycle.simulate(MACHINE, case.program, case.memory, values=False, **case.timing)
        waited |= {(unit, cause) for unit, causes in run.counters.activity.items()
                   for cause, count in causes.items() if count > 5_000}
    causes = {"busy", "command", "signal", *UNITS}
    assert waited >= {(unit, cause) for unit in UNITS for cause in causes - {unit}}
    assert waited >= {("gemm", "bank"), ("vector", "bank"), ("vector", "hazard"),
                      ("load", "memory"), ("store", "memory")}
