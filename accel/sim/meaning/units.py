"""The effect of one instruction on buffers and memory, by NumPy.

`Buffers` holds the machine's state; `perform` applies one instruction to it. The meaning is that
of the iterations one after the other; where no iteration can see what another wrote, all are
computed at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from accel.machine.config import FLOAT8, AccelConfig
from accel.machine.intrinsics import TABLE
from accel.machine.machine import Machine
from accel.machine.program import Instruction
from accel.machine.streams import StreamForm, integers_of
from accel.machine.structure import IMMEDIATE, UnitKind
from accel.proof.access import (Touch, Walk, compute_loops, operand_scope, row_length,
                                valid_box)
from compiler.ir.arithmetic import FOLDS, cut
from compiler.te import (Binary, Cast, Read, Reduce, Var, bits, is_float, is_integer,
                         numpy_dtype)
from compiler.tensorize import Intrinsic

from .evaluate import evaluate
from .floats import apply_cast, apply_fold

_CHUNK = 1 << 15                # iterations evaluated at once: temporary arrays stay in the cache
_PRODUCTS = 1 << 18             # the same for block products, of which the addresses repeat


@dataclass
class Buffers:
    """The state of the buffers, as bytes and as entries of their element types."""

    config: AccelConfig
    raw: dict[str, np.ndarray] = field(init=False)
    entries: dict[str, np.ndarray] = field(init=False)

    def __post_init__(self):
        self.raw = {name: np.zeros(geometry.size_bytes, np.uint8)
                    for name, geometry in self.config.buffers.items()}
        self.entries = {name: self.raw[name].view(numpy_dtype(dtype)).reshape(-1, *shape)
                        for name, (shape, dtype) in self.config.tiles.items()}

    def integers(self, name: str) -> np.ndarray:
        """The entries of a buffer as the integers that are stored; of floats and records, bits."""
        return self.entries[name].view(integers_of(self.config.tiles[name]))

    def records(self, dtype: str) -> np.ndarray:
        """The entries of records as those of one's own, or of the shipped instructions."""
        name = self.config.structure.roles.par
        return self.raw[name].view(numpy_dtype(dtype)).reshape(self.entries[name].shape)


def perform(machine: Machine, buffers: Buffers, memory: np.ndarray, bases: dict[str, int],
            instruction: Instruction, touched: Sequence[Touch]) -> None:
    """Execute one instruction whose operands `touched` (see `touches`) are in range."""
    kind = machine.structure.unit(instruction.unit).kind
    if kind is UnitKind.LOAD:
        _load(buffers, memory, bases, instruction, touched)
    elif kind is UnitKind.STORE:
        _move(buffers.raw[touched[0].memory], touched[0].walk, memory, _based(touched[1], bases),
              touched[0].width)
    elif kind is UnitKind.STREAM:
        _stream(machine, buffers, instruction, touched)
    else:
        _Compute(machine, buffers, instruction, touched).run()


# ---- DMA ---------------------------------------------------------------------------------------

def _based(touch: Touch, bases: dict[str, int]) -> Walk:
    walk = touch.walk
    return Walk((walk.base + bases[touch.memory]) % walk.modulus, walk.extents, walk.strides,
                walk.modulus)


def _load(buffers: Buffers, memory: np.ndarray, bases: dict[str, int], instruction: Instruction,
          touched: Sequence[Touch]) -> None:
    source, target = touched
    raw, walk, run = buffers.raw[target.memory], target.walk, source.width
    if target.scale > 1:
        _load_packed(raw, memory, bases, instruction, touched)
        return
    valid, pads = _box(instruction), _pads(instruction)
    outside = _based(source, bases)
    if not _spread(walk, run) or (pads[0] != pads[1] and any(s & 1 for s in walk.strides)):
        _load_runs(raw, memory, outside, valid, pads, walk, run)
        return
    if outside.count < walk.count:
        _view(raw, walk, run)[...] = _padding(pads, walk.base, run)
    if outside.count:
        first = walk.base + sum(low * s for (low, _), s in zip(valid, walk.strides))
        inside = Walk(first, outside.extents, walk.strides, walk.modulus)
        _move(memory, outside, raw, inside, run)


def _load_packed(raw: np.ndarray, memory: np.ndarray, bases: dict[str, int],
                 instruction: Instruction, touched: Sequence[Touch]) -> None:
    """Load packed elements one run after the other, as the buffer were packed, then unpack it."""
    source, target = touched
    group = target.scale
    packed = np.zeros(raw.size // group, np.uint8)
    _load_runs(packed, memory, _based(source, bases), _box(instruction), _pads(instruction),
               target.walk, source.width)
    starts, length = target.walk.runs(1, source.width)
    written = (starts[:, None] + np.arange(length)).reshape(-1)
    raw.reshape(-1, group)[written] = unpacked(packed[written], 8 // group).view(np.uint8)


def unpacked(data: np.ndarray, bits: int) -> np.ndarray:
    """Packed elements (uint8 of any shape) as int8, in a new last dimension: the lowest bits of a
    byte are the first, each is extended by its sign."""
    shifts = 8 - bits - np.arange(0, 8, bits, dtype=np.uint8)
    return (data[..., None] << shifts).astype(np.uint8).view(np.int8) >> (8 - bits)


def _pads(instruction: Instruction) -> tuple[int, int]:
    """The bytes that padding writes to even and to odd addresses."""
    low = instruction.fields.get("pad_value", 0)
    return low, instruction.fields.get("pad_high", low)


def _padding(pads: tuple[int, int], address: int, run: int) -> np.ndarray:
    """The bytes of a run of padding."""
    return np.array(pads, np.uint8)[np.arange(address, address + run) & 1]


def _box(instruction: Instruction) -> tuple[tuple[int, int], ...]:
    loops = [loop for loop in instruction.fields.get("loops", ()) if loop.get("extent", 1) > 1
             or loop.get("before") or loop.get("after")]
    return valid_box(loops)


def _load_runs(raw: np.ndarray, memory: np.ndarray, outside: Walk, valid, pads: tuple[int, int],
               walk: Walk, run: int) -> None:
    """Load one run after the other: later runs may overwrite what earlier ones wrote."""
    sources = iter(outside.addresses().reshape(-1).tolist() if outside.count else ())
    padding = [_padding(pads, address, run) for address in range(2)]
    inside = np.zeros(walk.extents, bool)
    inside[tuple(slice(low, max(low, high)) for low, high in valid)] = True
    for here, valued in zip(walk.addresses().reshape(-1).tolist(), inside.reshape(-1).tolist()):
        if valued:
            there = next(sources)
            raw[here:here + run] = memory[there:there + run]
        else:
            raw[here:here + run] = padding[here & 1]


def _spread(walk: Walk, run: int) -> bool:
    """True if the runs of a walk are disjoint, and reachable by plain strides."""
    reach = run
    for stride, extent in sorted((abs(s), e) for s, e in zip(walk.strides, walk.extents) if e > 1):
        if stride < reach:
            return False
        reach += stride * (extent - 1)
    return not walk.wraps


def _view(raw: np.ndarray, walk: Walk, run: int) -> np.ndarray:
    """The runs of a walk as an array of shape ``(*extents, run)`` over the bytes themselves."""
    return np.lib.stride_tricks.as_strided(raw[walk.base:], (*walk.extents, run),
                                           (*walk.strides, 1))


def _move(source: np.ndarray, reading: Walk, target: np.ndarray, writing: Walk, run: int) -> None:
    if not reading.wraps and _spread(writing, run):
        _view(target, writing, run)[...] = _view(source, reading, run)
        return
    pairs = zip(reading.addresses().reshape(-1).tolist(), writing.addresses().reshape(-1).tolist())
    for there, here in pairs:
        target[here:here + run] = source[there:there + run]


# ---- streams -----------------------------------------------------------------------------------

def _stream(machine: Machine, buffers: Buffers, instruction: Instruction,
            touched: Sequence[Touch]) -> None:
    """Rows of a stream unit: none sees what another wrote, as they are in another buffer."""
    form, fields = machine.intrinsic(instruction.name), instruction.fields
    assert isinstance(form, StreamForm)
    places = {touch.operand: touch.walk.addresses().reshape(-1) for touch in touched}
    scopes = {touch.operand: touch.memory for touch in touched}
    count = row_length(instruction)
    numbers = {one.name: fields.get(one.name, 0) for one in form.immediates}
    table = buffers.integers(scopes["table"])[places["table"]] if "table" in scopes else None
    source, target = buffers.integers(scopes["a"]), buffers.integers(scopes["dst"])
    step = max(1, _CHUNK // count) * count
    for start in range(0, len(places["a"]), step):
        rows = source[places["a"][start:start + step]]
        made = form.results(rows.reshape(-1, count, *rows.shape[1:]), table, numbers)
        _put_last(target, places["dst"][start:start + step], made.reshape(-1, *target.shape[1:]))


# ---- gemm and vector ---------------------------------------------------------------------------

class _Compute:
    """One gemm or vector instruction.

    The loops are split: those whose destination stride is zero *fold*, the others *spread*.
    """

    def __init__(self, machine: Machine, buffers: Buffers, instruction: Instruction,
                 touched: Sequence[Touch]):
        self.machine, self.buffers = machine, buffers
        self.instruction = instruction
        self.intrinsic: Intrinsic = machine.intrinsic(instruction.name)
        self.touches = {touch.operand: touch for touch in touched}
        self.dst = touched[-1]
        self.target = buffers.entries[self.dst.memory]
        self.loops = compute_loops(instruction)
        self.fold = [i for i, s in enumerate(self.dst.walk.strides) if s == 0]
        self.spread = [i for i, s in enumerate(self.dst.walk.strides) if s]
        self.accumulates = self.intrinsic.update != "assign"
        self.reset = self.accumulates and bool(instruction.fields.get("reset", 0))

    def run(self) -> None:
        sources_here = [t for t in self.touches.values()
                        if not t.write and t.memory == self.dst.memory]
        if self.accumulates and not sources_here and self._destinations_unique():
            self._fold()
        elif not self.accumulates and self._apart(sources_here):
            self._assign_all()
        else:
            self._in_order(sources_here)

    def _destinations_unique(self) -> bool:
        walk = self.dst.walk
        return Walk(walk.base, tuple(walk.extents[i] for i in self.spread),
                    tuple(walk.strides[i] for i in self.spread), walk.modulus).unique

    def _apart(self, sources: Sequence[Touch]) -> bool:
        """True if no iteration reads what an earlier one wrote."""
        low, high = self.dst.walk.bounds
        return all(s.walk.bounds[1] < low or s.walk.bounds[0] > high for s in sources)

    def _assign_all(self) -> None:
        addresses = self._addresses()
        for start in range(0, self.dst.walk.count, _CHUNK):
            self._assign({name: a[start:start + _CHUNK] for name, a in addresses.items()})

    def _assign(self, addresses: dict[str, np.ndarray]) -> None:
        value = self._values(addresses)
        with np.errstate(invalid="ignore"):             # NaN from float32
            value = value.astype(self.target.dtype)
        if self.dst.walk.unique:
            self.target[addresses["dst"]] = value
        else:
            _put_last(self.target, addresses["dst"], value)

    def _addresses(self) -> dict[str, np.ndarray]:
        """The addresses of every operand in memory, one for each iteration in order."""
        return {name: touch.walk.addresses().reshape(-1) for name, touch in self.touches.items()}

    def _values(self, addresses: dict[str, np.ndarray]) -> np.ndarray:
        """The value of the body for each of the iterations."""
        count = len(addresses["dst"])
        tiles = {operand.name: self._tile(operand, addresses)
                 for operand in self.intrinsic.operands}
        fields = self.instruction.fields
        scalars = {i.name: fields.get(i.name, 0) for i in self.intrinsic.immediates}
        return evaluate(self.intrinsic.value, self.intrinsic.axes, tiles, scalars, count)

    def _tile(self, operand, addresses: dict[str, np.ndarray]) -> np.ndarray:
        scope = operand_scope(self.machine, self.instruction, self.intrinsic, operand.name)
        dtype = operand.dtype
        if scope == IMMEDIATE:
            imm = np.full((1, *operand.shape), self.instruction.fields.get("imm", 0))
            return apply_cast(imm, dtype)
        entries = self.buffers.entries[scope]
        record, _, member = operand.stored_as(scope).partition(".")
        if member:
            entries = self.buffers.records(record)
            rows = apply_cast(entries[member][addresses[operand.name]], dtype)
            missing = len(operand.shape) - (rows.ndim - 1)      # one record serves the whole batch
            rows = rows.reshape(len(rows), *(1,) * missing, *rows.shape[1:])
            return np.broadcast_to(rows, (len(rows), *operand.shape))
        places = addresses[operand.name]
        if operand.name == TABLE.name and (places == places[0]).all():
            places = places[:1]                         # one table for all, as it mostly is
        rows = np.take(entries, places, axis=0)
        if rows.shape[1:] != operand.shape:             # the first elements of an entry
            rows = rows.reshape(len(rows), -1)[:, :prod(operand.shape)]
            rows = rows.reshape(len(rows), *operand.shape)
        if rows.dtype.name in FLOAT8 and dtype != rows.dtype.name:
            return apply_cast(rows, dtype)              # widened, they have one NaN
        return rows.astype(numpy_dtype(dtype), copy=False)

    def _fold(self) -> None:
        """An accumulation into distinct entries: fold the values of each, then update once."""
        product = block_product(self.intrinsic)
        chunks = self._blocks(_PRODUCTS if product else _CHUNK)
        for addresses, spread, fold in chunks:
            if is_float(self.intrinsic.dst.dtype):
                self._accumulate(addresses, spread, fold)
                continue
            folded = (self._product(addresses, spread, fold, *product) if product
                      else self._fold_values(addresses, spread, fold))
            self._update(addresses["dst"].reshape(spread + fold)[
                (..., *(0,) * len(fold))].reshape(-1), folded)

    def _accumulate(self, addresses, spread, fold) -> None:
        """Updates one after the other, as sums of floats depend on their order."""
        flat = {name: np.ascontiguousarray(a).reshape(-1) for name, a in addresses.items()}
        count = int(np.prod(fold))
        places, value = flat["dst"].reshape(-1, count)[:, 0], self._values(flat)
        value = value.reshape(-1, count, *value.shape[1:])
        total = value[:, 0] if self.reset else apply_fold(
            self.intrinsic.update, self.target[places], value[:, 0])
        for number in range(1, count):
            total = apply_fold(self.intrinsic.update, total, value[:, number])
        self.target[places] = total

    def _blocks(self, limit: int):
        """Addresses by operand, spreading loops first; cut so that a block is of limited size."""
        walks = {name: t.walk for name, t in self.touches.items()}
        arrays = {name: w.addresses().reshape(w.extents).transpose(*self.spread, *self.fold)
                  for name, w in walks.items()}
        spread = tuple(self.dst.walk.extents[i] for i in self.spread)
        fold = tuple(self.dst.walk.extents[i] for i in self.fold)
        total = int(np.prod((1, *spread, *fold)))
        if not spread or total <= limit:
            yield arrays, spread, fold
            return
        step = max(1, limit * spread[0] // total)
        for start in range(0, spread[0], step):
            block = {name: array[start:start + step] for name, array in arrays.items()}
            yield block, (len(block["dst"]), *spread[1:]), fold

    def _fold_values(self, addresses, spread, fold) -> np.ndarray:
        flat = {name: np.ascontiguousarray(a).reshape(-1) for name, a in addresses.items()}
        count = int(np.prod(fold))
        value = self._values(flat)
        if count == 1:
            return value
        value = value.reshape(-1, count, *value.shape[1:])
        folded = FOLDS[self.intrinsic.update].reduce(value, axis=1, dtype=value.dtype)
        return cut(folded, self.intrinsic.dst.dtype)

    def _product(self, addresses, spread, fold, left: str, right: str) -> np.ndarray:
        """Sums of block products as one matrix product for each batch of the spreading loops."""
        a, b = self.touches[left], self.touches[right]
        rank = len(spread)
        dims = self.spread + self.fold
        in_a = [k for k in range(rank) if a.walk.strides[dims[k]] or not b.walk.strides[dims[k]]]
        in_b = [k for k in range(rank) if k not in in_a]
        both = [k for k in in_a if b.walk.strides[dims[k]]]
        rows = [k for k in in_a if k not in both]
        depth = int(np.prod(fold))
        lanes = self.buffers.entries
        x = lanes[a.memory][_dense(addresses[left], both, rows, in_b, rank)]
        w = lanes[b.memory][_dense(addresses[right], both, in_b, rows, rank)]
        x, w = _matrix(x, depth), _matrix(w, depth)
        exact = _exact_type(x, w)
        sums = x.astype(exact) @ w.astype(exact).swapaxes(1, 2)
        return self._arranged(sums, both, rows, in_b, spread)

    def _arranged(self, sums: np.ndarray, both, rows, columns, spread) -> np.ndarray:
        """[both, rows × batch, columns × block_out] to [spreading loops, batch, block_out]."""
        batch, block = self.intrinsic.dst.shape
        extent = [spread[k] for k in (*both, *rows)] + [batch] + [spread[k] for k in columns]
        sums = sums.reshape(*extent, block)
        split = len(both) + len(rows)
        order = list(both) + list(rows) + [None] + list(columns)
        axes = [order.index(k) for k in range(len(spread))] + [split, sums.ndim - 1]
        whole = sums.transpose(axes).reshape(-1, batch, block)
        return apply_cast(whole.astype(np.int64), self.intrinsic.dst.dtype)

    def _update(self, places: np.ndarray, value: np.ndarray) -> None:
        if self.reset:
            self.target[places] = value.astype(self.target.dtype)
        else:
            update = FOLDS[self.intrinsic.update]
            self.target[places] = cut(update(self.target[places], value.astype(self.target.dtype)),
                                      self.intrinsic.dst.dtype)

    def _in_order(self, sources: Sequence[Touch]) -> None:
        """Compute in stretches in which no iteration reads what an earlier one of them wrote."""
        addresses = self._addresses()
        reads = [addresses[t.operand].tolist() for t in sources]
        if self.accumulates:
            reads.append(addresses["dst"].tolist())
        begins = self._begins()
        for start, stop in _stretches(addresses["dst"].tolist(), reads):
            part = {name: a[start:stop] for name, a in addresses.items()}
            if not self.accumulates:
                self._assign(part)
                continue
            value = self._values(part).astype(self.target.dtype)
            old = self.target[part["dst"]]
            shape = (-1,) + (1,) * (value.ndim - 1)
            folded = cut(apply_fold(self.intrinsic.update, old, value), self.intrinsic.dst.dtype)
            self.target[part["dst"]] = np.where(begins[start:stop].reshape(shape), value, folded)

    def _begins(self) -> np.ndarray:
        """Iterations that assign: `reset`, and every folding loop at 0."""
        extents = self.dst.walk.extents
        begins = np.full(extents, self.reset)
        for axis in self.fold:
            at_zero = np.arange(extents[axis]) == 0
            begins &= at_zero.reshape([-1 if k == axis else 1 for k in range(len(extents))])
        return begins.reshape(-1)


def _put_last(target: np.ndarray, places: np.ndarray, value: np.ndarray) -> None:
    """Assign in order: of several values for one place the last remains."""
    backwards, last = np.unique(places[::-1], return_index=True)
    target[backwards] = value[len(places) - 1 - last]


def _stretches(writes: list[int], reads: list[list[int]]):
    """Half-open ranges of iterations, in order, as long as they can be."""
    start, written = 0, set()
    for index, place in enumerate(writes):
        if any(read[index] in written for read in reads):
            yield start, index
            start, written = index, set()
        written.add(place)
    yield start, len(writes)


def _dense(addresses: np.ndarray, both, own, other, rank: int) -> np.ndarray:
    """Addresses of one factor as [both, own, fold]: loops that it does not take are dropped."""
    index = tuple(0 if k in other else slice(None) for k in range(rank))
    kept = [k for k in range(rank) if k not in other]
    array = addresses[(*index, ...)]
    order = [kept.index(k) for k in (*both, *own)] + list(range(len(kept), array.ndim))
    array = array.transpose(order)
    shape = array.shape
    groups = int(np.prod(shape[:len(both)]))
    members = int(np.prod(shape[len(both):len(kept)]))
    return np.ascontiguousarray(array).reshape(groups, members, -1)


def _matrix(tiles: np.ndarray, depth: int) -> np.ndarray:
    """[both, own, fold, tile row, lane] to [both, own × tile row, fold × lane]."""
    groups, own, _, rows, lanes = tiles.shape
    return tiles.swapaxes(2, 3).reshape(groups, own * rows, depth * lanes)


def _exact_type(x: np.ndarray, w: np.ndarray) -> np.dtype:
    """The fastest type in which the sums of products along the last axis are exact, or as exact
    as a sum modulo 2**64."""
    most = x.shape[-1] << sum(8 * one.dtype.itemsize - (one.dtype.kind == "i") for one in (x, w))
    return np.dtype(np.float32 if most <= 1 << 24 else np.float64 if most <= 1 << 53 else np.int64)


def block_product(intrinsic: Intrinsic) -> tuple[str, str] | None:
    """Operands (x, w) of ``sum over i of x[b, i] * w[o, i]`` if that is what the body says."""
    if intrinsic.update != "sum" or len(intrinsic.axes) != 2:
        return None
    row, column = (axis.var for axis in intrinsic.axes)
    match intrinsic.value:
        case Reduce("sum", Binary("mul", Cast(Read(x, (b, i)), _), Cast(Read(w, (o, j)), _)),
                    ((Var() as lane, _),)):
            if (is_integer(intrinsic.dst.dtype)
                    and all(is_integer(dtype) and bits(dtype) <= 16 for dtype in (x.dtype, w.dtype))
                    and (b, o) == (row, column) and i == j == lane):
                return x.name, w.name
    return None
