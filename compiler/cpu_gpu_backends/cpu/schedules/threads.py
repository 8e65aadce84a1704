"""Which loops of a kernel threads share: the outermost ones of what takes long enough.

::

    for b in 0..4:                       for b_h in 0..224 (parallel, num_threads=2):
      for h in 0..56:             ->       for w_o in 0..4:
        for w_o in 0..4:                     ...
          ...

Loops are fused until there are enough iterations for every thread to have its share. What an
element is computed from stays as it is, so results are the same to the bit.
"""

from collections.abc import Iterator

from compiler.ir import (Alloc, Combine, For, If, Program, Seq, Stmt, Store, Tensorized, Update,
                         walk_stmts)
from compiler.schedule import Schedule, ScheduleError, annotate, fuse, parallel

LEAST = 1 << 17         # elements computed, or terms added, that pay for starting threads
SHARES = 8              # iterations for each thread: more, and what is left over weighs less


def share_out(s: Schedule, threads: int) -> Schedule:
    """Lets so many threads share each outermost loop that pays for it and that they may share."""
    if threads > 1:
        for loop in [loop.var.name for loop in _outermost(s.program.body)]:
            _share(s, loop, threads)
    return s


def _outermost(stmt: Stmt) -> Iterator[For]:
    match stmt:
        case Seq(parts):
            for part in parts:
                yield from _outermost(part)
        case Alloc():
            yield from _outermost(stmt.body)
        case For():
            yield stmt


def _share(s: Schedule, name: str, threads: int) -> None:
    loop = _loop(s.program, name)
    if not isinstance(loop.extent, int) or _work(loop) < LEAST:
        return
    before, count = s.program, len(s.steps)
    try:
        while _loop(s.program, name).extent < SHARES * threads and isinstance(
                inner := _loop(s.program, name).body, For) and inner.kind == "serial":
            fused = f"{name}_{inner.var.name}"
            s.apply(fuse, name, inner.var.name)
            name = fused
        if _loop(s.program, name).extent > 1:
            s.apply(parallel, name)
            s.apply(annotate, name, "num_threads", threads)
            return
    except ScheduleError:               # iterations depend on each other
        pass
    s.program = before
    del s.steps[count:]


def _loop(program: Program, name: str) -> For:
    return next(s for s in walk_stmts(program.body) if isinstance(s, For) and s.var.name == name)


def _work(stmt: Stmt) -> int:
    """The most executions of a statement inside."""
    match stmt:
        case Store() | Update() | Combine():
            return 1
        case For():
            return _work(stmt.body) * (stmt.extent if isinstance(stmt.extent, int) else 1)
        case Tensorized() | Alloc() | If():
            return _work(stmt.body)
        case Seq(parts):
            return sum(map(_work, parts))
        case _:
            return 0
