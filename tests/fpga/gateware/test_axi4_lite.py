"""Registers behind AXI4-Lite against a master that others wrote."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from fpga.gateware.axi4_lite import Axi4LiteSlave, axi4_lite_port
from fpga.gateware.registers import Registers
from fpga.link.registers import ADDRESSES, MAGIC, REGISTERS, WORDS
from tests.support.machines import TINY


class Behind(wiring.Component):
    """The registers behind the slave; no core."""

    def __init__(self):
        super().__init__({"axi": In(axi4_lite_port())})

    def elaborate(self, platform):
        m = Module()
        m.submodules.slave = slave = Axi4LiteSlave()
        m.submodules.registers = registers = Registers(TINY, 1 << 20, 50_000_000)
        wiring.connect(m, wiring.flipped(self.axi), slave.axi)
        m.d.comb += [registers.addr.eq(slave.addr), slave.r_data.eq(registers.r_data),
                     registers.w_en.eq(slave.w_en), registers.w_data.eq(slave.w_data)]
        return m


@pytest.mark.slow
@pytest.mark.parametrize("accesses", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_random_accesses(accesses, tmp_path):
    """Reads and writes at the same time; what does not exist, and parts of words, are refused."""
    find_libpython = pytest.importorskip("find_libpython")
    if find_libpython.find_libpython() is None:
        pytest.skip("this Python has no shared library, which cocotb embeds")
    from tests.support.cocotb_verilator import run_bench

    writable = [ADDRESSES[one.name] for one in REGISTERS if one.writable and one.bits == 32]
    run_bench(Behind(), "tests.fpga.gateware.axi4_lite_accesses", tmp_path, ACCESSES=accesses,
              SEED=1, WORDS=WORDS, WRITABLE=" ".join(map(str, writable)),
              CONSTANT=f"{ADDRESSES['magic']} {MAGIC}")
