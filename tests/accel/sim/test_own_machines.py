"""A check of machines with instructions of one's own: each form of each runs and is compared."""

from dataclasses import replace

import pytest

from accel.datapath.plan import plan
from accel.hw.compute.datapath import Datapath
from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, Declaration, gemm_op, instructions, vector_op
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.proof.legal import prove
from accel.sim.checking import check as checking
from accel.sim.meaning import functional
from accel.sim.checking.check import Report, check, default_simulators, ran
from accel.sim.programs.directed import directed
from accel.sim.programs.forms import form_of, forms
from compiler import te
from compiler.te import Axis, Var
from compiler.tensorize import Intrinsic, Operand
from examples.machines.fp8 import instructions as float8
from tests.accel.machine.test_immediates import MACHINE as OWN
from tests.accel.machine.test_records import MACHINE as RECORDS
from tests.support.amaranth_sim import simulate
from tests.support.effort import Effort
from tests.support.machines import HALVED, SPARSE, example

TINY = preset("tiny-1x4x4")


def lanes(name, value, update="sum", operands=("inp", "wgt")):
    """A gemm instruction: `value` of the lanes of inp and wgt, and the index that it reduces."""
    def build(config):
        b, o = Axis(Var("b"), config.batch), Axis(Var("o"), config.block_out)
        i = te.reduce_axis(config.block_in, "i")
        places = {"inp": (b, config.batch), "wgt": (o, config.block_out)}
        reads = [te.placeholder((places[one][1], i.extent), "int8", one)[
            places[one][0].var, i.var].astype("int32") for one in operands]
        return (Intrinsic(
            name, "gemm", Operand("dst", (b.extent, o.extent), "int32", (("acc", "int32"),)),
            tuple(Operand(one, (places[one][1], i.extent), "int8", ((one, "int8"),))
                  for one in operands), (b, o), value(*reads, i), update, loops=6),)
    return Declaration(name, "gemm", build)


L1 = lanes("l1", lambda x, w, i: te.sum(te.abs(x - w), i))
ENERGY = lanes("energy", lambda x, i: te.sum(x * x, i), operands=("inp",))
LARGEST = lanes("largest", lambda x, w, i: te.max(x * w, i), "max")
LATEST = lanes("latest", lambda x, w, i: te.sum(x + w, i), "assign")
ABSDIFF = vector_op("absdiff", lambda a, b: te.abs(a - b))
PLAIN = {one.name: one for one in SHIPPED}
MOVES = (PLAIN["load"], PLAIN["store"])

HALVES = gemm_op("gemm", "float16", "int8")


def meets(name, update):
    """The product of float16 and int8 with another update."""
    return Declaration(name, "gemm", lambda config: (
        replace(HALVES.build(config)[0], name=name, update=update),))


MACHINES = {
    "l1 beside gemm": Machine(TINY, (*SHIPPED, ABSDIFF, L1)),
    "many products": Machine(TINY, (*SHIPPED, L1, ENERGY, LARGEST, LATEST)),
    "weights of two in four": HALVED,
    "half of the terms": Machine(SPARSE.config, (*SPARSE.declarations, ENERGY, ABSDIFF)),
    "l1 for gemm": Machine(TINY, (*(one for one in SHIPPED if one.name != "gemm"), L1)),
    "few operations": Machine(TINY, (L1, ABSDIFF, vector_op("total", lambda a: a, update="sum"),
                                     *MOVES)),
    "lanes of a row": Machine(TINY, (
        *SHIPPED, vector_op("row_sum", lambda a, mult: a * mult.astype("int32"), lanes="sum"),
        vector_op("row_max", lambda a, bias: (a << 16) | (bias & 0xFFFF), lanes="max",
                  update="max"),
        vector_op("row_least", lambda a, b: te.abs(a - b), lanes="min"),
        vector_op("row_table", lambda a, table: table[a & 255], lanes="sum", update="sum"))),
    "three operands": Machine(TINY, (
        *SHIPPED, vector_op("difference", lambda a, b, table: table[(a - b) & 255]),
        vector_op("affine", lambda a, b, mult, bias: a * mult.astype("int32") + b - bias),
        vector_op("slope", lambda a, bias, table: table[(a >> 3) & 255] + bias, update="max"))),
    "rows of an entry": Machine(
        replace(TINY, name="rows-2x4x8", batch=2, block_out=8, vector_beats=2, par_bytes=512),
        (*SHIPPED, vector_op("row_sum", lambda a: a, lanes="sum"))),
    "nothing but assignments": Machine(TINY, (
        *MOVES, LATEST, vector_op("halved", lambda a, bias: (a >> 1) + bias, a=("res",)))),
    "sums of bfloat16": example("bfloat16"),
    "sums of 48 bits": Machine(TINY, (
        *instructions("int16", "int16", "int16", "int48"),
        vector_op("wide", lambda a, table: te.abs(a * a) - table[(a >> 40) & 255],
                  stored="int16", accumulator="int48"),
        vector_op("row_sum", lambda a, bias: (a << 9) - bias.astype("int48"), lanes="sum",
                  update="sum", stored="int16", accumulator="int48"))),
    "sums of 24 bits": Machine(replace(TINY, batch=2, vector_beats=4), instructions(
        "uint8", "uint8", "int8", "int24")),
    "sums of 16 bits": Machine(replace(TINY, weight_bits=(8, 4)), instructions(
        accumulator="int16")),
    "sums of 40 bits": Machine(TINY, instructions("int8", "uint16", "int16", "int40")),
    "immediates of one's own": OWN,
    "records of one's own": RECORDS,
    "float16 by int8": Machine(
        replace(TINY, name="floats-2x2x2", batch=2, block_in=2, block_out=2, stage_depth=5,
                vector_beats=2, bus_bytes=4),
        (*MOVES, HALVES, meets("largest", "max"), meets("latest", "assign"),
         vector_op("mix", lambda a, b: te.select(a < b, a * b, te.abs(b)), stored="bfloat16"),
         vector_op("down", lambda a: a.astype("bfloat16"), stored="bfloat16"))),
    "all from acc": Machine(TINY, (*MOVES, PLAIN["gemm"],
                                   vector_op("twice", lambda a: a + a, a=("acc",)))),
    "sums of float8": example("fp8"),
    "two types of float8": Machine(
        replace(TINY, name="float8-2x4x4", batch=2, stage_depth=4, vector_beats=2),
        float8("float8_e5m2", "float8_e4m3fn")),
}


def without_rtl():
    """What needs no build for each machine."""
    return {name: one for name, one in default_simulators().items()
            if name not in ("verilated", "slice")}


def same(report: Report) -> str:
    return report.difference.describe() if report.difference else ""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [
    name if place % 3 == 0 else pytest.param(name, marks=pytest.mark.slow)
    for place, name in enumerate(MACHINES)])
def test_directed_programs_hold_every_form(name):
    machine, held = MACHINES[name], set()
    for case in directed(machine):
        prove(machine, case.program)
        held |= {form_of(machine, one) for one in case.program.instructions(machine)[:-1]}
    assert held >= set(forms(machine))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", [
    "lanes of a row", "sums of 48 bits", *(pytest.param(name, marks=pytest.mark.slow) for name in (
        "many products", "records of one's own",
        "few operations", "nothing but assignments", "all from acc", "three operands",
        "immediates of one's own", "sums of 16 bits", "sums of 24 bits", "sums of 40 bits",
        "weights of two in four", "half of the terms", "sums of bfloat16", "float16 by int8",
        "sums of float8", "two types of float8"))])
def test_simulators_agree_on_every_form(name):
    report = check(MACHINES[name], 6, 0, without_rtl(), locate=False)
    assert report.ok, same(report) or report.missing
    assert all(report.coverage.ran.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["many products", "few operations", "lanes of a row",
                                  "rows of an entry", "half of the terms", "three operands",
                                  "sums of bfloat16", "float16 by int8", "sums of 48 bits",
                                  "sums of 40 bits", "sums of 24 bits", "sums of 16 bits",
                                  "immediates of one's own", "records of one's own",
                                  "sums of float8", "two types of float8"])
def test_the_rtl_agrees_on_every_form(name):
    report = check(MACHINES[name], 12, 0)
    assert report.ok, same(report) or report.missing


def test_lanes_of_few_bits_are_lanes_of_the_datapath():
    """A sum of distances has ten bits and no sign; a lane of the value has 32."""
    datapath = Datapath(plan(MACHINES["few operations"], "gemm"))

    async def testbench(ctx):
        ctx.set(datapath.valid, 1)
        ctx.set(datapath.select, 1)
        await ctx.tick()
        ctx.set(datapath.inp, 0)
        ctx.set(datapath.wgt, sum(lane << 32 * lane for lane in range(4)))
        for _ in range(3):
            await ctx.tick()
        assert ctx.get(datapath.value) == sum(lane << 32 * lane for lane in range(4))
    simulate(datapath, testbench)


def test_a_wrong_product_of_ones_own_is_found(monkeypatch):
    if Effort.quick:                            # those are longer
        monkeypatch.setattr(checking, "directed", lambda machine: [])
    machine = MACHINES["l1 beside gemm"]

    def plain(machine, case):
        return functional.simulate(machine, case.program, case.memory)

    def wrong(machine, case):
        stream = [replace(one, name="gemm") if one.name == "l1" else one
                  for one in case.program.instructions(machine)]
        words = AccelProgram.assemble(machine, stream).words
        return functional.simulate(machine, replace(case.program, words=words), case.memory)

    report = check(machine, 3, 0, {"right": plain, "wrong": wrong})
    assert report.difference is not None and report.difference.text.startswith("l1 ")


@pytest.mark.slow
def test_what_ran_is_told():
    report = check(MACHINES["few operations"], 1, 0, {
        "functional": lambda machine, case: functional.simulate(machine, case.program,
                                                                case.memory)})
    counts = report.coverage.ran
    assert ran([report]) == (
        f"l1 ran {counts['l1']} times, absdiff ran {counts['absdiff']:,} times, total ran "
        f"{counts['total']:,} times, load ran {counts['load']:,} times, store ran "
        f"{counts['store']:,} times, every form")
    lacking = replace(report, missing=["l1 with reset"])
    assert not lacking.ok and ran([lacking]).endswith(", never ran: l1 with reset")
