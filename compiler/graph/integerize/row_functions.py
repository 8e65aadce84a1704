"""Recognizes softmax, layer normalization and normalization by the root of the mean square (RMS)
in the operators that front ends write them in.

A softmax may have a mask: numbers so far below all others that their exponentials are 0 are added
to elements, or put in their place. Which elements count is a constant, or computed.

All run along the last axis. Exporters and front ends differ in the order of factors, in dividing
or multiplying, and in how they square; `recognized` takes them all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np

from compiler.graph.graph import Node

Array = np.ndarray

MASKING = -1000.0
"""What is added to an element that doesn't count is at most that."""
REPLACED = np.finfo(np.float32).min
"""The level of rows whose elements are replaced by one number: beside this nothing is left of any.
"""


@dataclass(frozen=True, slots=True)
class Values:
    """A graph as it is read here: the node that makes a value, a constant's array, a value's
    shape."""

    producer: Callable[[str], Node | None]
    constant: Callable[[str], Array | None]
    shape: Callable[[str], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Mask:
    """Which elements of a row count: the constant `valid`, or where there is none the computed
    value `condition`, both bool; repeated to the shape of the rows. `low` is the greatest number
    that is added where they don't.

    `level` is added to those of a row that count, [..., 1] float32. One number added to a whole row
    changes no softmax but by rounding, so all elements of a row that is masked whole count; it
    says what is added to them. A computed condition may hold nowhere in a row: all of it counts
    then, unless the level is 0.
    """

    low: float
    valid: Array | None = None
    condition: str = ""
    level: Array = field(default_factory=lambda: np.zeros(1, np.float32))


@dataclass(frozen=True, slots=True)
class Softmax:
    """``exp(x - max) / sum``, of the value `source`, perhaps masked. `nodes` are the results of its
    operators, that of the mask among them.
    """

    source: str
    nodes: frozenset[str]
    mask: Mask | None = None


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """``(x - mean) / root(variance + epsilon) weight + bias``: weight and bias have an element for
    each of the row.
    """

    source: str
    nodes: frozenset[str]
    epsilon: float
    weight: Array
    bias: Array


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """``x / root(mean of x^2 + epsilon) weight``: weight has an element for each of the row."""

    source: str
    nodes: frozenset[str]
    epsilon: float
    weight: Array


RowFunction = Softmax | LayerNorm | RmsNorm


def recognized(values: Values, result: str) -> RowFunction | None:
    """The function that a value is, if it is a function of rows; None if it is none of these."""
    for read in (_Reading.softmax, _Reading.layer_norm, _Reading.rms_norm):
        try:
            return read(_Reading(values), result)
        except _Other:
            pass
    return None


class _Other(Exception):
    """The operators are others."""


def _is_one(array: Array) -> bool:
    """True if all elements are the same number."""
    return array.min() == array.max()


def _constant_mask(array: Array) -> Mask | None:
    """The mask that a constant is if it is added; nothing counts of a row of -inf alone."""
    if not array.ndim:
        return None
    greatest = array.max(-1, keepdims=True)
    level = np.where(np.isfinite(greatest), greatest, 0).astype(np.float32)
    relative = array.astype(np.float64) - level
    low = relative[relative != 0]
    whole = low.size and np.all(low <= MASKING)
    return Mask(float(low.max()), relative == 0, level=level) if whole else None


class _Reading:
    """One attempt; `nodes` collects the values between the source and the result."""

    def __init__(self, values: Values):
        self.values, self.nodes = values, set[str]()

    def softmax(self, result: str) -> Softmax:
        powers, total = self._quotient(result)
        (inner,) = self._of(powers, "exp")
        source, greatest = self._of(inner, "sub")
        self._need(self._reduced(greatest, "reduce_max") == source)
        self._need(self._reduced(total, "reduce_sum") == powers)
        inner, mask = self._masked(source)
        if mask is not None and self.values.shape(inner) == self.values.shape(source):
            return Softmax(inner, frozenset({*self.nodes, source}), mask)
        return Softmax(source, frozenset(self.nodes))

    def _masked(self, value: str) -> tuple[str, Mask | None]:
        """A value without its mask, and that."""
        node = self.values.producer(value)
        if node is not None and node.op == "add":
            for x, other in (node.inputs, node.inputs[::-1]):
                mask = self._added_mask(other)
                if mask is not None and self.values.constant(x) is None:
                    return x, mask
        if node is not None and node.op == "where":
            condition, a, b = node.inputs
            for x, other, kept in ((a, b, True), (b, a, False)):
                low = self.values.constant(other)
                if low is not None and np.all(low <= MASKING):
                    return x, self._chosen_mask(condition, low, kept)
        return value, None

    def _added_mask(self, value: str) -> Mask | None:
        array, node = self.values.constant(value), self.values.producer(value)
        if array is not None:
            return _constant_mask(array)
        if node is None or node.op != "where":
            return None
        condition, zeros, low = (self.values.constant(part) for part in node.inputs)
        if zeros is None or low is None:
            return None
        if condition is not None:
            return _constant_mask(np.where(condition, zeros, low))
        if zeros.any() or not np.all(low <= MASKING) or not _is_one(low):
            return None
        return self._computed_mask(node.inputs[0], low, low.reshape(-1)[:1].astype(np.float32))

    def _computed_mask(self, condition: str, low: Array, level: Array) -> Mask | None:
        """The mask of a condition. That places are up to one position holds somewhere."""
        if not self.values.shape(condition):
            return None
        node = self.values.producer(condition)
        up_to_one = node is not None and node.op in ("less", "less_equal") and (
            self.values.constant(node.inputs[0]) is not None
            and prod(self.values.shape(node.inputs[1])) == 1)
        if up_to_one or not np.isfinite(low).all():             # a row of -inf has no softmax
            level = np.zeros_like(level)
        return Mask(float(low.max()), condition=condition, level=level)

    def _chosen_mask(self, condition: str, low: Array, kept: bool) -> Mask | None:
        """The mask of elements in whose place, unless a condition is `kept`, a number stands."""
        array = self.values.constant(condition)
        if not _is_one(low) or array is None and not kept:
            return None
        if array is None:
            return self._computed_mask(condition, low, np.full(1, REPLACED))
        if not array.ndim:
            return None
        valid = array == kept
        whole = ~valid.any(-1, keepdims=True)
        return Mask(float(low.max()), valid | whole, level=whole * REPLACED)

    def layer_norm(self, result: str) -> LayerNorm:
        factors, after = self._factors(result)
        shifted, after = (factors[0], after) if len(factors) == 1 else (result, np.ones(1))
        normal, bias = self._with_constants(shifted, "add")
        centred, epsilon, weight = self._over_root_of_squares(normal)
        source, mean = self._of(centred, "sub")
        self._need(self._mean(mean) == source)
        weight, bias = (self._row(array * after, source) for array in (weight, bias))
        return LayerNorm(source, frozenset(self.nodes), epsilon, weight, bias)

    def rms_norm(self, result: str) -> RmsNorm:
        source, epsilon, weight = self._over_root_of_squares(result)
        weight = self._row(weight, source)
        return RmsNorm(source, frozenset(self.nodes), epsilon, weight)

    def _over_root_of_squares(self, normal: str) -> tuple[str, float, Array]:
        """The value that is divided by the root of its mean square, the epsilon, and constant
        factors."""
        factors, weight = self._factors(normal)
        # Those that are left: the value and one over the root, or their quotient.
        if len(factors) == 1:
            value, root = self._of(factors[0], "div")
        else:
            self._need(len(set(factors)) == len(factors) == 2)
            inverse = next((factor for factor in factors if self._is_inverse(factor)), "")
            self._need(inverse != "")
            (value,) = (factor for factor in factors if factor != inverse)
            root = self._inverse(inverse)
        (inner,) = self._of(root, "sqrt")
        mean, offset = self._with_constants(inner, "add")
        self._need(offset.size == 1)
        self._need(self._square(self._mean(mean)) == value)
        return value, float(offset.item()), weight

    # Operators

    def _need(self, fact: bool) -> None:
        if not fact:
            raise _Other

    def _node(self, value: str) -> Node:
        node = self.values.producer(value)
        if node is None:
            raise _Other
        return node

    def _of(self, value: str, op: str) -> tuple[str, ...]:
        """The inputs of the operator that makes a value."""
        node = self._node(value)
        self._need(node.op == op)
        self.nodes.add(value)
        return node.inputs

    def _is(self, value: str, op: str) -> bool:
        node = self.values.producer(value)
        return node is not None and node.op == op

    def _reduced(self, value: str, op: str) -> str:
        """The value that is reduced along the last axis."""
        (source,), node = self._of(value, op), self._node(value)
        last = len(self.values.shape(source)) - 1
        self._need(tuple(node.attrs["axes"]) == (last,) and bool(node.attrs["keepdims"]))
        return source

    def _mean(self, value: str) -> str:
        """The value of which a value is the mean."""
        source, factor = self._scaled(value)
        inner = self._reduced(source, "reduce_sum")
        self._need(bool(np.isclose(factor * self.values.shape(inner)[-1], 1, rtol=1e-5)))
        return inner

    def _scaled(self, value: str) -> tuple[str, float]:
        """A value as another times a number."""
        if self._is(value, "div"):
            source, number = self._of(value, "div")
            return source, 1 / self._number(number)
        a, b = self._of(value, "mul")
        if self.values.constant(a) is not None:
            a, b = b, a
        return a, self._number(b)

    def _number(self, value: str) -> float:
        array = self.values.constant(value)
        if array is None or array.size != 1 or not array.item():
            raise _Other
        return float(array.item())

    def _quotient(self, value: str) -> tuple[str, str]:
        """Numerator and denominator, also of a product with an inverse."""
        if self._is(value, "div"):
            a, b = self._of(value, "div")
            return a, b
        a, b = self._of(value, "mul")
        if self._is_inverse(a):
            a, b = b, a
        return a, self._inverse(b)

    def _is_inverse(self, value: str) -> bool:
        node = self.values.producer(value)
        if node is None or node.op not in ("div", "reciprocal"):
            return False
        if node.op == "reciprocal":
            return True
        array = self.values.constant(node.inputs[0])
        return array is not None and array.size == 1 and array.item() == 1

    def _inverse(self, value: str) -> str:
        self._need(self._is_inverse(value))
        self.nodes.add(value)
        return self._node(value).inputs[-1]

    def _square(self, value: str) -> str:
        if self._is(value, "pow"):
            source, power = self._of(value, "pow")
            self._need(self._number(power) == 2)
            return source
        a, b = self._of(value, "mul")
        self._need(a == b)
        return a

    # Constants

    def _with_constants(self, value: str, op: str) -> tuple[str, Array]:
        """A sum without its constants, and these."""
        total = np.zeros(1)
        while self._is(value, op):
            a, b = self._node(value).inputs
            constants = [self.values.constant(side) for side in (a, b)]
            if all(array is None for array in constants):
                break
            self.nodes.add(value)
            value, array = (a, constants[1]) if constants[0] is None else (b, constants[0])
            assert array is not None
            total = total + array.astype(np.float64)
        return value, total

    def _factors(self, value: str) -> tuple[list[str], Array]:
        """The computed factors of a product, and the product of its constants."""
        weight, computed = np.ones(1), list[str]()
        for factor in self._flat(value):
            array = self.values.constant(factor)
            if array is None:
                computed.append(factor)
            else:
                weight = weight * array.astype(np.float64)
        return computed, weight

    def _flat(self, value: str) -> Iterator[str]:
        if not self._is(value, "mul"):
            yield value
            return
        for side in self._of(value, "mul"):
            yield from self._flat(side)

    def _row(self, array: Array, source: str) -> Array:
        """A constant for each element of a row, the same for all rows."""
        shape = self.values.shape(source)
        count = shape[-1]
        self._need(array.ndim <= len(shape) and (
            array.size == 1 or array.size == count == array.shape[-1]))
        return np.broadcast_to(array.reshape(-1), (count,))
