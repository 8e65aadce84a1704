"""The distance by which a result may lie over an operand that nobody reads afterwards.

A kernel that goes through an image from its beginning to its end writes what it has made where it
has read before: its result may begin somewhat before the operand and lie over the rest of it. By
how much is the *lead*, the most that writing is ahead of reading::

    operand              [ read before | read from now on          ]
    result     [ written so far ]                                       lead: the longest such [ ]
               <- lead ->

Loops are run through with numbers, outermost first; the rest of a nest, and whatever is in no
order, counts as one step that may do all it does at any time. The places of a step are bounded by
intervals, within the array.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from compiler.cpu_gpu_backends.cpu.steps import GroupCode
from compiler.ir import Alloc, For, Program, Seq, Stmt, Write, linear, reads, walk_stmts
from compiler.te import Binary, Buffer, Const, Expr, Var

MOST = 1 << 16          # steps of a nest that are looked at one by one
NOWHERE = 1 << 62
Interval = tuple[np.ndarray | int, np.ndarray | int]


def leads_of(steps: Sequence[GroupCode]) -> list[dict[str, int]]:
    """For each step the leads of the values that its result may lie over, in bytes."""
    known: dict[int, list[int]] = {}
    found = []
    for step in steps:
        leads = {}
        if step.kernel is not None and step.kernel.function is not None:
            program, movable = step.kernel.program, step.kernel.function.in_place
            if id(program) not in known:
                known[id(program)] = [lead(program, buffer) if buffer.name in movable else NOWHERE
                                      for buffer in program.inputs]
            leads = {value: bytes_ for value, bytes_ in zip(
                step.group.inputs, known[id(program)], strict=True) if bytes_ < NOWHERE}
        found.append(leads)
    return found


def lead(program: Program, operand: Buffer) -> int:
    """The fewest bytes that the program's first output must begin before the operand, so that
    nothing is overwritten which is still read. It may be more than the output has.
    """
    result = program.outputs[0]
    read, written = [], []
    for step, around in _nests(program.body, ()):
        variables = _numbers(around)
        read.append(_lowest(step, operand, variables))
        written.append(_end(step, result, variables))
    if not read:
        return 0
    first, ends = np.concatenate(read), np.maximum.accumulate(np.concatenate(written))
    both = (first < NOWHERE) & (ends > 0)
    return max(0, int((ends - first)[both].max())) if both.any() else 0


def _nests(stmt: Stmt, around: tuple[For, ...]) -> Iterator[tuple[Stmt, tuple[For, ...]]]:
    """Steps in their order, each in the loops whose iterations follow each other."""
    match stmt:
        case Seq(stmts) if not around:
            for each in stmts:
                yield from _nests(each, ())
        case Alloc(_, body):
            yield from _nests(body, around)
        case For(_, int(extent), body, "serial" | "unroll") if (
                extent * prod(int(loop.extent) for loop in around) <= MOST):
            yield from _nests(body, (*around, stmt))
        case _:
            yield stmt, around


def _numbers(around: Sequence[For]) -> dict[Var, Interval]:
    """The values of the loops' variables, step by step."""
    extents = [int(loop.extent) for loop in around]
    grid = np.indices(extents).reshape(len(extents), prod(extents))
    return {loop.var: (row, row) for loop, row in zip(around, grid, strict=True)}


def _lowest(step: Stmt, operand: Buffer, variables: Mapping[Var, Interval]) -> np.ndarray:
    """The first place where the operand is read, in bytes; `NOWHERE` where it is not."""
    variables = _inside(step, variables)
    found = np.full(_count(variables), NOWHERE)
    for read in reads(step):
        if read.buffer == operand:
            found = np.minimum(found, _place(operand, read.indices, variables, 0))
    return found


def _end(step: Stmt, result: Buffer, variables: Mapping[Var, Interval]) -> np.ndarray:
    """Behind the last byte of the result that is written; 0 where none is."""
    variables = _inside(step, variables)
    found = np.zeros(_count(variables), np.int64)
    size = int(result.size_bytes) // max(1, prod(map(int, result.shape)))
    for stmt in walk_stmts(step):
        if isinstance(stmt, Write) and result in stmt.buffers:
            found = np.maximum(found, _place(result, stmt.indices, variables, 1) + size)
    return found


def _inside(step: Stmt, variables: Mapping[Var, Interval]) -> dict[Var, Interval]:
    """The intervals of the variables, and of the loops inside a step: all their iterations."""
    loops = {loop.var: (0, loop.extent - 1) for loop in walk_stmts(step)
             if isinstance(loop, For) and isinstance(loop.extent, int)}
    return {**variables, **loops}


def _count(variables: Mapping[Var, Interval]) -> int:
    return max((low.size for low, _ in variables.values() if isinstance(low, np.ndarray)),
               default=1)


def _place(buffer: Buffer, indices: Sequence[Expr], variables: Mapping[Var, Interval], side: int
           ) -> np.ndarray:
    """The lowest (0) or highest (1) element that indices may name, in bytes."""
    shape = tuple(map(int, buffer.shape))
    pitch = int(buffer.size_bytes) // max(1, prod(shape))
    place = np.zeros(_count(variables), np.int64)
    for index, extent in zip(reversed(indices), reversed(shape), strict=True):
        bound = _interval(index, variables)
        edge = (0, extent - 1)[side] if bound is None else np.clip(bound[side], 0, extent - 1)
        place = place + edge * pitch
        pitch *= extent
    return place


def _interval(expr: Expr, variables: Mapping[Var, Interval]) -> Interval | None:
    """The interval of an index in each step; None where that is not known."""
    form = linear(expr)
    low = high = form.constant
    for atom, factor in form.terms:
        inner = _atom(atom, variables)
        if inner is None:
            return None
        below, above = (inner[0], inner[1]) if factor > 0 else (inner[1], inner[0])
        low, high = low + below * factor, high + above * factor
    return low, high


def _atom(atom: Expr, variables: Mapping[Var, Interval]) -> Interval | None:
    match atom:
        case Var():
            return variables.get(atom)
        case Binary("floordiv" | "mod" as op, a, Const(int(divisor))) if divisor > 0:
            inner = _interval(a, variables)
            if inner is None:
                return None
            first, last = inner[0] // divisor, inner[1] // divisor
            if op == "floordiv":
                return first, last
            return (np.where(first == last, inner[0] % divisor, 0),
                    np.where(first == last, inner[1] % divisor, divisor - 1))
    return None
