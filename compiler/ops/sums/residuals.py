"""Products whose sums meet a residual before they are requantized, once.

A residual r of another scale is added in steps of the sums: ``sum x · w + (r · factor >> fine)``,
with an integer factor for each channel, in steps that are finer by as many bits. It is below 0
where the residual is taken from the sums.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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

NEAR = 1 / 64
"""Steps that it may be off by the factor, where finer ones would cost a cycle."""

FINEST = 14
"""The most bits by which a factor is finer."""


def met(attrs: Attributes, residual, factor):
    """The number that sums meet, of a residual and its factor in the type of the sums, or of arrays
    of those: ``>>`` rounds down."""
    return residual * factor >> attrs["fine"] if attrs.get("fine") else residual * factor


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
        total = acc[indices] + met(attrs, residual[indices].astype(wide),
                                   factor[channel].astype(wide))
        return of_channels(attrs, total, channel, parameters, residual.dtype)

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
        total = wrapped(acc + met(attrs, residual.astype(np.int64), factor), sums_of(attrs)) + bias
        return arrays_of_channels(attrs, total, (mult, shift), x.dtype)
    return of


def _convolved_sums(attrs: Attributes, x: Array, w: Array) -> Array:
    return convolved_sums(attrs, x, w, attrs["pad_value"])


def _matrix_sums(attrs: Attributes, x: Array, w: Array) -> Array:
    return product_sums(x, w.T)


# Integer forms


def with_residual(view: QuantizedInputs, made: IntegerNode, residual: Stored, out: Stored,
                  signs: tuple[int, int] = (1, 1), times: np.ndarray | float = 1.0) -> IntegerNode:
    """The product `made`, whose sums meet a residual `times` a number, or one for each channel,
    both with their `signs`. At most a step off: StaysFloat where it may be more.
    """
    if {residual.dtype, out.dtype} != {"int8"}:
        raise StaysFloat("what its sums meet, and its result, must be of 8 bits")
    weight, bias, mult, shift = (array for _, array in made.constants)
    if weight.ndim != 4 and any(extent > 1 for extent in weight.shape[:-2]):
        raise StaysFloat(f"its weight must be one matrix, not {' x '.join(map(str, weight.shape))}")
    rows, bias = signs[0] * weight.reshape(len(bias), -1).astype(np.int64), signs[0] * bias
    share = np.broadcast_to(residual.scale * times / out.scale, bias.shape)
    sums = _Sums(rows, bias, np.ldexp(mult.astype(np.float64), -shift), signs[1] * share,
                 max(abs(end - residual.zp) for end in limits_of("int8")))
    fine = next((bits for bits in range(FINEST + 1) if sums.off(bits) <= OFF + NEAR),
                min(range(FINEST + 1), key=sums.off))
    if sums.off(fine) >= 1:
        raise StaysFloat(f"its residual {residual.value!r} in steps of its sums could be "
                         f"{sums.off(fine):.3g} steps of the result off")
    rows, bias, factor, steps = sums.rounded(fine)
    folded = np.rint(bias - residual.zp * factor / 2**fine + (0.5 if fine else 0)).astype(np.int64)
    bounds = 128 * (np.abs(rows).sum(axis=1) + np.abs(factor)) + np.abs(folded)
    check_accumulator(bounds, view.accumulator_bits)
    check_accumulator(np.abs(folded), what="bias")
    pairs = [multiplier_of(float(step), float(bound))
             for step, bound in zip(steps, bounds, strict=True)]
    mult, shift = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    wide = weight.dtype if rows.max(initial=0) <= limits_of(weight.dtype.name)[1] else np.int16
    constants = (("weight", rows.astype(wide).reshape(weight.shape)),
                 ("bias", folded.astype(np.int32)), ("mult", mult), ("shift", shift),
                 ("factor", factor.astype(np.int16)))
    attrs = ({"fine": fine} if fine else {}) | (
        {"sums": "int64"} if bounds.max() >= 2**(ACCUMULATOR_BITS - 1) else {})
    return IntegerNode(WITH_RESIDUAL[made.op], (*made.inputs, residual.value),
                       {**made.attrs, **attrs}, constants)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Weights and biases of channels, the `steps` of their sums in those of the result, and the
    `share` of a residual in these, of which `greatest` is the greatest magnitude."""

    rows: Array
    bias: Array
    steps: Array
    share: Array
    greatest: int

    def coarse(self, bits: int) -> Array:
        """The steps of the sums, coarser in a channel in which a factor that is finer by `bits`
        would be too great."""
        return np.maximum(self.steps, np.abs(self.share) * 2**bits / MOST)

    def rounded(self, bits: int) -> tuple[Array, Array, Array, Array]:
        """Weights, biases and factors in such steps, and these."""
        steps = self.coarse(bits)
        part = self.steps / steps
        rows, bias, factor = (np.rint(exact).astype(np.int64) for exact in (
            self.rows * part[:, None], self.bias * part, self.share / steps * 2**bits))
        return rows, bias, factor, steps

    def off(self, bits: int) -> float:
        """The steps by which a result may be off."""
        steps = self.coarse(bits)
        factor, other = self.share / steps * 2**bits, self.steps < steps
        apart = self.greatest * np.abs(np.rint(factor) - factor) / 2**bits + (1 if bits else 0)
        part = self.steps[other] / steps[other]
        rows, bias = self.rows[other] * part[:, None], self.bias[other] * part
        apart[other] += (128 * np.abs(np.rint(rows) - rows).sum(axis=1)
                         + np.abs(np.rint(bias) - bias))
        return float((OFF + steps * apart).max())


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
    _record("qconv2d", "convolution of int8 images, to whose sums r * factor >> fine is added",
            "x, r, w [Co,Ci/group,kh,kw], bias, mult, shift, factor int16 [Co]",
            "as qconv2d, fine (0)",
            _qconv2d_add, conv_type, _meaning(_convolved_sums, 1),
            pads=lambda attrs: attrs["pad_value"]),
    _record("qdense", "product of int8 with a weight, to whose sums r * factor >> fine is added",
            "x [...,K], r [...,N], w [N,K], bias, mult, shift, factor int16 [N]",
            "zp, lo, hi, sums (int32), fine (0)", _qdense_add, matrix_type,
            _meaning(_matrix_sums, -1)),
)
