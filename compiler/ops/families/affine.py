"""A factor and an offset for each channel of a quantized tensor."""

from collections.abc import Mapping, Sequence

import numpy as np

from compiler import te
from compiler.ops.families.requantization import (check_clamp, clamp_of, is_by_channel,
                                                  multipliers)
from compiler.ops.integers import arithmetic
from compiler.ops.integers.fixed_point import STORED, limits_of, requantize
from compiler.ops.records.blocks import BlockForm
from compiler.ops.records.channels_last import ChannelsLast, by_axis
from compiler.ops.records.integer_forms import Bounds, IntegerNode, Stored, clamp_to, multiplier_of
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import (Array, Attributes, Inputs, Kind, Numbers, Operator,
                                           Range)
from compiler.ops.records.rules import Types, need, need_arity
from compiler.te import Expr, Tensor

ALONE = 2**30
"""A bias beside which the input is nothing: of channels that have factor 0."""


def affine(x: Stored, weight: Array, steps: Array, constants: Mapping[str, Array], out: Stored,
           bounds: Bounds) -> IntegerNode:
    """The `qaffine` that is ``(x * weight + bias) * steps`` for each channel of axis 1, in steps of
    the result; `constants` have the bias, and multipliers and shifts of the `steps`.

    It is one requantization, at most half a step off, where that says all channels; else exactly
    the one of a product with the weights.
    """
    whole = _whole(weight.astype(np.int64), constants["bias"], steps, -limits_of(x.dtype)[0])
    bias, mult, shift = whole or (constants[name] for name in ("bias", "mult", "shift"))
    factor = () if whole else (("factor", weight),)
    return IntegerNode("qaffine", (x.value,), {"axis": 1, **clamp_to(out, bounds)},
                       (("bias", bias), ("mult", mult), ("shift", shift), *factor))


def _whole(weight: Array, offset: Array, steps: Array, greatest: int
           ) -> tuple[Array, Array, Array] | None:
    """Bias, multiplier and shift of ``(x * weight + offset) * steps`` without a product, where x is
    at most `greatest`: multipliers have no sign, and a bias is whole steps of x. None where that is
    more than half a step off.
    """
    alone = weight == 0
    scale = np.where(alone, np.abs(offset) / ALONE, weight) * steps
    wanted = np.where(alone, np.sign(offset) * ALONE, offset / np.where(alone, 1, weight))
    bias = np.rint(wanted)
    error = np.where(alone, greatest, np.abs(bias - wanted)) * scale
    if (weight < 0).any() or (error > 0.5).any():
        return None
    pairs = [multiplier_of(float(real), float(bound))
             for real, bound in zip(scale, np.abs(bias) + greatest, strict=True)]
    mult, shift = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    return bias.astype(np.int32), mult, shift


# The operator


def _type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 4, 5)
    x, axis = types[0], node.attrs["axis"]
    need(0 <= axis < len(x.shape), node,
         f"axis must be one of {len(x.shape)} dimensions, not {axis!r}")
    for name, type_, allowed in zip(node.inputs, types, (STORED, *(("int32",),) * 3, STORED),
                                    strict=False):
        need(type_.dtype in allowed, node,
             f"input {name!r} must be {' or '.join(allowed)}, not {type_.dtype}")
    wanted = tuple(x.shape[axis] for axis in _axes(node.attrs, len(x.shape), types[1].shape))
    for name, vector in zip(node.inputs[1:], types[1:], strict=True):
        need(vector.shape == wanted, node,
             f"input {name!r} must have shape {wanted!r}, not {vector.shape!r}")
    check_clamp(node, x.dtype)
    return x


def _axes(attrs: Attributes, rank: int, vector: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of vectors: that of channels, and the last one where channels are in blocks."""
    return (attrs["axis"], rank - 1) if len(vector) == 2 else (attrs["axis"],)


def _qaffine(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``x`` by ``bias``, ``mult``, ``shift`` and perhaps ``factor``, vectors along ``axis``."""
    x, bias, mult, shift, *factor = inputs
    axes = _axes(attrs, len(x.shape), bias.shape)

    def element(*indices: Expr) -> Expr:
        c, total = tuple(indices[axis] for axis in axes), x[indices].astype("int32")
        for vector in factor:
            total = total * vector[c].astype("int32")
        return arithmetic.requantize(total, bias[c], mult[c], shift[c].astype("uint8"), attrs["zp"],
                                     attrs["lo"], attrs["hi"]).astype(x.dtype)

    return te.compute(x.shape, element, name)


def _meaning(attrs: Attributes, x: Array, *vectors: Array) -> Array:
    axes = _axes(attrs, x.ndim, vectors[0].shape)
    shape = [extent if axis in axes else 1 for axis, extent in enumerate(x.shape)]
    bias, mult, shift, *factor = (vector.reshape(shape) for vector in vectors)
    total = x.astype(np.float64)
    for vector in factor:
        total = total * vector
    return requantize(total + bias, mult, shift, *clamp_of(attrs), x.dtype)


def _ranges(parameters: Sequence[Array]) -> Sequence[Range]:
    return multipliers(parameters[:3])


def _in_blocks(attrs: Attributes) -> Attributes | None:
    return attrs if attrs["axis"] == 1 else None


OPERATORS = (
    Operator(
        name="qaffine",
        summary="(x * factor + bias) * mult / 2**shift + zp, rounded once, clamped",
        inputs="x, bias, mult, shift, factor? [C]; in blocks [C/16,16]",
        attributes="axis (of C), zp, lo, hi",
        define=_qaffine, meaning=_meaning, type=_type, numbers=Numbers.INTEGER,
        kind=Kind.ELEMENTWISE, data_inputs=1, parameters=_ranges, pixelwise=is_by_channel,
        channels_last=ChannelsLast(by_axis), blocks=BlockForm("qaffine", _in_blocks, vectors=True)),
)
