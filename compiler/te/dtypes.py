"""Element types of tensors: NumPy's numbers, `bool`, and declared records.

A type is named by a string: ``int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16
float32 float64 bool``, ``int24 int40 int48``, which accelerators have and no processor, or the
name of a record that was declared with :func:`record`. Integer arithmetic wraps at the width of its
type, as NumPy's does; loop indices are ``int64``. Networks also take and give the types of `SMALL`,
which no processor computes with.
"""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import ml_dtypes
import numpy as np

INDEX = "int64"

HELD = {"int24": "int32", "int40": "int64", "int48": "int64"}
"""Types that NumPy lacks, each with the type of the arrays that hold its numbers."""

SMALL = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float8_e4m3fn": 8, "float8_e4m3fnuz": 8,
         "float8_e5m2": 8, "float8_e5m2fnuz": 8, "float8_e8m0fnu": 8, "float4_e2m1fn": 4}
"""Types of ml_dtypes that no processor computes with, and their bits. Arrays hold one number in
each byte, in its low bits.
"""

_NUMBER = re.compile(r"(u?int)(8|16|32|64)|int(24|40|48)|float(16|32|64)|bfloat16|bool")
_RECORDS: dict[str, np.dtype] = {}


def record(name: str, **fields: str) -> str:
    """Declare a packed little-endian record, say one entry of per-channel parameters.

    The size is rounded up to a power of two bytes so that records never straddle a bus beat of
    their own size. Declaring the same record twice is allowed; changing one is refused.
    """
    if _NUMBER.fullmatch(name) or name in SMALL:
        raise ValueError(f"Record name must not be the name of a number type, not {name!r}")
    for field, dtype in fields.items():
        if dtype in HELD:
            raise ValueError(f"Field {field} of record {name!r} must have a type of NumPy's, "
                             f"not {dtype}")
    members = [(field, numpy_dtype(dtype).newbyteorder("<")) for field, dtype in fields.items()]
    size = sum(dtype.itemsize for _, dtype in members)
    padded = 1 << (size - 1).bit_length()
    layout = np.dtype({"names": [m[0] for m in members], "formats": [m[1] for m in members],
                       "itemsize": padded})
    if _RECORDS.setdefault(name, layout) != layout:
        raise ValueError(f"Record {name!r} must keep its fields {_RECORDS[name]}, not {layout}")
    return name


def is_record(dtype: str) -> bool:
    return dtype in _RECORDS


@cache
def record_fields(dtype: str) -> Mapping[str, str]:
    """Field name to type name, in order of declaration."""
    layout = _RECORDS[dtype]
    assert layout.names is not None
    return MappingProxyType({name: layout[name].name for name in layout.names})


def record_places(dtype: str) -> dict[str, tuple[str, int]]:
    """Field name to type name and offset in bytes, in order of declaration."""
    places, offset = dict[str, tuple[str, int]](), 0
    for name, kind in record_fields(dtype).items():
        places[name] = kind, offset
        offset += numpy_dtype(kind).itemsize
    return places


@cache
def numpy_dtype(dtype: str) -> np.dtype:
    """The NumPy type that stores one element."""
    if dtype in _RECORDS:
        return _RECORDS[dtype]
    if dtype in SMALL:
        return np.dtype(getattr(ml_dtypes, dtype))
    if not _NUMBER.fullmatch(dtype):
        raise ValueError(f"Element type must be a number type or a declared record, not {dtype!r}")
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else HELD.get(dtype, dtype))


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat")) and dtype not in _RECORDS


def is_integer(dtype: str) -> bool:
    return dtype.startswith(("int", "uint")) and dtype not in _RECORDS


def is_signed(dtype: str) -> bool:
    return dtype.startswith(("int", "float", "bfloat")) and dtype not in _RECORDS


def bits(dtype: str) -> int:
    """Width of a number type; ``bool`` has one bit."""
    if dtype in SMALL:
        return SMALL[dtype]
    if dtype in HELD:
        return int(dtype.removeprefix("int"))
    return 1 if dtype == "bool" else numpy_dtype(dtype).itemsize * 8
