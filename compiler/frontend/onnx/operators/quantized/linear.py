"""QuantizeLinear and DequantizeLinear.

Forms that the accelerator supports (float32 and 8 or 16 bits, constant scales for the whole tensor
or each slice along an axis) become the operators that the quantizer's passes know; all others
become general arithmetic.
"""

import ml_dtypes
import numpy as np
import onnx

from compiler.frontend.building.small_types import carried, carrier, numbers
from compiler.frontend.building.values import NodeRefused, Value, axes_of, dtype_name
from compiler.frontend.onnx.nodes.importer import element_type
from compiler.frontend.onnx.nodes.registry import MICROSOFT, operator
from compiler.frontend.onnx.operators.casts import code_of, converted
from compiler.frontend.onnx.operators.quantized.widening import widened
from compiler.ops.records.stored_floats import STORED_FLOATS
from compiler.te import bits, is_integer

QUARK, VITIS = "com.amd.quark", "com.vai.quantize"
"""AMD's quantizers: ONNX's operators for more types."""
STEPS = ("int8", "uint8", "int16", "uint16")
FLOATS = tuple(dtype for dtype in STORED_FLOATS if bits(dtype) == 8)
WHOLE = ("int4", "uint4", "int2", "uint2")


@operator("VitisQuantizeLinear", domain=VITIS)
@operator("ExtendedQuantizeLinear", domain=QUARK)
@operator("QuantizeLinear", domain=MICROSOFT)
@operator("QuantizeLinear")
def quantize_linear(t, x, scale, zero=None, *, axis=1, block_size=0, output_dtype=0, precision=0,
                    saturate=1):
    dtype = zero.dtype if zero is not None else (
        dtype_name(element_type(output_dtype)) if output_dtype else "uint8")
    if is_plain(x, scale, zero, block_size) and dtype in STEPS:
        return plain(t, "quantizelinear", x, scale, zero, axis, dtype)
    if is_plain(x, scale, zero, block_size) and dtype in WHOLE and x.array is None and (
            t.run is None):
        return _narrow(t, x, scale, zero, axis, dtype)
    if dtype in FLOATS and saturate and x.dtype == "float32" and x.array is None and (
            t.run is None) and _scales(scale, zero, block_size):
        return _of_floats(t, "encodefloat", x, scale, axis, dtype).retyped(dtype)
    scale = _along(x, scale, axis, block_size)
    zero = None if zero is None else _along(x, zero, axis, block_size)
    wide = dtype_name(element_type(precision)) if precision else (
        "float64" if x.dtype == "float64" else "float32")
    steps = x.astype(wide) / converted(t, scale, code_of(wide))
    if not dtype.startswith(("int", "uint")):
        moved = steps if zero is None else steps + converted(t, zero, code_of(wide))
        return converted(t, moved, code_of(dtype), saturate)
    info = ml_dtypes.iinfo(np.dtype(dtype))
    rounded = t.emit("rint", steps)
    if info.bits == 32:             # float32 has no greatest integer of such
        rounded, wide = rounded.astype("float64"), "float64"
    moved = rounded if zero is None else rounded + converted(t, zero, code_of(wide))
    clipped = moved.maximum(float(info.min)).minimum(float(info.max))
    return converted(t, clipped, code_of(dtype))


@operator("VitisDequantizeLinear", domain=VITIS)
@operator("ExtendedDequantizeLinear", domain=QUARK)
@operator("DequantizeLinear", domain=MICROSOFT)
@operator("DequantizeLinear")
def dequantize_linear(t, q, scale, zero=None, *, axis=1, block_size=0, output_dtype=0):
    dtype = dtype_name(element_type(output_dtype)) if output_dtype else scale.dtype
    constant = q.constant and (zero is None or zero.constant)
    if q.dtype in WHOLE and q.array is None:
        q = numbers(q)
    if q.dtype in WHOLE and constant and not block_size:    # blocks have operators of their own
        q, zero = _steps_in_bytes(t, q, zero, axis), None
    elif q.dtype in (*STEPS, *WHOLE) and zero is not None and zero.constant and not block_size:
        zero = _in_bytes(t, zero)
    if is_plain(q, scale, zero, block_size) and q.dtype in (*STEPS, "int32") and (
            dtype == "float32"):
        return plain(t, "dequantizelinear", q, scale, zero, axis, q.dtype)
    if q.dtype in FLOATS and dtype == "float32" and t.run is None and _scales(
            scale, zero, block_size):
        return _of_floats(t, "decodefloat", carried(q), scale, axis, q.dtype)
    if block_size and constant and scale.constant and dtype == "float32":
        place, = axes_of((axis,), q.rank)
        whole = _of_channels(t, q, scale, zero, place, block_size)
        if whole is not None:
            return whole
    scale = _along(q, scale, axis, block_size)
    zero = None if zero is None else _along(q, zero, axis, block_size)
    is_whole = is_integer(q.dtype) and q.dtype != "int64"
    wide = onnx.TensorProto.INT32 if is_whole else onnx.TensorProto.FLOAT
    wide = onnx.TensorProto.INT64 if q.dtype == "uint32" else wide
    steps = converted(t, q, wide)
    if zero is not None:
        steps = steps - converted(t, zero, wide)
    factor = converted(t, scale, onnx.TensorProto.FLOAT)
    return (steps.astype("float32") * factor).astype(dtype)


def _of_channels(t, q: Value, scale: Value, zero: Value | None, axis: int, block_size: int
                 ) -> Value | None:
    """A constant in blocks as int8 with a scale for each channel, where it has the same numbers."""
    if q.dtype not in (*WHOLE, *STEPS):
        return None
    block = np.arange(q.shape[axis]) // block_size
    steps = t.demand(q, q.role).astype(np.int32)
    if zero is not None:
        steps = steps - np.take(t.demand(zero, "zero point").astype(np.int32), block, axis)
    scales = np.take(t.demand(scale, "scale"), block, axis)
    for channel in range(q.rank):
        whole = widened(steps, scales, channel) if channel != axis else None
        if whole is not None:
            return plain(t, "dequantizelinear", t.constant(whole[0], q.role), t.constant(whole[1]),
                         None, channel, "int8")
    return None


def is_plain(x: Value, scale: Value, zero: Value | None, block_size: int = 0) -> bool:
    """True if this has a (de)quantization of the graph."""
    constant = scale.constant and (zero is None or zero.constant)
    return (constant and not block_size and scale.rank <= 1 and scale.dtype == "float32"
            and x.dtype in ("float32", *STEPS, "int32"))


def plain(t, op: str, x: Value, scale: Value, zero: Value | None, axis: int,
          dtype: str, **attributes: object) -> Value:
    """Emits the (de)quantization, its scale and zero point constants of one shape."""
    t.demand(scale, "scale")
    if not positive(scale):
        raise NodeRefused("every scale must be positive and finite")
    point = zero if zero is not None else t.constant(np.zeros(scale.shape, dtype),
                                                     f"{t.proto.output[0]}_zero_point")
    whole = scale.size == 1
    parameters = [_scalar(t, parameter, f"{t.proto.output[0]}_{role}") if whole else parameter
                  for role, parameter in (("scale", scale), ("zero_point", point))]
    place = 0 if whole else axes_of((axis,), x.rank)[0]
    return t.emit(op, x, *parameters, axis=place, **attributes)


def _scales(scale: Value, zero: Value | None, block_size: int) -> bool:
    """True where floats of few bits have known scales, of the tensor or of slices, and nothing is
    added."""
    none = zero is None or zero.array is not None and not zero.array.astype(np.float32).any()
    return (none and not block_size and scale.rank <= 1 and scale.dtype == "float32"
            and positive(scale))


def _of_floats(t, op: str, x: Value, scale: Value, axis: int, dtype: str) -> Value:
    """Emits a conversion of floats of few bits."""
    whole = scale.size == 1
    scale = _scalar(t, scale, f"{t.proto.output[0]}_scale") if whole else scale
    return t.emit(op, x, scale, axis=0 if whole else axes_of((axis,), x.rank)[0], dtype=dtype)


def positive(scale: Value) -> bool:
    """True if all the numbers are known, finite and above 0."""
    array = scale.array
    return array is not None and bool(np.all((array > 0) & np.isfinite(array)))


def _narrow(t, x: Value, scale: Value, zero: Value | None, axis: int, dtype: str) -> Value:
    """Integers of few bits, in bytes: those of bytes within bounds, which one scale puts before the
    quantization, where integer operators have them.
    """
    wide, info = carrier(dtype), ml_dtypes.iinfo(np.dtype(dtype))
    zero = None if zero is None else _in_bytes(t, zero)
    bounds = int(info.min), int(info.max)
    if scale.size > 1 or x.dtype != "float32":
        steps = plain(t, "quantizelinear", x, scale, zero, axis, wide)
        return steps.maximum(bounds[0]).minimum(bounds[1]).retyped(dtype)
    step = np.float32(t.demand(scale, "scale").reshape(()))
    point = 0 if zero is None else int(t.demand(zero, "zero point").reshape(()))
    low, high = (float((bound - point) * step) for bound in bounds)
    clipped = t.emit("clip", x, lo=low, hi=high)
    return plain(t, "quantizelinear", clipped, scale, zero, axis, wide).retyped(dtype)


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
    array = t.demand(value, "zero point").astype(carrier(value.dtype))
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
