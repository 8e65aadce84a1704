"""On-chip buffers that one unit writes and another one reads.

load and store move aligned *chunks* (of bus_bytes; load where elements are packed of
`AccelConfig.written_bytes`), compute units whole entries; either may be the wider one, and neither
need be a multiple of the other (`accel.machine.structure.rows`). Reads take `read_cycles`
(`accel.hw.parts.Ram`). Reading a place in the cycle in which it is written gives undefined data:
the tokens keep reader and writer apart.
"""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature
from amaranth.utils import exact_log2

from accel.hw.interface import chunk_write, entry_read, table_read
from accel.hw.parts import RAM_CYCLES, Ram, delayed, divided
from accel.machine.config import AccelConfig, BufferGeometry
from accel.machine.structure.rows import MemoryRows


def chunk_read(config: AccelConfig, buffer: str) -> Signature:
    """Read port of a buffer as store sees it: an aligned chunk of bus_bytes."""
    chunks = config.rows_of(config.buffers[buffer], writes=True).chunks
    return Signature({"addr": Out(range(chunks)), "en": Out(1), "data": In(config.bus_bytes * 8)})


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


def _selected(m: Module, row: list[Value], select: Value, width: int, extra: int,
              count: int = 1) -> Value:
    """The part of a row that an address selected, `extra` cycles later than the memory: `count`
    words from the selected one on, after the last the first."""
    select = delayed(m, select, RAM_CYCLES, "select", reset_less=True)
    words = Cat(row)
    part = Cat(words.rotate_right(number * width).word_select(select, width)
               for number in range(count)) if count > 1 else words.word_select(select, width)
    return delayed(m, part, extra, "part", reset_less=True)


def _place(rows: MemoryRows, chunk: Value) -> tuple[Value, Value]:
    """The row and the slice of it in which a chunk begins."""
    return divided(Cat(Const(0, exact_log2(rows.chunk_slices)), chunk)
                   if rows.chunk_slices > 1 else chunk, rows.slices)


def _chosen(word: Value, cases: list[tuple[Value, int]], width: int) -> Value:
    """The part of a word whose test holds, of tests of which one holds at most; of one case the
    word."""
    if len(cases) == 1:
        return word
    result: Value = Const(0, width)
    for test, number in cases:
        result = result | Mux(test, word.word_select(number, width), 0)
    return result


class InputScratchpad(wiring.Component):
    """A buffer that load writes and a compute unit reads.

    A chunk that is written in cycle t is seen by a read whose address comes in t + 1 or later, in
    t + 2 where rows divide (`MemoryRows.divides`); an address in cycle t gives its entry in
    t + `read_cycles`. One chunk and one entry a cycle.

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
        self._rows = config.rows_of(geometry, writes=False)
        super().__init__({"write": In(chunk_write(config, geometry.name)),
                          "read": In(entry_read(geometry))})

    def elaborate(self, platform):
        m = Module()
        rows, entry = self._rows, exact_log2(self._rows.entries)
        line, first, data, mask = self._placed(m)
        row = []
        for index, ram in enumerate(_slices(m, rows.slices, rows.slice_bytes, rows.count, 8)):
            parts = [(first == (index - part) % rows.slices, part)
                     for part in range(rows.chunk_slices)]
            m.d.comb += [
                ram.w_addr.eq(line + (index < first) if len(parts) > 1 else line),
                ram.w_data.eq(_chosen(data, parts, rows.slice_bytes * 8)),
                ram.w_en.eq(_chosen(mask, parts, rows.slice_bytes) if len(parts) > 1
                            else Mux(first == index, mask, 0)),
                ram.r_addr.eq(self.read.addr[entry:]), ram.r_en.eq(self.read.en),
            ]
            row.append(ram.r_data)
        m.d.comb += self.read.data.eq(_selected(m, row, self.read.addr[:entry],
                                                rows.entry_bytes * 8, self._extra))
        return m

    def _placed(self, m: Module) -> tuple[Value, ...]:
        """Row and slice in which a chunk begins, its data and mask; registers where the bits of an
        address do not say it."""
        port = self.write
        place = (*_place(self._rows, port.addr), port.data, port.mask)
        if not self._rows.divides:
            return place
        names = ("line", "first", "data", "mask")
        return tuple(delayed(m, value, 1, name, reset_less=name != "mask")
                     for name, value in zip(names, place, strict=True))


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
                          "read": In(table_read((geometry.depth - 1).bit_length(), ports))})

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
        self._rows = config.rows_of(geometry, writes=True)
        super().__init__({"write": In(entry_write(geometry)),
                          "read": In(chunk_read(config, geometry.name))})

    def elaborate(self, platform):
        m = Module()
        rows, entry = self._rows, exact_log2(self._rows.entries)
        line, first = _place(rows, self.read.addr)
        piece = rows.piece_bytes
        per_entry, per_slice = rows.entry_bytes // piece, rows.slice_bytes // piece
        w_select = self.write.w_addr[:entry]
        row = []
        for index, ram in enumerate(_slices(m, rows.row_bytes // piece, piece, rows.count)):
            at = index // per_slice
            m.d.comb += [
                ram.w_addr.eq(self.write.w_addr[entry:]),
                ram.w_data.eq(self.write.w_data.word_select(index % per_entry, piece * 8)),
                ram.w_en.eq(self.write.w_en & (w_select == index // per_entry)),
                ram.r_addr.eq(line + (at < first) if rows.chunk_slices > 1 else line),
                ram.r_en.eq(self.read.en),
            ]
            row.append(ram.r_data)
        m.d.comb += self.read.data.eq(_selected(m, row, first, rows.slice_bytes * 8, self._extra,
                                                rows.chunk_slices))
        return m
