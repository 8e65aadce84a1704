"""Constants, and operators whose results depend on shapes alone."""

import numpy as np
import onnx

from compiler.frontend.building.values import NodeRefused, Value, dtype_name, frozen
from compiler.frontend.onnx.nodes.importer import element_type
from compiler.frontend.onnx.nodes.registry import operator
from compiler.te import numpy_dtype

FORMS = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64,
         "value_ints": np.int64, "value_string": object, "value_strings": object}


@operator("Constant")
def constant(t, *, value=None, value_float=None, value_floats=None, value_int=None,
             value_ints=None, value_string=None, value_strings=None, sparse_value=None):
    if value is not None:
        return t.constant(value, t.proto.output[0] if not t.depth else "")
    if sparse_value is not None:
        return t.constant(_dense(t, sparse_value))
    given = {"value_float": value_float, "value_floats": value_floats, "value_int": value_int,
             "value_ints": value_ints, "value_string": value_string,
             "value_strings": value_strings}
    for name, attribute in given.items():
        if attribute is not None:
            return t.constant(np.array(attribute, FORMS[name]),
                              t.proto.output[0] if not t.depth else "")
    raise NodeRefused("value must be given")


def _dense(t, sparse) -> np.ndarray:
    values = onnx.numpy_helper.to_array(sparse.values)
    places = onnx.numpy_helper.to_array(sparse.indices)
    t.check_size(tuple(sparse.dims), dtype_name(values.dtype))
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    if places.ndim == 1:
        dense.reshape(-1)[places] = values
    else:
        dense[tuple(places.T)] = values
    return dense


@operator("Shape")
def shape(t, x, *, start=0, end=None):
    return t.constant(np.array(x.shape[slice(start, end)], np.int64))


@operator("Size")
def size(t, x):
    return t.constant(np.array(x.size, np.int64))


@operator("ConstantOfShape")
def constant_of_shape(t, shape, *, value=None):
    extents = t.declared(shape, "shape") or tuple(t.integers(shape, "shape"))
    filled = np.zeros(1, np.float32) if value is None else value.reshape(-1)
    t.check_size(extents, filled.dtype.name)
    return t.constant(frozen(np.full(extents, filled[0], filled.dtype)))


@operator("EyeLike")
def eye_like(t, x, *, dtype=None, k):
    if x.rank != 2:
        raise NodeRefused(f"input must have 2 dimensions, not {x.rank}")
    kind = numpy_dtype(x.dtype) if dtype is None else element_type(dtype)
    t.check_size(x.shape, dtype_name(kind))
    return t.constant(np.eye(x.shape[0], x.shape[1], k, kind))


@operator("Range")
def range_(t, start, limit, delta, *, stash_type=1):
    """A range: each number is the start plus a multiple of the step, in the result's type."""
    for value, role in ((start, "start"), (limit, "limit"), (delta, "delta")):
        if declared := t.declared(value, role):
            return _numbers(t, declared, start, delta)
    first, last, step = (t.demand(value, role).reshape(()) for value, role
                         in ((start, "start"), (limit, "limit"), (delta, "delta")))
    for value, role in ((limit, "limit"), (delta, "delta")):
        if value.dtype != start.dtype:
            raise NodeRefused(f"{role} must be {start.dtype} as start is, not {value.dtype}")
    kind = numpy_dtype(start.dtype)
    wide = np.float32 if kind.itemsize == 2 and kind.kind not in "iu" else kind
    first, last, step = (number.astype(wide) for number in (first, last, step))
    if step == 0:
        raise NodeRefused("delta must not be 0")
    count = max(int(np.ceil((last - first) / step)), 0)
    t.check_size((count,), start.dtype)
    numbers = np.arange(count).astype(wide, copy=False)
    numbers *= step
    numbers += first
    numbers = numbers.astype(kind, copy=False)
    return t.constant(numbers, given=any(value.given for value in (start, limit, delta)))


def _numbers(t, shape: tuple[int, ...], start: Value, delta: Value) -> Value:
    """As many numbers as the declared shape says, from a computed start in computed steps."""
    t.check_size(shape, "int64")
    steps = t.constant(np.arange(shape[0])).astype(start.dtype)
    return steps * delta.reshape() + start.reshape()


def _window(rule):
    def window(t, size, *, output_datatype=1, periodic=1):
        declared = t.declared(size, "size")
        count = declared[0] if declared else t.integer(size, "size")
        t.check_size((count,), "float64")
        turns = np.arange(count) * 2 * np.pi / (count if periodic else max(count - 1, 1))
        return t.constant(rule(turns).astype(element_type(output_datatype)), given=size.given)
    return window


operator("HannWindow")(_window(lambda x: 0.5 - 0.5 * np.cos(x)))
operator("HammingWindow")(_window(lambda x: 25 / 46 - 21 / 46 * np.cos(x)))
operator("BlackmanWindow")(_window(lambda x: 0.42 - 0.5 * np.cos(x) + 0.08 * np.cos(2 * x)))
