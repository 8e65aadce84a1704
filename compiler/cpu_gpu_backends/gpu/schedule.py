"""The schedule of a group of operators on a GPU: which loops are blocks and which threads.

Stages that only map are computed where they are read. Of what is left, functions of rows take a
block for each row, whose threads reduce together, and so do long sums of which there are few::

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

What cannot be computed so is a kernel for each stage.
"""

from collections.abc import Callable, Sequence
from math import prod

from compiler.ir import (Alloc, For, Program, Store, Update, Write, path_to, reads,
                         walk_stmts)
from compiler.schedule import Schedule, ScheduleError
from compiler.te import Binary, Call, Expr, walk

__all__ = ["own_schedule"]

THREADS = 128               # of a block
SHARED = 48 << 10           # bytes that the blocks of every GPU have
FEW = 4096                  # results that are too few for a thread each,
LONG = 64                   # where each has so many terms


def own_schedule(program: Program) -> Schedule:
    """The schedule that we choose where nobody gives one."""
    s = Schedule(program)
    _inline_maps(s)
    return _first(s, _by_rows, _by_elements, _by_stages)


def _first(s: Schedule, *ways: Callable[[Schedule], bool]) -> Schedule:
    """The schedule by the first way that the program allows; the last one it does."""
    program, count = s.program, len(s.steps)
    for way in ways:
        try:
            if way(s):
                return s
        except ScheduleError:
            if way is ways[-1]:
                raise
        s.program = program
        del s.steps[count:]
    raise AssertionError(f"{program.name} has no schedule")


# What a program consists of


def _writes(program: Program) -> list[Write]:
    return [s for s in walk_stmts(program.body) if isinstance(s, Write)]


def _stages(program: Program) -> list[Alloc]:
    return [s for s in walk_stmts(program.body) if isinstance(s, Alloc)]


def _loops(program: Program, write: Write) -> list[For]:
    """The loops around, outermost first."""
    return [s for s in path_to(program.body, lambda one: one is write) if isinstance(s, For)]


def _maps(program: Program, write: Write) -> list[str]:
    """The loops that do not reduce."""
    axes = () if isinstance(write, Store) else write.axes
    return [loop.var.name for loop in _loops(program, write) if loop.var not in axes]


def _readers(program: Program, stage: Alloc) -> list[Write]:
    return [write for write in _writes(program)
            if any(read.buffer == stage.buffer for read in reads(write))]


def _is_light(value: Expr) -> bool:
    """Whether it is better computed again than stored and loaded."""
    return not any(isinstance(node, Call) or isinstance(node, Binary) and node.op in ("div", "mod")
                   for node in walk(value))


def _inline_maps(s: Schedule) -> None:
    """Inlines the stages that map and are read in one place, those with functions where nothing is
    computed again.
    """
    for stage in reversed(_stages(s.program)):
        writes = [w for w in _writes(s.program) if stage.buffer in w.buffers]
        places = [(write, read) for write in _writes(s.program) for read in reads(write)
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


def _by_rows(s: Schedule) -> bool:
    """A block for each row, if the program is a function of rows or a long sum."""
    program = s.program
    writes, stages = _writes(program), _stages(program)
    if len(program.outputs) != 1 or len(writes) != len(stages) + 1:
        return False
    out = next(w for w in writes if w.buffers[0] == program.outputs[0])
    lead = _rows_of(program, writes)
    outer = _maps(program, out)[:lead]
    if not outer or not _is_shared_well(program, writes, lead):
        return False
    if isinstance(out, Update):
        s[program.outputs[0].name].cache_write("shared", name="sum")
        out = next(w for w in _writes(s.program) if w.buffers[0] == program.outputs[0])
        outer = _maps(s.program, out)[:lead]
    for stage in reversed(_stages(s.program)):
        s[stage.buffer.name].set_scope("shared")
        s[stage.buffer.name].compute_at(outer[-1])
    if sum(stage.buffer.size_bytes for stage in _stages(s.program)) > SHARED:
        return False
    for place in range(len(_writes(s.program))):
        _share(s, place, lead)
    s[program.outputs[0].name].bind(_fused(s, program.outputs[0].name, outer), "blockIdx.x")
    return True


def _rows_of(program: Program, writes: Sequence[Write]) -> int:
    """How many of the outermost loops all stages have in common, each needing of the others what
    they compute in the same iteration.
    """
    nests = [[loop for loop in _loops(program, write)
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
    """Whether rows have sums that several elements need, or are few and long."""
    out = program.outputs[0]
    sums = [write for write in writes if not isinstance(write, Store)]
    if not sums:
        return False
    terms = max(prod(loop.extent for loop in _loops(program, write) if loop.var in write.axes)
                for write in sums)
    if lead == len(out.shape):
        return terms >= LONG and prod(out.shape) <= FEW
    return all(prod(write.buffers[0].shape[lead:]) == 1 for write in sums)


def _share(s: Schedule, place: int, lead: int) -> None:
    """Gives the loops inside of rows to threads: those of a map, or those that reduce."""
    write = _writes(s.program)[place]
    nest = _loops(s.program, write)
    reduces = not isinstance(write, Store)
    axes = write.axes if reduces else tuple(loop.var for loop in nest[lead:])
    chosen = [loop.var.name for loop in nest if loop.var in axes]
    if not chosen:
        return
    loop = _fused(s, write.buffers[0].name, chosen)
    extent = next(one.extent for one in _loops(s.program, _writes(s.program)[place])
                  if one.var.name == loop)
    stage = s[write.buffers[0].name]
    if extent > THREADS:
        outer, loop = stage.split(loop, THREADS)
        if reduces:
            stage.reorder(loop, outer, reassociate=True)
    stage.bind(loop, "threadIdx.x", reassociate=reduces)


def _fused(s: Schedule, stage: str, names: Sequence[str]) -> str:
    loop, *rest = names
    for name in rest:
        loop = s[stage].fuse(loop, name)
    return loop


# A thread for each element


def _by_elements(s: Schedule) -> bool:
    """A thread for each element of the result, and kernels before for what several need."""
    for buffer in s.program.outputs:
        write = next(w for w in _writes(s.program) if buffer in w.buffers)
        if isinstance(write, Update) and _maps(s.program, write):
            s[buffer.name].cache_write("local", name=f"{buffer.name}_sum")
    for stage in reversed(_stages(s.program)):
        readers = _readers(s.program, stage)
        if len(readers) == 1 and isinstance(readers[0], Store):
            reader = readers[0].buffers[0]
            if prod(reader.shape) <= prod(stage.buffer.shape) and (
                    loops := _maps(s.program, readers[0])):
                s[stage.buffer.name].set_scope("local")
                s[stage.buffer.name].compute_at(loops[-1])
                continue
        write = next(w for w in _writes(s.program) if stage.buffer in w.buffers)
        if isinstance(write, Update) and _maps(s.program, write):
            name = stage.buffer.name
            s[name].cache_write("local", name=f"{name}_sum")
            write = next(w for w in _writes(s.program) if w.buffers[0].name == name)
            s[f"{name}_sum"].compute_at(_maps(s.program, write)[-1])
    return _by_stages(s)


def _by_stages(s: Schedule) -> bool:
    """Binds the loops of every statement of the program's own block."""
    for write in _writes(s.program):
        if write.buffers[0].scope == "global":
            _bind(s, write.buffers[0].name)
    return True


def _bind(s: Schedule, stage: str) -> None:
    write = next(w for w in _writes(s.program) if w.buffers[0].name == stage)
    names = _maps(s.program, write)
    if not names:
        _share(s, _writes(s.program).index(write), 0)
        return
    loop = _fused(s, stage, names)
    size = next(one.extent for one in _loops(s.program, next(
        w for w in _writes(s.program) if w.buffers[0].name == stage)) if one.var.name == loop)
    block, thread = s[stage].split(loop, min(THREADS, size))
    s[stage].bind(block, "blockIdx.x")
    s[stage].bind(thread, "threadIdx.x")
