"""The AXI4 master against a memory that others wrote."""

import pytest

from accel.machine.config import ConfigError
from fpga.gateware.axi4 import Axi4Master, axi4_port
from tests.support.amaranth_sim import put, simulate
from tests.support.machines import MACHINES


@pytest.mark.slow
@pytest.mark.parametrize("name, transfers", [
    ("2x8x8", 8), pytest.param("2x8x8", 300, marks=pytest.mark.slow)])
def test_random_transfers(name, transfers, tmp_path):
    """Transfers pause on every channel, and bursts cross boundaries of 4 KiB."""
    find_libpython = pytest.importorskip("find_libpython")
    if find_libpython.find_libpython() is None:
        pytest.skip("this Python has no shared library, which cocotb embeds")
    from tests.support.cocotb_verilator import run_bench

    config = MACHINES[name].config
    run_bench(Axi4Master(config), "tests.fpga.gateware.axi4_transfers", tmp_path,
              TRANSFERS=transfers, BUS_BYTES=config.bus_bytes, SEED=1)


def test_a_bus_that_is_wider_than_its_beats_is_refused():
    with pytest.raises(ConfigError, match="^bus_bytes must be at most 128 behind AXI4, whose beats "
                                          "have no more, not 256$"):
        axi4_port(256)


def test_errors_reach_the_core():
    """A write that is cut in two has one acknowledgement, with an error if either part had one; a
    beat that is read brings its own.
    """
    config = MACHINES["tiny-1x4x4"].config
    dut = Axi4Master(config)
    axi, mem, acks, beats = dut.axi, dut.mem, [], []
    responses = [(0, 0), (2, 0), (0, 3), (0, 1)]        # of both parts; 1 is no error

    async def core(ctx):
        for _ in responses:
            await put(ctx, mem.request, {"addr": 4096 - 4, "last": 1, "write": 1})
            for _ in range(2):
                await put(ctx, mem.wdata, {"data": 7, "mask": 15})
        while len(acks) < len(responses):
            await ctx.tick()
        ctx.set(mem.rdata.ready, 1)
        for response in (0, 2, 3):
            ctx.set(axi.rvalid, 1)
            ctx.set(axi.rresp, response)
            *_, beat = await ctx.tick().sample(mem.rdata.payload)
            beats.append(beat.error)

    async def memory(ctx):
        ctx.set(axi.awready, 1)
        ctx.set(axi.wready, 1)
        left = [one for pair in responses for one in pair]
        owed = 0
        while True:
            ctx.set(axi.bvalid, owed > 0)
            ctx.set(axi.bresp, left[0] if left else 0)
            *_, last, ack, error = await ctx.tick().sample(
                axi.wvalid & axi.wlast, mem.ack.valid, mem.ack.payload.error)
            if owed:
                left.pop(0)
            owed += last - (owed > 0)
            if ack:
                acks.append(error)

    simulate(dut, core, processes=[memory], max_cycles=500)
    assert acks == [0, 1, 1, 0] and beats == [0, 1, 1]
