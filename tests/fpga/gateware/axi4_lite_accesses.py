"""Runs inside the simulator (cocotb): random accesses of cocotbext-axi's master to the registers
behind AXI4-Lite, several at a time, with pauses on every channel.

Environment: ``ACCESSES``, ``SEED``, ``WORDS``, ``WRITABLE`` (word addresses, with spaces between),
``CONSTANT`` (address and value of a word that holds one).
"""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

SPACE_WORDS = 1024


async def watch(dut):
    """A response stays until it is taken (A3.2.1)."""
    held = {}
    while True:
        await FallingEdge(dut.clk)
        for name, fields in (("b", ("resp",)), ("r", ("data", "resp"))):
            valid, ready = (int(getattr(dut, f"axi__{name}{end}").value)
                            for end in ("valid", "ready"))
            offered = tuple(int(getattr(dut, f"axi__{name}{one}").value) for one in fields)
            before = held.pop(name, None)
            assert before is None or (valid and offered == before), f"{name} must stay"
            if valid and not ready:
                held[name] = offered


@cocotb.test()
async def accesses(dut):
    rng = random.Random(int(os.environ["SEED"]))
    words, writable = int(os.environ["WORDS"]), [*map(int, os.environ["WRITABLE"].split())]
    constant, constant_value = map(int, os.environ["CONSTANT"].split())
    cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
    dut.rst.value = 1
    master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "axi_"), dut.clk, dut.rst)
    for _ in range(4):
        await FallingEdge(dut.clk)
    dut.rst.value = 0
    await FallingEdge(dut.clk)
    cocotb.start_soon(watch(dut))

    def pauses():
        while True:
            yield rng.random() < 0.4

    for side, channels in ((master.write_if, ("aw", "w", "b")), (master.read_if, ("ar", "r"))):
        for channel in channels:
            getattr(side, f"{channel}_channel").set_pause_generator(pauses())
    model = dict.fromkeys(writable, 0)

    async def write(at: int) -> None:
        """A word, or a part of one, or what cannot be written."""
        data = rng.randbytes(4 if rng.random() < 0.8 else rng.randrange(1, 4))
        whole = len(data) == 4 and at < words
        if whole and at in model:
            model[at] = int.from_bytes(data, "little")
        answer = await master.write(4 * at, data)
        assert answer.resp == (AxiResp.OKAY if whole else AxiResp.SLVERR)

    async def read(at: int) -> None:
        answer = await master.read(4 * at, 4)
        assert answer.resp == (AxiResp.OKAY if at < words else AxiResp.SLVERR)
        value = int.from_bytes(answer.data, "little")
        if at in model or at >= words:
            assert value == model.get(at, 0), at
        if at == constant:
            assert value == constant_value

    for _ in range(int(os.environ["ACCESSES"])):
        places = [*writable, constant, rng.randrange(words), rng.randrange(SPACE_WORDS)]
        # Up to two of each wait at the same time; what is written is not read.
        chosen = rng.sample([*dict.fromkeys(places)], 4)
        under_way = [cocotb.start_soon(write(at)) for at in chosen[:rng.randint(1, 2)]]
        under_way += [cocotb.start_soon(read(at)) for at in chosen[2:2 + rng.randint(1, 2)]]
        rng.shuffle(under_way)
        for one in under_way:
            await with_timeout(one, 20_000, "ns")
    for at in writable:
        await with_timeout(read(at), 20_000, "ns")
    assert any(model.values())
