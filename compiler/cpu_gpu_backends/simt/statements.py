"""Statements as C, and kernels as functions."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from compiler.ir import (Alloc, Barrier, For, If, Linear, Seq, Stmt, Store, Tensorized,
                         expressions, from_linear, linear, loops, map_exprs, normalize,
                         reads, walk_stmts)
from compiler.te import (INDEX, Binary, Buffer, Const, Expr, Extent, Read, Select, Var,
                         all_of, is_number, numpy_dtype, substitute, walk)

from .asynchronous import WRITTEN_OUT, AsyncCommit, AsyncCopy, AsyncWait
from .code import TensorMap
from .dialects import HELPERS, Dialect
from .expressions import Expressions, sides
from .kernels import (BLOCKS, FRAGMENT, FRAGMENTS, THREADS, WORDS, Counter, SimtKernel,
                      is_of_groups, is_of_tma, tile_of)
from .names import is_taken, spelled
from .serial import WIDTH, SerialPrinter
from .simt_calls import SimtCall, SimtTile
from .units import (BeginUnits, Expect, ProductsBegin, ProductsEnd, RegisterShare, TokenSignal,
                    TokenWait, map_of)
from .vectors import VectorLoop, vector, vectors, without_guard

RESIDENT = 512              # threads, of 128 registers each
MOST_BLOCKS = 16            # that every GPU holds
MOST_TURNS = 8          # copies of a buffer that a pipelined loop uses in turns
ZERO = Const(0, INDEX)


class Printer(SerialPrinter):
    """Prints one kernel. `text` is its function, `used` the helpers that it calls."""

    def __init__(self, dialect: Dialect, kernel: SimtKernel):
        self.dialect, self.kernel = dialect, kernel
        names = _names(kernel)
        ranges: dict[Var, Extent] = {symbol: symbol for symbol in kernel.parameters}
        super().__init__(names, Expressions(dialect, names, {**ranges, **dict(kernel.ranges())}))
        self._signal = ""               # of the copies by the TMA that follow
        self._aligned = {b.name for loop in vectors(kernel.body)
                         for b in (loop.store.buffer, *(read.buffer for read in loop.loads))}
        self._spaces = {b.name: dialect.device for b in kernel.buffers} | {
            b.name: dialect.shared for b in kernel.shared}
        self._writes_what_it_reads = any(read.buffer.name in kernel.written
                                         for read in reads(kernel.body))
        self.text = self._function()

    @property
    def used(self) -> Iterable[str]:
        return self.exprs.used

    def _function(self) -> str:
        kernel, dialect = self.kernel, self.dialect
        parameters = [dialect.pointer(self._type(b), self.names[b.name],
                                      b.name not in kernel.written, number)
                      for number, b in enumerate(kernel.buffers)]
        parameters += [dialect.number(self.names[symbol.name], number)
                       for number, symbol in enumerate(kernel.parameters, len(parameters))]
        parameters += [f"const __grid_constant__ TensorMap {self._map_name(one)}"
                       for one in kernel.maps]
        head = dialect.kernel(kernel.name, ", ".join(parameters), self._bounds(), kernel.block)
        if max(map(len, head.splitlines())) > WIDTH:
            indent = ",\n" + " " * (len(kernel.name) + 1)
            head = dialect.kernel(kernel.name, indent.join(parameters), self._bounds(),
                                  kernel.block)
        self.depth = 1
        for variables, sizes in ((BLOCKS, kernel.grid), (THREADS, kernel.block)):
            self._place([var for var, size in zip(variables, sizes) if size != 1])
        places = kernel.shared_places
        for buffer in kernel.shared:
            if buffer.name in places:
                self._line(self._in_block_memory(buffer, places[buffer.name]))
            else:
                self._line(f"{dialect.shared}{self._array(buffer, True)};")
        self._write(kernel.body)
        return "\n".join([head, *self.lines, "}", ""])

    def _bounds(self) -> str:
        """The threads of a block, and how many blocks a multiprocessor holds at least. Arrays of
        threads are registers, some of which the assembler would save in memory to hold more:
        `RESIDENT` threads are enough, and one block of fragments.
        """
        scopes = {s.buffer.scope for s in walk_stmts(self.kernel.body) if isinstance(s, Alloc)}
        threads = self.kernel.threads
        if FRAGMENT in scopes:
            return f"{threads}, 1"
        return f"{threads}, {min(MOST_BLOCKS, -(-RESIDENT // threads))}" if "local" in scopes else (
            str(threads))

    def _place(self, variables: list[Var]) -> None:
        used = [var for var in variables if _mentions(self.kernel.body, var)]
        if used:
            parts = ", ".join(f"{var.name} = {self.dialect.place[var.name]}" for var in used)
            self._line(f"const int {parts};")

    def _type(self, buffer: Buffer) -> str:
        if buffer.dtype not in self.dialect.types:
            raise ValueError(f"Type of {buffer.name} must be one that {self.dialect.name} has, "
                             f"not {buffer.dtype}")
        kind = self.dialect.types[buffer.dtype]
        if kind in HELPERS:
            self.exprs.use(kind)
        return kind

    def _array(self, buffer: Buffer, aligned: bool) -> str:
        name = self.names[buffer.name]
        kind = self.dialect.types["uint32"] if buffer.scope in WORDS else self._type(buffer)
        dimensions = "".join(f"[{side}]" for side in sides(buffer) if side > 1)
        attribute = self.dialect.aligned if aligned and dimensions else ""
        return f"{attribute}{kind} {name}{dimensions}"

    def _in_block_memory(self, buffer: Buffer, place: int) -> str:
        """A pointer to the rows of an array that the launch has asked for."""
        self.exprs.use("units")
        kind, name = self._type(buffer), self.names[buffer.name]
        rest = "".join(f"[{side}]" for side in [side for side in sides(buffer) if side > 1][1:])
        first, whole = (f"(*{name}){rest}", f"{kind} (*){rest}") if rest else (
            f"*{name}", f"{kind}*")
        return f"{kind} {first} = reinterpret_cast<{whole}>(block_memory + {place});"

    def _map_name(self, one: TensorMap) -> str:
        number = self.kernel.maps.index(one)
        return f"{self.names[one.buffer.name]}_map{number}"

    # Statements

    def _write(self, stmt: Stmt) -> None:
        match stmt:
            case Alloc(): self._allocate(stmt, stmt.buffer.name in self._aligned)
            case For(): self._any_loop(stmt)
            case Barrier(): self._line(self.dialect.barrier(self._writes_what_it_reads))
            case AsyncCopy(): self._copy(stmt)
            case AsyncCommit(): self._line("async_commit();")
            case AsyncWait(pending): self._line(f"async_wait<{pending}>();")
            case Tensorized(): self._intrinsic(stmt)
            case BeginUnits(counters): self._begin_units(counters)
            case RegisterShare(count, fewer): self._calls(f"registers_{('more', 'fewer')[fewer]}"
                                                      f"<{count}>()")
            case TokenWait(counter, turn): self._wait(counter, turn)
            case TokenSignal(counter, turn):
                self._calls(f"barrier_arrive({self._barrier(counter, turn)}, tx)")
            case Expect(counter, turn, size):
                self._signal = self._barrier(counter, turn)
                self._calls(f"barrier_expect({self._signal}, {size})")
            case ProductsBegin(): self._calls("products_begin()")
            case ProductsEnd(): self._calls("products_end()")
            case _: super()._write(stmt)

    def _calls(self, call: str) -> None:
        self.exprs.use("units")
        self._line(f"{call};")

    def _begin_units(self, counters: Sequence[Counter]) -> None:
        """Barriers in shared memory, which one thread sets up."""
        for one in counters:
            self._line(f"{self.dialect.shared}unsigned long long {one.name}[{one.depth}];")
        self._line("if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {")
        for one in counters:
            self._inside(lambda one=one: self._calls(
                f"for (int i = 0; i < {one.depth}; ++i) barrier_begin(&{one.name}[i], "
                f"{one.signals})"))
        self._inside(lambda: self._calls("barriers_begun()"))
        self._line("}")
        self._line(self.dialect.barrier(False))

    def _barrier(self, counter: Counter, turn: Expr) -> str:
        return f"&{counter.name}[{self.exprs.value(normalize(turn % counter.depth))}]"

    def _wait(self, counter: Counter, turn: Expr) -> None:
        """A barrier's phases alternate; before its first one it counts as one that has ended."""
        phase = normalize((turn // counter.depth + int(counter.begins_full)) % 2)
        self._calls(f"barrier_wait({self._barrier(counter, turn)}, {self.exprs.value(phase)})")

    def _any_loop(self, loop: For) -> None:
        condition, bare = without_guard(loop)
        if lanes := vector(bare):
            if condition is not None:
                self._line(f"if ({self.exprs.value(condition)}) {{")
                self.depth += 1
            self._vector(lanes)
            if condition is not None:
                self.depth -= 1
                self._line("}")
            return
        if loop.kind in ("unroll", "vectorize") and isinstance(loop.extent, int):
            self._line("#pragma unroll")
        counts, turns = self._turns(loop)
        for turn, (first, _) in turns.items():
            self._line(f"int {turn} = {first};")
        if counts:
            self._line(f"#pragma unroll {max(counts)}")
        elif isinstance(loop.extent, int) and loop.extent > WRITTEN_OUT and _copies(loop):
            self._line(f"#pragma unroll {WRITTEN_OUT}")
        self._loop(loop, [f"{turn} = {turn} == {count - 1} ? 0 : {turn} + 1;"
                          for turn, (_, count) in turns.items()])

    def _turns(self, loop: For) -> tuple[set[int], dict[str, tuple[int, int]]]:
        """Numbers of copies that a serial loop over `k` uses in turns, ``(k + first) % count``, and
        variables that count along, by their names: only remainders by powers of two are easy.
        Unrolled as often, the loop has constants for all of them.
        """
        counts: set[int] = set()
        turns: dict[str, tuple[int, int]] = {}
        for stmt in walk_stmts(loop.body) if loop.kind == "serial" else ():
            for node in (node for expr in expressions(stmt) for node in walk(expr)):
                match node:
                    case Binary("mod", index, Const(int(count))) if count <= MOST_TURNS:
                        form = linear(index)
                        if form.terms != ((loop.var, 1),):
                            continue
                        counts.add(count)
                        if count & count - 1 and node not in self.exprs.held:
                            first = form.constant % count
                            name = f"{self.names[loop.var.name]}_turn{first}of{count}"
                            self.exprs.held[node] = name
                            turns[name] = first, count
        return counts, turns

    def _copy(self, stmt: AsyncCopy, size_bytes: int = 0) -> None:
        size = size_bytes or numpy_dtype(stmt.buffer.dtype).itemsize
        if is_number(stmt.value):       # nothing is read after all
            self._number(stmt, stmt.value, size)
            return
        target = self.exprs.element(stmt.buffer, stmt.indices)
        form = linear(self.exprs.flat(stmt.source.buffer, stmt.source.indices))
        offset = form.constant * numpy_dtype(stmt.source.dtype).itemsize
        first = from_linear(form - Linear((), form.constant))
        source = f"{self.names[stmt.source.buffer.name]}[{self.exprs.value(first)}]"
        self.exprs.use("async_copy")
        call = f"async_copy<{size}, {offset}>(&{target}, &{source}"
        match stmt.value:
            case Select(condition, _, Const(0)):
                self._line(f"{call}, {self.exprs.value(condition)});")
            case Select(condition, _, fill):
                self._if(condition, f"{call});")
                self._fill(stmt, fill, size)
            case _:
                self._line(f"{call});")

    def _if(self, condition: Expr, line: str) -> None:
        """The line where the condition holds; `_fill` writes what is done else."""
        self._line(f"if ({self.exprs.value(condition)}) {{")
        self._inside(lambda: self._line(line))

    def _number(self, first: Store, number: Expr, size_bytes: int) -> None:
        if isinstance(number, Select):
            self._if(number.condition, self._filled(first, number.a, size_bytes))
            self._fill(first, number.b, size_bytes)
        else:
            self._line(self._filled(first, number, size_bytes))

    def _fill(self, first: Store, fill: Expr, size_bytes: int) -> None:
        """Else stores the number in as many bytes, from this element on."""
        if isinstance(fill, Select):
            self._line(f"}} else if ({self.exprs.value(fill.condition)}) {{")
            self._inside(lambda: self._line(self._filled(first, fill.a, size_bytes)))
            self._fill(first, fill.b, size_bytes)
            return
        self._line("} else {")
        self._inside(lambda: self._line(self._filled(first, fill, size_bytes)))
        self._line("}")

    def _filled(self, first: Store, number: Expr, size_bytes: int) -> str:
        assert isinstance(number, Const)
        target, own = self.exprs.element(first.buffer, first.indices), numpy_dtype(number.dtype)
        if own.itemsize == size_bytes:
            return f"{target} = {self.exprs.value(number)};"
        dtype = "uint16" if size_bytes == 2 else "uint32"
        word = numpy_dtype(dtype)
        count = size_bytes // word.itemsize
        kind = self.dialect.types[dtype] if count == 1 else self.dialect.vector(dtype, count)
        once = np.full(max(word.itemsize // own.itemsize, 1), number.value, own).tobytes()
        if number.dtype in self.dialect.between:
            high = np.float32(number.value)
            once = np.array([high, number.value - high], np.float32).tobytes()
        value = self.dialect.zero(kind) if count > 1 and not any(once) else self.dialect.filled(
            kind, f"0x{int.from_bytes(once, sys.byteorder):x}u", count)
        return self.dialect.store(kind, f"&{target}", self._spaces.get(first.buffer.name, ""),
                                  value)

    def _intrinsic(self, stmt: Tensorized) -> None:
        if is_of_groups(stmt):      # the four warps name the rows of the first
            stmt = replace(stmt, binding=replace(stmt.binding, tiles=tuple(
                (name, normalize(substitute(tile, {THREADS[1]: ZERO})))
                for name, tile in stmt.binding.tiles)))
        intrinsic, binding = stmt.intrinsic, stmt.binding
        if intrinsic.lower is None:
            raise ValueError(f"Intrinsic {intrinsic.name} must have a rule that writes C")
        begins = "false" if not binding.begins else "true" if not binding.begin else (
            self.exprs.value(all_of(*(var.equal(0) for var in binding.begin))))
        tiles = {name: self._tile(tile, len(intrinsic.operand(name).shape))
                 for name, tile in binding.tiles if isinstance(tile, Read)}
        if is_of_tma(stmt):
            first = binding.tile("src")
            assert isinstance(first, Read)
            tiles["src"] = SimtTile(self._map_name(map_of(stmt)), (),
                                tuple(map(self.exprs.value, first.indices)))
        for line in intrinsic.lower(SimtCall(tiles, begins, self.exprs.use, self._signal)):
            self._line(line)

    def _tile(self, first: Read, rank: int) -> SimtTile:
        buffer, indices = first.buffer, first.indices
        if buffer.scope in FRAGMENTS:
            places = [normalize(index // side)
                      for index, side in zip(indices[-2:], tile_of(buffer))]
            if buffer.scope in WORDS:       # tiles that lie below each other are neighbours
                places.reverse()
            return SimtTile(self.exprs.tile(buffer, (*indices[:-2], *places)), ())
        pitches = buffer.pitches[-rank:] if rank else ()
        if not buffer.swizzled:
            return SimtTile(self.exprs.element(buffer, indices), pitches)
        origin = self.exprs.element(replace(buffer, swizzled=False), (*indices[:-2], ZERO, ZERO))
        row, column = map(self.exprs.value, indices[-2:])
        return SimtTile(origin, pitches, (row, column), buffer.swizzle)

    # Vectors

    def _vector(self, loop: VectorLoop) -> None:
        if isinstance(loop.store, AsyncCopy):
            first = self._of_first(loop)
            assert isinstance(first, AsyncCopy)
            self._copy(first, loop.bytes)
        elif loop.is_copy:
            kind = self._copy_type(loop)
            copy = self._stored(loop, kind, self._loaded(loop, loop.loads[0], kind))
            if loop.condition is None:
                self._line(copy)
                return
            self._if(loop.condition, copy)
            assert loop.fill is not None
            if loop.fill == Const(0, loop.fill.dtype):
                self._line("} else {")
                zeros = self._stored(loop, kind, self.dialect.zero(kind))
                self._inside(lambda: self._line(zeros))
                self._line("}")
            else:
                self._fill(self._of_first(loop), loop.fill, loop.bytes)
        else:
            self._computed(loop)

    def _of_first(self, loop: VectorLoop) -> Store:
        """The store of the first lane."""
        first = map_exprs(loop.store, lambda e: normalize(substitute(e, {loop.var: ZERO})))
        assert isinstance(first, Store)
        return first

    def _computed(self, loop: VectorLoop) -> None:
        """Loads, then each component of the result, then the store."""
        self._line("{")
        self.depth += 1
        vectors = []
        for number, read in enumerate(loop.loads):
            kind = self._vector_type(read.dtype, loop.lanes)
            vectors.append((read, f"v{number}", kind))
            self._line(f"const {kind} v{number} = {self._loaded(loop, read, kind)};")
        kind = self._vector_type(loop.store.buffer.dtype, loop.lanes)
        self._line(f"{kind} result;")
        for lane in range(loop.lanes):
            def of_lane(expr: Expr, lane: int = lane) -> Expr:
                return normalize(substitute(expr, {loop.var: Const(lane, INDEX)}))

            held = {of_lane(read): self.dialect.lane(name, own, lane)
                    for read, name, own in vectors}
            self.exprs.held |= held
            self._line(f"{self.dialect.lane('result', kind, lane)} = "
                       f"{self.exprs.value(of_lane(loop.store.value))};")
            for read in held:
                del self.exprs.held[read]
        self._line(self._stored(loop, kind, "result"))
        self.depth -= 1
        self._line("}")

    def _vector_type(self, dtype: str, lanes: int) -> str:
        kind = self.dialect.vector(dtype, lanes)
        if kind.startswith("Lanes"):
            self.exprs.use("Lanes")
        return kind

    def _copy_type(self, loop: VectorLoop) -> str:
        """The vector of the elements themselves where there is one, else of whole words."""
        dtype = loop.store.buffer.dtype
        if loop.lanes in (2, 4) and dtype not in ("float16", "bfloat16", "bool", "uint64"):
            return self.dialect.vector(dtype, loop.lanes)
        if loop.bytes < 4:
            return self.dialect.types["uint16"]
        words = loop.bytes // 4
        return self.dialect.types["uint32"] if words == 1 else self.dialect.vector("uint32", words)

    def _loaded(self, loop: VectorLoop, read: Read, kind: str) -> str:
        return self.dialect.load(kind, *self._first(loop, read))

    def _stored(self, loop: VectorLoop, kind: str, value: str) -> str:
        first = Read(loop.store.buffer, loop.store.indices)
        return self.dialect.store(kind, *self._first(loop, first), value)

    def _first(self, loop: VectorLoop, lane: Read) -> tuple[str, str]:
        """Address of the first lane, and the space that it is in."""
        first = _lane(loop, lane)
        return (f"&{self.exprs.element(first.buffer, first.indices)}",
                self._spaces.get(first.buffer.name, ""))


def _lane(loop: VectorLoop, read: Read) -> Read:
    """The first lane of it."""
    first = normalize(substitute(read, {loop.var: ZERO}))
    assert isinstance(first, Read)
    return first


def _mentions(stmt: Stmt, var: Var) -> bool:
    return any(node == var for s in walk_stmts(stmt) for expr in expressions(s)
               for node in walk(expr))


def _copies(loop: For) -> bool:
    """True if it is a serial loop of asynchronous copies and nothing else."""
    made = [s for s in walk_stmts(loop.body) if not isinstance(s, For | If | Seq)]
    return loop.kind == "serial" and all(isinstance(s, AsyncCopy) for s in made)


def _names(kernel: SimtKernel) -> dict[str, str]:
    """IR names to names that C takes and that differ from each other."""
    wanted = [*(symbol.name for symbol in kernel.parameters),
              *(b.name for b in (*kernel.buffers, *(m.buffer for m in kernel.maps),
                                 *kernel.shared)),
              *(s.buffer.name for s in walk_stmts(kernel.body) if isinstance(s, Alloc)),
              *(loop.var.name for loop in loops(kernel.body))]
    return spelled(wanted, [var.name for var in (*BLOCKS, *THREADS)], is_taken)
