"""Constants of integers with scales, as arrays: what moves or scales one gives another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.graph.graph import Node
from compiler.graph.reference import evaluate_node
from compiler.graph.rewrite import Builder
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class QuantizedConstant:
    """(integers - zero) * scale. Scale and zero point have as many dimensions as the integers, and
    one element along each axis along which they are the same.
    """

    integers: Array
    scale: Array
    zero: Array

    @classmethod
    def of(cls, constants: Mapping[str, Array], node: Node) -> "QuantizedConstant | None":
        """The constant that the node dequantizes; None for any other node."""
        if node.op != "dequantizelinear" or node.inputs[0] not in constants:
            return None
        integers, scale, zero = (constants[value] for value in node.inputs)
        shape = [1] * integers.ndim
        if scale.ndim:
            shape[node.attrs["axis"]] = -1
        return cls(integers, scale.reshape(shape), zero.reshape(shape))

    def numbers(self) -> Array:
        """The float32 constant, as `dequantizelinear` gives it."""
        steps = self.integers.astype(np.int64) - self.zero
        return steps.astype(np.float32) * self.scale

    def axes(self) -> tuple[int, ...]:
        """The axes along which scale or zero point varies."""
        return tuple(axis for axis, extents in enumerate(zip(
            self.scale.shape, self.zero.shape, strict=True)) if max(extents) > 1)

    def times(self, factors: Array) -> "QuantizedConstant | None":
        """The product with numbers that broadcast to the integers: scales take what is positive,
        integers the signs and zeros. None where a scale would be no normal number.
        """
        factors = _same_once(factors.reshape((1,) * (self.integers.ndim - factors.ndim)
                                             + factors.shape))
        nothing = factors == 0
        with np.errstate(over="ignore", invalid="ignore"):
            scale = (self.scale * np.where(nothing, 1, np.abs(factors).astype(np.float64))
                     ).astype(np.float32)
        if not (np.isfinite(scale) & (scale >= np.finfo(np.float32).tiny)).all():
            return None
        integers, zero = _negated(self.integers, self.zero, factors < 0)
        if nothing.any():
            integers = np.where(nothing, zero, integers)
        return QuantizedConstant(integers, _same_once(scale), _same_once(zero))

    def add_to(self, builder: Builder, stem: str, node: str, output: str) -> str:
        """Adds the constants, with names that begin with the stem, and what dequantizes them along
        one axis or none."""
        varies = self.axes()
        shape = tuple(self.integers.shape[axis] for axis in varies)
        parameters = [np.broadcast_to(array.reshape(-1), shape) if shape else array.reshape(())
                      for array in (self.scale, self.zero)]
        roles = zip(("integers", "scale", "zero"), (self.integers, *parameters), strict=True)
        inputs = [builder.add_constant(builder.fresh(f"{stem}:{role}"), array)
                  for role, array in roles]
        return builder.emit("dequantizelinear", node, inputs, output, axis=(*varies, 0)[0])


def moved(node: Node, constants: Sequence[QuantizedConstant]) -> QuantizedConstant | None:
    """The constant that an operator makes which only moves elements of its inputs; None where it is
    another, or where they are of several types."""
    operator = find(node.op)
    moves = operator.kind is Kind.INJECTIVE and operator.picks or node.op in ("expand", "reverse",
                                                                             "concat")
    if not moves or len({one.integers.dtype for one in constants}) > 1:
        return None
    integers = evaluate_node(node, [one.integers for one in constants])
    parameters = []
    for arrays in ([one.scale for one in constants], [one.zero for one in constants]):
        if len({array.item() if array.size == 1 else None for array in arrays}) == 1 and (
                arrays[0].size == 1):
            parameters.append(arrays[0].reshape((1,) * integers.ndim))
        else:
            parameters.append(_same_once(evaluate_node(node, [
                np.broadcast_to(array, one.integers.shape)
                for array, one in zip(arrays, constants, strict=True)])))
    return QuantizedConstant(integers, *parameters)


def _same_once(array: Array) -> Array:
    """One element along each axis along which all are the same."""
    for axis in range(array.ndim):
        first = array.take([0], axis) if array.shape[axis] > 1 else array
        array = first if (array == first).all() else array
    return array


def _negated(integers: Array, zero: Array, where: Array) -> tuple[Array, Array]:
    """Integers and zero point such that their difference has the other sign in these places. Where
    the type has no such integer, both are complements, which every type has.
    """
    if not where.any():
        return integers, zero
    least = np.iinfo(integers.dtype).min
    fits = least < 0 and not (where & ((integers == least) | (zero == least))).any()
    other = np.negative if fits else np.invert
    return np.where(where, other(integers), integers), np.where(where, other(zero), zero)
