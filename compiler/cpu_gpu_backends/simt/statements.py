"""Statements as C, and kernels as functions."""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from compiler.ir import (Alloc, Barrier, Combine, For, If, Linear, Seq, Stmt, Store, Tensorized,
                         Update, expressions, from_linear, linear, loops, map_exprs, normalize,
                         reads, walk_stmts)
from compiler.te import (FUNCTIONS, INDEX, Binary, Buffer, Const, Expr, Extent, Read, Select, Var,
                         all_of, as_expr, is_float, is_number, numpy_dtype, substitute, walk)

from .asynchronous import WRITTEN_OUT, AsyncCommit, AsyncCopy, AsyncWait
from .code import TensorMap
from .dialects import HELPERS, Dialect
from .expressions import Expressions, sides
from .kernels import (BLOCKS, FRAGMENT, FRAGMENTS, THREADS, WORDS, Counter, SimtKernel,
                      is_of_groups, is_of_tma, tile_of)
from .tiles import IntrinsicCall, Tile
from .units import (BeginUnits, Expect, ProductsBegin, ProductsEnd, RegisterShare, TokenSignal,
                    TokenWait, map_of)
from .vectors import VectorLoop, vector, vectors, without_guard

__all__ = ["Printer"]

RESIDENT = 512              # threads, of 128 registers each
MOST_BLOCKS = 16            # that every GPU holds
WIDTH = 100
_WORDS = frozenset("""alignas alignof and and_eq asm auto barrier bitand bitor block_place bool
    break case catch char class compl complex const const_cast constant constexpr continue copysign
    decltype default delete device do double dynamic_cast else enum event_t explicit export extern
    fabs false float floor fmod for friend generic global goto half if imaginary inline int kernel
    linux local long max metal min mutable namespace new noexcept not not_eq nullptr operator or
    or_eq pipe private protected public queue_t read_only read_write register reinterpret_cast
    reserve_id_t restrict result return sampler_t short signed simt sizeof static static_assert
    static_cast std struct switch template this thread thread_local thread_place threadgroup throw
    true try typedef typeid typename typeof uniform union unix unsigned using vector virtual void
    volatile while write_only xor xor_eq blockDim blockIdx gridDim threadIdx warpSize""".split()
    ) | FUNCTIONS | HELPERS.keys()
_TYPES = re.compile(r"(u?(char|short|int|long|longlong)|float|double|half|bool|u?int\d+_|size_|"
                    r"ptrdiff_|u?intptr_|wchar_|image\w*_)(\d+|t)|v\d+|get_\w+|async_\w+|"
                    r"w?g?mma_\w+|barriers?_\w+|registers_\w+|products_\w+|\w+_map\d+|full|free|"
                    r"TensorMap|block_memory")
_OPERATORS = {"add": "+", "sub": "-", "mul": "*"}
MOST_TURNS = 8          # copies of a buffer that a pipelined loop uses in turns
ZERO = Const(0, INDEX)


class Printer:
    """Prints one kernel. `text` is its function, `used` the helpers that it calls."""

    def __init__(self, dialect: Dialect, kernel: SimtKernel):
        self.dialect, self.kernel = dialect, kernel
        self.names = _names(kernel)
        ranges: dict[Var, Extent] = {symbol: symbol for symbol in kernel.parameters}
        self.exprs = Expressions(dialect, self.names, {**ranges, **dict(kernel.ranges())})
        self.lines: list[str] = []
        self.depth = 0
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

    def _line(self, text: str) -> None:
        """A line, and where it is too long, the rest of it on others, further in."""
        line = "  " * self.depth + text
        while len(line) > WIDTH and (cut := line.rfind(" ", 2 * self.depth + 5, WIDTH)) > 0:
            self.lines.append(line[:cut])
            line = "  " * self.depth + "    " + line[cut + 1:]
        self.lines.append(line)

    def _type(self, buffer: Buffer) -> str:
        if buffer.dtype not in self.dialect.types:
            raise ValueError(f"Type of {buffer.name} must be one that {self.dialect.name} has, "
                             f"not {buffer.dtype}")
        if buffer.dtype in ("float16", "bfloat16"):
            if self.dialect.types[buffer.dtype] in HELPERS:
                self.exprs.use(self.dialect.types[buffer.dtype])
        return self.dialect.types[buffer.dtype]

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
            case Seq(stmts):
                for place, child in enumerate(stmts):
                    nested = isinstance(child, Alloc) and place < len(stmts) - 1
                    self._braced("", child) if nested else self._write(child)
            case Alloc(): self._allocate(stmt)
            case For(): self._loop(stmt)
            case If(condition, If(inner, body)): self._write(If(all_of(condition, inner), body))
            case If(condition, body): self._braced(f"if ({self.exprs.value(condition)}) ", body)
            case Barrier(): self._line(self.dialect.barrier(self._writes_what_it_reads))
            case AsyncCopy(): self._copy(stmt)
            case AsyncCommit(): self._line("async_commit();")
            case AsyncWait(pending): self._line(f"async_wait<{pending}>();")
            case Store(): self._store(stmt)
            case Update(): self._update(stmt)
            case Combine(): self._braced("", stmt)
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
            case _: raise TypeError(f"Statement must be of a known kind, not {stmt!r}")

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

    def _allocate(self, stmt: Alloc) -> None:
        """An array, or a variable with the value that it is given first."""
        declared = self._array(stmt.buffer, stmt.buffer.name in self._aligned)
        first, *rest = stmt.body.stmts if isinstance(stmt.body, Seq) else (stmt.body,)
        if stmt.buffer.size == 1 and isinstance(first, Store) and first.buffer == stmt.buffer:
            self._line(f"{declared} = {self.exprs.value(first.value)};")
            self._write(Seq(tuple(rest)))
        else:
            self._line(f"{declared};")
            self._write(stmt.body)

    def _braced(self, head: str, body: Stmt, last: Sequence[str] = ()) -> None:
        """Braces around several lines, as people write them; `last` are lines after the body."""
        self._line(f"{head}{{")
        start = len(self.lines)
        self._inside(lambda: self._combine(body) if isinstance(body, Combine)
                     else self._write(body))
        for line in last:
            self._inside(lambda line=line: self._line(line))
        if head and len(self.lines) == start + 1:
            self.lines[start - 1] = self.lines[start - 1].removesuffix(" {")
            if _is_flat(body) and len(self.lines[start - 1]) + len(
                    self.lines[start].strip()) < WIDTH:
                self.lines[start - 1:] = [f"{self.lines[start - 1]} {self.lines[start].strip()}"]
        else:
            self._line("}")

    def _loop(self, loop: For) -> None:
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
        name = self.names[loop.var.name]
        self.exprs.ranges[loop.var] = loop.extent
        if loop.kind in ("unroll", "vectorize") and isinstance(loop.extent, int):
            self._line("#pragma unroll")
        extent = self.exprs.value(as_expr(loop.extent, INDEX), 11)
        counts, turns = self._turns(loop)
        for turn, (first, _) in turns.items():
            self._line(f"int {turn} = {first};")
        if counts:
            self._line(f"#pragma unroll {max(counts)}")
        elif isinstance(loop.extent, int) and loop.extent > WRITTEN_OUT and _copies(loop):
            self._line(f"#pragma unroll {WRITTEN_OUT}")
        head = f"for (int {name} = 0; {name} < {extent}; ++{name}) "
        self._braced(head, loop.body, [f"{turn} = {turn} == {count - 1} ? 0 : {turn} + 1;"
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

    def _store(self, stmt: Store) -> None:
        target = self.exprs.element(stmt.buffer, stmt.indices)
        self._assign(target, stmt.value, Read(stmt.buffer, stmt.indices))

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
        value = self.dialect.zero(kind) if count > 1 and not any(once) else self.dialect.filled(
            kind, f"0x{int.from_bytes(once, sys.byteorder):x}u", count)
        return self.dialect.store(kind, f"&{target}", self._spaces.get(first.buffer.name, ""),
                                  value)

    def _assign(self, target: str, value: Expr, old: Expr) -> None:
        """``a += b`` for ``a = a + b`` where C computes that as it is meant."""
        match value:
            case Binary("add" | "sub" | "mul" as op, a, b) if a == old and self._is_plain(value):
                self._line(f"{target} {_OPERATORS[op]}= {self.exprs.value(b)};")
            case _:
                self._line(f"{target} = {self.exprs.value(value)};")

    def _is_plain(self, value: Binary) -> bool:
        return value.dtype in ("float32", "float64", "uint32", "uint64") or (
            not is_float(value.dtype) and value.dtype != "bool" and self.exprs.fits(value))

    def _update(self, stmt: Update) -> None:
        old = Read(stmt.buffer, stmt.indices)
        target = self.exprs.element(stmt.buffer, stmt.indices)
        total = Binary({"sum": "add"}.get(stmt.op, stmt.op), old, stmt.value)
        if not stmt.begins:
            self._assign(target, total, old)
        elif not stmt.axes:
            self._assign(target, stmt.value, old)
        else:
            self._line(f"if ({self._begins(stmt)}) {{")
            self._inside(lambda: self._assign(target, stmt.value, old))
            self._line("} else {")
            self._inside(lambda: self._assign(target, total, old))
            self._line("}")

    def _inside(self, write: Callable[[], None]) -> None:
        self.depth += 1
        write()
        self.depth -= 1

    def _begins(self, stmt: Update | Combine) -> str:
        if not stmt.begins:
            return "false"
        return self.exprs.value(all_of(*(var.equal(0) for var in stmt.axes)))

    def _combine(self, stmt: Combine) -> None:
        """New values first, then all stores: each new value may need every old one. In braces."""
        names = [f"new_{self.names[buffer.name]}" for buffer in stmt.buffers]
        right = tuple(Var(name, buffer.dtype) for name, buffer in zip(names, stmt.buffers))
        old = [Read(buffer, stmt.indices) for buffer in stmt.buffers]

        def store(values: Sequence[Expr]) -> None:
            for buffer, value in zip(stmt.buffers, values):
                self._line(f"{self.exprs.element(buffer, stmt.indices)} = "
                           f"{self.exprs.value(value)};")

        def combine() -> None:
            both = [f"{name}_" for name in names]
            self._declare(both, stmt.buffers, stmt.reducer.combine(old, right))
            store([Var(name, buffer.dtype) for name, buffer in zip(both, stmt.buffers)])

        self._declare(names, stmt.buffers, stmt.values)
        if not stmt.begins:
            combine()
        elif not stmt.axes:
            store(right)
        else:
            self._line(f"if ({self._begins(stmt)}) {{")
            self._inside(lambda: store(right))
            self._line("} else {")
            self._inside(combine)
            self._line("}")

    def _declare(self, names: Sequence[str], buffers: Sequence[Buffer],
                 values: Sequence[Expr]) -> None:
        for name, buffer, value in zip(names, buffers, values):
            self._line(f"const {self._type(buffer)} {name} = {self.exprs.value(value)};")

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
            tiles["src"] = Tile(self._map_name(map_of(stmt)), (),
                                tuple(map(self.exprs.value, first.indices)))
        for line in intrinsic.lower(IntrinsicCall(tiles, begins, self.exprs.use, self._signal)):
            self._line(line)

    def _tile(self, first: Read, rank: int) -> Tile:
        buffer, indices = first.buffer, first.indices
        if buffer.scope in FRAGMENTS:
            places = [normalize(index // side)
                      for index, side in zip(indices[-2:], tile_of(buffer))]
            if buffer.scope in WORDS:       # tiles that lie below each other are neighbours
                places.reverse()
            return Tile(self.exprs.tile(buffer, (*indices[:-2], *places)), ())
        pitches = buffer.pitches[-rank:] if rank else ()
        if not buffer.swizzled:
            return Tile(self.exprs.element(buffer, indices), pitches)
        origin = self.exprs.element(replace(buffer, swizzled=False), (*indices[:-2], ZERO, ZERO))
        row, column = map(self.exprs.value, indices[-2:])
        return Tile(origin, pitches, (row, column), buffer.swizzle)

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
    """Whether it is a serial loop of asynchronous copies and nothing else."""
    made = [s for s in walk_stmts(loop.body) if not isinstance(s, For | If | Seq)]
    return loop.kind == "serial" and all(isinstance(s, AsyncCopy) for s in made)


def _is_flat(stmt: Stmt) -> bool:
    """Whether it may stand on the line of its condition or loop."""
    return isinstance(stmt, Store | Barrier)


def _is_taken(name: str) -> bool:
    """Whether it is a word of a language, a type or function that texts use, or like a macro."""
    return (name in _WORDS or name.removesuffix("f") in _WORDS or _TYPES.fullmatch(name) is not None
            or len(name) > 1 and name.isupper())


def _names(kernel: SimtKernel) -> dict[str, str]:
    """IR names to names that C takes and that differ from each other."""
    taken = {var.name for var in (*BLOCKS, *THREADS)}
    spelled = {name: name for name in taken}
    wanted = [*(symbol.name for symbol in kernel.parameters),
              *(b.name for b in (*kernel.buffers, *(m.buffer for m in kernel.maps),
                                 *kernel.shared)),
              *(s.buffer.name for s in walk_stmts(kernel.body) if isinstance(s, Alloc)),
              *(loop.var.name for loop in loops(kernel.body))]
    for name in dict.fromkeys(wanted):
        if name in spelled:
            continue
        plain = re.sub(r"^(__+|(?=\d))|[^A-Za-z0-9_]", "_", name)
        plain += "_" * _is_taken(plain)
        while plain in taken:
            plain += "_"
        taken.add(plain)
        spelled[name] = plain
    return spelled
