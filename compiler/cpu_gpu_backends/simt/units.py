"""Specialized loops: the TMA copies what the threads of a block compute on, at a pace of its own.

`warp_specialize` notes which statements of a loop are whose. The kernel has four warps more, the
first thread of which begins the copies; the others do the rest::

    if tz == 2:                               else:
      if tx == 0 and ty == 0:                   ...
        for k in 0..8:                          for k in 0..8:
          wait until copy k % 3 is free           wait until copy k % 3 is full
          say how many bytes will arrive          multiply, and wait for the products
          tile_copy(a_shared[k % 3], ...)         copy k % 3 is free
                                                ...

What waits for what follows from latency hiding (`compiler.latency_hiding`): turns are events, whose
tokens are inserted as for the accelerator's units, and proved to be enough. A token lies in a
barrier in shared memory, one for each of the turns that are under way (PTX ISA, section
"mbarrier"); the TMA gives its tokens when the bytes have arrived.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod

from compiler.ir import (THREAD_KINDS, Alloc, Barrier, For, If, Program, Seq, Stmt, Store,
                         Tensorized, accesses, conjuncts, extent_value, free_variables, linear,
                         normalize, path_to, replace_stmt, rewrite_stmts, walk_stmts)
from compiler.latency_hiding import AddressSet, Event, Tokens, check, insert_tokens
from compiler.te import (INDEX, Binary, Const, Expr, Read, Select, Var, all_of, numpy_dtype,
                         substitute)

from .barriers import is_uniform
from .code import Extent3, TensorMap
from .kernels import (SHARED, THREADS, WARP, Counter, is_of_groups, is_of_tma, refuse, tma_copies)

UNITS = "units"                 # what `warp_specialize` notes
GROUP = 4                       # warps
COPIER, THREADS_UNIT = "the TMA", "threads"
ROUNDS = 4                      # of turns through all copies of a buffer that are proved
ROW_BYTES, ALIGNED = 128, 16
FEW, MANY = 40, 232             # registers of a thread that copies, and of others: three groups


@dataclass(frozen=True, slots=True)
class BeginUnits(Stmt):
    """Sets up the barriers of the counters; all threads wait for that."""

    counters: tuple[Counter, ...]


@dataclass(frozen=True, slots=True)
class RegisterShare(Stmt):
    """So many registers from here on, for each thread of a group."""

    count: int
    fewer: bool


@dataclass(frozen=True, slots=True)
class TokenWait(Stmt):
    """Takes the token of a turn."""

    counter: Counter
    turn: Expr


@dataclass(frozen=True, slots=True)
class TokenSignal(Stmt):
    """Gives the token of a turn: one thread of each warp does."""

    counter: Counter
    turn: Expr


@dataclass(frozen=True, slots=True)
class Expect(Stmt):
    """The token of the turn is given when so many bytes have arrived, of the copies that follow."""

    counter: Counter
    turn: Expr
    bytes: int


@dataclass(frozen=True, slots=True)
class ProductsBegin(Stmt):
    """Before products of groups: what threads have written to their sums is there."""


@dataclass(frozen=True, slots=True)
class ProductsEnd(Stmt):
    """Waits for the products of the group."""


def specialized_loop(stmt: Stmt) -> For | None:
    return next((s for s in walk_stmts(stmt) if isinstance(s, For) and UNITS in dict(
        s.annotations)), None)


def divided(program: Program, stmt: Stmt, threads: Extent3) -> tuple[Stmt, Stmt] | None:
    """The statements of the copying thread, and of the others; None where nothing is specialized.
    Refuses what has no form of its own on a GPU.
    """
    loop = specialized_loop(stmt)
    groups = next(filter(is_of_groups, walk_stmts(stmt)), None)
    if loop is None:
        if groups or (groups := next(filter(is_of_tma, walk_stmts(stmt)), None)):
            refuse("copies by the TMA and products of groups must be in a specialized loop",
                   program, groups)
        return None
    units = _units(program, loop)
    path = path_to(stmt, lambda s: s is loop)
    if specialized_loop(loop.body) or sum(
            UNITS in dict(s.annotations) for s in walk_stmts(stmt) if isinstance(s, For)) > 1:
        refuse("one loop of a kernel must be specialized at most", program, loop)
    if threads[:2] != (WARP, GROUP):
        refuse(f"threads around a specialized loop must be warps of {WARP} along threadIdx.x and "
               f"{GROUP} of these along threadIdx.y, not {threads[0]} and {threads[1]}", program,
               loop)
    copies = Seq(tuple(child for unit, child in units if unit == 0))
    if odd := next((s for s in walk_stmts(copies) if isinstance(s, Store) and not any(
            is_of_tma(one) for one in path_to(copies, lambda n, s=s: n is s))), None):
        refuse("statements of unit 0 must be copies by the TMA", program, odd)
    theirs = {id(copy) for copy in tma_copies(copies)}
    if odd := next((copy for copy in tma_copies(stmt) if id(copy) not in theirs), None):
        refuse("copies by the TMA must be in unit 0", program, odd)
    for guard in path:
        if isinstance(guard, If) and (not is_uniform(guard.condition) or free_variables(
                guard.condition) & {s.var for s in path if isinstance(s, For)
                                    and s.kind in THREAD_KINDS}):
            refuse("all threads must come by a specialized loop", program, guard)
    return _copies_of(program, path, units), _rest_of(path, units)


def _units(program: Program, loop: For) -> list[tuple[int, Stmt]]:
    numbers = str(dict(loop.annotations)[UNITS]).split()
    stmts = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    if len(numbers) != len(stmts):
        refuse(f"a specialized loop must have a unit for each statement, not {len(numbers)} for "
               f"{len(stmts)}", program, loop)
    return list(zip(map(int, numbers), stmts, strict=True))


def _copies_of(program: Program, path: tuple[Stmt, ...], units: list[tuple[int, Stmt]]) -> Stmt:
    """The way to the loop, and of that the copies alone, by one thread."""
    loop = path[-1]
    assert isinstance(loop, For)
    new: Stmt = replace(loop, body=Seq(tuple(child for unit, child in units if unit == 0)))
    for outer in reversed(path[:-1]):
        match outer:
            case For(kind=kind) if kind in THREAD_KINDS:
                if any(outer.var in free_variables(expr) for s in walk_stmts(new)
                       if isinstance(s, Tensorized)
                       for _, expr in (*s.binding.tiles, *s.binding.immediates)):
                    refuse(f"copies by the TMA must not depend on {outer.var.name} ({kind})",
                           program, outer)
            case For(): new = replace(outer, body=new)
            case If(): new = If(outer.condition, new)
            case Alloc(buffer) if buffer.scope == SHARED: new = Alloc(buffer, new)
            case _: pass
    return new


def _rest_of(path: tuple[Stmt, ...], units: list[tuple[int, Stmt]]) -> Stmt:
    """Everything but the copies."""
    loop = path[-1]
    assert isinstance(loop, For)
    rest = [child for unit, child in units if unit]
    new: Stmt = replace(loop, body=Seq(tuple(rest)))
    return rewrite_stmts(path[0], lambda s: new if s == loop else None)


def require_copies(program: Program, stmt: Stmt) -> None:
    """Refuse copies that the TMA cannot make as they are declared: it leaves out what lies beyond
    the array, and nothing else.
    """
    for copy in filter(is_of_tma, walk_stmts(stmt)):
        assert isinstance(copy, Tensorized)
        store = next(s for s in walk_stmts(copy.body) if isinstance(s, Store))
        match store.value:
            case Read() as read: conditions = []
            case Select(condition, Read() as read, Const(0)): conditions = conjuncts(condition)
            case _: refuse("copies by the TMA must be padded with zeros", program, copy)
        inside = [linear(index) - linear(Const(extent, INDEX))
                  for index, extent in zip(read.indices, read.buffer.shape, strict=True)]
        for condition in conditions:
            if not (isinstance(condition, Binary) and condition.op == "lt"
                    and linear(condition.a) - linear(condition.b) in inside):
                refuse(f"what the TMA leaves out of {read.buffer.name} must lie beyond it",
                       program, copy)
        width = numpy_dtype(read.buffer.dtype).itemsize
        if len(read.buffer.shape) > 5 or any(
                not isinstance(pitch, int) or pitch * width % ALIGNED
                for pitch in read.buffer.pitches[:-1]):
            refuse(f"rows of {read.buffer.name} must begin at multiples of {ALIGNED} bytes, for "
                   f"the TMA", program, copy)
        tile = store.buffer
        if not tile.swizzled or tile.shape[-1] * width != ROW_BYTES:
            refuse(f"{tile.name} must be swizzled and have rows of {ROW_BYTES} bytes, for the TMA",
                   program, copy)


def maps_of(stmt: Stmt) -> tuple[TensorMap, ...]:
    """The arrays that the TMA reads, each with the box of a copy."""
    return tuple(dict.fromkeys(map_of(copy) for copy in tma_copies(stmt)))


def map_of(copy: Tensorized) -> TensorMap:
    first = copy.binding.tile("src")
    assert isinstance(first, Read)
    box = copy.intrinsic.operand("src").shape
    return TensorMap(first.buffer, (1,) * (len(first.buffer.shape) - len(box)) + box)


def together(program: Program, copies: Stmt, rest: Stmt, threads: Extent3) -> Stmt:
    """The body of the kernel: both parts with their tokens, each for its warps."""
    for part in (copies, rest):
        if barrier := next((s for s in walk_stmts(part) if isinstance(s, Barrier)), None):
            refuse("threads of a specialized kernel must not need to wait for all others", program,
                   barrier)
    groups = threads[2]
    depth = _proved(program, copies, rest)
    full, free = Counter("full", depth, 1), Counter("free", depth, GROUP * groups, True)

    def copied(body: Stmt, turn: Expr) -> Stmt:
        size = sum(prod(copy.intrinsic.operand("dst").shape) * numpy_dtype(
            copy.intrinsic.operand("dst").dtype).itemsize for copy in tma_copies(body))
        return Seq((TokenWait(free, turn), Expect(full, turn, size), body))

    def used(body: Stmt, turn: Expr) -> Stmt:
        if any(map(is_of_groups, walk_stmts(body))):
            body = Seq((ProductsBegin(), body, ProductsEnd()))
        return Seq((TokenWait(full, turn), body, TokenSignal(free, turn)))

    copies, rest = _in_loop(copies, copied), _in_loop(rest, used)
    x, y, z = THREADS
    copies = If(all_of(x.equal(0), y.equal(0)), copies)
    if groups > 1:
        copies = Seq((RegisterShare(FEW, True), copies))
        rest = Seq((RegisterShare(MANY, False), rest))
    return Seq((BeginUnits((full, free)), If(z.equal(groups), copies),
                If(z < groups, rest)))


def _in_loop(stmt: Stmt, around: Callable[[Stmt, Expr], Stmt]) -> Stmt:
    """The statement with `around` the body of its specialized loop, in each turn."""
    path = path_to(stmt, lambda s: s == specialized_loop(stmt))
    loop, loops = path[-1], [s for s in path if isinstance(s, For)]
    assert isinstance(loop, For)
    turn: Expr = Const(0, INDEX)
    for outer in loops:
        turn = turn * outer.extent + outer.var
    body = around(loop.body, normalize(turn))
    return replace_stmt(stmt, loop, replace(loop, body=Seq(tuple(_flattened(body)))))


def _flattened(stmt: Stmt) -> Iterator[Stmt]:
    if isinstance(stmt, Seq):
        for child in stmt.stmts:
            yield from _flattened(child)
    else:
        yield stmt


def _proved(program: Program, copies: Stmt, rest: Stmt) -> int:
    """The most turns that the copies are ahead. Turns repeat when all copies of a buffer have
    been used, so a few rounds prove all.
    """
    units = (COPIER, copies), (THREADS_UNIT, rest)
    copied = max(tile.buffer.shape[0] for copy in tma_copies(copies)
                 if isinstance(tile := copy.binding.tile("dst"), Read))
    turns = min(_turns(copies), _turns(rest), ROUNDS * copied)
    events = [Event(unit, tuple(_touched(part, turn)), f"turn {turn}")
              for turn in range(turns) for unit, part in units]
    needed = insert_tokens(events, (COPIER, THREADS_UNIT))
    waits = [bool(token.waits) for token in needed[::2]]
    depth = waits.index(True) if any(waits) else turns
    tokens = [Tokens((THREADS_UNIT,), (THREADS_UNIT,)), Tokens((COPIER,), (COPIER,))] * turns
    begin, end = Event(THREADS_UNIT, label="begin"), Event(COPIER, label="end")
    found = check([*[begin] * depth, *events, *[end] * depth],
                  [*[Tokens((), (COPIER,))] * depth, *tokens,
                   *[Tokens((THREADS_UNIT,), ())] * depth], {}, 1)
    if depth < 1 or found:
        refuse(f"units must not meet in a specialized loop: "
               f"{found[0] if found else 'no turn is ahead'}", program, specialized_loop(rest))
    return depth


def _turns(stmt: Stmt) -> int:
    path = path_to(stmt, lambda s: s == specialized_loop(stmt))
    return prod(s.extent for s in path if isinstance(s, For))


def _touched(stmt: Stmt, turn: int) -> Iterator[AddressSet]:
    """The accesses of a turn of the loop in shared memory: copies of buffers, by their number."""
    path = path_to(stmt, lambda s: s == specialized_loop(stmt))
    at: dict[Var, Expr] = {}
    for loop in reversed([s for s in path if isinstance(s, For)]):
        turn, number = divmod(turn, loop.extent)
        at[loop.var] = Const(number, INDEX)
    loop = path[-1]
    assert isinstance(loop, For)
    for access in accesses(loop.body):
        if access.buffer.scope == SHARED:
            place = normalize(substitute(access.indices[0], at))
            whole = 0, extent_value(access.buffer.shape[0], {})
            known = (int(place.value), int(place.value) + 1) if isinstance(place, Const) else whole
            yield AddressSet(access.buffer.name, known, access.is_write)


def require_groups(program: Program, stmt: Stmt) -> None:
    """Refuse products of groups whose four warps do not have the rows of one product."""
    warps = {s.var: s for s in walk_stmts(stmt) if isinstance(s, For) and s.kind == "threadIdx.y"}
    inside = specialized_loop(stmt)
    for node in filter(is_of_groups, walk_stmts(stmt)):
        assert isinstance(node, Tensorized)
        if inside is None or not any(s is node for s in walk_stmts(inside)):
            refuse("products of groups must be in a specialized loop", program, node)
        for name, tile in node.binding.tiles:
            assert isinstance(tile, Read)
            steps = [dict(linear(index).terms).get(var, 0) for index in tile.indices
                     for var in warps if var in free_variables(index)]
            rows = node.intrinsic.operand(name).shape[0]
            if name == "a" and (steps != [rows] or not tile.buffer.swizzled) or (
                    name != "a" and steps):
                refuse(f"the {GROUP} warps along threadIdx.y must multiply {rows} rows of "
                       f"{tile.buffer.name} each, that follow each other" if name == "a" else
                       f"the {GROUP} warps along threadIdx.y must have one {name}, not parts of "
                       f"{tile.buffer.name}", program, node)
