"""Walking and rewriting statements. Trees are values: every function returns a new one.

What a `Tensorized` carries twice, in its binding and in its body, is always treated alike.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from operator import is_
from typing import Any

from compiler import te
from compiler.te import Buffer, Expr, Read, Var

from .nodes import (Alloc, Binding, Combine, For, If, Program, Seq, Stmt, Store, Tensorized, Update,
                    Write)


def stmt_children(stmt: Stmt) -> tuple[Stmt, ...]:
    kind = type(stmt)
    if kind is Seq:
        return stmt.stmts       # type: ignore[attr-defined]
    return (stmt.body,) if kind in _NESTING else ()     # type: ignore[attr-defined]


_NESTING = frozenset((For, Alloc, If, Tensorized))


def walk_stmts(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement, parents first, in the order of the program."""
    left = [stmt]
    while left:
        node = left.pop()
        yield node
        left.extend(reversed(stmt_children(node)))


def with_stmt_children(stmt: Stmt, new: tuple[Stmt, ...]) -> Stmt:
    """The statement with other direct statements below it, in the order of `stmt_children`."""
    if all(map(is_, stmt_children(stmt), new)):
        return stmt
    match stmt:
        case For(): return For(stmt.var, stmt.extent, new[0], stmt.kind, stmt.annotations)
        case Alloc(buffer): return Alloc(buffer, new[0])
        case If(condition): return If(condition, new[0])
        case Tensorized(): return replace(stmt, body=new[0])
        case _: return Seq(new)


def is_marked(stmt: Stmt, name: str) -> bool:
    """True if a rewriting of this name is known to leave the statement as it is, wherever it
    stands.
    """
    return getattr(stmt, name, False)


def mark(stmt: Stmt, name: str) -> None:
    object.__setattr__(stmt, name, True)


def rewrite_stmts(stmt: Stmt, rule: Callable[[Stmt], Stmt | None], name: str = "",
                  naming: frozenset[Var | Buffer] | None = None) -> Stmt:
    """Apply `rule` bottom-up; where it returns None the statement stays. Where the rule looks at
    the statement alone, it may have a name, of a slot: what it leaves as it is, is not asked about
    again.
    Where nothing changes but what names some variables or buffers, `naming` tells which.
    """
    if name and is_marked(stmt, name) or (
            naming is not None and naming.isdisjoint(names_below(stmt))):
        return stmt
    new, before = stmt, stmt_children(stmt)
    if before:
        after = tuple([rewrite_stmts(child, rule, name, naming) for child in before])
        if not all(map(is_, before, after)):
            new = with_stmt_children(stmt, after)
    result = rule(new)
    if result is None and new is stmt and name:
        mark(stmt, name)
    return new if result is None else result


def replace_stmt(root: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """`root` with the one statement that is `old` (the very object) exchanged."""
    if root is old:
        return new
    if not names_below(old) <= names_below(root):
        return root
    children = tuple([replace_stmt(child, old, new) for child in stmt_children(root)])
    return with_stmt_children(root, children) if children else root


def names_below(stmt: Stmt) -> frozenset[Var | Buffer]:
    """The variables and buffers that a statement and those below it name."""
    known = getattr(stmt, "_names", None)
    if known is not None:
        return known
    match stmt:
        case For(): own: tuple[Var | Buffer, ...] = (stmt.var,)
        case Alloc(): own = (stmt.buffer,)
        case Update() | Combine(): own = (*stmt.buffers, *stmt.axes)
        case Store(): own = (stmt.buffer,)
        case Tensorized(): own = stmt.binding.begin
        case _: own = ()
    parts: list[Iterable[Var | Buffer]] = [names_below(child) for child in stmt_children(stmt)]
    if not isinstance(stmt, For | Alloc | Seq):
        for expr in expressions(stmt):
            parts += [te.free_variables(expr), te.buffers_read(expr)]
    names = frozenset(own).union(*parts)
    object.__setattr__(stmt, "_names", names)
    return names


def path_to(root: Stmt, is_sought: Callable[[Stmt], bool], naming: Var | Buffer | None = None
            ) -> tuple[Stmt, ...]:
    """Statements from `root` down to the first that `is_sought`, or () when there is none. `naming`
    tells a name that is in it or below it.
    """
    if naming is not None and naming not in names_below(root):
        return ()
    if is_sought(root):
        return (root,)
    for child in stmt_children(root):
        if path := path_to(child, is_sought, naming):
            return (root, *path)
    return ()


def path_of(root: Stmt, stmt: Stmt) -> tuple[Stmt, ...]:
    """Statements from `root` down to `stmt`, the very object, or () when it is not below."""
    if root is stmt:
        return (root,)
    if names_below(stmt) <= names_below(root):
        for child in stmt_children(root):
            if path := path_of(child, stmt):
                return (root, *path)
    return ()


def path_to_loop(root: Stmt, name: str) -> tuple[Stmt, ...]:
    """Statements from `root` down to the loop over a variable, or () when there is none."""
    return path_to(root, lambda s: isinstance(s, For) and s.var.name == name, Var(name))


def path_to_alloc(root: Stmt, buffer: Buffer) -> tuple[Stmt, ...]:
    """Statements from `root` down to the allocation of a buffer, or () when there is none."""
    return path_to(root, lambda s: isinstance(s, Alloc) and s.buffer == buffer, buffer)


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """Expressions that the statement itself holds: values, then indices, conditions, tiles."""
    match stmt:
        case Store() | Update() | Combine(): return (*stmt.values, *stmt.indices)
        case If(): return (stmt.condition,)
        case Tensorized(_, binding, _):
            return tuple(expr for _, expr in (*binding.tiles, *binding.immediates))
        case _: return ()


def map_exprs(stmt: Stmt, fn: Callable[[Expr], Expr],
              naming: frozenset[Var | Buffer] | None = None) -> Stmt:
    """Apply `fn` to every expression that a statement below holds. What nothing changes is the same
    object. `naming` as `rewrite_stmts` has it.
    """
    return rewrite_stmts(stmt, lambda node: with_own_exprs(node, fn), naming=naming)


def map_reads(stmt: Stmt, rule: Callable[[Read], Expr | None], buffers: frozenset[Buffer]) -> Stmt:
    """Apply `rule` to every read of these buffers; where it returns None the read stays."""
    def read(node: Expr) -> Expr | None:
        return rule(node) if isinstance(node, Read) and node.buffer in buffers else None

    return map_exprs(stmt, lambda expr: te.rewrite(expr, read, buffers), buffers)


def with_own_exprs(stmt: Stmt, fn: Callable[[Expr], Expr]) -> Stmt:
    """The statement with what `fn` makes of the expressions that it holds itself."""
    match stmt:
        case Store() | Update() | Combine():
            before = (*stmt.indices, *stmt.values)
            after = tuple([fn(expr) for expr in before])
            if all(map(is_, before, after)):
                return stmt
            count = len(stmt.indices)
            return rebuilt(stmt, indices=after[:count], values=after[count:])
        case If(condition, body):
            new = fn(condition)
            return stmt if new is condition else If(new, body)
        case Tensorized():
            binding = map_binding(stmt.binding, fn)
            return stmt if binding is stmt.binding else replace(stmt, binding=binding)
        case _:
            return stmt


def map_binding(binding: Binding, fn: Callable[[Expr], Expr]) -> Binding:
    before = [expr for _, expr in (*binding.tiles, *binding.immediates)]
    known = {id(expr): fn(expr) for expr in before}
    if all(known[id(expr)] is expr for expr in before):
        return binding
    return replace(binding, **{
        kind: tuple((name, known[id(expr)]) for name, expr in getattr(binding, kind))
        for kind in ("tiles", "immediates")})


def substitute_stmt(stmt: Stmt, values: Mapping[Var, Expr]) -> Stmt:
    """Replace variables in expressions. Loops and reduction axes stay: see `replace_axes`."""
    return map_exprs(stmt, lambda expr: te.substitute(expr, values), frozenset(values))


def replace_axes(stmt: Stmt, axes: dict[Var, tuple[Var, ...]]) -> Stmt:
    """Replace reduction variables where updates and bindings name them."""
    def spread(old: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(dict.fromkeys(new for var in old for new in axes.get(var, (var,))))

    def rule(node: Stmt) -> Stmt | None:
        match node:
            case Update() | Combine():
                return replace(node, axes=spread(node.axes))
            case Tensorized(_, binding, _):
                return replace(node, binding=replace(binding, begin=spread(binding.begin)))
            case _:
                return None

    return rewrite_stmts(stmt, rule, naming=frozenset(axes))


def map_buffers(stmt: Stmt, new: dict[Buffer, Buffer]) -> Stmt:
    """Exchange buffers of the same rank wherever they are named."""
    old = frozenset(new)

    def rule(node: Stmt) -> Stmt | None:
        match node:
            case Store() | Update() | Combine() if any(buffer in new for buffer in node.buffers):
                return rebuilt(node, buffers=tuple(new.get(b, b) for b in node.buffers))
            case Alloc(buffer) if buffer in new:
                return replace(node, buffer=new[buffer])
            case _:
                return None

    read = map_reads(stmt, lambda node: Read(new[node.buffer], node.indices), old)
    return rewrite_stmts(read, rule, naming=old)


def renamed(node: Any, name: Callable[[str], str]) -> Any:
    """Gives the variables and buffers of a program, statement, tensor or expression other names;
    what declared instructions call theirs stays.
    """
    if isinstance(node, Var | Buffer):
        return replace(node, name=name(node.name))
    if isinstance(node, tuple):
        return tuple(renamed(part, name) for part in node)
    if isinstance(node, Tensorized):
        return Tensorized(node.intrinsic, renamed(node.binding, name), renamed(node.body, name))
    if not is_dataclass(node) or isinstance(node, type | te.Reducer):
        return node
    return replace(node, **{part.name: renamed(getattr(node, part.name), name)
                            for part in fields(node)})


def writes(stmt: Stmt) -> Iterator[Write]:
    """Every store and update below, in order."""
    for node in walk_stmts(stmt):
        if isinstance(node, Write):
            yield node


def rebuilt(write: Write, buffers: tuple[Buffer, ...] | None = None,
            indices: tuple[Expr, ...] | None = None,
            values: tuple[Expr, ...] | None = None) -> Write:
    """A write of the same kind, of other buffers, at other indices or of other values."""
    buffers = write.buffers if buffers is None else buffers
    indices = write.indices if indices is None else indices
    values = write.values if values is None else values
    if isinstance(write, Combine):
        return replace(write, buffers=buffers, indices=indices, values=values)
    return replace(write, buffer=buffers[0], indices=indices, value=values[0])


def reads(stmt: Stmt) -> Iterator[Read]:
    """Every read below that is executed, in order; bindings are not, their bodies are."""
    for node in walk_stmts(stmt):
        if not isinstance(node, Tensorized):
            for expr in expressions(node):
                yield from (e for e in te.walk(expr) if isinstance(e, Read))


def loops(stmt: Stmt) -> Iterator[For]:
    for node in walk_stmts(stmt):
        if isinstance(node, For):
            yield node


def unblock(stmt: Stmt) -> tuple[tuple[Buffer, ...], tuple[Stmt, ...]]:
    """A block as its allocations and its statements: ``Alloc(a, Alloc(b, Seq(s, t)))``."""
    if isinstance(stmt, Alloc):
        buffers, stmts = unblock(stmt.body)
        return (stmt.buffer, *buffers), stmts
    return (), (stmt.stmts if isinstance(stmt, Seq) else (stmt,))


def block(buffers: tuple[Buffer, ...], stmts: tuple[Stmt, ...]) -> Stmt:
    """Reverse of `unblock`."""
    body: Stmt = stmts[0] if len(stmts) == 1 else Seq(stmts)
    for buffer in reversed(buffers):
        body = Alloc(buffer, body)
    return body


def buffers_of(program: Program) -> dict[str, Buffer]:
    """Every buffer by its name, in order: inputs, outputs, allocated ones."""
    buffers = {buffer.name: buffer for buffer in (*program.inputs, *program.outputs)}
    for node in walk_stmts(program.body):
        if isinstance(node, Alloc):
            buffers[node.buffer.name] = node.buffer
    return buffers
