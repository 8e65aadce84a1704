"""The schedule of a group of operators on a GPU: which loops are blocks and which threads.

Products are computed in tiles, by tensor cores (`tensor_tiles.py`) or by threads (`tiles.py`), and
two of them with functions of rows between are attention (`attention.py`). In other groups, stages
that only map are computed where they are read. Functions of rows take a block for each row, whose
threads reduce together, and so do long sums of which there are few::

    for i (blockIdx.x):                             one row of the result
      alloc shared top[1], e[n], total[1]
      for k (threadIdx.x): top max= x[i, k]
      for k (threadIdx.x): e[k] = exp(x[i, k] - top)
      for k (threadIdx.x): total += e[k]
      for k (threadIdx.x): y[i, k] = e[k] / total

Everything else has a thread for each element of the result, in whose registers sums are formed::

    for f_o (blockIdx.x):
      for f_i (threadIdx.x):
        alloc local acc[1]
        for c, kh, kw: acc += x[...] * w[...]
        y[f] = max(acc + bias[...], 0)

Where nothing is summed and elements that follow each other are read and written as they follow each
other, a thread has a vector of at most 16 bytes, if that leaves threads enough. What cannot be
computed so is a kernel for each stage.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from math import prod

from compiler.cpu_gpu_backends.gpu.attention import (ROWS, WIDEST, attention_of, rows_of,
                                                     tile_attention)
from compiler.cpu_gpu_backends.gpu.group_tiles import (OFFERED_GROUPS, copied_by_tma, tile_groups,
                                                       work_of_groups)
from compiler.cpu_gpu_backends.gpu.parts import WHOLE, Parts, TiledWork, cost_by_rows, divisions
from compiler.cpu_gpu_backends.gpu.stages import (extent_of, fused, inline_copies,
                                                  loops_around, maps, readers, stages, write_of,
                                                  writes_in)
from compiler.cpu_gpu_backends.gpu.tensor_attention import (tensor_attention_of,
                                                            tile_tensor_attention)
from compiler.cpu_gpu_backends.gpu.tensor_tiles import (OFFERED, TensorProduct, TensorTiles,
                                                        flatten_rows, result_of,
                                                        tensor_product_of, tile_tensors, work_of)
from compiler.cpu_gpu_backends.gpu.shared_tiles import (LEAST, SHARED, GpuTiles, product_of,
                                                        shared_bytes, tile_product, tiled_work)
from compiler.cpu_gpu_backends.simt.vectors import vectors
from compiler.ir import Program, Store, Update, Write, reads
from compiler.schedule import Schedule, ScheduleError
from compiler.te import INDEX, Binary, Call, Expr, Read, children, numpy_dtype
from compiler.tune.chooser import OWN, Chooser

THREADS = 128               # of a block,
OTHER_THREADS = 64, 256, 32     # or these where somebody else chooses
TERMS = 8, 4, 2             # of a product that are in shared memory at once, ours first
LAST = "stages"             # the way that every program allows
EACH = 4, 2, 8              # rows, and columns, of a tile that a thread computes, ours first
VECTOR_BYTES = 16           # that a thread loads or stores at once
BUSY = 1 << 14              # threads that vectors leave at least
FASTER = 2                  # products of groups of warps than others of tensor cores
FEW = 4096                  # results that are too few for a thread each,
LONG = 64                   # where each has so many terms


def own_schedule(program: Program, kinds: Collection[str] = (), groups: bool = False,
                 chooser: Chooser = OWN) -> Schedule:
    """The schedule by the first of our ways that the program allows, unless the chooser takes
    another one; it decides the rest, too. `kinds` are those of `MMA` that tensor cores may compute:
    sums of floats change their order; with `groups`, by groups of warps where that can be.
    """
    ways: dict[str, Callable[[Schedule], bool]] = {
        f"attention {choice}": partial(_by_attention, choice=choice, kinds=kinds)
        for choice in range(len(ROWS))}
    if groups:
        ways["groups of warps"] = partial(_by_groups, kinds=kinds, chooser=chooser)
    ways["tensor cores"] = partial(_by_tensor_cores, kinds=kinds, chooser=chooser)
    ways |= {f"tiles of {terms} terms": partial(_by_tiles, terms=terms, chooser=chooser)
             for terms in TERMS}
    ways |= {"rows": partial(_by_rows, chooser=chooser),
             "elements": partial(_by_elements, chooser=chooser), LAST: partial(
                 _by_stages, chooser=chooser)}
    s = Schedule(program)
    for name in chooser.ranked("way", tuple(ways)):
        try:
            if ways[name](s):
                return s
        except ScheduleError:
            if name == LAST:
                raise
        s.program = program
        s.steps.clear()
    raise AssertionError(f"{program.name} has no schedule")


# Products


def _by_attention(s: Schedule, choice: int, kinds: Collection[str]) -> bool:
    """Two products and functions of rows between, if what their blocks need fits."""
    attention = attention_of(s)
    if attention is None or min(attention.shape) < LEAST or attention.width > WIDEST:
        return False
    tensors = tensor_attention_of(attention)
    if tensors is not None and tensors.kind in kinds:
        if choice >= len(offered := tensors.offered()):
            return False
        tile_tensor_attention(s, tensors, *offered[choice])
    else:
        if choice >= len(offered := rows_of(attention)):
            return False
        tile_attention(s, attention, offered[choice])
    return shared_bytes(s) <= SHARED


def _by_tensor_cores(s: Schedule, kinds: Collection[str], chooser: Chooser) -> bool:
    """Tensor cores, if the program is a product of one of the kinds."""
    if not kinds:
        return False
    flatten_rows(s)
    product = tensor_product_of(s.program)
    if product is None or product.kind not in kinds or min(result_of(product)[:2]) < LEAST:
        return False
    tiles, work, parts = _tensor_way(s.program, product, chooser)
    if _is_better_by_rows(s.program, product.sum, work, parts):
        return False
    tile_tensors(s, product, tiles, parts)
    return parts == WHOLE or add_parts(s, product.sum.buffer.name)


def _tensor_way(program: Program, product: TensorProduct, chooser: Chooser = OWN
                ) -> tuple[TensorTiles, TiledWork, Parts]:
    """Tiles and parts of the least cost."""
    extents = {loop.var: loop.extent for loop in loops_around(program, product.sum)}
    works = [work_of(product, extents, tiles) for tiles in OFFERED]
    ways = [(tiles, work, parts) for tiles, work in zip(OFFERED, works)
            for parts in divisions(work)]
    return chooser.one_of("tiles and parts", ways, lambda way: way[1].cost(way[2]))


def _by_groups(s: Schedule, kinds: Collection[str], chooser: Chooser) -> bool:
    """Groups of warps, if the program is a product of one of the kinds whose operands the TMA
    copies, and no sum in parts is estimated to take less.
    """
    flatten_rows(s)
    inline_copies(s)
    product = tensor_product_of(s.program)
    if product is None or product.kind not in kinds or min(result_of(product)[:2]) < LEAST or (
            not copied_by_tma(s.program, product)):
        return False
    works = {tiles: work_of_groups(s.program, product, tiles) for tiles in OFFERED_GROUPS}
    tiles = chooser.one_of("tiles of groups", OFFERED_GROUPS, lambda tiles: works[tiles].cost())
    _, work, parts = _tensor_way(s.program, product)
    if _is_better_by_rows(s.program, product.sum, works[tiles], WHOLE) or (
            works[tiles].cost() > FASTER * work.cost(parts)):
        return False
    tile_groups(s, product, tiles)
    return True


def _by_tiles(s: Schedule, terms: int, chooser: Chooser) -> bool:
    """Tiles, if the program is a product with so many results that tiles keep a GPU busy."""
    product = product_of(s.program)
    if product is None:
        return False
    tiles = GpuTiles(chooser.one_of("threads along rows", (8, 4, 16)),
                     chooser.one_of("threads along columns", (16, 8, 32)),
                     chooser.one_of("rows of a thread", EACH),
                     chooser.one_of("columns of a thread", EACH), terms)
    work = tiled_work(s.program, product, tiles)
    parts = chooser.one_of("parts", [*divisions(work)], work.cost)
    if _is_better_by_rows(s.program, product.sum, work, parts):
        return False
    tile_product(s, product, tiles, parts)
    return shared_bytes(s) <= SHARED and (parts == WHOLE or add_parts(s, product.sum.buffer.name))


def _is_better_by_rows(program: Program, total: Update, work: TiledWork, parts: Parts) -> bool:
    """True if there are few results, and a block for each sums it sooner than tiles do. Pixels that
    are one axis of the sum and several of the result are no rows.
    """
    return (_is_few(program, [total]) and len(total.indices) == len(program.outputs[0].shape)
            and work.cost(parts) > cost_by_rows(work.results, _terms(program, total), work.rates))


def add_parts(s: Schedule, total: str) -> bool:
    """A thread for each element of the result, which adds its parts."""
    out = s.program.outputs[0].name
    if total == out:
        total = s[out].cache_write("local", name=f"{out}_sum").name
    else:
        s[total].set_scope("local")
    s[total].compute_at(maps(s.program, write_of(s.program, out))[-1])
    _bind(s, out)
    return True


def _is_few(program: Program, sums: Sequence[Write]) -> bool:
    """True if there are few results, of long sums."""
    terms = max(_terms(program, write) for write in sums)
    return terms >= LONG and prod(program.outputs[0].shape) <= FEW


def _terms(program: Program, write: Write) -> int:
    """The number of terms of each sum."""
    axes = () if isinstance(write, Store) else write.axes
    return prod(loop.extent for loop in loops_around(program, write) if loop.var in axes)


# What is computed where it is read


def _is_light(value: Expr) -> bool:
    """True if it is better computed again than stored and loaded. Places do not count: they are
    computed to load it as well.
    """
    match value:
        case Read(): return True
        case Call(): return False
        case Binary("div" | "mod") if value.dtype != INDEX: return False
        case _: return all(map(_is_light, children(value)))


def _inline_maps(s: Schedule) -> None:
    """Inlines the stages that map and are read in one place, those with functions where nothing is
    computed again.
    """
    for stage in reversed(stages(s.program)):
        writes = [w for w in writes_in(s.program) if stage.buffer in w.buffers]
        places = [(write, read) for write in writes_in(s.program) for read in reads(write)
                  if read.buffer == stage.buffer]
        if len(writes) != 1 or not isinstance(writes[0], Store) or len(places) != 1:
            continue
        reader = places[0][0]
        if _is_light(writes[0].value) or isinstance(reader, Store) and (
                prod(reader.buffers[0].shape) <= prod(stage.buffer.shape)):
            try:
                s[stage.buffer.name].compute_inline()
            except ScheduleError:
                pass


# Functions of rows


def _by_rows(s: Schedule, chooser: Chooser) -> bool:
    """A block for each row, if the program is a function of rows or a long sum."""
    _inline_maps(s)
    program = s.program
    writes = writes_in(program)
    if len(program.outputs) != 1 or len(writes) != len(stages(program)) + 1:
        return False
    out = next(w for w in writes if w.buffers[0] == program.outputs[0])
    lead = _rows_of(program, writes)
    outer = maps(program, out)[:lead]
    if not outer or not _is_shared_well(program, writes, lead):
        return False
    if isinstance(out, Update):
        s[program.outputs[0].name].cache_write("shared", name="sum")
        out = next(w for w in writes_in(s.program) if w.buffers[0] == program.outputs[0])
        outer = maps(s.program, out)[:lead]
    for stage in reversed(stages(s.program)):
        s[stage.buffer.name].set_scope("shared")
        s[stage.buffer.name].compute_at(outer[-1])
    if shared_bytes(s) > SHARED:
        return False
    threads = chooser.one_of("threads", (THREADS, *OTHER_THREADS))
    for place in range(len(writes_in(s.program))):
        _share(s, place, lead, threads)
    s[program.outputs[0].name].bind(fused(s, program.outputs[0].name, outer), "blockIdx.x")
    return True


def _rows_of(program: Program, writes: Sequence[Write]) -> int:
    """The number of outermost loops that all stages have in common, each needing of the others what
    they compute in the same iteration.
    """
    nests = [[loop for loop in loops_around(program, write)
              if isinstance(write, Store) or loop.var not in write.axes] for write in writes]
    made = {write.buffers[0] for write in writes}
    lead = 0
    while all(len(nest) > lead and nest[lead].extent == nests[0][lead].extent
              and write.indices[lead:lead + 1] == (nest[lead].var,)
              and all(read.indices[lead:lead + 1] == (nest[lead].var,) or nest[lead].extent == 1
                      for read in reads(write) if read.buffer in made)
              for write, nest in zip(writes, nests)):
        lead += 1
    return lead


def _is_shared_well(program: Program, writes: Sequence[Write], lead: int) -> bool:
    """True if rows have sums that several elements need, or are few and long."""
    out = program.outputs[0]
    sums = [write for write in writes if not isinstance(write, Store)]
    if not sums:
        return False
    if lead == len(out.shape):
        return _is_few(program, sums)
    return all(prod(write.buffers[0].shape[lead:]) == 1 for write in sums)


def _share(s: Schedule, place: int, lead: int, threads: int = THREADS) -> None:
    """Gives the loops inside of rows to threads: those of a map, or those that reduce."""
    write = writes_in(s.program)[place]
    nest = loops_around(s.program, write)
    reduces = not isinstance(write, Store)
    axes = write.axes if reduces else tuple(loop.var for loop in nest[lead:])
    chosen = [loop.var.name for loop in nest if loop.var in axes]
    if not chosen:
        return
    loop = fused(s, write.buffers[0].name, chosen)
    stage = s[write.buffers[0].name]
    if extent_of(s, loop) > threads:
        outer, loop = stage.split(loop, threads)
        if reduces:
            stage.reorder(loop, outer, reassociate=True)
    stage.bind(loop, "threadIdx.x", reassociate=reduces)


# A thread for each element


def _by_elements(s: Schedule, chooser: Chooser) -> bool:
    """A thread for each element of the result, and kernels before for what several need."""
    _inline_maps(s)
    for buffer in s.program.outputs:
        write = write_of(s.program, buffer.name)
        if isinstance(write, Update) and maps(s.program, write):
            s[buffer.name].cache_write("local", name=f"{buffer.name}_sum")
    for stage in reversed(stages(s.program)):
        reading = readers(s.program, stage)
        if len(reading) == 1 and isinstance(reading[0], Store):
            if prod(reading[0].buffer.shape) <= prod(stage.buffer.shape) and (
                    loops := maps(s.program, reading[0])):
                s[stage.buffer.name].set_scope("local")
                s[stage.buffer.name].compute_at(loops[-1])
                continue
        write = write_of(s.program, stage.buffer.name)
        if isinstance(write, Update) and maps(s.program, write):
            name = stage.buffer.name
            s[name].cache_write("local", name=f"{name}_sum")
            write = write_of(s.program, name)
            s[f"{name}_sum"].compute_at(maps(s.program, write)[-1])
    return _by_stages(s, chooser)


def _by_stages(s: Schedule, chooser: Chooser) -> bool:
    """Binds the loops of every statement of the program's own block."""
    for write in writes_in(s.program):
        if write.buffers[0].scope == "global":
            _bind(s, write.buffers[0].name, chooser)
    return True


def _bind(s: Schedule, stage: str, chooser: Chooser = OWN) -> None:
    """Gives the loops of a stage to blocks and threads, a vector to a thread where it can be."""
    write = write_of(s.program, stage)
    names = maps(s.program, write)
    threads = chooser.one_of("threads", (THREADS, *OTHER_THREADS))
    if not names:
        _share(s, writes_in(s.program).index(write), 0, threads)
        return
    loop = fused(s, stage, _without_lanes(s, stage, names))
    block, thread = s[stage].split(loop, min(threads, extent_of(s, loop)))
    s[stage].bind(block, "blockIdx.x")
    s[stage].bind(thread, "threadIdx.x")


def _without_lanes(s: Schedule, stage: str, names: list[str]) -> list[str]:
    """The loops that are left when those of elements that are loaded and stored as one vector are
    cut from the innermost ones; all of them where there is no such vector.
    """
    write = write_of(s.program, stage)
    if not isinstance(write, Store) or len(loops_around(s.program, write)) != len(names):
        return names
    widest = max(numpy_dtype(buffer.dtype).itemsize
                 for buffer in (write.buffer, *(read.buffer for read in reads(write))))
    elements = prod(extent_of(s, name) for name in names)
    program, count = s.program, len(s.steps)
    for lanes in (16, 8, 4, 2):
        if lanes * widest > VECTOR_BYTES or elements // lanes < BUSY:
            continue
        for place in range(len(names) - 1, -1, -1):
            if prod(extent_of(s, name) for name in names[place:]) % lanes:
                continue
            inner = fused(s, stage, names[place:])
            outer, lane = s[stage].split(inner, lanes)
            s[stage].vectorize(lane)
            if any(one.store.buffer == write.buffer for one in vectors(s.program.body)):
                return [*names[:place], outer]
            s.program = program
            del s.steps[count:]
    return names
