"""Floats of few bits: their codes as expressions, and what scales a sum before it is stored.

A graph carries a number of 8 bits by its code, a uint8; one of 16 bits is as it is. What is too
large becomes the greatest number of its sign, as ONNX has it with ``saturate`` 1.
"""

import math

import ml_dtypes
import numpy as np

from compiler import te
from compiler.ir.arithmetic import rounded
from compiler.te import Expr

AFFINE = te.record("affine", scale="float32", offset="float32")
"""What vector makes a sum of a channel with: ``sum * scale + offset``, in this order, in float32.
"""

STORED_FLOATS = ("float8_e4m3fn", "float8_e5m2", "bfloat16")
"""The types of floats that products of machines take and give."""

FLOAT_PRODUCTS = ("fconv2d", "fdense")
"""Operators that multiply such, and sum in float32."""


def carrier(dtype: str) -> str:
    """The type of a graph that carries elements of a machine: of floats of 8 bits their codes."""
    return "uint8" if te.is_float(dtype) and te.bits(dtype) == 8 else dtype


def numbers(carried: Expr, dtype: str) -> Expr:
    """The number that a value carries, in float32, exactly; of 8 bits there is one NaN."""
    if carrier(dtype) == dtype:
        return carried.astype("float32")
    info, code = ml_dtypes.finfo(dtype), carried.astype("int32")
    fraction, least = int(info.nmant), int(info.minexp)
    magnitude = code & 127
    exponent = magnitude >> fraction
    significand = (magnitude & (1 << fraction) - 1) + te.select(
        exponent > 0, te.const(1 << fraction, "int32"), 0)
    above = te.maximum(exponent, 1) - 1
    value = significand.astype("float32") * 2.0 ** (least - fraction)
    for bit in range((int(info.maxexp) - least).bit_length()):
        value = value * te.select((above >> bit & 1) > 0, te.const(2.0 ** (1 << bit), "float32"),
                                  te.const(1.0, "float32"))
    most = _code(float(info.max), dtype)
    if _code(math.inf, dtype) == most + 1 and not math.isnan(_number(most + 1, dtype)):
        value = te.select(magnitude.equal(most + 1), te.const(math.inf, "float32"), value)
        most += 1
    value = te.select(code > 127, value * -1.0, value)
    return te.select(magnitude > most, te.const(math.nan, "float32"), value)


def stored(value: Expr, dtype: str) -> Expr:
    """A float32 as its nearest number of the type, of two as near the even one, as it is carried.
    """
    if carrier(dtype) == dtype:
        return value.astype(dtype)
    info = ml_dtypes.finfo(dtype)
    fraction, least = int(info.nmant), int(info.minexp)
    most = float(info.max)
    size = te.minimum(te.abs(value), most)
    steps, base = te.const(2.0 ** (fraction - least), "float32"), te.const(0, "int32")
    for exponent in range(least + 1, int(math.log2(most)) + 1):
        reaches = size >= 2.0 ** exponent
        steps = te.select(reaches, te.const(2.0 ** (fraction - exponent), "float32"), steps)
        base = te.select(reaches, te.const((exponent - least) << fraction, "int32"), base)
    code = te.rint(size * steps).astype("int32") + base
    is_nan = value.not_equal(value)
    negative = te.select(value.equal(0.0), te.const(1.0, "float32") / value < 0, value < 0)
    code = te.select(negative, code | 128, code)
    return te.select(is_nan, te.const(_code(math.nan, dtype), "int32"), code).astype("uint8")


def numbers_of(carried: np.ndarray, dtype: str) -> np.ndarray:
    """`numbers` of an array."""
    wide = carried.view(te.numpy_dtype(dtype)).astype(np.float32)
    return np.where(np.isnan(wide), np.float32(np.nan), wide) if te.bits(dtype) == 8 else wide


def stored_array(value: np.ndarray, dtype: str) -> np.ndarray:
    """`stored` of an array of float32."""
    if carrier(dtype) == dtype:
        return value.astype(te.numpy_dtype(dtype))
    return rounded(value, dtype).view(np.uint8)


def _number(code: int, dtype: str) -> float:
    return float(np.array([code], np.uint8).view(te.numpy_dtype(dtype))[0])


def _code(number: float, dtype: str) -> int:
    return int(np.array([number]).astype(te.numpy_dtype(dtype)).view(np.uint8)[0])
