"""Floating-point operators, functions and conversions.

Nothing is reassociated or contracted: results of operators are those of NumPy, bit for bit.
Functions (`exp`, `tanh`, ...) come from the C library and may differ from NumPy's in the last
place. A conversion to an integer that cannot hold the value saturates, and gives 0 for NaN.
"""

from compiler.te import bits, is_float, is_signed

from .writer import Writer, constant, type_name

__all__ = ["cast", "float_binary", "float_call", "float_compare"]

_PLAIN = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARISONS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_INTRINSICS = {"abs": "fabs", "exp": "exp", "log": "log", "sqrt": "sqrt", "floor": "floor",
               "ceil": "ceil", "rint": "rint"}


def float_compare(w: Writer, op: str, dtype: str, a: str, b: str) -> str:
    return w.op(f"fcmp {_COMPARISONS[op]} {type_name(dtype)} {a}, {b}")


def float_binary(w: Writer, op: str, dtype: str, a: str, b: str) -> str:
    kind = type_name(dtype)
    if op in _PLAIN:
        return w.op(f"{_PLAIN[op]} {kind} {a}, {b}")
    if op in ("min", "max"):            # NaN wins, as in np.minimum
        return _intrinsic(w, f"{op}imum", dtype, a, b)
    if op == "mod":
        return _mod(w, dtype, a, b)
    if op == "floordiv":
        return _floordiv(w, dtype, a, b)
    raise TypeError(f"Operands of {op} must be integers, not {dtype}")


def float_call(w: Writer, function: str, dtype: str, a: str) -> str:
    if function in _INTRINSICS:
        return _intrinsic(w, _INTRINSICS[function], dtype, a)
    kind = type_name(dtype)
    return w.call(function + "f" * (dtype == "float32"), kind, (kind, a))


def _intrinsic(w: Writer, name: str, dtype: str, *args: str) -> str:
    kind = type_name(dtype)
    return w.call(f"llvm.{name}.f{bits(dtype)}", kind, *((kind, arg) for arg in args))


def _mod(w: Writer, dtype: str, a: str, b: str) -> str:
    """The remainder of the C library, moved to the sign of the divisor."""
    kind, zero = type_name(dtype), constant(0, dtype)
    rest, moved, opposed = _remainder(w, dtype, a, b)
    exact = w.op(f"fcmp oeq {kind} {rest}, {zero}")
    signed_zero = _intrinsic(w, "copysign", dtype, zero, b)
    result = w.op(f"select i1 {opposed}, {kind} {moved}, {kind} {rest}")
    return w.op(f"select i1 {exact}, {kind} {signed_zero}, {kind} {result}")


def _floordiv(w: Writer, dtype: str, a: str, b: str) -> str:
    """The quotient that goes with `_mod`, snapped to the nearest integer; a / 0 is that."""
    kind, zero, one = type_name(dtype), constant(0, dtype), constant(1, dtype)
    rest, _, opposed = _remainder(w, dtype, a, b)
    quotient = w.op(f"fdiv {kind} {w.op(f'fsub {kind} {a}, {rest}')}, {b}")
    lower = w.op(f"fsub {kind} {quotient}, {one}")
    quotient = w.op(f"select i1 {opposed}, {kind} {lower}, {kind} {quotient}")
    floor = _intrinsic(w, "floor", dtype, quotient)
    far = w.op(f"fcmp ogt {kind} {w.op(f'fsub {kind} {quotient}, {floor}')}, "
               f"{constant(0.5, dtype)}")
    floor = w.op(f"select i1 {far}, {kind} {w.op(f'fadd {kind} {floor}, {one}')}, {kind} {floor}")
    plain = w.op(f"fdiv {kind} {a}, {b}")
    signed_zero = _intrinsic(w, "copysign", dtype, zero, plain)
    is_zero = w.op(f"fcmp oeq {kind} {quotient}, {zero}")
    floor = w.op(f"select i1 {is_zero}, {kind} {signed_zero}, {kind} {floor}")
    by_zero = w.op(f"fcmp oeq {kind} {b}, {zero}")
    return w.op(f"select i1 {by_zero}, {kind} {plain}, {kind} {floor}")


def _remainder(w: Writer, dtype: str, a: str, b: str) -> tuple[str, str, str]:
    """``fmod(a, b)``, that plus b, and whether it is not zero and opposed to b in sign."""
    kind, zero = type_name(dtype), constant(0, dtype)
    rest = w.op(f"frem {kind} {a}, {b}")
    moved = w.op(f"fadd {kind} {rest}, {b}")
    signs = w.op(f"xor i1 {w.op(f'fcmp olt {kind} {rest}, {zero}')}, "
                 f"{w.op(f'fcmp olt {kind} {b}, {zero}')}")
    uneven = w.op(f"fcmp one {kind} {rest}, {zero}")
    return rest, moved, w.op(f"and i1 {uneven}, {signs}")


def cast(w: Writer, source: str, target: str, a: str) -> str:
    """Convert a value between number types, as NumPy's ``astype`` does."""
    if source == target:
        return a
    old, new = type_name(source), type_name(target)
    if target == "bool":
        test = f"fcmp une {old} {a}, {constant(0, source)}" if is_float(source) else (
            f"icmp ne {old} {a}, 0")
        return w.op(test)
    match is_float(source), is_float(target):
        case True, True:
            how = "fpext" if bits(source) < bits(target) else "fptrunc"
            return w.op(f"{how} {old} {a} to {new}")
        case True, False:
            sign = "s" if is_signed(target) else "u"
            return w.call(f"llvm.fpto{sign}i.sat.{new}.f{bits(source)}", new, (old, a))
        case False, True:
            return w.op(f"{'sitofp' if is_signed(source) else 'uitofp'} {old} {a} to {new}")
        case _:
            return _resized(w, source, target, a)


def _resized(w: Writer, source: str, target: str, a: str) -> str:
    if bits(source) == bits(target):
        return a
    how = "trunc" if bits(source) > bits(target) else "sext" if is_signed(source) else "zext"
    return w.op(f"{how} {type_name(source)} {a} to {type_name(target)}")
