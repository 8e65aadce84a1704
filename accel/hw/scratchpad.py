"""On-chip buffers that one unit writes and another one reads.

load and store move aligned *chunks* of bus_bytes, compute units whole entries; either may be the
wider one. Reads take `READ_LATENCY` cycles: the RAM's own register, then an output register (block
RAMs are several times faster with it). Reading a place in the very cycle in which it is written
gives undefined data: the tokens keep reader and writer apart.
"""

from amaranth.hdl import *
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out, Signature
from amaranth.utils import exact_log2

from accel.config import AccelConfig
from accel.hw.interface import READ_LATENCY, chunk_write, entry_read

__all__ = ["InputScratchpad", "OutputScratchpad", "chunk_read", "entry_write"]

assert READ_LATENCY == 2


def chunk_read(config: AccelConfig, buffer: str) -> Signature:
    """Read port of a buffer as store sees it: an aligned chunk of bus_bytes."""
    geometry = config.buffers[buffer]
    return Signature({"addr": Out(range(geometry.size_bytes // config.bus_bytes)), "en": Out(1),
                      "data": In(config.bus_bytes * 8)})


def entry_write(config: AccelConfig, buffer: str) -> Signature:
    """Write port of a buffer as vector sees it: a whole entry."""
    geometry = config.buffers[buffer]
    return Signature({"w_addr": Out(range(geometry.depth)), "w_en": Out(1),
                      "w_data": Out(geometry.entry_bytes * 8)})


def _slices(m: Module, count: int, slice_bytes: int, rows: int) -> list[memory.Memory]:
    """RAMs side by side: a row of the buffer is a row of all of them."""
    storage = []
    for index in range(count):
        one = memory.Memory(shape=slice_bytes * 8, depth=rows, init=[])
        m.submodules[f"slice{index}"] = one
        storage.append(one)
    return storage


class InputScratchpad(wiring.Component):
    """A buffer that load writes and a compute unit reads: inp, wgt, res, par.

    A chunk that is written in cycle t is seen by a read whose address comes in t + 1 or later; an
    address in cycle t gives its entry in t + `READ_LATENCY`. One chunk and one entry a cycle.

    Members
    -------
    write : chunks with a byte mask.
    read : entries.
    """

    def __init__(self, config: AccelConfig, buffer: str):
        geometry = config.buffers[buffer]
        self._bus_bytes, self._entry_bytes = config.bus_bytes, geometry.entry_bytes
        self._row_bytes = max(config.bus_bytes, geometry.entry_bytes)
        self._rows = geometry.size_bytes // self._row_bytes
        super().__init__({"write": In(chunk_write(config, buffer)),
                          "read": In(entry_read(config, buffer))})

    def elaborate(self, platform):
        m = Module()
        chunks = self._row_bytes // self._bus_bytes      # in a row
        entries = self._row_bytes // self._entry_bytes
        w_select = self.write.addr[:exact_log2(chunks)]
        r_select = Signal(exact_log2(entries))
        row = []
        for index, one in enumerate(_slices(m, chunks, self._bus_bytes, self._rows)):
            w_port, r_port = one.write_port(granularity=8), one.read_port()
            m.d.comb += [
                w_port.addr.eq(self.write.addr[exact_log2(chunks):]),
                w_port.data.eq(self.write.data),
                w_port.en.eq(Mux(w_select == index, self.write.mask, 0)),
                r_port.addr.eq(self.read.addr[exact_log2(entries):]),
                r_port.en.eq(self.read.en),
            ]
            row.append(r_port.data)
        output = Signal.like(self.read.data, reset_less=True)
        m.d.sync += [r_select.eq(self.read.addr[:exact_log2(entries)]),
                     output.eq(Cat(row).word_select(r_select, self._entry_bytes * 8))]
        m.d.comb += self.read.data.eq(output)
        return m


class OutputScratchpad(wiring.Component):
    """A buffer that a compute unit writes and store reads: out.

    An entry that is written in cycle t is seen by a read whose address comes in t + 1 or later; an
    address in cycle t gives its chunk in t + `READ_LATENCY`. One entry and one chunk a cycle.

    Members
    -------
    write : entries.
    read : chunks.
    """

    def __init__(self, config: AccelConfig, buffer: str):
        geometry = config.buffers[buffer]
        self._bus_bytes, self._entry_bytes = config.bus_bytes, geometry.entry_bytes
        self._row_bytes = max(config.bus_bytes, geometry.entry_bytes)
        self._rows = geometry.size_bytes // self._row_bytes
        super().__init__({"write": In(entry_write(config, buffer)),
                          "read": In(chunk_read(config, buffer))})

    def elaborate(self, platform):
        m = Module()
        chunks = self._row_bytes // self._bus_bytes      # in a row
        entries = self._row_bytes // self._entry_bytes
        slice_bytes = min(self._bus_bytes, self._entry_bytes)
        width = slice_bytes * 8
        w_select = self.write.w_addr[:exact_log2(entries)]
        r_select = Signal(exact_log2(chunks))
        row = []
        for index, one in enumerate(_slices(m, self._row_bytes // slice_bytes, slice_bytes,
                                            self._rows)):
            w_port, r_port = one.write_port(), one.read_port()
            m.d.comb += [
                w_port.addr.eq(self.write.w_addr[exact_log2(entries):]),
                w_port.data.eq(self.write.w_data.word_select(index % chunks, width)),
                w_port.en.eq(self.write.w_en & (w_select == index // chunks)),
                r_port.addr.eq(self.read.addr[exact_log2(chunks):]),
                r_port.en.eq(self.read.en),
            ]
            row.append(r_port.data)
        output = Signal.like(self.read.data, reset_less=True)
        m.d.sync += [r_select.eq(self.read.addr[:exact_log2(chunks)]),
                     output.eq(Cat(row).word_select(r_select, self._bus_bytes * 8))]
        m.d.comb += self.read.data.eq(output)
        return m
