"""The accumulator's banks: grants, timing, data."""

import random

import pytest

from accel.hw.compute.acc import Acc
from accel.machine.timing import TIMING
from tests.support.amaranth_sim import simulate
from tests.support.unit_bench import MACHINES


def granted(ctx, dut):
    return ctx.get(dut.gemm.granted), ctx.get(dut.vector.granted)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.config.name)
def test_each_unit_in_its_bank(machine):
    """Random reads and writes of both units at once, one of each a cycle, banks exchanged."""
    dut, rng = Acc(machine), random.Random(0)
    seen = {"gemm": machine.config.buffers["acc"], "vector": machine.config.parts["acc"]}
    memory = bytearray(seen["gemm"].size_bytes)

    def at(name, address):
        size = seen[name].entry_bytes
        return slice(address * size, (address + 1) * size)

    async def bench(ctx):
        awaited = {"gemm": [None, None], "vector": [None, None]}
        for cycle in range(400):
            own = {"gemm": cycle // 50 % 2, "vector": 1 - cycle // 50 % 2}
            writes = []
            for name in awaited:
                port, bank = getattr(dut, name), seen[name].depth // 2
                base = own[name] * bank
                expected = awaited[name].pop(0)
                assert expected is None or ctx.get(port.r_data) == expected, cycle
                r_addr, w_addr = (base + rng.randrange(bank) for _ in range(2))
                reads, data = rng.random() < 0.8, rng.randbytes(seen[name].entry_bytes)
                awaited[name].append(int.from_bytes(memory[at(name, r_addr)], "little")
                                     if reads and r_addr != w_addr else None)
                ctx.set(port.hold, 1 << own[name])
                ctx.set(port.r_addr, r_addr)
                ctx.set(port.r_en, reads)
                ctx.set(port.w_addr, w_addr)
                ctx.set(port.w_data, int.from_bytes(data, "little"))
                ctx.set(port.w_en, w_en := rng.random() < 0.7)
                writes += [(at(name, w_addr), data)] if w_en else []
            for place, data in writes:
                memory[place] = data
            await ctx.tick()

    simulate(dut, bench)
    assert TIMING.read_cycles == 2            # the two places of `awaited`


def test_grants():
    dut = Acc(MACHINES[0])

    async def bench(ctx):
        for case in range(256):
            gemm_asks, vector_asks, gemm_holds, vector_holds = (case >> 2 * k & 3 for k in range(4))
            ctx.set(dut.gemm.request, gemm_asks)
            ctx.set(dut.vector.request, vector_asks)
            ctx.set(dut.gemm.hold, gemm_holds)
            ctx.set(dut.vector.hold, vector_holds)
            assert granted(ctx, dut) == (not gemm_asks & (vector_holds | vector_asks),
                                         not vector_asks & gemm_holds)
        await ctx.tick()

    simulate(dut, bench)
