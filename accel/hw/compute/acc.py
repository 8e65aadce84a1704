"""The accumulator: two banks between gemm and vector."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.utils import exact_log2

from accel.hw.interface import acc_port
from accel.hw.parts import RAM_CYCLES, Ram, delayed, spread
from accel.machine.machine import Machine


class Acc(wiring.Component):
    """Two banks (top address bit), each with one read and one write port. gemm addresses entries,
    vector parts of them (`AccelConfig.parts`).

    A unit uses only banks that it holds. Data appear `read_cycles` after the address, every
    cycle a new one; a read sees the writes of the cycles before its address, not of its own.
    `granted` is combinational: vector gets what gemm does not hold; gemm gets what vector neither
    holds nor asks for in the same cycle.
    """

    def __init__(self, machine: Machine):
        self.config = machine.config
        self._lane_bits = self.config.buffers["acc"].entry_bits // self.config.lanes
        super().__init__({"gemm": In(acc_port(self.config.buffers["acc"])),
                          "vector": In(acc_port(self.config.parts["acc"]))})

    def elaborate(self, platform):
        m = Module()
        gemm, vector = self.gemm, self.vector
        m.d.comb += [
            vector.granted.eq(~(vector.request & gemm.hold).any()),
            gemm.granted.eq(~(gemm.request & (vector.hold | vector.request)).any()),
        ]
        banks = [self._bank(m, index) for index in range(2)]
        self._read(m, platform, "gemm", [Cat(parts) for parts in banks])
        self._read(m, platform, "vector", [part for parts in banks for part in parts])
        return m

    def _read(self, m: Module, platform, name: str, rows: list[Value]):
        """Selects from `rows`, the second bank's last, the row that the address names."""
        port, below = getattr(self, name), exact_log2(len(rows)) - 1
        select = Cat(port.r_addr[:below], port.r_addr[-1])
        select = delayed(m, select, RAM_CYCLES - 1, f"{name}_select", reset_less=True)
        row = Signal(len(port.r_data), name=f"{name}_row")
        bits = self._lane_bits
        for lane, chosen in enumerate(spread(m, platform, select, f"{name}_bank",
                                             len(port.r_data) // bits)):
            m.d.comb += row.word_select(lane, bits).eq(
                _selected([one.word_select(lane, bits) for one in rows], chosen))
        m.d.comb += port.r_data.eq(delayed(
            m, row, self.config.timing.read_cycles - RAM_CYCLES, f"{name}_row", reset_less=True))

    def _bank(self, m: Module, index: int) -> list[Value]:
        """One bank, driven by the unit that holds it: data of its parts, each a memory."""
        owner, whole, geometry = (self.vector.hold[index], self.config.buffers["acc"],
                                  self.config.parts["acc"])
        count, width = geometry.depth // whole.depth, geometry.entry_bits
        rams = [Ram(width, self.config.bank_depth) for _ in range(count)]
        for part, ram in enumerate(rams):
            m.submodules[f"bank{index}_{part}"] = ram
            for port, owns, parts in ((self.gemm, ~owner, 1), (self.vector, owner, count)):
                below = exact_log2(parts)

                def here(address: Value, part=part, below=below) -> Value:
                    inside = address[-1] == index
                    return inside & (address[:below] == part) if below else inside

                with m.If(owns):
                    m.d.comb += [
                        ram.r_addr.eq(port.r_addr[below:-1]),
                        ram.r_en.eq(port.r_en & here(port.r_addr)),
                        ram.w_addr.eq(port.w_addr[below:-1]),
                        ram.w_en.eq(port.w_en & here(port.w_addr)),
                        ram.w_data.eq(port.w_data.word_select(part % (count // parts), width)),
                    ]
        return [ram.r_data for ram in rams]


def _selected(values: list[Value], number: Value) -> Value:
    """Selects one of a power of two of values."""
    for bit in number:
        values = [Mux(bit, b, a) for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]
