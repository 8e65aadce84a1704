"""Operand registers against the data that stood at the buffers."""

import random

import pytest

from accel.datapath.plan import plan
from accel.hw.vector.decode import PARAMETERS
from accel.hw.vector.operands import Operands, parameter_layout
from accel.machine.intrinsics import instructions
from accel.machine.isa import SOURCES_A, SOURCES_B
from accel.machine.machine import Machine
from compiler.te import bits
from tests.support.amaranth_sim import simulate
from tests.support.unit_bench import BATCHED, MACHINES

CYCLES = 80
WIDE = Machine(BATCHED, instructions("int16", "int8", "int16"))
LONG_SUMS = Machine(BATCHED, instructions(accumulator="int48"))


def random_fetch(rng):
    return {"a": rng.randrange(2), "b": rng.randrange(2), "table": rng.randrange(4), "operation": {
        "a": {rng.choice(SOURCES_A): 1},
        "b": {rng.choice(SOURCES_B): 1}, "imm": rng.randrange(-99, 99)}}


def element(raw, lane, width):
    value = raw >> lane * width & (1 << width) - 1
    return value - (value >> width - 1 << width)


def meaning(fetches, buffers, lanes, columns, widths):
    """For each cycle sources a and b of all lanes, None before the first."""
    a = b = [None] * lanes
    yield from [(a, b)] * 3
    layout = parameter_layout()
    for fetch, data in zip(fetches, buffers[2:]):
        operation = fetch["operation"]
        if fetch["a"]:
            name, = operation["a"]
            a = [element(data[name], lane, widths[name]) for lane in range(lanes)]
        if fetch["b"]:
            name, = operation["b"]
            par = [layout.from_bits(data["par"] >> column * layout.size & (1 << layout.size) - 1)
                   for column in range(columns)]
            b = [operation["imm"] if name == "imm" else par[lane % columns].bias if name == "par"
                 else element(data[name], lane, widths[name]) for lane in range(lanes)]
        yield a, b


@pytest.mark.parametrize("machine", (*MACHINES, WIDE, LONG_SUMS), ids=[
    *(machine.config.name for machine in MACHINES), "int16", "sums of 48 bits"])
def test_matches_meaning(machine):
    """A fetch a cycle; the operands stand three cycles later, all bits of those that acc has."""
    own = plan(machine, "vector")
    stored = {name: bits(machine.config.elements[name]) for name in SOURCES_A}
    widths = {bus: 50 if bus in ("a", "b") else 17 for bus in own.buses}
    dut = Operands(machine.config, own, widths)
    rows, columns = machine.config.vector_tile
    lanes, rng, layout = rows * columns, random.Random(7), parameter_layout()
    fetches = [random_fetch(rng) for _ in range(CYCLES)]
    buffers = [{name: rng.getrandbits(len(getattr(dut, f"s2_{name}")))
                for name in ("acc", "res", "par")} for _ in range(CYCLES)]
    operands, issued = [], []

    async def bench(ctx):
        for fetch, data in zip(fetches, buffers):
            operands.append({bus: ctx.get(dut.s3[bus]) for bus in own.buses})
            ctx.set(dut.s0_fetch, fetch)
            for name, raw in data.items():
                ctx.set(getattr(dut, f"s2_{name}"), raw)
            issued.append((ctx.get(dut.s2_issued), ctx.get(dut.s2_operation).imm))
            await ctx.tick()

    simulate(dut, bench)
    assert issued[2:] == [(fetch["b"], fetch["operation"]["imm"]) for fetch in fetches[:-2]]
    for cycle, (a, b) in enumerate(
            meaning(fetches, buffers, lanes, columns, stored)):
        if cycle >= CYCLES:
            break
        for bus, values in (("a", a), ("b", b), *([] if own.third else [("bias", b[:columns])])):
            got = [operands[cycle][bus] >> lane * widths[bus] & (1 << widths[bus]) - 1
                   for lane in range(len(values))]
            assert all(want is None or have == want & (1 << widths[bus]) - 1
                       for have, want in zip(got, values)), (cycle, bus)
        if cycle >= 3:
            assert operands[cycle]["table"] == fetches[cycle - 3]["table"]
        if cycle:
            par = [layout.from_bits(buffers[cycle - 1]["par"] >> column * layout.size
                                    & (1 << layout.size) - 1) for column in range(columns)]
            for bus in PARAMETERS if own.third else PARAMETERS[1:]:
                got = [operands[cycle][bus] >> column * widths[bus] & (1 << widths[bus]) - 1
                       for column in range(columns)]
                assert got == [record[bus] & (1 << widths[bus]) - 1
                               for record in par], (cycle, bus)
