"""Lowers scheduled loop programs to instructions.

Loops around a single `Tensorized` statement fold into the instruction that performs it, as many as
its word has; all other loops are unrolled, since an instruction stream is static. The order of the
stream is the order of the program.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from accel.machine import isa
from accel.machine.config import WEIGHT_BITS
from accel.machine.intrinsics import operand_field
from accel.machine.machine import Machine
from accel.machine.program import Instruction
from accel.machine.provenance import Loop, Origin, Site
from accel.mapping.lowering.dma import runs
from accel.mapping.lowering.memory import Room, Scratchpads, TensorPlacement
from accel.mapping.lowering.nest import (AffineAddress, Box, Interval, LoweringError, NotABox,
                                         NotAffine, affine, solve)
from compiler.ir import (Alloc, For, If, Program, Seq, Stmt, Tensorized, expr_text, normalize,
                         offset)
from compiler.te import Buffer, Const, Expr, Field, Read, Var, bits, is_float, numpy_dtype

__all__ = ["lower"]

Fixed = dict[Var, int]


def lower(machine: Machine, program: Program, placement: Mapping[str, TensorPlacement],
          layer: str, room: Room | None = None) -> list[Instruction]:
    """The instructions of one layer, without tokens.

    `placement` says where the program's inputs and outputs lie in DRAM, `room` which part of the
    buffers it may use.
    """
    pads = Scratchpads(machine.config, program.body, room)
    emitter = _Emitter(machine, pads, placement, layer)
    return list(emitter.walk(program.body, {}, 0))


@dataclass(frozen=True)
class _Nest:
    """Loops that one instruction runs itself (outermost first), guards among them, and the tile."""

    loops: tuple[tuple[Var, Interval], ...]
    guards: tuple[Expr, ...]
    tile: Tensorized


class _Emitter:
    def __init__(self, machine: Machine, scratchpads: Scratchpads,
                 placement: Mapping[str, TensorPlacement], layer: str):
        self.machine = machine
        self.scratchpads = scratchpads
        self.placement = placement
        self.layer = layer
        self.addresses: dict[Buffer, int] = {}
        self.turns: dict[Var, int] = {}     # iterations so far: copies of storage take turns
        self.loops: dict[Var, Loop] = {}    # unrolled loops of several iterations
        self.extents: dict[Var, int] = {}   # of all loops met so far
        self._elements: dict[int, Expr | AffineAddress] = {}

    def walk(self, stmt: Stmt, fixed: Fixed, turn: int) -> Iterator[Instruction]:
        match stmt:
            case Seq(stmts):
                for part in stmts:
                    yield from self.walk(part, fixed, turn)
            case Alloc(buffer, body):
                self.addresses[buffer] = self.scratchpads.address(buffer, turn)
                yield from self.walk(body, fixed, turn)
            case If(condition, body) if _nest(stmt) is None:
                if self._holds(condition, fixed):
                    yield from self.walk(body, fixed, turn)
            case For(var, extent, body, "virtual_thread"):
                self._count(var, extent, "virtual_thread")
                for value in range(extent):
                    mine = self.turns.get(var, 0)
                    instructions = list(self.walk(body, fixed | {var: value}, mine))
                    self.turns[var] = mine + bool(instructions)
                    yield from instructions
            case For(var, extent, body, kind) if kind != "serial" or _nest(stmt) is None:
                self._count(var, extent, kind)
                for value in range(extent):
                    yield from self.walk(body, fixed | {var: value}, turn)
            case For() | If() | Tensorized():
                nest = _nest(stmt)
                assert nest is not None
                self.extents |= {var: extent for var, (_, extent) in nest.loops}
                yield from self.perform(nest, fixed)
            case _:
                raise LoweringError(f"{self.layer}: every statement must be tensorized, but "
                                    f"{type(stmt).__name__} to {_target(stmt)} is not")

    def elements(self, read: Read, fixed: Fixed) -> AffineAddress:
        """Where a tile lies in its buffer, counted in elements. The form is found once a tile."""
        if id(read) not in self._elements:
            pitches = (self.placement[read.buffer.name].pitches
                       if read.buffer.scope == "global" else ())
            place = normalize(offset(read.buffer, read.indices, pitches), self.extents)
            try:
                self._elements[id(read)] = affine(place, {})
            except NotAffine:
                self._elements[id(read)] = place
        form = self._elements[id(read)]
        return form.at(fixed) if isinstance(form, AffineAddress) else affine(form, fixed)

    def _holds(self, condition: Expr, fixed: Fixed) -> bool:
        try:
            return solve(condition, fixed, {}) is not None
        except NotAffine as error:
            raise self._refuse(error) from None

    def _refuse(self, error: NotAffine) -> LoweringError:
        reason = error.args[0]
        text = expr_text(reason) if isinstance(reason, Expr) else reason
        return LoweringError(f"{self.layer}: address or condition must be affine in the loops, "
                             f"not {text}")

    def _count(self, var: Var, extent: int, kind: str = "serial") -> None:
        self.extents[var] = extent
        if extent > 1:
            self.loops[var] = Loop(var.name, extent, kind)

    def perform(self, nest: _Nest, fixed: Fixed) -> Iterator[Instruction]:
        """Yields one instruction if the nest fits, else unrolls a loop."""
        try:
            instructions = list(_Tile(self, nest, fixed).instructions())
        except NotAffine as error:
            if not nest.loops:
                raise self._refuse(error) from None
            at, parts = _cut(nest, error)
            var, whole = nest.loops[at]
            self._count(var, whole[1] - whole[0])
            for part in parts:
                single = part[1] - part[0] == 1
                loops = (*nest.loops[:at], *([] if single else [(var, part)]),
                         *nest.loops[at + 1:])
                yield from self.perform(_Nest(loops, nest.guards, nest.tile),
                                        fixed | {var: part[0]} if single else fixed)
        else:
            yield from instructions


def _cut(nest: _Nest, error: NotAffine) -> tuple[int, list[Interval]]:
    """Which loop to cut, and into which parts: the outermost, into its iterations. Where a
    condition on a copy ties loops together, it is the first of these; iterations for which the
    condition holds whatever the other loops are stay one part.
    """
    if not isinstance(error, NotABox):
        at, inside = 0, (0, 0)
    else:
        at = next(at for at, (var, _) in enumerate(nest.loops) if var in error.loops)
        inside = error.inside(nest.loops[at][0])
    low, high = nest.loops[at][1]
    parts = [(value, value + 1) for value in range(low, high)
             if not inside[0] <= value < inside[1]]
    return at, sorted(parts + [inside] * (inside[0] < inside[1]))


def _nest(stmt: Stmt) -> _Nest | None:
    """The nest of a statement that is one tensorized tile in loops and guards alone; else None."""
    loops: list[tuple[Var, Interval]] = []
    guards: list[Expr] = []
    while not isinstance(stmt, Tensorized):
        match stmt:
            case For(var, extent, body, "serial"):
                loops.append((var, (0, extent)))
                stmt = body
            case If(condition, body):
                guards.append(condition)
                stmt = body
            case _:
                return None
    return _Nest(tuple(loops), tuple(guards), stmt)


def _target(stmt: Stmt) -> str:
    return getattr(getattr(stmt, "buffer", None), "name", "?")


class _Tile:
    """One tensorized tile with the loops around it, in one environment."""

    def __init__(self, emitter: _Emitter, nest: _Nest, fixed: Fixed):
        self.machine = emitter.machine
        self.emitter = emitter
        self.fixed = fixed | {var: low for var, (low, high) in nest.loops if high - low == 1}
        self.intrinsic = nest.tile.intrinsic
        self.binding = nest.tile.binding
        self.box = self._guarded(nest)
        self.extents = {var: high - low for var, (low, high) in (self.box or {}).items()}
        self.origin = self._origin_of(nest)

    def _guarded(self, nest: _Nest) -> Box | None:
        """The loops of several iterations, cut by the guards; None where no iteration is left."""
        box = {var: (low, high) for var, (low, high) in nest.loops if high - low > 1}
        for guard in (*nest.guards, *self._existing()):
            solved = self._solved(guard, box)
            if solved is None:
                return None
            box = solved
        for var in self.binding.begin:
            if box.get(var, (0, 0))[0]:
                raise NotAffine(var)
        return box

    def _existing(self) -> Iterator[Expr]:
        """Conditions for elements to exist, where a result ends within a block."""
        read = self.binding.tile("dst")
        if isinstance(read, Read) and self.intrinsic.unit == "store":
            place = self.emitter.placement[read.buffer.name]
            for block, lane, limit in place.bounds:
                size = read.buffer.shape[lane]
                yield read.indices[block] * size + read.indices[lane] < limit

    def _solved(self, guard: Expr, box: Box) -> dict[Var, Interval] | None:
        try:
            return solve(guard, self.fixed, box)
        except NotABox as error:
            if self.intrinsic.unit in ("load", "store"):
                raise
            # The guarded statement may depend on the order of the loops.
            raise NotAffine(*error.args) from None

    def instructions(self) -> Iterator[Instruction]:
        if self.box is None:
            return
        if self.intrinsic.unit in ("load", "store"):
            yield from self._copies()
        elif self.intrinsic.unit == "gemm":
            yield self._compute({"a": "inp", "b": "wgt"}, {})
        else:
            yield self._vector()

    def _bytes(self, read: Expr) -> AffineAddress:
        """Byte address of a tile within its buffer or segment; iterations count from the first."""
        read = read.base if isinstance(read, Field) else read
        assert isinstance(read, Read) and self.box is not None
        form = self.emitter.elements(read, self.fixed)
        first = form.offset + sum(f * self.box[v][0] for v, f in form.coefficients.items())
        elements = AffineAddress(first, form.coefficients)
        return elements.scaled(numpy_dtype(read.dtype).itemsize) + AffineAddress(
            self._origin(read.buffer), {})

    def _origin(self, buffer: Buffer) -> int:
        if buffer.scope == "global":
            return self.emitter.placement[buffer.name].offset
        return self.emitter.addresses[buffer]

    def _entries(self, read: Expr) -> AffineAddress:
        read = read.base if isinstance(read, Field) else read
        assert isinstance(read, Read)
        size = self.machine.config.buffers[read.buffer.scope].entry_bytes
        address = self._bytes(read)
        assert all(v % size == 0 for v in (address.offset, *address.coefficients.values()))
        return AffineAddress(address.offset // size,
                             {v: f // size for v, f in address.coefficients.items()})

    # Copies

    def _copies(self) -> Iterator[Instruction]:
        src, dst = self.binding.tile("src"), self.binding.tile("dst")
        assert isinstance(src, Read) and isinstance(dst, Read)
        far, near = (dst, src) if self.intrinsic.unit == "store" else (src, dst)
        item = numpy_dtype(far.dtype).itemsize
        if not _spread(self._bytes(dst), self.extents, item):
            raise NotAffine(f"a copy that writes {dst.buffer.name} twice")
        valid, pad = self._validity()
        place = self.emitter.placement[far.buffer.name]
        fields = {"buffer": isa.BUFFERS.index(near.buffer.scope),
                  "base": isa.BASES.index(place.base), "pad_value": pad & 0xFF}
        if self.machine.pads_high and self.intrinsic.unit == "load":
            fields["pad_high"] = pad >> 8 * (item - 1) & 0xFF
        if place.bits < 8:
            fields["bits"] = WEIGHT_BITS.index(place.bits)
        for copy in runs(self._bytes(far), self._bytes(near), self.extents, valid, item):
            if place.bits < 8:
                copy = copy.packed(place.offset, 8 // place.bits)
            yield self._instruction(fields | copy.fields())

    def _validity(self) -> tuple[Box | None, int]:
        """Where the source of a copy exists, in iterations from the first (None: nowhere), and the
        value of padding.
        """
        assert self.box is not None
        valid, value = self.box, 0
        if self.intrinsic.immediates:
            pad = self.binding.immediate("pad")
            assert isinstance(pad, Const)
            valid = solve(self.binding.immediate("valid"), self.fixed, self.box)
            value = _bits_of(pad)
        if valid is None:
            return None, value
        return {var: (low - self.box[var][0], high - self.box[var][0])
                for var, (low, high) in valid.items()}, value

    # Computation

    def _vector(self) -> Instruction:
        operands, fields = {}, {}
        for operand in self.intrinsic.operands:
            bound = self.binding.tile(operand.name)
            field = operand_field(self.intrinsic, operand.name)
            if isinstance(bound, Const):
                fields |= {"imm": int(bound.value), "b_source": isa.SOURCES_B.index("imm")}
                continue
            operands[field] = operand.name
            read = bound.base if isinstance(bound, Field) else bound
            assert isinstance(read, Read)
            sources = {"a": isa.SOURCES_A, "b": isa.SOURCES_B}.get(field, ())
            if read.buffer.scope in sources:            # a table is in tab, whatever the word says
                fields[f"{field}_source"] = sources.index(read.buffer.scope)
        destination = self.binding.tile("dst")
        assert isinstance(destination, Read)
        fields["destination"] = isa.DESTINATIONS.index(destination.buffer.scope)
        return self._compute(operands, fields)

    def _compute(self, operands: Mapping[str, str], fields: dict[str, object]) -> Instruction:
        """Builds a gemm or vector instruction; `operands` maps address fields to operand names."""
        bound = {"dst": self.binding.tile("dst")} | {
            field: self.binding.tile(name) for field, name in operands.items()}
        addresses = {field: self._entries(read) for field, read in bound.items()}
        begin = self._begin(addresses["dst"])
        loops = self._merged(addresses)
        if len(loops) > self.intrinsic.loops:
            raise NotAffine(f"{len(loops)} loops")
        self._check_range(addresses)
        banks = self._banks(bound, addresses)
        if any(strides.pop("c", 0) for _, strides in loops):
            raise NotAffine("a loop that moves what no loop moves")
        words = [{"extent": extent, **strides} for extent, strides in loops]
        places = {field: form.offset for field, form in addresses.items()}
        fields |= {"c": places.pop("c")} if "c" in places else {}
        for immediate in self.intrinsic.immediates:
            value = self.binding.immediate(immediate.name)
            assert isinstance(value, Const)
            fields[immediate.name] = int(value.value)
        return self._instruction(fields | {
            "reset": int(begin), "banks": banks, "base": places,
            "loops": [{}] * (self.intrinsic.loops - len(words)) + words})

    def _begin(self, destination: AffineAddress) -> bool:
        """Whether this instruction begins its reduction; the hardware's rule must say the same."""
        if not self.intrinsic.reads_destination:
            return False
        begin = set(self.binding.begin)
        for var, extent in self.extents.items():
            if extent > 1 and (var in begin) != (destination.over(var) == 0):
                raise NotAffine(f"{var.name} in a reduction")
        return self.binding.begins and all(
            value == 0 for var, value in self.fixed.items() if var in begin)

    def _merged(self, addresses: Mapping[str, AffineAddress]) -> list[tuple[int, dict[str, int]]]:
        result: list[tuple[int, dict[str, int]]] = []
        for var, extent in self.extents.items():
            strides = {field: form.over(var) for field, form in addresses.items()}
            if extent == 1:
                continue
            if result:
                outer, steps = result[-1]
                joined = all(steps[field] == strides[field] * extent for field in strides)
                if joined and outer * extent <= 1 << 16:
                    result[-1] = (outer * extent, strides)
                    continue
            result.append((extent, strides))
        return result

    def _check_range(self, addresses: Mapping[str, AffineAddress]) -> None:
        for form in addresses.values():
            if form.offset < 0 or any(not 0 <= f < 1 << 16 for f in form.coefficients.values()):
                raise NotAffine("a negative or large stride")

    def _banks(self, bound: Mapping[str, Expr], addresses: Mapping[str, AffineAddress]) -> int:
        mask = 0
        for field, read in bound.items():
            read = read.base if isinstance(read, Field) else read
            assert isinstance(read, Read)
            if read.buffer.scope != "acc":
                continue
            form = addresses[field]
            last = form.offset + sum(f * (self.extents[v] - 1)
                                     for v, f in form.coefficients.items())
            depth = self.machine.config.bank_depth
            mask |= sum(1 << bank for bank in (0, 1)
                        if form.offset < (bank + 1) * depth and last >= bank * depth)
        return mask

    def _instruction(self, fields: dict[str, object]) -> Instruction:
        return Instruction(self.intrinsic.name, self.intrinsic.unit, fields, self.origin)

    def _origin_of(self, nest: _Nest) -> Origin:
        loops = self.emitter.loops
        unrolled = [var for var in self.fixed if var in loops]
        site = Site(self.emitter.layer, tuple(loops[var] for var in unrolled),
                    tuple(var.name for var, (low, high) in nest.loops if high - low > 1),
                    tuple((operand, *self._tensor(read)) for operand, read in self.binding.tiles
                          if not isinstance(read, Const)))
        return Origin(site, tuple(self.fixed[var] for var in unrolled))

    def _tensor(self, read: Expr) -> tuple[str, str]:
        """The memory that an operand lies in, and the tensor that it is a part of."""
        read = read.base if isinstance(read, Field) else read
        assert isinstance(read, Read)
        if read.buffer.scope != "global":
            return read.buffer.scope, read.buffer.name
        place = self.emitter.placement[read.buffer.name]
        return place.base, place.tensor or read.buffer.name


def _bits_of(value: Const) -> int:
    """A number as it is written to an instruction, of floats the bits."""
    if not is_float(value.dtype):
        return int(value.value)
    number = np.asarray(value.value, numpy_dtype(value.dtype))
    return int(number.view(f"uint{bits(value.dtype)}"))


def _spread(form: AffineAddress, extents: Mapping[Var, int], size: int) -> bool:
    """Whether elements of `size` bytes at these addresses are disjoint: any order writes the same.
    """
    reach = size
    for stride, extent in sorted((abs(form.over(var)), extent) for var, extent in extents.items()):
        if extent > 1 and stride < reach:
            return False
        reach += stride * (extent - 1)
    return True
