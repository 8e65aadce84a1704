"""Normalizations, of elements along axes and of distributions; dropout."""

from math import prod

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.operators import normalization as onnx
from compiler.frontend.pytorch.aten.registry import aten, in_kind, refuse

TRAINING = ("it is in training mode and would change its running statistics; call eval() before "
            "export")


@aten("batch_norm")
def batch_norm(t, x, weight, bias, mean, variance, training, momentum, eps, cudnn_enabled=True):
    if training:
        raise NodeRefused(TRAINING if mean is not None else
                          "it normalizes by the statistics of the batch, in training mode")
    return _batch_norm(t, x, weight, bias, mean, variance, eps)


def _batch_norm(t, x, weight, bias, mean, variance, eps):
    weight = t.constant(np.ones(x.shape[1], x.dtype)) if weight is None else weight
    bias = t.constant(np.zeros(x.shape[1], x.dtype)) if bias is None else bias
    return onnx.batch_normalization(t, x, weight, bias, mean, variance, epsilon=eps)


@aten("_native_batch_norm_legit_no_training")
def native_batch_norm(t, x, weight, bias, mean, variance, momentum, eps):
    """Also returns the statistics, which are empty in inference."""
    empty = t.constant(np.zeros(0, x.dtype))
    return _batch_norm(t, x, weight, bias, mean, variance, eps), empty, empty


refuse("_native_batch_norm_legit", "_native_batch_norm_legit_functional", "native_batch_norm",
       why=TRAINING)


@aten("instance_norm")
def instance_norm(t, x, weight, bias, mean, variance, use_input_stats, momentum, eps,
                  cudnn_enabled=True):
    if not use_input_stats:
        return _batch_norm(t, x, weight, bias, mean, variance, eps)
    if mean is not None:
        raise NodeRefused(TRAINING)
    return group_norm(t, x, x.shape[1], weight, bias, eps)


@aten("layer_norm")
def layer_norm(t, x, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return native_layer_norm(t, x, normalized_shape, weight, bias, eps)[0]


@aten("native_layer_norm")
def native_layer_norm(t, x, normalized_shape, weight, bias, eps):
    """Also returns the means and the inverse deviations."""
    axes = tuple(range(x.rank - len(normalized_shape), x.rank))
    result, mean, inverse = _standardized(x, axes, eps)
    return _affine(result, weight, bias).astype(x.dtype), mean, inverse


def _standardized(x: Value, axes: tuple[int, ...], eps: float) -> tuple[Value, Value, Value]:
    wide = x if x.dtype == "float64" else x.astype("float32")
    mean = wide.mean(*axes, keepdims=1)
    apart = wide - mean
    inverse = 1 / ((apart * apart).mean(*axes, keepdims=1) + eps).sqrt()
    return apart * inverse, mean, inverse


def _affine(x: Value, weight: Value | None, bias: Value | None) -> Value:
    x = x if weight is None else x * weight.astype(x.dtype)
    return x if bias is None else x + bias.astype(x.dtype)


@aten("rms_norm")
def rms_norm(t, x, normalized_shape, weight=None, eps=None):
    axes = tuple(range(x.rank - len(normalized_shape), x.rank))
    eps = float(np.finfo(x.dtype).eps) if eps is None else eps
    wide = x if x.dtype == "float64" else x.astype("float32")
    inverse = 1 / ((wide * wide).mean(*axes, keepdims=1) + eps).sqrt()
    return _affine(wide * inverse, weight, None).astype(x.dtype)


@aten("group_norm")
def group_norm(t, x, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    apart = x.reshape(x.shape[0], num_groups, prod(x.shape[1:]) // num_groups)
    result = _standardized(apart, (2,), eps)[0].reshape(*x.shape)
    extents = (x.shape[1], *(1,) * (x.rank - 2))
    parameters = (None if parameter is None else parameter.reshape(*extents)
                  for parameter in (weight, bias))
    return _affine(result, *parameters).astype(x.dtype)


@aten("native_group_norm")
def native_group_norm(t, x, weight, bias, n, c, hxw, group, eps):
    """Also returns means and inverse deviations, which inference does not use."""
    return group_norm(t, x, group, weight, bias, eps), None, None


@aten("softmax.int", "_softmax")
def softmax(t, x, dim, dtype=None):
    return _over(x, dim, dtype, onnx.plain_softmax)


@aten("log_softmax.int", "_log_softmax")
def log_softmax(t, x, dim, dtype=None):
    return _over(x, dim, dtype, onnx.plain_log_softmax)


def _over(x: Value, dim: int, dtype, rule) -> Value:
    x = in_kind(x.astype(dtype) if isinstance(dtype, str) else x)
    if x.rank == 0:
        return _over(x.reshape(1), 0, None, rule).reshape()
    return onnx.in_single(x, lambda single: rule(single, dim % x.rank))


@aten("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
def dropout(t, x, p, train):
    if train and p:
        raise NodeRefused("it drops elements at random in training mode; call eval() before "
                          "export")
    return x
