"""Integer and boolean operators. What LLVM leaves undefined is defined here, as NumPy has it:
arithmetic wraps, divisions round down, a shift by the width or more shifts everything out. Only a
division by zero has no defined result; it does not trap.
"""

from compiler.te import bits, is_signed

from .writer import Writer, type_name

__all__ = ["integer_binary", "integer_compare"]

_PLAIN = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_BOOLEAN = {"add": "or", "mul": "and", "max": "or", "min": "and"}
_COMPARISONS = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def integer_compare(w: Writer, op: str, dtype: str, a: str, b: str) -> str:
    sign = "s" if is_signed(dtype) else "u"
    condition = op if op in ("eq", "ne") else f"{sign}{_COMPARISONS[op]}"
    return w.op(f"icmp {condition} {type_name(dtype)} {a}, {b}")


def integer_binary(w: Writer, op: str, dtype: str, a: str, b: str) -> str:
    """One operator of `compiler.te` on values of an integer type or bool."""
    kind = type_name(dtype)
    if dtype == "bool":
        op = _BOOLEAN.get(op, op)
    if op in _PLAIN:
        return w.op(f"{_PLAIN[op]} {kind} {a}, {b}")
    if op in ("min", "max"):
        name = f"llvm.{'s' if is_signed(dtype) else 'u'}{op}.{kind}"
        return w.call(name, kind, (kind, a), (kind, b))
    if op in ("shl", "shr"):
        return _shift(w, op, dtype, a, b)
    if op == "rshift_rne":
        return _rshift_rne(w, dtype, a, b)
    return _division(w, op, dtype, a, b)


def _shift(w: Writer, op: str, dtype: str, a: str, b: str) -> str:
    kind, width = type_name(dtype), bits(dtype)
    signed = is_signed(dtype) and op == "shr"
    name = {"shl": "shl", "shr": "ashr" if signed else "lshr"}[op]
    outside = w.op(f"icmp uge {kind} {b}, {width}")
    limit = width - 1 if signed else 0
    amount = w.op(f"select i1 {outside}, {kind} {limit}, {kind} {b}")
    result = w.op(f"{name} {kind} {a}, {amount}")
    return result if signed else w.op(f"select i1 {outside}, {kind} 0, {kind} {result}")


def _rshift_rne(w: Writer, dtype: str, a: str, b: str) -> str:
    """The quotient, plus one where twice the rest, plus its lowest bit, exceeds the divisor."""
    kind, signed = type_name(dtype), is_signed(dtype)
    if kind != "i64":
        extend = "sext" if signed else "zext"
        a, b = (w.op(f"{extend} {kind} {one} to i64") for one in (a, b))
    amount = w.op(f"and i64 {b}, 63")
    quotient = w.op(f"{'ashr' if signed else 'lshr'} i64 {a}, {amount}")
    whole = w.op(f"shl i64 {quotient}, {amount}")
    rest = w.op(f"sub i64 {a}, {whole}")
    divisor = w.op(f"shl i64 1, {amount}")
    odd = w.op(f"and i64 {quotient}, 1")
    twice = w.op(f"or i64 {w.op(f'shl i64 {rest}, 1')}, {odd}")
    up = w.op(f"zext i1 {w.op(f'icmp ugt i64 {twice}, {divisor}')} to i64")
    result = w.op(f"add i64 {quotient}, {up}")
    return result if kind == "i64" else w.op(f"trunc i64 {result} to {kind}")


def _division(w: Writer, op: str, dtype: str, a: str, b: str) -> str:
    if not is_signed(dtype):
        divisor = _nonzero(w, dtype, b)
        return w.op(f"{'urem' if op == 'mod' else 'udiv'} {type_name(dtype)} {a}, {divisor}")
    if op != "div" and _is_power(b):
        return _power(w, op, dtype, a, int(b))
    return _signed_division(w, op, dtype, a, b)


def _nonzero(w: Writer, dtype: str, b: str) -> str:
    if _is_number(b) and int(b):
        return b
    kind = type_name(dtype)
    zero = w.op(f"icmp eq {kind} {b}, 0")
    return w.op(f"select i1 {zero}, {kind} 1, {kind} {b}")


def _power(w: Writer, op: str, dtype: str, a: str, divisor: int) -> str:
    kind = type_name(dtype)
    if op == "mod":
        return w.op(f"and {kind} {a}, {divisor - 1}")
    return w.op(f"ashr {kind} {a}, {divisor.bit_length() - 1}")


def _signed_division(w: Writer, op: str, dtype: str, a: str, b: str) -> str:
    """Dividing by -1 overflows for the least value, so that is a negation instead."""
    kind = type_name(dtype)
    divisor, negates = _nonzero(w, dtype, b), None
    if not _is_number(b) or int(b) == -1:
        negates = w.op(f"icmp eq {kind} {b}, -1")
        divisor = w.op(f"select i1 {negates}, {kind} 1, {kind} {divisor}")
    quotient = w.op(f"sdiv {kind} {a}, {divisor}")
    rest = w.op(f"srem {kind} {a}, {divisor}")
    uneven = w.op(f"icmp ne {kind} {rest}, 0")
    opposed = w.op(f"icmp slt {kind} {w.op(f'xor {kind} {rest}, {divisor}')}, 0")
    down = w.op(f"and i1 {uneven}, {opposed}")
    if op == "mod":
        return w.op(f"select i1 {down}, {kind} {w.op(f'add {kind} {rest}, {divisor}')}, "
                    f"{kind} {rest}")
    if op == "floordiv":
        quotient = w.op(f"add {kind} {quotient}, {w.op(f'sext i1 {down} to {kind}')}")
    if negates is None:
        return quotient
    negated = w.op(f"sub {kind} 0, {a}")
    return w.op(f"select i1 {negates}, {kind} {negated}, {kind} {quotient}")


def _is_number(text: str) -> bool:
    return not text.startswith("%")


def _is_power(text: str) -> bool:
    return _is_number(text) and int(text) > 0 and int(text) & (int(text) - 1) == 0
