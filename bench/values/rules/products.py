"""Convolutions and products of matrices: of floats, dequantized or not, and of integers."""

from typing import Any

import numpy as np

from bench.values.draw import Drawer, Value
from bench.values.rules.registry import rule
from bench.values.rules.steps import weight


def _window(d: Drawer, x: Value) -> dict:
    spatial = x.shape[2:]
    kernel = [d.choice((1, 2, 3, 3)) for _ in spatial]
    pads = [d.below(size) if d.chance(0.5) else 0 for size in kernel] if d.chance(0.6) else [
        0 for _ in kernel]
    given = {"kernel_shape": kernel, "pads": [*pads, *pads],
             "strides": [d.choice((1, 1, 2)) for _ in spatial]}
    if d.chance(0.15):
        given["dilations"] = [d.choice((1, 2)) for _ in spatial]
    return given


def _groups(d: Drawer, channels: int) -> int:
    return d.choice((1, 1, 1, channels, d.choice([one for one in range(1, channels + 1)
                                                  if channels % one == 0])))


@rule("Conv", types=("float32",), ranks=(4, 4, 4, 4, 3, 5))
def conv(d: Drawer, x: Value, op: str) -> Value:
    group, given = _groups(d, x.shape[1]), _window(d, x)
    outputs = group * (1 if group > 1 and d.chance(0.6) else d.below(6, 1))
    shape = outputs, x.shape[1] // group, *given["kernel_shape"]
    kernel = d.normal(*shape) / np.float32(np.sqrt(np.prod(shape[1:])))
    bias = [d.constant(d.normal(outputs))] if d.chance(0.6) else []
    return d.emit(op, x, weight(d, kernel, 0), *bias, group=group, **given)


@rule("Conv:pixels", types=("float32",), ranks=(4,))
def conv_of_pixels(d: Drawer, x: Value, op: str) -> Value:
    """A convolution that leaves the size of an image."""
    size, outputs = d.choice((1, 1, 3)), d.below(6, 1)
    kernel = d.normal(outputs, x.shape[1], size, size) / np.float32(size * np.sqrt(x.shape[1]))
    return d.emit(op, x, weight(d, kernel, 0), pads=[size // 2] * 4)


@rule("ConvTranspose", types=("float32",), ranks=(4,))
def conv_transpose(d: Drawer, x: Value, op: str) -> Value:
    group = _groups(d, x.shape[1])
    each = d.below(4, 1)
    kernel, strides = [d.below(4, 1), d.below(4, 1)], [d.below(3, 1), d.below(3, 1)]
    array = d.normal(x.shape[1], each, *kernel) / np.float32(np.sqrt(x.shape[1] * each))
    bias = [d.constant(d.normal(group * each))] if d.chance(0.5) else []
    return d.emit(op, x, weight(d, array, 1 if group == 1 else None), *bias, group=group,
                  kernel_shape=kernel, strides=strides)


@rule("Gemm", types=("float32",), ranks=(2,))
def gemm(d: Drawer, x: Value, op: str) -> Value:
    columns, turned = d.below(7, 1), d.below(2)
    depth = x.shape[1]
    array = d.normal(depth, columns) / np.float32(np.sqrt(depth))
    bias = [d.constant(d.normal(*d.choice(((columns,), (1, columns), (1,), (x.shape[0], 1), ()))))
            ] if d.chance(0.6) else []
    given: dict[str, Any] = {"alpha": d.number(0.5, 2)} if d.chance(0.15) else {}
    return d.emit(op, x, weight(d, array.T if turned else array, 0 if turned else 1), *bias,
                  transB=turned, **given)


@rule("MatMul", types=("float32",), ranks=(2, 3, 4, 2, 3, 4, 1, 5))
def matmul(d: Drawer, x: Value, op: str) -> Value:
    """With a constant, perhaps plus a bias, which may have more dimensions than the product."""
    columns, depth = d.below(7, 1), x.shape[-1]
    if x.rank > 2 and d.chance(0.3):
        columns = x.shape[1]                # so that two axes may be the channels'
    lead = x.shape[:-2] if x.rank > 2 and d.chance(0.15) else ()
    array = d.normal(*lead, depth, columns) / np.float32(np.sqrt(depth))
    made = d.emit(op, x, weight(d, array, 1 if not lead else None))
    if d.chance(0.5):
        shape = d.choice(((columns,), (1, columns), (1,), (1,) * made.rank,
                          (*(1,) * made.rank, columns), made.shape))
        pair = [made, d.constant(d.normal(*shape))]
        made = d.emit("Add", *(pair if d.chance(0.7) else pair[::-1]))
    return made


@rule("MatMul:computed", types=("float32",), ranks=(2, 3, 4))
def matmul_of_two(d: Drawer, x: Value, op: str) -> Value:
    """With another computed value: x by x turned, or what fits."""
    fitting = [one for one in d.values if one.dtype == "float32" and one.rank >= 2
               and one.shape[-2] == x.shape[-1] and one.shape[:-2] in (x.shape[:-2], ())]
    if fitting and d.chance(0.5):
        return d.emit(op, x, d.choice(fitting))
    if d.chance(0.4):
        return _batched(d, x, op)
    perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return d.emit(op, x, d.emit("Transpose", x, perm=perm))


def _batched(d: Drawer, x: Value, op: str) -> Value:
    """A product with an input for each matrix of the batch, perhaps plus another input."""
    made = d.emit(op, x, d.input(d.normal(*x.shape[:-2], x.shape[-1], d.below(5, 1))))
    return d.emit("Add", made, d.input(d.normal(*made.shape))) if d.chance(0.5) else made


@rule("Einsum", types=("float32",), ranks=(2, 3, 4))
def einsum(d: Drawer, x: Value, op: str) -> Value:
    letters = "abcd"[:x.rank]
    equation = f"{letters},{letters[-1]}z->{letters[:-1]}z"
    return d.emit(op, x, d.constant(d.normal(x.shape[-1], d.below(5, 1))), equation=equation)


def _zero(d: Drawer, dtype: str, count: int = 0) -> str:
    info = np.iinfo(dtype)
    return d.constant(d.rng.integers(info.min // 2, info.max // 2 + 1, (count,) if count else ()),
                      dtype)


@rule("ConvInteger", types=("int8", "uint8"), ranks=(4,))
def conv_integer(d: Drawer, x: Value, op: str) -> Value:
    given, outputs = _window(d, x), d.below(5, 1)
    dtype = d.choice(("int8", "uint8"))
    kernel = d.constant(d.rng.integers(*_ends(dtype), (outputs, x.shape[1], *given["kernel_shape"])
                                       ), dtype)
    zeros = [_zero(d, x.dtype)] if d.chance(0.7) else []
    return d.emit(op, x, kernel, *zeros, *([_zero(d, dtype)] if zeros and d.chance(0.5) else []),
                  **given)


@rule("MatMulInteger", types=("int8", "uint8"), ranks=(2, 3, 4))
def matmul_integer(d: Drawer, x: Value, op: str) -> Value:
    dtype = d.choice(("int8", "uint8"))
    other = d.constant(d.rng.integers(*_ends(dtype), (x.shape[-1], d.below(5, 1))), dtype)
    zeros = [_zero(d, x.dtype)] if d.chance(0.7) else []
    return d.emit(op, x, other, *zeros, *([_zero(d, dtype)] if zeros and d.chance(0.5) else []))


def _ends(dtype: str) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max) + 1


def _requantization(d: Drawer, sums: float, factors: float, dtype: str
                    ) -> tuple[list[str], float]:
    """Scale and zero point of a result of integers."""
    scale = max(sums * factors, 1e-6) / 100 * d.number(0.7, 1.5)
    return [d.constant(scale, "float32"), _zero(d, dtype)], scale


@rule("QLinearConv", types=("int8", "uint8"), ranks=(4,))
def qlinear_conv(d: Drawer, x: Value, op: str) -> Value:
    given, outputs = _window(d, x), d.below(5, 1)
    dtype = d.choice(("int8", "int8", "uint8"))
    shape = outputs, x.shape[1], *given["kernel_shape"]
    kernel = d.constant(d.rng.integers(*_ends(dtype), shape), dtype)
    each = outputs if d.chance(0.5) else 0
    factors = d.constant(d.rng.uniform(0.005, 0.02, (each,) if each else ()), "float32")
    zero = d.constant(np.full((each,) if each else (), 0 if dtype == "int8" else 128), dtype)
    scale = x.scale or 0.05
    sums = 74 * 74 * np.sqrt(np.prod(shape[1:]))
    (out, point), step = _requantization(d, sums, scale * 0.01, x.dtype)
    bias = [d.constant(d.rng.integers(-1000, 1000, outputs), "int32")] if d.chance(0.5) else []
    return d.emit(op, x, d.constant(scale, "float32"), d.constant(x.zero, x.dtype), kernel, factors,
                  zero, out, point, *bias, steps=(float(np.float32(step)),
                                                  int(d.constants[point])), **given)


@rule("QLinearMatMul", types=("int8", "uint8"), ranks=(2, 3, 4))
def qlinear_matmul(d: Drawer, x: Value, op: str) -> Value:
    dtype = d.choice(("int8", "uint8"))
    other = d.constant(d.rng.integers(*_ends(dtype), (x.shape[-1], d.below(5, 1))), dtype)
    scale = x.scale or 0.05
    (out, point), step = _requantization(d, 74 * 74 * np.sqrt(x.shape[-1]), scale * 0.01, x.dtype)
    return d.emit(op, x, d.constant(scale, "float32"), d.constant(x.zero, x.dtype), other,
                  d.constant(0.01, "float32"), _zero(d, dtype), out, point,
                  steps=(float(np.float32(step)), int(d.constants[point])))
