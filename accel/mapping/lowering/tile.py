"""One tensorized tile with the loops around it: the fields of the instructions that perform it, for
one iteration of the loops that are unrolled outside.

Addresses in buffers count from the start of what the schedule allocates there: which copy it is,
and so where it lies, differs from iteration to iteration (`emit.py`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from accel.machine import isa
from accel.machine.config import WEIGHT_BITS
from accel.machine.intrinsics import operand_field
from accel.machine.machine import Machine
from accel.machine.structure import IMMEDIATE
from accel.mapping.lowering.dma import runs
from accel.mapping.lowering.memory import TensorPlacement
from accel.mapping.lowering.nest import (AffineAddress, Box, Interval, LoweringError,
                                         NotABox, NotAffine, affine, solve)
from compiler.ir import For, If, Stmt, Tensorized, normalize, offset
from compiler.te import Const, Expr, Field, Read, Var, bits, is_float, numpy_dtype, walk

Fixed = dict[Var, int]


@dataclass(frozen=True)
class TileNest:
    """Loops that one instruction runs itself (outermost first), guards among them, and the tile."""

    loops: tuple[tuple[Var, Interval], ...]
    guards: tuple[Expr, ...]
    tile: Tensorized


def nest_of(stmt: Stmt) -> TileNest | None:
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
    return TileNest(tuple(loops), tuple(guards), stmt)


def cut(nest: TileNest, error: NotAffine) -> tuple[int, list[Interval]]:
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


class TilePlaces:
    """Places of a layer's tensors in memory, and of their tiles in elements."""

    def __init__(self, machine: Machine, placement: Mapping[str, TensorPlacement]):
        self.machine, self.placement = machine, placement
        self.extents: dict[Var, int] = {}   # of all loops met so far
        self._elements: dict[int, Expr | AffineAddress] = {}

    def form(self, read: Read) -> Expr | AffineAddress:
        """The place of a tile in its buffer, counted in elements; computed once a tile."""
        if id(read) not in self._elements:
            pitches = (self.placement[read.buffer.name].pitches
                       if read.buffer.scope == "global" else ())
            place = offset(read.buffer, read.indices, pitches)
            loops = dict.fromkeys(node for node in walk(place) if isinstance(node, Var))
            self._elements[id(read)] = _form(place, tuple((var, self.extents[var]) for var in loops
                                                          if var in self.extents))
        return self._elements[id(read)]

    def elements(self, read: Read, fixed: Fixed) -> AffineAddress:
        """The place of a tile, in elements, in one iteration of the loops outside."""
        form = self.form(read)
        return form.at(fixed) if isinstance(form, AffineAddress) else affine(form, fixed)


@lru_cache(1 << 12)
def _form(place: Expr, extents: tuple[tuple[Var, int], ...]) -> Expr | AffineAddress:
    """A place as a sum over loops of these extents if it is one; layers of one schedule have the
    same.
    """
    simple = normalize(place, dict(extents))
    try:
        return affine(simple, {})
    except NotAffine:
        return simple


@dataclass(frozen=True, slots=True)
class Move:
    """A field of the word that an address goes to: a path of names, the tile that is there, and
    the bytes that one step of the field means.
    """

    path: tuple[str, ...]
    read: Read
    step: int


@dataclass(frozen=True, slots=True)
class Made:
    """An instruction: its fields, the loops outside with their values, the loops that it runs
    itself; for each address in acc, by `Move.path`, the entries from its first to its last.
    """

    fields: Mapping[str, object]
    fixed: Fixed
    folded: tuple[str, ...]
    spans: Mapping[tuple[str, ...], int]


def whole(read: Expr) -> Read:
    """The tile that an operand is, or is a field of."""
    read = read.base if isinstance(read, Field) else read
    assert isinstance(read, Read)
    return read


def ends_of(tile: Tensorized) -> tuple[Read, Read]:
    """The tiles of a copy in memory and in a buffer."""
    src, dst = whole(tile.binding.tile("src")), whole(tile.binding.tile("dst"))
    return (dst, src) if tile.intrinsic.unit == "store" else (src, dst)


def operands_of(tile: Tensorized) -> dict[str, str]:
    """The operands of a computation by their address fields; numbers have none."""
    if tile.intrinsic.unit == "gemm":
        return {"dst": "dst", "a": "inp", "b": "wgt"}
    return {"dst": "dst"} | {operand_field(tile.intrinsic, operand.name): operand.name
                             for operand in tile.intrinsic.operands
                             if not isinstance(tile.binding.tile(operand.name), Const)}


def moves_of(places: TilePlaces, tile: Tensorized) -> list[Move]:
    """The address fields of the instructions that perform a tile."""
    if tile.intrinsic.unit in ("load", "store"):
        far, near = ends_of(tile)
        group = 8 // places.placement[far.buffer.name].bits
        return [Move(("dram",), far, group), Move(("address",), near, group)]
    buffers = places.machine.config.buffers
    bound = {field: whole(tile.binding.tile(name)) for field, name in operands_of(tile).items()}
    return [Move((field,) if field == "c" else ("base", field), read,
                 buffers[read.buffer.scope].entry_bytes) for field, read in bound.items()]


def guards_of(places: TilePlaces, nest: TileNest) -> Iterator[Expr]:
    """Conditions for an iteration to be: those around the tile, and for elements to exist where a
    result ends within a block.
    """
    yield from nest.guards
    read = nest.tile.binding.tile("dst")
    if isinstance(read, Read) and nest.tile.intrinsic.unit == "store":
        for block, lane, limit in places.placement[read.buffer.name].bounds:
            size = read.buffer.shape[lane]
            yield read.indices[block] * size + read.indices[lane] < limit


class TensorizedTile:
    """One tensorized tile with the loops around it, in one environment. Raises NotAffine where one
    instruction cannot follow.
    """

    def __init__(self, places: TilePlaces, nest: TileNest, fixed: Fixed):
        self.machine, self.places = places.machine, places
        self.folded = tuple(var.name for var, (low, high) in nest.loops if high - low > 1)
        self.fixed = fixed | {var: low for var, (low, high) in nest.loops if high - low == 1}
        self.tile, self.intrinsic = nest.tile, nest.tile.intrinsic
        self.binding = nest.tile.binding
        self.box = self._guarded(nest)
        self.extents = {var: high - low for var, (low, high) in (self.box or {}).items()}

    def _guarded(self, nest: TileNest) -> Box | None:
        """The loops of several iterations, cut by the guards; None where no iteration is left."""
        box = {var: (low, high) for var, (low, high) in nest.loops if high - low > 1}
        for guard in guards_of(self.places, nest):
            solved = self._solved(guard, box)
            if solved is None:
                return None
            box = solved
        for var in self.binding.begin:
            if box.get(var, (0, 0))[0]:
                raise NotAffine(var)
        return box

    def _solved(self, guard: Expr, box: Box) -> dict[Var, Interval] | None:
        try:
            return solve(guard, self.fixed, box)
        except NotABox as error:
            if self.intrinsic.unit in ("load", "store"):
                raise
            # The guarded statement may depend on the order of the loops.
            raise NotAffine(*error.args) from None

    def instructions(self) -> Iterator[Made]:
        if self.box is None:
            return
        if self.intrinsic.unit in ("load", "store"):
            yield from self._copies()
        elif self.intrinsic.unit == "gemm":
            yield self._compute({})
        elif self.intrinsic.unit == "stream":
            yield self._stream()
        else:
            yield self._vector()

    def _bytes(self, read: Expr) -> AffineAddress:
        """Byte address of a tile within its buffer or segment; iterations count from the first."""
        read = whole(read)
        assert self.box is not None
        form = self.places.elements(read, self.fixed)
        first = form.offset + sum(f * self.box[v][0] for v, f in form.coefficients.items())
        elements = AffineAddress(first, form.coefficients)
        origin = (self.places.placement[read.buffer.name].offset
                  if read.buffer.scope == "global" else 0)
        return elements.scaled(numpy_dtype(read.dtype).itemsize) + AffineAddress(origin, {})

    def _entries(self, read: Expr) -> AffineAddress:
        read = whole(read)
        size = self.machine.config.buffers[read.buffer.scope].entry_bytes
        address = self._bytes(read)
        for number in (address.offset, *address.coefficients.values()):
            if number % size:
                raise LoweringError(f"Tiles of {read.buffer.name} must begin at whole entries of "
                                    f"{read.buffer.scope}, {size} bytes apart, not {number}")
        return AffineAddress(address.offset // size,
                             {v: f // size for v, f in address.coefficients.items()})

    # Copies

    def _copies(self) -> Iterator[Made]:
        far, near = ends_of(self.tile)
        dst = far if self.intrinsic.unit == "store" else near
        item = numpy_dtype(far.dtype).itemsize
        if not _spread(self._bytes(dst), self.extents, item):
            raise NotAffine(f"a copy that writes {dst.buffer.name} twice")
        valid, pad = self._validity()
        place = self.places.placement[far.buffer.name]
        fields = {"buffer": self.machine.structure.buffer_names.index(near.buffer.scope),
                  "base": isa.BASES.index(place.base), "pad_value": pad & 0xFF}
        if self.machine.pads_high and self.intrinsic.unit == "load":
            fields["pad_high"] = pad >> 8 * (item - 1) & 0xFF
        if place.bits < 8:
            fields["bits"] = WEIGHT_BITS.index(place.bits)
        for copy in runs(self._bytes(far), self._bytes(near), self.extents, valid, item):
            if place.bits < 8:
                copy = copy.packed(place.offset, 8 // place.bits)
            yield self._made(fields | copy.fields(), {})

    def _validity(self) -> tuple[Box | None, int]:
        """The range in which the source of a copy exists, in iterations from the first (None:
        nowhere), and the value of padding.
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

    def _vector(self) -> Made:
        fields: dict[str, object] = {}
        structure = self.machine.structure
        codes = isa.selectors(structure.unit(self.machine.unit_of(self.intrinsic.name)))
        for operand in self.intrinsic.operands:
            bound = self.binding.tile(operand.name)
            field = operand_field(self.intrinsic, operand.name)
            if isinstance(bound, Const):
                fields |= {"imm": int(bound.value), "b_source": codes["b_source"].index(IMMEDIATE)}
                continue
            scope = whole(bound).buffer.scope
            sources = codes.get(f"{field}_source", ())
            if scope in sources:                        # a table is in tab, whatever the word says
                fields[f"{field}_source"] = sources.index(scope)
        destination = whole(self.binding.tile("dst"))
        fields["destination"] = codes["destination"].index(destination.buffer.scope)
        return self._compute(fields)

    def _stream(self) -> Made:
        """Builds an instruction of a stream unit, whose innermost loop is over the entries of a
        row: the one that moves the dimension before the entry's own."""
        bound = {field: whole(self.binding.tile(name))
                 for field, name in operands_of(self.tile).items()}
        addresses = {field: self._entries(read) for field, read in bound.items()}
        row = self._row(bound["dst"])
        loops = self._merged(addresses, row)
        loops.append((1, {}) if row is None else (self.extents[row], {
            field: form.over(row) for field, form in addresses.items()}))
        if len(loops) > self.intrinsic.loops:
            raise NotAffine(f"{len(loops)} loops")
        self._check_range(addresses)
        if any(strides.pop("b", 0) for _, strides in loops):
            raise NotAffine("a loop that moves a table")
        words = [{"extent": extent, **strides} for extent, strides in loops]
        unit = self.machine.structure.unit(self.machine.unit_of(self.intrinsic.name))
        fields: dict[str, object] = {
            "a_source": isa.selectors(unit)["a_source"].index(bound["a"].buffer.scope)}
        if "b" in bound:
            fields["entries"] = bound["b"].buffer.shape[0].bit_length() - 1
        return self._made(fields | self._immediates() | {
            "base": {field: form.offset for field, form in addresses.items()},
            "loops": [{}] * (self.intrinsic.loops - len(words)) + words}, {})

    def _immediates(self) -> dict[str, int]:
        """The immediates of a computation, which are constants."""
        values = {immediate.name: self.binding.immediate(immediate.name)
                  for immediate in self.intrinsic.immediates}
        assert all(isinstance(value, Const) for value in values.values())
        return {name: int(value.value) for name, value in values.items()
                if isinstance(value, Const)}

    def _row(self, dst: Read) -> Var | None:
        """The loop over the entries of a row; None where a row is one entry."""
        at = len(dst.indices) - len(self.intrinsic.dst.shape) - 1
        place, entries = dst.indices[at], dst.buffer.shape[at]
        if entries == 1:
            return None
        innermost = [*self.extents][-1:]
        if innermost != [place] or self.extents[innermost[0]] != entries:
            raise NotAffine("a row that is not the innermost loop as a whole")
        return innermost[0]

    def _compute(self, fields: dict[str, object]) -> Made:
        """Builds a gemm or vector instruction."""
        bound = {field: whole(self.binding.tile(name))
                 for field, name in operands_of(self.tile).items()}
        addresses = {field: self._entries(read) for field, read in bound.items()}
        begin = self._begin(addresses["dst"])
        loops = self._merged(addresses)
        if len(loops) > self.intrinsic.loops:
            raise NotAffine(f"{len(loops)} loops")
        self._check_range(addresses)
        spans = {(field,) if field == "c" else ("base", field): self._span(addresses[field])
                 for field, read in bound.items() if read.buffer.scope == "acc"}
        if any(strides.pop("c", 0) for _, strides in loops):
            raise NotAffine("a loop that moves what no loop moves")
        words = [{"extent": extent, **strides} for extent, strides in loops]
        places = {field: form.offset for field, form in addresses.items()}
        fields |= {"c": places.pop("c")} if "c" in places else {}
        return self._made(fields | self._immediates() | {
            "reset": int(begin), "base": places,
            "loops": [{}] * (self.intrinsic.loops - len(words)) + words}, spans)

    def _begin(self, destination: AffineAddress) -> bool:
        """True if this instruction begins its reduction; the hardware's rule must say the same."""
        if not self.intrinsic.reads_destination:
            return False
        begin = set(self.binding.begin)
        for var, extent in self.extents.items():
            if extent > 1 and (var in begin) != (destination.over(var) == 0):
                raise NotAffine(f"{var.name} in a reduction")
        return self.binding.begins and all(
            value == 0 for var, value in self.fixed.items() if var in begin)

    def _merged(self, addresses: Mapping[str, AffineAddress], but: Var | None = None
                ) -> list[tuple[int, dict[str, int]]]:
        """The loops, neighbours that step as one joined, `but` for one of them."""
        result: list[tuple[int, dict[str, int]]] = []
        for var, extent in self.extents.items():
            if var == but:
                continue
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

    def _span(self, form: AffineAddress) -> int:
        return sum(f * (self.extents[v] - 1) for v, f in form.coefficients.items())

    def _made(self, fields: Mapping[str, object], spans: Mapping[tuple[str, ...], int]) -> Made:
        return Made(fields, self.fixed, self.folded, spans)


def _bits_of(value: Const) -> int:
    """A number as it is written to an instruction, of floats the bits."""
    if not is_float(value.dtype):
        return int(value.value)
    number = np.asarray(value.value, numpy_dtype(value.dtype))
    return int(number.view(f"uint{bits(value.dtype)}"))


def _spread(form: AffineAddress, extents: Mapping[Var, int], size: int) -> bool:
    """True if elements of `size` bytes at these addresses are disjoint: any order writes the same.
    """
    reach = size
    for stride, extent in sorted((abs(form.over(var)), extent) for var, extent in extents.items()):
        if extent > 1 and stride < reach:
            return False
        reach += stride * (extent - 1)
    return True
