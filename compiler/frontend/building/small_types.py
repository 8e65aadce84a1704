"""Values of types that no processor computes with: how a graph carries them.

Integers of few bits are carried by their numbers, in bytes; floats by their codes, in bytes, which
is what moving them keeps to the bit. Their numbers come out of a table of all codes.
"""

from typing import Any

import numpy as np

from compiler.frontend.building.refusal import NodeRefused
from compiler.te import SMALL, is_integer, is_signed, numpy_dtype

Value = Any
"""A `compiler.frontend.building.values.Value`, which computes by what this module says of it."""

MOVES = ("concat", "expand", "gather", "gather_elements", "gather_nd", "identity", "pad", "reshape",
         "reverse", "slice", "transpose", "upsample", "where")
"""Operators of graphs whose results hold elements of their operands and nothing else."""

QUESTIONS = ("equal", "is_nan", "less", "less_equal")
"""Operators of graphs that give no elements of their operands' type."""


def carrier(dtype: str) -> str:
    """The element type that carries numbers of a small type."""
    return "int8" if is_integer(dtype) and is_signed(dtype) else "uint8"


def carried(x: Value) -> Value:
    """The carrier of a value of a small type, in a type that processors have."""
    if x.array is None:
        return x.retyped(carrier(x.dtype))
    whole = is_integer(x.dtype)
    array = x.array.astype(carrier(x.dtype)) if whole else x.array.view(np.uint8) & _mask(x.dtype)
    return x.tracer.constant(array, x.role, given=x.given)


def numbers(x: Value) -> Value:
    """The numbers of a computed value of a small type, in a type that processors compute with and
    that holds each exactly: int8, uint8 or float32.
    """
    if is_integer(x.dtype):
        return carried(x)
    if x.numbers is None:
        table = np.arange(1 << SMALL[x.dtype], dtype=np.uint8).view(numpy_dtype(x.dtype))
        codes = carried(x).astype("int32")
        found = x.tracer.emit("gather", x.tracer.constant(table.astype(np.float32)), codes, axis=0)
        x.numbers = lambda: found
    return x.numbers()


def answered(t: Any, op: str, operands: list[Value], attrs: dict) -> Value:
    """The result of an operator on operands some of which are of a small type."""
    small = next(x.dtype for x in operands if x.dtype in SMALL)
    if any(x.dtype in SMALL and x.dtype != small for x in operands) or op not in (
            *MOVES, *QUESTIONS):
        raise NodeRefused(f"operands must be of a type that processors compute with, not {small}; "
                          f"convert them by Cast or DequantizeLinear first")
    if op in QUESTIONS:
        return t.emit(op, *(_known(x) if x.dtype == small else x for x in operands), **attrs)
    moved = t.emit(op, *(carried(x) if x.dtype == small else x for x in operands), **attrs)
    return moved.retyped(small)


def _known(x: Value) -> Value:
    """The numbers of a value of a small type that may be a constant."""
    if x.array is None:
        return numbers(x)
    return x.tracer.constant(x.array.astype(carrier(x.dtype) if is_integer(x.dtype) else "float32"),
                             x.role, given=x.given)


def from_bytes(codes: Value, dtype: str) -> Value:
    """The value of a small type of which these are the bytes, whatever bits it does not have."""
    low = codes if SMALL[dtype] == 8 else codes & _mask(dtype)
    if carrier(dtype) == "int8":
        low = _signed(low, 1 << (SMALL[dtype] - 1))
    return low.retyped(dtype)


def _signed(low: Value, sign: int) -> Value:
    """Numbers in two's complement of few bits: those from `sign` on are negative."""
    whole = low.astype("int8")
    return (whole >= sign).where(whole - 2 * sign, whole)


def to_bytes(x: Value) -> Value:
    """The bytes of a computed value of a small type, 0 in the bits that it does not have."""
    codes = carried(x).astype("uint8")
    return codes & _mask(x.dtype) if carrier(x.dtype) == "int8" else codes


def _mask(dtype: str) -> int:
    return (1 << SMALL[dtype]) - 1
