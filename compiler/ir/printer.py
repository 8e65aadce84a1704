"""Text of loop programs: short, stable, diffable. Tests compare it, refusals show it.

::

    program conv(x: int8[1, 8, 8]) -> out: int8[1, 4, 4]
    for out_h in 0..4 (virtual_thread):
      alloc inp.pad: int8[1, 3, 10]
      for pad_h in 0..3:
        ...
      acc[out_h, out_w] += int32(pad[kh, out_w + kw]) begin(kh, kw)

An ``alloc`` lives to the end of the block that it stands in. A `Tensorized` statement is one line
that names the intrinsic and the tiles; ``bodies=True`` shows its nest below it. `nest_lines` is for
programs of many such statements: loops that only hold a loop share a line with it.
"""

from collections.abc import Callable, Iterator

from compiler.te import (Binary, Buffer, Call, Cast, Const, Expr, Extent, Extern, Field, Read,
                         Reduce, Select, Var, is_float)

from .affine import is_index
from .nodes import (Alloc, Barrier, Combine, For, If, Program, Seq, Stmt, Store, Tensorized,
                    Update)

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%",
            "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
            "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_WORDS = {"&": "and", "|": "or"}                            # of conditions
_LEVELS = {"or": 1, "and": 2, "<": 3, "<=": 3, ">": 3, ">=": 3, "==": 3, "!=": 3, "|": 4, "^": 5,
           "&": 6, "<<": 7, ">>": 7, "+": 8, "-": 8, "*": 9, "/": 9, "//": 9, "%": 9}
_MARK = "    <-- here"


def expr_text(expr: Expr) -> str:
    """One expression, with no more parentheses than it needs."""
    return _expr(expr, 0)


def _expr(expr: Expr, level: int) -> str:
    match expr:
        case Const(value, dtype): return repr(float(value)) if is_float(dtype) else str(value)
        case Var(name): return name
        case Read(buffer, indices): return _access(buffer, indices)
        case Field(base, name): return f"{_expr(base, 99)}.{name}"
        case Binary(): return _binary(expr, level)
        case Call(function, args) | Extern(function, args): return f"{function}({_list(args)})"
        case Select(condition, a, b): return f"select({_list((condition, a, b))})"
        case Cast(value, dtype): return f"{dtype}({expr_text(value)})"
        case Reduce(op, value, axes):
            names = ", ".join(var.name for var, _ in axes)
            return f"{op}({expr_text(value)}, over {names})"
        case _: raise TypeError(f"Expression must be of a known kind, not {expr!r}")


def _binary(expr: Binary, level: int) -> str:
    if expr.op not in _SYMBOLS:
        return f"{expr.op}({_list((expr.a, expr.b))})"
    symbol = _SYMBOLS[expr.op]
    if expr.dtype == "bool" and expr.a.dtype == "bool":
        symbol = _WORDS.get(symbol, symbol)
    own = _LEVELS[symbol]
    left = _expr(expr.a, own + (own == 3))                  # comparisons do not chain
    space = "" if symbol == "*" and is_index(expr) else " "
    text = f"{left}{space}{symbol}{space}{_expr(expr.b, own + 1)}"
    return f"({text})" if own < level else text


def _list(exprs: tuple[Expr, ...]) -> str:
    return ", ".join(expr_text(expr) for expr in exprs)


def _access(buffer: Buffer, indices: tuple[Expr, ...]) -> str:
    return f"{buffer.name}[{_list(indices)}]"


def declared_text(buffer: Buffer) -> str:
    """A buffer with its scope, type and shape: ``inp.pad: int8[1, 3, 10]``."""
    scope = "" if buffer.scope == "global" else f"{buffer.scope}."
    strides = "" if buffer.strides is None else f" strides {list(buffer.strides)}"
    swizzled = " swizzled" if buffer.swizzled else ""
    return f"{scope}{buffer.name}: {buffer.dtype}{shape_text(buffer.shape)}{strides}{swizzled}"


def shape_text(shape: tuple[Extent, ...]) -> str:
    return f"[{', '.join(map(extent_text, shape))}]"


def extent_text(extent: Extent) -> str:
    return expr_text(extent) if isinstance(extent, Expr) else str(extent)


def program_text(program: Program, mark: Stmt | None = None, bodies: bool = False) -> str:
    """The whole program; the statement that is `mark` (the very object) is pointed at."""
    inputs = ", ".join(map(declared_text, program.inputs))
    outputs = ", ".join(map(declared_text, program.outputs))
    symbols = ", ".join(symbol.name for symbol in program.parameters)
    return (f"program {program.name}{f'<{symbols}>' if symbols else ''}({inputs}) -> {outputs}\n"
            + stmt_text(program.body, mark, bodies))


def stmt_text(stmt: Stmt, mark: Stmt | None = None, bodies: bool = False) -> str:
    return "".join(f"{'  ' * depth}{line}\n" for depth, line in _lines(stmt, 0, mark, bodies))


Lines = Iterator[tuple[int, str]]


def _lines(stmt: Stmt, depth: int, mark: Stmt | None, bodies: bool) -> Lines:
    if isinstance(stmt, Seq):
        inner = _seq(stmt, depth, lambda one, level: _lines(one, level, mark, bodies))
        for line, (level, text) in enumerate(inner):
            yield level, text + (_MARK if stmt is mark and line == 0 else "")
        return
    yield depth, _head(stmt) + (_MARK if stmt is mark else "")
    match stmt:
        case For() | If():
            yield from _lines(stmt.body, depth + 1, mark, bodies)
        case Alloc():
            yield from _lines(stmt.body, depth, mark, bodies)
        case Tensorized() if bodies:
            yield from _lines(stmt.body, depth + 1, mark, bodies)


def _seq(seq: Seq, depth: int, lines: Callable[[Stmt, int], Lines]) -> Lines:
    if not seq.stmts:
        yield depth, "pass"
    for position, stmt in enumerate(seq.stmts):
        nested = isinstance(stmt, Alloc) and position < len(seq.stmts) - 1
        if nested:                          # its life ends before the block does
            yield depth, "block:"
        yield from lines(stmt, depth + nested)


def nest_lines(stmt: Stmt, note: Callable[[Tensorized], str]) -> Lines:
    """Lines with their depths: a nest of loops on one, a tensorized statement on one with its
    `note`, and below it one for each tile and immediate.
    """
    def nested(stmt: Stmt, depth: int) -> Lines:
        match stmt:
            case Seq():
                yield from _seq(stmt, depth, nested)
            case For():
                nest = [stmt]
                while isinstance(nest[-1].body, For):
                    nest.append(nest[-1].body)
                yield depth, f"for {', '.join(map(_loop, nest))}:"
                yield from nested(nest[-1].body, depth + 1)
            case Tensorized(intrinsic, binding, _):
                yield depth, (f"{intrinsic.name}{_begin(binding.begin, binding.begins)}"
                              f"{note(stmt)}")
                for name, value in (*binding.tiles, *binding.immediates):
                    yield depth + 1, f"{name} = {expr_text(value)}"
            case _:
                yield depth, _head(stmt)
                if isinstance(stmt, If | Alloc):
                    yield from nested(stmt.body, depth + isinstance(stmt, If))

    return nested(stmt, 0)


def _head(stmt: Stmt) -> str:
    match stmt:
        case For():
            return f"for {_loop(stmt)}:"
        case If(condition, _):
            return f"if {expr_text(condition)}:"
        case Alloc(buffer, _):
            return f"alloc {declared_text(buffer)}"
        case Store(buffer, indices, value):
            return f"{_access(buffer, indices)} = {expr_text(value)}"
        case Update(buffer, indices, op, value, axes, begins):
            sign = "+=" if op == "sum" else f"{op}="
            return f"{_access(buffer, indices)} {sign} {expr_text(value)}{_begin(axes, begins)}"
        case Combine(buffers, indices, reducer, values, axes, begins):
            targets = ", ".join(_access(buffer, indices) for buffer in buffers)
            return f"{targets} {reducer.name}= {_list(values)}{_begin(axes, begins)}"
        case Barrier(scope):
            return f"barrier({scope})"
        case Tensorized(intrinsic, binding, _):
            pairs = (*binding.tiles, *binding.immediates)
            args = ", ".join(f"{name}={expr_text(value)}" for name, value in pairs)
            return f"{intrinsic.name}({args}){_begin(binding.begin, binding.begins)}"
        case _:
            raise TypeError(f"Statement must be of a known kind, not {stmt!r}")


def _loop(loop: For) -> str:
    end = _expr(loop.extent, 99) if isinstance(loop.extent, Expr) else loop.extent
    return f"{loop.var.name} in 0..{end}{_how(loop)}"


def _how(loop: For) -> str:
    """Kind and annotations of a loop: `` (parallel, num_threads=4)``."""
    parts = [loop.kind] if loop.kind != "serial" else []
    parts += [f"{key}={value}" for key, value in loop.annotations]
    return f" ({', '.join(parts)})" if parts else ""


def _begin(axes: tuple[Var, ...], begins: bool) -> str:
    word = "begin" if begins else "over"
    return f" {word}({', '.join(var.name for var in axes)})" if axes else ""
