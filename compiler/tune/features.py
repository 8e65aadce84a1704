"""Numbers that say what a loop program does to a processor, for models of its time.

First those of the whole program, then those of its statements, the ones with most to do first.
Counts are logarithms, base 2, of one more. They are estimated from loops and linear subscripts
alone, without index sets, in a few milliseconds: a guard counts as if it were always true.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log2, prod

from compiler.ir import (BLOCK_KINDS, THREAD_KINDS, Alloc, Barrier, For, If, Program, Seq, Stmt,
                         Tensorized, Update, Write, stmt_children)
from compiler.te import INDEX, Binary, Call, Cast, Expr, Read, Select, Var, walk
from compiler.tune.accesses import LINE, MemoryAccess, VectorCore, access_of

STATEMENTS = 3          # that have numbers of their own
LEVELS = 4              # of loops around a statement, from inside, with footprints of their own
_WHOLE = ("arithmetic", "calls", "touches", "bytes touched", "stores", "statements",
          "statements written out", "iterations of serial loops", "guarded iterations",
          "copied elements", "allocations", "bytes allocated", "largest allocation",
          "shared iterations", "blocks", "threads of a block", "bytes shared by a block",
          "bytes of a thread")
_EACH = ("iterations", "arithmetic", "calls", "reads", "is reduction", "terms", "depth",
         "vector extent", "share of lanes used", "written out", "sums at once", "in vector order",
         "across vectors", "constant along vectors", "guards", "innermost extent",
         "innermost reduces", "loads a term", "registers of sums", "begins inside",
         "in thread order", "across threads", "constant along threads",
         *(f"bytes at level {level}" for level in range(LEVELS)),
         *(f"iterations at level {level}" for level in range(LEVELS)),
         *(f"{what} {level}" for level in range(3) for what in ("traffic of cache",
                                                              "reuse in cache")))


def _names() -> tuple[str, ...]:
    return (*_WHOLE, *(f"{name} of statement {number}" for number in range(STATEMENTS)
                       for name in _EACH))


NAMES = _names()
"""What each number is, in order."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A write with the loops around it, from outside, and how many guards."""

    write: Write
    loops: tuple[For, ...]
    guards: int

    @property
    def iterations(self) -> int:
        return prod(_extent(loop) for loop in self.loops)


def features(program: Program, core: VectorCore) -> tuple[float, ...]:
    """The numbers that `NAMES` names. Symbols in extents count as 1."""
    places = list(_places(program.body, (), 0))
    each = sorted(places, key=lambda place: -place.iterations * (1 + _work(place.write)[0]))
    numbers = [_of_statement(place, core) for place in each[:STATEMENTS]]
    numbers += [(0.0,) * len(_EACH)] * (STATEMENTS - len(numbers))
    return (*_of_program(program, places, core), *chain.from_iterable(numbers))


def _places(stmt: Stmt, loops: tuple[For, ...], guards: int) -> Iterator[_Place]:
    match stmt:
        case For():
            if stmt.kind in THREAD_KINDS:           # the same threads run loops outside of it, too
                loops = tuple(loop for loop in loops if loop.kind != stmt.kind)
            yield from _places(stmt.body, (*loops, stmt), guards)
        case If():
            yield from _places(stmt.body, loops, guards + 1)
        case Seq() | Alloc() | Tensorized():
            for child in stmt_children(stmt):
                yield from _places(child, loops, guards)
        case Barrier():
            return
        case _:
            assert isinstance(stmt, Write)
            yield _Place(stmt, loops, guards)


def _extent(loop: For) -> int:
    return loop.extent if isinstance(loop.extent, int) else 1


def _work(write: Write) -> tuple[int, int]:
    """Operations of a write, and calls of functions."""
    nodes = [node for value in write.values for node in _computed(value)]
    calls = sum(isinstance(node, Call) for node in nodes)
    return len(nodes) + isinstance(write, Update), calls


def _computed(value: Expr) -> Iterator[Expr]:
    return (node for node in walk(value) if isinstance(node, Binary | Call | Select | Cast)
            and node.dtype != INDEX)


def _log(count: float) -> float:
    return log2(1 + max(count, 0))


def _touches(write: Write) -> list[MemoryAccess]:
    """The accesses of a write: what it reads, each element once, and then what it writes."""
    found = dict.fromkeys(node for value in write.values for node in walk(value)
                          if isinstance(node, Read))
    return [access_of(read) for read in (*found, Read(write.buffers[0], write.indices))]


def _of_program(program: Program, places: Sequence[_Place], core: VectorCore
                ) -> tuple[float, ...]:
    work = [(place.iterations, *_work(place.write)) for place in places]
    touched = [(place.iterations, _touches(place.write)) for place in places]
    buffers = [stmt.buffer for stmt in _walk(program.body) if isinstance(stmt, Alloc)]
    each = {scope: [size for buffer in buffers if scope in ("", buffer.scope)
                    and isinstance(size := buffer.size_bytes, int)]
            for scope in ("", "shared", "local")}
    sizes = each[""]
    written = [prod(_extent(loop) for loop in place.loops if loop.kind == "unroll")
               * prod(-(-_extent(loop) // core.lanes) for loop in place.loops
                      if loop.kind == "vectorize") for place in places]
    turns = sum(_turns(place.loops) for place in places)
    return tuple(map(_log, (
        sum(times * count for times, count, _ in work),
        sum(times * calls for times, _, calls in work),
        sum(times * len(touches) for times, touches in touched),
        sum(times * sum(touch.element_bytes for touch in touches) for times, touches in touched),
        sum(place.iterations for place in places if not isinstance(place.write, Update)),
        len(places), sum(written), turns,
        sum(place.iterations for place in places if place.guards),
        sum(place.iterations for place in places
            if isinstance(place.write.values[0], Read) and not isinstance(place.write, Update)),
        len(buffers), sum(sizes), max(sizes, default=0),
        *(max((prod(_extent(loop) for loop in place.loops if loop.kind in kinds)
               for place in places), default=0)
          for kinds in (("parallel",), BLOCK_KINDS, THREAD_KINDS)),
        sum(each["shared"]), sum(each["local"]))))


def _walk(stmt: Stmt) -> Iterator[Stmt]:
    yield stmt
    for child in stmt_children(stmt):
        yield from _walk(child)


def _turns(loops: Sequence[For]) -> int:
    """The jumps back of loops around a statement that stay loops."""
    return prod(_extent(loop) for loop in loops if loop.kind in ("serial", "parallel"))


def _of_statement(place: _Place, core: VectorCore) -> tuple[float, ...]:
    write, loops = place.write, place.loops
    count, calls = _work(write)
    touches = _touches(write)
    axes = write.axes if isinstance(write, Update) else ()
    extents = {loop.var: _extent(loop) for loop in loops}
    vector = next((loop for loop in loops if loop.kind == "vectorize"), None)
    width = _extent(vector) if vector else 1
    vectors = -(-width // core.lanes)
    unrolled = {loop.var: _extent(loop) for loop in loops if loop.kind == "unroll"}
    inside = unrolled | ({vector.var: width} if vector else {})
    serial = [loop for loop in loops if loop.kind in ("serial", "parallel")]
    strides = [touch.stride(vector.var) if vector else 0 for touch in touches]
    thread = next((loop for loop in loops if loop.kind == THREAD_KINDS[0]), None)
    along = [touch.stride(thread.var) for touch in touches
             if touch.buffer.scope == "global"] if thread else []
    sums = prod(size for var, size in unrolled.items() if var not in axes) * vectors
    step = prod(unrolled.values()) * vectors
    loads = sum(touch.elements(unrolled) * (1 if stride == 0 else vectors if stride == 1 else width)
                for touch, stride in zip(touches[:-1], strides))
    last = serial[-1] if serial else None
    return (
        *map(_log, (place.iterations, count, calls, len(touches) - 1)),
        float(bool(axes)), _log(prod(extents.get(axis, 1) for axis in axes)), float(len(loops)),
        _log(width if vector else 0), width / (vectors * core.lanes), _log(prod(unrolled.values())),
        _log(sums), *_kinds(strides),
        float(place.guards), _log(_extent(last) if last else 0),
        float(last is not None and last.var in axes), loads / step,
        touches[-1].elements(inside) / core.lanes / core.registers,
        float(isinstance(write, Update) and write.begins), *_kinds(along),
        *_footprints(touches, serial, inside),
        *_traffic(touches, serial, inside, core, place.iterations))


def _kinds(strides: Sequence[int | None]) -> tuple[float, ...]:
    """The numbers of accesses that follow an order, go across it, or stay."""
    ones, noughts = strides.count(1), strides.count(0)
    return float(ones), float(len(strides) - ones - noughts), float(noughts)


def _footprints(touches: Sequence[MemoryAccess], serial: Sequence[For], inside: dict[Var, int]
                ) -> Iterator[float]:
    """Bytes that are touched inside of each of the innermost loops, and how often these run."""
    levels = serial[::-1][:LEVELS]
    around = dict(inside)
    for loop in levels:
        around |= {loop.var: _extent(loop)}
        yield _log(sum(touch.bytes(around) for touch in touches))
    yield from (0.0,) * (LEVELS - len(levels))
    for loop in levels:
        yield _log(_extent(loop))
    yield from (0.0,) * (LEVELS - len(levels))


def _traffic(touches: Sequence[MemoryAccess], serial: Sequence[For], inside: dict[Var, int],
             core: VectorCore, iterations: int) -> Iterator[float]:
    """Bytes that come into the registers and each cache, and accesses for each line of it: what is
    inside of a loop comes once if all of it has room.
    """
    rooms = (core.registers * core.lanes * 4, *core.caches)[:3]
    sizes = [sum(touch.bytes(inside) for touch in touches)]
    around = dict(inside)
    for loop in reversed(serial):
        around |= {loop.var: _extent(loop)}
        sizes.append(sum(touch.bytes(around) for touch in touches))
    for room in (*rooms, *(0,) * (3 - len(rooms))):
        fitting = next((at for at in range(len(sizes) - 1, 0, -1) if sizes[at] <= room), 0)
        often = prod(_extent(loop) for loop in serial[:len(serial) - fitting])
        traffic = often * sizes[fitting]
        yield _log(traffic)
        yield _log(iterations * len(touches) * LINE / max(traffic, 1))
