"""Programs with symbols for extents, and one for given values of them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from compiler import te
from compiler.te import Buffer, Const, Expr, Extent, Symbol

from .nodes import For, Program, Stmt
from .simplify import normalize_stmt, simplify
from .visit import buffers_of, map_buffers, map_exprs, rewrite_stmts


def symbols_of(extents: Iterable[Extent]) -> Iterator[Symbol]:
    """The symbols in extents, once each, in the order in which they are met."""
    yield from dict.fromkeys(node for extent in extents if isinstance(extent, Expr)
                             for node in te.walk(extent) if isinstance(node, Symbol))


def specialize(program: Program, **values: int) -> Program:
    """The program for these values of its parameters, all of them; none is left.

    Raises ValueError for a value that is missing, unknown or less than 1.
    """
    bound = bindings(program.name, program.parameters, values)
    buffers = {b: concrete(b, bound) for b in buffers_of(program).values()}

    def extents(node: Stmt) -> Stmt | None:
        return replace(node, extent=extent_value(node.extent, bound)) if (
            isinstance(node, For)) else None

    body = map_exprs(rewrite_stmts(program.body, extents), lambda e: te.substitute(e, bound))
    return replace(program, inputs=tuple(buffers[b] for b in program.inputs),
                   outputs=tuple(buffers[b] for b in program.outputs), parameters=(),
                   body=normalize_stmt(map_buffers(body, buffers)))


def bindings(name: str, parameters: Iterable[Symbol],
             values: Mapping[str, int]) -> dict[te.Var, Expr]:
    """Constants for the parameters of what is called `name`, in order; raises as `specialize`."""
    known = {symbol.name: symbol for symbol in parameters}
    for label, value in values.items():
        if label not in known:
            raise ValueError(f"Parameter of {name} must be one of {', '.join(known) or 'none'}, "
                             f"not {label!r}")
        if not te.is_extent(value):
            raise ValueError(f"Parameter {label} of {name} must be a positive integer, "
                             f"not {value!r}")
    for label in known:
        if label not in values:
            raise ValueError(f"Parameter {label} of {name} must have a value")
    return {symbol: Const(int(values[label]), te.INDEX) for label, symbol in known.items()}


def values_in(buffers: Iterable[Buffer], arrays: Mapping[str, np.ndarray],
              given: Mapping[str, int]) -> dict[str, int]:
    """Values of parameters: `given`, or of dimensions of arrays that are symbols by themselves."""
    values = dict(given)
    for buffer in buffers:
        for extent, size in zip(buffer.shape, np.shape(arrays.get(buffer.name, ()))):
            if isinstance(extent, Symbol):
                values.setdefault(extent.name, size)
    return values


def concrete(buffer: Buffer, bound: Mapping[te.Var, Expr]) -> Buffer:
    """The buffer for given values."""
    return replace(buffer, shape=tuple(extent_value(extent, bound) for extent in buffer.shape))


def extent_value(extent: Extent, bound: Mapping[te.Var, Expr]) -> int:
    """The number that it is for given values."""
    if not isinstance(extent, Expr):
        return extent
    result = simplify(te.substitute(extent, bound))
    assert isinstance(result, Const)
    return int(result.value)
