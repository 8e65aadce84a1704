"""Integer and boolean operators. What LLVM leaves undefined is defined here, as NumPy has it:
arithmetic wraps, divisions round down, a shift by the width or more shifts everything out. Only a
division by zero has no defined result; it does not trap.
"""

from compiler.te import INDEX, bits, is_signed

from .writer import LlvmType, Writer, literal

_PLAIN = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_BOOLEAN = {"add": "or", "mul": "and", "max": "or", "min": "and"}
_COMPARISONS = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def integer_compare(w: Writer, op: str, kind: LlvmType, a: str, b: str) -> str:
    sign = "s" if is_signed(kind.dtype) else "u"
    if op in ("eq", "ne") and a.isdecimal() and b.isdecimal():
        return str((int(a) == int(b)) == (op == "eq")).lower()
    condition = op if op in ("eq", "ne") else f"{sign}{_COMPARISONS[op]}"
    return w.op(f"icmp {condition} {kind} {a}, {b}")


def integer_abs(w: Writer, kind: LlvmType, a: str) -> str:
    if not is_signed(kind.dtype):
        return a
    return w.call(f"llvm.abs.{kind.suffix}", kind, (kind, a), ("i1", "false"))


def integer_binary(w: Writer, op: str, kind: LlvmType, a: str, b: str) -> str:
    """One operator of `compiler.te` on values of an integer type or bool."""
    if kind.dtype == "bool":
        op = _BOOLEAN.get(op, op)
    if op in _PLAIN:
        return w.op(f"{_PLAIN[op]} {kind} {a}, {b}")
    if op in ("min", "max"):
        name = f"llvm.{'s' if is_signed(kind.dtype) else 'u'}{op}.{kind.suffix}"
        return w.call(name, kind, (kind, a), (kind, b))
    if op in ("shl", "shr"):
        return _shift(w, op, kind, a, b)
    if op == "rshift_rne":
        return _rshift_rne(w, kind, a, b)
    return _division(w, op, kind, a, b)


def _select(w: Writer, kind: LlvmType, condition: str, a: str, b: str) -> str:
    return w.op(f"select {kind.of('bool')} {condition}, {kind} {a}, {kind} {b}")


def _shift(w: Writer, op: str, kind: LlvmType, a: str, b: str) -> str:
    width = bits(kind.dtype)
    signed = is_signed(kind.dtype) and op == "shr"
    name = {"shl": "shl", "shr": "ashr" if signed else "lshr"}[op]
    outside = w.op(f"icmp uge {kind} {b}, {kind.const(width)}")
    limit = kind.const(width - 1 if signed else 0)
    result = w.op(f"{name} {kind} {a}, {_select(w, kind, outside, limit, b)}")
    return result if signed else _select(w, kind, outside, kind.const(0), result)


def _rshift_rne(w: Writer, kind: LlvmType, a: str, b: str) -> str:
    """The quotient, plus one where twice the remainder plus the quotient's lowest bit exceeds the
    divisor.
    """
    signed, wide = is_signed(kind.dtype), kind.of(INDEX)
    short = bits(kind.dtype) < 64
    if short:
        extend = "sext" if signed else "zext"
        a, b = (w.op(f"{extend} {kind} {operand} to {wide}") for operand in (a, b))
    amount = w.op(f"and {wide} {b}, {wide.const(63)}")
    quotient = w.op(f"{'ashr' if signed else 'lshr'} {wide} {a}, {amount}")
    whole = w.op(f"shl {wide} {quotient}, {amount}")
    rest = w.op(f"sub {wide} {a}, {whole}")
    divisor = w.op(f"shl {wide} {wide.const(1)}, {amount}")
    odd = w.op(f"and {wide} {quotient}, {wide.const(1)}")
    doubled = w.op(f"shl {wide} {rest}, {wide.const(1)}")
    twice = w.op(f"or {wide} {doubled}, {odd}")
    exceeds = w.op(f"icmp ugt {wide} {twice}, {divisor}")
    up = w.op(f"zext {kind.of('bool')} {exceeds} to {wide}")
    result = w.op(f"add {wide} {quotient}, {up}")
    return w.op(f"trunc {wide} {result} to {kind}") if short else result


def _division(w: Writer, op: str, kind: LlvmType, a: str, b: str) -> str:
    if not is_signed(kind.dtype):
        divisor = _nonzero(w, kind, b)
        return w.op(f"{'urem' if op == 'mod' else 'udiv'} {kind} {a}, {divisor}")
    number = literal(b)
    if op != "div" and number is not None and number > 0 and number & (number - 1) == 0:
        return _power(w, op, kind, a, number)
    return _signed_division(w, op, kind, a, b)


def _nonzero(w: Writer, kind: LlvmType, b: str) -> str:
    if literal(b):
        return b
    zero = w.op(f"icmp eq {kind} {b}, {kind.const(0)}")
    return _select(w, kind, zero, kind.const(1), b)


def _power(w: Writer, op: str, kind: LlvmType, a: str, divisor: int) -> str:
    if op == "mod":
        return w.op(f"and {kind} {a}, {kind.const(divisor - 1)}")
    return w.op(f"ashr {kind} {a}, {kind.const(divisor.bit_length() - 1)}")


def _signed_division(w: Writer, op: str, kind: LlvmType, a: str, b: str) -> str:
    """Divides by -1 by negating: the division would overflow for the least value."""
    divisor, negates, flag = _nonzero(w, kind, b), None, kind.of("bool")
    if literal(b) in (None, -1):
        negates = w.op(f"icmp eq {kind} {b}, {kind.const(-1)}")
        divisor = _select(w, kind, negates, kind.const(1), divisor)
    quotient = w.op(f"sdiv {kind} {a}, {divisor}")
    rest = w.op(f"srem {kind} {a}, {divisor}")
    uneven = w.op(f"icmp ne {kind} {rest}, {kind.const(0)}")
    signs = w.op(f"xor {kind} {rest}, {divisor}")
    opposed = w.op(f"icmp slt {kind} {signs}, {kind.const(0)}")
    down = w.op(f"and {flag} {uneven}, {opposed}")
    if op == "mod":
        return _select(w, kind, down, w.op(f"add {kind} {rest}, {divisor}"), rest)
    if op == "floordiv":
        quotient = w.op(f"add {kind} {quotient}, {w.op(f'sext {flag} {down} to {kind}')}")
    if negates is None:
        return quotient
    negated = w.op(f"sub {kind} {kind.const(0)}, {a}")
    return _select(w, kind, negates, negated, quotient)
