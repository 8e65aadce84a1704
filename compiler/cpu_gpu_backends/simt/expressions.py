"""Expressions as C, with no more casts and parentheses than their meaning needs.

Indices are `int`, and are printed with `/` and `%` where they are not negative; an index that may
not fit is computed in 64 bits. Arithmetic of integers wraps: where the types of the operands do not
say that the result fits, it is computed unsigned by a helper.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from compiler.ir import is_index, normalize
from compiler.te import (COMPARISONS, INDEX, Binary, Buffer, Call, Cast, Const, Expr, Extent, Read,
                         Select, Var, as_expr, is_float, is_integer, is_signed, numpy_dtype, walk)

from .dialects import HELPERS, Helper, Language
from .kernels import FRAGMENT, FRAGMENTS, WARP, Shuffle, tile_of

Range = tuple[int, int]
INT32 = (-(1 << 31), (1 << 31) - 1)

SYMBOLS = {"add": ("+", 12), "sub": ("-", 12), "mul": ("*", 13), "div": ("/", 13),
            "lt": ("<", 10), "le": ("<=", 10), "gt": (">", 10), "ge": (">=", 10),
            "eq": ("==", 9), "ne": ("!=", 9), "and": ("&", 8), "xor": ("^", 7), "or": ("|", 6)}
_LOGICAL = {"and": ("&&", 5), "or": ("||", 4), "xor": ("!=", 9), "add": ("||", 4),
            "mul": ("&&", 5), "max": ("||", 4), "min": ("&&", 5)}
_TERNARY, _TEST, _CAST, _ATOM = 3, 6, 14, 16


class Expressions:
    """Prints expressions; collects the helpers that they call in `used`.

    Parameters
    ----------
    names : what IR names are called in the text.
    ranges : variables in scope to their extents; one that is not a number is below 2^31, and so
        are indices that such variables are in (see `Code.at`).
    """

    helpers: Mapping[str, Helper] = HELPERS

    def __init__(self, dialect: Language, names: Mapping[str, str], ranges: dict[Var, Extent]):
        self.dialect, self.names, self.ranges = dialect, names, ranges
        self.used: dict[str, None] = {}
        self.held: dict[Expr, str] = {}         # values that stand in variables already

    def value(self, expr: Expr, level: int = 0) -> str:
        text, own = self._value(expr)
        return f"({text})" if own < level else text

    def _value(self, expr: Expr) -> tuple[str, int]:
        if expr in self.held:
            return self.held[expr], _ATOM
        match expr:
            case Const(): return self._constant(expr)
            case Var(name): return self.names.get(name, name), _ATOM
            case Read(buffer, indices): return self.element(buffer, indices), _ATOM
            case Shuffle(value, lane_xor):
                return f"__shfl_xor_sync(0xffffffff, {self.value(value)}, {lane_xor})", _ATOM
            case Cast(value, dtype): return self._cast(value, dtype)
            case Select(condition, a, b):
                return (f"{self.value(condition, _TEST)} ? {self._side(a)} : {self._side(b)}",
                        _TERNARY)
            case Call("tf32", args): return self.call("to_tf32", self.value(args[0])), _ATOM
            case Call(function, args): return self._call(function, *args), _ATOM
            case Binary(): return self._binary(expr)
            case _: raise TypeError(f"Expression must be of a known kind, not {expr!r}")

    def _side(self, expr: Expr) -> str:
        """One side of a choice: both have one type, which constants of 16 bits do not have."""
        text = self.value(expr, _TERNARY)
        narrow = isinstance(expr, Const) and expr.dtype in ("float16", "bfloat16")
        return f"({self.dialect.types[expr.dtype]}){text}" if narrow else text

    def _constant(self, const: Const) -> tuple[str, int]:
        value, dtype = const.value, const.dtype
        if dtype == "bool":
            return self.dialect.truth[bool(value)], _ATOM
        if is_float(dtype):
            number = float(numpy_dtype(dtype).type(value))
            return self._pair(number) if self._is_pair(dtype) else self._float(number, dtype)
        number = int(value)
        suffix = "" if INT32[0] <= number <= INT32[1] else self.dialect.long_suffix
        if not is_signed(dtype):
            suffix = f"u{suffix.lower()}" if suffix or dtype == "uint64" else "u"
        if number in (INT32[0], -(1 << 63)):
            return f"(-{-number - 1}{suffix} - 1)", _ATOM
        return f"{number}{suffix}", _ATOM if number >= 0 else _CAST

    def _float(self, value: float, dtype: str) -> tuple[str, int]:
        if np.isnan(value):
            return self.dialect.nan, _ATOM
        if np.isinf(value):
            return ("-" if value < 0 else "") + self.dialect.infinity, _CAST
        text = repr(value) if dtype == "float64" else f"{np.float32(value)!s}f"
        return text, _CAST if text.startswith("-") else _ATOM

    def _is_pair(self, dtype: str) -> bool:
        """True if it is a type in between, which is then used."""
        if dtype in self.dialect.between:
            self.use(self.dialect.types[dtype])
        return dtype in self.dialect.between

    def _pair(self, value: float) -> tuple[str, int]:
        """A number as the float that is nearest, and the rest."""
        high = float(np.float32(value))
        parts = (self._float(part, "float32")[0]
                 for part in (high, value - high if np.isfinite(high) else 0.0))
        return f"float_pair{{{', '.join(parts)}}}", _ATOM

    def element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """An element as an lvalue: of a pointer, or of an array with its dimensions."""
        name = self.names.get(buffer.name, buffer.name)
        if buffer.scope == "global":
            return f"{name}[{self.value(self.flat(buffer, indices))}]"
        if buffer.scope == FRAGMENT:
            return self.tile(buffer, self._held(buffer, indices))
        places = [self.value(index) for index in indices]
        if buffer.swizzled:
            places[-1] = self._swizzled(buffer, indices)
        return name + "".join(f"[{place}]" for place, extent in zip(places, sides(buffer))
                              if extent > 1)

    def tile(self, buffer: Buffer, places: Sequence[Expr]) -> str:
        """A thread's elements of a tile of a fragment, by the tile's number in each dimension."""
        name = self.names.get(buffer.name, buffer.name)
        return name + "".join(f"[{self.value(place)}]" for place, extent
                              in zip(places, sides(buffer)) if extent > 1)

    def _held(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Tile and number of an element of a fragment among those that a thread has of it."""
        (rows, columns), (*outer, i, j) = tile_of(buffer), indices
        number = i % rows // 8 * 2 + j % columns % 2
        return (*outer, *(self._normal(index) for index in (i // rows, j // columns, number)))

    def _swizzled(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """The place of an element of a swizzled buffer in its row."""
        (chunk, rows, chunks), (row, column) = buffer.swizzle, indices[-2:]
        place, turn, rest = (self._normal(index) for index in (
            column // chunk, row // rows % chunks, column % chunk))
        text = f"({self.value(place, 8)} ^ {self.value(turn, 8)}) * {chunk}"
        return text if rest == Const(0, INDEX) else f"{text} + {self.value(rest, 12)}"

    def _normal(self, index: Expr) -> Expr:
        return normalize(index, {var: extent for var, extent in self.ranges.items()
                                 if isinstance(extent, int)})

    def flat(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        place: Expr = Const(0, INDEX)
        for index, pitch, extent in zip(indices, buffer.pitches, buffer.shape):
            if extent == 1 and index == Const(0, INDEX):
                continue
            pitch = normalize(as_expr(pitch, INDEX))
            term = index if pitch == Const(1, INDEX) else pitch if index == Const(1, INDEX) else (
                index * pitch)
            place = term if place == Const(0, INDEX) else place + term
        joined = normalize(place)
        return joined if _divisions(joined) < _divisions(place) else place

    # Types and ranges

    def range(self, expr: Expr) -> Range | None:
        """Least and greatest value of an integer, as far as types and loops tell."""
        match expr:
            case Const(value) if is_integer(expr.dtype): return int(value), int(value)
            case Var() if expr in self.ranges:
                extent = self.ranges[expr]
                return 0, extent - 1 if isinstance(extent, int) else INT32[1]
            case Cast(value, dtype) if is_integer(dtype) and is_integer(value.dtype):
                inner, limits = self.range(value), _limits(dtype)
                return inner if inner and _within(inner, limits) else limits
            case Select(_, a, b) if is_integer(expr.dtype):
                return _hull(self.range(a), self.range(b))
            case Binary(op, a, b) if is_integer(expr.dtype):
                return self._binary_range(op, self.range(a), self.range(b), expr.dtype)
        return _limits(expr.dtype) if is_integer(expr.dtype) else None

    def _binary_range(self, op: str, a: Range | None, b: Range | None, dtype: str) -> Range:
        exact = _exact(op, a, b) if a and b else None
        return exact if exact and _within(exact, _limits(dtype)) else _limits(dtype)

    def fits(self, expr: Binary) -> bool:
        """True if the exact result fits the type, for all that types and loops tell."""
        a, b = self.range(expr.a), self.range(expr.b)
        exact = _exact(expr.op, a, b) if a and b else None
        return exact is not None and _within(exact, _limits(expr.dtype))

    # Operators

    def use(self, helper: str) -> None:
        for name in self.helpers[helper].needs:
            self.use(name)
        self.used[helper] = None

    def call(self, helper: str, *args: str) -> str:
        self.use(helper)
        return f"{helper}({', '.join(args)})"

    def _binary(self, expr: Binary) -> tuple[str, int]:
        op, a, b, dtype = expr.op, expr.a, expr.b, expr.a.dtype
        if dtype == "bool" and op in _LOGICAL:
            return self._infix(*_LOGICAL[op], a, b)
        if op in COMPARISONS:
            return self._infix(*SYMBOLS[op], a, b)
        if is_float(dtype):
            return self._float_binary(expr)
        return self._integer_binary(expr)

    def _infix(self, symbol: str, own: int, a: Expr, b: Expr) -> tuple[str, int]:
        left, right = self.value(a, own), self.value(b, own + 1)
        if right.startswith("-") and symbol == "-":
            right = f"({right})"
        return f"{left} {symbol} {right}", own

    def _float_binary(self, expr: Binary) -> tuple[str, int]:
        op, a, b, dtype = expr.op, expr.a, expr.b, expr.dtype
        wide = "64" if dtype == "float64" else ""
        if op in ("min", "max"):
            text = self.call(f"nan_{op}{wide}", self.value(a), self.value(b)), _ATOM
        elif op in ("add", "sub", "mul", "div"):
            text = self._infix(*SYMBOLS[op], a, b)
        elif op in ("mod", "floordiv"):
            text = self.call(f"float_{op}{wide}", self.value(a), self.value(b)), _ATOM
        else:
            raise ValueError(f"Operands of {op} must be integers, not {dtype}")
        return self._rounded(dtype, text[0]) if dtype in ("float16", "bfloat16") else text

    def _rounded(self, dtype: str, text: str) -> tuple[str, int]:
        """A value that was computed in float, rounded to a type of 16 bits."""
        return f"({self.dialect.types[dtype]})({text})", _CAST

    def _integer_binary(self, expr: Binary) -> tuple[str, int]:
        op, a, b = expr.op, expr.a, expr.b
        if op in ("add", "sub", "mul"):
            return self._wrapping(expr)
        if op in ("and", "or", "xor"):
            return self._infix(*SYMBOLS[op], a, b)
        if op in ("min", "max"):
            if is_index(expr):                              # both are of 32 bits here
                return f"{op}({self.value(a)}, {self.value(b)})", _ATOM
            return f"{op}({self._same(a)}, {self._same(b)})", _ATOM
        if op in ("floordiv", "mod", "div"):
            return self._division(expr)
        return self._shift(expr)

    def _shift(self, expr: Binary) -> tuple[str, int]:
        op, dtype = expr.op, expr.dtype
        wide = [f"({self.dialect.types['int64']}){self.value(operand, _CAST)}"
                for operand in (expr.a, expr.b)]
        name = {"shl": "shift_left", "shr": "shift_right", "rshift_rne": "rshift_rne"}[op]
        if dtype == "uint64" and op != "shl":
            name = f"unsigned_{name}"
        return f"({self.dialect.types[dtype]}){self.call(name, *wide)}", _CAST

    def _same(self, expr: Expr) -> str:
        """The expression as an argument of `min` and `max`, which take two of one type."""
        wanted = "int" if numpy_dtype(expr.dtype).itemsize < 4 else self.dialect.types[expr.dtype]
        other = isinstance(expr, Const | Select | Var) or is_index(expr) or (
            wanted == "int" and expr.dtype != "int32")
        return f"({wanted}){self.value(expr, _CAST)}" if other else self.value(expr)

    def _wrapping(self, expr: Binary) -> tuple[str, int]:
        op, dtype = expr.op, expr.dtype
        if is_index(expr):
            return self._index(expr)
        fits, narrow = self.fits(expr), numpy_dtype(dtype).itemsize < 4
        if fits or narrow or dtype in ("uint32", "uint64"):
            text, own = self._infix(*SYMBOLS[op], expr.a, expr.b)
            return (f"({self.dialect.types[dtype]})({text})", _CAST) if narrow and not fits \
                else (text, own)
        suffix = "64" if dtype == "int64" else ""
        return self.call(f"wrapping_{op}{suffix}", self.value(expr.a), self.value(expr.b)), _ATOM

    def _index(self, expr: Binary) -> tuple[str, int]:
        left, right = expr.a, expr.b
        if expr.op == "mul" and isinstance(left, Const):
            left, right = right, left
        symbol, own = SYMBOLS[expr.op]
        a, b = self.range(left), self.range(right)
        exact = _exact(expr.op, a, b) if a and b else None
        if exact and not _within(exact, INT32) and not any(map(self._is_open, walk(expr))):
            wide = self.dialect.types["int64"]
            return f"({wide}){self.value(left, _CAST)} {symbol} {self.value(right, own + 1)}", own
        if expr.op == "add":                # indices never overflow: any order is the same
            return f"{self.value(left, own)} + {self.value(right, own)}", own
        return self._infix(symbol, own, left, right)

    def _is_open(self, node: Expr) -> bool:
        """True if it is a variable whose extent is not a number."""
        return isinstance(node, Var) and not isinstance(self.ranges.get(node, 0), int)

    def _division(self, expr: Binary) -> tuple[str, int]:
        a, b, dtype = expr.a, expr.b, expr.dtype
        first, second = self.range(a), self.range(b)
        symbol = "%" if expr.op == "mod" else "/"
        if second and second[0] > 0 and (not is_signed(dtype) or first and first[0] >= 0):
            return self._infix(symbol, 13, a, b)
        name = {"mod": "floor_mod", "floordiv": "floor_div", "div": "whole_div"}[expr.op]
        if not is_signed(dtype):
            name = "unsigned_mod" if expr.op == "mod" else "unsigned_div"
        return f"({self._index_type(expr)}){self.call(name, self.value(a), self.value(b))}", _CAST

    def _index_type(self, expr: Expr) -> str:
        return "int" if is_index(expr) else self.dialect.types[expr.dtype]

    def _call(self, function: str, arg: Expr, *more: Expr) -> str:
        if not is_float(arg.dtype):
            if not is_signed(arg.dtype):
                return self.value(arg, _ATOM)
            return f"(({self.dialect.types[arg.dtype]})abs({self.value(arg)}))"
        args = ", ".join(self.value(operand) for operand in (arg, *more))
        name = self.dialect.math(function, arg.dtype)
        if name in self.helpers:
            self.use(name)
        return f"{name}({args})"

    def _cast(self, value: Expr, dtype: str) -> tuple[str, int]:
        if dtype == value.dtype:
            return self._value(value)
        if dtype == "bool":
            return self._infix("!=", 9, value, Const(0, value.dtype))
        if self._is_pair(dtype) or self._is_pair(value.dtype):
            return self._cast_of_pair(value, dtype)
        if dtype in ("float16", "bfloat16", "float32") and is_float(value.dtype) or (
                dtype not in ("float16", "bfloat16")):
            return f"({self.dialect.types[dtype]}){self.value(value, _CAST)}", _CAST
        return f"({self.dialect.types[dtype]})(float){self.value(value, _CAST)}", _CAST

    def _cast_of_pair(self, value: Expr, dtype: str) -> tuple[str, int]:
        """A cast to a type in between, or from one."""
        text, whole = self.value(value), self.dialect.types["int64"]
        if dtype in self.dialect.between:
            return (f"to_pair({text})" if is_float(value.dtype) else
                    f"whole_to_pair(({whole}){self.value(value, _CAST)})"), _ATOM
        if dtype == "float32":
            return f"from_pair({text})", _ATOM
        made = f"from_pair({text})" if is_float(dtype) else f"pair_to_whole({text})"
        return f"({self.dialect.types[dtype]}){made}", _CAST


def sides(buffer: Buffer) -> tuple[int, ...]:
    """Dimensions of an array in a kernel, gaps between rows included."""
    if buffer.scope in FRAGMENTS:           # tiles, and what a thread has of one
        (*outer, rows, columns), tile = buffer.shape, tile_of(buffer)
        count, tiles = tile[0] * tile[1] // WARP, (rows // tile[0], columns // tile[1])
        if buffer.scope == FRAGMENT:
            return (*outer, *tiles, count)
        return (*outer, *tiles[::-1], count * numpy_dtype(buffer.dtype).itemsize // 4)
    pitches = (buffer.shape[0] * buffer.pitches[0], *buffer.pitches) if buffer.shape else (1,)
    if pitches[-1] != 1 or any(a % b for a, b in zip(pitches, pitches[1:])):
        raise ValueError(f"Strides of {buffer.name} must divide each other, not {buffer.strides}")
    return tuple(a // b for a, b in zip(pitches, pitches[1:]))


def _divisions(expr: Expr) -> int:
    return sum(isinstance(node, Binary) and node.op in ("floordiv", "mod") for node in walk(expr))


def _limits(dtype: str) -> Range:
    info = np.iinfo(numpy_dtype(dtype))
    return int(info.min), int(info.max)


def _exact(op: str, a: Range, b: Range) -> Range | None:
    """The range of the result in unbounded integers, where it is known."""
    corners = [x * y for x in a for y in b]
    match op:
        case "add": return a[0] + b[0], a[1] + b[1]
        case "sub": return a[0] - b[1], a[1] - b[0]
        case "mul": return min(corners), max(corners)
        case "min": return min(a[0], b[0]), min(a[1], b[1])
        case "max": return max(a[0], b[0]), max(a[1], b[1])
        case "floordiv" if b[0] == b[1] > 0: return a[0] // b[0], a[1] // b[0]
        case "mod" if b[0] == b[1] > 0: return a if 0 <= a[0] and a[1] < b[0] else (0, b[0] - 1)
    return None


def _within(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _hull(a: Range | None, b: Range | None) -> Range | None:
    return (min(a[0], b[0]), max(a[1], b[1])) if a and b else None
