"""The schedule of sums on a processor without vectors: what it reads stays where it lies.

::

    for n, y, x, c_o:                              a few elements of a row of the result
      alloc acc[4]                                 whose sums stay in registers
      for ky, kx, ci:
        for c_i (unroll):
          acc[c_i] += (x[y + ky - 1, x + kx - 1, ci] inside the image, else the pad) * w[...]
      for c_i (unroll):
        y[...] = everything that follows, of acc[c_i]

No copy of an operand is made: pads, and what a window sees of an image, are chosen where they are
read. Conditions on the loops outside of the last one are tested there.
"""

from compiler.cpu_gpu_backends.cpu.schedules.row_tiles import axes_of, sum_apart, the_sum
from compiler.cpu_gpu_backends.cpu.schedules.vectors import Vectors
from compiler.ir import Alloc, Program, Store, walk_stmts
from compiler.schedule import Schedule
from compiler.te import Binary, Cast, Const, Expr, Read, Select, Var


def tile_direct(program: Program, vectors: Vectors) -> Schedule | None:
    """Applies the schedule above; None where the program is no such sum, or the processor has
    vectors. The terms of each element are added in their original order.
    """
    found = the_sum(program) if vectors.scalar else None
    if found is None:
        return None
    update, _ = found
    s, out = Schedule(program), program.outputs[0].name
    for stage in _copies(program, out):
        s[stage].compute_inline()
    total = sum_apart(s, update)
    last, extent = axes_of(s.program, out)[-1], program.outputs[0].shape[-1]
    row, inner = s[out].split(last, min(extent, vectors.registers))
    s[total].compute_at(row)
    *outer, element = axes_of(s.program, total)
    reduced = [var.name for var in update.axes]
    s[total].reorder(*reduced, *outer, element)
    s[total].unroll(element)
    s[total].decompose_reduction(reduced[0])
    s[out].unroll(inner)
    if extent > vectors.registers and extent % vectors.registers:
        s[out].peel(row)
    return s


def _copies(program: Program, out: str) -> list[str]:
    """The stages that only choose and convert elements."""
    stored = {stmt.buffer: stmt.value for stmt in walk_stmts(program.body)
              if isinstance(stmt, Store) and stmt.buffer.name != out}
    stages = [stmt.buffer for stmt in walk_stmts(program.body) if isinstance(stmt, Alloc)]
    return [stage.name for stage in reversed(stages) if stage in stored
            and _is_chosen(stored[stage])]


def _is_chosen(value: Expr) -> bool:
    match value:
        case Read() | Const() | Var():
            return True
        case Cast(inner, _):
            return _is_chosen(inner)
        case Binary("xor", inner, Const()):
            return _is_chosen(inner)
        case Select(_, a, b):
            return _is_chosen(a) and _is_chosen(b)
    return False
