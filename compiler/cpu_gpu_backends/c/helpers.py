"""C99 as a language of texts, and the functions that its texts may call.

What C leaves undefined is not relied on: wrapping arithmetic is unsigned, shifts by the width or
more and conversions that do not fit are functions. What it leaves to compilers is checked by a text
before its first kernel (`BEGIN`): two's complement, arithmetic shifts to the right, conversions
that wrap, `int` of at least 32 bits, floats of IEEE 754 that are computed in their own type.
"""

import math
import struct
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from compiler.cpu_gpu_backends.polynomials import ERF, ERFC, EXP, LOG, TANH
from compiler.cpu_gpu_backends.simt.dialects import HELPERS as OF_ALL
from compiler.cpu_gpu_backends.simt.dialects import Helper, Language
from compiler.te import SMALL, bits, is_signed

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

STORED = {**{dtype: f"{dtype}_t" for dtype in INTEGERS}, "float16": "uint16_t",
          "bfloat16": "uint16_t", "float32": "float", "float64": "double", "bool": "bool",
          **dict.fromkeys(SMALL, "uint8_t")}
"""C types of elements in memory, by element type."""

FUNCTIONS32 = {"exp": "exp_float", "log": "log_float", "tanh": "tanh_float", "erf": "erf_float",
               "rint": "round_even", "floor": "floor_float", "ceil": "ceil_float",
               "tf32": "to_tf32", "abs": "fabsf", "sqrt": "sqrtf"}
"""Functions of float32 that are written out here, or instructions; the others are float64's."""


def _math(name: str, dtype: str) -> str:
    if dtype != "float64":
        return FUNCTIONS32.get(name, f"(float){name}")
    return "fabs" if name == "abs" else name


C = Language(name="c", types={**STORED, "float16": "float", "bfloat16": "float"},
             function="static inline ", math=_math, infinity="INFINITY", nan="NAN",
             truth=("false", "true"), long_suffix="LL")

BEGIN = """\
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined __FAST_MATH__ || (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16)
#error "floats must be computed as IEEE 754 says, in their own type: no -ffast-math, no x87"
#endif
#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize ("-ffp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif
#ifdef __cplusplus
#define RESTRICT
#else
#define RESTRICT restrict
#endif
typedef char int_has_32_bits_and_wraps[INT_MAX >= 0x7fffffff && (-1 >> 1) == -1
    && (int8_t)0x180 == -128 && sizeof(bool) == 1 && FLT_MANT_DIG == 24 ? 1 : -1];
"""
"""What every text begins with."""


def _text(value: float) -> str:
    return f"{np.float32(value)!s}f"


def _polynomial(x: str, coefficients: Sequence[float]) -> str:
    """By Horner's rule, each product and each sum rounded."""
    *rest, text = map(_text, coefficients)
    for place, coefficient in enumerate(reversed(rest)):
        text = f"{text} * {x} + {coefficient}" if not place else f"({text}) * {x} + {coefficient}"
    return f"({text})"


_BITS = """\
static inline uint32_t float_bits(float x) {
  uint32_t word;
  memcpy(&word, &x, sizeof word);
  return word;
}
static inline float bits_float(uint32_t word) {
  float x;
  memcpy(&x, &word, sizeof x);
  return x;
}
"""

_HALF = """\
static inline float half_value(uint16_t half) {
  const uint32_t size = half & 0x7fffu, sign = (uint32_t)(half & 0x8000u) << 16;
  if (size < 0x400) return bits_float(float_bits((float)size * 5.9604644775390625e-8f) | sign);
  if (size < 0x7c00) return bits_float(((size << 13) + (112u << 23)) | sign);
  return bits_float((size << 13) | 0x7f800000u | (uint32_t)(size > 0x7c00) << 22 | sign);
}
"""

_HALF_BITS = """\
static inline uint16_t half_bits(float x) {  // half to even
  const uint32_t word = float_bits(x), size = word & 0x7fffffffu;
  uint32_t half;
  if (size > 0x7f800000u)
    half = 0x7e00u | (size >> 13 & 0x1ffu);
  else if (size >= 0x477ff000u)
    half = 0x7c00u;
  else if (size < 0x38800000u)
    half = float_bits(bits_float(size) + 0.5f) - 0x3f000000u;
  else
    half = ((size + 0xfffu + (size >> 13 & 1u)) >> 13) - (112u << 10);
  return (uint16_t)(half | (word >> 16 & 0x8000u));
}
"""

_HALF_BITS64 = """\
static inline uint16_t half_bits64(double x) {  // half to even, rounded once
  const float near = (float)x;
  uint32_t word = float_bits(near);
  if (near == near && (double)near != x && (word & 1u) == 0)  // to odd, which rounds like x
    word = (double)fabsf(near) < fabs(x) ? word + 1 : word - 1;
  return half_bits(bits_float(word));
}
"""

_BFLOAT = """\
static inline float bfloat_value(uint16_t upper) { return bits_float((uint32_t)upper << 16); }
static inline uint16_t bfloat_bits(float x) {  // half to even
  const uint32_t word = float_bits(x);
  if (x != x) return (uint16_t)(word >> 16 | 0x40u);
  return (uint16_t)((word + 0x7fffu + (word >> 16 & 1u)) >> 16);
}
"""

_ROUND = """\
static inline float round_even(float x) {
  const float size = fabsf(x);
  return size < 8388608.0f ? copysignf(size + 8388608.0f - 8388608.0f, x) : x;
}
"""

_LN2_HIGH, _LN2_LOW = 355 / 512, math.log(2) - 355 / 512
_ROOT = int.from_bytes(struct.pack(">f", math.sqrt(0.5)), "big")

_REDUCED_EXP = f"""\
// Gives e^r, and in the last bits of `shifted` n, where x = n log(2) + r.
static inline float reduced_exp(float x, float *shifted) {{
  *shifted = x * {_text(1 / math.log(2))} + 12582912.0f;
  const float n = *shifted - 12582912.0f;
  const float r = n * {_text(-_LN2_LOW)} + (n * {_text(-_LN2_HIGH)} + x);
  return r * r * {_polynomial("r", EXP)} + r + 1.0f;
}}
static inline float power_of_two(uint32_t n) {{ return bits_float((n + 127u) << 23); }}
"""

_EXP = """\
static inline float exp_float(float x) {
  float shifted;
  const float inside = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
  const float power = reduced_exp(inside, &shifted);
  const int32_t n = (int32_t)(float_bits(shifted) - 0x4b400000u), half = n >> 1;
  return power * power_of_two((uint32_t)half) * power_of_two((uint32_t)n - (uint32_t)half);
}
"""

_LOG = f"""\
static inline float log_float(float x) {{  // n log(2) + log(1 + t)
  const bool tiny = x < 1.1754944e-38f;
  const uint32_t offset = float_bits(tiny ? x * 8388608.0f : x) - 0x{_ROOT:x}u;
  const float t = bits_float((offset & 0x7fffffu) + 0x{_ROOT:x}u) - 1.0f;
  const float whole = (float)((int32_t)offset >> 23), n = tiny ? whole - 23.0f : whole;
  const float square = t * t;
  const float rest = square * -0.5f + (n * {_text(_LN2_LOW)}
      + square * t * {_polynomial("t", LOG)});
  if (x > 0.0f && x < INFINITY) return n * {_text(_LN2_HIGH)} + (t + rest);
  return x == 0.0f ? -INFINITY : x > 0.0f ? x : NAN;
}}
"""

_TANH = f"""\
static inline float tanh_float(float x) {{
  const float size = fabsf(x), square = x * x;
  if (size < 0.625f) return square * x * {_polynomial("square", TANH)} + x;
  return copysignf(1.0f - 2.0f / (exp_float(size + size) + 1.0f), x);
}}
"""

_ERF = f"""\
static inline float erf_float(float x) {{
  const float size = fabsf(x), square = x * x, far = size > 3.95f ? 3.95f : size;
  float shifted;
  if (size < 0.9f) return x * {_polynomial("square", ERF)} + x;
  const float power = reduced_exp(-far * {_polynomial("far", ERFC)}, &shifted);
  return copysignf(1.0f - power * power_of_two(float_bits(shifted) - 0x4b400000u), x);
}}
"""

_TF32 = """\
static inline float to_tf32(float x) {
  const uint32_t word = float_bits(x);
  const bool finite = (word & 0x7f800000u) != 0x7f800000u;
  return finite ? bits_float((word + 0x1000u) & ~(uint32_t)0x1fff) : x;
}
"""


def _of_integers() -> Iterator[Helper]:
    for dtype in ("int32", "uint32", "int64", "uint64"):
        kind = STORED[dtype]
        for name, sign in (("min", "<"), ("max", ">")):
            yield Helper(f"{name}_{dtype}", f"static inline {kind} {name}_{dtype}({kind} a, "
                         f"{kind} b) {{ return a {sign} b ? a : b; }}\n")
        yield Helper(f"clamp_{dtype}", f"static inline {kind} clamp_{dtype}({kind} a, {kind} low, "
                     f"{kind} high) {{\n  const {kind} above = a > low ? a : low;\n"
                     f"  return above < high ? above : high;\n}}\n")
    for dtype in ("int32", "int64"):
        kind = STORED[dtype]
        yield Helper(f"abs_{dtype}", f"static inline {kind} abs_{dtype}({kind} a) {{  // wraps\n"
                     f"  return a < 0 ? ({kind})(0 - (u{kind})a) : a;\n}}\n")


def _saturating() -> Iterator[Helper]:
    """Conversions of floats that do not fit: NaN is 0."""
    for source, kind, suffix in (("float", "float", "f"), ("double", "double", "")):
        for dtype in INTEGERS:
            signed, width = is_signed(dtype), bits(dtype)
            over = f"{float(1 << (width - signed))!r}{suffix}"
            low = f"-{over}" if signed else f"0.0{suffix}"
            least = f"{dtype.upper()}_MIN" if signed else "0"
            yield Helper(f"{dtype}_from_{source}", f"""\
static inline {STORED[dtype]} {dtype}_from_{source}({kind} x) {{
  return x != x || x == 0 ? 0 : x <= {low} ? {least} : x >= {over} ? {dtype.upper()}_MAX
      : ({STORED[dtype]})x;
}}
""")


def _fields() -> Iterator[Helper]:
    """Members of records, which are packed and have their lowest byte first."""
    for width in (1, 2, 4, 8):
        kind = f"uint{8 * width}_t"
        parts = " | ".join(f"({kind})((uint64_t)p[{byte}] << {8 * byte})" for byte in range(width))
        yield Helper(f"bytes{width}", f"static inline {kind} bytes{width}(const uint8_t *p) {{\n"
                     f"  return ({kind})({parts});\n}}\n")
    yield Helper("bytes_double", """\
static inline double bytes_double(const uint8_t *p) {
  const uint64_t word = bytes8(p);
  double x;
  memcpy(&x, &word, sizeof x);
  return x;
}
""", ("bytes8",))


_SHARED = ("wrapping_add", "wrapping_add64", "wrapping_sub", "wrapping_sub64", "wrapping_mul",
           "wrapping_mul64", "nan_max", "nan_min", "nan_max64", "nan_min64", "float_mod",
           "float_floordiv", "float_mod64", "float_floordiv64", "whole_div", "floor_div",
           "floor_mod", "unsigned_div", "unsigned_mod", "shift_left", "shift_right",
           "unsigned_shift_right", "rshift_rne", "unsigned_rshift_rne")

_SCALED = """\
// a * mult / 2**shift, half to even: mult has 16 bits, shift is 17 to 46.
static inline int32_t scaled(int32_t a, int32_t mult, int32_t shift) {
  const uint32_t low = ((uint32_t)a & 0xffffu) * (uint32_t)mult;
  const int32_t high = (a >> 16) * mult + (int32_t)(low >> 16), mask = (1 << (shift - 16)) - 1;
  const int32_t quotient = high >> (shift - 16);
  const int32_t more = (quotient & 1) | (int32_t)(((low & 0xffffu) + 0xffffu) >> 16);
  return quotient + (((high & mask) + (mask >> 1) + more) >> (shift - 16));
}
"""

_SCALED_SMALL = """\
// As scaled, of products that with half of 2**shift added are less than 2**47.
static inline int32_t scaled_small(int32_t a, int32_t mult, int32_t shift) {
  const uint32_t low = ((uint32_t)a & 0xffffu) * (uint32_t)mult;
  const int32_t high = (a >> 16) * mult + (int32_t)(low >> 16);
  const int32_t more = (high >> (shift - 16) & 1) | (int32_t)((0 - (low & 0xffffu)) >> 31);
  return (high + (0x3fffffff >> (47 - shift)) + more) >> (shift - 16);
}
"""

_RNE32 = """\
static inline int32_t rshift_rne32(int32_t a, int32_t n) {  // half to even; n is 0 to 30
  const int32_t quotient = a >> n, mask = (1 << n) - 1;
  return quotient + (((a & mask) + (mask >> 1) + (quotient & (n > 0))) >> n);
}
"""

_ONE_BY_ONE = """\
// Loops that read where a condition holds stay loops: GCC 12 makes vectors of them that lose rows.
#if defined __GNUC__ && !defined __clang__
#define ONE_BY_ONE __asm__ volatile ("")
#else
#define ONE_BY_ONE
#endif
"""

HELPERS = {helper.name: helper for helper in (
    Helper("ONE_BY_ONE", _ONE_BY_ONE), Helper("scaled", _SCALED),
    Helper("scaled_small", _SCALED_SMALL), Helper("rshift_rne32", _RNE32),
    *(OF_ALL[name] for name in _SHARED), *_of_integers(),
    *_fields(),
    Helper("bits", _BITS), Helper("half_value", _HALF, ("bits",)),
    Helper("half_bits", _HALF_BITS, ("bits",)),
    Helper("half_bits64", _HALF_BITS64, ("half_bits",)),
    Helper("bfloat", _BFLOAT, ("bits",)),
    Helper("round_half", "static inline float round_half(float x) "
                         "{ return half_value(half_bits(x)); }\n", ("half_value", "half_bits")),
    Helper("round_half64", "static inline float round_half64(double x) "
                           "{ return half_value(half_bits64(x)); }\n",
           ("half_value", "half_bits64")),
    Helper("round_bfloat", "static inline float round_bfloat(float x) "
                           "{ return bfloat_value(bfloat_bits(x)); }\n", ("bfloat",)),
    Helper("round_even", _ROUND),
    Helper("floor_float", """\
static inline float floor_float(float x) {
  const float whole = round_even(x);
  return whole > x ? whole - 1.0f : whole;
}
""", ("round_even",)),
    Helper("ceil_float", """\
static inline float ceil_float(float x) {
  const float whole = round_even(x);
  return copysignf(whole < x ? whole + 1.0f : whole, x);
}
""", ("round_even",)),
    Helper("to_tf32", _TF32, ("bits",)), Helper("reduced_exp", _REDUCED_EXP, ("bits",)),
    Helper("exp_float", _EXP, ("reduced_exp",)), Helper("log_float", _LOG, ("bits",)),
    Helper("tanh_float", _TANH, ("exp_float",)), Helper("erf_float", _ERF, ("reduced_exp",)),
    *_saturating())}

ROUNDED = {"float16": ("half_value", "half_bits", "round_half"),
           "bfloat16": ("bfloat_value", "bfloat_bits", "round_bfloat")}
"""Types that are computed in float32: what reads one, what stores one, what rounds to one."""


def helper_texts(used: Iterable[str]) -> list[str]:
    """The texts of the helpers that are used, each after those that it needs."""
    names = set(used)
    order: list[str] = []

    def add(name: str) -> None:
        for needed in HELPERS[name].needs:
            add(needed)
        if name not in order:
            order.append(name)

    for name in HELPERS:
        if name in names:
            add(name)
    return [HELPERS[name].spelled(C) for name in order]
