"""Runs inside the simulator (cocotb): programs on the core for a Zynq, started over AXI4-Lite as
the driver does, with a memory of cocotbext-axi that pauses at random.

Environment: ``PROGRAMS`` (a file of NumPy: for number n ``count{n}``, ``bases{n}``, and the memory
``before{n}`` and ``after{n}``), ``BUS_BYTES``, ``SEED``, ``FIGURES`` (a file to write).
"""

import json
import os
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from accel.machine.isa import BASES
from accel.machine.status import ACTIVITIES, Status
from fpga.gateware.zynq import CONTROL, MEMORY
from fpga.link.registers import ADDRESSES
from tests.fpga.gateware.axi4_transfers import Watch

ORIGIN = 5 * 4096 + 64      # where programs lie; what is around them must stay
ROOM = 8192
MARK = 0xA5
RUN_CYCLES = 5_000_000


@cocotb.test()
async def programs(dut):
    stored = np.load(os.environ["PROGRAMS"])
    count = sum(name.startswith("count") for name in stored)
    rng, clock = random.Random(int(os.environ["SEED"])), dut.ap_clk
    cocotb.start_soon(Clock(clock, 10, "ns").start())
    dut.ap_rst_n.value = 0
    reset = {"reset": dut.ap_rst_n, "reset_active_level": False}
    size = ORIGIN + ROOM + max(stored[f"before{n}"].size for n in range(count))
    ram = AxiRam(AxiBus.from_prefix(dut, MEMORY), clock, size=-(-size // 4096) * 4096, **reset)
    control = AxiLiteMaster(AxiLiteBus.from_prefix(dut, CONTROL), clock, **reset)
    await ClockCycles(clock, 4)
    dut.ap_rst_n.value = 1
    await ClockCycles(clock, 4)
    stop: list[bool] = []
    watcher = cocotb.start_soon(_watch(dut, stop))

    def pauses():
        while True:
            yield rng.random() < 0.4

    for side, channels in ((ram.write_if, ("aw", "w", "b")), (ram.read_if, ("ar", "r"))):
        for channel in channels:
            getattr(side, f"{channel}_channel").set_pause_generator(pauses())

    async def read(name: str) -> int:
        return await with_timeout(control.read_dword(4 * ADDRESSES[name]), 100_000, "ns")

    async def write(name: str, value: int) -> None:
        await with_timeout(control.write_dword(4 * ADDRESSES[name], value), 100_000, "ns")

    cycles = []
    for number in range(count):
        before, after = stored[f"before{number}"], stored[f"after{number}"]
        ram.write(0, bytes([MARK]) * ram.size)
        ram.write(ORIGIN, before.tobytes())
        await write("count", int(stored[f"count{number}"]))
        for name, base in zip(BASES, stored[f"bases{number}"], strict=True):
            await write(f"base_{name}", ORIGIN + int(base))
        await write("run", number + 1)
        for _ in range(RUN_CYCLES // 1000):
            if await read("done") == number + 1:
                break
            await ClockCycles(clock, 1000)
        assert await read("done") == number + 1, f"program {number} has not ended"
        assert await read("status") & 0xFF == Status.DONE
        found = np.frombuffer(ram.read(0, ram.size), np.uint8)
        wanted = np.full(ram.size, MARK, np.uint8)
        wanted[ORIGIN:ORIGIN + after.size] = after
        wrong = np.flatnonzero(found != wanted)
        assert not wrong.size, f"program {number}: {wrong.size} bytes differ, from {wrong[0]}"
        cycles.append(sum([await read(f"count_load_{one}") for one in ACTIVITIES]))
    stop.append(True)
    bursts = await watcher
    with open(os.environ["FIGURES"], "w") as file:
        json.dump({"cycles": cycles, "bursts": bursts}, file)


async def _watch(dut, stop: list[bool]) -> int:
    """Watches over the rules in every cycle; how many bursts there were."""
    watch, bursts = Watch(dut, int(os.environ["BUS_BYTES"]), f"{MEMORY}_"), 0
    while not stop:
        await FallingEdge(dut.ap_clk)
        watch.cycle()
        bursts += sum(int(getattr(dut, f"{MEMORY}_a{c}valid").value)
                      and int(getattr(dut, f"{MEMORY}_a{c}ready").value) for c in "rw")
    return bursts
