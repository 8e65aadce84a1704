"""Convolutions and pools."""

from collections.abc import Sequence
from math import prod

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.operators import pooling
from compiler.frontend.onnx.operators import windows as onnx
from compiler.frontend.pytorch.aten.registry import aten, numbers


def _batched(rule):
    """Applies a rule for batches; an image without a batch axis is a batch of one."""
    def batched(t, x, weight, *arguments, **options):
        if x.rank < weight.rank:
            result = rule(t, x.unsqueeze(0), weight, *arguments, **options)
            return result.reshape(*result.shape[1:])
        return rule(t, x, weight, *arguments, **options)
    return batched


@aten("conv1d", "conv2d", "conv3d")
@_batched
def conv(t, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Convolves; `padding` may be ``valid`` or ``same``, which puts the larger half after."""
    rank = weight.rank - 2
    auto, pads = "NOTSET", None
    if isinstance(padding, str):
        auto = {"same": "SAME_UPPER", "valid": "VALID"}[padding]
    else:
        pads = numbers(padding, rank) * 2
    return onnx.conv(t, x, weight, bias, auto_pad=auto, dilations=numbers(dilation, rank),
                     group=groups, pads=pads, strides=numbers(stride, rank))


@aten("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
@_batched
def conv_transpose(t, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1,
                   dilation=1):
    rank = weight.rank - 2
    return onnx.conv_transpose(
        t, x, weight, bias, auto_pad="NOTSET", dilations=numbers(dilation, rank), group=groups,
        output_padding=numbers(output_padding, rank), pads=numbers(padding, rank) * 2,
        strides=numbers(stride, rank))


@aten("convolution")
def convolution(t, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    if transposed:
        return conv_transpose(t, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(t, x, weight, bias, stride, padding, dilation, groups)


def _pooled(t, x: Value, rank: int, rule) -> Value:
    """Applies the rule to an image, or to a batch of them."""
    if x.rank == rank + 2:
        return rule(x)
    result = rule(x.unsqueeze(0))
    return result.reshape(*result.shape[1:])


def _window(rank: int, kernel_size, stride, padding, dilation=1) -> dict:
    kernel = numbers(kernel_size, rank)
    strides = kernel if stride is None or stride == [] else numbers(stride, rank)
    return {"auto_pad": "NOTSET", "kernel_shape": kernel, "strides": strides,
            "pads": numbers(padding, rank) * 2, "dilations": numbers(dilation, rank)}


def _max_pool(rank: int):
    def max_pool(t, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        options = _window(rank, kernel_size, stride, padding, dilation)
        return _pooled(t, x, rank, lambda image: pooling.max_pool(
            t, image, ceil_mode=int(ceil_mode), **options))
    return max_pool


def _avg_pool(rank: int):
    def avg_pool(t, x, kernel_size, stride=None, padding=0, ceil_mode=False,
                 count_include_pad=True, divisor_override=None):
        options = _window(rank, kernel_size, stride, padding)
        if divisor_override is not None:
            if ceil_mode:
                raise NodeRefused("divisor_override is not supported with ceil_mode")
            mean = avg_pool(t, x, kernel_size, stride, padding)
            return mean * (prod(options["kernel_shape"]) / divisor_override)
        return _pooled(t, x, rank, lambda image: pooling.average_pool(
            t, image, ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad),
            **options))
    return avg_pool


def _adaptive(rank: int):
    def adaptive_avg_pool(t, x, output_size):
        extents = [size if new is None else new for size, new
                   in zip(x.shape[-rank:], numbers(output_size, rank), strict=True)]
        return _pooled(t, x, rank, lambda image: _averaged(t, image, extents))
    return adaptive_avg_pool


def _averaged(t, x: Value, extents: Sequence[int]) -> Value:
    """Averages whole planes, windows of one size, or parts along each axis."""
    sizes = x.shape[2:]
    if set(extents) == {1}:
        return pooling.global_average_pool(t, x)
    if all(size % new == 0 for size, new in zip(sizes, extents, strict=True)):
        kernel = tuple(size // new for size, new in zip(sizes, extents, strict=True))
        return pooling.average_pool(t, x, auto_pad="NOTSET", kernel_shape=kernel, strides=kernel)
    for axis, new in enumerate(extents, 2):
        parts = [x.cut(axis, begin, end).mean(axis, keepdims=1)
                 for begin, end in _parts(x.shape[axis], new)]
        x = parts[0] if new == 1 else t.emit("concat", *parts, axis=axis)
    return x


def _adaptive_max(rank: int):
    def adaptive_max_pool(t, x, output_size):
        for place, new in enumerate(numbers(output_size, rank)):
            axis = x.rank - rank + place
            parts = [x.cut(axis, begin, end).max(axis, keepdims=1)
                     for begin, end in _parts(x.shape[axis], new)]
            x = parts[0] if new == 1 else t.emit("concat", *parts, axis=axis)
        return x, None          # the places, which only training reads
    return adaptive_max_pool


def _parts(size: int, count: int) -> list[tuple[int, int]]:
    """The starts and ends of ATen's adaptive windows, which may overlap."""
    return [(part * size // count, -(-(part + 1) * size // count)) for part in range(count)]


for _rank in (1, 2, 3):
    aten(f"max_pool{_rank}d")(_max_pool(_rank))
    aten(f"avg_pool{_rank}d")(_avg_pool(_rank))
    aten(f"adaptive_avg_pool{_rank}d", f"_adaptive_avg_pool{_rank}d")(_adaptive(_rank))
    aten(f"adaptive_max_pool{_rank}d")(_adaptive_max(_rank))


def _with_places(rank: int):
    pool = _max_pool(rank)
    return lambda t, *arguments: (pool(t, *arguments), None)


for _rank in (1, 2, 3):
    aten(f"max_pool{_rank}d_with_indices")(_with_places(_rank))
