"""Products whose sums meet a residual before they are requantized, once.

A residual r of another scale is added in steps of the sums: ``sum x · w + r · factor``, with an
integer factor for each channel, which is below 0 where the residual is taken from the sums.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from compiler import te
from compiler.ops.families.convolutions import conv_type, convolved, convolved_sums
from compiler.ops.families.products import matrix_type, product_sums, row_products
from compiler.ops.families.requantization import (arrays_of_channels, multipliers, of_channels,
                                                  sums_of, wrapped)
from compiler.ops.integers.fixed_point import limits_of
from compiler.ops.records.broadcasting import along
from compiler.ops.records.integer_forms import (ACCUMULATOR_BITS, IntegerNode, QuantizedInputs,
                                                StaysFloat, Stored, check_accumulator,
                                                multiplier_of)
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import (Array, Attributes, Inputs, Kind, Numbers, Operator,
                                           Range)
from compiler.ops.records.rules import TypeRule, Types, need, need_arity
from compiler.te import Tensor

WITH_RESIDUAL = {"qconv2d": "qconv2d_add", "qdense": "qdense_add"}
"""Products, and the operators that add a residual to their sums."""

MOST = 32767
"""The greatest factor of a residual: machines multiply by 16 bits."""

OFF = 256 * 2**-16
"""Steps that a result of 8 bits may be off by its multiplier."""


# Types


def _added_type(product: TypeRule) -> TypeRule:
    """The type of a product of the first input and the third, of which the second has the shape."""
    def rule(node: Node, types: Types) -> TensorType:
        need_arity(node, types, 7)
        result = product(replace(node, inputs=_product_of(node.inputs)), _product_of(types))
        need(types[1] == result, node,
             f"input {node.inputs[1]!r} must be {result}, not {types[1]}")
        need((types[6].dtype, types[6].shape) == ("int16", types[3].shape), node,
             f"input {node.inputs[6]!r} must be int16 of shape {types[3].shape}, not {types[6]}")
        return result
    return rule


def _product_of(parts: Sequence) -> tuple:
    """The inputs of the product alone."""
    return (parts[0], *parts[2:6])


# Expressions


def _added(attrs: Attributes, acc: Tensor, axis: int, inputs: Inputs, name: str) -> Tensor:
    _, residual, _, *parameters, factor = inputs
    wide = sums_of(attrs)

    def element(*indices: te.Expr) -> te.Expr:
        channel = indices[axis]
        met = residual[indices].astype(wide) * factor[channel].astype(wide)
        return of_channels(attrs, acc[indices] + met, channel, parameters, residual.dtype)

    return te.compute(acc.shape, element, name)


def _qconv2d_add(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, _, w, *_ = inputs
    acc = convolved(attrs, x, w, attrs["pad_value"], sums_of(attrs), f"{name}_acc")
    return _added(attrs, acc, 1, inputs, name)


def _qdense_add(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, _, w, *_ = inputs
    acc = row_products(x, w, True, sums_of(attrs), f"{name}_acc")
    return _added(attrs, acc, len(acc.shape) - 1, inputs, name)


# Meanings


def _meaning(sums: Callable[[Attributes, Array, Array], Array], axis: int
             ) -> Callable[..., Array]:
    def of(attrs: Attributes, x: Array, residual: Array, w: Array, bias: Array, mult: Array,
           shift: Array, factor: Array) -> Array:
        acc = sums(attrs, x, w)
        bias, mult, shift, factor = (along(vector, acc.ndim, axis % acc.ndim)
                                     for vector in (bias, mult, shift, factor.astype(np.int64)))
        total = wrapped(acc + residual * factor, sums_of(attrs)) + bias
        return arrays_of_channels(attrs, total, (mult, shift), x.dtype)
    return of


def _convolved_sums(attrs: Attributes, x: Array, w: Array) -> Array:
    return convolved_sums(attrs, x, w, attrs["pad_value"])


def _matrix_sums(attrs: Attributes, x: Array, w: Array) -> Array:
    return product_sums(x, w.T)


# Integer forms


def with_residual(view: QuantizedInputs, made: IntegerNode, residual: Stored, out: Stored,
                  signs: tuple[int, int] = (1, 1)) -> IntegerNode:
    """The product `made`, whose sums meet a residual, both times their `signs`. At most a step off:
    StaysFloat where it may be more. Weights of a channel whose steps are too fine for a factor
    become coarser.
    """
    if {residual.dtype, out.dtype} != {"int8"}:
        raise StaysFloat("what its sums meet, and its result, must be of 8 bits")
    weight, bias, mult, shift = (array for _, array in made.constants)
    if weight.ndim != 4 and any(extent > 1 for extent in weight.shape[:-2]):
        raise StaysFloat(f"its weight must be one matrix, not {' x '.join(map(str, weight.shape))}")
    rows, bias = signs[0] * weight.reshape(len(bias), -1).astype(np.int64), signs[0] * bias
    share = residual.scale / out.scale
    fine = np.ldexp(mult.astype(np.float64), -shift)
    steps = np.maximum(fine, share / MOST)
    shrunk, moved, met = (rows * (fine / steps)[:, None], bias * (fine / steps),
                          signs[1] * share / steps)
    rows, bias, factor = (np.rint(exact).astype(np.int64) for exact in (shrunk, moved, met))
    greatest = max(abs(end - residual.zp) for end in limits_of("int8"))
    off = OFF + steps * (128 * np.abs(rows - shrunk).sum(axis=1) + np.abs(bias - moved)
                         + greatest * np.abs(factor - met))
    if off.max() >= 1:
        raise StaysFloat(f"its residual {residual.value!r} in steps of its sums could be "
                         f"{off.max():.3g} steps of the result off")
    folded = bias - residual.zp * factor
    bounds = 128 * (np.abs(rows).sum(axis=1) + np.abs(factor)) + np.abs(folded)
    check_accumulator(bounds, view.accumulator_bits)
    check_accumulator(np.abs(folded), what="bias")
    pairs = [multiplier_of(float(step), float(bound))
             for step, bound in zip(steps, bounds, strict=True)]
    mult, shift = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    sums = {"sums": "int64"} if bounds.max() >= 2**(ACCUMULATOR_BITS - 1) else {}
    wide = weight.dtype if rows.max(initial=0) <= limits_of(weight.dtype.name)[1] else np.int16
    constants = (("weight", rows.astype(wide).reshape(weight.shape)),
                 ("bias", folded.astype(np.int32)), ("mult", mult), ("shift", shift),
                 ("factor", factor.astype(np.int16)))
    return IntegerNode(WITH_RESIDUAL[made.op], (*made.inputs, residual.value),
                       {**made.attrs, **sums}, constants)


# Records


def _ranges(parameters: Sequence[Array]) -> Sequence[Range]:
    return multipliers(parameters[:4])


def _record(product: str, summary: str, inputs: str, attributes: str, define, type_: TypeRule,
            meaning: Callable[..., Array], **fields) -> Operator:
    return Operator(
        name=WITH_RESIDUAL[product], summary=summary, inputs=inputs, attributes=attributes,
        define=define, meaning=meaning, type=_added_type(type_), numbers=Numbers.INTEGER,
        kind=Kind.COMPLEX, data_inputs=2, parameters=_ranges, scales=True, **fields)


OPERATORS = (
    _record("qconv2d", "convolution of int8 images, to whose sums r * factor is added",
            "x, r, w [Co,Ci/group,kh,kw], bias, mult, shift, factor int16 [Co]", "as qconv2d",
            _qconv2d_add, conv_type, _meaning(_convolved_sums, 1),
            pads=lambda attrs: attrs["pad_value"]),
    _record("qdense", "product of int8 with a weight, to whose sums r * factor is added",
            "x [...,K], r [...,N], w [N,K], bias, mult, shift, factor int16 [N]",
            "zp, lo, hi, sums (int32)", _qdense_add, matrix_type, _meaning(_matrix_sums, -1)),
)
