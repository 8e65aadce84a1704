"""Kernels on NumPy lanes: all threads of a block at once, and who touches what when.

Every statement runs for all threads of a block together, so the result is that of the kernel, in
another way than any device's. Each access to memory that threads share is recorded with its thread
until the next barrier: two threads that touch one element in between, one of them writing, race.
So do two blocks that touch one element at all. What asynchronous copies write counts when they are
issued and again when they are waited for, since they may land at any time in between. Units of a
specialized loop run in turns; what they have touched, and the tokens that they have taken and
given, must be a stream that `latency_hiding.check` proves.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any
from dataclasses import dataclass, field, replace

import numpy as np

from compiler.cpu_gpu_backends.simt.asynchronous import AsyncCommit, AsyncCopy, AsyncWait
from compiler.cpu_gpu_backends.simt.kernels import (FRAGMENTS, OWN, WARP, Counter, Shuffle,
                                                    SimtKernel, SimtProgram, is_of_tma,
                                                    is_of_warps)
from compiler.cpu_gpu_backends.simt.units import (BeginUnits, Expect, ProductsBegin, ProductsEnd,
                                                  RegisterShare, TokenSignal, TokenWait)
from compiler.ir import (Alloc, Barrier, Combine, For, If, Seq, Stmt, Store, Tensorized, Update,
                         stmt_text, substitute_stmt, values_in, walk_stmts)
from compiler.ir.arithmetic import apply_binary, apply_call, apply_cast
from compiler.latency_hiding import AddressSet, Event, Tokens, Violation, check
from compiler.te import (INDEX, Binary, Buffer, Call, Cast, Const, Expr, Read, Select, Var,
                         numpy_dtype)

__all__ = ["Race", "find_races", "run_kernels"]

Lanes = np.ndarray
"""Numbers of the threads that do a statement, ascending."""


@dataclass(frozen=True, slots=True)
class Race:
    """Two threads of a block, or two blocks, in one element; `second` found it touched."""

    kernel: str
    buffer: str
    element: int
    first: int
    second: int
    between: str        # "threads", "units" or "blocks"
    stmt: str

    def __str__(self) -> str:
        return (f"{self.kernel}: {self.between} {self.first} and {self.second} meet in element "
                f"{self.element} of {self.buffer}: {self.stmt}")


def find_races(kernels: SimtProgram, inputs: Mapping[str, np.ndarray],
               **symbols: int) -> list[Race]:
    """The first race in each statement, in order; [] when there is none. Parameters take their
    values from the shapes of the inputs, or from `symbols`.
    """
    return _run(kernels, inputs, symbols)[1]


def run_kernels(kernels: SimtProgram, inputs: Mapping[str, np.ndarray],
                **symbols: int) -> dict[str, np.ndarray]:
    """Outputs by name, like `compiler.ir.interpret`."""
    return _run(kernels, inputs, symbols)[0]


def _run(kernels: SimtProgram, inputs: Mapping[str, np.ndarray], symbols: Mapping[str, int]):
    if kernels.program.parameters:
        kernels = kernels.at(**values_in(kernels.program.inputs, inputs, symbols))
    program, races = kernels.program, []
    memory = {b.name: np.ascontiguousarray(inputs[b.name]).reshape(-1) for b in program.inputs}
    for buffer in (*program.outputs, *kernels.temporaries):
        memory[buffer.name] = _poisoned(buffer.size, buffer.dtype)
    for kernel, numbers in kernels.launches():
        turns: dict[Var, Expr] = {turn.symbol: Const(number, INDEX) for turn, number
                 in zip(kernel.turns, numbers, strict=True)}
        races += _Grid(replace(kernel, body=substitute_stmt(kernel.body, turns)), memory).run()
    return {b.name: memory[b.name].reshape(b.shape) for b in program.outputs}, races


def _poisoned(size: int, dtype: str) -> np.ndarray:
    data = np.zeros(size, numpy_dtype(dtype))
    data.view(np.uint8)[:] = 0xA5
    return data


class _Watch:
    """Who touched each element of a buffer since the last `reset`."""

    NOBODY, SEVERAL = -1, -2

    def __init__(self, size: int):
        self.writer = np.full(size, self.NOBODY)
        self.reader = np.full(size, self.NOBODY)
        self._touched: list[np.ndarray] = []

    def touch(self, places: np.ndarray, actors: np.ndarray,
              write: bool) -> tuple[int, int, int] | None:
        """Record accesses; the first one that meets another's: element, actor before, actor."""
        race = self._met(places, actors, self.writer)
        if write:
            race = race or self._met(places, actors, self.reader)
            race = race or _twice(places, actors)
            self.writer[places] = actors
        else:
            old = self.reader[places]
            alone = (old == self.NOBODY) | (old == actors)
            self.reader[places] = np.where(alone, actors, self.SEVERAL)
            if twice := _several(places, actors):
                self.reader[list(twice)] = self.SEVERAL
        self._touched.append(places)
        return race

    def _met(self, places: np.ndarray, actors: np.ndarray,
             known: np.ndarray) -> tuple[int, int, int] | None:
        others = known[places]
        met = np.flatnonzero((others != self.NOBODY) & (others != actors))
        if not met.size:
            return None
        return int(places[met[0]]), int(others[met[0]]), int(actors[met[0]])

    def reset(self) -> None:
        for places in self._touched:
            self.writer[places] = self.reader[places] = self.NOBODY
        self._touched.clear()


def _several(places: np.ndarray, actors: np.ndarray) -> set[int]:
    """Elements that more than one of the actors touches."""
    if (places[1:] > places[:-1]).all():
        return set()
    order = np.lexsort((actors, places))
    p, a = places[order], actors[order]
    same = np.flatnonzero((p[1:] == p[:-1]) & (a[1:] != a[:-1]))
    return set(p[same].tolist())


def _twice(places: np.ndarray, actors: np.ndarray) -> tuple[int, int, int] | None:
    for place in sorted(_several(places, actors)):
        first, second = np.unique(actors[places == place])[:2]
        return place, int(first), int(second)
    return None


@dataclass
class _Unit:
    """A unit of a specialized loop: what it has touched in shared memory since it took a token, and
    before that, as events with tokens.
    """

    name: str
    tokens: dict[str, int]
    events: list[tuple[list[str], list[AddressSet], list[str]]] = field(default_factory=list)
    steps: int = 0

    def take(self, counter: Counter) -> None:
        self.tokens[counter.name] -= 1
        self.steps += 1
        self.events.append(([counter.name], [], []))

    def give(self, counter: Counter) -> None:
        self.tokens[counter.name] += 1
        self.steps += 1
        self.events[-1][2].append(counter.name)

    def touch(self, buffer: str, places: np.ndarray, write: bool) -> None:
        if not self.events or self.events[-1][2]:
            self.events.append(([], [], []))
        self.events[-1][1].append(AddressSet(buffer, np.unique(places), write))


def _has_tokens(stmt: Stmt) -> bool:
    return any(isinstance(s, TokenWait | TokenSignal | Expect) for s in walk_stmts(stmt))


def _judged(counters: tuple[Counter, ...], units: list[_Unit]) -> list[Violation]:
    """What breaks the rules of a stream, in which units take turns; first of all those signal who
    fill counters that begin full, and in the end those wait.
    """
    giver = dict.fromkeys((one.name for one in counters), "nobody")
    taker = dict(giver)
    for unit in units:
        for taken, _, given in unit.events:
            giver |= dict.fromkeys(given, unit.name)
            taker |= dict.fromkeys(taken, unit.name)
    full = [one for one in counters if one.begins_full for _ in range(one.depth)]
    stream = [(Event(giver[one.name]), Tokens((), (taker[one.name],))) for one in full]
    for turn in range(max(len(unit.events) for unit in units)):
        for unit in units:
            for taken, touched, given in unit.events[turn:turn + 1]:
                stream.append((Event(unit.name, tuple(touched), f"turn {turn}"),
                               Tokens(tuple(map(giver.__getitem__, taken)),
                                      tuple(map(taker.__getitem__, given)))))
    stream += [(Event(taker[one.name]), Tokens((giver[one.name],), ())) for one in full]
    return check([event for event, _ in stream], [tokens for _, tokens in stream], {}, 1)


@dataclass
class _Grid:
    """A kernel on its blocks, one after the other."""

    kernel: SimtKernel
    memory: dict[str, np.ndarray]
    races: dict[str, Race] = field(default_factory=dict)

    def run(self) -> list[Race]:
        seen = (*self.kernel.buffers, *(one.buffer for one in self.kernel.maps))
        blocks = {b.name: _Watch(b.size) for b in seen}
        threads = {b.name: _Watch(b.size) for b in (*seen, *self.kernel.shared)}
        x, y, z = self.kernel.grid
        for number in range(x * y * z):
            place = (number % x, number // x % y, number // x // y)
            _Block(self, number, place, threads, blocks).run()
        return list(self.races.values())

    def found(self, race: tuple[int, int, int] | None, between: str, buffer: str, stmt: Stmt):
        if race:
            text = stmt_text(stmt).strip()
            self.races.setdefault(f"{text}{between}", Race(self.kernel.name, buffer, *race, between,
                                                           text))


class _Block:
    """All threads of one block."""

    def __init__(self, grid: _Grid, number: int, place: tuple[int, int, int],
                 threads: dict[str, _Watch], blocks: dict[str, _Watch]):
        self.grid, self.number, self.kernel = grid, number, grid.kernel
        self.threads, self.blocks = threads, blocks
        count = np.arange(self.kernel.threads)
        x, y, _ = self.kernel.block
        ids = (count % x, count // x % y, count // x // y)
        values = (*(np.full(count.size, coordinate) for coordinate in place), *ids)
        self.env: dict[Var, np.ndarray | int] = {        # of each thread, or the same of all
            var: value for (var, _), value in zip(self.kernel.ranges(), values)}
        self.memory = dict(grid.memory)
        for buffer in self.kernel.shared:
            self.memory[buffer.name] = _poisoned(buffer.size, buffer.dtype)
        self.local: dict[str, np.ndarray] = {}
        self.groups: list[list] = [[]]              # asynchronous copies: open one last
        self.owners = self.actors = count           # of local buffers, and as recorded
        self.stmt: Stmt = self.kernel.body
        self.unit: _Unit | None = None

    def run(self) -> None:
        everybody = np.arange(self.kernel.threads)
        self._do(self.kernel.body, everybody)
        self._barrier(everybody)

    def _do(self, stmt: Stmt, lanes: Lanes) -> None:
        match stmt:
            case Seq((BeginUnits(counters), *units)):
                self._barrier(lanes)
                self._run_units(counters, units, lanes)
            case Seq(stmts):
                for child in stmts:
                    self._do(child, lanes)
            case For(var, extent, body):
                for value in range(extent):
                    self.env[var] = value
                    self._do(body, lanes)
            case If(condition, body):
                self.stmt = stmt
                chosen = lanes[self._eval(condition, lanes)]
                if chosen.size:
                    self._do(body, chosen)
            case Alloc(buffer, body):
                self._allocate(buffer)
                self._do(body, lanes)
            case Barrier():
                self._barrier(lanes)
            case AsyncCommit():
                self.groups.append([])
            case AsyncWait(pending):
                self._wait(pending)
            case RegisterShare() | ProductsBegin() | ProductsEnd():
                pass
            case AsyncCopy() | Store() | Update() | Combine():
                self.stmt = stmt
                self._write(stmt, lanes)
            case Tensorized():
                self._perform(stmt, lanes)
            case _:
                raise TypeError(f"Statement must be of a known kind, not {stmt!r}")

    def _allocate(self, buffer: Buffer) -> None:
        size = (self.kernel.threads, buffer.size)
        self.local[buffer.name] = _poisoned(size[0] * size[1], buffer.dtype).reshape(size)

    def _run_units(self, counters: tuple[Counter, ...], parts: list[Stmt], lanes: Lanes) -> None:
        """Each until it must wait, then the next. Raises ValueError where all wait."""
        tokens = {one.name: one.depth * one.begins_full for one in counters}
        units = []
        for number, part in enumerate(parts):
            block = copy(self)
            block.env, block.unit = dict(self.env), _Unit(f"unit {number}", tokens)
            units.append((block.unit, block._advance(part, lanes)))
        running = list(units)
        while running:
            before = sum(unit.steps for unit, _ in units)
            running = [one for one in running if next(one[1], "ended") != "ended"]
            if running and before == sum(unit.steps for unit, _ in units):
                raise ValueError(f"{self.kernel.name}: units must not wait for each other for ever")
        for violation in _judged(counters, [unit for unit, _ in units]):
            element = violation.ranges[0][0] if violation.ranges else 0
            self.grid.races.setdefault(str(violation), Race(
                self.kernel.name, violation.memory, element, 0, 1, "units", str(violation)))

    def _advance(self, stmt: Stmt, lanes: Lanes) -> Iterator[None]:
        """Does the statement; stops where a token must be waited for."""
        unit = self.unit
        assert unit is not None
        match stmt:
            case TokenWait(counter):
                while not unit.tokens[counter.name]:
                    yield
                unit.take(counter)
            case TokenSignal(counter):
                unit.give(counter)
            case _ if not _has_tokens(stmt):
                self._do(stmt, lanes)
            case Seq(stmts):
                arriving = [child.counter for child in stmts if isinstance(child, Expect)]
                for child in stmts:
                    if not isinstance(child, Expect):
                        yield from self._advance(child, lanes)
                for counter in arriving:
                    unit.give(counter)
            case For(var, extent, body):
                for value in range(extent):
                    self.env[var] = value
                    yield from self._advance(body, lanes)
            case If(condition, body):
                chosen = lanes[self._eval(condition, lanes)]
                if chosen.size:
                    yield from self._advance(body, chosen)
            case Alloc(buffer, body):
                self._allocate(buffer)
                yield from self._advance(body, lanes)
            case _:
                raise TypeError(f"Statement must be of a known kind, not {stmt!r}")

    def _perform(self, stmt: Tensorized, lanes: Lanes) -> None:
        if is_of_tma(stmt):
            kept = self.env, self.owners, self.actors
            self._perform_warp(stmt.body, lanes[0])
            self.env, self.owners, self.actors = kept
            return
        if not is_of_warps(stmt):
            self._do(stmt.body, lanes)
            return
        kept = self.env, self.owners, self.actors
        for first in lanes[lanes % WARP == 0]:
            self._perform_warp(stmt.body, first)
            self.env, self.owners, self.actors = kept

    def _perform_warp(self, nest: Stmt, first: int) -> None:
        """All iterations of the nest at once, done by the warp whose first thread is given: a
        party of its own, since it is not told which thread does what.
        """
        loops = []
        while isinstance(nest, For):
            loops.append(nest)
            nest = nest.body
        assert isinstance(nest, Store | Update)
        places = np.indices([loop.extent for loop in loops]).reshape(len(loops), -1)
        count = places.shape[1]
        env: dict[Var, np.ndarray | int] = {
            var: value if isinstance(value, int) else np.full(count, value[first])
            for var, value in self.env.items()}
        env.update({loop.var: place for loop, place in zip(loops, places)})
        self.env = env
        self.owners = np.full(count, first)
        self.actors = np.full(count, self.kernel.threads + first // WARP)
        self.stmt, every = nest, np.arange(count)
        if isinstance(nest, Store):
            self._write(nest, every)
            return
        value = self._eval(nest.value, every)
        place = self._place(nest.buffer, nest.indices, every)
        begins = self._begins(nest, every)
        table = self.local[nest.buffer.name][first]
        table[place[begins]] = value[begins]
        np.add.at(table, place[~begins], value[~begins])        # in the order of the nest

    def _barrier(self, lanes: Lanes) -> None:
        if lanes.size != self.kernel.threads:
            raise ValueError(f"{self.kernel.name}: all {self.kernel.threads} threads must reach a "
                             f"barrier, not {lanes.size}")
        for watch in self.threads.values():
            watch.reset()

    def _wait(self, pending: int) -> None:
        while len(self.groups) - 1 > pending:
            for buffer, places, lanes, stmt in self.groups.pop(0):
                self.stmt = stmt
                self._record(buffer, places, lanes, True)

    # Writes

    def _write(self, stmt: Store | Update | Combine, lanes: Lanes) -> None:
        values = [self._eval(value, lanes) for value in stmt.values]
        places = [self._place(buffer, stmt.indices, lanes) for buffer in stmt.buffers]
        if isinstance(stmt, Update | Combine):
            values = self._folded(stmt, values, places, lanes)
        for buffer, place, value in zip(stmt.buffers, places, values):
            if buffer.scope in OWN:
                self.local[buffer.name][self._owners(buffer, lanes), place] = value
            else:
                self._record(buffer, place, lanes, True)
                self.memory[buffer.name][place] = value
            if isinstance(stmt, AsyncCopy):
                self.groups[-1].append((buffer, place, lanes, stmt))

    def _folded(self, stmt: Update | Combine, values: list[np.ndarray],
                places: list[np.ndarray], lanes: Lanes) -> list[np.ndarray]:
        begins = self._begins(stmt, lanes)
        old = [self._load(buffer, place, lanes) for buffer, place in zip(stmt.buffers, places)]
        if isinstance(stmt, Update):
            new = [apply_binary({"sum": "add"}.get(stmt.op, stmt.op), old[0], values[0])]
        else:
            saved = dict(self.env)
            for var, value in zip((*stmt.reducer.left, *stmt.reducer.right), (*old, *values)):
                self.env[var] = whole = np.zeros(self.kernel.threads, value.dtype)
                whole[lanes] = value
            new = [self._eval(value, lanes) for value in stmt.reducer.combined]
            self.env = saved
        return [np.where(begins, value, total) for value, total in zip(values, new)]

    def _begins(self, stmt: Update | Combine, lanes: Lanes) -> np.ndarray:
        begins = np.full(lanes.size, stmt.begins)
        for var in stmt.axes:
            begins &= self._variable(var, lanes) == 0
        return begins

    def _record(self, buffer: Buffer, places: np.ndarray, lanes: Lanes, write: bool) -> None:
        if self.unit and buffer in self.kernel.shared:
            self.unit.touch(buffer.name, places, write)
            return
        met = self.threads[buffer.name].touch(places, self.actors[lanes], write)
        self.grid.found(met, "threads", buffer.name, self.stmt)
        if buffer.name in self.blocks:
            here = np.full(lanes.size, self.number)
            met = self.blocks[buffer.name].touch(places, here, write)
            self.grid.found(met, "blocks", buffer.name, self.stmt)

    # Values

    def _place(self, buffer: Buffer, indices: tuple[Expr, ...], lanes: Lanes) -> np.ndarray:
        place = np.zeros(lanes.size, np.int64)
        for index, pitch, extent in zip(indices, buffer.pitches, buffer.shape):
            value = self._index(index, lanes)
            if isinstance(value, int):
                outside = not 0 <= value < extent
            else:
                outside = value.size and not 0 <= value.min() <= value.max() < extent
            if outside:
                raise IndexError(f"{self.kernel.name}: index of {buffer.name} must be from 0 to "
                                 f"{extent - 1}: {stmt_text(self.stmt).strip()}")
            place += pitch * value
        return place

    def _variable(self, var: Var, lanes: Lanes) -> np.ndarray:
        value = self.env[var]
        return np.full(lanes.size, value) if isinstance(value, int) else value[lanes]

    def _index(self, expr: Expr, lanes: Lanes) -> Any:
        """`_eval` of an index; a number where all threads have the same: most parts are so."""
        match expr:
            case Const(value) if isinstance(value, int): return value
            case Var() if isinstance(value := self.env[expr], int): return value
            case Binary("add", a, b): return self._index(a, lanes) + self._index(b, lanes)
            case Binary("sub", a, b): return self._index(a, lanes) - self._index(b, lanes)
            case Binary("mul", a, b): return self._index(a, lanes) * self._index(b, lanes)
            case Binary("floordiv", a, Const(int(divisor))) if divisor:
                return self._index(a, lanes) // divisor
            case Binary("mod", a, Const(int(divisor))) if divisor:
                return self._index(a, lanes) % divisor
            case _: return self._eval(expr, lanes)

    def _owners(self, buffer: Buffer, lanes: Lanes) -> np.ndarray:
        """The first thread of a warp has its fragments."""
        owners = self.owners[lanes]
        return owners // WARP * WARP if buffer.scope in FRAGMENTS else owners

    def _load(self, buffer: Buffer, place: np.ndarray, lanes: Lanes) -> np.ndarray:
        if buffer.scope in OWN:
            return self.local[buffer.name][self._owners(buffer, lanes), place]
        self._record(buffer, place, lanes, False)
        return self.memory[buffer.name][place]

    def _eval(self, expr: Expr, lanes: Lanes) -> np.ndarray:
        match expr:
            case Const(value, dtype): return np.full(lanes.size, value, numpy_dtype(dtype))
            case Var(): return self._variable(expr, lanes)
            case Read(buffer, indices):
                return self._load(buffer, self._place(buffer, indices, lanes), lanes)
            case Shuffle(value, lane_xor): return self._shuffled(value, lane_xor, lanes)
            case Binary(op, a, b): return apply_binary(op, self._eval(a, lanes),
                                                       self._eval(b, lanes))
            case Call(function, args): return apply_call(
                function, *(self._eval(arg, lanes) for arg in args))
            case Cast(value, dtype): return apply_cast(self._eval(value, lanes), dtype)
            case Select(): return self._selected(expr, lanes)
            case _: raise TypeError(f"Expression must be of a known kind, not {expr!r}")

    def _selected(self, expr: Select, lanes: Lanes) -> np.ndarray:
        chosen = self._eval(expr.condition, lanes)
        result = np.empty(lanes.size, numpy_dtype(expr.dtype))
        for side, where in ((expr.a, chosen), (expr.b, ~chosen)):
            if where.any():
                result[where] = self._eval(side, lanes[where])
        return result

    def _shuffled(self, value: Read, lane_xor: int, lanes: Lanes) -> np.ndarray:
        if (np.bincount(lanes // WARP) % WARP).any():
            raise ValueError(f"{self.kernel.name}: all threads of a warp must exchange values")
        own = np.zeros(self.kernel.threads, numpy_dtype(value.dtype))
        own[lanes] = self._eval(value, lanes)
        return own[lanes ^ lane_xor]
