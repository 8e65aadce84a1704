"""A buffer of two banks between the units that compute: the accumulators."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.utils import exact_log2

from accel.hw.interface import acc_port
from accel.hw.issue import bank_place
from accel.hw.parts import RAM_CYCLES, Ram, delayed, spread
from accel.machine.machine import Machine
from accel.machine.structure import UnitKind


class Acc(wiring.Component):
    """Two banks of equal depth (a power of two: the top address bit), each with one read and one
    write port. gemm addresses entries, vector parts of them (`AccelConfig.parts`). There is a port
    for each unit that uses it, of the unit's name.

    A unit uses only banks that it holds. Data appear `read_cycles` after the address, every
    cycle a new one; a read sees the writes of the cycles before its address, not of its own.
    `granted` is combinational: a unit gets what no other one holds, and none after it in the list
    of units asks for in the same cycle.
    """

    def __init__(self, machine: Machine, name: str | None = None):
        self.config = machine.config
        name = name or machine.structure.roles.acc
        self._whole, self._parts = self.config.buffers[name], self.config.parts[name]
        self._lane_bits = self._whole.entry_bits // self.config.lanes
        self._seen = {unit.name: self._parts if unit.kind is UnitKind.VECTOR else self._whole
                      for unit in machine.structure.users(name)}
        super().__init__({unit: In(acc_port(seen)) for unit, seen in self._seen.items()})

    def elaborate(self, platform):
        m = Module()
        ports = [getattr(self, unit) for unit in self._seen]
        for number, port in enumerate(ports):
            taken = [other.hold | other.request if later > number else other.hold
                     for later, other in enumerate(ports) if later != number]
            m.d.comb += port.granted.eq(~(port.request & _any(taken)).any())
        banks = [self._bank(m, index) for index in range(2)]
        for unit, seen in self._seen.items():
            rows = ([Cat(parts) for parts in banks] if seen is self._whole
                    else [part for parts in banks for part in parts])
            self._read(m, platform, unit, rows)
        return m

    def _read(self, m: Module, platform, name: str, rows: list[Value]):
        """Selects from `rows`, the second bank's last, the row that the address names."""
        port, below = getattr(self, name), exact_log2(len(rows)) - 1
        bank, _ = bank_place(port.r_addr[below:], self._whole.depth)
        select = Cat(port.r_addr[:below], bank)
        select = delayed(m, select, RAM_CYCLES - 1, f"{name}_select", reset_less=True)
        row = Signal(len(port.r_data), name=f"{name}_row")
        bits = self._lane_bits
        for lane, chosen in enumerate(spread(m, platform, select, f"{name}_bank",
                                             len(port.r_data) // bits)):
            m.d.comb += row.word_select(lane, bits).eq(
                _selected([one.word_select(lane, bits) for one in rows], chosen))
        m.d.comb += port.r_data.eq(delayed(
            m, row, self.config.timing.extra("read_cycles"), f"{name}_row", reset_less=True))

    def _bank(self, m: Module, index: int) -> list[Value]:
        """One bank, driven by the unit that holds it: data of its parts, each a memory."""
        count, width = self._parts.depth // self._whole.depth, self._parts.entry_bits
        first, *others = self._seen
        holds = [getattr(self, unit).hold[index] for unit in others]
        owners = {first: ~_any(holds)} | dict(zip(others, holds, strict=True))
        rams = [Ram(width, self.config.bank_depth) for _ in range(count)]
        for part, ram in enumerate(rams):
            m.submodules[f"bank{index}_{part}"] = ram
            for unit, seen in self._seen.items():
                port, parts = getattr(self, unit), seen.depth // self._whole.depth
                below = exact_log2(parts)

                def place(address: Value, part=part, below=below) -> tuple[Value, Value]:
                    bank, row = bank_place(address[below:], self._whole.depth)
                    inside = bank == index
                    return inside & (address[:below] == part) if below else inside, row

                (reads, r_row), (writes, w_row) = place(port.r_addr), place(port.w_addr)
                with m.If(owners[unit]):
                    m.d.comb += [
                        ram.r_addr.eq(r_row), ram.r_en.eq(port.r_en & reads),
                        ram.w_addr.eq(w_row), ram.w_en.eq(port.w_en & writes),
                        ram.w_data.eq(port.w_data.word_select(part % (count // parts), width)),
                    ]
        return [ram.r_data for ram in rams]


def _any(values: list[Value]) -> Value:
    """The values, bit by bit: set where one of them is."""
    result: Value = Const(0)
    for number, value in enumerate(values):
        result = result | value if number else value
    return result


def _selected(values: list[Value], number: Value) -> Value:
    """Selects one of a power of two of values."""
    for bit in number:
        values = [Mux(bit, b, a) for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]
