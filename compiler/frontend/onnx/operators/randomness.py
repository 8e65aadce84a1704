"""Random numbers: drawn while a network is built, from the seed that the node has, else from 0."""

from collections.abc import Callable, Sequence

import numpy as np

from compiler.frontend.building.values import Value
from compiler.frontend.onnx.nodes.importer import element_type
from compiler.frontend.onnx.nodes.registry import operator
from compiler.te import numpy_dtype

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def _drawn(t, shape: Sequence[int], dtype: np.dtype, seed: float | None, draw: Draw) -> Value:
    t.check_size(shape, dtype.name)
    bits = np.float32(0 if seed is None else seed).view(np.uint32)
    return t.constant(draw(np.random.default_rng(int(bits)), tuple(shape)).astype(dtype))


def _uniform(low: float, high: float) -> Draw:
    return lambda rng, shape: rng.uniform(low, high, shape)


def _normal(mean: float, scale: float) -> Draw:
    return lambda rng, shape: rng.normal(mean, scale, shape)


@operator("RandomUniform")
def random_uniform(t, *, dtype, high, low, seed=None, shape):
    return _drawn(t, shape, element_type(dtype), seed, _uniform(low, high))


@operator("RandomNormal")
def random_normal(t, *, dtype, mean, scale, seed=None, shape):
    return _drawn(t, shape, element_type(dtype), seed, _normal(mean, scale))


@operator("RandomUniformLike")
def random_uniform_like(t, x, *, dtype=None, high, low, seed=None):
    kind = numpy_dtype(x.dtype) if dtype is None else element_type(dtype)
    return _drawn(t, x.shape, kind, seed, _uniform(low, high))


@operator("RandomNormalLike")
def random_normal_like(t, x, *, dtype=None, mean, scale, seed=None):
    kind = numpy_dtype(x.dtype) if dtype is None else element_type(dtype)
    return _drawn(t, x.shape, kind, seed, _normal(mean, scale))
