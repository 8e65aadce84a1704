"""Native values against the functional simulator: instructions on random buffers, programs."""

from dataclasses import replace

import numpy as np
import pytest

from accel.machine import isa
from accel.machine.config import WEIGHT_BITS, preset
from accel.machine.intrinsics import SHIPPED, Declaration, instructions, vector_op
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram, Instruction, finish
from accel.machine.status import Status
from accel.mapping.target import AccelTarget
from accel.sim.meaning import functional, values
from accel.sim.programs.generate import generate
from tests.support.networks import convolution_graph
from compiler import te
from compiler.tensorize import Intrinsic, Operand
from tests.support.effort import tries
from tests.support.random_vectors import vector_fields

TINY = replace(preset("tiny-1x4x4"), tab_bytes=1 << 14)


def turned(config):
    """Lanes turned by one: the body reads another lane than it writes."""
    tile = (config.batch, config.block_out)
    b, o = te.Axis(te.Var("b"), tile[0]), te.Axis(te.Var("o"), tile[1])
    a = te.placeholder(tile, "int32", "a")
    scopes = (("acc", "int32"), ("res", "int8"))
    return (Intrinsic("turned", "vector", Operand("dst", tile, "int32", (("acc", "int32"),)),
                      (Operand("a", tile, "int32", scopes),), (b, o),
                      a[b.var, (o.var + 1) % tile[1]], loops=5),)


def spread(config):
    """Every lane is the sum of all lanes, by a declaration that `vector_op` did not write."""
    tile = (config.batch, config.block_out)
    b, o = te.Axis(te.Var("b"), tile[0]), te.Axis(te.Var("o"), tile[1])
    k = te.reduce_axis(tile[1], "k")
    a = te.placeholder(tile, "int32", "a")
    scopes = (("acc", "int32"), ("res", "int8"))
    return (Intrinsic("spread", "vector", Operand("dst", tile, "int32", (("acc", "int32"),)),
                      (Operand("a", tile, "int32", scopes),), (b, o),
                      te.sum(a[b.var, k.var], k), loops=5),)


OWN = (
    vector_op("absdiff", lambda a, b: te.abs(a - b)),
    vector_op("narrow", lambda a, b: te.select(
        (a > b).equal(a.astype("uint8") > b.astype("uint8")),
        (a.astype("int8") * b.astype("int8")).astype("int32"),
        (a.astype("uint16") - b.astype("uint16")).astype("int32"))),
    vector_op("shifts", lambda a, b: (a << (b & 63)) ^ ((a.astype("uint32") >> 3).astype("int32"))
              ^ te.rshift_rne(a, b & 31) ^ te.rshift_rne(a.astype("uint8"), b.astype("uint8") & 7)
              .astype("int32")),
    vector_op("far", lambda a, s: te.rshift_rne(a.astype("int64") << 31, (s & 63).astype("int64"))
              .astype("int32")),
    vector_op("seven", lambda imm: imm + 7),
    vector_op("looked_up", lambda a, zp, table: table[table[a & 255] & 255]
              ^ (table[zp.astype("uint8")] << 8) ^ (a + table[7])),
    vector_op("reduce_looked_up", lambda a, table: table[(a >> 1) & 127], update="sum"),
    vector_op("reduce_xor", lambda a, zp: a ^ zp.astype("int32"), update="sum"),
    Declaration("turned", "vector", turned),
    Declaration("spread", "vector", spread),
    vector_op("row_max", lambda a, bias: (a << 16) ^ bias, lanes="max", update="max"),
    vector_op("row_min", lambda a, b, zp: (a - b) * zp.astype("int32"), lanes="min"),
    vector_op("row_table", lambda a, table: table[a & 255] << 24, lanes="sum", update="sum"),
    vector_op("difference", lambda a, b, table: table[(a - b) & 255]),
    vector_op("affine", lambda a, b, mult, bias: a * mult.astype("int32") + b - bias),
    vector_op("slope", lambda a, bias, table: table[(a >> 3) & 255] + bias, update="max"),
    vector_op("wide", lambda a: (a.astype("uint64") >> 3).astype("int32")),
)

MACHINES = {machine.config.name: machine for machine in (
    Machine(TINY, SHIPPED + OWN),
    Machine(replace(TINY, name="2x8x4", batch=2, block_in=8, acc_bytes=8192,
                    weight_bits=(8, 4, 2)), SHIPPED + OWN),
    Machine(replace(TINY, name="1x2x16", block_in=2, block_out=16, acc_bytes=8192, par_bytes=1024)),
    Machine(replace(preset("pynq-1x16x16"), tab_bytes=1 << 14)),
    *(Machine(replace(TINY, name="_".join(types), batch=2, weight_bits=bits), instructions(*types))
      for types, bits in ((("int16", "int8", "int16"), (8, 4)), (("uint16", "int16", "int8"), (8,)),
                          (("int8", "uint8", "int16"), (8,)), (("uint8", "uint16"), (8,)))))}


def executions(machine, rng, instruction):
    """One instruction between random buffers, for both simulators."""
    program = AccelProgram.assemble(machine, [instruction, finish()], io_bytes=512)
    image = program.image()
    image[program.bases["io"]:] = rng.integers(0, 256, 512, np.uint8)
    result = [module._Execution(machine, program, image.copy()) for module in (functional, values)]
    for name, raw in result[0].buffers.raw.items():
        raw[:] = rng.integers(0, 256, raw.size, np.uint8)
        result[1].buffers.raw[name][:] = raw
    return result


def same(machine, rng, instruction):
    """Both leave the same; whether it was executed natively to its end."""
    reference, native = executions(machine, rng, instruction)
    run, own = reference.run(), native.run()
    if own is None:
        return False
    assert run.ok and own.ok
    for name, raw in reference.buffers.raw.items():
        np.testing.assert_array_equal(native.buffers.raw[name], raw, name)
    np.testing.assert_array_equal(own.memory, run.memory)
    return True


def compute_fields(rng, loops):
    """Small loops whose entries meet often, in steps of either sign."""
    return {"banks": 3, "reset": int(rng.integers(2)),
            "base": {key: int(rng.integers(6, 10)) for key in ("dst", "a", "b")},
            "loops": [{"extent": int(rng.integers(1, 4)),
                       **{key: int(rng.choice([0, 0, 1, 2, 0xFFFF])) for key in ("dst", "a", "b")}}
                      for _ in range(loops)]}


def vector(machine, rng, name):
    fields = compute_fields(rng, 5) | vector_fields(rng, machine.intrinsic(name))
    if machine.formats["vector"] is isa.THREE:
        fields["c"] = int(rng.integers(9))
    return Instruction(name, "vector", fields)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_vector_instructions(machine, rng):
    native = [same(machine, rng, vector(machine, rng, intrinsic.name))
              for intrinsic in machine.of_unit("vector") for _ in range(tries(12))]
    assert np.mean(native) > 0.8            # the others walk out of a buffer


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_gemm_instructions(machine, rng):
    native = [same(machine, rng, Instruction("gemm", "gemm", compute_fields(rng, 6)))
              for _ in range(tries(30))]
    assert np.mean(native) > 0.8


def dma_fields(rng, unit, machine):
    codes = [WEIGHT_BITS.index(bits) for bits in machine.config.weight_bits]
    pads_high = "pad_high" in dict(machine.formats[unit])
    buffer = rng.choice(("inp", "wgt", "res", "par", "tab") if unit == "load" else ("out",))
    loops = [{"extent": int(rng.integers(1, 5)), "dram": int(rng.integers(-9, 10)),
              "buffer": int(rng.integers(-4, 9)) % (1 << 24),
              "before": int(rng.integers(0, 3)), "after": int(rng.integers(0, 3))}
             for _ in range(4)]
    packed = {"bits": int(rng.choice(codes))} if buffer == "wgt" and len(codes) > 1 else {}
    return {"buffer": isa.BUFFERS.index(buffer), "base": isa.BASES.index("io"), "dram": 200,
            "address": 20, "run": int(rng.integers(1, 8)), "pad_value": int(rng.integers(256)),
            "loops": loops, **packed,
            **({"pad_high": int(rng.integers(256))} if pads_high else {})}


@pytest.mark.parametrize("unit", ["load", "store"])
@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_dma_instructions(machine, unit, rng):
    native = [same(machine, rng, Instruction(unit, unit, dma_fields(rng, unit, machine)))
              for _ in range(tries(40))]
    assert np.mean(native) > 0.8


def test_padding_may_begin_before_the_memory(rng):
    load = Instruction("load", "load", {
        "base": isa.BASES.index("io"), "dram": (1 << 32) - 9, "run": 1, "pad_value": 7,
        "loops": [{"extent": 4, "dram": 8, "buffer": 4, "before": 1, "after": 1},
                  {"extent": 4, "dram": 1, "buffer": 1, "before": 1, "after": 1}]})
    assert same(MACHINES["tiny-1x4x4"], rng, load)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_random_programs(machine):
    for seed in range(tries(15)):
        case = generate(machine, seed)
        given = case.memory.copy()
        run = values.simulate(machine, case.program, case.memory)
        expected = functional.simulate(machine, case.program, case.memory)
        assert run.describe() == expected.describe()
        np.testing.assert_array_equal(run.memory, expected.memory, case.name)
        np.testing.assert_array_equal(case.memory, given)


def test_a_layer_is_executed_natively(rng):
    machine = MACHINES["pynq-1x16x16"]
    program = AccelTarget(machine).compile(convolution_graph(16, 32, 8)).program
    (slot,) = program.inputs
    image = program.image({slot.name: rng.integers(-128, 128, slot.shape).astype(np.int8)})
    run = values._Execution(machine, program, image.copy()).run()
    assert run is not None and run.ok
    np.testing.assert_array_equal(run.memory,
                                  functional.simulate(machine, program, image).memory)


def test_what_has_no_straight_line_code_is_performed_by_numpy():
    machine = MACHINES["tiny-1x4x4"]
    forms = {name: {values._kernel(machine, Instruction(name, "vector", {"a_source": source})).form
                    for source in (0, 1)}
             for name in ("turned", "spread", "row_min", "wide")}
    assert forms == {"turned": {values._BODY}, "spread": {values._BODY}, "row_min": {values._BODY},
                     "wide": {values._FOREIGN}}


def nothing(unit, waits=(), signals=(), **fields):
    """An instruction that does no harm."""
    name = "copy" if unit == "vector" else unit
    own = {"banks": 1, "b_source": 3} if unit == "vector" else {"banks": 1}
    if unit in ("load", "store"):
        own = {"buffer": 0 if unit == "load" else 5}
    return Instruction(name, unit, {**own, **fields, "waits": isa.unit_mask(waits),
                                    "signals": isa.unit_mask(signals)})


@pytest.mark.parametrize(("stream", "status", "unit", "index"), [
    ([nothing("gemm", base={"a": 511}, loops=[{"extent": 2, "a": 1}])],
     Status.ADDRESS, "gemm", 0),
    ([nothing("gemm", base={"dst": 128})], Status.ADDRESS, "gemm", 0),
    ([Instruction("wide", "vector", {"banks": 0})], Status.ADDRESS, "vector", 0),
    ([nothing("load", buffer=4)], Status.ILLEGAL, "load", 0),
    ([Instruction("reduce_add", "vector", {"banks": 3, "a_source": 0})],
     Status.ILLEGAL, "vector", 0),
    ([nothing("load", base=3, dram=1 << 20)], Status.BUS, "load", 0),
    ([nothing("load", address=(1 << 24) - 1, run=2)], Status.ADDRESS, "load", 0),
    ([nothing("store", waits=("vector",))], Status.DEADLOCK, "store", 0),
    ([nothing("gemm", signals=("load",))], Status.TOKENS_LEFT, "fetch", 1),
    ([nothing("load", signals=("gemm",))] * 256, Status.DEADLOCK, "load", 255),
    ([nothing("gemm", waits=("load",)), nothing("load", signals=("gemm",))],
     Status.DONE, "fetch", 2),
    ([nothing("gemm", base={"dst": 2}, loops=[{"extent": 3, "dst": 0xFFFF}])],
     Status.DONE, "fetch", 1),
], ids=["address", "bank", "bank of a foreign body", "buffer", "selector", "bus", "run", "deadlock",
        "tokens left", "full counter", "fed later", "backwards"])
def test_programs_that_are_not_plain_end_as_in_the_reference(stream, status, unit, index):
    machine = MACHINES["tiny-1x4x4"]
    program = AccelProgram.assemble(machine, [*stream, finish()])
    run = values.simulate(machine, program)
    expected = functional.simulate(machine, program)
    assert (run.status, run.unit, run.index) == (status, unit, index)
    assert (expected.status, expected.unit, expected.index) == (status, unit, index)
    assert run.waiting == expected.waiting


def test_an_opcode_that_is_none():
    machine = MACHINES["tiny-1x4x4"]
    run = values.simulate(machine, AccelProgram(machine.hash, np.zeros((1, 64), np.uint8)))
    assert (run.status, run.unit, run.index) == (Status.ILLEGAL, "fetch", 0)


def test_inputs_are_placed():
    machine = MACHINES["tiny-1x4x4"]
    program = AccelTarget(machine).compile(convolution_graph(4, 4, 3)).program
    (slot,) = program.inputs
    given = {slot.name: np.ones(slot.shape, np.int8)}
    (name,) = (output.name for output in program.outputs)
    found, expected = (program.extract(module.simulate(machine, program, inputs=given).memory, name)
                       for module in (values, functional))
    np.testing.assert_array_equal(found, expected)
