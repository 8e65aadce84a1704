"""Statements that one thread runs, as C: what texts for GPUs and for processors have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from compiler.ir import Alloc, Barrier, Combine, For, If, Seq, Stmt, Store, Update
from compiler.te import (INDEX, Binary, Buffer, Expr, Read, Var, all_of, as_expr, is_float)

from .expressions import Expressions

WIDTH = 100
_OPERATORS = {"add": "+", "sub": "-", "mul": "*"}


class SerialPrinter(ABC):
    """Prints statements as `lines`. `names` are what IR names are called in the text."""

    def __init__(self, names: Mapping[str, str], exprs: Expressions):
        self.names, self.exprs = names, exprs
        self.lines: list[str] = []
        self.depth = 0

    def _line(self, text: str) -> None:
        """A line, and where it is too long, the rest of it on others, further in."""
        line = "  " * self.depth + text
        while len(line) > WIDTH:
            cut = line.rfind(" ", 2 * self.depth + 5, WIDTH)
            cut = cut if cut > 0 else line.find(" ", WIDTH)
            if cut < 0:
                break
            self.lines.append(line[:cut])
            line = "  " * self.depth + "    " + line[cut + 1:]
        self.lines.append(line)

    def _inside(self, write: Callable[[], None]) -> None:
        self.depth += 1
        write()
        self.depth -= 1

    @abstractmethod
    def _type(self, buffer: Buffer) -> str:
        """The type of the values of its elements."""

    @abstractmethod
    def _array(self, buffer: Buffer, aligned: bool) -> str:
        """The declaration of a buffer of the text's own."""

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
            case Store(): self._store(stmt)
            case Update(): self._update(stmt)
            case Combine(): self._braced("", stmt)
            case _: raise TypeError(f"Statement must be of a known kind, not {stmt!r}")

    def _allocate(self, stmt: Alloc, aligned: bool = False) -> None:
        """An array, or a variable with the value that it is given first."""
        declared = self._array(stmt.buffer, aligned)
        first, *rest = stmt.body.stmts if isinstance(stmt.body, Seq) else (stmt.body,)
        if stmt.buffer.size == 1 and isinstance(first, Store) and first.buffer == stmt.buffer:
            self._line(f"{declared} = {self._element_of(first.value)};")
            self._write(Seq(tuple(rest)))
        else:
            self._line(f"{declared};")
            self._write(stmt.body)

    def _loop(self, loop: For, last: Sequence[str] = ()) -> None:
        """A counted loop; `last` are lines after its body. Its index is an int."""
        name = self.names[loop.var.name]
        self.exprs.ranges[loop.var] = loop.extent
        extent = self.exprs.value(as_expr(loop.extent, INDEX), 11)
        self._braced(f"for (int {name} = 0; {name} < {extent}; ++{name}) ", loop.body, last)

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

    def _store(self, stmt: Store) -> None:
        target = self.exprs.element(stmt.buffer, stmt.indices)
        self._assign(target, stmt.value, Read(stmt.buffer, stmt.indices))

    def _assign(self, target: str, value: Expr, old: Expr) -> None:
        """``a += b`` for ``a = a + b`` where C computes that as it is meant."""
        match value:
            case Binary("add" | "sub" | "mul" as op, a, b) if a == old and self._is_plain(value):
                self._line(f"{target} {_OPERATORS[op]}= {self.exprs.value(b)};")
            case _:
                self._line(f"{target} = {self._element_of(value)};")

    def _element_of(self, value: Expr) -> str:
        """A value as an element of a buffer has it."""
        return self.exprs.value(value)

    def _is_plain(self, value: Binary) -> bool:
        if value.dtype in self.exprs.dialect.between:
            return False
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
                           f"{self._element_of(value)};")

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


def _is_flat(stmt: Stmt) -> bool:
    """True if it may stand on the line of its condition or loop."""
    return isinstance(stmt, Store | Barrier)
