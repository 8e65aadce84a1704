"""The network in bfloat16: the same bits from every simulator, and from NumPy in the same order."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine.machine import Machine
from accel.mapping.assembling import assemble
from accel.sim.meaning import functional
from accel.sim.rtl import verilated
from accel.sim.timed import cycle
from compiler import te
from compiler.schedule import Schedule
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


def test_neighbours_are_summed_first():
    """2**30 + 1 is 2**30 in float32: in another order a block product would be 2, not 0."""
    given = bfloat16.arrays()
    given["x"][...] = np.array([2.0 ** 30, 1, -2.0 ** 30, 1])
    given["w1"][...] = 1
    (first, second), _ = outputs(machine, given, functional.simulate, cycle.simulate)
    nothing = bfloat16.reference(given | {"x": np.zeros_like(given["x"])})
    assert (first == nothing.view(np.uint16)).all() and (second == first).all()


def test_padding_has_the_bits_of_its_number():
    """So -0 is not 0."""
    rows = 3
    tile = (machine.config.batch, machine.config.block_out)
    x = te.placeholder((rows, *tile), "bfloat16", "x")
    p = te.compute((rows + 2, *tile), lambda r, b, o: te.select(
        te.all_of(r >= 1, r < rows + 1), x[r - 1, b, o], te.const(-0.0, "bfloat16")), "p")
    wide = te.compute(p.shape, lambda r, b, o: p[r, b, o].astype("float32").astype("bfloat16"),
                      "wide")
    y = te.compute(p.shape, lambda r, b, o: wide[r, b, o], "y")
    s = Schedule([y])
    s["p"].set_scope("res")
    s["wide"].set_scope("out")
    s["p"].tensorize(None, machine.forms["load"][1])
    s["wide"].tensorize("b", machine.intrinsic("round"))
    s["y"].tensorize(None, machine.intrinsic("store"))
    program = assemble(machine, s.program)
    given = {"x": np.arange(rows * 4).reshape(x.shape).astype(bfloat16.BFLOAT16)}
    raw = program.extract(functional.simulate(machine, program, inputs=given).memory, "y")
    ends = raw.view(np.uint16)[[0, -1]]
    assert (ends == 0x8000).all() and (raw[1:-1] == given["x"]).all()


@pytest.mark.slow
def test_rtl_computes_the_reference():
    given = bfloat16.arrays()
    (second, third), runs = outputs(machine, given, cycle.simulate, verilated.simulate)
    assert (third == bfloat16.reference(given).view(np.uint16)).all() and (second == third).all()
    assert runs[0].cycles == runs[1].cycles
