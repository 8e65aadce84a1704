"""Threads: virtual ones, which take turns and have their own storage, and those of a GPU."""

from collections.abc import Iterator
from dataclasses import replace

from compiler.ir import (BLOCK_KINDS, THREAD_KINDS, Alloc, For, If, Program, Stmt, Write,
                         expressions, free_variables, path_to, walk_stmts, writes)
from compiler.te import Buffer, Read, Var, walk

from compiler.schedule.analysis.place import (find_loop, refuse, require_numbers, require_serial,
                                              swap)
from .parallel import OUTSIDE, require_independent, require_no_mark_around, require_no_mark_inside

__all__ = ["bind", "require_cooperation", "thread_vars", "virtual_thread"]


def virtual_thread(program: Program, loop: str) -> Program:
    """Lets iterations overlap as far as their data allow: ``for i in 0..2 (virtual_thread):``.

    ::

        for k_o in 0..2:             for k_o in 0..2 (virtual_thread):
          alloc inp.t: int8[4]         alloc inp.t: int8[4]          one for each thread
          load t                 ->    load t                        while the other thread
          c += f(t)                    c += f(t)                     computes

    Every thread owns what is allocated inside the loop; where threads nest, the innermost one does.
    Iterations keep their order wherever they depend on each other through outer buffers, such as an
    accumulator: the tokens derived from the final stream ensure that. So the mark changes where
    data lie, never what is computed.

    1. The loop is serial: not marked already.
    """
    require_numbers(program, "virtual_thread")
    node = find_loop(program, loop, "virtual_thread")[-1]
    assert isinstance(node, For)
    require_serial(program, node, "virtual_thread")
    return swap(program, node, replace(node, kind="virtual_thread"))


def bind(program: Program, loop: str, axis: str, reassociate: bool = False) -> Program:
    """Lets the blocks or threads of a GPU run the iterations.

    ::

        for i in 0..64:        for i in 0..64 (blockIdx.x):
          alloc shared.t         alloc shared.t
          for j in 0..32:   ->   for j in 0..32 (threadIdx.x):
            t[j] = ...             t[j] = ...
          for k in 0..32:        for k in 0..32 (threadIdx.x):
            ... t[31 - k]          ... t[31 - k]

    The same threads run consecutive loops over one axis, and also nested ones: the inner one then
    fills a buffer that all threads of the block share, each thread its part (cooperative fetching).
    Read as a plain loop nest, every iteration of the outer loop fills the buffer anew with the same
    values. The back end inserts barriers.

    1. The axis is one of ``blockIdx.x|y|z`` and ``threadIdx.x|y|z``; the loop is serial.
    2. No iteration touches an element of a buffer allocated outside of the loop that another one
       writes. Threads may reduce together: updates by one statement may change their order, sums
       of floats only if `reassociate` permits that.
    3. A loop of blocks is not inside a loop of threads or of the same axis. Neither is inside a
       parallel or vectorized loop. No loop of blocks is inside a loop of threads.
    4. A loop of threads inside one of the same axis writes nothing but ``shared`` buffers that are
       allocated inside the outer one, and what is allocated inside of itself.
    5. The values written to a ``shared`` buffer, and whether they are, do not depend on a loop of
       threads that the buffer is allocated in, nor by way of other buffers: place it (`compute_at`)
       after the loop is bound.
    6. ``local`` buffers that a loop of threads uses are allocated inside of it, ``shared`` ones
       that a loop of blocks uses inside of that.
    """
    path = find_loop(program, loop, "bind")
    node = path[-1]
    assert isinstance(node, For)
    if axis not in (*BLOCK_KINDS, *THREAD_KINDS):
        refuse("bind", f"axis of {loop} must be one of {', '.join((*BLOCK_KINDS, *THREAD_KINDS))}, "
                       f"not {axis!r}", program, node)
    require_serial(program, node, "bind")
    require_no_mark_around(program, path, OUTSIDE[axis], "bind")
    if axis in THREAD_KINDS:
        require_no_mark_inside(program, node, BLOCK_KINDS, "bind")
    _require_own_storage(program, node, axis)
    require_independent(program, path, "bind", exchange=axis in THREAD_KINDS,
                        reassociate=reassociate)
    bound = swap(program, node, replace(node, kind=axis))
    require_cooperation(bound, "bind")
    return bound


def _require_own_storage(program: Program, node: For, axis: str):
    scope = "shared" if axis in BLOCK_KINDS else "local"
    own = {s.buffer for s in walk_stmts(node) if isinstance(s, Alloc)}
    for stmt in walk_stmts(node):
        for buffer in (*(stmt.buffers if isinstance(stmt, Write) else ()), *_read_buffers(stmt)):
            if buffer.scope == scope and buffer not in own:
                refuse("bind", f"{scope} buffer {buffer.name} must be allocated inside of "
                               f"{node.var.name} ({axis})", program, stmt)


def _read_buffers(stmt: Stmt) -> list[Buffer]:
    """The buffers that the statement itself reads."""
    return [node.buffer for expr in expressions(stmt) for node in walk(expr)
            if isinstance(node, Read)] if isinstance(stmt, If | Write) else []


def thread_vars(path: tuple[Stmt, ...]) -> frozenset[Var]:
    """The variables of the loops of threads on a path."""
    return frozenset(s.var for s in path if isinstance(s, For) and s.kind in THREAD_KINDS)


def require_cooperation(program: Program, primitive: str):
    """Refuses what threads that run one nest cannot do together: rules 4 and 5 of `bind`."""
    if not any(isinstance(s, For) and s.kind in THREAD_KINDS for s in walk_stmts(program.body)):
        return
    for stmt in walk_stmts(program.body):
        if isinstance(stmt, Alloc) and stmt.buffer.scope == "shared":
            path = path_to(program.body, lambda s, alloc=stmt: s is alloc)
            _require_same_values(program, stmt, path, primitive)
        if isinstance(stmt, For) and stmt.kind in THREAD_KINDS:
            path = path_to(program.body, lambda s, loop=stmt: s is loop)
            _require_shared_writes(program, stmt, path, primitive)


def _require_same_values(program: Program, alloc: Alloc, path: tuple[Stmt, ...], primitive: str):
    threads = thread_vars(path)
    if not threads:
        return
    outermost = next(s for s in path if isinstance(s, For) and s.var in threads)
    inner = _private(alloc.body)
    own = _private(outermost) - inner
    inside = path[path.index(outermost):]
    giving = _giving(alloc, inner)
    for write in writes(alloc.body):
        if not giving & set(write.buffers):
            continue
        for stmt in (*inside, *path_to(alloc.body, lambda s, write=write: s is write)):
            for fact in _depends(stmt, threads, own):
                refuse(primitive, f"shared buffer {alloc.buffer.name}, allocated inside of "
                                  f"{outermost.var.name} ({outermost.kind}), must not "
                                  f"depend on {fact}", program, stmt)


def _private(stmt: Stmt) -> set[Buffer]:
    """The buffers that are allocated inside and not shared."""
    return {s.buffer for s in walk_stmts(stmt)
            if isinstance(s, Alloc) and s.buffer.scope != "shared"}


def _giving(alloc: Alloc, inner: set[Buffer]) -> set[Buffer]:
    """The buffer, and those of `inner` that its values come by."""
    giving, known = {alloc.buffer}, set()
    while giving != known:
        known = set(giving)
        giving |= {buffer for write in writes(alloc.body) if known & set(write.buffers)
                   for buffer in _read_buffers(write) if buffer in inner}
    return giving


def _depends(stmt: Stmt, threads: frozenset[Var], own: set[Buffer]) -> Iterator[str]:
    if isinstance(stmt, If | Write):
        for expr in expressions(stmt):
            yield from sorted(var.name for var in free_variables(expr) & threads)
        yield from (buffer.name for buffer in _read_buffers(stmt) if buffer in own)


def _require_shared_writes(program: Program, loop: For, path: tuple[Stmt, ...], primitive: str):
    outer = next((s for s in path[:-1] if isinstance(s, For) and s.kind == loop.kind), None)
    if outer is None:
        return
    shared = {s.buffer for s in walk_stmts(outer)
              if isinstance(s, Alloc) and s.buffer.scope == "shared"} | _private(loop)
    for write in writes(loop):
        for buffer in write.buffers:
            if buffer not in shared:
                refuse(primitive, f"{loop.var.name} ({loop.kind}), inside of {outer.var.name} of "
                                  f"the same axis, must write shared buffers that are allocated "
                                  f"there, not {buffer.name}", program, write)
