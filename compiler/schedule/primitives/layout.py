"""Changes how the elements of an allocated buffer lie in memory."""

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from compiler.ir import (Access, Alloc, Domain, Program, Seq, Stmt, Tensorized, Write, accesses,
                         bounds, expr_text, map_buffers, map_exprs, normalize, rebuilt,
                         rewrite_stmts, walk_stmts, witness)
from compiler.te import (INDEX, Binary, Buffer, Const, Expr, Read, Var, numpy_dtype, rewrite,
                         substitute, walk)

from compiler.schedule.analysis.place import (find_buffer, finish, refuse, require_numbers,
                                              written_together)

__all__ = ["Layout", "layout_text", "storage_align", "swizzle", "transform_layout"]

Layout = str | Callable[..., Sequence[Expr]]
"""``"i, j -> i // 4, j, i % 4"``, or the same as a function."""

_OPERATORS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv",
              ast.Mod: "mod"}


def storage_align(program: Program, buffer: str, dimension: int, factor: int,
                  offset: int = 0) -> Program:
    """Leaves gaps: neighbours in `dimension` lie ``n * factor + offset`` elements apart.

    ::

        alloc shared.t: int32[32, 32]   ->   alloc shared.t: int32[32, 32] strides [33, 1]

    ``storage_align(p, "t", 0, 32, 1)`` lets the elements of a column lie in different banks. The
    least distance that keeps rows apart is taken.

    1. The buffer is allocated by the program: inputs and outputs are dense.
    2. The dimension is one of the buffer's, not the last; `factor` is positive and `offset` from 0
       to less than `factor`.
    3. The buffer has no gaps yet, and no intrinsic uses it already. The same holds for the others
       that one reduction writes together with it: they change alike.
    """
    require_numbers(program, "storage_align")
    padded = _allocated(program, buffer, "storage_align")
    together = _together(program, padded, "storage_align")
    if not isinstance(dimension, int) or not 0 <= dimension < len(padded.shape) - 1:
        refuse("storage_align", f"dimension of {buffer} must be from 0 to {len(padded.shape) - 2}, "
                                f"not {dimension!r}", program, _alloc(program, padded))
    if factor < 1 or not 0 <= offset < factor:
        refuse("storage_align", f"factor must be positive and offset less than it, not {factor} "
                                f"and {offset}", program, _alloc(program, padded))
    pitches = list(padded.pitches)
    for d in range(dimension, -1, -1):
        least = padded.shape[d + 1] * pitches[d + 1]
        pitches[d] = least + (offset - least) % factor if d == dimension else least
    return finish(program, map_buffers(program.body, {
        one: replace(one, strides=tuple(pitches)) for one in together}))


def swizzle(program: Program, buffer: str) -> Program:
    """Lets chunks of 16 bytes change places within their rows, so that those of a column lie in
    different banks, without gaps.

    ::

        alloc shared.t: float16[64, 32]   ->   alloc shared.t: float16[64, 32] swizzled

    Chunk `c` of row `r` lies where chunk ``c ^ (r // f % n)`` would: of `n` chunks of the row, 8 at
    most, and ``f = 8 // n`` rows that lie in different banks anyway. So 8 rows from a multiple of 8
    on have the chunks of a column in all 32 banks of 4 bytes. What is computed stays as it is; a
    back end that knows no banks may ignore it.

    1. The buffer is allocated by the program and has rows: two dimensions or more.
    2. Rows are of 32 or 64 bytes, or of a multiple of 128.
    3. The buffer has no gaps and is not swizzled yet. No intrinsic uses it already and no reduction
       of several outputs writes it.
    """
    require_numbers(program, "swizzle")
    plain = _allocated(program, buffer, "swizzle")
    width = plain.shape[-1] * numpy_dtype(plain.dtype).itemsize if len(plain.shape) > 1 else 0
    if width not in (32, 64) and (width == 0 or width % 128):
        refuse("swizzle", f"rows of {buffer} must be of 32 or 64 bytes, or of a multiple of 128, "
                          f"not of {width}", program, _alloc(program, plain))
    if len(_together(program, plain, "swizzle")) > 1:
        refuse("swizzle", f"{buffer} must be written alone", program, _alloc(program, plain))
    return finish(program, map_buffers(program.body, {plain: replace(plain, swizzled=True)}))


def transform_layout(program: Program, buffer: str, layout: Layout) -> Program:
    """Moves element ``[i, j, ...]`` to the place that `layout` maps the indices to.

    ::

        alloc t: int32[8, 6]           alloc t: int32[2, 6, 4]
        for i in 0..8:            ->   for i in 0..8:
          for j in 0..6:                 for j in 0..6:
            t[i, j] = f(i, j)              t[i // 4, j, i % 4] = f(i, j)

    Here ``transform_layout(p, "t", "i, j -> i // 4, j, i % 4")``. The new shape is the least one
    that holds all elements; the loops stay as they are.

    1. The buffer is allocated by the program and has no gaps.
    2. The layout has a name for each dimension. Its results are sums, products, quotients and
      remainders of these and of integers, none of them negative.
    3. No two elements come to lie in one place.
    4. No intrinsic uses the buffer already. Others that one reduction writes together with it are
       no outputs and have no gaps either: their elements move alike.
    """
    require_numbers(program, "transform_layout")
    given = _allocated(program, buffer, "transform_layout")
    alloc = _alloc(program, given)
    together = _together(program, given, "transform_layout")
    names, exprs = _parsed(program, given, layout)
    axes = tuple(map(Var, names))
    domain = Domain(tuple(zip(axes, given.shape, strict=True)))
    spans = [bounds(expr, domain) for expr in exprs]
    for expr, span in zip(exprs, spans, strict=True):
        if span is None or span[0] < 0:
            refuse("transform_layout", f"index {expr_text(expr)} of the layout must not be "
                                       f"negative", program, alloc)
    _require_one_place_each(program, given, axes, exprs)
    shape = tuple(span[1] + 1 for span in spans if span)
    new = {one: replace(one, shape=shape) for one in together}

    def moved(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        values = dict(zip(axes, indices, strict=True))
        return tuple(substitute(expr, values) for expr in exprs)

    return finish(program, _with(program, new, moved))


def layout_text(layout: Layout) -> str:
    """A layout as text, which `transform_layout` also accepts."""
    if isinstance(layout, str):
        return layout
    names = list(inspect.signature(layout).parameters)
    indices = layout(*map(Var, names))
    return f"{', '.join(names)} -> {', '.join(map(expr_text, indices))}"


def _parsed(program: Program, buffer: Buffer,
            layout: Layout) -> tuple[list[str], tuple[Expr, ...]]:
    """Names of the dimensions and the new indices."""
    text = layout_text(layout)
    left, arrow, right = text.partition("->")
    names = [name.strip() for name in left.split(",")]
    try:
        tree = ast.parse(f"({right.strip()},)", mode="eval").body if arrow else None
        exprs = tuple(map(_expr, tree.elts)) if isinstance(tree, ast.Tuple) else ()
    except (SyntaxError, _Foreign):
        exprs = ()
    used = {node.name for expr in exprs for node in _variables(expr)}
    if (not exprs or len(names) != len(buffer.shape) or not all(map(str.isidentifier, names))
            or len(set(names)) != len(names) or not used <= set(names)):
        refuse("transform_layout", f"layout must map {len(buffer.shape)} names to sums, products, "
                                   f"quotients and remainders of them, as in 'i, j -> i // 4, j, "
                                   f"i % 4', not {text!r}", program, _alloc(program, buffer))
    return names, tuple(normalize(expr) for expr in exprs)


class _Foreign(ValueError):
    """An operation that is no index arithmetic."""


def _expr(node: ast.expr) -> Expr:
    match node:
        case ast.Name(name): return Var(name)
        case ast.Constant(int(value)): return Const(value, INDEX)
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return Binary(_OPERATORS[type(op)], _expr(left), _expr(right))
        case _: raise _Foreign(node)


def _variables(expr: Expr) -> list[Var]:
    return [node for node in walk(expr) if isinstance(node, Var)]


def _require_one_place_each(program: Program, buffer: Buffer, axes: tuple[Var, ...],
                            exprs: tuple[Expr, ...]):
    """Refuses layouts that give different elements the same indices."""
    here = Domain(tuple(zip(axes, buffer.shape, strict=True)))
    image = Buffer("image", tuple(1 << 30 for _ in exprs), buffer.dtype)
    access = Access(image, exprs, "store", here, Seq(()))
    differ = " or ".join(f"{{a[{axis.name}]}} != {{b[{axis.name}]}}" for axis in axes)
    if clash := witness(access, access, (), differ):
        first, second = ([value for _, value in pair] for pair in (clash.first, clash.second))
        refuse("transform_layout",
               f"elements {first} and {second} of {buffer.name} must not lie in "
               f"one place, {list(clash.element)}",
               program, _alloc(program, buffer))


def _allocated(program: Program, name: str, primitive: str) -> Buffer:
    buffer = find_buffer(program, name, primitive)
    if buffer in (*program.inputs, *program.outputs):
        refuse(primitive, f"{name} must be allocated by the program, not an input or output",
               program)
    return buffer


def _alloc(program: Program, buffer: Buffer) -> Stmt:
    return next(s for s in walk_stmts(program.body)
                if isinstance(s, Alloc) and s.buffer == buffer)


def _together(program: Program, buffer: Buffer, primitive: str) -> tuple[Buffer, ...]:
    """The buffer and those that change with it. Refuses one whose elements must stay where they
    are.
    """
    found = written_together(program, buffer)
    for one in found:
        _allocated(program, one.name, primitive)
        if one.strides is not None:
            refuse(primitive, f"{one.name} must have no gaps yet", program, _alloc(program, one))
        if one.swizzled:
            refuse(primitive, f"{one.name} must not be swizzled yet", program,
                   _alloc(program, one))
    for stmt in walk_stmts(program.body):
        if isinstance(stmt, Tensorized):
            for access in accesses(stmt.body):
                if access.buffer in found:
                    refuse(primitive, f"{access.buffer.name} must not be used by "
                                      f"{stmt.intrinsic.name} already", program, stmt)
    return found


def _with(program: Program, new: Mapping[Buffer, Buffer],
          moved: Callable[[tuple[Expr, ...]], tuple[Expr, ...]]) -> Stmt:
    """The program's body with the new buffers and indices."""
    def read(node: Expr) -> Expr | None:
        return Read(new[node.buffer], moved(node.indices)) if (
            isinstance(node, Read) and node.buffer in new) else None

    def write(node: Stmt) -> Stmt | None:
        if isinstance(node, Alloc) and node.buffer in new:
            return Alloc(new[node.buffer], node.body)
        if isinstance(node, Write) and node.buffers[0] in new:
            return rebuilt(node, buffers=tuple(new[buffer] for buffer in node.buffers),
                           indices=moved(node.indices))
        return None

    return rewrite_stmts(map_exprs(program.body, lambda expr: rewrite(expr, read)), write)
