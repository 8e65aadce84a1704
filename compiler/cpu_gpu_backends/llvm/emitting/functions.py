"""Functions of the math library that processors lack.

For float32 exp, log, tanh and erf are written out here, without branches, so that loops over them
become vectors and objects need no library. The polynomials are near-minimax fits of the functions
named beside them, in relative error, rounded to float32. Largest errors, over all arguments, in
units in the last place of the exact result: exp 1.5, log 1.0, tanh 1.5, erf 1.5 (the tests hold
them to it). Whether the processor fuses a product with a sum changes results within these bounds.

Everything else calls the C library lane by lane in float64: these functions of float64, and all
others (`LIBRARY`) of any type, rounded afterwards.
"""

import math
import struct
from collections.abc import Callable, Sequence

from compiler.cpu_gpu_backends.polynomials import ERF, ERFC, EXP, LOG, TANH

from compiler.cpu_gpu_backends.llvm.instruction_sets import INSTRUCTION_SETS
from .writer import LlvmModule, LlvmType, Writer

LIBRARY = ("pow", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
           "atanh")
FUNCTIONS = ("exp", "log", "tanh", "erf", *LIBRARY)

# log 2 in two parts: the first has so few digits that its product with an exponent is exact.
_LN2_HIGH, _LN2_LOW = 355 / 512, math.log(2) - 355 / 512
_SHIFTER = 1.5 * 2 ** 23        # adding it rounds a number to an integer, in the low bits
_SCALING = {one.lanes: one for one in INSTRUCTION_SETS if one.scales}
"""Instruction sets that multiply by powers of two, by the lanes of a vector."""
_SHIFTER_BITS = int.from_bytes(struct.pack(">f", _SHIFTER), "big")


def function(w: Writer, name: str, kind: LlvmType, *args: str) -> str:
    """Applies one of `FUNCTIONS` to a value of a floating-point type."""
    if kind.dtype == "float64":
        return _of_each_lane(w, name, kind, *args)
    if name in LIBRARY:
        double = kind.of("float64")
        exact = (w.op(f"fpext {kind} {arg} to {double}") for arg in args)
        return w.op(f"fptrunc {double} {_of_each_lane(w, name, double, *exact)} to {kind}")
    a, = args
    single = kind.of("float32")
    if kind.dtype != "float32":
        wide = w.op(f"fpext {kind} {a} to {single}")
        return w.op(f"fptrunc {single} {function(w, name, single, wide)} to {kind}")
    symbol = f"lockstep.{name}.{kind.suffix}"
    if symbol not in w.module.functions:
        w.module.functions[symbol] = _definition(w.module, symbol, _RULES[name], kind)
    return w.call(symbol, kind, (kind, a))


def _of_each_lane(w: Writer, name: str, kind: LlvmType, *args: str) -> str:
    if not kind.lanes:
        return w.call(name, kind, *((kind, arg) for arg in args))
    element, result = LlvmType(kind.dtype), "poison"
    for lane in range(kind.lanes):
        each = [w.op(f"extractelement {kind} {arg}, i64 {lane}") for arg in args]
        value = w.call(name, element, *((element, part) for part in each))
        result = w.op(f"insertelement {kind} {result}, {element} {value}, i64 {lane}")
    return result


def _definition(module: LlvmModule, symbol: str, rule: Callable[["_Floats", str], str],
                kind: LlvmType) -> str:
    w = Writer(module)
    result = rule(_Floats(w, kind), "%x")
    return "\n".join([f"define internal {kind} @{symbol}({kind} %x) alwaysinline nounwind {{",
                      *w.lines, f"  ret {kind} {result}", "}"])


class _Floats:
    """Arithmetic on float32 values of one kind; products may be fused with sums."""

    def __init__(self, w: Writer, kind: LlvmType):
        self.w, self.kind, self.integer, self.flag = w, kind, kind.of("int32"), kind.of("bool")

    def const(self, value: float) -> str:
        return self.kind.const(value)

    def _binary(self, op: str, a: str, b: str) -> str:
        return self.w.op(f"{op} contract {self.kind} {a}, {b}")

    def add(self, a: str, b: str) -> str: return self._binary("fadd", a, b)
    def sub(self, a: str, b: str) -> str: return self._binary("fsub", a, b)
    def mul(self, a: str, b: str) -> str: return self._binary("fmul", a, b)
    def div(self, a: str, b: str) -> str: return self._binary("fdiv", a, b)

    def fused(self, a: str, b: str, c: str) -> str:
        """``a * b + c``."""
        return self.add(self.mul(a, b), c)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        result = self.const(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            result = self.fused(result, x, self.const(coefficient))
        return result

    def call(self, name: str, *args: str) -> str:
        return self.w.call(f"llvm.{name}.{self.kind.suffix}", self.kind,
                           *((self.kind, arg) for arg in args))

    def scaled(self, a: str, n: str) -> str | None:
        """``a * 2^n``, rounded once, by an instruction; None where there is none."""
        found = _SCALING.get(self.kind.lanes)
        if found is None or not set(found.needs) <= set(self.w.module.features):
            return None
        return self.w.call(found.scales, self.kind, (self.kind, a), (self.kind, n),
                           (self.kind, self.const(0)), ("i16", "-1"), ("i32", "4"))

    def compare(self, how: str, a: str, b: str) -> str:
        return self.w.op(f"fcmp {how} {self.kind} {a}, {b}")

    def select(self, condition: str, a: str, b: str) -> str:
        return self.w.op(f"select {self.flag} {condition}, {self.kind} {a}, {self.kind} {b}")

    def bits(self, a: str) -> str:
        return self.w.op(f"bitcast {self.kind} {a} to {self.integer}")

    def from_bits(self, a: str) -> str:
        return self.w.op(f"bitcast {self.integer} {a} to {self.kind}")

    def integers(self, op: str, a: str, b: int | str) -> str:
        b = b if isinstance(b, str) else self.integer.const(b)
        return self.w.op(f"{op} {self.integer} {a}, {b}")


def _exp(f: _Floats, x: str) -> str:
    """``2^n e^r``; the power of two in two factors, for results near the ends."""
    low, high = f.const(-104), f.const(89)
    inside = f.select(f.compare("ogt", x, high), high, x)
    inside = f.select(f.compare("olt", inside, low), low, inside)
    power, n, shifted = _reduced_exp(f, inside)
    if (scaled := f.scaled(power, n)) is not None:
        return scaled
    exponent = _whole(f, shifted)
    half = f.integers("ashr", exponent, 1)
    for part in (half, f.integers("sub", exponent, half)):
        power = f.mul(power, _power_of_two(f, part))
    return power


def _reduced_exp(f: _Floats, x: str) -> tuple[str, str, str]:
    """``e^r`` and n, where ``x = n log(2) + r`` and ``|r| <= log(2) / 2``; and a number whose last
    bits are n.
    """
    shifted = f.fused(x, f.const(1 / math.log(2)), f.const(_SHIFTER))
    n = f.sub(shifted, f.const(_SHIFTER))
    r = f.fused(n, f.const(-_LN2_HIGH), x)
    r = f.fused(n, f.const(-_LN2_LOW), r)
    power = f.fused(f.mul(r, r), f.polynomial(r, EXP), r)
    return f.add(power, f.const(1)), n, shifted


def _whole(f: _Floats, shifted: str) -> str:
    """The integer that the last bits are."""
    return f.integers("sub", f.bits(shifted), _SHIFTER_BITS)


def _power_of_two(f: _Floats, exponent: str) -> str:
    return f.from_bits(f.integers("shl", f.integers("add", exponent, 127), 23))


def _log(f: _Floats, x: str) -> str:
    """``n log 2 + log(1 + t)``, ``1 + t`` between the roots of 1/2 and 2."""
    root = int.from_bytes(struct.pack(">f", math.sqrt(0.5)), "big")
    tiny = f.compare("olt", x, f.const(2.0 ** -126))
    scaled = f.select(tiny, f.mul(x, f.const(2.0 ** 23)), x)
    offset = f.integers("sub", f.bits(scaled), root)
    exponent = f.integers("ashr", offset, 23)
    mantissa = f.integers("add", f.integers("and", offset, (1 << 23) - 1), root)
    t = f.sub(f.from_bits(mantissa), f.const(1))
    n = f.w.op(f"sitofp {f.integer} {exponent} to {f.kind}")
    n = f.select(tiny, f.sub(n, f.const(23)), n)
    square = f.mul(t, t)
    rest = f.mul(f.mul(square, t), f.polynomial(t, LOG))
    rest = f.fused(n, f.const(_LN2_LOW), rest)
    rest = f.fused(square, f.const(-0.5), rest)
    result = f.fused(n, f.const(_LN2_HIGH), f.add(t, rest))
    ends = f.select(f.compare("oeq", x, f.const(math.inf)), x, f.const(math.nan))
    ends = f.select(f.compare("oeq", x, f.const(0)), f.const(-math.inf), ends)
    ordinary = f.w.op(f"and {f.flag} {f.compare('ogt', x, f.const(0))}, "
                      f"{f.compare('olt', x, f.const(math.inf))}")
    return f.select(ordinary, result, ends)


def _tanh(f: _Floats, x: str) -> str:
    """``x + x^3 P(x^2)`` near zero, else ``1 - 2 / (e^2x + 1)``."""
    size = f.call("fabs", x)
    square = f.mul(x, x)
    near = f.fused(f.mul(square, x), f.polynomial(square, TANH), x)
    power = function(f.w, "exp", f.kind, f.add(size, size))
    far = f.sub(f.const(1), f.div(f.const(2), f.add(power, f.const(1))))
    far = f.call("copysign", far, x)
    return f.select(f.compare("olt", size, f.const(0.625)), near, far)


def _erf(f: _Floats, x: str) -> str:
    """``x + x P(x^2)`` near zero, else ``1 - e^(-x Q(x))``, which is 1 from 4 on."""
    size = f.call("fabs", x)
    near = f.fused(x, f.polynomial(f.mul(x, x), ERF), x)
    far = f.select(f.compare("ogt", size, f.const(3.95)), f.const(3.95), size)
    exponent = f.mul(f.sub(f.const(0), far), f.polynomial(far, ERFC))
    power, _, shifted = _reduced_exp(f, exponent)               # of no less than -18
    far = f.sub(f.const(1), f.mul(power, _power_of_two(f, _whole(f, shifted))))
    return f.select(f.compare("olt", size, f.const(0.9)), near, f.call("copysign", far, x))


_RULES = {"exp": _exp, "log": _log, "tanh": _tanh, "erf": _erf}
