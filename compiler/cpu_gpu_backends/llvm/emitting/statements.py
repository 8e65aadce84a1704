"""Statements: loops, stores, reductions. Kinds of loops::

    serial, virtual_thread      one iteration after the other
    unroll                      written out, if not too long; else left to LLVM
    vectorize                   iterations side by side: see `lanes`
    parallel                    iterations on several threads: see `teams`
    blocks and threads of GPUs  one after the other
"""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

from compiler import te
from compiler.ir import (Alloc, Barrier, Binding, Combine, For, If, Seq, Stmt, Store, Tensorized,
                         Update, walk_stmts)
from compiler.te import INDEX, Buffer, Expr, Read, Var, is_float
from compiler.te.expr import Extent
from compiler.tensorize import Intrinsic

from compiler.cpu_gpu_backends.llvm.machine import Processor
from . import teams
from .expressions import Expressions
from .frame import FunctionFrame
from .lanes import Lanes, has_lanes, piece, pieces
from .prefetch import NOTE, fetched
from .reductions import first_iteration, outer_axes, update_begun_by
from .llvm_calls import LlvmCall, LlvmTile
from .writer import LlvmModule, LlvmType, LlvmValue, Writer

_ON_STACK = 1 << 14         # bytes of one buffer
_STACK = 1 << 17            # bytes of all of them
_LINE = 64                  # bytes of a cache line
_COPIES = 256               # of statements, by loops that are written out
_INDEX = LlvmType(INDEX)


@dataclass(frozen=True, slots=True)
class FunctionContext:
    """Shared state of all parts of one function: its module, its name, and how it is built. Without
    a `heap` all local buffers of known sizes lie on the stack, but those of threads.
    """

    module: LlvmModule
    name: str
    machine: Processor
    contract: bool = False
    heap: bool = True


class Statements:
    """Writes statements. `frame` collects what the function needs around them."""

    def __init__(self, function: FunctionContext, w: Writer, buffers: dict[str, str],
                 variables: dict[Var, LlvmValue] | None = None):
        self.function, self.w, self.buffers = function, w, dict(buffers)
        self.variables = dict(variables or {})
        self.exprs = Expressions(w, self.buffers, self.variables, function.contract,
                                 function.machine.size_type == "i32")
        self.frame = FunctionFrame(w)
        self.begun: Update | None = None    # the enclosing update that only has to accumulate
        self.on_team = False                # whether several threads run this already
        self._local: set[str] = set()
        self._on_stack = 0
        self._copies = 1

    def write(self, stmt: Stmt) -> None:
        match stmt:
            case For():
                begun = self._begin(stmt)
                self._loop(stmt)
                if begun:
                    self.begun = None
            case Seq(stmts):
                for each in stmts:
                    self.write(each)
            case Alloc(buffer, body):
                self._allocate(buffer)
                self.write(body)
            case If(condition, body):
                self._if(self.exprs.value(condition), body)
            case Store(buffer, indices, value):
                self.exprs.store(buffer, indices, self.exprs.value(value))
            case Update():
                self._update(stmt)
            case Combine():
                self._combine(stmt)
            case Tensorized():
                self._tensorized(stmt)
            case Barrier():
                return              # its threads run one after the other
            case _:
                raise TypeError(f"Statement must be of a known kind, not {stmt!r}")

    # Loops

    def _loop(self, loop: For) -> None:
        if loop.extent == 1:
            self._once(loop, "0")
        elif loop.kind == "vectorize" and not self.exprs.lanes and has_lanes(loop) and (
                not self.function.machine.is_small):
            self._vectors(loop)
        elif loop.kind == "parallel" and not self.exprs.lanes and not self.on_team:
            self._parallel(loop)
        elif loop.kind == "unroll" and isinstance(loop.extent, int) and self._is_short(loop):
            self._copies *= loop.extent
            for value in range(loop.extent):
                self._once(loop, str(value))
            self._copies //= loop.extent
        else:
            self.iterate(loop, "0", self.extent(loop.extent))

    def _parallel(self, loop: For) -> None:
        if self.function.machine.architecture.startswith("wasm"):
            self.iterate(loop, "0", self.extent(loop.extent))
            return
        captured = teams.captured(loop, self.buffers, self.variables)
        status = teams.write(self.w, self.function.name, loop, self.extent(loop.extent), captured,
                             lambda name: self._piece(loop, captured, name))
        failed, done = self.w.name("failed"), self.w.name("done")
        self.w.branch(self.w.op(f"icmp eq i32 {status}, 0"), done, failed)
        self.w.label(failed)
        self.w.do(f"store i32 {status}, ptr %status")
        self.w.jump("leave")
        self.w.label(done)
        self.frame.leaves = True

    def _piece(self, loop: For, captured: teams.Captured, name: str) -> str:
        """The function that runs iterations of the loop from ``%begin`` to ``%end``."""
        w = Writer(self.w.module)
        own = captured.renamed(w)
        piece = Statements(self.function, w, own.buffers, own.variables)
        piece.begun, piece.on_team = self.begun, True
        w.label("start")
        piece.iterate(loop, "%begin", "%end")
        return piece.frame.text(teams.piece_head(name, own))

    def extent(self, extent: Extent) -> str:
        return self.exprs.scalar(extent) if isinstance(extent, Expr) else str(extent)

    def _is_short(self, loop: For) -> bool:
        return self._copies * loop.extent * sum(1 for _ in walk_stmts(loop.body)) <= _COPIES

    def _once(self, loop: For, value: str) -> None:
        self.variables[loop.var] = LlvmValue(value, _INDEX)
        self.write(loop.body)

    def iterate(self, loop: For, begin: str, end: str) -> None:
        """Runs the body from `begin` to `end`; at least once if `end` is a number."""
        with self._if_any(begin, end), self.counted(loop.var.name, begin, end, 1,
                                                    loop.kind == "unroll") as index:
            if ahead := dict(loop.annotations).get(NOTE):
                self._fetch(loop, self.w.op(f"add nsw i64 {index}, {ahead}"))
            self._once(loop, index)

    def _fetch(self, loop: For, later: str) -> None:
        """Fetches what the iteration `later` loads."""
        self.variables[loop.var] = LlvmValue(later, _INDEX)
        for buffer, place in fetched(loop):
            pointer = self.exprs.pointer(buffer, self.exprs.scalar(place), "")
            self.w.call_void("llvm.prefetch.p0", ("ptr", pointer), *(
                ("i32", number) for number in ("0", "3", "1")))     # to read, nearest, data

    @contextmanager
    def _if_any(self, begin: str, end: str):
        """Guards the instructions written inside: they run if there are iterations from `begin` to
        `end`.
        """
        if not end.startswith("%"):
            yield
            return
        w = self.w
        some, done = w.name("some"), w.name("done")
        w.branch(w.op(f"icmp slt i64 {begin}, {end}"), some, done)
        w.label(some)
        yield
        w.jump(done)
        w.label(done)

    @contextmanager
    def counted(self, name: str, begin: str, end: str, step: int = 1, unroll: bool = False):
        """Wraps the instructions written inside into a loop that runs at least once; yields its
        index.
        """
        w = self.w
        head, latch, done = w.name(f"{name}.loop"), w.name("latch"), w.name("done")
        after, before = f"%{w.name(f'{name}.next')}", w.block
        w.jump(head)
        w.label(head)
        kind = self._counter(begin, end)
        counter = w.op(f"phi {kind} [ {begin}, %{before} ], [ {after}, %{latch} ]", name)
        yield w.op(f"zext nneg i32 {counter} to i64") if kind == "i32" else counter
        w.jump(latch)
        w.label(latch)
        w.do(f"{after} = add nuw nsw {kind} {counter}, {step}")
        more = w.op(f"icmp ult {kind} {after}, {end}")
        hint = f", !llvm.loop {w.module.unrolled_loop()}" if (
            unroll and self.function.machine.unrolls) else ""
        w.do(f"br i1 {more}, label %{head}, label %{done}{hint}")
        w.label(done)

    def _counter(self, begin: str, end: str) -> str:
        """The type in which iterations are counted: what a short processor counts in one register,
        where the numbers are known and fit.
        """
        short = self.function.machine.size_type == "i32" and not {begin[0], end[0]} & {"%"}
        return "i32" if short and int(end) < 1 << 30 else "i64"

    def _vectors(self, loop: For) -> None:
        if not isinstance(loop.extent, int):
            self._vectors_of_any_number(loop)
            return
        lanes, count, tail = pieces(loop)
        if count == 1:
            self._vector(loop, "0", lanes)
        elif count:
            with self.counted(loop.var.name, "0", str(count * lanes), lanes) as index:
                self._vector(loop, index, lanes)
        if tail == 1:
            self._once(loop, str(count * lanes))
        elif tail:
            self._vector(loop, str(count * lanes), tail)

    def _vectors_of_any_number(self, loop: For) -> None:
        """Writes whole vectors, then a masked one."""
        w, lanes, extent = self.w, piece(loop), self.extent(loop.extent)
        rest = w.op(f"srem i64 {extent}, {lanes}")
        whole = w.op(f"sub nsw i64 {extent}, {rest}")
        with self._if_any("0", whole), self.counted(loop.var.name, "0", whole, lanes) as index:
            self._vector(loop, index, lanes)
        with self._if_any("0", rest):
            self._vector(loop, whole, lanes, extent)

    def _vector(self, loop: For, first: str, lanes: int, end: str = "") -> None:
        """Writes one vector of iterations from `first`: all lanes, or those below `end` if it is
        given.
        """
        kind = LlvmType(INDEX, lanes)
        numbers = "<" + ", ".join(f"i64 {lane}" for lane in range(lanes)) + ">"
        if first != "0":
            start = self.exprs.spread(LlvmValue(first, _INDEX), lanes)
            numbers = self.w.op(f"add nsw {kind} {start}, {numbers}")
        mask = ""
        if end:
            limit = self.exprs.spread(LlvmValue(end, _INDEX), lanes)
            mask = self.w.op(f"icmp slt {kind} {numbers}, {limit}")
        self.exprs.lanes = Lanes(loop.var, lanes, first, numbers, mask)
        self.variables[loop.var] = LlvmValue(numbers, kind)
        self.write(loop.body)
        self.exprs.lanes = None
        self.exprs.own.clear()

    # Guards

    def _if(self, condition: LlvmValue, body: Stmt) -> None:
        if not condition.kind.lanes:
            self.guarded(condition.text, body)
            return
        with self.exprs.masked(condition.text) as some:
            self.guarded(some, body)

    def guarded(self, condition: str, body: Stmt) -> None:
        yes, done = self.w.name("then"), self.w.name("done")
        self.w.branch(condition, yes, done)
        self.w.label(yes)
        self.write(body)
        self.w.jump(done)
        self.w.label(done)

    def _all_zero(self, axes: tuple[Var, ...]) -> str:
        return self.exprs.scalar(te.all_of(*(var.equal(0) for var in axes)))

    # Reductions

    def _begin(self, loop: For) -> bool:
        """Sets the elements that the loop will update to the neutral value, if this is the place
        for it.
        """
        update = update_begun_by(loop)
        if update is None or update is self.begun:
            return False
        if any(isinstance(s, Tensorized) and self._has(s.intrinsic) for s in walk_stmts(loop)):
            return False            # the intrinsic initializes its own reduction
        outer, first = outer_axes(loop, update), first_iteration(loop, update)
        self.begun = update
        if outer:
            self.guarded(self._all_zero(outer), first)
        else:
            self.write(first)
        return True

    def _update(self, stmt: Update) -> None:
        exprs = self.exprs
        value = exprs.value(stmt.value)
        if stmt is self.begun or not stmt.begins:
            old = exprs.load(stmt.buffer, stmt.indices)
            exprs.store(stmt.buffer, stmt.indices, self._fold(stmt.op, old, value))
        elif not stmt.axes:
            exprs.store(stmt.buffer, stmt.indices, value)
        else:
            self._reduce(stmt, (value,), lambda old: [self._fold(stmt.op, old[0], value)])

    def _fold(self, op: str, old: LlvmValue, value: LlvmValue) -> LlvmValue:
        if op in ("max", "min") and is_float(old.kind.dtype):
            return self.exprs.extreme(op, old, value)
        return self.exprs.binary("add" if op == "sum" else op, old, value)

    def _combine(self, stmt: Combine) -> None:
        values = tuple(self.exprs.value(value) for value in stmt.values)
        names = (*stmt.reducer.left, *stmt.reducer.right)

        def combined(old: list[LlvmValue]) -> list[LlvmValue]:
            self.variables.update(zip(names, (*old, *values), strict=True))
            result = [self.exprs.value(value) for value in stmt.reducer.combined]
            for name in names:
                del self.variables[name]
            return result

        self._reduce(stmt, values, combined)

    def _reduce(self, stmt: Update | Combine, values: tuple[LlvmValue, ...],
                fold: Callable[[list[LlvmValue]], list[LlvmValue]]) -> None:
        """Assigns `values` where the reduction begins, else ``fold(old values)``."""
        w, exprs, buffers, indices = self.w, self.exprs, stmt.buffers, stmt.indices

        def folded() -> list[LlvmValue]:
            return fold([exprs.load(buffer, indices) for buffer in buffers])

        if not stmt.begins or not stmt.axes:
            for buffer, value in zip(buffers, values if stmt.begins else folded()):
                exprs.store(buffer, indices, value)
            return
        more, done = w.name("accumulate"), w.name("done")
        lanes = exprs.lanes.count if exprs.lanes else 0
        given = [exprs.spread(value, lanes) for value in values]
        begins, before = self._all_zero(stmt.axes), w.block
        w.branch(begins, done, more)
        w.label(more)
        new = [exprs.spread(value, lanes) for value in folded()]
        after = w.block
        w.jump(done)
        w.label(done)
        kinds = [LlvmType(buffer.dtype, lanes) for buffer in buffers]
        results = [w.op(f"phi {kind} [ {first}, %{before} ], [ {later}, %{after} ]")
                   for kind, first, later in zip(kinds, given, new)]
        for buffer, kind, result in zip(buffers, kinds, results):
            exprs.store(buffer, indices, LlvmValue(result, kind))

    # Intrinsics

    def _tensorized(self, stmt: Tensorized) -> None:
        """Writes the intrinsic's instructions if the machine has them, else the nest itself."""
        if not (self._has(stmt.intrinsic) and not self.exprs.lanes
                and stmt.intrinsic.lower(self._call(stmt.binding, stmt.intrinsic))):
            self.write(stmt.body)

    def _has(self, intrinsic: Intrinsic | None) -> bool:
        return (intrinsic is not None and intrinsic.lower is not None
                and self.function.machine.has(*intrinsic.needs))

    def _call(self, binding: Binding, intrinsic: Intrinsic) -> LlvmCall:
        tiles = {}
        for name, tile in binding.tiles:
            if isinstance(tile, Read):
                rank = len(intrinsic.operand(name).shape)
                tiles[name] = LlvmTile(self.exprs.address(tile.buffer, tile.indices),
                                   tile.buffer.pitches[len(tile.indices) - rank:],
                                   tile.buffer.dtype)
        return LlvmCall(self.w, self.function.machine, self.function.contract, tiles,
                             self._begins(binding), self.frame.prepare)

    def _begins(self, binding: Binding) -> str:
        if not binding.begins:
            return "false"
        return self._all_zero(binding.begin) if binding.begin else "true"

    # Local buffers

    def _allocate(self, buffer: Buffer) -> None:
        """Allocates a buffer on the stack if it is small, else on the heap; the function owns it
        either way. Copies of one statement, from an unrolled loop, share one buffer.
        """
        lanes = self.exprs.lanes.count if self.exprs.lanes else 1
        if self.exprs.lanes:
            self.exprs.own.add(buffer.name)
        if buffer.name in self._local:      # the widest: tails come last
            return
        size, name = buffer.size_bytes * lanes, f"%{self.w.name(buffer.name)}"
        self._local.add(buffer.name)
        if isinstance(size, int) and (not (self.function.heap or self.on_team) or size <= _ON_STACK
                                      and self._on_stack + size <= _STACK):
            self._on_stack += size
            line = 16 if self.function.machine.is_small else _LINE
            self.w.entry.append(f"  {name} = alloca [{size} x i8], align {line}")
        else:
            count = self.function.machine.size_type
            self.w.module.declared.add(f"declare noalias ptr @aligned_alloc({count}, {count})")
            size = self._rounded(size)
            self.w.entry.append(f"  {name} = call noalias ptr @aligned_alloc({count} {_LINE}, "
                                f"{count} {size})")
            self.frame.allocated.append(name)
        self.buffers[buffer.name] = name

    def _rounded(self, size: Extent) -> str:
        """The buffer's bytes in whole cache lines, as `aligned_alloc` requires, computed at the
        entry.
        """
        if isinstance(size, int):
            return str(-(-size // _LINE) * _LINE)
        w = self.w
        w.entry, w.lines = w.lines, w.entry         # symbols are parameters of the function
        rounded = w.op(f"and i64 {w.op(f'add i64 {self.exprs.scalar(size)}, {_LINE - 1}')}, "
                       f"{-_LINE}")
        if self.function.machine.size_type != "i64":
            rounded = w.op(f"trunc i64 {rounded} to {self.function.machine.size_type}")
        w.entry, w.lines = w.lines, w.entry
        return rounded
