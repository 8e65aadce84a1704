"""The primitive that hides latency on other machines does so on the accelerator too."""

import numpy as np
import pytest

from accel.machine.program import AccelProgram
from accel.mapping.assembling import assemble
from accel.sim.timed.cycle import simulate
from compiler.schedule import Schedule
from examples.schedules.accel_gemm import EXAMPLES, MACHINE

(GEMM,) = EXAMPLES


def product(stages: tuple[int, ...] | None) -> AccelProgram:
    """Steps of depth one by one, each with operands of its own, `stages` of them at a time."""
    s = Schedule(GEMM.program())
    tiles, _ = s["y"].split("r", 2)
    for stage, scope in (("clamped", "out"), ("acc", "acc")):
        s[stage].compute_at(tiles)
        s[stage].set_scope(scope)
    depth, _ = s["acc"].split("k", 1)
    s["acc"].reorder(depth, "r", "c", "k_i", "b", "o", "i")
    for operand, scope in (("x", "inp"), ("w", "wgt")):
        copy = s[operand].cache_read(scope)
        copy.compute_at(depth)
        copy.tensorize(None, MACHINE.intrinsic("load"))
    s["acc"].tensorize("b", MACHINE.intrinsic("gemm"))
    s["clamped"].tensorize("b", MACHINE.intrinsic("clamp"))
    s["y"].tensorize(None, MACHINE.intrinsic("store"))
    if stages:
        s["acc"].pipeline(depth, *stages)
    return assemble(MACHINE, s.program)


def run(program: AccelProgram) -> int:
    """Cycles, once the result is right."""
    inputs = GEMM.inputs()
    found = simulate(MACHINE, program, inputs=inputs)
    assert found.ok, found.describe()
    np.testing.assert_array_equal(program.extract(found.memory, "y"), GEMM.reference(inputs)["y"])
    return found.cycles


@pytest.mark.parametrize("stages", [(0, 0, 1), (0, 0, 2), (0, 1, 2)])
def test_loads_overlap_with_products(stages):
    assert run(product(stages)) < run(product(None))
