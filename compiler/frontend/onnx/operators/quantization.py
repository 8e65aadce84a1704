"""Quantization, and products of quantized tensors.

Forms that the accelerator supports (float32 and 8 or 16 bits, constant scales for the whole tensor
or each slice along an axis) become the operators that the quantizer's passes know; all others
become general arithmetic.
"""

import ml_dtypes
import numpy as np
import onnx

from compiler.frontend.building.values import NodeRefused, Value, axes_of, dtype_name
from compiler.frontend.onnx.nodes.importer import element_type
from compiler.frontend.onnx.nodes.maps import (OWN, QUANTIZED_MAP, QUANTIZED_TERMS,
                                               TERM_ATTRIBUTES)
from compiler.frontend.onnx.nodes.registry import operator
from compiler.frontend.onnx.operators.casts import code_of, converted
from compiler.frontend.onnx.operators.matrix import product
from compiler.frontend.onnx.operators.small_types import WHOLE
from compiler.frontend.onnx.operators.windows import check_window, convolved, padded_sides, spatial
from compiler.te import is_integer

STEPS = ("int8", "uint8", "int16", "uint16")


@operator("QuantizeLinear")
def quantize_linear(t, x, scale, zero=None, *, axis=1, block_size=0, output_dtype=0, precision=0,
                    saturate=1):
    dtype = zero.dtype if zero is not None else (
        dtype_name(element_type(output_dtype)) if output_dtype else "uint8")
    if _is_plain(x, scale, zero, block_size) and dtype in STEPS:
        return _plain(t, "quantizelinear", x, scale, zero, axis, dtype)
    if _is_plain(x, scale, zero, block_size) and dtype in WHOLE and x.array is None and (
            t.run is None):
        return _narrow(t, x, scale, zero, axis, dtype)
    scale = _along(x, scale, axis, block_size)
    zero = None if zero is None else _along(x, zero, axis, block_size)
    wide = dtype_name(element_type(precision)) if precision else (
        "float64" if x.dtype == "float64" else "float32")
    steps = x.astype(wide) / scale.astype(wide)
    if not dtype.startswith(("int", "uint")):
        moved = steps if zero is None else steps + converted(t, zero, code_of(wide))
        return converted(t, moved, code_of(dtype), saturate)
    info = ml_dtypes.iinfo(np.dtype(dtype))
    rounded = t.emit("rint", steps)
    moved = rounded if zero is None else rounded + converted(t, zero, code_of(wide))
    clipped = moved.maximum(float(info.min)).minimum(float(info.max))
    return converted(t, clipped, code_of(dtype))


@operator("DequantizeLinear")
def dequantize_linear(t, q, scale, zero=None, *, axis=1, block_size=0, output_dtype=0):
    dtype = dtype_name(element_type(output_dtype)) if output_dtype else scale.dtype
    constant = q.constant and (zero is None or zero.constant)
    if q.dtype in WHOLE and constant and not block_size:    # blocks have operators of their own
        q, zero = _steps_in_bytes(t, q, zero, axis), None
    elif q.dtype in (*STEPS, *WHOLE) and zero is not None and zero.constant and not block_size:
        zero = _in_bytes(t, zero)
    if _is_plain(q, scale, zero, block_size) and q.dtype in (*STEPS, "int32") and (
            dtype == "float32"):
        return _plain(t, "dequantizelinear", q, scale, zero, axis, q.dtype)
    scale = _along(q, scale, axis, block_size)
    zero = None if zero is None else _along(q, zero, axis, block_size)
    integer = is_integer(q.dtype) or q.dtype in ("int4", "uint4", "int2", "uint2")
    wide = onnx.TensorProto.INT32 if integer and q.dtype != "int64" else onnx.TensorProto.FLOAT
    steps = converted(t, q, wide)
    if zero is not None:
        steps = steps - converted(t, zero, wide)
    return (steps.astype("float32") * scale.astype("float32")).astype(dtype)


@operator("QuantizeLinear", domain=OWN)
def quantize_linear_of_litert(t, x, scale, zero, *, litert):
    """The result of an operator of a TensorFlow Lite file
    (`compiler/graph/integerize/litert.py`)."""
    return _plain(t, "quantizelinear", x, scale, zero, 1, zero.dtype, litert=litert)


@operator(QUANTIZED_MAP, domain=OWN)
def quantized_map(t, *inputs, function):
    if not isinstance(function, str):
        raise NodeRefused(f"function must be a text, not {function!r}")
    if not inputs or None in inputs:
        raise NodeRefused("must have inputs, none of them absent")
    return t.emit("quantized_map", *inputs, function=function)


@operator(QUANTIZED_TERMS, domain=OWN)
def quantized_terms(t, x, w, *, term, mult, shift, zp, lo, hi):
    if not isinstance(term, str) or not all(
            isinstance(number, int) for number in (mult, shift, zp, lo, hi)):
        raise NodeRefused(f"{', '.join(TERM_ATTRIBUTES)} must be a text and integers")
    return t.emit("quantized_terms", x, w, term=term, bias=0, mult=mult, shift=shift, zp=zp, lo=lo,
                  hi=hi)


def _is_plain(x: Value, scale: Value, zero: Value | None, block_size: int) -> bool:
    constant = scale.constant and (zero is None or zero.constant)
    return (constant and not block_size and scale.rank <= 1 and scale.dtype == "float32"
            and x.dtype in ("float32", *STEPS, "int32"))


def _plain(t, op: str, x: Value, scale: Value, zero: Value | None, axis: int,
           dtype: str, **attributes: object) -> Value:
    """Emits the (de)quantization, its scale and zero point constants of one shape."""
    factors = t.demand(scale, "scale")
    if not np.all((factors > 0) & np.isfinite(factors)):
        raise NodeRefused("every scale must be positive and finite")
    point = zero if zero is not None else t.constant(np.zeros(scale.shape, dtype),
                                                     f"{t.proto.output[0]}_zero_point")
    whole = scale.size == 1
    parameters = [_scalar(t, parameter, f"{t.proto.output[0]}_{role}") if whole else parameter
                  for role, parameter in (("scale", scale), ("zero_point", point))]
    place = 0 if whole else axes_of((axis,), x.rank)[0]
    return t.emit(op, x, *parameters, axis=place, **attributes)


def _narrow(t, x: Value, scale: Value, zero: Value | None, axis: int, dtype: str) -> Value:
    """Integers of few bits, in bytes: those of bytes within bounds, which one scale puts before the
    quantization, where integer operators have them.
    """
    wide, info = WHOLE[dtype][0], ml_dtypes.iinfo(np.dtype(dtype))
    zero = None if zero is None else _in_bytes(t, zero)
    bounds = int(info.min), int(info.max)
    if scale.size > 1 or x.dtype != "float32":
        steps = _plain(t, "quantizelinear", x, scale, zero, axis, wide)
        return steps.maximum(bounds[0]).minimum(bounds[1])
    step = np.float32(t.demand(scale, "scale").reshape(()))
    point = 0 if zero is None else int(t.demand(zero, "zero point").reshape(()))
    low, high = (float((bound - point) * step) for bound in bounds)
    return _plain(t, "quantizelinear", t.emit("clip", x, lo=low, hi=high), scale, zero, axis, wide)


def _steps_in_bytes(t, q: Value, zero: Value | None, axis: int) -> Value:
    """Constants of few bits minus their zero points, which int8 holds."""
    steps = t.demand(q, q.role).astype(np.int8)
    if zero is not None:
        point = t.demand(zero, "zero point").astype(np.int8)
        place, = axes_of((axis,), q.rank) if point.size > 1 else (0,)
        steps = steps - point.reshape([
            point.size if place == at else 1 for at in range(q.rank)])
    return t.constant(steps, q.role)


def _in_bytes(t, value: Value) -> Value:
    """Known integers of few bits, each in a byte."""
    if value.dtype not in WHOLE:
        return value
    array = t.demand(value, "zero point").astype(WHOLE[value.dtype][0])
    return t.constant(array, value.role, given=value.given)


def _scalar(t, value: Value, role: str) -> Value:
    if value.rank == 0 or value.size != 1:
        return value
    return t.constant(t.demand(value, role).reshape(()), role)


def _along(x: Value, value: Value, axis: int, block_size: int) -> Value:
    """Shapes a parameter so that it broadcasts to x: one number, one for each slice, or one for
    each block.
    """
    if value.size == 1:
        return value.reshape()
    place, = axes_of((axis,), x.rank)
    if not block_size:
        return value.reshape(*(value.size if axis == place else 1 for axis in range(x.rank)))
    numbers = np.arange(x.shape[place]) // block_size
    return value.tracer.emit("gather", value, value.tracer.constant(numbers), axis=place)


def _shifted(t, x: Value, zero: Value | None, axis: int | None = None) -> Value:
    """The value in int32 minus its zero point, which may be one for each slice along an axis."""
    wide = x.astype("int32")
    if zero is None:
        return wide
    point = zero.astype("int32")
    if point.size == 1:
        return wide - point.reshape()
    if axis is None or point.rank > 1:
        return wide - point
    return wide - point.reshape(*(point.size if place == axis else 1 for place in range(x.rank)))


@operator("MatMulInteger")
def matmul_integer(t, a, b, a_zero=None, b_zero=None):
    rows = None if a.rank < 2 else a.rank - 2
    return product(t, _shifted(t, a, a_zero, rows), _shifted(t, b, b_zero, b.rank - 1))


@operator("ConvInteger")
def conv_integer(t, x, w, x_zero=None, w_zero=None, *, auto_pad, dilations=None, group,
                 kernel_shape=None, pads=None, strides=None):
    rank = spatial(w)
    dilations, strides = dilations or (1,) * rank, strides or (1,) * rank
    check_window(rank, kernel_shape=kernel_shape, dilations=dilations, strides=strides, pads=pads)
    reach = [(size - 1) * step + 1 for size, step in zip(w.shape[2:], dilations, strict=True)]
    sides = padded_sides(x, reach, strides, pads, auto_pad)
    return convolved(t, _shifted(t, x, x_zero, 1), _shifted(t, w, w_zero, 0), strides, sides,
                     dilations, group)


def _requantized(t, sums: Value, scale: Value, zero: Value) -> Value:
    info = np.iinfo(np.dtype(zero.dtype))
    steps = t.emit("rint", sums.astype("float32") * scale.astype("float32"))
    moved = steps + zero.astype("float32")
    return moved.maximum(float(info.min)).minimum(float(info.max)).astype(zero.dtype)


@operator("QLinearMatMul")
def qlinear_matmul(t, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    sums = matmul_integer(t, a, b, a_zero, b_zero)
    scale = a_scale.astype("float32") * b_scale.astype("float32") / y_scale.astype("float32")
    return _requantized(t, sums, scale.reshape() if scale.size == 1 else scale, y_zero.reshape())


@operator("QLinearConv")
def qlinear_conv(t, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b=None, *, auto_pad,
                 dilations=None, group, kernel_shape=None, pads=None, strides=None):
    sums = conv_integer(t, x, w, x_zero, w_zero, auto_pad=auto_pad, dilations=dilations,
                        group=group, kernel_shape=kernel_shape, pads=pads, strides=strides)
    channels = (1, -1, *(1,) * (w.rank - 2))
    if b is not None:
        sums = sums + b.reshape(*(b.size if axis < 0 else axis for axis in channels))
    scale = x_scale.reshape() * w_scale / y_scale.reshape()
    each = scale.reshape(*(scale.size if axis < 0 else axis for axis in channels))
    return _requantized(t, sums, each if scale.size > 1 else scale.reshape(), y_zero.reshape())
