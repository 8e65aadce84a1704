"""gemm against its meaning, and the contract of its docstring."""

import random

import pytest

from accel.datapath.plan import plan
from accel.hw.compute.gemm import Gemm
from accel.machine.program import Instruction
from accel.machine.timing import TIMING
from tests.accel.machine.test_immediates import MACHINE as OWN
from tests.support.effort import tries
from tests.support.unit_bench import (FLOATS, MACHINES, SHORT_SUMS, Bench, assert_means_program,
                                      random_buffers, random_gemm)

TINY = MACHINES[0]
DELAY = TIMING.nest_cycles + plan(TINY, "gemm").write_cycles
"""Cycles from an iteration in the loops to its write."""


def multiply(iterations=1, dst=0, dst_stride=0, **fields):
    """`iterations` block products in one loop."""
    loops = [{"extent": 1, "dst": 0, "a": 0, "b": 0}] * 5
    loops = [*loops, {"extent": iterations, "dst": dst_stride, "a": 0, "b": 0}]
    return Instruction("gemm", "gemm", {
        "waits": 0, "signals": 0, "banks": 3, "reset": 0, "base": {"dst": dst, "a": 0, "b": 0},
        "loops": loops, **fields})


def run(instructions, machine=TINY, **stage):
    return Bench(Gemm, machine, random_buffers(machine.config, 0), instructions,
                 **stage).run()


@pytest.mark.parametrize("refuse", [pytest.param(0.0, marks=pytest.mark.slow), 0.6])
@pytest.mark.parametrize("machine", [
    pytest.param(machine, marks=() if place % 2 == 0 else pytest.mark.slow)
    for place, machine in enumerate(MACHINES)], ids=lambda machine: machine.config.name)
def test_matches_meaning(machine, refuse):
    rng = random.Random(int(refuse * 10))
    instructions = [random_gemm(machine, rng) for _ in range(tries(60))]
    assert_means_program(Gemm, machine, instructions, refuse=refuse, seed=1)


def test_sums_of_16_bits_match_meaning():
    rng = random.Random(3)
    instructions = [random_gemm(SHORT_SUMS, rng) for _ in range(20)]
    assert_means_program(Gemm, SHORT_SUMS, instructions, refuse=0.1, seed=1)


def test_immediates_of_ones_own_match_meaning():
    """Each product has its own number, whatever follows it."""
    rng = random.Random(4)
    instructions = [random_gemm(OWN, rng, rng.choice(("gemm", "centred", "centred")))
                    for _ in range(30)]
    assert_means_program(Gemm, OWN, instructions, refuse=0.1, seed=1)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.config.name)
def test_latency(machine):
    out = run([multiply(5)], machine)
    made = plan(machine, "gemm")
    assert [cycle - out.started[0] for cycle, *_ in out.writes] == [
        TIMING.nest_cycles + made.write_cycles + k for k in range(5)]
    assert out.retired[0] - out.started[0] == 4 + TIMING.nest_cycles + made.write_cycles + 2


def test_throughput():
    """One iteration a cycle, to one destination, and from one instruction to the next; an
    instruction takes three cycles at least."""
    out = run([multiply(10), multiply(1), multiply(1), multiply(7, dst_stride=1), multiply(3)])
    assert list(out.started.values()) == [2, 12, 15, 18, 25]
    made = [*range(2, 13), 15, *range(18, 28)]
    assert [cycle for cycle, *_ in out.writes] == [cycle + DELAY for cycle in made]
    assert [out.retired[k] for k in range(5)] == [k + DELAY for k in (13, 16, 19, 26, 29)]
    assert out.activity[:28] == ["busy"] * 28 and set(out.activity[28:]) == {"command"}


def test_tokens_are_waited_for():
    out = run([multiply(2, waits=0b0101)], tokens=lambda cycle: 0b0100 if cycle < 5 else 0b0101)
    assert out.started == {0: 7}
    assert out.activity[:6] == ["load"] * 5 + ["busy"]
    assert out.blocked[:6] == [0] * 5 + [None]
    out = run([multiply(2, waits=0b1010)], tokens=lambda cycle: 0 if cycle < 2 else
              0b0010 if cycle < 4 else 0b1010)
    assert out.activity[:5] == ["gemm"] * 2 + ["store"] * 2 + ["busy"]


def test_banks_are_waited_for():
    out = run([multiply(2)], granted=lambda cycle: cycle >= 3)
    assert out.started == {0: 4}
    assert out.activity[:4] == ["busy", "bank", "bank", "busy"]
    assert all(at is None for at in out.blocked)


def test_signals_are_waited_for():
    """Instructions behind a refused signal still run; it alone at last blocks the unit."""
    out = run([multiply(2, signals=8), multiply(1), multiply(1)],
              signalled=lambda cycle: cycle >= 30)
    assert out.retired == {0: 31, 1: 34, 2: 37} and out.signals == [8, 0, 0]
    assert [cycle - DELAY for cycle, *_ in out.writes] == [2, 3, 5, 8]
    assert [cycle for cycle, at in enumerate(out.blocked) if at == 0] == list(
        range(8 + DELAY + 1, 31))
    assert out.activity[3 + DELAY + 2:31] == ["signal"] * (26 - DELAY)


def test_room_is_waited_for():
    depth = plan(TINY, "gemm").retire_depth
    out = run([multiply(1, signals=1) for _ in range(depth + 2)],
              signalled=lambda cycle: cycle >= 120)
    assert out.started[depth - 1] == 3 * depth - 1 and out.started[depth] == 124
    assert out.activity[3 * depth + 1:121] == ["signal"] * (120 - 3 * depth)
    assert out.blocked[119] == 0


def test_halt_starts_nothing_new():
    out = run([multiply(4), multiply(4)], halt=lambda cycle: cycle >= 2, cycles=40)
    assert list(out.started) == [0] and list(out.retired) == [0]
    assert out.activity[10:] == ["command"] * 30


@pytest.mark.parametrize("fields", [
    {"base": {"dst": 0, "a": 1 << 15, "b": 0}}, {"base": {"dst": 0, "a": 0, "b": 1 << 4}},
    {"base": {"dst": 64, "a": 0, "b": 0}}, {"banks": 2}, {"banks": 0},
    {"base": {"dst": 32, "a": 0, "b": 0}, "banks": 1},
])
def test_address_errors(fields):
    out = run([multiply(3), multiply(3, **fields), multiply(1)])
    assert set(out.errors) == {(1, "ADDRESS")}
    assert list(out.retired) == [0, 1, 2]


def test_address_error_of_a_later_iteration():
    out = run([multiply(3, dst=62, dst_stride=1), multiply(2, dst=31, dst_stride=1, banks=1)])
    assert out.errors == [(0, "ADDRESS"), (1, "ADDRESS")]


# ---- sums of floats ------------------------------------------------------------------------------

WAIT = plan(FLOATS, "gemm").hazard_cycles + 1
"""Cycles between iterations into one destination."""


@pytest.mark.slow
@pytest.mark.parametrize("refuse", [0.0, 0.6])
def test_floats_match_meaning(refuse):
    rng = random.Random(int(refuse * 10))
    instructions = [random_gemm(FLOATS, rng) for _ in range(tries(60))]
    assert_means_program(Gemm, FLOATS, instructions, refuse=refuse, seed=1)


def test_floats_wait_for_their_destination():
    """Iterations into other destinations follow in one cycle, those that assign wait for none."""
    made = plan(FLOATS, "gemm")
    out = run([multiply(2, dst_stride=1), multiply(3), multiply(3, dst=8, dst_stride=1, reset=1),
               multiply(2, dst=8, reset=1)], FLOATS)
    assert made.hazard_cycles == made.meeting.latency + 2
    first = out.writes[0][0]
    assert first == out.started[0] - 1 + TIMING.waiting_cycles + made.write_cycles
    times = [cycle - first for cycle, *_ in out.writes]
    # dst 0 and 1; dst 0 thrice; 8, 9, 10; 8 again, assigned, and added to.
    assert times == [0, 1, WAIT, 2 * WAIT, 3 * WAIT, 3 * WAIT + 1, 3 * WAIT + 2, 3 * WAIT + 3,
                     3 * WAIT + 4, 4 * WAIT + 4]
    # One of the cycles between is busy: an instruction is armed in it.
    assert out.activity.count("hazard") == times[-1] + 1 - len(times) - 1
    assert [out.retired[k] - first for k in range(4)] == [
        times[k] + 2 for k in (1, 4, 7, 9)]
