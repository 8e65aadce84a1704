"""Directed programs: they are legal, and reach what they say."""

from dataclasses import replace
from math import prod

import pytest

from accel.machine.config import UNITS, AccelConfig, preset
from accel.machine.intrinsics import SHIPPED
from accel.machine.machine import Machine
from accel.machine.status import ACCESSES, Status
from accel.machine.timing import TIMING, CoreTiming
from accel.proof.legal import prove
from accel.sim.meaning import functional
from accel.sim.timed import cycle
from accel.sim.programs.directed import EXTENTS, LONG, LOOPS, directed
from examples.machines import softmax

MACHINE = Machine(preset("tiny-1x4x4"))
WIDE = Machine(replace(preset("tiny-1x4x4"), name="wide", batch=2, block_in=8, block_out=16,
                       wgt_bytes=8192, acc_bytes=8192, bus_bytes=16))
SMALL = Machine(replace(preset("tiny-1x4x4"), name="small", inp_bytes=16, wgt_bytes=64,
                        res_bytes=16, par_bytes=128, acc_bytes=64, out_bytes=16))
LEAST = Machine(AccelConfig("least", 1, 16, 4, inp_bytes=64, wgt_bytes=256, res_bytes=16,
                            par_bytes=128, acc_bytes=64, out_bytes=16, bus_bytes=4))
"""The fewest entries that buffers can have; an entry of wgt is longer than all of res."""


@pytest.mark.parametrize("machine", [
    pytest.param(LEAST, id="least"), pytest.param(MACHINE, id="tiny", marks=pytest.mark.slow),
    pytest.param(WIDE, id="wide", marks=pytest.mark.slow),
    pytest.param(SMALL, id="small", marks=pytest.mark.slow)])
def test_directed_programs_are_legal(machine):
    for case in directed(machine):
        prove(machine, case.program)
        assert functional.simulate(machine, case.program, case.memory).status is Status.DONE


def with_scratchpad(block_out, shared_cycles):
    """A machine, and the program for its shared scratchpad."""
    sizes = {"wgt_bytes": 1 << 14, "par_bytes": 1 << 14, "acc_bytes": 1 << 14,
             "res_bytes": 1 << 12, "out_bytes": 1 << 12} if block_out > 4 else {}
    machine = Machine(replace(MACHINE.config, name="shared", shared_bytes=1024,
                              block_out=block_out, timing={"shared_cycles": shared_cycles},
                              **sizes))
    case, = (case for case in directed(machine) if case.name == "shared scratchpad")
    return machine, case


@pytest.mark.one_in(2)
@pytest.mark.parametrize("block_out", [4, 256])
def test_load_reads_the_shared_scratchpad(block_out):
    """Without one there is no such program."""
    assert all(case.name != "shared scratchpad" for case in directed(LEAST))
    machine, case = with_scratchpad(block_out, TIMING.shared_cycles)
    prove(machine, case.program)
    assert functional.simulate(machine, case.program, case.memory).status is Status.DONE
    run = cycle.simulate_model(machine, case.program, case.memory, values=False, **case.timing)
    assert run.ok and run.accesses is not None
    shared = run.accesses[:, ACCESSES.index("shared")]
    assert {one.unit for one, beats in zip(case.program.instructions(machine), shared)
            if beats} >= {"load"}


@pytest.mark.slow       # builds a simulator
@pytest.mark.parametrize("block_out", [4, 256])
def test_a_cycle_more_of_the_scratchpad_is_a_cycle_more_of_the_program(block_out):
    cycles = []
    for shared_cycles in (TIMING.shared_cycles, TIMING.shared_cycles + 1):
        machine, case = with_scratchpad(block_out, shared_cycles)
        cycles.append(cycle.simulate_model(machine, case.program, case.memory, values=False,
                                           **case.timing).cycles)
    assert cycles[1] == cycles[0] + 1


def loops_of(name):
    """Unit, level and loop of all instructions of a directed program."""
    case, = (case for case in directed(MACHINE) if case.name == name)
    return [(one.unit, level, loop) for one in case.program.instructions(MACHINE)[:-1]
            for level, loop in enumerate(one.fields["loops"])]


def test_every_loop_but_the_first_is_long():
    long = {(unit, level, loop["extent"]) for unit, level, loop in loops_of("long extents")}
    assert long >= {(unit, level, extent) for unit, count in LOOPS.items() if unit in KEYS
                    for level in range(1, count) for extent in EXTENTS}


def test_every_loop_strides_up_and_down():
    strides = {(unit, level, key, value < (1 << 23 if key == "buffer" else 1 << 15) if key != "dram"
                else value > 0)
               for unit, level, loop in loops_of("long strides")
               for key, value in loop.items() if key in KEYS[unit] and value}
    assert strides == {(unit, level, key, up) for unit, count in LOOPS.items() if unit in KEYS
                       for level in range(count) for key in KEYS[unit] for up in (False, True)}


KEYS = {"load": ("dram", "buffer"), "gemm": ("dst", "a", "b"), "vector": ("dst", "b"),
        "store": ("dram", "buffer")}


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


@pytest.mark.parametrize(("bus_bytes", "token_bits"), [
    (1, 8), pytest.param(1, 10, marks=pytest.mark.slow), (2, 8), (128, 8)])
def test_every_counter_is_full_whatever_the_bus(bus_bytes, token_bits):
    """On a bus of one byte a word takes longer to come than short instructions take."""
    machine = Machine(replace(LEAST.config, name="bus", bus_bytes=bus_bytes, out_bytes=256,
                              res_bytes=256, inp_bytes=256, acc_bytes=1024, par_bytes=512,
                              wgt_bytes=1024, timing=CoreTiming(token_bits=token_bits)))
    cases = [case for case in directed(machine) if case.name.startswith("full counter")]
    assert [case.name for case in cases] == [f"full counter, {source} to {target}" for (
        source, target) in zip(UNITS, (*UNITS[1:], UNITS[0]), strict=True)]
    for unit, case in zip(UNITS, cases, strict=True):
        run = cycle.simulate_model(machine, case.program, case.memory, values=False, **case.timing)
        assert run.ok and run.counters.activity[unit]["signal"] > 100, unit


def test_a_long_wait_is_no_longer_for_a_slow_component():
    machine = Machine(replace(preset("tiny-1x4x4"), structure=softmax.structure),
                      (*SHIPPED, softmax.instruction))
    case, = (case for case in directed(machine) if case.name == "long wait for softmax")
    rows = [prod(loop["extent"] for loop in one.fields["loops"])
            for one in case.program.instructions(machine) if one.name == "softmax"]
    assert 0.9 * LONG < max(rows) * softmax.instruction.computes.cycles(1) <= LONG
