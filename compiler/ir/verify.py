"""Rules that every loop program keeps. Each is a function from a program to the facts it breaks."""

from collections import Counter
from collections.abc import Iterator

from compiler import te
from compiler.errors import DEFECT, Error
from compiler.te import INDEX, Buffer, Expr, Extent, Read, Reduce, Symbol, Var, is_extent

from .nodes import (LOOP_KINDS, Alloc, Barrier, Combine, For, If, Program, Seq, Stmt, Tensorized,
                    Update, Write)
from .printer import expr_text, program_text, shape_text
from .visit import buffers_of, expressions, stmt_children, walk_stmts


class VerifyError(Error, ValueError):
    """A program that is not well formed: the fact, then the program with the place marked."""

    exit_status = DEFECT


Fact = tuple[str, Stmt]


def verify(program: Program) -> Program:
    """The program itself when it is well formed, else VerifyError with the first broken rule."""
    for rule in RULES:
        for fact, place in rule(program):
            raise VerifyError(f"{fact}\n{program_text(program, place)}")
    return program


def _unique_names(program: Program) -> Iterator[Fact]:
    variables = Counter(s.var.name for s in walk_stmts(program.body) if isinstance(s, For))
    buffers = Counter(b.name for b in (*program.inputs, *program.outputs))
    buffers.update(s.buffer.name for s in walk_stmts(program.body) if isinstance(s, Alloc))
    for stmt in walk_stmts(program.body):
        if isinstance(stmt, For) and variables[stmt.var.name] > 1:
            yield f"Loop variable {stmt.var.name} must be bound once", stmt
        if isinstance(stmt, Alloc) and buffers[stmt.buffer.name] > 1:
            yield f"Buffer {stmt.buffer.name} must be declared once", stmt


def _loops(program: Program) -> Iterator[Fact]:
    for stmt in walk_stmts(program.body):
        if isinstance(stmt, For):
            if isinstance(stmt.extent, Expr):
                yield from ((fact, stmt) for fact in _undeclared_symbols(stmt.extent, program))
            elif stmt.extent < 1:
                yield f"Extent of {stmt.var.name} must be positive, not {stmt.extent}", stmt
            if stmt.kind not in LOOP_KINDS:
                yield (f"Kind of {stmt.var.name} must be one of {', '.join(LOOP_KINDS)}, "
                       f"not {stmt.kind!r}"), stmt
            if stmt.var.dtype != INDEX:
                yield f"Loop variable {stmt.var.name} must be {INDEX}, not {stmt.var.dtype}", stmt
            keys = [key for key, _ in stmt.annotations]
            if keys != sorted(set(keys)):
                yield (f"Annotations of {stmt.var.name} must be in order of their keys, once each, "
                       f"not {', '.join(keys)}"), stmt
        if isinstance(stmt, Barrier) and stmt.scope != "block":
            yield f"Barrier must be of a block, not {stmt.scope!r}", stmt


def _undeclared_symbols(extent: Extent, program: Program) -> Iterator[str]:
    if not is_extent(extent):
        yield f"Extent must be made of symbols and integers, not {expr_text(extent)}"
    for node in te.walk(extent) if isinstance(extent, Expr) else ():
        if isinstance(node, Symbol) and node not in program.parameters:
            yield f"Symbol {node.name} must be a parameter of the program"


def _scoping(program: Program) -> Iterator[Fact]:
    """Variables are bound by loops around; buffers are declared as they are used."""
    declared = {b.name: b for b in (*program.inputs, *program.outputs)}
    yield from _scoped(program.body, frozenset(program.parameters), declared)
    for buffer in buffers_of(program).values():
        for extent in buffer.shape:
            yield from ((fact, program.body) for fact in _undeclared_symbols(extent, program))


def _scoped(stmt: Stmt, bound: frozenset[Var], declared: dict[str, Buffer]) -> Iterator[Fact]:
    for expr in expressions(stmt):
        yield from ((fact, stmt) for fact in _unknown(expr, bound, declared))
    if isinstance(stmt, Write):
        yield from ((fact, stmt) for buffer in stmt.buffers
                    for fact in _undeclared(buffer, declared))
    if isinstance(stmt, Update | Combine):
        for var in set(stmt.axes) - bound:
            yield f"Reduction variable {var.name} must be a loop around the update", stmt
    if isinstance(stmt, For):
        bound = bound | {stmt.var}
    if isinstance(stmt, Alloc):
        declared = {**declared, stmt.buffer.name: stmt.buffer}
    for child in stmt_children(stmt):
        yield from _scoped(child, bound, declared)


def _unknown(expr: Expr, bound: frozenset[Var], declared: dict[str, Buffer]) -> Iterator[str]:
    for node in te.walk(expr):
        if isinstance(node, Var) and node not in bound:
            yield f"Variable {node.name} must be bound by a loop around its use"
        if isinstance(node, Read):
            yield from _undeclared(node.buffer, declared)


def _undeclared(buffer: Buffer, declared: dict[str, Buffer]) -> Iterator[str]:
    known = declared.get(buffer.name)
    if known is None:
        yield f"Buffer {buffer.name} must be declared or allocated around its use"
    elif known != buffer:
        yield (f"Buffer {buffer.name} must be used as it is declared, {_declared(known)}, "
               f"not {_declared(buffer)}")


def _declared(buffer: Buffer) -> str:
    strides = "" if buffer.strides is None else f" strides {list(buffer.strides)}"
    return f"{buffer.scope} {buffer.dtype}{shape_text(buffer.shape)}{strides}"


def _types(program: Program) -> Iterator[Fact]:
    for buffer in (*program.inputs, *program.outputs):
        if buffer.strides is not None:
            yield f"Input or output {buffer.name} must be dense, without strides", program.body
    inputs = {b.name for b in program.inputs}
    for stmt in walk_stmts(program.body):
        if isinstance(stmt, If) and stmt.condition.dtype != "bool":
            yield f"Guard must be bool, not {stmt.condition.dtype}", stmt
        if isinstance(stmt, Update) and stmt.op not in te.REDUCERS:
            yield f"Update must be one of {', '.join(sorted(te.REDUCERS))}, not {stmt.op!r}", stmt
        if isinstance(stmt, Combine):
            yield from ((fact, stmt) for fact in _ill_combined(stmt))
        if isinstance(stmt, Write):
            for buffer, value in zip(stmt.buffers, stmt.values, strict=True):
                yield from ((fact, stmt) for fact in _ill_written(buffer, value, stmt, inputs))


def _ill_combined(stmt: Combine) -> Iterator[str]:
    if tuple(buffer.dtype for buffer in stmt.buffers) != stmt.reducer.dtypes:
        yield (f"Buffers of {stmt.reducer.name} must be of {', '.join(stmt.reducer.dtypes)}, "
               f"not {', '.join(buffer.dtype for buffer in stmt.buffers)}")
    if len({buffer.name for buffer in stmt.buffers}) < len(stmt.buffers):
        yield f"Buffers of {stmt.reducer.name} must be different ones"
    if len({(buffer.shape, buffer.strides) for buffer in stmt.buffers}) > 1:
        yield (f"Buffers of {stmt.reducer.name} must have one shape and strides, "
               f"not {'; '.join(map(_declared, stmt.buffers))}")


def _ill_written(buffer: Buffer, value: Expr, stmt: Write, inputs: set[str]) -> Iterator[str]:
    if buffer.name in inputs:
        yield f"Input {buffer.name} must not be written"
    if len(stmt.indices) != len(buffer.shape):
        yield (f"Store to {buffer.name} must have {len(buffer.shape)} indices, "
               f"not {len(stmt.indices)}")
    if value.dtype != buffer.dtype:
        yield f"Value stored to {buffer.name} must be {buffer.dtype}, not {value.dtype}"


def _index_types(program: Program) -> Iterator[Fact]:
    for stmt in walk_stmts(program.body):
        for expr in expressions(stmt):
            for node in te.walk(expr):
                if isinstance(node, Reduce):
                    yield f"Reduction must be loops and an update, not {expr_text(node)}", stmt
                if isinstance(node, Read):
                    yield from _not_integers(node.indices, node.buffer, stmt)
        if isinstance(stmt, Write):
            yield from _not_integers(stmt.indices, stmt.buffers[0], stmt)


def _not_integers(indices: tuple[Expr, ...], buffer: Buffer, stmt: Stmt) -> Iterator[Fact]:
    for index in indices:
        if index.dtype != INDEX:
            yield f"Index of {buffer.name} must be {INDEX}, not {index.dtype}", stmt


def _nesting(program: Program) -> Iterator[Fact]:
    for stmt in walk_stmts(program.body):
        if isinstance(stmt, Tensorized):
            for inner in walk_stmts(stmt.body):
                if isinstance(inner, Tensorized | Alloc):
                    yield "Nest of an intrinsic must hold loops, guards and stores only", stmt
        if isinstance(stmt, Seq) and any(isinstance(s, Seq) for s in stmt.stmts):
            yield "Sequence must not stand directly in a sequence", stmt


RULES = (_unique_names, _loops, _scoping, _types, _index_types, _nesting)
