"""Reductions: where they begin, and how threads reduce together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from compiler import te
from compiler.ir import (THREAD_KINDS, Alloc, Combine, For, If, Program, Seq, Stmt, Store,
                         Tensorized, Update, accesses, block, free_variables, path_to, rebuilt,
                         replace_stmt, walk_stmts, writes)
from compiler.te import INDEX, Buffer, Const, Expr, Read, Symbol, Var, neutral

from .kernels import LOCAL, SHARED, WARP, Shuffle, fresh, names_in, refuse, sequence

ZERO = Const(0, INDEX)
Reduction = Update | Combine


def identities(stmt: Reduction) -> tuple[Const, ...]:
    """Values that leave any other what it is."""
    if isinstance(stmt, Combine):
        return stmt.reducer.identity
    return (neutral(stmt.op, stmt.buffer.dtype),)


def _accumulate(stmt: Reduction, buffers: Sequence[Buffer], indices: tuple[Expr, ...],
                values: Sequence[Expr]) -> Reduction:
    """This reduction into other buffers, going on from what they hold."""
    new = rebuilt(stmt, buffers=tuple(buffers), indices=indices, values=tuple(values))
    assert isinstance(new, Reduction)
    return replace(new, axes=(), begins=False)


# Where a reduction begins


def begin_outside(root: Stmt) -> Stmt:
    """Set the destination of a reduction before its outermost loop; inside, only accumulate.

    ::

        for k in 0..8:                              for i_0 in 0..4:
          for i in 0..4:                    ->        c[i_0] = 0
            c[i] += a[i, k] begin(k)                for k in 0..8:
                                                      for i in 0..4:
                                                        c[i] += a[i, k]

    A reduction that is looked at inside that loop, or whose buffer is allocated there, stays.
    """
    for stmt in [s for s in walk_stmts(root) if isinstance(s, Reduction) and s.begins]:
        path = _path(root, stmt)
        around = next((s for s in path if isinstance(s, For) and s.var in stmt.axes), None)
        if around is None or not _is_alone(around, stmt):
            continue
        inner = _accumulate(stmt, stmt.buffers, stmt.indices, stmt.values)
        first = Seq(tuple(_first(path[path.index(around):], stmt, names_in(root))))
        new = replace_stmt(around, stmt, inner)
        root = replace_stmt(root, around, Seq((*first.stmts, new)))
    return root


def _path(root: Stmt, stmt: Stmt) -> tuple[Stmt, ...]:
    return path_to(root, lambda s: s is stmt)


def _is_alone(loop: For, stmt: Reduction) -> bool:
    """True if nothing else in the loop touches what the reduction writes, and nothing in it changes
    where that is.
    """
    if any(isinstance(s, Tensorized) for s in _path(loop, stmt)):
        return False
    if any(isinstance(s, Alloc) and s.buffer in stmt.buffers for s in walk_stmts(loop)):
        return False
    written = {buffer for write in writes(loop) for buffer in write.buffers}
    where = (*stmt.indices, *(s.condition for s in _path(loop, stmt) if isinstance(s, If)))
    if any(isinstance(node, Read) and node.buffer in written
           for expr in where for node in te.walk(expr)):
        return False
    return all(a.stmt is stmt and a.is_write for a in accesses(loop) if a.buffer in stmt.buffers)


def _first(path: tuple[Stmt, ...], stmt: Reduction, taken: set[str]) -> Iterator[Stmt]:
    """The loops and guards of the path without those of the reduction, storing identities."""
    axes: dict[Var, Expr] = dict.fromkeys(stmt.axes, ZERO)
    copies = {s.var: Var(fresh(f"{s.var.name}_0", taken)) for s in path if isinstance(s, For)}
    values: dict[Var, Expr] = {**copies, **axes}
    indices = tuple(te.substitute(index, values) for index in stmt.indices)
    for buffer, identity in zip(stmt.buffers, identities(stmt)):
        nest: Stmt = Store(buffer, indices, identity)
        for node in reversed(path):
            match node:
                case For(var) if var not in axes:
                    nest = replace(node, var=copies[var], body=nest)
                case If(condition, _):
                    nest = If(te.substitute(condition, values), nest)
        yield nest


# How threads reduce together


@dataclass(frozen=True, slots=True)
class _Across:
    """A reduction over one axis of threads: the loop over them, and what is inside."""

    program: Program
    loop: For
    path: tuple[Stmt, ...]
    stmt: Reduction
    around: tuple[For, ...]         # loops over other axes of threads
    taken: set[str]                 # names

    @property
    def label(self) -> str:
        return self.stmt.buffers[0].name

    def buffers(self, suffix: str, shape: tuple[int, ...], scope: str) -> list[Buffer]:
        return [Buffer(fresh(f"{b.name}_{suffix}", self.taken), shape, b.dtype, scope)
                for b in self.stmt.buffers]


def reduce_across_threads(program: Program, root: Stmt, shuffles: bool) -> Stmt:
    """Reductions over an axis of threads: each thread reduces its own, then all together.

    ::

        for t in 0..64 (threadIdx.x):       y_part = 0                      of each thread
          for k in 0..4:               ->   for t in 0..64 (threadIdx.x):
            y[0] += x[k, t] begin(k, t)       for k in 0..4:
                                                y_part = y_part + x[k, t]
                                              y_tree[t] = y_part
                                            for t in 0..32 (threadIdx.x):
                                              y_tree[t] = y_tree[t] + y_tree[t + 32]
                                            ...
                                            y[0] = y_tree[0]

    With `shuffles` the threads of a warp exchange their parts directly, and one element for each
    warp goes through shared memory. Which sums are added first differs from the program's order.
    """
    while across := _find(program, root):
        steps = _by_shuffles(across) if shuffles and _is_warps(across) else _by_tree(across)
        root = replace_stmt(root, across.loop, steps)
    return root


def _find(program: Program, root: Stmt) -> _Across | None:
    for stmt in walk_stmts(root):
        if not isinstance(stmt, Reduction):
            continue
        path = _path(root, stmt)
        threads = [s for s in path if isinstance(s, For) and s.kind in THREAD_KINDS]
        loop = next((s for s in threads if s.var in stmt.axes), None)
        if loop is None:
            continue
        inside = path[path.index(loop) + 1:-1]
        for node in inside:
            if not _is_of_reduction(node, stmt):
                refuse(f"between the threads {loop.var.name} and the reduction to "
                       f"{stmt.buffers[0].name} must be loops and guards of the reduction alone",
                       program, node)
        outer = tuple(threads[:threads.index(loop)])
        taken = names_in(root) | {b.name for b in (*program.inputs, *program.outputs)}
        return _Across(program, loop, inside, stmt, outer, taken)
    return None


def _is_of_reduction(node: Stmt, stmt: Reduction) -> bool:
    """True if it is a loop or a guard that leaves terms out and says nothing of the destination."""
    if isinstance(node, If):
        return all(var in stmt.axes or isinstance(var, Symbol)
                   for var in free_variables(node.condition))
    return isinstance(node, For) and node.kind in ("serial", "unroll") and node.var in stmt.axes


def _is_warps(across: _Across) -> bool:
    """True if the threads of the reduction are whole warps, alone or row by row."""
    extent = across.loop.extent
    return across.loop.kind == "threadIdx.x" and extent % WARP == 0 and (
        extent == WARP or not across.around)


def _parts(across: _Across, parts: list[Buffer]) -> list[Stmt]:
    """Every thread reduces the iterations of its own."""
    body: Stmt = _accumulate(across.stmt, parts, (ZERO,), across.stmt.values)
    for node in reversed(across.path):
        assert isinstance(node, For | If)
        body = replace(node, body=body)
    first = [Store(part, (ZERO,), value) for part, value in zip(parts, identities(across.stmt))]
    return [*first, replace(across.loop, body=body)]


def _result(across: _Across, values: Sequence[Expr]) -> Stmt:
    """The destination takes the result, or accumulates it where loops outside go on."""
    inner = {s.var for s in across.path if isinstance(s, For)} | {across.loop.var}
    axes = tuple(var for var in across.stmt.axes if var not in inner)
    if axes or not across.stmt.begins:
        rest = rebuilt(across.stmt, values=tuple(values))
        assert isinstance(rest, Reduction)
        return replace(rest, axes=axes)
    stores = tuple(Store(buffer, across.stmt.indices, value)
                   for buffer, value in zip(across.stmt.buffers, values))
    return stores[0] if len(stores) == 1 else Seq(stores)


def _copied(across: _Across, name: str, extent: int) -> tuple[Var, For]:
    """Another loop over the first `extent` threads; its body is to be replaced."""
    var = Var(fresh(f"{across.loop.var.name}_{name}", across.taken))
    return var, replace(across.loop, var=var, extent=extent)


def _by_tree(across: _Across) -> Stmt:
    extent, place = across.loop.extent, tuple(loop.var for loop in across.around)
    rows = tuple(loop.extent for loop in across.around)
    parts = across.buffers("part", (1,), LOCAL)
    trees = across.buffers("tree", (*rows, extent), SHARED)
    var, own = _copied(across, "own", extent)
    steps = [*_parts(across, parts),
             replace(own, body=sequence([Store(tree, (*place, var), Read(part, (ZERO,)))
                                          for tree, part in zip(trees, parts)]))]
    width = 1 << (extent - 1).bit_length()
    while width > 1:
        width //= 2
        var, loop = _copied(across, str(width), min(width, extent - width))
        right = [Read(tree, (*place, var + width)) for tree in trees]
        steps.append(replace(loop, body=_accumulate(across.stmt, trees, (*place, var), right)))
    steps.append(_result(across, [Read(tree, (*place, ZERO)) for tree in trees]))
    return block((*parts, *trees), tuple(steps))


def _by_shuffles(across: _Across) -> Stmt:
    warps = across.loop.extent // WARP
    parts = across.buffers("part", (1,), LOCAL)
    var, loop = _copied(across, "warp", across.loop.extent)
    steps = [*_parts(across, parts), replace(loop, body=_butterfly(across, parts))]
    values = [Read(part, (ZERO,)) for part in parts]
    if warps == 1:
        return block(tuple(parts), (*steps, _result(across, values)))
    trees = across.buffers("tree", (warps,), SHARED)
    var, loop = _copied(across, "first", across.loop.extent)
    first = (var % WARP).equal(0)
    steps.append(replace(loop, body=If(first, sequence(
        [Store(tree, (var // WARP,), value) for tree, value in zip(trees, values)]))))
    var, loop = _copied(across, "all", across.loop.extent)
    lane = var % WARP
    loads = [Store(part, (ZERO,), te.select(lane < warps, Read(tree, (lane,)), identity))
             for part, tree, identity in zip(parts, trees, identities(across.stmt))]
    steps.append(replace(loop, body=sequence([*loads, _butterfly(across, parts)])))
    return block((*parts, *trees), (*steps, _result(across, values)))


def _butterfly(across: _Across, parts: list[Buffer]) -> Stmt:
    """Every lane of the warp ends with the whole."""
    return Seq(tuple(_accumulate(across.stmt, parts, (ZERO,),
                                 [Shuffle(Read(part, (ZERO,)), step) for part in parts])
                     for step in (16, 8, 4, 2, 1)))
