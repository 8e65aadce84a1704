"""One declaration is enough: an instruction that is declared here, and nowhere else, is matched,
lowered, proved, simulated and built into the RTL.
"""

import numpy as np
import pytest

from accel.machine.config import load, preset
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from accel.mapping.assembling import assemble
from accel.sim.meaning import functional
from accel.sim.rtl import verilated
from compiler import te
from compiler.ir import interpret
from compiler.schedule import Schedule
from tests.support.machines import GEOMETRIES

absdiff = vector_op("absdiff", lambda a, b: te.abs(a - b))


def extended(name: str) -> Machine:
    return Machine(load(name), (*SHIPPED, absdiff))


def scheduled(machine: Machine, rows: int, columns: int) -> Schedule:
    """``out = |a - b|`` over tiles of lanes, by rows, each row loaded, computed and stored."""
    config = machine.config
    shape = (rows, columns, config.batch, config.block_out)
    a, b = (te.placeholder(shape, "int8", name) for name in "ab")

    def distance(y, x, n, o):
        wide = a[y, x, n, o].astype("int32") - b[y, x, n, o].astype("int32")
        return te.abs(wide).astype("int8")

    d = te.compute(shape, distance, "d")
    out = te.compute(shape, lambda y, x, n, o: d[y, x, n, o], "out")
    s = Schedule([out])
    _, row = s[out].split("y", 2)
    s[out].virtual_thread(row)
    s[d].compute_at(row)
    s[d].set_scope("out")
    for source in (a, b):
        copy = s[source].cache_read("res")
        copy.compute_at(row)
        copy.tensorize(None, machine.intrinsic("load"))
    s[d].tensorize("n", machine.intrinsic("absdiff"))
    s[out].tensorize(None, machine.intrinsic("store"))
    return s


def inputs(machine: Machine, rows: int, columns: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    shape = (rows, columns, machine.config.batch, machine.config.block_out)
    return {name: rng.integers(-128, 128, shape).astype(np.int8) for name in "ab"}


def wanted(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Distances up to 255 in int8: out keeps the low eight bits."""
    return np.abs(arrays["a"].astype(int) - arrays["b"]).astype(np.int8)


@pytest.mark.parametrize("name", ["tiny-1x4x4", GEOMETRIES / "2x8x8.toml"])
def test_a_new_instruction_is_matched_lowered_proved_and_simulated(name) -> None:
    machine = extended(name)
    loops = scheduled(machine, 5, 3).program
    arrays = inputs(machine, 5, 3)
    np.testing.assert_array_equal(interpret(loops, arrays)["out"], wanted(arrays))
    program = assemble(machine, loops)
    assert [i.name for i in program.instructions(machine)].count("absdiff") == 5
    run = functional.simulate(machine, program, inputs=arrays)
    assert run.ok, run.describe()
    np.testing.assert_array_equal(program.extract(run.memory, "out"), wanted(arrays))


@pytest.mark.slow
def test_a_new_instruction_runs_in_rtl() -> None:
    machine = extended("tiny-1x4x4")
    arrays = inputs(machine, 5, 3)
    program = assemble(machine, scheduled(machine, 5, 3).program)
    run = verilated.simulate(machine, program, inputs=arrays)
    assert run.ok, run.describe()
    np.testing.assert_array_equal(program.extract(run.memory, "out"), wanted(arrays))
    assert run.cycles > 0


def test_a_machine_without_it_has_another_hash_and_no_such_instruction() -> None:
    plain = Machine(preset("tiny-1x4x4"))
    assert plain.hash != extended("tiny-1x4x4").hash
    assert "absdiff" not in plain.opcodes
