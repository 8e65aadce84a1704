"""Statements of a loop for units that work at the same time."""

import pytest

from compiler.ir import Program, lower, program_text
from compiler.schedule import (Schedule, ScheduleError, bind, cache_read, compute_at, peel, reorder,
                               warp_specialize, split)
from tests.compiler.ir.samples import assert_same_meaning, matmul
from tests.compiler.schedule.checks import expect

MATMUL = lower([matmul()], "main")


def refused(reason: str):
    return pytest.raises(ScheduleError, match=f"^warp_specialize: {reason}\n")


def loaded() -> Program:
    """Rows of y, loaded one by one into a buffer that each iteration of k has."""
    program = cache_read(reorder(MATMUL, "k", "c_i", "c_j"), "y", "shared")
    return compute_at(program, "y_shared", "k")


def test_copies_take_turns():
    program = warp_specialize(loaded(), "k", 0, 1, copies=3)
    expect(program, """
        program main(x: int32[4, 8], y: int32[8, 6]) -> c: int32[4, 6]
        alloc shared.y_shared: int32[3, 1, 6]
        for k in 0..8 (units=0 1):
          for y_shared_0 in 0..1:
            for y_shared_1 in 0..6:
              y_shared[k % 3, y_shared_0, y_shared_1] = y[k + y_shared_0, y_shared_1]
          for c_i in 0..4:
            for c_j in 0..6:
              c[c_i, c_j] += x[c_i, k] * y_shared[k % 3, 0, c_j] begin(k)
        """)
    assert_same_meaning(MATMUL, program)


def test_turns_go_on_from_round_to_round():
    """Those of loops inside of blocks, and of no others."""
    program = split(reorder(MATMUL, "c_i", "k", "c_j"), "c_i", 2)
    program = bind(program, "c_i_o", "blockIdx.x")
    program = compute_at(cache_read(program, "y", "shared"), "y_shared", "k")
    program = warp_specialize(program, "k", 0, 1, copies=3)
    assert "c_i_o*" not in (text := program_text(program).split("c[c_i_o")[0])
    assert "y_shared[(c_i_i*8 + k) % 3, y_shared_0, y_shared_1] = y[k + y_shared_0" in text
    assert_same_meaning(MATMUL, program)


def test_it_is_recorded_and_replayed():
    s = Schedule(loaded())
    s["c"].warp_specialize("k", 0, 1, copies=2)
    assert s.text() == "warp_specialize(k, 0, 1, copies=2)"
    assert Schedule.replay(loaded(), s.text()).program == s.program


@pytest.mark.parametrize(("units", "copies", "reason"), [
    ((0,), 2, "units must be 2 numbers, one for each statement of k, 0 and 1 among them, not 0"),
    ((0, 0), 2, "units must be 2 numbers, .*, not 0, 0"),
    ((0, 2), 2, "units must be 2 numbers, .*, not 0, 2"),
    ((0, 1), 1, "copies must be 2 or more, not 1")])
def test_warp_specialize_refuses_other_units_and_copies(units, copies: int, reason: str):
    with refused(reason):
        warp_specialize(loaded(), "k", *units, copies=copies)


def test_warp_specialize_refuses_loops_that_have_no_turns():
    with refused("loop must be one of k, y_shared_0, y_shared_1, c_i, c_j, not 'z'"):
        warp_specialize(loaded(), "z", 0, 1, copies=2)
    with refused("k_o must have two iterations or more, not 1"):
        warp_specialize(split(MATMUL, "k", 8), "k_o", 0, 1, copies=2)


def test_what_lies_outside_belongs_to_one_unit():
    """Two statements that add to one sum."""
    program = peel(reorder(MATMUL, "k", "c_i", "c_j"), "c_i")
    with refused("c, which units 0 and 1 touch, must be allocated in k"):
        warp_specialize(program, "k", 0, 1, copies=2)
