"""Products of float activations and quantized weights, with activations quantized at run time.

They are products of integers, which an accelerator may compute, and what follows them in float32.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from compiler.frontend.building.values import NodeRefused
from compiler.frontend.tflite.converter import Converter
from compiler.frontend.tflite.dynamic import Arithmetic, Rows, quantized, restored

IMAGE, PIXEL = (1, 2, 3), (1,)


def is_dynamic(c: Converter, x: int, weights: int) -> bool:
    """True if an operator quantizes its activations at run time: they are in float, and its weights
    are integers around zero, or in blocks.
    """
    tensor = c.tensor(weights)
    if c.tensor(x).dtype != np.float32 or tensor.dtype != np.int8 or tensor.quantization is None:
        return False
    return bool(tensor.quantization.block) or not tensor.quantization.zero.any()


def matrices(c: Converter, x: str, weights: int, perm: Sequence[int], way: str) -> str:
    """The product of a float tensor and a quantized one, its axes permuted: its columns are those
    of the product.
    """
    rows = quantized(c, x, (-1,), way)
    if c.scales(weights).block:
        return c.write.node("MatMul", [restored(c, rows), _of_blocks(c, weights, perm, way)])
    array, scale = c.array(weights), _scales(c, weights, (-1,))
    if array is not None:
        return by_factor(c, rows, Factor.of(c, array.transpose(perm), scale,
                                            c.tensor(weights).name))
    factor = c.write.node("Transpose", [c.value(weights)], perm=perm)
    wide = Arithmetic(c).cast(factor, np.int32)
    zeros = c.write.node("ReduceSum", [wide, c.write.integers(-2)], keepdims=1)
    return _scaled(c, c.write.node("MatMulInteger", [rows.steps, factor]), rows, zeros,
                   c.write.constant(scale))


@dataclass(frozen=True, slots=True)
class Factor:
    """Names of constants: integers [..., K, N], the sum of each column, and the scales."""

    steps: str
    totals: str
    scale: str

    @classmethod
    def of(cls, c: Converter, steps: np.ndarray, scale: np.ndarray, name: str = "") -> "Factor":
        return cls(c.write.constant(steps, name),
                   c.write.constant(steps.sum(-2, np.int32, keepdims=True)),
                   c.write.constant(scale))


def by_factor(c: Converter, rows: Rows, factor: Factor) -> str:
    """The float product of rows and a constant."""
    sums = c.write.node("MatMulInteger", [rows.steps, factor.steps])
    return _scaled(c, sums, rows, factor.totals, factor.scale)


def convolution(c: Converter, x: int, weights: int, perm: Sequence[int], way: str,
                how: Mapping[str, Any]) -> str:
    """The convolution of a float image by constant weights, [O, I/group, H, W] once permuted. To
    XNNPACK one of 1x1 is a product of matrices, whose rows are pixels, unless it has one weight.
    """
    array = c.array(weights)
    assert array is not None
    by_pixels = way == "delegate" and how["group"] == 1 and array.size > 1 and (
        {*how["kernel_shape"], *how["strides"]} == {1})
    rows = quantized(c, c.real(x, True), PIXEL if by_pixels else IMAGE, way)
    turned = array.transpose(perm)
    sums = c.write.node("ConvInteger", [rows.steps, c.write.constant(
        turned, c.tensor(weights).name)], **how)
    zeros = _sums_of_weights(c, rows, turned, how)
    return _scaled(c, sums, rows, zeros, c.write.constant(_scales(c, weights, (-1, 1, 1))))


def image(c: Converter, x: int, way: str) -> str:
    """A float image as it is after it was quantized."""
    return restored(c, quantized(c, c.real(x, True), IMAGE, way))


def _of_blocks(c: Converter, weights: int, perm: Sequence[int], way: str) -> str:
    """Weights in blocks in float. XNNPACK has their scales in bfloat16."""
    given, array = c.scales(weights), c.array(weights)
    if array is None:
        raise NodeRefused("weights in blocks must be constants")
    scale = given.scale if way != "delegate" else (
        given.scale.astype(ml_dtypes.bfloat16).astype(np.float32))
    parts = [c.write.constant(part.transpose(perm)) for part in (
        array, scale, given.zero.astype(np.int8))]
    return c.write.node("DequantizeLinear", parts, axis=list(perm).index(given.axis),
                        block_size=given.block)


def _sums_of_weights(c: Converter, rows: Rows, weights: np.ndarray, how: Mapping[str, Any]) -> str:
    """The sum of the weights that lie on an image, at each of its places: fewer at the borders,
    with zeros around it.
    """
    totals = weights.sum(1, np.int32, keepdims=True)
    if how.get("auto_pad") == "VALID" or totals.shape[2:] == (1, 1):
        return c.write.constant(totals.sum((1, 2, 3)).astype(np.int32).reshape(-1, 1, 1))
    ones = c.write.node("Expand", [c.write.constant(np.ones((1, 1, 1, 1), np.float32)),
                                   c.write.node("Shape", [rows.steps], start=2)])
    sums = c.write.node("Conv", [ones, c.write.constant(totals.astype(np.float32))],
                        **{**how, "group": 1})
    return Arithmetic(c).cast(sums, np.int32)


def _scaled(c: Converter, sums: str, rows: Rows, zeros: str, scale: str) -> str:
    """Sums of int32 in float. `zeros` has what each unit of a zero point adds to them."""
    do = Arithmetic(c)
    if rows.zero:
        sums = do("Sub", sums, do("Mul", rows.zero, zeros))
    return do("Mul", do("Mul", do.cast(sums, np.float32), rows.scale), scale)


def _scales(c: Converter, weights: int, shape: Sequence[int]) -> np.ndarray:
    """The scale of weights, or those of their channels in a shape that broadcasts."""
    given = c.scales(weights)
    return given.scale.reshape(() if given.per_tensor else shape)
