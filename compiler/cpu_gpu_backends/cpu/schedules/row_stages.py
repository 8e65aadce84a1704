"""The schedule of functions of whole rows: softmax, norms, whatever sums rows up and goes on.

::

    for i, j:                                      one row of the result
      alloc t0[1], t1[n], t2[1]                    which stay in the nearest cache
      for k: t0 max= x[i, j, k]
      for k (vectorize): t1[k] = exp(x[i, j, k] - t0)
      for k: t2 += t1[k]
      for k (vectorize): y[i, j, k] = t1[k] / t2

`cpu.schedules.sums` makes lanes of the reductions.
"""

from compiler.cpu_gpu_backends.cpu.schedules.row_tiles import axes_of
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.ir import Alloc, For, Program, Store, Update, Write, path_to, walk_stmts
from compiler.schedule import Schedule, peel, split, vectorize
from compiler.tune.chooser import OWN, Chooser


def stages_by_rows(program: Program, vectors: Vectors, chooser: Chooser = OWN
                   ) -> Schedule | None:
    """Applies the schedule above; None where the program is no such function."""
    writes = [s for s in walk_stmts(program.body) if isinstance(s, Write)]
    stages = [s.buffer for s in walk_stmts(program.body) if isinstance(s, Alloc)]
    out, *others = program.outputs
    sums = [s for s in writes if isinstance(s, Update)]
    if (others or len(out.shape) < 2 or not stages or len(writes) != len(stages) + 1
            or not sums or not all(isinstance(s, Store | Update) for s in writes)
            or any(stage.shape[:-1] != out.shape[:-1] for stage in stages)
            or any(len(s.axes) > 1 or s.buffer.shape[-1] > 1 for s in sums)
            or len({buffer.shape[-1] for buffer in (out, *stages)} | {1}) != 2):
        return None
    s = Schedule(program)
    row = axes_of(program, out.name)[-2]
    for stage in reversed(stages):
        s[stage.name].compute_at(row)
    for store in [s for s in walk_stmts(s.program.body) if isinstance(s, Store)]:
        along_rows(s, store, vectors)
    return s


def along_rows(s: Schedule, store: Store, vectors: Vectors) -> None:
    """Computes a map a vector at a time, and what is left of its rows by itself, where rows are
    long enough.
    """
    nest = [loop for loop in path_to(s.program.body, lambda one: one == store)
            if isinstance(loop, For)]
    if not nest or nest[-1].var not in store.indices:
        return
    name, extent = nest[-1].var.name, nest[-1].extent
    if isinstance(extent, int) and extent >= vectors.lanes and not vectors.scalar:
        s.apply(split, name, vectors.lanes)
        s.apply(vectorize, f"{name}_i")
        if extent % vectors.lanes:
            s.apply(peel, f"{name}_o")
