"""Functions of whole rows of int8 elements, along the last axis: softmax and normalizations.

All are arithmetic of int32 that never overflows, and one meaning for every target. What is one
number a row is computed by shifts, small tables and a step of Newton's method.

**Softmax** is two operators. `qbelow_max` gives ``x - max(x) + 127``, which fits int8. `qsoftmax`
of such an x, with ``T[x] = 128 high[x & 255] + low[x & 255]`` the exponential in 14 bits, is ::

    s = max(sum of T[x], 1)          n = floor(log2 s)
    v = (s << (30 - n)) >> 16        s = v 2^(n - 14) in 15 bits
    a = RECIPROCALS[v >> 6]          2^22 / v in 8 bits
    r = min(128 a + (a (2^22 - v a) >> 15), 32767)          2^29 / v
    y = requantize(T[x] r >> max(n - 13, 0))                the probability is that number / 2^28

**Layer normalization** of a row of K elements, with F and G bits behind the point (`Fractions`): ::

    t, q = sum of x, sum of x^2
    m = (t mean + 2^(shift - 1)) >> shift                   the mean in F bits
    w = (t << (1 + G)) - ((K m + half) >> (F - G))          2 t - K m in G bits
    d = max((q << (F + G)) - m w + epsilon, least)          K times the variance in F + G bits
    n = floor(log2 d), p = n & 1
    f = ((d << (30 - n)) >> 17) (1 + p)                     d = f 2^(n - p - 13)
    a = ROOTS[(d << (30 - n) >> 23) + 128 p]                2^14.5 / root of f, in 8 bits
    r = 64 a + (a (2^21 - a (f a >> 8)) >> 16)              2^20.5 / root of f
    y = requantize(((2^F x - m) r >> (n / 2 + C)) weight + bias)

**RMS normalization** has no mean to round. What has bits behind the point is epsilon, beside which
the squares of a small row count: with z the zero point, and P for K (`power_bits`), ::

    d = max((sum of x^2 - 2 z sum of x + K z^2) 2^(2 P) + epsilon, 1)   K times the mean square

and from there on as above, with F = 0, C = -P, z for m, no bias, and a weight that is a multiplier
and a shift of the requantization; where some are negative, `sign` is multiplied before.

The table of reciprocals, and that of roots, holds numbers less 192. All functions are within a
step of what float makes of rows of up to 1024 elements, but for layer normalization of longer ones,
whose means have fewer bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from compiler import te
from compiler.ops.families.requantization import (check_clamp, check_multiplier, clamp_of,
                                                  multipliers)
from compiler.ops.integers import arithmetic
from compiler.ops.integers.arithmetic import exponent_of
from compiler.ops.integers.fixed_point import requantize
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Array, Attributes, Inputs, Numbers, Operator, Range
from compiler.ops.records.rules import Types, need, need_arity
from compiler.te import Expr, Tensor

MOST_ELEMENTS = 1 << 14
"""The longest row, so that all sums fit int32."""

GREATEST = 16383                # the exponential of 0
MASKED = -128                   # what is masked is put here, below the maximum, by 255 steps

_MIDDLE = 192                   # stands for 0 in the tables of reciprocals and roots


def _reciprocals() -> Array:
    """At place i, 2^22 over the middle of the numbers v of 15 bits with v >> 6 = 256 + i."""
    middles = (256 + np.arange(256) + 0.5) * 64
    return (np.rint(2.0**22 / middles) - _MIDDLE).astype(np.int8)


def _roots() -> Array:
    """At place i, 2^14.5 over the root of the middle of the numbers f that belong to it."""
    places = np.arange(256)
    odd = places < 128
    middles = (places + 128 * odd + 0.5) * 64 * (1 + odd)
    return (np.rint(2.0**14.5 / np.sqrt(middles)) - _MIDDLE).astype(np.int8)


RECIPROCALS, ROOTS = _reciprocals(), _roots()


def exponentials(scale: float, masked: bool = False) -> tuple[Array, Array]:
    """The tables ``high`` and ``low`` [256] of a softmax of numbers in steps of `scale`. Where some
    are `masked`, the exponential of `MASKED` is 0.
    """
    stored = np.arange(256).astype(np.uint8).view(np.int8)
    powers = np.rint(GREATEST * np.exp(scale * (stored.astype(np.float64) - 127))).astype(np.int64)
    if masked:
        powers[stored == MASKED] = 0
    return (powers >> 7).astype(np.int8), (powers & 127).astype(np.int8)


def power_bits(count: int) -> int:
    """Half the bits behind the point of the mean square of a row: as many as leave the sum of
    `count` squares of 8 bits and a sign in 29 bits.
    """
    return max(0, (29 - (count * 255**2).bit_length()) // 2)


def rms_unit(count: int) -> float:
    """The root of the mean square that one step of the normalized element of RMS normalization
    is."""
    return sqrt(count) * 2.0**-14


@dataclass(frozen=True, slots=True)
class Fractions:
    """The split of 32 bits in layer normalization of `count` elements.

    mean, shift : ``mean / 2**shift`` is 2^F over the number of elements.
    kept : C, by which the product with the root is shifted besides.
    unit : the standard deviation that one step of the normalized element is.
    """

    count: int

    @property
    def fine(self) -> int:
        """F"""
        return min(6, 16 - (self.count - 1).bit_length())

    @property
    def coarse(self) -> int:
        """G"""
        return min(self.fine, 16 - (self.count - 1).bit_length() - self.fine)

    @property
    def shift(self) -> int:
        return max(bits for bits in range(24 - self.fine) if self._mean(bits) < 1 << 15)

    @property
    def mean(self) -> int:
        return self._mean(self.shift)

    def _mean(self, bits: int) -> int:
        return round((1 << self.fine + bits) / self.count)

    @property
    def kept(self) -> int:
        return (self.fine - self.coarse + 1) // 2

    @property
    def unit(self) -> float:
        return sqrt(self.count) * 2.0**(
            self.kept - 14 - self.fine + (self.fine + self.coarse) / 2)

    @property
    def least(self) -> int:
        """The least d: where G is less than F, that of a smaller variance is mostly rounding."""
        return 1 << self.fine + 6 if self.coarse < self.fine else 1


# Types


def _row_type(count: int) -> Callable[[Node, Types], TensorType]:
    def rule(node: Node, types: Types) -> TensorType:
        need_arity(node, types, count)
        x, rank = types[0], len(types[0].shape)
        need(x.dtype == "int8" and rank >= 2, node,
             f"input {node.inputs[0]!r} must be int8 of two dimensions or more, not {x}")
        elements = x.shape[rank - 1]
        need(1 <= elements <= MOST_ELEMENTS, node,
             f"a row must have 1 to {MOST_ELEMENTS} elements, not {elements}")
        return x
    return rule


def _tables(node: Node, types: Types, *places: int) -> None:
    for place in places:
        need((types[place].dtype, types[place].shape) == ("int8", (256,)), node,
             f"input {node.inputs[place]!r} must be int8 of 256 elements, not {types[place]}")


def _check_scale(node: Node) -> None:
    check_multiplier(node, 0, node.attrs["mult"], node.attrs["shift"])
    check_clamp(node)


def _softmax_type(node: Node, types: Types) -> TensorType:
    x = _row_type(4)(node, types)
    _tables(node, types, 1, 2, 3)
    _check_scale(node)
    return x


def _layer_norm_type(node: Node, types: Types) -> TensorType:
    x = _row_type(4)(node, types)
    _vectors(node, types, "int16", "int32")
    _tables(node, types, 3)
    _check_scale(node)
    _check_epsilon(node)
    return x


def _rms_norm_type(node: Node, types: Types) -> TensorType:
    x = _row_type(len(types) if len(types) == 5 else 4)(node, types)
    _vectors(node, types, "int32", "int32")
    _tables(node, types, 3)
    if len(types) == 5:
        need((types[4].dtype, types[4].shape) == ("int8", x.shape[-1:]), node,
             f"input {node.inputs[4]!r} must be int8 of {x.shape[-1]} elements, not {types[4]}")
    check_clamp(node)
    _check_epsilon(node)
    need(-128 <= node.attrs["zero"] <= 127, node,
         f"zero must be -128 to 127, not {node.attrs['zero']!r}")
    return x


def _vectors(node: Node, types: Types, *dtypes: str) -> None:
    """A constant of each of the types for each channel, behind the data."""
    count = types[0].shape[-1]
    for place, dtype in enumerate(dtypes, 1):
        need((types[place].dtype, types[place].shape) == (dtype, (count,)), node,
             f"input {node.inputs[place]!r} must be {dtype} of {count} elements, "
             f"not {types[place]}")


def _check_epsilon(node: Node) -> None:
    need(0 <= node.attrs["epsilon"] < 1 << 30, node,
         f"epsilon must be 0 to {(1 << 30) - 1}, not {node.attrs['epsilon']!r}")


# Expressions


class _Rows:
    """Stages of a function of rows: names them after the result, and gives each by its indices."""

    def __init__(self, x: Tensor, name: str):
        self.x, self.name = x, name

    def reduced(self, suffix: str, op: Callable, element: Callable[[Expr], Expr]) -> Tensor:
        """One number a row, of the elements as int32: [..., 1]."""
        k = te.reduce_axis(self.x.shape[-1], f"{self.name}_{suffix}_k")
        return te.compute((*self.x.shape[:-1], 1), lambda *at: op(
            element(self.x[(*at[:-1], k.var)].astype("int32")), k), f"{self.name}_{suffix}")

    def number(self, suffix: str, value: Callable[..., Expr], *known: Tensor) -> Tensor:
        """One number a row, from others."""
        return te.compute((*self.x.shape[:-1], 1), lambda *at: value(
            *(tensor[at] for tensor in known)), f"{self.name}_{suffix}")

    def elements(self, value: Callable[..., Expr], *known: Tensor) -> Tensor:
        """The result: `value` of the channel, the element as int32, and numbers of its row."""
        return te.compute(self.x.shape, lambda *at: value(
            at[-1], self.x[at].astype("int32"),
            *(tensor[(*at[:-1], 0)] for tensor in known)), self.name)


def _by(factor: int, number: Expr) -> Expr:
    return number if factor == 1 else number * factor


def _times(a: Expr, b: Expr) -> Expr:
    """A product with a factor of 16 bits."""
    return a * b.astype("int16").astype("int32")


def _looked_up(table: Tensor, place: Expr) -> Expr:
    return table[(place & 255).astype(te.INDEX)].astype("int32")


def _left(n: Expr) -> Expr:
    """The amount of the shift that gives a number with the exponent `n` 31 bits."""
    return te.const(30, "int32") - n


def _result(attrs: Attributes, total: Expr, bias: Expr) -> Expr:
    mult, shift = te.const(attrs["mult"], "uint16"), te.const(attrs["shift"], "uint8")
    return arithmetic.requantize(total, bias, mult, shift, attrs["zp"], attrs["lo"],
                                 attrs["hi"]).astype("int8")


def _qbelow_max(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    rows = _Rows(inputs[0], name)
    greatest = rows.reduced("max", te.max, lambda x: x)
    least = rows.number("least", lambda m: m - 127, greatest)
    return rows.elements(lambda c, x, least: (x - least).astype("int8"), least)


def _qsoftmax(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, high, low, reciprocals = inputs
    rows = _Rows(x, name)
    sums = [rows.reduced(suffix, te.sum, lambda x, table=table: _looked_up(table, x))
            for suffix, table in (("high", high), ("low", low))]
    s = rows.number("sum", lambda h, l: te.maximum(h * 128 + l, 1), *sums)
    n = rows.number("exponent", exponent_of, s)
    v = rows.number("mantissa", lambda s, n: (s << (_left(n) & 31)) >> 16, s, n)
    a = rows.number("first", lambda v: _looked_up(reciprocals, v >> 6) + _MIDDLE, v)
    error = rows.number("error", lambda v, a: te.const(1 << 22, "int32") - _times(a, v), v, a)
    r = rows.number("reciprocal", lambda a, e: te.minimum(a * 128 + (_times(a, e) >> 15), 32767),
                    a, error)
    amount = rows.number("amount", lambda n: te.maximum(n - 13, 0), n)

    def element(channel: Expr, x: Expr, r: Expr, amount: Expr) -> Expr:
        power = _looked_up(high, x) * 128 + _looked_up(low, x)
        return _result(attrs, _times(power, r) >> (amount & 31), te.const(0, "int32"))

    return rows.elements(element, r, amount)


def _qlayer_norm(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, weight, bias, roots = inputs
    rows, parts = _Rows(x, name), Fractions(x.shape[-1])
    fine, coarse = parts.fine, parts.coarse
    t = rows.reduced("sum", te.sum, lambda x: x)
    q = rows.reduced("squares", te.sum, lambda x: x * x)
    m = rows.number("mean", lambda t: (t * parts.mean + (1 << parts.shift >> 1)) >> parts.shift, t)
    w = rows.number("twice", lambda t, m: t * (2 << coarse) - (
        (m * parts.count + (1 << fine - coarse >> 1)) >> (fine - coarse)), t, m)
    d = rows.number("variance", lambda q, m, w: te.maximum(
        q * (1 << fine + coarse) - _times(w, m) + attrs["epsilon"], parts.least), q, m, w)
    r, amount = _root(rows, d, roots, parts.kept)

    def element(channel: Expr, x: Expr, m: Expr, r: Expr, amount: Expr) -> Expr:
        normal = _times(x * (1 << fine) - m, r) >> (amount & 31)
        scaled = normal * weight[channel].astype("int32")
        return _result(attrs, scaled, bias[channel])

    return rows.elements(element, m, r, amount)


def _qrms_norm(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, mult, shift, roots, *sign = inputs
    rows, zero, bits = _Rows(x, name), attrs["zero"], power_bits(x.shape[-1])
    unit = 1 << 2 * bits
    q = rows.reduced("squares", te.sum, lambda x: x * x)
    if zero:
        t = rows.reduced("sum", te.sum, lambda x: x)
        d = rows.number("power", lambda q, t: te.maximum(
            _by(unit, q) - t * (2 * zero * unit) + (
                x.shape[-1] * zero**2 * unit + attrs["epsilon"]), 1), q, t)
    else:
        d = rows.number("power", lambda q: te.maximum(_by(unit, q) + attrs["epsilon"], 1), q)
    r, amount = _root(rows, d, roots, -bits)

    def element(channel: Expr, x: Expr, r: Expr, amount: Expr) -> Expr:
        normal = _times(x - zero if zero else x, r) >> (amount & 31)
        for factor in sign:
            normal = normal * factor[channel].astype("int32")
        return arithmetic.requantize(
            normal, te.const(0, "int32"), mult[channel], shift[channel].astype("uint8"),
            attrs["zp"], attrs["lo"], attrs["hi"]).astype("int8")

    return rows.elements(element, r, amount)


def _root(rows: _Rows, d: Tensor, roots: Tensor, kept: int) -> tuple[Tensor, Tensor]:
    """One over the root of d, and by how much a product with it is shifted."""
    n = rows.number("exponent", exponent_of, d)
    left = rows.number("mantissa", lambda d, n: d << (_left(n) & 31), d, n)
    odd = rows.number("odd", lambda n: n - (n >> 1) * 2, n)
    f = rows.number("even", lambda left, odd: _times(left >> 17, odd + 1), left, odd)
    a = rows.number("first", lambda left, odd: _looked_up(
        roots, (left >> 23) + odd * 128) + _MIDDLE, left, odd)
    z = rows.number("square", lambda f, a: _times(a, _times(f, a) >> 8), f, a)
    r = rows.number("root", lambda a, z: a * 64 + (
        _times(a, te.const(1 << 21, "int32") - z) >> 16), a, z)
    return r, rows.number("amount", lambda n: (n >> 1) + kept if kept else n >> 1, n)


# Meanings


def _exponent(x: Array) -> Array:
    return np.frexp(x.astype(np.float64))[1].astype(np.int64) - 1


def _below_max(attrs: Attributes, x: Array) -> Array:
    wide = x.astype(np.int32)
    return (wide - wide.max(-1, keepdims=True) + 127).astype(np.int8)


def _softmax(attrs: Attributes, x: Array, high: Array, low: Array, reciprocals: Array) -> Array:
    powers = (128 * high.astype(np.int64) + low)[x.view(np.uint8)]
    s = np.maximum(powers.sum(-1, keepdims=True), 1)
    n = _exponent(s)
    v = s << 30 - n >> 16
    a = reciprocals[v >> 6 & 255] + np.int64(_MIDDLE)
    r = np.minimum(128 * a + (a * (2**22 - v * a) >> 15), 32767)
    return _requantized(attrs, powers * r >> np.maximum(n - 13, 0))


def _layer_norm(attrs: Attributes, x: Array, weight: Array, bias: Array, roots: Array) -> Array:
    parts, wide = Fractions(x.shape[-1]), x.astype(np.int64)
    fine, coarse = parts.fine, parts.coarse
    t, q = (total.sum(-1, keepdims=True) for total in (wide, wide * wide))
    m = t * parts.mean + (1 << parts.shift >> 1) >> parts.shift
    w = (t << 1 + coarse) - (m * parts.count + (1 << fine - coarse >> 1) >> fine - coarse)
    d = np.maximum((q << fine + coarse) - m * w + attrs["epsilon"], parts.least)
    r, amount = _over_root(d, roots)
    normal = ((wide << fine) - m) * r >> amount + parts.kept
    return _requantized(attrs, normal * weight + bias)


def _rms_norm(attrs: Attributes, x: Array, mult: Array, shift: Array, roots: Array,
              *sign: Array) -> Array:
    centred = x.astype(np.int64) - attrs["zero"]
    bits = power_bits(x.shape[-1])
    power = np.square(centred).sum(-1, keepdims=True) << 2 * bits
    r, amount = _over_root(np.maximum(power + attrs["epsilon"], 1), roots)
    normal = centred * r >> np.maximum(amount - bits, 0)        # below 0 where all of a row is 0
    for factor in sign:
        normal = normal * factor
    return requantize(normal.astype(np.float64), mult, shift, *clamp_of(attrs))


def _over_root(d: Array, roots: Array) -> tuple[Array, Array]:
    """One over the root of d, and by how much a product with it is shifted."""
    n = _exponent(d)
    left, odd = d << 30 - n, n & 1
    f = (left >> 17) * (1 + odd)
    a = roots[(left >> 23) + 128 * odd & 255] + np.int64(_MIDDLE)
    return 64 * a + (a * (2**21 - a * (f * a >> 8)) >> 16), n >> 1


def _requantized(attrs: Attributes, x: Array) -> Array:
    return requantize(x.astype(np.float64), attrs["mult"], attrs["shift"], attrs["zp"],
                      attrs["lo"], attrs["hi"])


# Records


def _softmax_parameters(parameters: Sequence[Array]) -> Sequence[Range]:
    high, low, reciprocals = parameters
    return (Range("high part of a power", high, high >= 0, "0 to 127"),
            Range("low part of a power", low, low >= 0, "0 to 127"),
            Range("reciprocal", reciprocals, reciprocals == RECIPROCALS, "as RECIPROCALS has it"))


def _layer_norm_parameters(parameters: Sequence[Array]) -> Sequence[Range]:
    weight, bias, roots = parameters
    return (Range("weight", weight, abs(weight.astype(int)) <= 1 << 14, "at most 2**14"),
            Range("bias", bias, abs(bias.astype(int)) <= 1 << 30, "at most 2**30"),
            Range("root", roots, roots == ROOTS, "as ROOTS has it"))


def _rms_norm_parameters(parameters: Sequence[Array]) -> Sequence[Range]:
    mult, shift, roots, *sign = parameters
    return (*multipliers((mult, shift)),
            Range("root", roots, roots == ROOTS, "as ROOTS has it"),
            *(Range("sign", factor, abs(factor) == 1, "1 or -1") for factor in sign))


OPERATORS = (
    Operator(
        name="qbelow_max", summary="each element less the greatest of its row, and 127",
        inputs="x", define=_qbelow_max, meaning=_below_max, type=_row_type(1),
        numbers=Numbers.INTEGER, by_rows=True),
    Operator(
        name="qsoftmax", summary="softmax along the last axis of what is below the maximum",
        inputs="x, high int8 [256], low int8 [256], reciprocals int8 [256]",
        attributes="mult, shift, zp, lo, hi", define=_qsoftmax, meaning=_softmax,
        type=_softmax_type, numbers=Numbers.INTEGER, by_rows=True, data_inputs=1,
        parameters=_softmax_parameters),
    Operator(
        name="qlayer_norm", summary="layer normalization along the last axis",
        inputs="x, weight int16 [K], bias int32 [K], roots int8 [256]",
        attributes="epsilon, mult, shift, zp, lo, hi", define=_qlayer_norm,
        meaning=_layer_norm, type=_layer_norm_type, numbers=Numbers.INTEGER, by_rows=True,
         data_inputs=1, parameters=_layer_norm_parameters),
    Operator(
        name="qrms_norm", summary="normalization by the root of the mean square of the last axis",
        inputs="x, mult, shift int32 [K], roots int8 [256], sign int8 [K]?",
        attributes="zero: x that stands for 0, epsilon, zp, lo, hi",
        define=_qrms_norm, meaning=_rms_norm, type=_rms_norm_type, numbers=Numbers.INTEGER,
        by_rows=True, data_inputs=1, parameters=_rms_norm_parameters),
)
