"""Operators that compute one element from one element of each input, of any number of dimensions.

Float results are those of float32 arithmetic in the order that ONNX gives, to the bit.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from compiler import te
from compiler.ops.arithmetic import add_scaled, requantize
from compiler.te import Expr, Tensor

__all__ = ["broadcast", "broadcast_shape", "clip", "dequantize", "dequantizelinear",
           "identity", "leakyrelu", "qadd", "qleakyrelu", "qrescale", "quantize",
           "quantizelinear", "relu", "rescaled", "reshape", "to_int8", "to_uint8"]

_LIMITS = {"int8": (-128.0, 127.0), "uint8": (0.0, 255.0)}

Attrs = Mapping
Inputs = Sequence[Tensor]


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(int, np.broadcast_shapes(*shapes)))


def broadcast(tensor: Tensor, indices: Sequence[Expr]) -> Expr:
    """The element that NumPy's broadcasting puts at `indices`."""
    own = indices[len(indices) - len(tensor.shape):]
    return tensor[tuple(te.const(0, te.INDEX) if extent == 1 else index
                        for index, extent in zip(own, tensor.shape, strict=True))]


def _unary(fn: Callable[[Attrs, Expr], Expr]) -> Callable[[Attrs, Inputs, str], Tensor]:
    """The operator that applies `fn` to every element of its one input."""
    def operator(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
        x = inputs[0]
        return te.compute(x.shape, lambda *indices: fn(attrs, x[indices]), name)
    return operator


def _quantized(x: Expr, scale: Expr | float, point: Expr | float, dtype: str) -> Expr:
    """Rounded half to even, then moved by the zero point, then saturated."""
    return te.clamp(te.rint(x / scale) + point, *_LIMITS[dtype]).astype(dtype)


def rescaled(attrs: Attrs, x: Expr) -> Expr:
    """An int8 element with another scale and zero point."""
    return requantize(x.astype("int32"), te.const(attrs["bias"], "int32"),
                      te.const(attrs["mult"], "uint16"), te.const(attrs["shift"], "uint8"),
                      attrs["zp"], attrs["lo"], attrs["hi"]).astype("int8")


def _float32(value: float) -> float:
    return float(np.float32(value))


relu = _unary(lambda attrs, x: te.maximum(x, 0))
clip = _unary(lambda attrs, x: te.minimum(te.maximum(x, _float32(attrs["lo"])),
                                          _float32(attrs["hi"])))
identity = _unary(lambda attrs, x: x)
leakyrelu = _unary(lambda attrs, x: te.select(x < 0, x * _float32(attrs["alpha"]), x))
qrescale = _unary(rescaled)
qleakyrelu = _unary(lambda attrs, x: te.maximum(rescaled(attrs, x), rescaled(
    {**attrs, "mult": attrs["mult_below"], "shift": attrs["shift_below"]}, x)))
quantize = _unary(lambda attrs, x: _quantized(x, float(np.float32(attrs["scale"])),
                                              float(attrs["zp"]), "int8"))
dequantize = _unary(lambda attrs, x: (x.astype("float32") - float(attrs["zp"]))
                    * float(np.float32(attrs["scale"])))
to_int8 = _unary(lambda attrs, x: (x ^ 128).astype("int8"))
to_uint8 = _unary(lambda attrs, x: x.astype("uint8") ^ 128)


def qadd(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    """Two-scale sum of equal shapes, rounded once."""
    a, b = inputs
    scales = [attrs[key] for key in ("ma", "mb", "c", "shift", "zp", "lo", "hi")]
    return te.compute(a.shape, lambda *indices: add_scaled(
        a[indices].astype("int32"), b[indices].astype("int32"), *scales).astype("int8"), name)


def quantizelinear(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    """``x`` by ``scale`` and ``zero_point``, both scalars or vectors along ``axis``."""
    x, scale, zero = inputs
    return te.compute(x.shape, lambda *indices: _quantized(
        x[indices], _along(scale, attrs, indices), _along(zero, attrs, indices).astype("float32"),
        zero.dtype), name)


def dequantizelinear(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    """``(q - zero_point) * scale``: the difference exactly, the product in float32."""
    q, scale, zero = inputs

    def value(*indices):
        steps = q[indices].astype("int64") - _along(zero, attrs, indices).astype("int64")
        return steps.astype("float32") * _along(scale, attrs, indices)

    return te.compute(q.shape, value, name)


def _along(parameter: Tensor, attrs: Attrs, indices: Sequence[Expr]) -> Expr:
    return parameter[indices[attrs["axis"]]] if parameter.shape else parameter[()]


def reshape(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    """The elements in row-major order, in another shape."""
    x = inputs[0]
    shape = tuple(attrs["shape"])
    return te.compute(shape, lambda *indices: x[_reshaped(indices, shape, x.shape)], name)


def _reshaped(indices: Sequence[Expr], made: tuple[int, ...],
              read: tuple[int, ...]) -> tuple[Expr, ...]:
    """Where an element of shape `made` lies in shape `read`.

    Dimensions are taken in the smallest groups of equal size, so that those that stay as they are
    cost no division.
    """
    result: list[Expr] = []
    i = j = 0
    while i < len(made) or j < len(read):
        first, start, a, b = i, j, 1, 1
        while i == first and j == start or a != b:
            if (a <= b and i < len(made)) or j == len(read):
                a, i = a * made[i], i + 1
            else:
                b, j = b * read[j], j + 1
        result += _split(_flat(indices[first:i], made[first:i]), read[start:j])
    return tuple(result)


def _flat(indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
    place: Expr = te.const(0, te.INDEX)
    for index, extent in zip(indices, shape, strict=True):
        place = place * extent + index
    return place


def _split(place: Expr, shape: Sequence[int]) -> list[Expr]:
    """Indices into `shape` of its element number `place`."""
    result: list[Expr] = []
    for position, extent in reversed(list(enumerate(shape))):
        result.insert(0, place % extent if position else place)
        place = place // extent
    return result
