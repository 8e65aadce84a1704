"""Loop programs as functions of C99.

Loops of every kind run one iteration after the other, intrinsics as the nests that they perform.
Buffers that a program allocates are arrays on the stack.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap

from compiler.cpu_gpu_backends.simt.lowering import flat, without_single
from compiler.cpu_gpu_backends.simt.names import is_taken, spelled
from compiler.cpu_gpu_backends.simt.reductions import begin_outside
from compiler.cpu_gpu_backends.simt.serial import WIDTH, SerialPrinter
from compiler.errors import Error
from compiler.ir import (Alloc, Barrier, If, Program, Seq, Stmt, Store, Tensorized, Update,
                         buffers_of, expressions, loops, rewrite_stmts, shape_text, simplify_stmt,
                         walk_stmts)
from compiler.te import HELD, Binary, Buffer, Expr, Read, is_record, numpy_dtype, walk

from .choices import either, with_choices_outside
from .contents import contents
from .expressions import CExpressions, dimensions
from .helpers import BEGIN, C, HELPERS, STORED, helper_texts
from .joined import joined
from .narrow import narrowed
from .repeated import guards_reads, repeated
from .unrolled import unrolled, zeroed


class CError(Error, ValueError):
    """A program or a network that C cannot say; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class CFunction:
    """A function: its text, the helpers that it calls, and the bytes of its arrays on the stack."""

    name: str
    text: str
    used: tuple[str, ...]
    stack_bytes: int


def function(program: Program, name: str, in_place: Collection[str] = (), words: str = "static ",
             comment: str = "", given: Mapping[str, tuple[int, int]] | None = None) -> CFunction:
    """``void name(inputs..., outputs...)`` of a program without parameters.

    Arrays are dense, in row-major order, aligned to their elements, and do not overlap; only an
    input that is `in_place` may be the first output. `words` stand before the type, `comment`,
    of several lines perhaps, before all. Inputs of integers that are `given` hold nothing but
    numbers from the first to the second. Raises CError for a program that C cannot say.
    """
    _require(program)
    return _Printer(program, name, in_place, words, comment, given or {}).function


def kernels_text(programs: Mapping[str, Program]) -> str:
    """A file with each program as a function, not static, of its name."""
    made = [function(program, name, words="", comment=_signature(program))
            for name, program in programs.items()]
    used = [helper for one in made for helper in one.used]
    return "\n".join([BEGIN, *helper_texts(used),
                      *(f"{_head(program, name, '', ())};\n\n{one.text}"
                        for (name, program), one in zip(programs.items(), made, strict=True))])


def note(text: str) -> str:
    """Text that may stand in a comment: of ASCII, without its ends, in one line."""
    text = re.sub(r"[^ -~]", "?", text)
    return text.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


def comment_lines(text: str) -> Iterator[str]:
    """A comment of these lines, of which long ones are broken."""
    lines = [part for line in text.splitlines() for part in wrap(note(line), WIDTH - 6)]
    for place, line in enumerate(lines):
        yield ("/* " if place == 0 else "   ") + line + " */" * (place == len(lines) - 1)


def is_word(name: str) -> bool:
    """True if texts take the name for something else, or C may."""
    return (name in HELPERS or name in _WORDS or is_taken(name)
            or re.fullmatch(r"\w+_t|_\w*", name) is not None)


_WORDS = frozenset("""RESTRICT NULL memcpy memset memmove fabsf copysignf sqrtf isnan isinf abs
    bits_float float_bits half_value half_bits bfloat_value bfloat_bits power_of_two main near far
    interrupt errno signal stdin stdout stderr offsetof va_list I""".split())


def _require(program: Program) -> None:
    if program.parameters:
        raise CError(f"{program.name} must have numbers for its parameters "
                     f"{', '.join(symbol.name for symbol in program.parameters)}: specialize it")
    types = {b.dtype for b in buffers_of(program).values()} | {
        node.dtype for stmt in walk_stmts(program.body) for expr in expressions(stmt)
        for node in walk(expr)}
    for dtype in sorted(types & HELD.keys()):
        raise CError(f"Types of {program.name} must be those that processors have, not {dtype}")


def _plain(program: Program) -> Stmt:
    """The statements without intrinsics, barriers and loops of one iteration; sums begin before
    their loops, and choices stand outside.
    """
    body = rewrite_stmts(program.body, lambda s: s.body if isinstance(s, Tensorized) else None)
    body = rewrite_stmts(body, lambda s: Seq(()) if isinstance(s, Barrier) else None)
    body = unrolled(flat(simplify_stmt(flat(without_single(begin_outside(body))))))
    body = simplify_stmt(flat(without_single(joined(simplify_stmt(body)))))
    return flat(with_choices_outside(body))


def _signature(program: Program) -> str:
    def listed(buffers: Iterable[Buffer]) -> str:
        return ", ".join(f"{b.name}: {b.dtype}{shape_text(b.shape)}" for b in buffers)
    return f"{program.name} ({listed(program.inputs)}) -> {listed(program.outputs)}"


def _names(program: Program, body: Stmt) -> dict[str, str]:
    wanted = [*(b.name for b in (*program.inputs, *program.outputs)),
              *(s.buffer.name for s in walk_stmts(body) if isinstance(s, Alloc)),
              *(loop.var.name for loop in loops(body))]
    return spelled(wanted, (), is_word)


def _element_type(buffer: Buffer) -> str:
    return "uint8_t" if is_record(buffer.dtype) else STORED[buffer.dtype]


def _head(program: Program, name: str, words: str, in_place: Collection[str],
          names: Mapping[str, str] | None = None) -> str:
    names = names or _names(program, program.body)
    shared = {*in_place, program.outputs[0].name} if in_place else set()
    parts = [f"const {_element_type(b)} *{_restrict(b, shared)}{names[b.name]}"
             for b in program.inputs]
    parts += [f"{_element_type(b)} *{_restrict(b, shared)}{names[b.name]}" for b in program.outputs]
    head = f"{words}void {name}("
    line = f"{head}{', '.join(parts)})"
    return line if len(line) < WIDTH - 2 else f"{head}\n    " + ",\n    ".join(parts) + ")"


def _restrict(buffer: Buffer, shared: Collection[str]) -> str:
    return "" if buffer.name in shared else "RESTRICT "


class _Printer(SerialPrinter):
    """Prints one function."""

    exprs: CExpressions

    def __init__(self, program: Program, name: str, in_place: Collection[str], words: str,
                 comment: str, given: Mapping[str, tuple[int, int]]):
        body = _plain(program)
        known = contents(body, {b: given[b.name] for b in program.inputs if b.name in given})
        body = narrowed(body, known)
        names = _names(program, body)
        own = [s.buffer for s in walk_stmts(body) if isinstance(s, Alloc)]
        super().__init__(names, CExpressions(names, {}, {buffer.name for buffer in own}, known))
        self._named = 0
        self.depth = 1
        self._write(body)
        lines = list(comment_lines(comment)) if comment else []
        lines += [f"{_head(program, name, words, in_place, names)} {{",
                  *(f"  (void){names[b.name]};" for b in self._unused(program, body)),
                  *self.lines, "}", ""]
        self.function = CFunction(name, "\n".join(lines), tuple(self.exprs.used),
                                  sum(int(buffer.size_bytes) for buffer in own))

    def _unused(self, program: Program, body: Stmt) -> list[Buffer]:
        """Inputs of which only the shape matters, and workspaces that nothing needs."""
        read = {node.buffer for stmt in walk_stmts(body) for expr in expressions(stmt)
                for node in walk(expr) if isinstance(node, Read)}
        written = {buffer for stmt in walk_stmts(body) for buffer in getattr(stmt, "buffers", ())}
        return [b for b in (*program.inputs, *program.outputs) if b not in read | written]

    def _write(self, stmt: Stmt) -> None:
        """Writes a statement; what it computes more than once gets a name."""
        if isinstance(stmt, Seq):
            self._in_turn(stmt)
            return
        if not isinstance(stmt, Store | Update):
            super()._write(stmt)
            return
        found = repeated((*stmt.indices, stmt.value))
        for expr in found:
            name = f"v{self._named}"
            self._named += 1
            self._line(f"const {C.types[expr.dtype]} {name} = {self.exprs.value(expr)};")
            self.exprs.held[expr] = name
        if guards_reads((*stmt.indices, stmt.value)):
            self.exprs.use("ONE_BY_ONE")
            self._line("ONE_BY_ONE;")
        super()._write(stmt)
        for expr in found:
            del self.exprs.held[expr]

    def _in_turn(self, stmt: Seq) -> None:
        """Statements one after the other; what runs where the one before does not is its `else`."""
        place = 0
        while place < len(stmt.stmts):
            one, *rest = stmt.stmts[place:]
            if rest and either(one, rest[0]):
                self._either(one, rest[0])
                place += 1
            elif rest and isinstance(one, Alloc):
                self._braced("", one)
            else:
                self._write(one)
            place += 1

    def _either(self, first: Stmt, second: Stmt) -> None:
        """One loop or the other, each free to be vectors, but not those around the choice."""
        assert isinstance(first, If) and isinstance(second, If)
        self._line(f"if ({self.exprs.value(first.condition)}) {{")
        self.exprs.use("ONE_BY_ONE")
        self._inside(lambda: self._line("ONE_BY_ONE;"))
        self._inside(lambda: self._write(first.body))
        self._line("} else {")
        self._inside(lambda: self._write(second.body))
        self._line("}")

    def _allocate(self, stmt: Alloc, aligned: bool = False) -> None:
        """An array that begins with zeros is defined so."""
        rest = zeroed(stmt)
        if rest is None:
            super()._allocate(stmt, aligned)
        else:
            self._line(f"{self._array(stmt.buffer, aligned)} = {{0}};")
            self._write(rest)

    def _is_plain(self, value: Binary) -> bool:
        """Also where the sum of all terms is known to fit."""
        return super()._is_plain(value) or isinstance(value.a, Read) and (
            value.op == "add" and value.dtype == "int32" and value.a.buffer in self.exprs.contents)

    def _type(self, buffer: Buffer) -> str:
        return C.types[buffer.dtype]

    def _array(self, buffer: Buffer, aligned: bool) -> str:
        sides = [side for side in dimensions(buffer) if side > 1]
        if buffer.size == 1 and not is_record(buffer.dtype):
            sides = []
        return f"{_element_type(buffer)} {self.names[buffer.name]}" + "".join(
            f"[{side}]" for side in sides)

    def _element_of(self, value: Expr) -> str:
        return self.exprs.stored(value)

    def _store(self, stmt: Store) -> None:
        if not is_record(stmt.buffer.dtype):
            super()._store(stmt)
            return
        assert isinstance(stmt.value, Read)
        to, of = (self.exprs.element(read.buffer, read.indices) for read in (stmt, stmt.value))
        self._line(f"memcpy(&{to}, &{of}, {numpy_dtype(stmt.buffer.dtype).itemsize});")
