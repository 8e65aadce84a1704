"""Memories of a core as an ECP5 has them: block RAMs and distributed RAM, counted exactly.

The rules are those of `accel.hw.parts.Ram` and `accel.hw.queue.Queue`. Synthesis drops a block RAM
of which no bit is read, and columns of distributed RAM.
"""

from collections.abc import Container, Iterable
from math import prod

from accel.datapath.plan import plan
from accel.hw.interface import INDEX_BITS
from accel.machine.config import PARAM_BYTES, BufferGeometry
from accel.machine.isa import WORD_BITS
from accel.machine.machine import Machine
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


def lookups(machine: Machine) -> int:
    """Read ports of tab, each with a copy of it."""
    return plan(machine, "vector").count("lookup")


def buffer_blocks(machine: Machine, instantiated: bool = False) -> dict[str, int]:
    """Block RAMs of each buffer, by its role; `instantiated`: before synthesis drops some, and
    infers others."""
    machine = machine.in_roles
    config = machine.config
    seen = config.buffers | config.parts

    def count(width: int, rows: int, used: Iterable[int] | None = None) -> int:
        if not instantiated:
            return blocks(width, rows, used)
        return blocks(width, rows) if rows <= _DEEPEST else 0

    def loaded(geometry: BufferGeometry) -> int:
        chunk_bytes = config.written_bytes(geometry.name)
        row_bytes = max(chunk_bytes, geometry.entry_bytes)
        each, used = _read(machine, geometry)
        chunk_bits = 8 * chunk_bytes
        return sum(count(chunk_bits, geometry.size_bytes // row_bytes, [
            bit for bit in range(chunk_bits) if (chunk_bits * chunk + bit) % each in used])
            for chunk in range(row_bytes // chunk_bytes))

    counts = {name: loaded(seen[name]) for name in ("inp", "wgt", "res", "par")}
    if ports := lookups(machine):
        counts["tab"] = ports * loaded(config.parts["tab"])
    out = config.parts["out"]
    row_bytes = max(config.bus_bytes, out.entry_bytes)
    slice_bytes = min(config.bus_bytes, out.entry_bytes)
    counts["out"] = row_bytes // slice_bytes * count(8 * slice_bytes, out.size_bytes // row_bytes)
    part = config.parts["acc"]
    banks = 2 * part.depth // config.buffers["acc"].depth
    counts["acc"] = banks * count(part.entry_bits, config.bank_depth)
    return counts


def _read(machine: Machine, geometry: BufferGeometry) -> tuple[int, Container[int]]:
    """The period with which bits of a buffer mean the same, and the bits of one that are read."""
    if geometry.name == "par":
        return 8 * PARAM_BYTES, _parameters(machine)
    bits_each = 8 * geometry.entry_bytes
    if geometry.name == "wgt":          # of which sparse products leave the end
        read = bits(machine.config.weight) * prod(plan(machine, "gemm").buses["wgt"])
        return bits_each, range(min(bits_each, read))
    return bits_each, range(bits_each)


def _parameters(machine: Machine) -> set[int]:
    """The bits of an element of par that the datapath reads."""
    read = {operation.node.attr[0] for operation in plan(machine, "vector").operations
            if operation.node.kind == "read"}
    fields = {name: place for record in (PARAM, *machine.config.records)
              for name, place in record_places(record).items()}
    return {8 * offset + bit for name, (dtype, offset) in fields.items()
            if name in read or name == "bias" for bit in range(bits(dtype))}


def queue_blocks(machine: Machine) -> dict[str, int]:
    """Block RAMs of each queue of instructions, where shallow memories are block RAMs."""
    machine, rows = machine.in_roles, 2 * machine.config.queue_depth
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
    rows = 2 * machine.config.queue_depth
    queues = 4 * (blocks(WORD_BITS, rows) + blocks(INDEX_BITS, rows))
    return sum(buffer_blocks(machine, instantiated=True).values()) + queues <= FULL
