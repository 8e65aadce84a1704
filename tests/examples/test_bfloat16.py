"""The network in bfloat16: the same bits from every simulator, and from NumPy in the same order."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine.machine import Machine
from accel.sim import cycle, functional, verilated
from examples import bfloat16
from examples.machines.bfloat16 import INSTRUCTIONS, machine

OTHER = Machine(replace(machine.config, name="bfloat16-2x4x4", batch=2, stage_depth=4,
                        vector_beats=2), INSTRUCTIONS)


def outputs(made, given, *simulators):
    runs = [simulate(made, program := bfloat16.program(made), inputs=given)
            for simulate in simulators]
    assert all(run.ok for run in runs)
    return [program.extract(run.memory, "y2").view(np.uint16) for run in runs], runs


@pytest.mark.parametrize("made", [machine, OTHER], ids=lambda made: made.config.name)
def test_simulators_compute_the_reference(made):
    given = bfloat16.arrays(made)
    (first, second), _ = outputs(made, given, functional.simulate, cycle.simulate)
    wanted = bfloat16.reference(given)
    assert (first == wanted.view(np.uint16)).all() and (second == first).all()
    assert len(np.unique(wanted)) > 30


def test_order_of_sums_shows():
    """Summed lane by lane, some outputs are others: so the reference says something."""
    given = bfloat16.arrays()
    x, w = (given[name].astype(np.float32) for name in ("x", "w1"))
    tree, row = (np.zeros((len(x), len(w), *x.shape[2:3], w.shape[2]), np.float32)
                 for _ in range(2))
    terms = x[:, None, :, :, None] * w[None, :, :, None]
    for k in range(terms.shape[2]):
        pairs = terms[:, :, k, ..., 0::2] + terms[:, :, k, ..., 1::2]
        tree = tree + (pairs[..., 0] + pairs[..., 1])
        for i in range(terms.shape[-1]):
            row = row + terms[:, :, k, ..., i]
    assert (tree != row).mean() > 0.05


@pytest.mark.slow
def test_rtl_computes_the_reference():
    given = bfloat16.arrays()
    (second, third), runs = outputs(machine, given, cycle.simulate, verilated.simulate)
    assert (third == bfloat16.reference(given).view(np.uint16)).all() and (second == third).all()
    assert runs[0].cycles == runs[1].cycles
