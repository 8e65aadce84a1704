"""Memories of a core as an ECP5 has them: block RAMs and distributed RAM, counted exactly.

The rules are those of `accel.hw.parts.Ram` and `accel.hw.queue.Queue`. Synthesis drops a block RAM
of which no bit is read, and columns of distributed RAM.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from math import prod

from accel.datapath.plan import plan
from accel.hw.interface import INDEX_BITS
from accel.machine.config import PARAM_BYTES, BufferGeometry
from accel.machine.isa import WORD_BITS
from accel.machine.machine import Machine
from accel.machine.structure import Unit, UnitKind
from compiler.ops.integers.arithmetic import PARAM
from compiler.te import bits, record_places

FULL = 156
"""Block RAMs of an ECP5-85F above which shallow memories use none: `fpga.building.build.FULL` of
them."""

_DEEPEST = 16384


def blocks(width: int, rows: int, used: Iterable[int] | None = None) -> int:
    """Block RAMs of a memory side by side; of a row only the bits `used` are read."""
    if rows > _DEEPEST:
        return -(-width * rows // _DEEPEST)
    each = min(32, _DEEPEST >> max(rows - 1, 1).bit_length())
    return len({bit // each for bit in (range(width) if used is None else used)})


def distributed(width: int, depth: int) -> int:
    """Cells of distributed RAM, of 16 rows of four bits."""
    return -(-width // 4) * -(-depth // 16)


@dataclass(frozen=True)
class BufferCopy:
    """A buffer as one of its readers sees it: every reader has a memory of its own.

    Parameters
    ----------
    buffer, reader : the name of the buffer, and the unit.
    seen : its entries as the unit that computes sees them: the reader, or else the writer.
    part : the name of its component.
    like : the role of the buffer of shipped machines that is built as it is.
    ports : memories that it has, each with all bytes: of tables of vector one for each lookup.
    """

    buffer: str
    reader: Unit
    seen: BufferGeometry
    part: str
    like: str
    ports: int = 1


def buffer_copies(machine: Machine) -> Iterator[BufferCopy]:
    """The memories of buffers of one bank, as `accel.hw.core.core` places them between units."""
    structure = machine.structure
    for buffer in structure.buffers:
        readers = [unit for unit in structure.units if buffer.banks == 1
                   and buffer.name in unit.reads]
        found = [(reader, _ports(machine, buffer.name, reader)) for reader in readers]
        (writer, *_) = (unit for unit in structure.units if buffer.name in unit.writes)
        for number, (reader, ports) in enumerate(one for one in found if one[1]):
            seen = machine.config.seen(writer if reader.kind.moves else reader, buffer.name)
            part = f"{buffer.name}_{reader.name}" if number else buffer.name
            yield BufferCopy(buffer.name, reader, seen, part, _like(buffer.name, reader), ports)


def _ports(machine: Machine, buffer: str, reader: Unit) -> int:
    """Read ports of a buffer for a unit; of tables of vector one for each lookup, of which there
    may be none."""
    looks_up = reader.kind is UnitKind.VECTOR and buffer in reader.at("table")
    return plan(machine, reader.name).count("lookup") if looks_up else 1


def _like(buffer: str, reader: Unit) -> str:
    if reader.kind.moves:
        return "out"
    if reader.kind is UnitKind.GEMM:
        return "inp" if buffer in reader.at("a") else "wgt"
    known = {"record": "par", "table": "tab"} if reader.kind is UnitKind.VECTOR else {}
    return next((role for operand, role in known.items() if buffer in reader.at(operand)), "res")


def buffer_blocks(machine: Machine, instantiated: bool = False) -> dict[str, int]:
    """Block RAMs of each copy of a buffer, by its component, of a machine whose units and buffers
    are called by their roles; `instantiated`: before synthesis drops some, and infers others."""
    config = machine.config

    def count(width: int, rows: int, used: Iterable[int] | None = None) -> int:
        if not instantiated:
            return blocks(width, rows, used)
        return blocks(width, rows) if rows <= _DEEPEST else 0

    def loaded(copy: BufferCopy) -> int:
        rows, (each, used) = config.rows_of(copy.seen, writes=False), _read(machine, copy)
        width = 8 * rows.slice_bytes
        return copy.ports * sum(count(width, rows.count, [
            bit for bit in range(width) if (width * part + bit) % each in used])
            for part in range(rows.slices))

    def stored(copy: BufferCopy) -> int:
        rows = config.rows_of(copy.seen, writes=True)
        return rows.row_bytes // rows.piece_bytes * count(8 * rows.piece_bytes, rows.count)

    counts = {copy.part: (stored if copy.like == "out" else loaded)(copy)
              for copy in buffer_copies(machine)}
    part = config.parts["acc"]
    banks = 2 * part.depth // config.buffers["acc"].depth
    return counts | {"acc": banks * count(part.entry_bits, config.bank_depth)}


def memory_shapes(machine: Machine) -> Counter[tuple[int, int]]:
    """Memories of buffers, of queues of instructions and of the shared scratchpad, counted by their
    rows and bits of a row."""
    machine = machine.in_roles
    config = machine.config
    found: Counter[tuple[int, int]] = Counter()
    for copy in buffer_copies(machine):
        rows = config.rows_of(copy.seen, writes=copy.like == "out")
        each, count = (rows.piece_bytes, rows.row_bytes // rows.piece_bytes) if (
            copy.like == "out") else (rows.slice_bytes, copy.ports * rows.slices)
        found[rows.count, 8 * each] += count
    part = config.parts["acc"]
    parts = config.buffers["acc"].entry_bits // part.entry_bits
    found[config.bank_depth, part.entry_bits] += 2 * parts
    found[2 * config.queue_depth, WORD_BITS] += len(machine.structure.units)
    if config.shared_bytes:
        found[config.shared_bytes // config.bus_bytes, 8 * config.bus_bytes] += 1
    return found


def _read(machine: Machine, copy: BufferCopy) -> tuple[int, Container[int]]:
    """The period with which bits of a buffer mean the same, and the bits of one that are read."""
    if copy.like == "par":
        return 8 * PARAM_BYTES, _parameters(machine, copy.reader.name)
    bits_each = 8 * copy.seen.entry_bytes
    if copy.like == "wgt":              # of which sparse products leave the end
        read = bits(machine.config.weight) * prod(plan(machine, "gemm").buses["wgt"])
        return bits_each, range(min(bits_each, read))
    return bits_each, range(bits_each)


def _parameters(machine: Machine, unit: str) -> set[int]:
    """The bits of an element of par that the datapath of a unit reads."""
    read = {operation.node.attr[0] for operation in plan(machine, unit).operations
            if operation.node.kind == "read"}
    fields = {name: place for record in (PARAM, *machine.config.records)
              for name, place in record_places(record).items()}
    return {8 * offset + bit for name, (dtype, offset) in fields.items()
            if name in read or name == "bias" for bit in range(bits(dtype))}


def queue_blocks(machine: Machine) -> dict[str, int]:
    """Block RAMs of each queue of instructions, where shallow memories are block RAMs."""
    rows = 2 * machine.config.queue_depth
    return {unit: blocks(WORD_BITS, rows, _word(machine, unit)) + blocks(INDEX_BITS, rows)
            for unit in machine.structure.names}


def _word(machine: Machine, unit: str) -> set[int]:
    """The bits of an instruction of a unit that the unit reads."""
    layout = machine.formats[unit]
    used = {bit for name, field in layout if name not in ("reserved", "flags")
            for bit in range(field.offset, field.offset + field.width)}
    used |= {bit for field in machine.immediates.get(unit, {}).values()
             for bit in range(field.offset, field.offset + field.width)}
    if unit == "store":                 # which never pads
        loops = layout["loops"]
        for _, loop in loops.shape:
            used -= {loops.offset + loop.offset + field.offset + bit for name, field in loop.shape
                     if name in ("before", "after") for bit in range(field.width)}
    return used


def shallow_blocks(machine: Machine) -> bool:
    """True if queues of instructions are block RAMs: where enough are left."""
    machine, rows = machine.in_roles, 2 * machine.config.queue_depth
    queues = len(machine.structure.units) * (blocks(WORD_BITS, rows) + blocks(INDEX_BITS, rows))
    shared = blocks(8 * machine.config.bus_bytes,
                    machine.config.shared_bytes // machine.config.bus_bytes)
    return sum(buffer_blocks(machine, instantiated=True).values()) + queues + shared <= FULL
