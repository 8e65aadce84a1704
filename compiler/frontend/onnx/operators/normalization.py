"""Normalizations, of elements along axes and of distributions."""

from collections.abc import Callable
from math import prod

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value, axes_of
from compiler.frontend.onnx.nodes.registry import operator
from compiler.te import is_float


def in_single(x: Value, rule: Callable[[Value], Value]) -> Value:
    """Computes float16 and bfloat16 in float32 and rounds the result once."""
    if not is_float(x.dtype) or x.dtype in ("float32", "float64"):
        return rule(x)
    return rule(x.astype("float32")).astype(x.dtype)


def _flattened(opset: int, x: Value, axis: int) -> tuple[Value, int]:
    """Flattens to two dimensions: before opset 13 all dimensions from the axis on count as one."""
    if opset >= 13:
        return x, axes_of((axis,), x.rank)[0]
    place = axis % x.rank if x.rank else 0
    return x.reshape(prod(x.shape[:place]), prod(x.shape[place:])), 1


def plain_softmax(x: Value, axis: int) -> Value:
    powers = (x - x.max(axis, keepdims=1)).exp()
    return powers / powers.sum(axis, keepdims=1)


def plain_log_softmax(x: Value, axis: int) -> Value:
    moved = x - x.max(axis, keepdims=1)
    return moved - moved.exp().sum(axis, keepdims=1).log()


@operator("Softmax")
def softmax(t, x, *, axis):
    return softmax_of(t.opset, x, axis)


def softmax_of(opset: int, x: Value, axis: int) -> Value:
    """The softmax of this opset."""
    flat, place = _flattened(opset, x, axis)
    return in_single(flat, lambda single: plain_softmax(single, place)).reshape(*x.shape)


@operator("LogSoftmax")
def log_softmax(t, x, *, axis):
    flat, place = _flattened(t.opset, x, axis)
    return in_single(flat, lambda single: plain_log_softmax(single, place)).reshape(*x.shape)


@operator("Hardmax")
def hardmax(t, x, *, axis):
    flat, place = _flattened(t.opset, x, axis)
    most = t.emit("argmax", flat, axis=place, keepdims=1)
    extents = [flat.shape[place] if axis == place else 1 for axis in range(flat.rank)]
    numbers = t.constant(np.arange(flat.shape[place]).reshape(extents))
    return numbers.equal(most).astype(x.dtype).reshape(*x.shape)


def _channels(value: Value, rank: int, axis: int = 1) -> Value:
    return value.reshape(*(value.size if place == axis else 1 for place in range(rank)))


@operator("BatchNormalization")
def batch_normalization(t, x, scale, bias, mean, variance, *, epsilon, momentum=0.9,
                        training_mode=0, spatial=1):
    if not spatial:
        raise NodeRefused("spatial must be 1, not 0")
    axes = tuple(axis for axis in range(x.rank) if axis != 1)
    before, training = (mean, variance), t.training
    if training_mode or training:
        mean = x.mean(*axes)
        apart = x - _channels(mean, x.rank)
        variance = (apart * apart).mean(*axes)
    factor = scale.astype(variance.dtype) / (variance + epsilon).sqrt()
    offset = bias.astype(variance.dtype) - mean.astype(variance.dtype) * factor
    wide = x.astype(variance.dtype)
    normalized = (wide * _channels(factor, x.rank) + _channels(offset, x.rank)).astype(x.dtype)
    if not (training_mode or training):
        return normalized
    following = training.average if training else _average
    return normalized, *(following(old, new, momentum)
                         for old, new in zip(before, (mean, variance), strict=True))


def _average(old: Value, batch: Value, momentum: float) -> Value:
    return old * momentum + batch * (1 - momentum)


@operator("InstanceNormalization")
def instance_normalization(t, x, scale, bias, *, epsilon):
    axes = tuple(range(2, x.rank))
    apart = x - x.mean(*axes, keepdims=1)
    spread = (apart * apart).mean(*axes, keepdims=1)
    return apart / (spread + epsilon).sqrt() * _channels(scale, x.rank) + _channels(bias, x.rank)


@operator("GroupNormalization")
def group_normalization(t, x, scale, bias, *, num_groups, epsilon, stash_type=1):
    """ONNX's function takes E[x^2] - E[x]^2, which loses its digits far from 0. Before opset 21
    scale and bias are of groups, since then of channels.
    """
    wide = x if x.dtype == "float64" else x.astype("float32")
    rows = wide.reshape(x.shape[0], num_groups, prod(x.shape[1:]) // num_groups)
    apart = rows - rows.mean(2, keepdims=1)
    spread = (apart * apart).mean(2, keepdims=1)
    scaled = (apart / (spread + epsilon).sqrt()).astype(x.dtype)
    if t.opset < 21:
        return (scaled * _channels(scale, 3) + _channels(bias, 3)).reshape(*x.shape)
    return scaled.reshape(*x.shape) * _channels(scale, x.rank) + _channels(bias, x.rank)


@operator("LayerNormalization")
def layer_normalization(t, x, scale, bias=None, *, axis, epsilon, stash_type=1):
    first, = axes_of((axis,), x.rank)
    axes = tuple(range(first, x.rank))
    wide = x if x.dtype == "float64" else x.astype("float32")
    mean = wide.mean(*axes, keepdims=1)
    apart = wide - mean
    inverse = 1 / ((apart * apart).mean(*axes, keepdims=1) + epsilon).sqrt()
    scaled = (apart * inverse).astype(x.dtype) * scale
    return scaled if bias is None else scaled + bias, mean, inverse


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(t, x, scale, *, axis=-1, epsilon=1e-5, stash_type=1):
    """ONNX Runtime's name of RMSNormalization, with the inverse of the root as second result."""
    if stash_type != 1:
        raise NodeRefused(f"stash_type must be 1, not {stash_type}")
    first, = axes_of((axis,), x.rank)
    wide = x if x.dtype == "float64" else x.astype("float32")
    inverse = 1 / ((wide * wide).mean(*range(first, x.rank), keepdims=1) + epsilon).sqrt()
    return (wide * inverse).astype(scale.dtype) * scale, inverse


@operator("LRN")
def lrn(t, x, *, alpha, beta, bias, size):
    """Normalizes by the sum of squares over neighbouring channels."""
    square = (x * x).reshape(x.shape[0], 1, x.shape[1], prod(x.shape[2:]))
    before = (size - 1) // 2
    total = t.emit("pool_sum", square, kernel=(size, 1), strides=(1, 1), dilations=(1, 1),
                   pads=(before, 0, size - 1 - before, 0))
    return x / (total.reshape(*x.shape) * (alpha / size) + bias) ** beta


@operator("LpNormalization")
def lp_normalization(t, x, *, axis, p):
    place, = axes_of((axis,), x.rank)
    if p == 1:
        norm = x.abs().sum(place, keepdims=1)
    else:
        norm = (x * x).sum(place, keepdims=1).sqrt()
    return norm.equal(0).where(norm.like(0), x / norm)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(t, x, *, axes):
    """The variance is the mean of squared distances: a difference of squares loses its digits where
    the mean is large, and may be negative.
    """
    places = axes_of(axes, x.rank)
    apart = x - x.mean(*places, keepdims=1)
    return apart / ((apart * apart).mean(*places, keepdims=1).sqrt() + 1e-9)


@operator("Dropout")
def dropout(t, x, ratio=None, training_mode=None, *, seed=None):
    """Drops nothing in inference. Masks of training are those of its steps; without steps, of the
    generator that the node tests have.
    """
    dropping = training_mode is not None and bool(t.demand(training_mode, "training mode"))
    share = 0.5 if ratio is None else float(t.demand(ratio, "ratio").reshape(()))
    if t.training and share:
        mask = t.training.kept(t, x.shape, share)
        return mask.where(x * (1 / (1 - share)), 0), mask
    if not dropping or share == 0:
        mask = t.constant(np.ones(x.shape, bool))
        kept = t.emit("identity", x) if x.array is None and not t.depth else x
        return kept, mask
    rng = np.random.RandomState(0 if seed is None else seed)    # the generator of the node tests
    kept = rng.uniform(0, 1, x.shape) >= share
    mask = t.constant(kept)
    return mask.where(x * (1 / (1 - share)), 0), mask


