"""Reductions over the lanes of a row: declared, matched, lowered, proved and simulated."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from accel.mapping.assembling import assemble
from accel.sim.meaning import functional
from accel.sim.rtl import verilated
from accel.sim.timed import cycle
from compiler import te
from compiler.ir import interpret
from compiler.schedule import Schedule, ScheduleError

TINY = preset("tiny-1x4x4")
CONFIGS = {"tiny": TINY, "row by row": replace(TINY, name="rows-2x4x8", batch=2, block_out=8,
                                               vector_beats=2, par_bytes=512)}
OWN = (vector_op("row_sum", lambda a: a, lanes="sum"),
       vector_op("row_max", lambda a: a, lanes="max", update="max"))


def scheduled(machine: Machine, rows: int, blocks: int, most_by: str = "row_max") -> Schedule:
    """``out = sum over the lanes of (x of the last block) - max over all channels``, as int8."""
    tile = (machine.config.batch, machine.config.block_out)
    k, i, j = (te.reduce_axis(extent, name)
               for extent, name in ((blocks, "k"), (tile[1], "i"), (tile[1], "j")))
    x = te.placeholder((rows, blocks, *tile), "int8", "x")
    most = te.compute((rows, *tile), lambda y, n, o: te.max(x[y, k.var, n, i.var].astype("int32"),
                                                            (k, i)), "most")
    total = te.compute((rows, *tile), lambda y, n, o: te.sum(
        x[y, blocks - 1, n, j.var].astype("int32"), j), "total")
    d = te.compute((rows, *tile), lambda y, n, o: (total[y, n, o] - most[y, n, o]).astype("int8"),
                   "d")
    out = te.compute((rows, *tile), lambda y, n, o: d[y, n, o], "out")
    s = Schedule([out])
    for tensor, scope in ((d, "out"), (most, "acc"), (total, "acc")):
        s[tensor].compute_at("out_y")
        s[tensor].set_scope(scope)
    s[most].reorder("k", "n", "o", "i")
    copy = s[x].cache_read("res")
    copy.compute_at("out_y")
    copy.tensorize(None, machine.intrinsic("load"))
    s[most].tensorize("n", machine.intrinsic(most_by))
    s[total].tensorize("n", machine.intrinsic("row_sum"))
    s[d].tensorize("n", machine.intrinsic("sub"))
    s[out].tensorize(None, machine.intrinsic("store"))
    return s


def assert_program_is_right(config, simulate) -> None:
    machine = Machine(config, (*SHIPPED, *OWN))
    loops = scheduled(machine, 3, 5).program
    shape = (3, 5, config.batch, config.block_out)
    x = np.random.default_rng(3).integers(-128, 128, shape, np.int8)
    wanted = x[:, -1].sum(-1, dtype=int, keepdims=True) - x.max((1, 3)).astype(int)[..., None]
    wanted = np.broadcast_to(wanted.astype(np.int8), (3, config.batch, config.block_out))
    np.testing.assert_array_equal(interpret(loops, {"x": x})["out"], wanted)
    program = assemble(machine, loops)
    names = [one.name for one in program.instructions(machine)]
    assert (names.count("row_max"), names.count("row_sum")) == (3, 3)       # blocks are its loop
    run = simulate(machine, program, inputs={"x": x})
    assert run.ok, run.describe()
    np.testing.assert_array_equal(program.extract(run.memory, "out"), wanted)


@pytest.mark.parametrize("simulate", [functional.simulate, cycle.simulate])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_reduction_is_matched_lowered_proved_and_simulated(config, simulate) -> None:
    assert_program_is_right(config, simulate)


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_reduction_runs_in_rtl(config) -> None:
    assert_program_is_right(config, verilated.simulate)


def test_a_reduction_that_goes_on_over_blocks_needs_an_update() -> None:
    machine = Machine(TINY, (*SHIPPED, *OWN, vector_op("most", lambda a: a, lanes="max")))
    with pytest.raises(ScheduleError, match=r"^tensorize: most does not match: the reduction must "
                                            r"be complete within the tile, not go on over k\n"):
        scheduled(machine, 1, 2, "most")
