"""Programs with symbols for extents, and one for given values of them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from compiler import te
from compiler.te import Buffer, Const, Expr, Extent, Symbol

from .nodes import For, Program, Stmt
from .simplify import normalize_stmt, simplify
from .visit import buffers_of, map_buffers, map_exprs, rewrite_stmts

__all__ = ["specialize", "symbols_of"]


def symbols_of(extents: Iterable[Extent]) -> Iterator[Symbol]:
    """The symbols in extents, once each, in the order in which they are met."""
    yield from dict.fromkeys(node for extent in extents if isinstance(extent, Expr)
                             for node in te.walk(extent) if isinstance(node, Symbol))


def specialize(program: Program, **values: int) -> Program:
    """The program for these values of its parameters, all of them; none is left.

    Raises ValueError for a value that is missing, unknown or less than 1.
    """
    known = {symbol.name: symbol for symbol in program.parameters}
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"Parameter of {program.name} must be one of "
                             f"{', '.join(known) or 'none'}, not {name!r}")
        if not te.is_extent(value):
            raise ValueError(f"Parameter {name} of {program.name} must be a positive integer, "
                             f"not {value!r}")
    for name in known:
        if name not in values:
            raise ValueError(f"Parameter {name} of {program.name} must have a value")
    bound: dict[te.Var, Expr] = {known[name]: Const(value, te.INDEX)
                                 for name, value in values.items()}
    buffers = {b: _concrete(b, bound) for b in buffers_of(program).values()}

    def extents(node: Stmt) -> Stmt | None:
        return replace(node, extent=_value(node.extent, bound)) if isinstance(node, For) else None

    body = map_exprs(rewrite_stmts(program.body, extents), lambda e: te.substitute(e, bound))
    return replace(program, inputs=tuple(buffers[b] for b in program.inputs),
                   outputs=tuple(buffers[b] for b in program.outputs), parameters=(),
                   body=normalize_stmt(map_buffers(body, buffers)))


def _concrete(buffer: Buffer, bound: Mapping[te.Var, Expr]) -> Buffer:
    return replace(buffer, shape=tuple(_value(extent, bound) for extent in buffer.shape))


def _value(extent: Extent, bound: Mapping[te.Var, Expr]) -> int:
    if not isinstance(extent, Expr):
        return extent
    result = simplify(te.substitute(extent, bound))
    assert isinstance(result, Const)
    return int(result.value)
