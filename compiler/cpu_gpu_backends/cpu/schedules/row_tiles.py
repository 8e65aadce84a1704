"""The schedule of sums whose results lie in rows: convolutions, products, pooling.

::

    for n, c_o, y, x_o:                            one tile of the result: rows by columns
      alloc acc[rows, columns]                     which stays in vector registers
      for ci, ky, kx:
        for c_i (unroll), x_i (vectorize):
          acc[c_i, x_i] += p[ci, y + ky, 32*x_o + x_i + kx] * w[8*c_o + c_i, ci, ky, kx]
      for c_i (unroll), x_i (vectorize):
        y[...] = everything that follows, of acc[c_i, x_i]

The rows of a tile are those of an axis that what is loaded as vectors (here p) does not depend
on: each vector serves all of them. Where the columns of the result are no whole tiles, a copy of p
with longer rows lets every vector be whole; only what is stored has a mask. Where neighbouring
columns read elements that are apart, the copy has them side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.ir import For, Program, Store, Update, free_variables, linear, reads, walk_stmts
from compiler.schedule import Schedule
from compiler.te import Expr, Read, Var
from compiler.tune.chooser import OWN, Chooser

SHORTEST_ROW = 4
REUSE = 16              # times that an element is read which pay for copying it


@dataclass(frozen=True, slots=True)
class _Sum:
    """The one reduction of a program and its axes.

    `row` runs along the vectors, which `loaded` are read as, every `stride`-th element; `shared` is
    the axis that these do not depend on; `outer` is the innermost axis that they depend on as a
    whole. Either may be None.
    """

    update: Update
    row: int
    loaded: Read
    stride: int
    shared: int | None
    outer: int | None


def tile_sums(program: Program, vectors: Vectors, chooser: Chooser = OWN) -> Schedule | None:
    """Applies the schedule above; None where the program is no such sum.

    The terms of each element are added in their original order.
    """
    total = _sum_of(program)
    if total is None:
        return None
    schedule, out = Schedule(program), program.outputs[0].name
    return _tiled(schedule, total, sum_apart(schedule, total.update), out, vectors, chooser)


def the_sum(program: Program) -> tuple[Update, list[Var]] | None:
    """The one reduction of a program and the loops over its result, if the program's output is
    this, or is computed from it element by element.
    """
    updates = [s for s in walk_stmts(program.body) if isinstance(s, Update)]
    if len(updates) != 1 or len(program.outputs) != 1:
        return None
    update, = updates
    axes = [index for index in update.indices if isinstance(index, Var)]
    if not axes or len(axes) < len(update.indices) or not _is_mapped(program, update):
        return None
    return update, axes


def sum_apart(s: Schedule, update: Update) -> str:
    """The stage of the sum, which becomes one of its own where it is the output."""
    total, out = update.buffer.name, s.program.outputs[0].name
    if total != out:
        return total
    s[out].cache_write("global", f"{out}_sum")
    return f"{out}_sum"


def keep_in_registers(s: Schedule, total: str, reduced: Sequence[str],
                      tile: Sequence[str]) -> None:
    """Moves the reduction outside of a tile of sums, the last loop of which is a vector, and the
    sums' beginning before it. Each vector has statements of its own, or LLVM may leave it in
    memory.
    """
    s[total].reorder(*reduced, *tile)
    for loop in tile[:-1]:
        s[total].unroll(loop)
    s[total].vectorize(tile[-1])
    s[total].decompose_reduction(reduced[0])


def _sum_of(program: Program) -> _Sum | None:
    found, extents = the_sum(program), extents_of(program)
    if found is None or extents[found[1][-1]] < SHORTEST_ROW:
        return None
    update, axes = found
    operands = list(reads(update))
    loaded = [read for read in operands if _names(read, axes[-1])]
    if len(loaded) != 1 or not _in_rows(loaded[0], axes[-1]):
        return None
    shared = [place for place, axis in enumerate(axes[:-1]) if extents[axis] > 1
              and not _names(loaded[0], axis) and any(_names(read, axis) for read in operands)]
    whole = {_moving(index, extents) for index in loaded[0].indices[:-1]}
    outer = [place for place, axis in enumerate(axes[:-1]) if axis in whole]
    stride = dict(linear(loaded[0].indices[-1]).terms)[axes[-1]]
    return _Sum(update, len(axes) - 1, loaded[0], stride, shared[-1] if shared else None,
                outer[-1] if outer else None)


def extents_of(program: Program) -> dict[Var, int]:
    return {s.var: s.extent for s in walk_stmts(program.body)
            if isinstance(s, For) and isinstance(s.extent, int)}


def _names(read: Read, var: Var) -> bool:
    return any(var in free_variables(index) for index in read.indices)


def _in_rows(read: Read, row: Var) -> bool:
    """True if the row's index moves along the last dimension alone, forwards."""
    form = dict(linear(read.indices[-1]).terms)
    return (row in form and all(isinstance(atom, Var) and f > 0 for atom, f in form.items())
            and not any(row in free_variables(index) for index in read.indices[:-1]))


def _moving(index: Expr, extents: dict[Var, int]) -> Var | None:
    """The one variable that the index is, apart from such that stay 0."""
    form = linear(index)
    match [(atom, f) for atom, f in form.terms
           if not (isinstance(atom, Var) and extents.get(atom) == 1)]:
        case [(Var() as var, 1)] if not form.constant: return var
        case _: return None


def _is_mapped(program: Program, update: Update) -> bool:
    """True if the result is the sum itself, or computed from it element by element."""
    out, total = program.outputs[0], update.buffer
    if total == out:
        return True
    readers = [s for s in walk_stmts(program.body) if isinstance(s, Store)
               and any(read.buffer == total for read in reads(s))]
    return len(readers) == 1 and readers[0].buffer == out and total.shape == out.shape and all(
        index == own or extent == 1 for read in reads(readers[0]) if read.buffer == total
        for index, own, extent in zip(read.indices, readers[0].indices, out.shape, strict=True))


def _tiled(s: Schedule, matched: _Sum, total: str, out: str, vectors: Vectors,
           chooser: Chooser) -> Schedule:
    axes = axes_of(s.program, out)
    extent = s.program.outputs[0].shape
    columns = vectors.columns(extent[matched.row], chooser)
    rows = (1 if matched.shared is None
            else vectors.rows(extent[matched.shared], columns, chooser))
    loaded = _widened(s, matched, total, columns, prod(extent))
    order = list(axes)
    row, inner = s[out].split(axes[matched.row], columns)
    order[matched.row], tile = row, [inner]
    if matched.shared is not None:
        order[matched.shared], shared = s[out].split(axes[matched.shared], rows)
        tile.insert(0, shared)
        own = _weighs_more(s.program, matched)
        if chooser.one_of("tiles of rows inside", (own, not own)):
            order.append(order.pop(matched.shared))
    s[out].reorder(*order, *tile)
    s[total].compute_at(order[-1])
    _accumulate(s, matched, total)
    if loaded is not None:
        if matched.outer is not None:
            s[loaded].compute_at(axes[matched.outer])
        copy_by_vectors(s, loaded, matched.stride, vectors.lanes)
    for loop in tile[:-1]:
        s[out].unroll(loop)
    s[out].vectorize(inner)
    if columns < extent[matched.row] and extent[matched.row] % columns:
        s[out].peel(row)
    return s


def _weighs_more(program: Program, matched: _Sum) -> bool:
    """True if what is loaded is more than the other operands: then these are read again for each
    tile of columns, and not that for each tile of rows.
    """
    sizes = {read.buffer: prod(read.buffer.shape) for read in reads(matched.update)}
    return 2 * sizes[matched.loaded.buffer] > sum(sizes.values())


def axes_of(program: Program, stage: str) -> list[str]:
    """Names of the loops that run over the dimensions of a buffer's one write."""
    write = next(s for s in walk_stmts(program.body)
                 if isinstance(s, Store | Update) and s.buffer.name == stage)
    return [index.name for index in write.indices if isinstance(index, Var)]


def _widened(s: Schedule, matched: _Sum, total: str, columns: int, results: int) -> str | None:
    """Lets the sum run over whole tiles, if what it loads is, or is worth being, a copy with rows
    long enough and its elements side by side; the name of that copy, None if there is none.
    """
    extent, source = s.program.outputs[0].shape[-1], matched.loaded.buffer
    wide = -(-extent // columns) * columns
    given = source in s.program.inputs
    terms = prod(size for var, size in extents_of(s.program).items() if var in matched.update.axes)
    if given and (wide == extent and matched.stride == 1
                  or results * terms < REUSE * prod(source.shape)):
        return None
    copy = source.name
    if given:
        copy = f"{source.name}_rows"
        s[source.name].cache_read("global", name=copy)
    if wide > extent:
        axis = axes_of(s.program, copy)[-1]
        s[copy].pad(axis, max(_reach(s.program, matched, wide), int(source.shape[-1])))
        s[total].pad(axes_of(s.program, total)[-1], wide)
    return copy


def _reach(program: Program, matched: _Sum, wide: int) -> int:
    """The length of the loaded rows for so many columns."""
    extents = extents_of(program) | {matched.update.indices[-1]: wide}
    form = linear(matched.loaded.indices[-1])
    return form.constant + 1 + sum(f * (extents[atom] - 1) for atom, f in form.terms)


def _accumulate(s: Schedule, matched: _Sum, total: str) -> None:
    """Moves the reduction outside of the tile, and its initialization before the reduction."""
    axes, reduced = axes_of(s.program, total), [var.name for var in matched.update.axes]
    inner = [name for place, name in enumerate(axes) if place not in (matched.shared, matched.row)]
    shared = [] if matched.shared is None else [axes[matched.shared]]
    s[total].reorder(*reduced, *inner, *shared, axes[matched.row])
    for loop in shared:
        s[total].unroll(loop)
    s[total].vectorize(axes[matched.row])
    s[total].decompose_reduction(reduced[0])


def copy_by_vectors(s: Schedule, copy: str, stride: int, lanes: int) -> None:
    """Makes the copy by vectors. Elements that are `stride` apart come to lie side by side."""
    row = axes_of(s.program, copy)[-1]
    extent = extents_of(s.program)[Var(row)]
    if 1 < stride < extent:
        *outer, last = (f"i{place}" for place, _ in enumerate(axes_of(s.program, copy)))
        apart = [*outer, f"{last} % {stride}", f"{last} // {stride}"]
        s[copy].transform_layout(f"{', '.join([*outer, last])} -> {', '.join(apart)}")
        row, phase = s[copy].split(row, stride)
        s[copy].reorder(phase, row)
        extent = extents_of(s.program)[Var(row)]
    if extent > lanes:
        _, row = s[copy].split(row, lanes)
    s[copy].vectorize(row)
