"""Accesses of an instruction: operands and exact address sets.

`touches` binds the operands of one instruction to memories and to the affine walks of its loops;
it is what the functional simulator executes, and what whole streams follow (`batches.py`). A
**memory** is a buffer or a DRAM segment (`isa.BASES`). Addresses count bytes from its start, in acc
entries.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from accel.machine import isa
from accel.machine.config import WEIGHT_BITS
from accel.machine.declare import InstructionForm
from accel.machine.intrinsics import operand_field
from accel.machine.machine import Machine
from accel.machine.program import Instruction
from accel.machine.status import Status
from accel.machine.streams import StreamForm
from accel.machine.structure import FETCH, IMMEDIATE, UnitKind
from compiler.latency_hiding import AddressSet, Event
from compiler.lazy import cached_property
from compiler.te import numpy_dtype

WRITABLE = ("activations", "io")
"""Segments that a program may store to."""

CONSTANT = tuple(base for base in isa.BASES if base not in WRITABLE)

_FEW, _LONG = 4, 512    # intervals worth an Access of their own: few, or long


class Fault(Exception):
    """An instruction's error: the status that the machine reports, and a sentence."""

    def __init__(self, status: Status, sentence: str):
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Walk:
    """Addresses ``(base + sum of index * stride) mod modulus`` over loops, first outermost."""

    base: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    modulus: int

    @property
    def count(self) -> int:
        return prod(self.extents)

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Lowest and highest address."""
        low, high = self._plain
        if 0 <= low and high < self.modulus:
            return low, high
        addresses = self.addresses()
        return int(addresses.min()), int(addresses.max())

    @cached_property
    def _plain(self) -> tuple[int, int]:
        """The bounds without the modulus."""
        reach = [(extent - 1) * stride for extent, stride in zip(self.extents, self.strides)]
        return (self.base + sum(r for r in reach if r < 0),
                self.base + sum(r for r in reach if r > 0))

    @property
    def wraps(self) -> bool:
        low, high = self._plain
        return low < 0 or high >= self.modulus

    def addresses(self) -> np.ndarray:
        """The address of every iteration: int64, of the shape of the loops."""
        rank = len(self.extents)
        total = np.full((1,) * rank, self.base, np.int64)
        for axis, (extent, stride) in enumerate(zip(self.extents, self.strides)):
            if stride:
                steps = np.arange(extent, dtype=np.int64) * stride
                total = total + steps.reshape([-1 if a == axis else 1 for a in range(rank)])
        return np.broadcast_to(total % self.modulus, self.extents)

    def runs(self, scale: int, width: int) -> tuple[np.ndarray, int]:
        """The set ``{address * scale + [0, width)}`` as the starts of intervals of equal length.

        The intervals are disjoint; their order has no meaning.
        """
        if self.wraps:
            return _disjoint(self.addresses().reshape(-1) * scale, width)
        levels = sorted((abs(stride) * scale, extent) for extent, stride
                        in zip(self.extents, self.strides) if extent > 1 and stride)
        length, starts = width, np.array([self._plain[0] * scale], np.int64)
        while levels and levels[0][0] <= length:
            stride, extent = levels.pop(0)
            length += stride * (extent - 1)
        reach = length
        for stride, extent in levels:
            if stride < reach:
                return _disjoint(_sums(starts, levels), length)
            reach += stride * (extent - 1)
        return _sums(starts, levels), length

    @property
    def unique(self) -> bool:
        """True if no address repeats; may be False where a sure answer would take long."""
        if self.wraps:
            return np.unique(self.addresses()).size == self.count
        reach = 1
        for stride, extent in sorted((abs(s), e) for e, s in zip(self.extents, self.strides)
                                     if e > 1):
            if stride < reach:
                return False
            reach += stride * (extent - 1)
        return True


def _sums(starts: np.ndarray, levels: Iterable[tuple[int, int]]) -> np.ndarray:
    for stride, extent in levels:
        starts = (starts[:, None] + np.arange(extent, dtype=np.int64) * stride).reshape(-1)
    return starts


def _disjoint(starts: np.ndarray, length: int) -> tuple[np.ndarray, int]:
    starts = np.unique(starts)
    if starts.size == 1 or np.diff(starts).min() >= length:
        return starts, length
    return np.unique(starts[:, None] + np.arange(length)), 1


@dataclass(frozen=True, slots=True)
class Touch:
    """The addresses that one operand of an instruction reads or writes.

    Parameters
    ----------
    operand : its name in the intrinsic (DMA: ``src``, ``dst``).
    memory : a buffer, or a segment of DRAM.
    walk : its addresses in units of `scale`: entries; for DMA bytes, or what a byte unpacks to.
    scale, width : address set of one iteration: ``address * scale + [0, width)``.
    """

    operand: str
    memory: str
    walk: Walk
    scale: int
    width: int
    write: bool = False

    def accesses(self) -> list[AddressSet]:
        starts, length = self.walk.runs(self.scale, self.width)
        if starts.size <= _FEW or length >= _LONG:
            return [AddressSet(self.memory, (start, start + length), self.write)
                    for start in starts.tolist()]
        addresses = (starts[:, None] + np.arange(length)).reshape(-1)
        return [AddressSet(self.memory, addresses, self.write)]


def touches(machine: Machine, instruction: Instruction) -> tuple[Touch, ...]:
    """Every operand of an instruction, the destination last.

    Raises `Fault` with status ILLEGAL for an opcode, buffer or selector that is not allowed.
    """
    if instruction.name not in machine.opcodes:
        raise Fault(Status.ILLEGAL, f"opcode {instruction.fields.get('opcode', 0)} is not an "
                                    f"instruction of the machine")
    if instruction.unit == FETCH:
        return ()
    if machine.structure.unit(instruction.unit).kind.moves:
        return _dma(machine, instruction)
    return _compute(machine, instruction)


def _dma(machine: Machine, instruction: Instruction) -> tuple[Touch, ...]:
    fields, unit = instruction.fields, machine.structure.unit(instruction.unit)
    code, known, loads = fields.get("buffer", 0), machine.structure.buffer_names, bool(unit.writes)
    buffer = known[code] if code < len(known) else str(code)
    if buffer not in unit.buffers:
        raise Fault(Status.ILLEGAL, f"buffer of {unit.name} must be one of "
                                    f"{', '.join(unit.buffers)}, not {buffer}")
    loops = [loop for loop in fields.get("loops", ()) if loop.get("extent", 1) > 1
             or loop.get("before") or loop.get("after")]
    extents = tuple(loop.get("extent", 1) for loop in loops)
    run, group = fields.get("run", 1), _group(machine, unit.name, buffer, fields.get("bits", 0))
    inside = Walk(fields.get("address", 0), extents,
                  _strides(loops, "buffer", 1 << 24), 1 << 24)
    valid = valid_box(loops) if loads else tuple((0, extent) for extent in extents)
    strides = tuple(loop.get("dram", 0) for loop in loops)
    first = fields.get("dram", 0) + sum(low * s for (low, _), s in zip(valid, strides))
    outside = Walk(first % (1 << 32), tuple(max(0, high - low) for low, high in valid), strides,
                   1 << 32)
    segment = isa.BASES[fields.get("base", 0)]
    dram = Touch("src" if loads else "dst", segment, outside, 1, run, not loads)
    local = Touch("dst" if loads else "src", buffer, inside, group, group * run, loads)
    return (dram, local) if loads else (local, dram)


def _group(machine: Machine, unit: str, buffer: str, code: int) -> int:
    """The bytes that a byte of memory becomes in a buffer."""
    bits = WEIGHT_BITS[code] if code < len(WEIGHT_BITS) else code
    packed = machine.structure.buffer(buffer).packed
    allowed = machine.config.weight_bits if packed else WEIGHT_BITS[:1]
    if code and bits not in allowed:
        raise Fault(Status.ILLEGAL, f"bits of {unit} to {buffer} must be one of "
                                    f"{', '.join(map(str, allowed))}, not {bits}")
    return 1 << code


def valid_box(loops: Sequence[Mapping[str, int]]) -> tuple[tuple[int, int], ...]:
    """For each DMA loop, the half-open range of indices that are not padding."""
    return tuple((loop.get("before", 0), loop.get("extent", 1) - loop.get("after", 0))
                 for loop in loops)


def _compute(machine: Machine, instruction: Instruction) -> tuple[Touch, ...]:
    intrinsic = machine.intrinsic(instruction.name)
    if isinstance(intrinsic, StreamForm) and row_length(instruction) > intrinsic.longest:
        raise Fault(Status.ILLEGAL, f"row of {instruction.name} must have at most "
                                    f"{intrinsic.longest} entries, not {row_length(instruction)}")
    operands = [_operand(machine, instruction, intrinsic, operand.name)
             for operand in (*intrinsic.operands, intrinsic.dst)]
    return tuple(touch for touch in operands if touch is not None)


def _operand(machine: Machine, instruction: Instruction, intrinsic: InstructionForm,
             name: str) -> Touch | None:
    operand = intrinsic.operand(name)
    scope = operand_scope(machine, instruction, intrinsic, name)
    if scope not in operand.scopes:
        raise Fault(Status.ILLEGAL, f"{name} of {instruction.name} must be in "
                                    f"{' or '.join(operand.scopes)}, not {scope}")
    if scope == IMMEDIATE:
        return None
    field = operand_field(intrinsic, name)
    loops = compute_loops(instruction)
    base = instruction.fields if field == "c" else instruction.fields.get("base", {})
    walk = Walk(base.get(field, 0),
                tuple(loop["extent"] for loop in loops), _strides(loops, field, 1 << 16), 1 << 16)
    if isinstance(intrinsic, StreamForm) and name == "table":       # at places of its own choice
        walk = Walk(walk.base, (1 << instruction.fields.get("entries", 0),), (1,), 1 << 32)
    size = _unit_bytes(machine, scope)
    part = size
    if scope == machine.structure.roles.wgt:            # the first elements of an entry
        part = prod(operand.shape) * numpy_dtype(operand.stored_as(scope)).itemsize
    return Touch(name, scope, walk, size, part, name == "dst")


def row_length(instruction: Instruction) -> int:
    """The entries of a row of a stream unit's instruction: the extent of the innermost loop."""
    rows = isa.STREAM["loops"].shape.length - 1         # of loops around a row
    return next((loop.get("extent", 1) for loop in instruction.fields.get("loops", ())[rows:]), 1)


def compute_loops(instruction: Instruction) -> list[Mapping[str, int]]:
    """The loops of extent greater than 1; the others have no effect."""
    return [loop for loop in instruction.fields.get("loops", ()) if loop.get("extent", 1) > 1]


_SELECTORS = {"a": "a_source", "b": "b_source", "dst": "destination"}


def operand_scope(machine: Machine, instruction: Instruction, intrinsic: InstructionForm,
                  name: str) -> str:
    """The memory of an operand of an instruction on entries, allowed or not."""
    unit = machine.structure.unit(instruction.unit)
    codes = {} if unit.kind is UnitKind.GEMM else isa.selectors(unit)
    if (selector := _SELECTORS.get(name, "")) in codes:
        code = instruction.fields.get(selector, 0)
        return codes[selector][code] if code < len(codes[selector]) else str(code)
    return intrinsic.operand(name).scopes[0]


def _unit_bytes(machine: Machine, buffer: str) -> int:
    """The bytes of what addresses count: 1 in a buffer of two banks, as these are not of bytes."""
    banked = machine.structure.buffer(buffer).banks == 2
    return 1 if banked else machine.config.buffers[buffer].entry_bytes


def _strides(loops: Sequence[Mapping[str, int]], field: str, modulus: int) -> tuple[int, ...]:
    """Strides modulo a power of two, read as signed: the shorter way round."""
    strides = (loop.get(field, 0) % modulus for loop in loops)
    return tuple(s - modulus if s >= modulus >> 1 else s for s in strides)


def require_ranges(machine: Machine, instruction: Instruction, touched: Iterable[Touch]) -> None:
    """Raise `Fault` with status ADDRESS where an operand leaves its buffer or its banks."""
    for touch in touched:
        if touch.memory in isa.BASES:
            continue
        geometry = machine.config.buffers[touch.memory]
        low, high = touch.walk.bounds
        banked = machine.structure.buffer(touch.memory).banks == 2
        size = geometry.size_bytes // (geometry.entry_bytes if banked else 1)
        if high * touch.scale + touch.width > size:
            unit = "byte" if machine.structure.unit(instruction.unit).kind.moves else "entry"
            limit = geometry.depth if unit == "entry" else geometry.size_bytes
            last = high if unit == "entry" else high * touch.scale + touch.width - 1
            raise Fault(Status.ADDRESS, f"{touch.operand} reaches {unit} {last} of "
                                        f"{touch.memory}, which has {limit}")
        if banked:
            _require_banks(machine, instruction, touch, low, high)


def _require_banks(machine: Machine, instruction: Instruction, touch: Touch, low: int,
                   high: int) -> None:
    depth = machine.config.bank_depth
    touched = {low // depth, high // depth}     # two banks: the bounds decide
    for bank in touched:
        if not instruction.fields.get("banks", 0) >> bank & 1:
            raise Fault(Status.ADDRESS, f"{touch.operand} touches bank {bank} of {touch.memory}, "
                                        f"which banks does not name")


def event(machine: Machine, instruction: Instruction,
          touched: Iterable[Touch] | None = None) -> Event:
    """The event of an instruction for `compiler.latency_hiding`. Its operands must be in range.

    Reads of constant segments are left out: these are complete from the start, and nothing may
    write there. `touched` are the instruction's `touches`, from a caller who knows them.
    """
    known = touches(machine, instruction) if touched is None else touched
    touched = list({(touch.memory, touch.walk, touch.write): touch for touch in known
                    if touch.walk.count and (touch.write or touch.memory not in CONSTANT)}.values())
    accesses = [a for touch in touched if not touch.write for a in touch.accesses()]
    dst = touched[-1] if touched and touched[-1].write else None
    if dst is not None:
        sources = [t for t in touched if t.memory == dst.memory and not t.write]
        if sources:
            accesses = [a for a in accesses if a.memory != dst.memory]
            accesses += _read_before_written(dst, sources)
        accesses += dst.accesses()
        if accumulates(machine, instruction):
            accesses += [replace(a, write=False) for a in dst.accesses()]
    return Event(instruction.unit, tuple(accesses))


def accumulates(machine: Machine, instruction: Instruction) -> bool:
    """True if the instruction uses the earlier contents of its destination.

    With `reset` it does not: the first iteration that touches an entry has index 0 in every loop
    of destination stride 0, since the one that differs only there comes earlier.
    """
    return (not machine.structure.unit(instruction.unit).kind.moves
            and not instruction.fields.get("reset", 0)
            and machine.intrinsic(instruction.name).reads_destination)


def _read_before_written(dst: Touch, sources: Sequence[Touch]) -> list[AddressSet]:
    """Reads of the destination's memory, except of what the instruction itself wrote before."""
    written, first = np.unique(dst.walk.addresses(), return_index=True)
    result = []
    for touch in sources:
        read, reading = np.unique(touch.walk.addresses(), return_index=True)
        place = np.minimum(np.searchsorted(written, read), written.size - 1)
        own = (written[place] == read) & (first[place] < reading)
        if not own.all():
            result.append(AddressSet(touch.memory, read[~own]))
    return result
