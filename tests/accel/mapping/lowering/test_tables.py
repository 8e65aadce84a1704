"""Schedules of table lookups, written by hand: a table is loaded into tab by the shipped load, and
looked up by the shipped `lookup` or an instruction of one's own, in every simulator.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from accel.machine.config import load, preset
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from accel.machine.program import Instruction
from accel.mapping.assembling import assemble
from accel.mapping.lowering import LoweringError
from accel.sim.meaning import functional
from accel.sim.rtl import verilated
from accel.sim.timed import cycle
from compiler import te
from compiler.ir import Program, interpret
from compiler.schedule import Schedule, ScheduleError
from compiler.te import Expr
from tests.support.machines import GEOMETRIES, TINY

ROWS, COLUMNS, TABLES = 5, 3, 3

steep = vector_op("steep", lambda a, s, table: te.rshift_rne(
    table[(a >> 2) & 63] * (a & 3) + table[a.astype("uint8")], (s & 31).astype("int32")))
"""A body that looks up twice, with arithmetic around."""

BY_MASK = (lambda x: (x.astype("int32") & 255).astype("int64"),
           lambda x: x.astype("int64") & 255,
           lambda x: x.astype("uint8").astype("int64"))
"""Spellings of the place of x in a table."""

Lookup = Callable[[te.Tensor, Expr, Expr], Expr]
"""The value of one element, of the tables, the row's number and the element of x."""


def looked_up(table: te.Tensor, row: Expr, x: Expr) -> Expr:
    return table[BY_MASK[0](x)]


def of_its_row(tables: te.Tensor, row: Expr, x: Expr) -> Expr:
    return tables[row % TABLES, BY_MASK[0](x)]


def steeply(table: te.Tensor, row: Expr, x: Expr) -> Expr:
    wide = x.astype("int32")
    high, low = ((wide >> 2) & 63).astype("int64"), BY_MASK[2](x)
    return te.rshift_rne(table[high].astype("int32") * (wide & 3) + table[low].astype("int32"),
                         3).astype("int8")


def scheduled(machine: Machine, value: Lookup, op: str = "lookup", tables: tuple[int, ...] = (),
              entry: int = 256, threads: bool = False) -> Program:
    """``out = value(table, row, x)``: x is loaded into res, the tables into tab."""
    shape = (ROWS, COLUMNS, machine.config.batch, machine.config.block_out)
    x = te.placeholder(shape, "int8", "x")
    table = te.placeholder((*tables, entry), "int8", "table")
    d = te.compute(shape, lambda r, c, n, o: value(table, r, x[r, c, n, o]), "d")
    out = te.compute(shape, lambda r, c, n, o: d[r, c, n, o], "out")
    s = Schedule([out])
    s[d].set_scope("out")
    copies = [s[source].cache_read(scope) for source, scope in ((x, "res"), (table, "tab"))]
    if threads:
        s[out].virtual_thread("r")
        for stage in (s[d], *copies):
            stage.compute_at("out_r")
    for copy in copies:
        copy.tensorize(None, machine.intrinsic("load"))
    s[d].tensorize("n", machine.intrinsic(op))
    s[out].tensorize(None, machine.intrinsic("store"))
    return s.program


def arrays(loops: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {b.name: rng.integers(-128, 128, b.shape).astype(np.int8) for b in loops.inputs}


def assert_right(machine: Machine, loops: Program, wanted: np.ndarray,
                 simulators=(functional, cycle)) -> list[Instruction]:
    given = arrays(loops)
    np.testing.assert_array_equal(interpret(loops, given)["out"], wanted)
    program = assemble(machine, loops)
    for simulator in simulators:
        run = simulator.simulate(machine, program, inputs=given)
        assert run.ok, run.describe()
        np.testing.assert_array_equal(program.extract(run.memory, "out"), wanted)
    return program.instructions(machine)[:-1]


def by_numpy(loops: Program) -> np.ndarray:
    given = arrays(loops)
    return given["table"][given["x"].astype(int) % 256]


MACHINES = [Machine(config, (*SHIPPED, steep)) for config in (
    preset("tiny-1x4x4"), preset("ecp5-1x2x2"), load(GEOMETRIES / "2x8x8.toml"))]
every_machine = pytest.mark.parametrize("machine", MACHINES, ids=lambda one: one.config.name)


@every_machine
def test_a_table_is_loaded_and_looked_up(machine: Machine) -> None:
    loops = scheduled(machine, looked_up)
    *loads, lookup, store = assert_right(machine, loops, by_numpy(loops))
    assert {(one.name, one.fields["buffer"]) for one in loads} == {("load", 2), ("load", 6)}
    assert (lookup.name, store.name) == ("lookup", "store")
    assert lookup.fields["loops"][-1] == {"extent": 15, "dst": 1, "a": 1, "b": 0}


@pytest.mark.parametrize("place", BY_MASK)
def test_a_place_may_be_spelled_in_other_ways(place: Callable[[Expr], Expr]) -> None:
    loops = scheduled(TINY, lambda table, row, x: table[place(x)])
    assert_right(TINY, loops, by_numpy(loops))


@every_machine
def test_every_row_has_a_table_of_its_own(machine: Machine) -> None:
    """Rows modulo three are no affine address: each is an instruction with its table."""
    loops = scheduled(machine, of_its_row, tables=(TABLES,))
    given = arrays(loops)
    rows = np.arange(ROWS).reshape(-1, 1, 1, 1) % TABLES
    stream = assert_right(machine, loops, given["table"][rows, given["x"].astype(int) % 256])
    assert [one.fields["base"]["b"] for one in stream if one.name == "lookup"] == [0, 1, 2, 0, 1]


@every_machine
def test_the_number_of_a_table_walks_with_a_loop(machine: Machine) -> None:
    loops = scheduled(machine, lambda tables, row, x: tables[row, BY_MASK[0](x)], tables=(ROWS,))
    given = arrays(loops)
    rows = np.arange(ROWS).reshape(-1, 1, 1, 1)
    stream = assert_right(machine, loops, given["table"][rows, given["x"].astype(int) % 256])
    (lookup,) = (one for one in stream if one.name == "lookup")
    assert [loop["b"] for loop in lookup.fields["loops"] if loop["extent"] > 1] == [1, 0]


@every_machine
def test_threads_have_copies_of_a_table(machine: Machine) -> None:
    loops = scheduled(machine, looked_up, threads=True)
    stream = assert_right(machine, loops, by_numpy(loops))
    assert [one.fields["base"]["b"] for one in stream if one.name == "lookup"] == [0, 1, 2, 3, 4]


@every_machine
def test_a_body_of_ones_own_looks_up_twice(machine: Machine) -> None:
    loops = scheduled(machine, steeply, "steep")
    given = arrays(loops)
    x, table = given["x"].astype(int), given["table"].astype(int)
    exact = (table[x >> 2 & 63] * (x & 3) + table[x & 255]) / 8
    stream = assert_right(machine, loops, np.rint(exact).astype(np.int8))
    assert [one.fields["s"] for one in stream if one.name == "steep"] == [3]


@pytest.mark.slow
@every_machine
def test_lookups_run_in_rtl(machine: Machine) -> None:
    simulators = (functional, cycle, verilated)
    loops = scheduled(machine, looked_up, threads=True)
    assert_right(machine, loops, by_numpy(loops), simulators)
    loops = scheduled(machine, steeply, "steep")
    assert_right(machine, loops, interpret(loops, arrays(loops))["out"], simulators)


def refusal(value: Lookup, op: str = "lookup", **options) -> str:
    with pytest.raises(ScheduleError) as refused:
        scheduled(MACHINES[0], value, op, **options)
    return str(refused.value).splitlines()[0].removeprefix(f"tensorize: {op} does not match: ")


def test_another_place_than_the_intrinsic_computes_is_refused() -> None:
    assert refusal(lambda table, row, x: table[x.astype("int64") & 127]) == (
        "a[lane_b, lane_o] of the intrinsic is not int32(int64(x_res[d_r, d_c, 0, d_o]) & 127) of "
        "the program")
    assert refusal(lambda table, row, x: table[(x.astype("int64") + 1) & 255]) == (
        "a[lane_b, lane_o] of the intrinsic is not int32(int64(x_res[d_r, d_c, 0, d_o]) + 1) of "
        "the program")


def test_a_table_of_another_length_is_refused() -> None:
    assert refusal(looked_up, entry=512) == (
        "last dimensions of table_tab must be (256,): table[int32(uint8(a[lane_b, lane_o]))] of "
        "the intrinsic is not table_tab[int64(uint8(x_res[d_r, d_c, 0, d_o]))] of the program")


def test_tables_that_differ_within_a_tile_are_refused() -> None:
    def value(tables: te.Tensor, row: Expr, x: Expr) -> Expr:
        assert isinstance(x, te.Read)
        return tables[x.indices[-1] % 2, BY_MASK[0](x)]

    assert refusal(value, tables=(2,)) == (
        "table must not depend on d_o outside its tile: table[int32(uint8(a[lane_b, lane_o]))] of "
        "the intrinsic is not table_tab[d_o % 2, int64(uint8(x_res[d_r, d_c, 0, d_o]))] of the "
        "program")


def test_more_tables_than_tab_holds_are_refused() -> None:
    small = Machine(replace(TINY.config, tab_bytes=1024))
    loops = scheduled(small, lambda tables, row, x: tables[row, BY_MASK[0](x)], tables=(ROWS,))
    with pytest.raises(LoweringError) as refused:
        assemble(small, loops)
    assert str(refused.value) == ("tab must hold table_tab in 1 copies of 1280 bytes, but has only "
                                  "1024")
