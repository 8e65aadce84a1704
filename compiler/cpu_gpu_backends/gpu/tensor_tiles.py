"""Products on tensor cores: tiles of operands in shared memory, sums in the fragments of warps.

::

    for others (blockIdx.z), rows (blockIdx.y), columns (blockIdx.x):
      for wj (threadIdx.z), wi (threadIdx.y):       warps of 32 threads
        alloc fragment.acc[64, 64]
        for k_step:                                 64 bytes of each row, copied some steps ahead
          alloc shared.a_shared[128, 32], b_shared[128, 32], swizzled
          for k_part:                               what one instruction multiplies
            alloc fragment_a.a[64, 16], fragment_b.b[64, 16]
            acc[m, n] += a[m] * b[n]
        c[...] = f(acc[...])                        each thread what it holds

A product sums terms of two operands over one axis, or over the taps of a window too, which are
steps of their own. Of the result, one axis, the rows, moves along the first operand, its last axis,
the columns, along the other, and any others along one or both. All axes are padded with zeros to
whole tiles on their way to shared memory; what is beyond the result is not stored. An operand may
be a map of others, as what the windows of a convolution see: its tiles are formed on their way.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from compiler.cpu_gpu_backends.gpu.parts import WHOLE, Parts, TiledWork, divide
from compiler.cpu_gpu_backends.gpu.stages import (extent_of, fused, loops_around, maps, padded,
                                                  readers, stages, sums_in, write_of, writes_in)
from compiler.cpu_gpu_backends.intrinsics.gpu import MMA, load_fragment, mma, mma_fill, turn_bytes
from compiler.ir import (Alloc, Program, Stmt, Store, Update, Write, free_variables, normalize,
                         reads, rewrite_stmts)
from compiler.schedule import Schedule
from compiler.te import (INDEX, Binary, Buffer, Call, Cast, Const, Expr, Extent, Read, Var,
                         numpy_dtype, substitute, tf32)

WARP = 32
STEP_BYTES = 64             # of a row that a step multiplies
COPY_BYTES = 16             # at most, at a time


@dataclass(frozen=True, slots=True)
class TensorTiles:
    """Rows and columns of a block and of each of its warps; tiles of operands that are in shared
    memory at once, all but one of them under way.
    """

    rows: int = 64
    columns: int = 64
    warp_rows: int = 32
    warp_columns: int = 64
    stages: int = 4

    @property
    def warps(self) -> int:
        return self.rows // self.warp_rows * self.columns // self.warp_columns

    def for_result(self, rows: int, columns: int) -> "TensorTiles":
        """With as many warps as so many rows and columns need."""
        rows, columns = rows + -rows % self.warp_rows, columns + -columns % self.warp_columns
        return replace(self, rows=min(self.rows, rows), columns=min(self.columns, columns))


OFFERED = (TensorTiles(128, 256, 64, 64, 2), TensorTiles(128, 128, 64, 64, 3),
           TensorTiles(128, 64, 64, 32, 4), TensorTiles(64, 64, 32, 64, 4))
"""From the largest to the smallest; all fit into 48 KiB."""


@dataclass(frozen=True, slots=True)
class TensorProduct:
    """The sum of a program: `kind` of `MMA`; the operands that move along `rows` and `columns`,
    axes by their place among those of the result; the place of the reduction axis along which
    tiles lie, and those of others, the `taps`.
    """

    kind: str
    sum: Update
    operands: tuple[Read, Read]
    rows: int
    columns: int
    depth: int
    taps: tuple[int, ...] = ()


def tensor_product_of(program: Program) -> TensorProduct | None:
    """The product that tensor cores can compute, with maps behind it; None where it is another."""
    sums = [write for write in writes_in(program) if not isinstance(write, Store)]
    if len(sums) != 1 or len(program.outputs) != 1 or not isinstance(sums[0], Update):
        return None
    total = sums[0]
    out = write_of(program, program.outputs[0].name)
    factors = factors_of(total)
    others = [stage for stage in stages(program) if stage.buffer != total.buffer]
    if factors is None or not all(_is_factor(program, stage, factors[1:]) for stage in others):
        return None
    if not total.indices or not all(isinstance(index, Var) for index in total.indices) or not (
            _is_map(program, total, out)):
        return None
    extents = {loop.var: loop.extent for loop in loops_around(program, total)}
    if not all(isinstance(extent, int) for extent in extents.values()):
        return None
    axes = [index for index in total.indices if isinstance(index, Var)]
    kind, *reads_ = factors
    first, second = reads_ if axes[-1] in _moving(reads_[1]) else reads_[::-1]
    if axes[-1] in _moving(first) or axes[-1] not in _moving(second):
        return None
    rows = [place for place, axis in enumerate(axes[:-1])
            if axis in _moving(first) - _moving(second)]
    summed = [place for place, axis in enumerate(total.axes) if extents[axis] > 1]
    if not rows or not summed:
        return None
    row = max(rows, key=lambda place: extents[axes[place]])
    *taps, depth = summed
    k = total.axes[depth].name
    if taps and any(read.indices[-1] != total.axes[depth] for read in (first, second)):
        return None
    moving = {axis.name for axis in (axes[row], axes[-1], *total.axes)}
    for read, side in ((first, axes[row].name), (second, axes[-1].name)):
        dimensions = dimensions_of(read, extents, moving)
        if dimensions is None or dimensions.count(side) != 1 or dimensions.count(k) != 1:
            return None
    return TensorProduct(kind, total, (first, second), row, len(axes) - 1, depth, tuple(taps))


def flatten_rows(s: Schedule) -> None:
    """Fuses the outermost loops of the result to as many as its sum has: pixels of images are rows
    of a product.
    """
    sums = [write for write in writes_in(s.program) if not isinstance(write, Store)]
    out = s.program.outputs[0].name
    names = maps(s.program, write_of(s.program, out))
    if len(sums) == 1 and 0 < len(sums[0].indices) < len(names):
        fused(s, out, names[:len(names) - len(sums[0].indices) + 1], "row")


def in_precision(program: Program, kind: str) -> Program:
    """The program with the factors of float32 of its sums rounded for ``tf32``: one that computes
    products in less precision, where that is asked for.
    """
    def rule(stmt: Stmt) -> Stmt | None:
        match stmt:
            case Update(op="sum", value=Binary("mul", Read() as a, Read() as b)) if (
                    kind == "tf32" and a.dtype == b.dtype == "float32"):
                return replace(stmt, value=tf32(a) * tf32(b))
            case _:
                return None

    return replace(program, body=rewrite_stmts(program.body, rule))


def result_of(product: TensorProduct) -> tuple[int, int, int]:
    """Rows and columns of the product, and how many of them there are."""
    shape = product.sum.buffer.shape
    rows, columns = shape[product.rows], shape[product.columns]
    return rows, columns, prod(shape) // (rows * columns)


def _is_factor(program: Program, stage: Alloc, factors: Sequence[Read]) -> bool:
    """True if it is a factor of the sum, which alone reads it, and computed where it is read."""
    return (any(read.buffer == stage.buffer for read in factors)
            and isinstance(write_of(program, stage.buffer.name), Store)
            and len(readers(program, stage)) == 1)


def _moving(read: Read) -> frozenset[Var]:
    return frozenset[Var]().union(*map(free_variables, read.indices))


def dimensions_of(read: Read, extents: Mapping[Var, Extent],
                  moving: Collection[str] | None = None) -> list[str] | None:
    """The loop that each dimension moves along, "" for those that do not move, and for those that
    move along none of the loops `moving` where these are given; None where it is less simple.
    """
    single = {var: Const(0, INDEX) for var, extent in extents.items() if extent == 1}
    found = []
    for index in read.indices:
        match normalize(substitute(index, single)):
            case Var(name):
                found.append(name)
            case Const():
                found.append("")
            case other if moving is not None and not any(
                    var.name in moving for var in free_variables(other)):
                found.append("")
            case _:
                return None
    return found


def factors_of(total: Update) -> tuple[str, Read, Read] | None:
    """The kind of instruction for the terms of a sum, and their two factors."""
    match total.value:
        case Binary("mul", a, b) if total.op == "sum":
            first, second = _factor(a), _factor(b)
            if first and second and first[0] == second[0] and first[1].buffer != second[1].buffer:
                return first[0], first[1], second[1]
    return None


def _factor(expr: Expr) -> tuple[str, Read] | None:
    match expr:
        case Cast(Read(Buffer(dtype="int8")) as read, "int32"): return "s8", read
        case Cast(Read(Buffer(dtype="float16")) as read, "float32"): return "f16", read
        case Cast(Read(Buffer(dtype="bfloat16")) as read, "float32"): return "bf16", read
        case Call("tf32", (Read(Buffer(dtype="float32")) as read,)): return "tf32", read
        case _: return None


def work_of(product: TensorProduct, extents: Mapping[Var, int], tiles: TensorTiles) -> TiledWork:
    """The work for loops of these extents."""
    rows, columns, count = result_of(product)
    tiles, terms = tiles.for_result(rows, columns), step_of(product.kind)
    blocks = -(-rows // tiles.rows) * -(-columns // tiles.columns) * count
    axes = [extents[axis] for axis in product.sum.axes]
    return TiledWork(rows * columns * count, blocks, tiles.rows, tiles.columns, tiles.warps,
                -(-axes[product.depth] // terms), terms,
                tuple(axes[place] for place in product.taps))


def tile_tensors(s: Schedule, product: TensorProduct, tiles: TensorTiles = OFFERED[-1],
                 parts: Parts = WHOLE) -> None:
    """Applies the schedule above. With `parts` the tiles are of partial sums, which the stage of
    the sum adds: it is left to be scheduled. Raises ScheduleError for tiles that the program does
    not allow.
    """
    tiles = tiles.for_result(*result_of(product)[:2])
    out, total = s.program.outputs[0].name, product.sum.buffer.name
    update = write_of(s.program, total)
    assert isinstance(update, Update)
    row, column, depth, taps = _loops(product, update)
    step = step_of(product.kind)
    wide = {row: tiles.rows, column: tiles.columns, depth: step * parts.depth}
    extents = {loop.var: loop.extent for loop in loops_around(s.program, update)}
    moving = {row, column, depth, *taps}
    operands = [TensorOperand(read.buffer, dimensions_of(read, extents, moving) or [], side, depth)
                for read, side in zip(operands_of(update, product), (row, column), strict=True)]
    for operand in operands:
        operand.cache(s, wide)
    padded(s, depth, wide[depth])
    if parts != WHOLE:
        out = total = divide(s, total, taps, depth, parts)
        product = _of_parts(product, parts, update)
    total = sums_in(s, out, total, "fragment")
    update = write_of(s.program, total)
    assert isinstance(update, Update)
    axes = [index.name for index in update.indices if isinstance(index, Var)]
    row, column, depth, taps = _loops(product, update)
    padded(s, row, tiles.rows)
    padded(s, column, tiles.columns)
    warp = _cut_result(s, out, product, tiles)
    s[total].compute_at(warp)
    padded(s, row, tiles.warp_rows)           # where it is all that the result needs
    padded(s, column, tiles.warp_columns)
    names = [f"d{place}" for place in range(len(axes))]
    s[total].transform_layout(f"{', '.join(names)} -> d{product.rows}, d{product.columns}")
    _bind_result(s, out, warp)
    s[total].reorder(*(axis for axis in axes if axis not in (row, column)), row, column, depth)
    step, part = cut_sum(s, total, row, column, depth, taps, product.kind)
    tile_steps(s, total, product.kind, operands, tiles, step, part)


def tile_steps(s: Schedule, total: str, kind: str, operands: Sequence["TensorOperand"],
               tiles: TensorTiles, step: str, part: str, name: str = "") -> None:
    """Copies operands in every step of a sum, and multiplies what they have in every part. Names of
    loops begin with `name`.
    """
    threads = tiles.rows // tiles.warp_rows, tiles.columns // tiles.warp_columns
    for operand in operands:
        operand.copy(s, step, threads)
    for operand, side in zip(operands, "ab"):
        operand.load(s, part, kind, side)
    steps = extent_of(s, step)
    if ahead := min(tiles.stages, steps) - 1:
        s[total].pipeline(step, 0, 0, ahead, asynchronous=True)
    s[total].decompose_reduction(step)
    s[total].tensorize(f"{name}i_tile_init", mma_fill(MMA[kind].total))
    s[total].tensorize(f"{name}i_tile", mma(kind))


def _loops(product: TensorProduct, update: Update) -> tuple[str, str, str, list[str]]:
    """The loops over rows, columns, depth and taps, as they are called now."""
    axes = [index.name for index in update.indices if isinstance(index, Var)]
    summed = [axis.name for axis in update.axes]
    return (axes[product.rows], axes[product.columns], summed[product.depth],
            [summed[place] for place in product.taps])


def _of_parts(product: TensorProduct, parts: Parts, update: Update) -> TensorProduct:
    """The product whose results are partial sums: parts are the first axis of these."""
    gone = product.taps[:parts.loops]

    def moved(place: int) -> int:
        return place - sum(one < place for one in gone)

    return replace(product, rows=product.rows + 1, columns=product.columns + 1,
                   depth=moved(product.depth), taps=tuple(map(moved, product.taps[parts.loops:])))


def step_of(kind: str) -> int:
    """Elements of a row that a step multiplies."""
    return STEP_BYTES // numpy_dtype(MMA[kind].dtype).itemsize


def operands_of(update: Update, product: TensorProduct) -> tuple[Read, ...]:
    """The factors of the sum as it is now, in the order of those of the product."""
    found = {read.buffer: read for read in reads(update)}
    return tuple(found[read.buffer] for read in product.operands)


@dataclass(frozen=True, slots=True)
class TensorOperand:
    """An operand on its way to fragments. It moves along the loop `side` and over the depth."""

    buffer: Buffer
    dimensions: list[str]
    side: str
    depth: str

    @property
    def shared(self) -> str:
        return f"{self.buffer.name}_shared"

    @property
    def turned(self) -> str:
        return f"{self.buffer.name}_turned"

    @property
    def turns(self) -> bool:
        """True if it lies with its depth first and `load_fragment` cannot turn it."""
        places = [loop for loop in self.dimensions if loop in (self.depth, self.side)]
        return places[0] == self.depth and numpy_dtype(self.buffer.dtype).itemsize != 2

    def cache(self, s: Schedule, wide: dict[str, int]) -> None:
        """The copy, padded; in shared memory when the blocks are bound that share it. What turns
        comes by the registers of threads.
        """
        name = self.buffer.name
        first = s[name].cache_read("global", name=self.turned if self.turns else self.shared)
        if self.buffer not in s.program.inputs:
            s[name].compute_inline()
        for d, loop in enumerate(self.dimensions):
            if loop in wide:
                padded(s, f"{first.name}_{d}", wide[loop])
        if self.turns:
            first.cache_read("global", name=self.shared)

    def copy(self, s: Schedule, step: str, threads: tuple[int, int]) -> None:
        """All threads of the block copy it in every step: each up to 16 bytes at a time, or 4 x 4
        elements that it turns.
        """
        stage = s[self.shared]
        stage.set_scope("shared")
        stage.compute_at(step)
        kept = [d for d, loop in enumerate(self.dimensions) if loop in (self.depth, self.side)]
        names = [f"d{d}" for d in range(len(self.dimensions))]
        order = kept[::-1] if self.turns else kept
        stage.transform_layout(f"{', '.join(names)} -> {', '.join(names[d] for d in order)}")
        stage.swizzle()
        loops = [f"{self.shared}_{d}" for d in kept]
        stage.reorder(*(f"{self.shared}_{d}" for d in range(len(names)) if d not in kept), *loops)
        loops = self._squares(s, *loops) if self.turns else self._rows(s, *loops, kept[-1])
        loop = fused(s, self.shared, loops)
        loop = stage.split(loop, min(threads[0] * threads[1] * WARP, extent_of(s, loop)))[1]
        loop, tx = stage.split(loop, min(WARP, extent_of(s, loop)))
        tz, ty = stage.split(loop, min(threads[0], extent_of(s, loop)))
        for one, axis in ((tx, "x"), (ty, "y"), (tz, "z")):
            stage.bind(one, f"threadIdx.{axis}")
        if self.turns:
            s[self.turned].set_scope("local")
            s[self.turned].compute_at(tx)
            s[self.turned].unroll(f"{self.turned}_{kept[0]}")
            s[self.turned].vectorize(f"{self.turned}_{kept[1]}")
            s[self.turned].transform_layout(
                f"{', '.join(names)} -> {', '.join(names[d] for d in kept)}")
            if self.buffer.dtype == "int8":
                stage.tensorize(f"{self.shared}_{kept[1]}_i", turn_bytes())

    def _rows(self, s: Schedule, row: str, column: str, dimension: int) -> list[str]:
        """The loops that threads share when they copy parts of rows."""
        lanes = _lanes(self.buffer, dimension)
        if lanes > 1:
            column, lane = s[self.shared].split(column, lanes)
            s[self.shared].vectorize(lane)
        return [row, column]

    def _squares(self, s: Schedule, depth: str, side: str) -> list[str]:
        """The loops that threads share when they turn squares: 8 of a warp lie beside each other in
        memory, and 4 in shared memory.
        """
        stage = s[self.shared]
        (down, row), (across, column) = stage.split(depth, 4), stage.split(side, 4)
        down, four = stage.split(down, 4)
        across, eight = stage.split(across, min(8, extent_of(s, across)))
        loops = [down, across, four, eight]
        stage.reorder(*loops, column, row)
        if self.buffer.dtype != "int8":
            stage.unroll(column)
            stage.vectorize(row)
        return loops

    def load(self, s: Schedule, part: str, kind: str, name: str) -> None:
        """Fragments for what one instruction multiplies at a time."""
        places = [loop for loop in self.dimensions if loop in (self.depth, self.side)]
        transposed = places[0] == self.depth and not self.turns
        fragment = f"{self.shared}_fragment"
        stage = s[self.shared].cache_read(f"fragment_{name}", name=fragment)
        stage.compute_at(part)
        if transposed:
            stage.transform_layout("i, j -> j, i")
        side, lane = (f"{fragment}_{d}" for d in ((1, 0) if transposed else (0, 1)))
        tile, each = stage.split(side, 16)
        stage.reorder(tile, each, lane)
        stage.unroll(tile)
        stage.tensorize(each, load_fragment(kind, name, transposed))


def _lanes(buffer: Buffer, dimension: int) -> int:
    """Neighbours that are copied at a time: rows of the dimension begin at multiples of them."""
    row, most = prod(buffer.shape[dimension:]), COPY_BYTES // numpy_dtype(buffer.dtype).itemsize
    return min(row & -row, most)


def _cut_result(s: Schedule, out: str, product: TensorProduct, tiles: TensorTiles) -> str:
    """Cuts rows and columns into blocks, warps, tiles and what threads hold of these; returns the
    loop of warps.
    """
    stage, names = s[out], maps(s.program, write_of(s.program, out))
    row, column = names[product.rows], names[product.columns]
    padded(s, row, tiles.rows)
    padded(s, column, tiles.columns)
    others = [name for place, name in enumerate(names)
              if place not in (product.rows, product.columns)]
    for loop, cuts in ((row, (("row_block", tiles.rows), ("wi", tiles.warp_rows), ("m_out", 16),
                              ("half", 8))),
                       (column, (("column_block", tiles.columns), ("wj", tiles.warp_columns),
                                 ("n_out", 8), ("pair", 2)))):
        for name, factor in cuts:
            loop = stage.split(loop, factor, name, f"{name}_in")[1]
    stage.reorder(*others, "row_block", "column_block", "wj", "wi", "m_out", "n_out", "half",
                  "half_in", "pair", "pair_in")
    if others:
        stage.bind(fused(s, out, others), "blockIdx.z")
    stage.fuse("half_in", "pair", "lane")
    return "wi"


def _bind_result(s: Schedule, out: str, warp: str) -> None:
    for loop, axis in (("row_block", "blockIdx.y"), ("column_block", "blockIdx.x"),
                       ("wj", "threadIdx.z"), (warp, "threadIdx.y"), ("lane", "threadIdx.x")):
        s[out].bind(loop, axis)
    for loop in ("m_out", "n_out", "half"):
        s[out].unroll(loop)
    s[out].vectorize("pair_in")


def cut_sum(s: Schedule, total: str, row: str, column: str, depth: str, taps: list[str], kind: str,
            name: str = "") -> tuple[str, str]:
    """The loops over steps, of all taps, and parts of steps. All names begin with `name`."""
    stage = s[total]
    step, inner = stage.split(depth, step_of(kind), f"{name}k_step", f"{name}k_in")
    part, lane = stage.split(inner, MMA[kind].depth, f"{name}k_part", f"{name}k_lane")
    m, i = stage.split(row, 16, f"{name}m", f"{name}i_tile")
    n, j = stage.split(column, 8, f"{name}n", f"{name}j_tile")
    stage.reorder(*taps, step, part, m, n, i, j, lane, reassociate=True)
    if taps:
        step = fused(s, total, [*taps, step], f"{name}k_turn")
    for loop in (part, m, n):
        stage.unroll(loop)
    return step, part


def _is_map(program: Program, total: Update, out: Write) -> bool:
    """True if the result is computed from the sum element by element."""
    if out is total:
        return True
    found = {read for read in reads(out) if read.buffer == total.buffer}
    own = loops_around(program, out)
    return isinstance(out, Store) and len(found) == 1 and len(own) == len(total.indices) and all(
        index == loop.var or loop.extent == 1 and index == Const(0, INDEX)
        for index, loop in zip(next(iter(found)).indices, own, strict=True))
