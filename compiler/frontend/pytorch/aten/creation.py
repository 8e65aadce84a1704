"""Tensors that depend on sizes and numbers alone; they become constants."""

import numpy as np

from compiler.frontend.building.values import Value
from compiler.frontend.pytorch.aten.registry import aten, promoted, refuse
from compiler.te import numpy_dtype


def filled(t, shape, number, dtype: str) -> Value:
    t.check_size(tuple(shape), dtype)
    return t.constant(np.full(tuple(shape), number, numpy_dtype(dtype)))


@aten("full")
def full(t, size, fill_value, *, dtype=None):
    return filled(t, size, fill_value, dtype or promoted(fill_value))


@aten("zeros", "empty", "new_zeros", "new_empty")
def zeros(t, *arguments, dtype=None):
    return _of_size(t, 0, arguments, dtype)


@aten("ones", "new_ones")
def ones(t, *arguments, dtype=None):
    return _of_size(t, 1, arguments, dtype)


def _of_size(t, number, arguments, dtype):
    like = arguments[0].dtype if isinstance(arguments[0], Value) else "float32"
    return filled(t, arguments[-1], number, dtype or like)


@aten("new_full")
def new_full(t, x, size, fill_value, *, dtype=None):
    return filled(t, size, fill_value, dtype or x.dtype)


@aten("zeros_like", "empty_like")
def zeros_like(t, x, *, dtype=None):
    return filled(t, x.shape, 0, dtype or x.dtype)


@aten("ones_like")
def ones_like(t, x, *, dtype=None):
    return filled(t, x.shape, 1, dtype or x.dtype)


@aten("full_like")
def full_like(t, x, fill_value, *, dtype=None):
    return filled(t, x.shape, fill_value, dtype or x.dtype)


@aten("fill")
def fill(t, x, value):
    if isinstance(value, Value):
        return value.astype(x.dtype).expand(*x.shape)
    return filled(t, x.shape, value, x.dtype)


@aten("scalar_tensor")
def scalar_tensor(t, number, *, dtype=None):
    return filled(t, (), number, dtype or promoted(number))


@aten("arange")
def arange(t, *bounds, dtype=None):
    start, end, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    kind = dtype or promoted(start, end, step)
    return t.constant(np.arange(start, end, step).astype(numpy_dtype(kind)))


@aten("linspace.default")
def linspace(t, start, end, steps, *, dtype=None):
    return t.constant(np.linspace(start, end, steps).astype(numpy_dtype(dtype or "float32")))


@aten("eye")
def eye(t, n, m=None, *, dtype=None):
    return t.constant(np.eye(n, m, dtype=numpy_dtype(dtype or "float32")))


refuse("rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm",
       "bernoulli", "multinomial", "normal", "normal_functional", "uniform", "native_dropout",
       why="its result is random; export the module in evaluation mode")
