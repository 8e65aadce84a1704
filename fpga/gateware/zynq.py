"""A core for a Zynq: the core with its registers behind AXI4-Lite, an AXI4 master to memory, and an
interrupt line, which is high until the processor has seen to it.

Ports have the names by which Vivado finds interfaces: ``s_axi_control_*``, ``m_axi_gmem_*``,
``ap_clk``, ``ap_rst_n``, ``irq``.
"""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from accel.hw.core import Core
from accel.machine.machine import Machine
from fpga.gateware.axi4 import Axi4Master, axi4_port
from fpga.gateware.axi4_lite import Axi4LiteSlave, axi4_lite_port
from fpga.gateware.registers import Registers

CONTROL, MEMORY = "s_axi_control", "m_axi_gmem"


class ZynqAccelerator(wiring.Component):
    """The top for a Zynq; the module's docstring describes it.

    Parameters
    ----------
    machine : the machine of the core.
    memory_bytes : the size of the driver's memory, which lies anywhere within 4 GiB.
    clock_hz : the frequency of `ap_clk`.
    """

    def __init__(self, machine: Machine, memory_bytes: int, clock_hz: int):
        self.machine, self._core = machine, Core(machine)
        self._registers = Registers(machine, memory_bytes, clock_hz)
        self._ports = {CONTROL: axi4_lite_port().flip(),
                       MEMORY: axi4_port(machine.config.bus_bytes)}
        super().__init__({"ap_clk": In(1), "ap_rst_n": In(1), "irq": Out(1), **{
            f"{port}_{name}": member for port, signature in self._ports.items()
            for name, member in signature.members.items()}})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()
        m.d.comb += ClockSignal().eq(self.ap_clk)
        reset = Signal(reset_less=True)
        m.d.sync += reset.eq(~self.ap_rst_n)
        m.d.comb += ResetSignal().eq(reset)
        m.submodules.core = core = self._core
        m.submodules.registers = registers = self._registers
        m.submodules.control = control = Axi4LiteSlave()
        m.submodules.memory = memory = Axi4Master(self.machine.config)
        registers.attach(m, core)
        m.d.comb += [
            registers.addr.eq(control.addr), control.r_data.eq(registers.r_data),
            registers.w_en.eq(control.w_en), registers.w_data.eq(control.w_data),
            self.irq.eq(registers.interrupt),
        ]
        wiring.connect(m, core.mem, memory.mem)
        for name, inner in ((CONTROL, control.axi), (MEMORY, memory.axi)):
            self._connect(m, name, self._ports[name], inner)
        return m

    def _connect(self, m: Module, port: str, signature: Signature, inner) -> None:
        for name, member in signature.members.items():
            outer, own = getattr(self, f"{port}_{name}"), getattr(inner, name)
            m.d.comb += outer.eq(own) if member.flow == Out else own.eq(outer)
