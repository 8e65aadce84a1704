"""Lowers loop programs to kernels, as one list of steps.

A loop bound to an axis of threads is executed by all of them at once, each doing one iteration, and
where it has fewer iterations the others wait; loops over the axis inside of it are for all again;
statements outside of such loops are executed by the first thread, or, when they fill what is a
thread's own, by every thread. So a program that is right in order is right on threads, given
barriers where one thread needs what another has done.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace

from compiler import te
from compiler.ir import (BLOCK_KINDS, THREAD_KINDS, Alloc, Combine, For, If, Program, Seq, Stmt,
                         Store, Tensorized, Update, accesses, expr_text, expressions, extent_text,
                         is_implied, map_buffers, path_to, replace_axes, rewrite_stmts, shape_text,
                         simplify_stmt, substitute_stmt, walk_stmts, writes)
from compiler.te import INDEX, Buffer, Const, Expr, Extent, Read, Symbol, Var

from .asynchronous import marked, possible, with_groups, written_out
from .barriers import place_barriers
from .code import Extent3, Grid
from .kernels import (AXES, BLOCKS, FRAGMENTS, LOCAL, OWN, SHARED, THREADS, WARP, WORDS,
                      SimtKernel, SimtProgram, Turn, fresh, is_of_warps, names_in, refuse, sequence,
                      symbol, tile_of, tma_copies, writes_own)
from .own import require_own
from .reductions import begin_outside, reduce_across_threads
from .units import divided, maps_of, require_copies, require_groups, together
from .vectors import even

MAX_THREADS = 1024
MOST_SHARED = 226 << 10         # bytes of a block of compute capability 9.0, but for its barriers
ZERO = Const(0, INDEX)


def lower(program: Program, shuffles: bool = False, asynchronous: bool = False,
          intrinsics: bool = False) -> SimtProgram:
    """Kernels of a program whose loops are bound to blocks and threads.

    Every statement of the program's own block becomes a kernel, as do those of the blocks of
    buffers in scope ``global``, which become temporaries; loops over blocks are outermost. The host
    runs a plain loop around loops over blocks: it launches the kernels inside of it again and
    again, and its variable is one of their numbers (`SimtProgram.launches`). With
    `shuffles` the threads of a warp reduce without shared memory, with `asynchronous` pipelined
    copies are, with `intrinsics` these are kept, else their nests are run; CUDA has all three.
    Grids and loops may have symbols for extents, threads and buffers inside of a kernel not.

    Raises SimtError for programs that do not fit, ScheduleError's manner: the fact and the place.
    """
    temporaries: list[Buffer] = []
    kernels: list[SimtKernel] = []
    for stmt, turns in _parts(program, program.body, temporaries):
        inside = replace(program, parameters=(*(turn.symbol for turn in turns),
                                              *program.parameters))
        kernel = _kernel(inside, stmt if intrinsics else _plain(stmt),
                         symbol(program.name, len(kernels)), shuffles, asynchronous, intrinsics)
        kernels.append(replace(kernel, turns=turns))
    return SimtProgram(program, tuple(kernels), tuple(temporaries))


def _parts(program: Program, stmt: Stmt, temporaries: list[Buffer], turns: tuple[Turn, ...] = ()
           ) -> Iterator[tuple[Stmt, tuple[Turn, ...]]]:
    """Statements that become kernels, in order, and the loops of the host around each."""
    match stmt:
        case Alloc(buffer, body) if buffer.scope == "global":
            temporaries.append(buffer)
            yield from _parts(program, body, temporaries, turns)
        case Seq(stmts):
            for child in stmts:
                yield from _parts(program, child, temporaries, turns)
        case For(var, extent, body, kind) if kind == "serial" and _has_loops(body, BLOCK_KINDS):
            if not isinstance(extent, int):
                refuse(f"extent of {var.name}, around loops over blocks, must be a number, not "
                       f"{extent_text(extent)}", program, stmt)
            if any(write.begins and var in write.axes for write in writes(body)
                   if isinstance(write, Update | Combine)):
                refuse(f"{var.name}, around loops over blocks, must not be an axis of a sum: "
                       f"decompose_reduction takes its beginning out", program, stmt)
            turn = Turn(Symbol(fresh(var.name, {p.name for p in program.parameters})), extent)
            body = substitute_stmt(replace_axes(body, {var: ()}), {var: turn.symbol - 1})
            yield from _parts(program, body, temporaries, (*turns, turn))
        case _:
            yield stmt, turns


def _kernel(program: Program, stmt: Stmt, name: str, shuffles: bool, asynchronous: bool,
            intrinsics: bool) -> SimtKernel:
    """The steps, in order."""
    threads = _threads(program, stmt)
    _require_fit(program, stmt, threads, intrinsics)
    x, y, z = (_extent(program, stmt, kind) for kind in BLOCK_KINDS)
    grid = x, y, z
    require_own(program, stmt)
    body = _without_clashes(stmt)
    if intrinsics:
        require_copies(program, body)
        require_groups(program, body)
        if parts := divided(program, body, threads):
            return _specialized(program, parts, name, grid, threads)
    body = marked(body) if asynchronous else body
    shared, body = _placed(program, body, grid, threads, shuffles)
    return _kernel_of(program, name, grid, threads, shared, written_out(body))


def _placed(program: Program, body: Stmt, grid: Grid, threads: Extent3, shuffles: bool
            ) -> tuple[tuple[Buffer, ...], Stmt]:
    """The buffers that a block shares, and its threads' statements, with barriers."""
    body = reduce_across_threads(program, body, shuffles and threads[0] % 32 == 0)
    body = begin_outside(body)
    body = _on_threads(body, grid, threads)
    ranges = dict(zip((*BLOCKS, *THREADS), (*grid, *threads)))
    known = {var: extent for var, extent in ranges.items() if isinstance(extent, int)}
    body = simplify_stmt(flat(without_single(body)), known)
    shared, body = _without_shared(rewrite_stmts(body, even))
    return shared, place_barriers(program, with_groups(possible(body)), ranges)


def _specialized(program: Program, parts: tuple[Stmt, Stmt], name: str, grid: Grid,
                 threads: Extent3) -> SimtKernel:
    """A kernel whose copies are made by threads of their own: four warps more."""
    shared, copies = _placed(program, parts[0], grid, (1, 1, 1), False)
    others, rest = _placed(program, parts[1], grid, threads, True)
    x, y, z = threads
    kernel = _kernel_of(program, name, grid, (x, y, z + 1),
                        tuple(dict.fromkeys((*shared, *others))),
                        together(program, copies, rest, threads))
    if kernel.shared_bytes > MOST_SHARED:
        refuse(f"what a block shares must have at most {MOST_SHARED} bytes, not "
               f"{kernel.shared_bytes}", program)
    return kernel


def _kernel_of(program: Program, name: str, grid: Grid, threads: Extent3,
               shared: tuple[Buffer, ...], body: Stmt) -> SimtKernel:
    maps = maps_of(body)
    used = _global_buffers(program, body)
    written = frozenset(buffer.name for write in writes(body) for buffer in write.buffers)
    return SimtKernel(name, grid, threads, used, program.parameters,
                      written & {b.name for b in used}, shared, body, maps=maps)


def _plain(stmt: Stmt) -> Stmt:
    """Replaces intrinsics by their nests, and makes fragments every thread's own buffers."""
    fragments = {s.buffer: replace(s.buffer, scope=LOCAL) for s in walk_stmts(stmt)
                 if isinstance(s, Alloc) and s.buffer.scope in FRAGMENTS}
    bare = rewrite_stmts(stmt, lambda s: s.body if isinstance(s, Tensorized) else None)
    return map_buffers(bare, fragments) if fragments else bare


def _threads(program: Program, stmt: Stmt) -> Extent3:
    for loop in walk_stmts(stmt):
        if isinstance(loop, For) and loop.kind in THREAD_KINDS and not isinstance(loop.extent, int):
            refuse(f"extent of {loop.var.name} ({loop.kind}) must be a number, not "
                   f"{extent_text(loop.extent)}", program, loop)
    x, y, z = (_extent(program, stmt, kind) for kind in THREAD_KINDS)
    return x, y, z


def _extent(program: Program, stmt: Stmt, kind: str) -> Extent:
    """The greatest of all loops over the axis; one that is not a number stands for itself alone."""
    loops = [s for s in walk_stmts(stmt) if isinstance(s, For) and s.kind == kind]
    first = loops[0].extent if loops else 1
    if all(isinstance(loop.extent, int) for loop in loops):
        return max((loop.extent for loop in loops), default=1)
    if other := next((loop for loop in loops if loop.extent != first), None):
        refuse(f"loops over {kind} must have one extent where it is not a number, not "
               f"{extent_text(first)} and {extent_text(other.extent)}", program, other)
    return first


def _require_fit(program: Program, stmt: Stmt, threads: Extent3, intrinsics: bool) -> None:
    if threads[0] * threads[1] * threads[2] > MAX_THREADS:
        refuse(f"threads of a block must be at most {MAX_THREADS}, not "
               f"{' x '.join(map(str, threads))}", program, stmt)
    for node in walk_stmts(stmt):
        if isinstance(node, For) and node.kind in BLOCK_KINDS:
            path = path_to(stmt, lambda s, loop=node: s is loop)
            around = [s for s in path[:-1] if isinstance(s, For)]
            if inner := [s for s in around if s.kind not in BLOCK_KINDS]:
                refuse(f"blocks {node.var.name} must be outside of {inner[0].var.name}",
                       program, node)
        if isinstance(node, For) and node.kind in ("parallel", "virtual_thread"):
            refuse(f"loop {node.var.name} must be bound to blocks or threads, not {node.kind}",
                   program, node)
        if is_of_warps(node):
            _require_warps(program, stmt, node, threads)
    if intrinsics:
        _require_fragments(program, stmt)
    for node in walk_stmts(stmt):
        if isinstance(node, Alloc) and node.buffer.scope not in (SHARED, *OWN):
            refuse(f"scope of {node.buffer.name} must be shared or local inside a kernel, not "
                   f"{node.buffer.scope}", program, node)
        if isinstance(node, Alloc) and not all(isinstance(e, int) for e in node.buffer.shape):
            refuse(f"shape of {node.buffer.name} must be numbers inside a kernel, not "
                   f"{shape_text(node.buffer.shape)}", program, node)


def _require_fragments(program: Program, stmt: Stmt) -> None:
    """Refuses statements outside of intrinsics that touch other elements of fragments than sums
    that the thread holds. Thread ``i % 8 * 4 + j // 2`` of the warp holds element ``[i, j]`` of a
    tile.
    """
    for access in accesses(stmt):
        buffer, path = access.buffer, path_to(stmt, lambda s, own=access.stmt: s is own)
        if buffer.scope not in FRAGMENTS or any(isinstance(s, Tensorized) for s in path):
            continue
        if buffer.scope in WORDS:
            refuse(f"{buffer.name}, a fragment of an operand, must be used by intrinsics alone",
                   program, access.stmt)
        (i, j), columns = access.indices[-2:], tile_of(buffer)[1]
        thread = next((loop.var for loop in reversed(path)
                       if isinstance(loop, For) and loop.kind == "threadIdx.x"), None)
        if thread is None or not is_implied(
                thread.equal(i % 8 * 4 + j % columns // 2), access.domain):
            refuse(f"{buffer.name}[{expr_text(i)}, {expr_text(j)}] of a fragment must be used by "
                   f"the thread that holds it, {expr_text(i % 8 * 4 + j % columns // 2)} of "
                   f"threadIdx.x", program, access.stmt)


def _require_warps(program: Program, stmt: Stmt, node: Stmt, threads: Extent3) -> None:
    if threads[0] != WARP:
        refuse(f"threadIdx.x must be the {WARP} threads of a warp, not {threads[0]}, around an "
               f"intrinsic of warps", program, node)
    for loop in path_to(stmt, lambda s: s is node):
        if isinstance(loop, For) and loop.kind == "threadIdx.x":
            refuse(f"an intrinsic of warps must not be inside of {loop.var.name} "
                   f"(threadIdx.x), the threads of one", program, node)


def _without_clashes(stmt: Stmt) -> Stmt:
    """Renames loops that have the name of a thread's place but another meaning."""
    places = {var.name for var in AXES.values()}
    taken = places | names_in(stmt)
    renamed = {s.var: Var(fresh(s.var.name, taken)) for s in walk_stmts(stmt)
               if isinstance(s, For) and s.var.name in places}

    def rule(node: Stmt) -> Stmt | None:
        return replace(node, var=renamed[node.var]) if (
            isinstance(node, For) and node.var in renamed) else None

    if not renamed:
        return stmt
    axes: dict[Var, tuple[Var, ...]] = {old: (new,) for old, new in renamed.items()}
    return rewrite_stmts(substitute_stmt(replace_axes(stmt, axes), dict(renamed)), rule)


def _on_threads(stmt: Stmt, grid: Grid, threads: Extent3) -> Stmt:
    """Loops over blocks and threads become conditions on the variables of `AXES`."""
    sizes = dict(zip(AXES, (*grid, *threads)))
    bound: dict[Var, Expr] = {s.var: AXES[s.kind] if sizes[s.kind] != 1 else ZERO
                              for s in walk_stmts(stmt) if isinstance(s, For) and s.kind in AXES}

    def go(node: Stmt, around: frozenset[str], limits: dict[str, Expr]) -> Stmt:
        """`limits` are conditions on axes of loops around, some of which loops inside are bound to
        as well: these are not for them.
        """
        if limits and not _has_loops(node, limits.keys()):
            return If(te.all_of(*limits.values()), go(node, around, {}))
        match node:
            case For(_, extent, body, kind) if kind in AXES:
                limits = {axis: limit for axis, limit in limits.items() if axis != kind}
                if extent != sizes[kind]:
                    limits[kind] = AXES[kind] < extent
                return go(body, around | {kind}, limits)
            case For(): return replace(node, body=go(node.body, around, limits))
            case If(condition, body): return If(condition, go(body, around, limits))
            case Alloc(buffer, body): return Alloc(buffer, go(body, around, limits))
            case Seq(stmts): return Seq(tuple(go(child, around, limits) for child in stmts))
            case Store() | Update() | Combine(): return _once(node, around, sizes)
            case Tensorized(): return _once(node, around, sizes)
            case _: return node

    axes = {old: (new,) if isinstance(new, Var) else () for old, new in bound.items()}
    return go(substitute_stmt(replace_axes(stmt, axes), bound), frozenset(), {})


def _has_loops(stmt: Stmt, kinds: Collection[str]) -> bool:
    return any(isinstance(s, For) and s.kind in kinds for s in walk_stmts(stmt))


def _once(stmt: Stmt, around: frozenset[str], sizes: dict[str, Extent]) -> Stmt:
    """Guards a statement: one thread of each axis that no loop around is bound to executes it,
    or all threads where it fills their own buffers.
    """
    if is_of_warps(stmt):
        around = around | {"threadIdx.x"}
    if writes_own(stmt):
        return stmt
    first = [AXES[kind].equal(0) for kind in AXES if kind not in around and sizes[kind] != 1]
    return If(te.all_of(*first), stmt) if first else stmt


def without_single(stmt: Stmt) -> Stmt:
    """Removes loops of one iteration."""
    def rule(node: Stmt) -> Stmt | None:
        if not isinstance(node, For) or node.extent != 1:
            return None
        return substitute_stmt(replace_axes(node.body, {node.var: ()}), {node.var: ZERO})

    return rewrite_stmts(stmt, rule)


def flat(stmt: Stmt) -> Stmt:
    """Flattens nested sequences."""
    return rewrite_stmts(stmt, lambda node: sequence(node.stmts) if isinstance(node, Seq) else None)


def _without_shared(stmt: Stmt) -> tuple[tuple[Buffer, ...], Stmt]:
    """Takes shared buffers out of the statement: they live as long as the block."""
    hoisted = tuple(s.buffer for s in walk_stmts(stmt) if isinstance(s, Alloc)
                    and s.buffer.scope == SHARED)

    def rule(node: Stmt) -> Stmt | None:
        return node.body if isinstance(node, Alloc) and node.buffer in hoisted else None

    return hoisted, flat(rewrite_stmts(stmt, rule))


def _global_buffers(program: Program, stmt: Stmt) -> tuple[Buffer, ...]:
    """The global buffers that a kernel touches: inputs, then the rest in order, outputs last."""
    own = {s.buffer for s in walk_stmts(stmt) if isinstance(s, Alloc)}
    by_map = {id(s) for copy in tma_copies(stmt) for s in walk_stmts(copy)}
    used = dict.fromkeys(buffer for node in walk_stmts(stmt) if id(node) not in by_map
                         for buffer in _named(node)
                         if buffer.scope == "global" and buffer not in own)
    inputs = [b for b in program.inputs if b in used]
    outputs = [b for b in program.outputs if b in used]
    return (*inputs, *(b for b in used if b not in inputs and b not in outputs), *outputs)


def _named(stmt: Stmt) -> Iterator[Buffer]:
    for expr in expressions(stmt):
        yield from (node.buffer for node in te.walk(expr) if isinstance(node, Read))
    if isinstance(stmt, Store | Update | Combine):
        yield from stmt.buffers
