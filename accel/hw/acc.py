"""The accumulator: two banks between gemm and vector."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from accel.hw.interface import LANE_BITS, READ_LATENCY, acc_port
from accel.hw.parts import Ram, spread
from accel.machine import Machine

__all__ = ["Acc"]


class Acc(wiring.Component):
    """Two banks (top address bit), each with one read and one write port.

    A unit uses only banks that it holds. Data appear `READ_LATENCY` cycles after the address, every
    cycle a new one; a read sees the writes of the cycles before its address, not of its own.
    `granted` is combinational: vector gets what gemm does not hold; gemm gets what vector neither
    holds nor asks for in the same cycle.
    """

    def __init__(self, machine: Machine):
        self.config = machine.config
        super().__init__({"gemm": In(acc_port(self.config)), "vector": In(acc_port(self.config))})

    def elaborate(self, platform):
        m = Module()
        gemm, vector = self.gemm, self.vector
        m.d.comb += [
            vector.granted.eq(~(vector.request & gemm.hold).any()),
            gemm.granted.eq(~(gemm.request & (vector.hold | vector.request)).any()),
        ]
        read = [self._bank(m, index) for index in range(2)]
        for name, port in (("gemm", gemm), ("vector", vector)):
            bank = port.r_addr[-1]
            for _ in range(READ_LATENCY - 1):
                later = Signal(reset_less=True)
                m.d.sync += later.eq(bank)
                bank = later
            m.d.comb += [port.r_data.word_select(lane, LANE_BITS).eq(
                Mux(chosen, *(data.word_select(lane, LANE_BITS) for data in reversed(read))))
                for lane, chosen in enumerate(spread(m, platform, bank, f"{name}_bank",
                                                     self.config.lanes))]
        return m

    def _bank(self, m: Module, index: int) -> Value:
        """One bank, driven by the unit that holds it; its data."""
        m.submodules[f"bank{index}"] = ram = Ram(self.config.buffers["acc"].entry_bytes * 8,
                                                 self.config.bank_depth)
        owner = self.vector.hold[index]
        for port, owns in ((self.gemm, ~owner), (self.vector, owner)):
            with m.If(owns):
                m.d.comb += [
                    ram.r_addr.eq(port.r_addr[:-1]),
                    ram.r_en.eq(port.r_en & (port.r_addr[-1] == index)),
                    ram.w_addr.eq(port.w_addr[:-1]),
                    ram.w_en.eq(port.w_en & (port.w_addr[-1] == index)),
                    ram.w_data.eq(port.w_data),
                ]
        return ram.r_data
