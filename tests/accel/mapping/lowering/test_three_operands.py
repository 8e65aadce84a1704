"""Bodies of three addressed operands: which fields they take, and where loops move the third."""

import numpy as np

from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from accel.mapping.assembling import assemble
from accel.sim.meaning import functional
from accel.sim.timed import cycle
from compiler import te
from compiler.ir import interpret
from compiler.ops.integers.arithmetic import PARAM
from compiler.schedule import Schedule
from compiler.te import INDEX

MACHINE = Machine(preset("tiny-1x4x4"), (
    *SHIPPED, vector_op("difference", lambda a, b, table: table[(a - b) & 255]),
    vector_op("affine", lambda a, b, bias: a - b + bias)))
SHAPE = (3, 2, 1, 4)        # rows, blocks of channels, an entry


def computed(op: str, value, **others: te.Tensor):
    """The instructions of `op` in a program that computes ``value(x, y, *others)`` and is right on
    two simulators; others are loaded to the buffer that their name says."""
    x, y = (te.placeholder(SHAPE, "int8", name) for name in "xy")
    d = te.compute(SHAPE, lambda r, c, n, o: value(
        x[r, c, n, o].astype("int32"), y[r, c, n, o].astype("int32"), (c, o)).astype("int8"), "d")
    out = te.compute(SHAPE, lambda r, c, n, o: d[r, c, n, o], "out")
    s = Schedule([out])
    s[d].set_scope("out")
    for tensor, scope in ((x, "res"), (y, "res"), *((other, scope)
                                                     for scope, other in others.items())):
        copy = s[tensor].cache_read(scope)
        copy.tensorize(None, MACHINE.forms["load"][2 if scope == "par" else 0])
    s[d].tensorize("n", MACHINE.intrinsic(op))
    s[out].tensorize(None, MACHINE.intrinsic("store"))
    rng = np.random.default_rng(5)
    given = {source.name: rng.integers(-128, 128, source.shape, np.int8)
             for source in s.program.inputs if source.dtype == "int8"}
    for other in others.values():
        if other.dtype == PARAM:
            given[other.name] = np.zeros(other.shape, te.numpy_dtype(PARAM))
            given[other.name]["bias"] = rng.integers(-99, 99, other.shape)
    program = assemble(MACHINE, s.program)
    for simulate in (functional.simulate, cycle.simulate):
        run = simulate(MACHINE, program, inputs=given)
        assert run.ok, run.describe()
        np.testing.assert_array_equal(program.extract(run.memory, "out"),
                                      interpret(s.program, given)["out"])
    return [one for one in program.instructions(MACHINE) if one.name == op]


def test_a_table_beside_b_stands_still_while_loops_move_the_others() -> None:
    tables = te.placeholder((3, 256), "int8", "tables")
    one, = computed("difference", lambda x, y, at: tables[
        1, ((x - y) & 255).astype(INDEX)].astype("int32"), tab=tables)
    assert one.fields["c"] == 1 and "c" not in one.fields["base"]
    assert [(loop["extent"], loop["a"], loop["b"]) for loop in one.fields["loops"]
            if loop["extent"] > 1] == [(6, 1, 1)]


def test_parameters_beside_b_take_an_instruction_for_each_block_of_channels() -> None:
    params = te.placeholder((2, 4), PARAM, "params")
    stream = computed("affine", lambda x, y, at: x - y + params[at].bias, par=params)
    assert sorted(one.fields["c"] for one in stream) == [0] * 3 + [1] * 3


def test_the_word_has_the_field_only_where_a_body_has_three_operands() -> None:
    plain = Machine(preset("tiny-1x4x4"))
    assert "c" not in dict(plain.formats["vector"]) and "c" in dict(MACHINE.formats["vector"])
    first, second = (dict(machine.formats["vector"]) for machine in (plain, MACHINE))
    assert all(first[key].offset == second[key].offset for key in first if key != "reserved")
    assert [line for line in MACHINE.record.difference(plain.record).split(", ")
            if "layout" in line] == ["words of vector have another layout"]


