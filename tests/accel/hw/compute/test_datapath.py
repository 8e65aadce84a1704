"""Datapaths against the software meaning of their plans."""

from dataclasses import replace

import numpy as np

from accel.datapath.dataflow import Interval
from accel.datapath.plan import plan
from accel.hw.compute.datapath import Datapath
from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from accel.machine.timing import TIMING
from compiler import te
from tests.support.amaranth_sim import simulate
from tests.support.machines import SPARSE
from tests.support.slow_cases import each_once

TINY = preset("tiny-1x4x4")
SMALL = {"tiny": replace(TINY, block_out=2, block_in=4),
         "batched": replace(TINY, batch=2, block_in=2, block_out=2, stage_depth=1)}

OPERATIONS = (
    vector_op("bits", lambda a, b: ((a & b) | (a ^ 0x55)) - (b & 0xFF0)),
    vector_op("logic", lambda a, b: te.select(te.all_of(a <= b, a.not_equal(0), b > -5), a * 3,
                                              te.select(a >= b, -b, te.select(a.equal(b), b, a)))),
    vector_op("unsigned", lambda a, b: (a.astype("uint8") - b.astype("uint8")).astype("int32")),
    vector_op("signs", lambda a, b: (a.astype("int8").astype("uint32") >> 3).astype("int32")),
    vector_op("shifts", lambda a, b: (a << (b & 31)) ^ (b << 3) ^ (b >> 9) ^ (a >> (b & 31))),
    vector_op("round", lambda a, b: te.rshift_rne(a, b & 31) - te.rshift_rne(b, 5)),
    vector_op("round_much", lambda a, b: te.rshift_rne(a.astype("int64"), 33).astype("int32")
              + te.rshift_rne(a.astype("uint8"), b.astype("uint8") & 7).astype("int32")),
    vector_op("abs", lambda a, b: te.abs(a) + (a < b).astype("int32")),
    vector_op("order", lambda a, b: (a >> (b & 15)) * b),
    vector_op("tables", lambda a, s, table: (table[a & 255] - 3) * table[(a >> 8) & 15]
              + table[s.astype("int32") + 9]),
    vector_op("nested", lambda a, table: table[table[te.abs(a >> 25)] & 255] + a),
    vector_op("row_sum", lambda a, b: a * b, lanes="sum"),
    vector_op("row_max", lambda a, bias: (a << 8) ^ bias, lanes="max"),
    vector_op("row_min", lambda a, table: table[a & 255] + a, lanes="min"),
)


def random_operands(rng, made):
    """A tile for every bus and a number for every immediate, all bits random or all small."""
    operands = {}
    for bus, shape in made.buses.items():
        widest = max((one.node.interval for one in made.operations
                      if one.node.kind == "read" and one.node.attr[0] == bus),
                     key=lambda interval: interval.width)
        limit = Interval(max(widest.low, -9), min(widest.high, 9)) if rng.random() < 0.3 else widest
        operands[bus] = rng.integers(limit.low, limit.high, shape, np.int64, endpoint=True)
    for name, interval in made.immediates.items():
        operands[name] = int(rng.integers(interval.low, interval.high, endpoint=True))
    return operands


def narrowed(made, opcode, operands):
    """Operands as the body may see them: a narrow operand never comes from a wide source."""
    body = made.bodies[made.opcodes.index(opcode)]
    for operand in body.operands:
        if operand.name in operands and all(dtype == "int8" for _, dtype in operand.storage):
            operands[operand.name] = operands[operand.name].astype(np.int8).astype(np.int64)
    return operands


def run(made, elements, tab=None):
    """Values, one row an element, of elements that follow each other; None is a gap."""
    dut, values = Datapath(made), []
    lookups = made.count("lookup")
    looked_up = [[0] * lookups] * TIMING.read_cycles

    async def bench(ctx):
        for cycle in range(-1, len(elements) + made.latency):
            following = elements[cycle + 1] if cycle + 1 < len(elements) else None
            ctx.set(dut.valid, following is not None)
            if following:
                opcode, operands = following
                ctx.set(dut.select, 1 << made.opcodes.index(opcode))
                for name in operands.keys() & made.immediates.keys():
                    ctx.set(getattr(dut, name), operands[name])
            if 0 <= cycle < len(elements) and elements[cycle]:
                for name in elements[cycle][1].keys() & made.buses.keys():
                    value = elements[cycle][1][name]
                    width = dut.widths[name]
                    ctx.set(getattr(dut, name), sum(
                        (int(one) & (1 << width) - 1) << k * width
                        for k, one in enumerate(np.ravel(value))))
            if lookups:
                ctx.set(dut.tab.data, looked_up[cycle + 1])
                looked_up.append([int(tab.reshape(-1)[place]) if ctx.get(dut.tab.en[port]) else 99
                                  for port, place in enumerate(ctx.get(dut.tab.addr))])
            if cycle >= made.latency and elements[cycle - made.latency]:
                raw = ctx.get(dut.value).to_bytes(int(np.prod(made.shape)) * 4, "little")
                values.append(np.frombuffer(raw, np.int32).reshape(made.shape))
            await ctx.tick()

    simulate(dut, bench)
    return values


@each_once("unit, config", ["gemm", "vector"], [*SMALL.values()])
def test_matches_plan_one_a_cycle_at_the_plans_latency(rng, unit, config):
    declared = SPARSE.declarations if config.block_in >= 4 else SHIPPED     # one of four
    machine = Machine(config, declared + OPERATIONS)
    made, elements = plan(machine, unit), []
    tab = rng.integers(-128, 128, (machine.config.buffers["tab"].depth, 256))
    for _ in range(150):
        opcode = int(rng.choice(made.opcodes))
        elements.append((opcode, narrowed(made, opcode, random_operands(rng, made))))
        elements += [None] * int(max(0, rng.integers(-2, 3)))
    for (opcode, operands), value in zip(filter(None, elements), run(made, elements, tab),
                                         strict=True):
        name = made.bodies[made.opcodes.index(opcode)].name
        assert (value == made.evaluate(opcode, operands | {"tab": tab})).all(), name
