"""Expressions as C99.

They are those of `simt.expressions`, and what C needs besides: parentheses that compilers ask for,
conversions that are defined for all values, float16 and bfloat16, records. A value of float16 or
bfloat16 is a `float` that the type holds; elements in memory are their bits.
"""

from collections.abc import Collection, Mapping

from compiler.cpu_gpu_backends.llvm.emitting.float_ranges import float_range, limits
from compiler.cpu_gpu_backends.simt.expressions import INT32, SYMBOLS, Expressions, sides
from compiler.ir import is_index, offset
from compiler.te import (Binary, Buffer, Cast, Const, Expr, Extent, Field, Read, Select, Var, bits,
                         is_float, is_integer, is_record, is_signed, numpy_dtype, record_places)

from .helpers import C, HELPERS, ROUNDED, STORED

__all__ = ["INT32", "CExpressions", "dimensions"]

_TERNARY, _SHIFT, _CAST, _ATOM = 3, 8, 14, 16
_LEAST = {4: 9, 5: 9, 6: 14, 7: 14, 8: 14, 9: 11, 10: 11}
"""Operators to the precedence that an operand has at least unless it is of the same chain: what
compilers warn of is in parentheses.
"""
_EXACT = ("abs", "floor", "ceil", "rint")


def dimensions(buffer: Buffer) -> tuple[int, ...]:
    """The dimensions of an array of C that holds the buffer: one where its rows do not divide each
    other, or where it has records.
    """
    if is_record(buffer.dtype):
        return (int(buffer.size_bytes),)
    try:
        return sides(buffer)
    except ValueError:
        return (int(buffer.size),)


class CExpressions(Expressions):
    """Prints expressions. `arrays` are the names of buffers that are arrays of the function,
    `contents` the least and the greatest number in buffers of which more is known than the type.
    """

    helpers = HELPERS

    def __init__(self, names: Mapping[str, str], ranges: dict[Var, Extent],
                 arrays: Collection[str] = (),
                 contents: Mapping[Buffer, tuple[int, int]] | None = None):
        super().__init__(C, names, ranges)
        self.arrays = arrays
        self.contents = contents or {}

    def range(self, expr: Expr) -> tuple[int, int] | None:
        if isinstance(expr, Read) and expr.buffer in self.contents:
            return self.contents[expr.buffer]
        if isinstance(expr, Binary) and expr.op == "rshift_rne":
            value, by = self.range(expr.a), self.range(expr.b)
            if value and by and 0 <= by[0] < 64:
                return min(value[0] >> by[0], -1), (value[1] >> by[0]) + 1
        return super().range(expr)

    def scaling(self, expr: Expr) -> tuple[Expr, Expr, Expr] | None:
        """An int32, the multiplier and the shift, where the expression is their product of at most
        49 bits, shifted to at most 31 and rounded.
        """
        match expr:
            case Binary("rshift_rne", Binary("mul", Cast(a, "int64"), Cast(mult, "int64")), shift):
                times, by = self.range(mult), self.range(shift)
                if a.dtype == mult.dtype == "int32" and times and by and (
                        0 <= times[0] and times[1] < 1 << 16 and 17 <= by[0] and by[1] < 47):
                    return a, mult, shift
        return None

    def _leaves_room(self, scaled: Expr) -> bool:
        """True if half of the last place can be added to a scaled product of 48 bits."""
        assert isinstance(scaled, Binary)
        product, by = self.range(scaled.a), self.range(scaled.b)
        return product is not None and by is not None and product[1] + (1 << by[1] - 1) < 1 << 47

    def _value(self, expr: Expr) -> tuple[str, int]:
        match expr:
            case Read(buffer, indices) if expr.dtype in ROUNDED:
                return self.call_of(expr.dtype, 0, self.element(buffer, indices)), _ATOM
            case Field(base, name):
                return self._field(base, name)
        return super()._value(expr)

    def call_of(self, dtype: str, place: int, arg: str) -> str:
        """A call of a function of `ROUNDED`."""
        name = ROUNDED[dtype][place]
        self.use("bfloat" if dtype == "bfloat16" and place < 2 else name)
        return f"{name}({arg})"

    def stored(self, value: Expr) -> str:
        """A value as an element has it: rounded once, where that is not its own type."""
        if value.dtype not in ROUNDED:
            return self.value(value)
        if value in self.held:
            return self.call_of(value.dtype, 1, self.held[value])
        match value:
            case Const():
                return f"0x{numpy_dtype(value.dtype).type(value.value).view('uint16'):04x}u"
            case Read(buffer, indices):
                return self.element(buffer, indices)
            case Select(condition, a, b):
                return (f"{self.value(condition, _CAST)} ? {self.stored(a)} : {self.stored(b)}")
            case Binary("add" | "sub" | "mul" | "div" as op, a, b):
                return self.call_of(value.dtype, 1, self._infix(*SYMBOLS[op], a, b)[0])
        return self.call_of(value.dtype, 1, self.value(value))

    def _constant(self, const: Const) -> tuple[str, int]:
        """Small types are computed as int, so that their constants are too."""
        text, own = super()._constant(const)
        if is_integer(const.dtype) and bits(const.dtype) < 32:
            text = text.removesuffix("u")
        return text, own

    def _side(self, expr: Expr) -> str:
        return self.value(expr, _TERNARY)

    # Memory

    def element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        name = self.names.get(buffer.name, buffer.name)
        if is_record(buffer.dtype):
            return f"{name}[{self.value(self._first_byte(buffer, indices))}]"
        if buffer.name not in self.arrays:
            return f"{name}[{self._subscript(self.flat(buffer, indices))}]"
        shape = dimensions(buffer)
        if buffer.size == 1:
            return name
        if len(shape) == 1:
            return f"{name}[{self._subscript(self.flat(buffer, indices))}]"
        return name + "".join(f"[{self._subscript(index)}]" for index, extent in zip(indices, shape)
                              if extent > 1)

    def _subscript(self, index: Expr) -> str:
        while isinstance(index, Cast) and is_integer(index.value.dtype) and (
                bits(index.value.dtype) < 64 and index not in self.held):
            index = index.value         # any integer may be a subscript
        return self.value(index)

    def _first_byte(self, buffer: Buffer, indices: tuple[Expr, ...], place: int = 0) -> Expr:
        return self._normal(offset(buffer, indices) * numpy_dtype(buffer.dtype).itemsize + place)

    def _field(self, base: Read, name: str) -> tuple[str, int]:
        dtype, place = record_places(base.dtype)[name]
        array = self.names.get(base.buffer.name, base.buffer.name)
        at = f"&{array}[{self.value(self._first_byte(base.buffer, base.indices, place))}]"
        width = numpy_dtype(dtype).itemsize
        if dtype == "float64":
            return self.call("bytes_double", at), _ATOM
        word = self.call(f"bytes{width}", at)
        if dtype == "float32":
            self.use("bits")
            return f"bits_float({word})", _ATOM
        if dtype in ROUNDED:
            return self.call_of(dtype, 0, word), _ATOM
        return (word, _ATOM) if dtype == f"uint{8 * width}" else (
            f"({STORED[dtype]}){word}", _CAST)

    # Operators

    def _infix(self, symbol: str, own: int, a: Expr, b: Expr) -> tuple[str, int]:
        least = _LEAST.get(own, own)
        (left, first), (right, second) = self._value(a), self._value(b)
        if first < least and not (first == own and own < 9):
            left = f"({left})"
        if second < max(least, own + 1) or right.startswith("-") and symbol == "-":
            right = f"({right})"
        return f"{left} {symbol} {right}", own

    def _rounded(self, dtype: str, text: str) -> tuple[str, int]:
        return self.call_of(dtype, 2, text), _ATOM

    def _integer_binary(self, expr: Binary) -> tuple[str, int]:
        if expr.op in ("min", "max"):
            return self._extreme(expr), _ATOM
        return super()._integer_binary(expr)

    def _extreme(self, expr: Binary) -> str:
        """A minimum or maximum. Indices and types of fewer than 32 bits are computed as int."""
        width = 32 if is_index(expr) else max(bits(expr.dtype), 32)
        unsigned = not is_signed(expr.dtype) and bits(expr.dtype) >= 32
        dtype = f"{'u' * unsigned}int{width}"
        match expr:
            case Binary("min", Binary("max", value, Const() as low), Const() as high) if (
                    expr.a not in self.held):
                return self.call(f"clamp_{dtype}", *map(self.value, (value, low, high)))
        return self.call(f"{expr.op}_{dtype}", self.value(expr.a), self.value(expr.b))

    def _wrapping(self, expr: Binary) -> tuple[str, int]:
        """Products of uint16 do not fit int, as which they are computed."""
        if expr.op == "mul" and expr.dtype == "uint16" and not self.fits(expr):
            return (f"(uint16_t)((uint32_t){self.value(expr.a, _CAST)} * "
                    f"{self.value(expr.b, _CAST)})"), _CAST
        symbol, own = SYMBOLS[expr.op]
        if (expr.dtype == "int64" and not is_index(expr) and self._is_wide(expr)
                and not self._is_wide(expr.a) and not self._is_wide(expr.b)):
            left = f"(int64_t){self.value(expr.a, _CAST)}"      # else computed as int
            return f"{left} {symbol} {self.value(expr.b, own + 1)}", own
        return super()._wrapping(expr)

    def _has_own_type(self, expr: Expr) -> bool:
        """True if C computes it in its own type, or in int, which has the same values."""
        return bits(expr.dtype) <= 32 or self._is_wide(expr)

    def _is_wide(self, expr: Expr) -> bool:
        """True if the text of an int64 has 64 bits: texts of indices and small constants are int.
        """
        match expr:
            case Const(): return not _is_int32((int(expr.value), int(expr.value)))
            case Var(): return expr not in self.ranges
            case Select(_, a, b): return self._is_wide(a) or self._is_wide(b)
            case Binary(op, a, b) if op in ("add", "sub", "mul", "and", "or", "xor"):
                return self._is_wide(a) or self._is_wide(b) or not _is_int32(self.range(expr))
        return not is_index(expr)

    def _shift(self, expr: Binary) -> tuple[str, int]:
        op, a, b, dtype = expr.op, expr.a, expr.b, expr.dtype
        if op == "rshift_rne" or not isinstance(b, Const) or not 0 <= b.value < bits(dtype):
            name = {"shl": "shift_left", "shr": "shift_right", "rshift_rne": "rshift_rne"}[op]
            name = f"unsigned_{name}" if dtype == "uint64" and op != "shl" else name
            if name == "rshift_rne" and dtype == "int32" and self._is_short(b):
                return self.call("rshift_rne32", self.value(a), self.value(b)), _ATOM
            text = self.call(name, self.value(a), self.value(b))
            own = "uint64" if name.startswith("unsigned") else "int64"
            return (text, _ATOM) if dtype == own else (f"({STORED[dtype]}){text}", _CAST)
        if op == "shr":                 # of what is computed as int, the result fits
            text = f"{self.value(a, _CAST)} >> {b.value}"
            return (text, _SHIFT) if self._has_own_type(a) else (
                f"({STORED[dtype]})({text})", _CAST)
        word = f"uint{max(bits(dtype), 32)}_t"
        return f"({STORED[dtype]})(({word}){self.value(a, _CAST)} << {b.value})", _CAST

    def _is_short(self, shift: Expr) -> bool:
        by = self.range(shift)
        return by is not None and 0 <= by[0] and by[1] < 31

    def _call(self, function: str, arg: Expr, *more: Expr) -> str:
        if not is_float(arg.dtype):
            return self._absolute(arg)
        name = C.math(function, arg.dtype)
        args = [self.value(operand) for operand in (arg, *more)]
        if name.startswith("("):                # a function of float64
            args = [f"(double){self.value(operand, _CAST)}" for operand in (arg, *more)]
        text = f"{name}({', '.join(args)})"
        if name in HELPERS:
            self.use(name)
        if arg.dtype in ROUNDED and function not in _EXACT:
            return self.call_of(arg.dtype, 2, text)
        return f"({text})" if text.startswith("(") else text

    def _absolute(self, arg: Expr) -> str:
        if not is_signed(arg.dtype):
            return self.value(arg, _ATOM)
        text = self.call(f"abs_int{max(bits(arg.dtype), 32)}", self.value(arg))
        return text if bits(arg.dtype) >= 32 else f"(({STORED[arg.dtype]}){text})"

    def _cast(self, value: Expr, dtype: str) -> tuple[str, int]:
        source = value.dtype
        if source == dtype:
            return self._value(value)
        if dtype in ROUNDED:
            if dtype == "float16" and source == "float64":
                return self.call("round_half64", self.value(value)), _ATOM
            text = self.value(value) if source == "float32" or source in ROUNDED else (
                f"(float){self.value(value, _CAST)}")
            return self.call_of(dtype, 2, text), _ATOM
        if is_float(source) and is_integer(dtype):
            return self._to_integer(value, dtype)
        if is_integer(source) and is_integer(dtype):
            return self._resized(value, dtype)
        if source in ROUNDED and dtype == "float32":
            return self._value(value)
        return super()._cast(value, dtype)

    def _resized(self, value: Expr, dtype: str) -> tuple[str, int]:
        if dtype == "int32" and (parts := self.scaling(value)) is not None:
            a, mult, shift = parts
            shift = shift.value if isinstance(shift, Cast) else shift
            name = "scaled_small" if self._leaves_room(value) else "scaled"
            return self.call(name, *map(self.value, (a, mult, shift))), _ATOM
        return self._of_fewer_bits(value, dtype)

    def _of_fewer_bits(self, value: Expr, dtype: str) -> tuple[str, int]:
        """C computes small types as int by itself; of two conversions to fewer bits the last says
        all.
        """
        if dtype == "int32" and bits(value.dtype) < 32:
            return self._value(value)
        while (isinstance(value, Cast) and is_integer(value.value.dtype) and value not in self.held
               and bits(dtype) <= bits(value.dtype)):
            value = value.value
        return f"({STORED[dtype]}){self.value(value, _CAST)}", _CAST

    def _to_integer(self, value: Expr, dtype: str) -> tuple[str, int]:
        found = float_range(value)
        if found.within(limits(dtype)) and not found.nan:
            return f"({STORED[dtype]}){self.value(value, _CAST)}", _CAST
        source = "double" if value.dtype == "float64" else "float"
        return self.call(f"{dtype}_from_{source}", self.value(value)), _ATOM


def _is_int32(found: tuple[int, int] | None) -> bool:
    return found is not None and INT32[0] <= found[0] and found[1] <= INT32[1]
