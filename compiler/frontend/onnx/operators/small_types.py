"""Conversions of numbers to types that no processor computes with: what Cast and QuantizeLinear
make of them, of computed ones by operators of graphs, of known ones in NumPy. What follows from
ONNX's text and what not, docs/types.md says.
"""

from functools import cache

import ml_dtypes
import numpy as np

from compiler.frontend.building.small_types import carrier
from compiler.frontend.building.values import Value
from compiler.ir.arithmetic import rounded
from compiler.te import SMALL, is_integer, numpy_dtype

POWERS = "float8_e8m0fnu"
"""Powers of two alone, by their exponents plus 127; 255 is NaN."""

FINITE = "float4_e2m1fn"
"""It has neither infinities nor NaN: numbers beyond the greatest become it, a NaN becomes -0."""

LEAST, MOST = 2.0 ** -127, 2.0 ** 127
ROUND_MODES = ("up", "down", "nearest")


def narrowed(x: Value, name: str, saturate: bool, round_mode: str) -> Value:
    """Computed numbers in the small type `name`."""
    if is_integer(name):
        return _wrapped(x, carrier(name), SMALL[name]).retyped(name)
    if name == POWERS:
        return _exponents(x.astype("float64"), saturate, round_mode).retyped(name)
    wide = x if x.dtype == "float64" else x.astype("float32")
    return _rounded(wide, name, saturate or name == FINITE)


def of_known(array: np.ndarray, target: np.dtype, saturate: bool, round_mode: str) -> np.ndarray:
    """Known numbers in another type, small or not."""
    if target.name == POWERS:
        return _known_exponents(array.astype(np.float64), saturate, round_mode)
    if target.name not in SMALL:
        return array.astype(target)
    if is_integer(target.name):
        low = array.astype(np.float64) if array.dtype.kind not in "iub" else array
        return low.astype(np.int64).astype(np.int8).astype(target)
    return rounded(array, target.name, saturate or target.name == FINITE)


def _wrapped(x: Value, dtype: str, bits: int) -> Value:
    """The low bits of integers, and of floats without their fraction."""
    low = x.astype("int64") & ((1 << bits) - 1)
    if dtype.startswith("u"):
        return low.astype(dtype)
    return (low >= 1 << (bits - 1)).where(low - (1 << bits), low).astype(dtype)


def _rounded(x: Value, name: str, saturate: bool) -> Value:
    """The nearest numbers of a small float type, of two as near the even one. A step between
    numbers follows from how many powers of two the magnitude reaches. Magnitudes are numbered
    through, so that what rounds up to the next power has its number.
    """
    info, wide = ml_dtypes.finfo(name), np.dtype(x.dtype)
    least, steps = int(info.minexp), int(np.log2(float(info.max))) - int(info.minexp)
    powers = x.tracer.constant(2.0 ** np.arange(least + 1, least + 1 + steps, dtype=wide))
    reached = (x.abs().unsqueeze(x.rank) >= powers).astype("int32").sum(x.rank)
    sizes = x.tracer.constant(2.0 ** (np.arange(least, least + 1 + steps, dtype=wide)
                                      - int(info.nmant)))
    step = x.tracer.emit("gather", sizes, reached, axis=0)
    most = 2 * float(info.max)
    near = x.tracer.emit("rint", x.maximum(-most).minimum(most) / step)
    code = _codes(x, name, near.abs().astype("int32") + reached * (1 << int(info.nmant)), saturate)
    code.numbers = cache(lambda: _numbers(x, name, near * step, saturate))
    return code


def _numbers(x: Value, name: str, near: Value, saturate: bool) -> Value:
    """The numbers themselves, where nobody reads the codes."""
    most = float(ml_dtypes.finfo(name).max)
    beyond = most if saturate else float(np.array(np.inf, name))
    result = (near > most).where(beyond, (near < -most).where(-beyond, near))
    if name.endswith("fnuz"):
        result = result.equal(0).where(0, result)
    nan = float(np.array(np.nan, name))
    return x.tracer.emit("is_nan", x).where(nan, result).astype("float32")


def _codes(x: Value, name: str, magnitude: Value, saturate: bool) -> Value:
    """The codes of numbers whose magnitudes have these numbers; a NaN has one code."""
    most, beyond, nan = _code(name, float(ml_dtypes.finfo(name).max)), _code(name, np.inf), _code(
        name, np.nan)
    magnitude = (magnitude > most).where(most if saturate else beyond, magnitude)
    negative = x < 0
    if name.endswith("fnuz"):
        negative = negative & (magnitude > 0)
    else:
        negative = negative | x.equal(0) & (x.like(1) / x < 0)
    signed = negative.where(magnitude | 1 << (SMALL[name] - 1), magnitude)
    return x.tracer.emit("is_nan", x).where(nan, signed).astype("uint8").retyped(name)


def _code(name: str, number: float) -> int:
    return int(np.array(number, numpy_dtype(name)).view(np.uint8))


def _exponents(x: Value, saturate: bool, round_mode: str) -> Value:
    """The exponents of numbers, found by halves: whether one is 2^128 times the least or more, then
    2^64, and so on. Numbers are those of float64, which divides them exactly.
    """
    rest, exponent = x.maximum(LEAST).minimum(MOST) / LEAST, 0
    for bit in reversed(range(8)):
        reaches = rest >= 2.0 ** (1 << bit)
        rest = reaches.where(rest * 2.0 ** -(1 << bit), rest)
        exponent = reaches.astype("int32") * (1 << bit) + exponent
    exponent = exponent + _is_up(rest, round_mode).astype("int32")
    lost = x.tracer.emit("is_nan", x)
    if not saturate:
        lost = lost | (x < LEAST) | (x > MOST)
    return lost.where(255, exponent).astype("uint8")


def _is_up(mantissa, round_mode: str):
    """True where a number from 1 to 2 is rounded up."""
    return {"up": mantissa > 1, "nearest": mantissa >= 1.5, "down": mantissa > 2}[round_mode]


def _known_exponents(array: np.ndarray, saturate: bool, round_mode: str) -> np.ndarray:
    half, exponent = np.frexp(array.clip(LEAST, MOST))
    exponent = exponent + 126 + _is_up(2 * half, round_mode)
    lost = np.isnan(array) | (not saturate) & ((array < LEAST) | (array > MOST))
    return np.where(lost, 255, exponent).astype(np.uint8).view(numpy_dtype(POWERS))
