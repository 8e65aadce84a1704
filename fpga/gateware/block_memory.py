"""An FPGA's own block RAM behind the core's memory port, for boards without a memory chip."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In
from amaranth.utils import exact_log2

from accel.hw.interface import memory_port
from accel.hw.parts import Ram
from accel.machine.config import AccelConfig
from accel.machine.dram import Dram

BANK_ROWS = 1 << 14         # of a block RAM at its narrowest
KEPT_BEATS = 8
READ_CYCLES = 4             # address, memory, its output register, the choice of a bank
KEEP_CYCLES = 2             # of the queue of beats

BLOCK_MEMORY = Dram(latency=READ_CYCLES + KEEP_CYCLES, outstanding=1, in_order=True)
"""The memory that a simulator takes for it."""


class BlockMemory(wiring.Component):
    """Performs requests one after another, a beat a cycle.

    Members
    -------
    mem : a memory port; addresses beyond the memory are answered with an error.

    Parameters
    ----------
    config : the configuration of the port.
    size_bytes : a power of two.
    """

    def __init__(self, config: AccelConfig, size_bytes: int):
        self._bus_bytes, self._size = config.bus_bytes, size_bytes
        if size_bytes & (size_bytes - 1) or size_bytes < 4 * config.bus_bytes:
            raise ValueError(f"Size of a memory of block RAM must be a power of two of at least "
                             f"{4 * config.bus_bytes} bytes, not {size_bytes}")
        super().__init__({"mem": In(memory_port(config))})

    def elaborate(self, platform):
        m = Module()
        mem, beat = self.mem, exact_log2(self._bus_bytes)
        rows = self._size // self._bus_bytes
        busy, writes, wrong = Signal(), Signal(), Signal()
        left = Signal.like(mem.request.p.last)
        row, room = Signal(range(rows)), Signal(range(KEPT_BEATS + 1), init=KEPT_BEATS)
        read, write, ends = Signal(), Signal(), Signal()
        m.d.comb += [
            write.eq(busy & writes & mem.wdata.valid), mem.wdata.ready.eq(busy & writes),
            read.eq(busy & ~writes & (room != 0)), ends.eq((read | write) & (left == 0)),
            mem.request.ready.eq(~busy | ends),
        ]
        with m.If(read | write):
            m.d.sync += [row.eq(row + 1), left.eq(left - 1)]
        with m.If(mem.request.ready):
            asked = mem.request.p
            m.d.sync += [busy.eq(mem.request.valid), writes.eq(asked.write), left.eq(asked.last),
                         row.eq(asked.addr[beat:]),
                         wrong.eq(asked.addr[exact_log2(self._size):] != 0)]
        m.d.sync += [mem.ack.valid.eq(ends & writes), mem.ack.p.error.eq(wrong)]
        data = self._banks(m, row, read, write & ~wrong)

        m.submodules.kept = kept = SyncFIFOBuffered(width=8 * self._bus_bytes + 1,
                                                    depth=KEPT_BEATS)
        coming, errors = Signal(READ_CYCLES), Signal(READ_CYCLES)      # beats, by their age
        m.d.sync += [coming.eq(Cat(read, coming)), errors.eq(Cat(wrong, errors)),
                     room.eq(room - read + (mem.rdata.valid & mem.rdata.ready))]
        m.d.comb += [
            kept.w_en.eq(coming[-1]), kept.w_data.eq(Cat(data, errors[-1])),
            Cat(mem.rdata.p.data, mem.rdata.p.error).eq(kept.r_data),
            mem.rdata.valid.eq(kept.r_rdy), kept.r_en.eq(mem.rdata.ready),
        ]
        return m

    def _banks(self, m: Module, row: Value, read: Value, write: Value) -> Value:
        """The beat of a row, `READ_CYCLES` after its request."""
        rows = min(self._size // self._bus_bytes, BANK_ROWS)
        count = self._size // self._bus_bytes // rows
        low = exact_log2(rows)
        addr, reading = Signal.like(row), Signal()
        data, mask = Signal(8 * self._bus_bytes), Signal(self._bus_bytes)
        m.d.sync += [addr.eq(row), reading.eq(read), data.eq(self.mem.wdata.p.data),
                     mask.eq(Mux(write, self.mem.wdata.p.mask, 0))]
        bank = addr[low:]
        first, second = Signal.like(bank), Signal.like(bank)
        m.d.sync += [first.eq(bank), second.eq(first)]
        blocks = []
        for number in range(count):
            m.submodules[f"bank{number}"] = ram = Ram(8 * self._bus_bytes, rows, granularity=8)
            here = bank == number
            m.d.comb += [
                ram.w_addr.eq(addr[:low]), ram.w_data.eq(data), ram.w_en.eq(Mux(here, mask, 0)),
                ram.r_addr.eq(addr[:low]), ram.r_en.eq(reading),
            ]
            blocks.append(ram.r_data)
        output = Signal(8 * self._bus_bytes)
        m.d.sync += output.eq(Array(blocks)[second])
        return output
