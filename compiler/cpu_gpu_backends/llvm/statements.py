"""Statements: loops, stores, reductions.

A reduction is not decided iteration by iteration. Where a loop over a reduction variable holds
nothing but the update, the elements that it is about to update are first set to the neutral value
of the operation (if the reduction begins here), and then every iteration accumulates: the inner
loop has no condition, and LLVM keeps its result in a register. The neutral value of a sum of
floats is -0.0, so the result is the same to the bit.
"""

from dataclasses import replace

from compiler import te
from compiler.ir import Alloc, Combine, For, If, Seq, Stmt, Store, Tensorized, Update, reads
from compiler.te import INDEX, Buffer, Const, Expr, Var, is_float, is_signed, numpy_dtype

from .expressions import Expressions
from .machine import Machine
from .writer import Writer, type_name

__all__ = ["Statements"]

_ON_STACK = 1 << 14         # bytes of one buffer
_STACK = 1 << 17            # bytes of all of them


class Statements:
    """Writes statements. Large local buffers end up in `allocated`, for the caller to free."""

    def __init__(self, w: Writer, buffers: dict[str, str], machine: Machine, contract: bool):
        self.w, self.buffers, self.machine = w, dict(buffers), machine
        self.variables: dict[Var, str] = {}
        self.exprs = Expressions(w, self.buffers, self.variables, contract)
        self.allocated: list[str] = []
        self._on_stack = 0
        self._begun: Update | None = None   # the update around here that has only to accumulate

    def write(self, stmt: Stmt) -> None:
        match stmt:
            case For():
                begun = self._begin(stmt)
                self._loop(stmt)
                if begun:
                    self._begun = None
            case Seq(stmts):
                for one in stmts:
                    self.write(one)
            case Alloc(buffer, body):
                self._allocate(buffer)
                self.write(body)
            case If(condition, body):
                self._guarded(self.exprs.value(condition), body)
            case Store(buffer, indices, value):
                result = self.exprs.value(value)
                self.exprs.store(buffer.dtype, self.exprs.address(buffer, indices), result)
            case Update():
                self._update(stmt)
            case Tensorized():
                self.write(stmt.body)
            case Combine(_, _, reducer):
                raise ValueError(f"Reduction by {reducer.name} must not reach LLVM: it writes "
                                 f"sum, max and min alone")
            case _:
                raise TypeError(f"Statement must be of a known kind, not {stmt!r}")

    def _loop(self, loop: For) -> None:
        w = self.w
        if loop.extent == 1:
            self.variables[loop.var] = "0"
            self.write(loop.body)
            return
        head, latch, done = w.name(f"{loop.var.name}.loop"), w.name("latch"), w.name("done")
        step = f"%{w.name(f'{loop.var.name}.next')}"
        before = w.block
        w.jump(head)
        w.label(head)
        index = w.op(f"phi i64 [ 0, %{before} ], [ {step}, %{latch} ]", loop.var.name)
        self.variables[loop.var] = index
        self.write(loop.body)
        w.jump(latch)
        w.label(latch)
        w.do(f"{step} = add nuw nsw i64 {index}, 1")
        w.branch(w.op(f"icmp ult i64 {step}, {loop.extent}"), head, done)
        w.label(done)

    def _guarded(self, condition: str, body: Stmt) -> None:
        yes, done = self.w.name("then"), self.w.name("done")
        self.w.branch(condition, yes, done)
        self.w.label(yes)
        self.write(body)
        self.w.jump(done)
        self.w.label(done)

    def _begin(self, loop: For) -> bool:
        """Set what the loop will update to the neutral value, if it is the place to do so."""
        update = _only_update(loop)
        if update is None or update is self._begun or loop.var not in update.axes or any(
                read.buffer == update.buffer for read in reads(update)):
            return False
        inner = _loop_variables(loop)
        outer = tuple(var for var in update.axes if var not in inner)
        self._begun = update
        first = _first_iteration(loop, update.axes, _neutral(update.op, update.buffer.dtype))
        if outer:
            self._guarded(self._all_zero(outer), first)
        else:
            self.write(first)
        return True

    def _all_zero(self, axes: tuple[Var, ...]) -> str:
        return self.exprs.value(te.all_of(*(var.equal(0) for var in axes)))

    def _update(self, stmt: Update) -> None:
        exprs, dtype = self.exprs, stmt.buffer.dtype
        value = exprs.value(stmt.value)
        pointer = exprs.address(stmt.buffer, stmt.indices)
        if stmt is self._begun:
            old = exprs.load(dtype, pointer)
            exprs.store(dtype, pointer, exprs.fold(stmt.op, dtype, old, value))
            return
        if not stmt.axes:
            exprs.store(dtype, pointer, value)
            return
        w, more, done = self.w, self.w.name("accumulate"), self.w.name("done")
        begins, before = self._all_zero(stmt.axes), self.w.block
        w.branch(begins, done, more)
        w.label(more)
        new = exprs.fold(stmt.op, dtype, exprs.load(dtype, pointer), value)
        w.jump(done)
        w.label(done)
        result = w.op(f"phi {type_name(dtype)} [ {value}, %{before} ], [ {new}, %{more} ]")
        exprs.store(dtype, pointer, result)

    def _allocate(self, buffer: Buffer) -> None:
        size, name = buffer.size_bytes, f"%{self.w.name(buffer.name)}"
        if size <= _ON_STACK and self._on_stack + size <= _STACK:
            self._on_stack += size
            self.w.entry.append(f"  {name} = alloca [{size} x i8], align 64")
        else:
            count, rounded = self.machine.size_type, -(-size // 64) * 64
            self.w.module.declared.add(f"declare noalias ptr @aligned_alloc({count}, {count})")
            self.w.entry.append(f"  {name} = call noalias ptr @aligned_alloc({count} 64, "
                                f"{count} {rounded})")
            self.allocated.append(name)
        self.buffers[buffer.name] = name


def _only_update(stmt: Stmt) -> Update | None:
    """The update in a nest of loops and guards that holds nothing else."""
    while isinstance(stmt, For | If | Tensorized):
        stmt = stmt.body
    return stmt if isinstance(stmt, Update) else None


def _loop_variables(stmt: Stmt) -> set[Var]:
    found = set()
    while isinstance(stmt, For | If | Tensorized):
        if isinstance(stmt, For):
            found.add(stmt.var)
        stmt = stmt.body
    return found


def _first_iteration(stmt: Stmt, axes: tuple[Var, ...], value: Const) -> Stmt:
    """The nest with the reduction variables of its loops at zero, storing `value`."""
    loops = _loop_variables(stmt)
    zeros: dict[Var, Expr] = {var: Const(0, INDEX) for var in axes if var in loops}

    def go(node: Stmt) -> Stmt:
        match node:
            case For() if node.var in zeros: return go(node.body)
            case For(): return replace(node, body=go(node.body))
            case If(condition, body): return If(te.substitute(condition, zeros), go(body))
            case Tensorized(): return go(node.body)
            case Update(buffer, indices):
                return Store(buffer, tuple(te.substitute(i, zeros) for i in indices), value)
            case _: raise AssertionError(node)

    return go(stmt)


def _neutral(op: str, dtype: str) -> Const:
    """What any value combined with it stays unchanged."""
    if dtype == "bool":
        return Const(op == "min", dtype)
    if is_float(dtype):
        return Const({"sum": -0.0, "max": -float("inf"), "min": float("inf")}[op], dtype)
    width, signed = numpy_dtype(dtype).itemsize * 8, is_signed(dtype)
    low = -(1 << (width - 1)) if signed else 0
    return Const({"sum": 0, "max": low, "min": low + (1 << width) - 1}[op], dtype)
