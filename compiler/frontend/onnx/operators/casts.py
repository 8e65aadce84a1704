"""Conversions between element types."""

import numpy as np
import onnx

from compiler.frontend.building.small_types import numbers
from compiler.frontend.building.values import NodeRefused, Value, dtype_name
from compiler.frontend.onnx.nodes.importer import element_type
from compiler.frontend.onnx.nodes.registry import operator
from compiler.frontend.onnx.operators.small_types import ROUND_MODES, narrowed, of_known
from compiler.graph.graph import DTYPES
from compiler.te import SMALL


def code_of(dtype: str) -> int:
    """The ONNX number of an element type."""
    if dtype == "string":
        return onnx.TensorProto.STRING
    return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def converted(t, x: Value, code: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Converts between types. Conversions between types that processors have, and to and from small
    types, are compiled; others are done once the elements are known.
    """
    target = element_type(code)
    name = dtype_name(target)
    if round_mode not in ROUND_MODES:
        raise NodeRefused(f"round_mode must be one of {', '.join(ROUND_MODES)}, not {round_mode!r}")
    if x.dtype == name:
        return x
    if x.array is None and t.run is None and x.dtype in SMALL:
        x = numbers(x)
    if x.dtype in DTYPES and name in DTYPES:
        return x.astype(name)
    if x.array is None and t.run is None and name in SMALL:
        return narrowed(x, name, bool(saturate), round_mode)
    return t.computed(lambda array: _array(array, target, bool(saturate), round_mode), x)


def _array(array: np.ndarray, target: np.dtype, saturate: bool, round_mode: str) -> np.ndarray:
    if target.kind == "O":
        return np.array([_text(element) for element in array.reshape(-1)],
                        object).reshape(array.shape)
    if array.dtype.kind == "O":
        numbers = [float(element) for element in array.reshape(-1)]
        array = np.array(numbers, np.float64).reshape(array.shape)
        return array.astype(target)
    return of_known(array, target, saturate, round_mode)


def _text(element: object) -> str:
    return str(element)


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
