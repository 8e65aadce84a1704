"""Conversions between element types."""

import ml_dtypes
import numpy as np
import onnx

from compiler.frontend.building.values import NodeRefused, Value, dtype_name
from compiler.frontend.onnx.nodes.importer import element_type
from compiler.frontend.onnx.nodes.registry import operator
from compiler.frontend.onnx.operators.small_types import in_wider_type
from compiler.graph.graph import DTYPES


def code_of(dtype: str) -> int:
    """The ONNX number of an element type."""
    if dtype == "string":
        return onnx.TensorProto.STRING
    return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def converted(t, x: Value, code: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Converts between types. Conversions between types that processors have are compiled; others
    are done once the elements are known, or give the numbers of a small type in a wider one.
    """
    target = element_type(code)
    name = dtype_name(target)
    if x.dtype in DTYPES and name in DTYPES:
        return x.astype(name)
    if x.array is None and t.run is None and name != "string":
        return in_wider_type(x, name, bool(saturate))
    return t.computed(lambda array: _array(array, target, bool(saturate), round_mode), x)


def _array(array: np.ndarray, target: np.dtype, saturate: bool, round_mode: str) -> np.ndarray:
    if target.kind == "O":
        return np.array([_text(element) for element in array.reshape(-1)],
                        object).reshape(array.shape)
    if array.dtype.kind == "O":
        numbers = [float(element) for element in array.reshape(-1)]
        array = np.array(numbers, np.float64).reshape(array.shape)
        return array.astype(target)
    if target.name == "float8_e8m0fnu":
        return _exponents(array.astype(np.float32), saturate, round_mode)
    if target.name.startswith("float8") or target.name.startswith("float4"):
        return _small(array.astype(np.float32), target, saturate)
    if target.name in ("int4", "uint4", "int2", "uint2"):
        return array.astype(np.float32).astype(np.int64).astype(np.int8).astype(target)
    return array.astype(target)


def _text(element: object) -> str:
    return str(element)


def _small(array: np.ndarray, target: np.dtype, saturate: bool) -> np.ndarray:
    """Converts to a small float; numbers beyond the largest become it, or the type's overflow
    value.
    """
    info = ml_dtypes.finfo(target)
    if saturate or target.name.startswith("float4"):
        array = np.where(np.isnan(array), array, np.clip(array, float(info.min), float(info.max)))
    elif target.name == "float8_e4m3fn":
        array = np.where(np.abs(array.astype(target).astype(np.float32)) <= float(info.max),
                         array, np.nan)
    return array.astype(target)


def _exponents(array: np.ndarray, saturate: bool, round_mode: str) -> np.ndarray:
    """Converts to eight exponent bits: powers of two alone."""
    bits = array.astype(np.float32).view(np.uint32)
    exponent, rest = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    if round_mode == "nearest":
        up = rest >= 0x400000
    else:
        up = (rest > 0) & (round_mode == "up")
    exponent = exponent.astype(np.int64) + up
    limit = 254 if saturate else 255
    exponent = np.where(np.isnan(array), 255, np.minimum(exponent, limit))
    return exponent.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)


def cast(t, x, *, to, saturate=1, round_mode="up"):
    return converted(t, x, to, saturate, round_mode)


@operator("Cast", since=1)
def cast_by_name(t, x, *, to):
    """The type by its name in ONNX, such as FLOAT."""
    names = onnx.TensorProto.DataType
    if to not in names.keys():
        raise NodeRefused(f"to must be the name of an element type, not {to!r}")
    return converted(t, x, names.Value(to))


operator("Cast", since=6)(cast)


@operator("CastLike")
def cast_like(t, x, like, *, saturate=1, round_mode="up"):
    return converted(t, x, code_of(like.dtype), saturate, round_mode)


@operator("BitCast")
def bit_cast(t, x, *, to):
    target = element_type(to)
    if target.itemsize != np.dtype(x.dtype).itemsize:
        raise NodeRefused(f"to must be a type as wide as {x.dtype}, not {target.name}")
    return t.computed(lambda array: array.view(target), x)
