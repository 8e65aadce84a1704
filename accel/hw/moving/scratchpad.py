"""On-chip buffers that one unit writes and another one reads.

load and store move aligned *chunks* (of bus_bytes; load where elements are packed of
`AccelConfig.written_bytes`),
compute units whole entries; either may be the wider one. Reads take `read_cycles`
(`accel.hw.parts.Ram`). Reading a place in the cycle in which it is written gives undefined data:
the tokens keep reader and writer apart.
"""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature
from amaranth.utils import exact_log2

from accel.hw.interface import chunk_write, entry_read, table_read
from accel.hw.parts import RAM_CYCLES, Ram, delayed
from accel.machine.config import AccelConfig, BufferGeometry


def chunk_read(config: AccelConfig, buffer: str) -> Signature:
    """Read port of a buffer as store sees it: an aligned chunk of bus_bytes."""
    geometry = config.buffers[buffer]
    return Signature({"addr": Out(range(geometry.size_bytes // config.bus_bytes)), "en": Out(1),
                      "data": In(config.bus_bytes * 8)})


def entry_write(geometry: BufferGeometry) -> Signature:
    """Write port of a buffer as vector sees it: one entry a cycle."""
    return Signature({"w_addr": Out(range(geometry.depth)), "w_en": Out(1),
                      "w_data": Out(geometry.entry_bytes * 8)})


def _slices(m: Module, count: int, slice_bytes: int, rows: int,
            granularity: int | None = None) -> list[Ram]:
    """RAMs side by side: a row of the buffer is a row of all of them."""
    storage = []
    for index in range(count):
        m.submodules[f"slice{index}"] = ram = Ram(slice_bytes * 8, rows, granularity)
        storage.append(ram)
    return storage


def _selected(m: Module, row: list[Value], select: Value, width: int, extra: int) -> Value:
    """The part of a row that an address selected, `extra` cycles later than the memory."""
    select = delayed(m, select, RAM_CYCLES, "select", reset_less=True)
    part = Cat(row).word_select(select, width)
    return delayed(m, part, extra, "part", reset_less=True)


class InputScratchpad(wiring.Component):
    """A buffer that load writes and a compute unit reads.

    A chunk that is written in cycle t is seen by a read whose address comes in t + 1 or later; an
    address in cycle t gives its entry in t + `read_cycles`. One chunk and one entry a cycle.

    Parameters
    ----------
    geometry : the buffer as its reader sees it (`AccelConfig.buffers`, `AccelConfig.parts`).

    Members
    -------
    write : chunks with a byte mask.
    read : entries.
    """

    def __init__(self, config: AccelConfig, geometry: BufferGeometry):
        self._extra = config.timing.extra("read_cycles")
        self._chunk_bytes = config.written_bytes(geometry.name)
        self._entry_bytes = geometry.entry_bytes
        self._row_bytes = max(self._chunk_bytes, geometry.entry_bytes)
        self._rows = geometry.size_bytes // self._row_bytes
        super().__init__({"write": In(chunk_write(config, geometry.name)),
                          "read": In(entry_read(geometry))})

    def elaborate(self, platform):
        m = Module()
        chunks = self._row_bytes // self._chunk_bytes    # in a row
        entries = self._row_bytes // self._entry_bytes
        w_select = self.write.addr[:exact_log2(chunks)]
        row = []
        for index, ram in enumerate(_slices(m, chunks, self._chunk_bytes, self._rows, 8)):
            m.d.comb += [
                ram.w_addr.eq(self.write.addr[exact_log2(chunks):]),
                ram.w_data.eq(self.write.data),
                ram.w_en.eq(Mux(w_select == index, self.write.mask, 0)),
                ram.r_addr.eq(self.read.addr[exact_log2(entries):]),
                ram.r_en.eq(self.read.en),
            ]
            row.append(ram.r_data)
        m.d.comb += self.read.data.eq(_selected(m, row, self.read.addr[:exact_log2(entries)],
                                                self._entry_bytes * 8, self._extra))
        return m


class TableScratchpad(wiring.Component):
    """A buffer of tables, which load writes and lanes of vector read: a copy for each read port.

    As `InputScratchpad`: a chunk that is written in cycle t is seen by a read whose address comes
    in t + 1 or later; an address in cycle t gives its byte in t + `read_cycles`. One chunk a
    cycle, and one byte at every read port.

    Parameters
    ----------
    geometry : the buffer as its reader sees it (`AccelConfig.parts`).
    ports : read ports, at least one.

    Members
    -------
    write : chunks with a byte mask.
    read : bytes; entry 1 begins at address 256.
    """

    def __init__(self, config: AccelConfig, geometry: BufferGeometry, ports: int):
        self._config, self._geometry, self._ports = config, geometry, ports
        super().__init__({"write": In(chunk_write(config, geometry.name)),
                          "read": In(table_read(exact_log2(geometry.depth), ports))})

    def elaborate(self, platform):
        m = Module()
        for port in range(self._ports):
            m.submodules[f"copy{port}"] = copy = InputScratchpad(self._config, self._geometry)
            m.d.comb += [
                *(getattr(copy.write, name).eq(getattr(self.write, name))
                  for name in ("addr", "data", "mask")),
                copy.read.addr.eq(self.read.addr[port]), copy.read.en.eq(self.read.en[port]),
                self.read.data[port].eq(copy.read.data),
            ]
        return m


class OutputScratchpad(wiring.Component):
    """A buffer that a compute unit writes and store reads.

    An entry that is written in cycle t is seen by a read whose address comes in t + 1 or later; an
    address in cycle t gives its chunk in t + `read_cycles`. One entry and one chunk a cycle.

    Parameters
    ----------
    geometry : the buffer as its writer sees it (`AccelConfig.parts`).

    Members
    -------
    write : entries.
    read : chunks.
    """

    def __init__(self, config: AccelConfig, geometry: BufferGeometry):
        self._extra = config.timing.extra("read_cycles")
        self._bus_bytes, self._entry_bytes = config.bus_bytes, geometry.entry_bytes
        self._row_bytes = max(config.bus_bytes, geometry.entry_bytes)
        self._rows = geometry.size_bytes // self._row_bytes
        super().__init__({"write": In(entry_write(geometry)),
                          "read": In(chunk_read(config, geometry.name))})

    def elaborate(self, platform):
        m = Module()
        chunks = self._row_bytes // self._bus_bytes      # in a row
        entries = self._row_bytes // self._entry_bytes
        slice_bytes = min(self._bus_bytes, self._entry_bytes)
        width = slice_bytes * 8
        w_select = self.write.w_addr[:exact_log2(entries)]
        row = []
        for index, ram in enumerate(_slices(m, self._row_bytes // slice_bytes, slice_bytes,
                                            self._rows)):
            m.d.comb += [
                ram.w_addr.eq(self.write.w_addr[exact_log2(entries):]),
                ram.w_data.eq(self.write.w_data.word_select(index % chunks, width)),
                ram.w_en.eq(self.write.w_en & (w_select == index // chunks)),
                ram.r_addr.eq(self.read.addr[exact_log2(chunks):]),
                ram.r_en.eq(self.read.en),
            ]
            row.append(ram.r_data)
        m.d.comb += self.read.data.eq(_selected(m, row, self.read.addr[:exact_log2(chunks)],
                                                self._bus_bytes * 8, self._extra))
        return m
