"""The vector unit against its meaning, and the contract of its docstring."""

import random

import pytest

from accel.datapath.plan import plan
from accel.hw.vector import Vector
from accel.machine import isa
from accel.machine.program import Instruction
from accel.machine.timing import TIMING
from tests.accel.machine.test_immediates import MACHINE as OWN
from tests.support.effort import Effort, tries
from tests.support.unit_bench import (MACHINES, SHORT_SUMS, Bench, assert_means_program,
                                      random_buffers, random_vector)

TINY, _, SPLIT, _ = MACHINES
BEATS = SPLIT.config.vector_beats
WRITE = plan(TINY, "vector").write_cycles
WAY = TIMING.issue_cycles - 2
"""Cycles from the start of an instruction to the cycle before its first issue."""
EVERY = [body.name for body in TINY.of_unit("vector")]


def operation(name, iterations=1, *, a="res", b="imm", to="acc", base=(0, 0, 0),
              strides=(0, 0, 0), **fields):
    """One loop; `base` and `strides` are of dst, a and b."""
    names = ("dst", "a", "b")
    loops = [{"extent": 1, "dst": 0, "a": 0, "b": 0}] * 4
    loops = [*loops, {"extent": iterations, **dict(zip(names, strides))}]
    return Instruction(name, "vector", {
        "waits": 0, "signals": 0, "banks": 3, "reset": 0, "base": dict(zip(names, base)),
        "loops": loops, "a_source": isa.SOURCES_A.index(a), "b_source": isa.SOURCES_B.index(b),
        "destination": isa.DESTINATIONS.index(to), **fields})


def run(instructions, machine=TINY, **stage):
    return Bench(Vector, machine, random_buffers(machine.config, 0), instructions,
                 **stage).run()


def issued(out, machine=TINY):
    """Cycles of issue; the first instruction's, at the earliest, is 1."""
    write = plan(machine, "vector").write_cycles
    return [cycle - write - out.started[0] - WAY for cycle, *_ in out.writes]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("refuse", [pytest.param(0.0, marks=pytest.mark.slow), 0.5])
@pytest.mark.parametrize("machine", [
    pytest.param(machine, marks=pytest.mark.slow if machine is MACHINES[1] else ())
    for machine in MACHINES], ids=lambda machine: machine.config.name)
def test_matches_meaning(machine, refuse):
    rng = random.Random(int(refuse * 10))
    instructions = [random_vector(machine, rng) for _ in range(3 if Effort.quick else 45)]
    assert_means_program(Vector, machine, instructions, refuse=refuse, seed=1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", EVERY)
def test_operation_matches_meaning(name):
    rng = random.Random(EVERY.index(name))
    instructions = [random_vector(TINY, rng, name) for _ in range(tries(18))]
    assert_means_program(Vector, TINY, instructions, refuse=0.1, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [OWN, SHORT_SUMS], ids=["own immediates", "sums of 16 bits"])
def test_other_words_and_lanes_match_meaning(machine):
    rng = random.Random(5)
    own = [name for name in ("scaled", "mixed", "wider") if name in machine.forms] or [None]
    instructions = [random_vector(machine, rng, rng.choice(own)) for _ in range(tries(30))]
    assert_means_program(Vector, machine, instructions, refuse=0.1, seed=1)


def test_latency():
    out = run([operation("add", 5, strides=(1, 1, 0))])
    assert issued(out) == [1, 2, 3, 4, 5]
    assert out.retired[0] - out.started[0] == WAY + 5 + WRITE + 2


def test_throughput():
    """One iteration a cycle, to one destination, to acc or out, between instructions as well; an
    instruction takes three cycles at least."""
    out = run([operation("add", 4), operation("copy", 1, to="out"), operation("reduce_add", 3),
               operation("requantize", 6, b="par", to="out"), operation("shr", 1)])
    assert [out.started[k] for k in range(5)] == [2, 6, 9, 12, 18]
    assert issued(out) == [*range(1, 6), *range(8, 18)]
    end = 2 + WAY + 17 + 1
    assert out.activity[:end] == ["busy"] * end and set(out.activity[end:]) == {"command"}


def test_parts_follow_each_other():
    """Iterations of several beats, busy in each; of two sources in one buffer each part reads
    both. The write tells how late a machine of other latency is."""
    out = run([operation("add", 2, strides=(1, 1, 0)), operation("copy", 1, to="out")], SPLIT)
    assert issued(out, SPLIT) == [*range(1, 3 * BEATS + 1)]
    assert [address for *_, address in out.writes] == [*range(2 * BEATS), *range(BEATS)]
    assert out.activity.count("hazard") == 0
    assert out.retired[1] - out.retired[0] == BEATS
    out = run([operation("add", 2, a="acc", b="acc", to="out", strides=(1, 1, 2))], SPLIT)
    assert issued(out, SPLIT) == [*range(2, 4 * BEATS + 1, 2)]
    assert out.activity.count("hazard") == 2 * BEATS


def test_pending_source_waits_for_all_its_parts():
    write = plan(SPLIT, "vector").write_cycles
    out = run([operation("add", 2, a="acc", b="imm", base=(1, 0, 0), strides=(1, 1, 0))], SPLIT)
    assert issued(out, SPLIT) == [*range(1, BEATS + 1),
                                  *range(BEATS + write + 1, 2 * BEATS + write + 1)]
    assert out.activity.count("hazard") == write
    # in its place: a part is not in the way of the others
    out = run([operation("clamp", 1, a="acc", base=(5, 5, 0))], SPLIT)
    assert issued(out, SPLIT) == [*range(1, BEATS + 1)]


@pytest.mark.parametrize("buffer", ["acc", "res"])
def test_two_sources_in_one_buffer_take_two_cycles(buffer):
    out = run([operation("add", 4, a=buffer, b=buffer, to="out", strides=(1, 1, 2))])
    assert issued(out) == [2, 4, 6, 8]
    assert out.activity.count("busy") == 2 + WAY + 1 + 4 and out.activity.count("hazard") == 4
    assert issued(run([operation("add", 4, a="acc", b="res", to="out")])) == [1, 2, 3, 4]
    # copy does not use a
    assert issued(run([operation("copy", 4, a=buffer, b=buffer, to="out")])) == [1, 2, 3, 4]


def test_pending_source_waits_for_its_write():
    """Each iteration reads what the one before it wrote: in the cycle after the write."""
    out = run([operation("add", 3, a="acc", b="imm", base=(1, 0, 0), strides=(1, 1, 0))])
    assert issued(out) == [1, 1 + WRITE + 1, 1 + 2 * (WRITE + 1)]
    assert out.activity.count("hazard") == 2 * WRITE
    # three iterations later
    out = run([operation("add", 6, a="acc", base=(3, 0, 0), strides=(1, 1, 0))])
    assert issued(out) == [1, 2, 3, WRITE + 2, WRITE + 3, WRITE + 4]


def test_pending_source_of_an_earlier_instruction():
    out = run([operation("copy", 1, base=(9, 0, 0)),
               operation("add", 1, a="acc", b="acc", to="out", base=(0, 8, 9))])
    assert issued(out) == [1, 1 + WRITE + 2]        # both sources wait, then take two cycles
    out = run([operation("copy", 1, to="out", base=(9, 0, 0)),
               operation("clamp", 1, a="acc", to="out", base=(0, 9, 0))])
    assert issued(out) == [1, 4]                    # 9 in out is not 9 in acc


def test_accumulation_takes_the_read_port_of_acc():
    fold = plan(TINY, "vector").fold_cycles
    out = run([operation("reduce_max", 1), operation("reduce_max", 1, reset=1),
               operation("clamp", fold + 4, a="acc", to="out", base=(0, 40, 0))])
    # the first reads acc in 1 + fold; the second assigns and does not
    expected = [1, 4, *(cycle for cycle in range(7, fold + 12) if cycle != fold + 1)]
    assert issued(out) == expected


def test_tokens_and_signals_are_waited_for():
    out = run([operation("add", 2, waits=2, signals=4), operation("add", 1)],
              tokens=lambda cycle: 2 * (cycle >= 3), signalled=lambda cycle: cycle >= 40)
    assert out.started == {0: 5, 1: 8} and out.retired == {0: 41, 1: 44}
    assert out.activity[:4] == ["gemm"] * 3 + ["busy"]
    assert out.blocked[:4] == [0, 0, 0, None] and out.blocked[39:] == [0, 0, *[None] * 4]


ILLEGAL = [
    operation("add_scaled", 4, a="acc", b="acc"), operation("add_scaled", 4, b="imm"),
    operation("reduce_add", 4, a="acc"), operation("reduce_min", 4, a="res", to="out"),
]


@pytest.mark.parametrize("wrong", ILLEGAL, ids=lambda one: one.name)
def test_illegal_selectors(wrong):
    """Reported once; the instruction does nothing and goes its way."""
    wrong.fields["base"]["dst"] = 1 << 15           # would be an address error
    out = run([operation("copy", 1), wrong, operation("copy", 1)])
    assert out.errors == [(1, "ILLEGAL")]
    assert len(out.writes) == 2 and list(out.retired) == [0, 1, 2]
    assert out.started[2] == out.started[1] + 3


def test_selectors_of_operands_that_are_not_used():
    """requantize takes bias, mult and shift from par whatever `b_source` says; copy has no a."""
    out = run([operation("requantize", 1, b="acc", to="out"), operation("copy", 1, a="acc"),
               operation("clamp", 1, a="res", b="par", base=(0, 0, 1 << 15))])
    assert out.errors == [] and len(out.writes) == 3


@pytest.mark.parametrize("wrong", [
    operation("add", 3, base=(64, 0, 0)), operation("add", 3, base=(16, 0, 0), to="out"),
    operation("add", 3, base=(0, 16, 0)), operation("add", 3, b="res", base=(0, 0, 16)),
    operation("add", 3, b="par", base=(0, 0, 8)), operation("requantize", 3, base=(0, 0, 8)),
    operation("add", 3, a="acc", base=(40, 0, 0), banks=2),
    operation("add", 3, b="acc", base=(0, 0, 40), banks=1),
    operation("add", 3, base=(40, 0, 0), banks=1),
    operation("add", 3, base=(0, 14, 0), strides=(0, 1, 0)),
])
def test_address_errors(wrong):
    out = run([operation("copy", 1), wrong, operation("copy", 1)])
    assert set(out.errors) == {(1, "ADDRESS")} and list(out.retired) == [0, 1, 2]
