"""Floating-point operators, functions and conversions.

Nothing is reassociated: results of operators are those of NumPy, bit for bit, except that a kernel
that is built with ``contract`` may fuse a product with the sum or difference that it is part of.
That saves a rounding: each step of a sum of n products is at least as near to the exact sum, and
the bound ``n * eps * sum(|a * b|)`` holds either way. Integers are unaffected.

bfloat16 is computed in float32, and each result is rounded. Functions (`exp`, `tanh`, ...)
are within the bounds of `functions`. A conversion to an integer that cannot hold the value
saturates, and gives 0 for NaN.
"""

from collections.abc import Callable
from typing import Any

from compiler.te import bits, is_float, is_signed

from .functions import FUNCTIONS, function
from .float_ranges import ANY, FloatRange, limits
from .writer import LlvmType, Writer

_PLAIN = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARISONS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_INTRINSICS = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "rint": "rint"}


def float_compare(w: Writer, op: str, kind: LlvmType, a: str, b: str) -> str:
    kind, a, b = _calculated(w, kind, a, b)
    return w.op(f"fcmp {_COMPARISONS[op]} {kind} {a}, {b}")


def float_binary(w: Writer, op: str, kind: LlvmType, a: str, b: str, contract: bool = False) -> str:
    if kind.dtype == "bfloat16":
        single, *wide = _calculated(w, kind, a, b)
        return narrow(w, single, float_binary(w, op, single, *wide))
    if op in _PLAIN:
        flag = " contract" if contract and op != "div" else ""
        return w.op(f"{_PLAIN[op]}{flag} {kind} {a}, {b}")
    if op in ("min", "max") and kind.dtype not in w.module.floats:
        return _extreme_of_bits(w, op, kind, a, b)
    if op in ("min", "max"):            # NaN wins, as in np.minimum
        return _intrinsic(w, f"{op}imum", kind, a, b)
    if op in ("mod", "floordiv"):
        return _in_single(w, _mod if op == "mod" else _floordiv, kind, a, b)
    raise TypeError(f"Operands of {op} must be integers, not {kind.dtype}")


def _extreme_of_bits(w: Writer, op: str, kind: LlvmType, a: str, b: str) -> str:
    """As `float_binary`, for processors without floats: their bits are in order as integers, once
    those below the sign of negative numbers are turned.
    """
    width = bits(kind.dtype)
    word, infinite = kind.of(f"int{width}"), _INFINITE[kind.dtype]
    sizes, keys = word.const((1 << width - 1) - 1), []
    patterns = [w.op(f"bitcast {kind} {operand} to {word}") for operand in (a, b)]
    for pattern in patterns:
        signs = w.op(f"ashr {word} {pattern}, {word.const(width - 1)}")
        keys.append(w.op(f"xor {word} {pattern}, {w.op(f'and {word} {signs}, {sizes}')}"))
    better = w.op(f"icmp {'slt' if op == 'min' else 'sgt'} {word} {keys[0]}, {keys[1]}")
    chosen = _select(w, word, better, *patterns)
    for pattern in reversed(patterns):          # the first NaN wins, a quiet one
        size = w.op(f"and {word} {pattern}, {sizes}")
        is_nan = w.op(f"icmp ugt {word} {size}, {word.const(infinite)}")
        quiet = w.op(f"or {word} {pattern}, {word.const(infinite | infinite >> 1)}")
        chosen = _select(w, word, is_nan, quiet, chosen)
    return w.op(f"bitcast {word} {chosen} to {kind}")


HELD_WHOLE = 1 << 24
"""Integers up to here are float32."""

_BITS_OF_ONE_AND_A_HALF = 0x4B400000
"""The bits of 1.5 * 2**23 in float32."""

_INFINITE = {"float16": 0x7C00, "float32": 0x7F800000, "float64": 0x7FF << 52}
"""The bits of infinity."""


def float_extreme(w: Writer, op: str, kind: LlvmType, old: str, new: str) -> str:
    """As `float_binary`, but of two zeros it may give either: what follows the old value has to
    wait for two instructions instead of five.
    """
    if kind.dtype == "bfloat16":
        return float_binary(w, op, kind, old, new)
    better = w.op(f"fcmp {'ogt' if op == 'max' else 'olt'} {kind} {new}, {old}")
    number = w.op(f"fcmp ord {kind} {new}, {new}")
    return _select(w, kind, number, _select(w, kind, better, new, old), new)


def float_call(w: Writer, name: str, kind: LlvmType, *args: str) -> str:
    if kind.dtype == "bfloat16":
        single, *wide = _calculated(w, kind, *args)
        return narrow(w, single, float_call(w, name, single, *wide))
    if name in FUNCTIONS:
        return function(w, name, kind, *args)
    if name == "tf32":
        return _tf32(w, kind, *args)
    if name in _ROUNDINGS and kind.dtype not in w.module.rounds:
        return _in_single(w, _ROUNDINGS[name], kind, *args)
    return _intrinsic(w, _INTRINSICS[name], kind, *args)


def rounded(w: Writer, kind: LlvmType, a: str) -> str:
    """A vector of float64 as integers of 32 bits that hold it, rounded half to even: the last bits
    of its sum with a number whose last bit is one.
    """
    total = w.op(f"fadd {kind} {a}, {kind.const(1.5 * 2.0**52)}")
    halves = f"<{2 * kind.lanes} x i32>"
    pairs = w.op(f"bitcast {kind} {total} to {halves}")
    places = ", ".join(f"i32 {2 * lane}" for lane in range(kind.lanes))
    return w.op(f"shufflevector {halves} {pairs}, {halves} poison, <{kind.lanes} x i32> "
                f"<{places}>")


def rounded_product(w: Writer, lanes: int, whole: str, share: str) -> str:
    """Vectors of int32 times float32 as int32, rounded once, half to even: the last bits of a fused
    sum with a number whose last bit is one. The integers are within 2**24, the products 2**22.
    """
    word, single = LlvmType("int32", lanes), LlvmType("float32", lanes)
    number = w.op(f"sitofp {word} {whole} to {single}")
    total = _intrinsic(w, "fma", single, number, share, single.const(1.5 * 2.0**23))
    pattern = w.op(f"bitcast {single} {total} to {word}")
    return w.op(f"sub {word} {pattern}, {word.const(_BITS_OF_ONE_AND_A_HALF)}")


def _calculated(w: Writer, kind: LlvmType, *args: str) -> tuple[Any, ...]:
    """The type of the calculation, and the operands in that type: bfloat16 is the upper half of a
    float32.
    """
    if kind.dtype != "bfloat16":
        return kind, *args
    word, single = kind.of("uint32"), kind.of("float32")
    wide = []
    for arg in args:
        pattern = w.op(f"zext {kind} {arg} to {word}")
        pattern = w.op(f"shl {word} {pattern}, {word.const(16)}")
        wide.append(w.op(f"bitcast {word} {pattern} to {single}"))
    return single, *wide


def narrow(w: Writer, single: LlvmType, a: str) -> str:
    """float32 to bfloat16, rounded half to even. Written out, because the instructions for it flush
    subnormals.
    """
    word, short = single.of("uint32"), single.of("bfloat16")
    pattern = w.op(f"bitcast {single} {a} to {word}")
    upper = w.op(f"lshr {word} {pattern}, {word.const(16)}")
    odd = w.op(f"and {word} {upper}, {word.const(1)}")
    rounded = w.op(f"add {word} {pattern}, {w.op(f'add {word} {odd}, {word.const(0x7FFF)}')}")
    rounded = w.op(f"lshr {word} {rounded}, {word.const(16)}")
    quiet = w.op(f"or {word} {upper}, {word.const(0x40)}")
    unordered = w.op(f"fcmp uno {single} {a}, {a}")
    chosen = _select(w, word, unordered, quiet, rounded)
    return w.op(f"trunc {word} {chosen} to {short}")


def _tf32(w: Writer, kind: LlvmType, a: str) -> str:
    """Rounds to tf32: adds half of the last bit kept and truncates, except for infinity and NaN."""
    word = kind.of("int32")
    bits_ = w.op(f"bitcast {kind} {a} to {word}")
    half, mask, infinite = (word.const(value) for value in (0x1000, -0x2000, 0x7F800000))
    rounded = w.op(f"and {word} {w.op(f'add {word} {bits_}, {half}')}, {mask}")
    exponent = w.op(f"and {word} {bits_}, {infinite}")
    finite = w.op(f"icmp ne {word} {exponent}, {infinite}")
    return _select(w, kind, finite, w.op(f"bitcast {word} {rounded} to {kind}"), a)


def _in_single(w: Writer, rule: Callable[..., str], kind: LlvmType, *args: str) -> str:
    """Computes a rule of float16 in float32, as NumPy does remainders."""
    if kind.dtype != "float16":
        return rule(w, kind, *args)
    single = kind.of("float32")
    wide = (w.op(f"fpext {kind} {arg} to {single}") for arg in args)
    return w.op(f"fptrunc {single} {rule(w, single, *wide)} to {kind}")


def _intrinsic(w: Writer, name: str, kind: LlvmType, *args: str) -> str:
    return w.call(f"llvm.{name}.{kind.suffix}", kind, *((kind, arg) for arg in args))


def _select(w: Writer, kind: LlvmType, condition: str, a: str, b: str) -> str:
    return w.op(f"select {kind.of('bool')} {condition}, {kind} {a}, {kind} {b}")


def _mod(w: Writer, kind: LlvmType, a: str, b: str) -> str:
    """The remainder of the C library, moved to the sign of the divisor."""
    rest, moved, opposed = _remainder(w, kind, a, b)
    exact = w.op(f"fcmp oeq {kind} {rest}, {kind.const(0)}")
    signed_zero = _intrinsic(w, "copysign", kind, kind.const(0), b)
    return _select(w, kind, exact, signed_zero, _select(w, kind, opposed, moved, rest))


def _floordiv(w: Writer, kind: LlvmType, a: str, b: str) -> str:
    """The quotient that belongs to `_mod`, snapped to the nearest integer; a / 0 stays as it is."""
    zero, one = kind.const(0), kind.const(1)
    rest, _, opposed = _remainder(w, kind, a, b)
    quotient = w.op(f"fdiv {kind} {w.op(f'fsub {kind} {a}, {rest}')}, {b}")
    lower = w.op(f"fsub {kind} {quotient}, {one}")
    quotient = _select(w, kind, opposed, lower, quotient)
    floor = float_call(w, "floor", kind, quotient)
    far = w.op(f"fcmp ogt {kind} {w.op(f'fsub {kind} {quotient}, {floor}')}, {kind.const(0.5)}")
    floor = _select(w, kind, far, w.op(f"fadd {kind} {floor}, {one}"), floor)
    plain = w.op(f"fdiv {kind} {a}, {b}")
    signed_zero = _intrinsic(w, "copysign", kind, zero, plain)
    is_zero = w.op(f"fcmp oeq {kind} {quotient}, {zero}")
    floor = _select(w, kind, is_zero, signed_zero, floor)
    by_zero = w.op(f"fcmp oeq {kind} {b}, {zero}")
    return _select(w, kind, by_zero, plain, floor)


def _remainder(w: Writer, kind: LlvmType, a: str, b: str) -> tuple[str, str, str]:
    """``fmod(a, b)``, that plus b, and whether it is not zero and opposed to b in sign."""
    zero, flag = kind.const(0), kind.of("bool")
    rest = w.op(f"frem {kind} {a}, {b}")
    moved = w.op(f"fadd {kind} {rest}, {b}")
    signs = w.op(f"xor {flag} {w.op(f'fcmp olt {kind} {rest}, {zero}')}, "
                 f"{w.op(f'fcmp olt {kind} {b}, {zero}')}")
    uneven = w.op(f"fcmp one {kind} {rest}, {zero}")
    return rest, moved, w.op(f"and {flag} {uneven}, {signs}")


def _rint(w: Writer, kind: LlvmType, a: str) -> str:
    """Adds and subtracts a number so large that the sum has no fraction."""
    size, whole = _intrinsic(w, "fabs", kind, a), kind.const(2.0 ** _FRACTION[kind.dtype])
    near = w.op(f"fsub {kind} {w.op(f'fadd {kind} {size}, {whole}')}, {whole}")
    has_fraction = w.op(f"fcmp olt {kind} {size}, {whole}")
    return _select(w, kind, has_fraction, _intrinsic(w, "copysign", kind, near, a), a)


def _beside(compare: str, op: str) -> Callable[[Writer, LlvmType, str], str]:
    """Rounds to one side: the nearest integer, or its neighbour where that lies on the other."""
    def rule(w: Writer, kind: LlvmType, a: str) -> str:
        near = _rint(w, kind, a)
        neighbour = w.op(f"{op} {kind} {near}, {kind.const(1)}")
        beyond = w.op(f"fcmp {compare} {kind} {near}, {a}")
        return _intrinsic(w, "copysign", kind, _select(w, kind, beyond, neighbour, near), a)
    return rule


_FRACTION = {"float32": 23, "float64": 52}
_ROUNDINGS: dict[str, Callable[..., str]] = {
    "rint": _rint, "floor": _beside("ogt", "fsub"), "ceil": _beside("olt", "fadd")}
"""For processors without such instructions: the same results."""


def cast(w: Writer, kind: LlvmType, target: str, a: str, known: FloatRange = ANY) -> str:
    """Convert a value between number types, as NumPy's ``astype`` does. A float lies in the
    range `known`.
    """
    source, new = kind.dtype, kind.of(target)
    if source == target:
        return a
    if source == "bfloat16":
        single, wide = _calculated(w, kind, a)
        return cast(w, single, target, wide)
    if target == "bfloat16":
        single = kind.of("float32")
        return narrow(w, single, cast(w, kind, "float32", a))
    if target == "bool":
        test = "fcmp une" if is_float(source) else "icmp ne"
        return w.op(f"{test} {kind} {a}, {kind.const(0)}")
    match is_float(source), is_float(target):
        case True, True:
            how = "fpext" if bits(source) < bits(target) else "fptrunc"
            return w.op(f"{how} {kind} {a} to {new}")
        case True, False:
            sign = "s" if is_signed(target) else "u"
            if known.within(limits(target)):
                if known.nan:
                    number = w.op(f"fcmp ord {kind} {a}, {a}")
                    a = _select(w, kind, number, a, kind.const(0.0))
                return w.op(f"fpto{sign}i {kind} {a} to {new}")
            return w.call(f"llvm.fpto{sign}i.sat.{new.suffix}.{kind.suffix}", new, (kind, a))
        case False, True:
            return w.op(f"{'sitofp' if is_signed(source) else 'uitofp'} {kind} {a} to {new}")
        case _:
            return _resized(w, kind, new, a)


def _resized(w: Writer, kind: LlvmType, new: LlvmType, a: str) -> str:
    width, target = bits(kind.dtype), bits(new.dtype)
    if width == target:
        return a
    how = "trunc" if width > target else "sext" if is_signed(kind.dtype) else "zext"
    return w.op(f"{how} {kind} {a} to {new}")
