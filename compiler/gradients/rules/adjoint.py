"""A node as its gradient is asked for, and what rules of many operators have in common.

A rule takes an `Adjoint` and gives a function for each input of the node, which is called where the
gradient of that input is asked for; None stands for an input that has none, such as the indices of
a gather. What a function gives may be larger than its input where the operator broadcasts: it is
summed (`summed_to`), and cast to the type of the input, for every rule alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.frontend.building.values import Value


class NoGradient(Exception):
    """Why a node has no gradient; the message is a part of a sentence."""


@dataclass(frozen=True, slots=True)
class Adjoint:
    """A node: attributes, inputs, result, and the gradient of the result.

    The gradient has the shape and the type of the result.
    """

    attrs: Mapping[str, Any]
    inputs: tuple[Value, ...]
    result: Value
    gradient: Value

    @property
    def x(self) -> Value:
        """The first input."""
        return self.inputs[0]

    def factors(self) -> tuple[Value, ...]:
        """The inputs in the type of the result: products of halves are summed in float32."""
        return tuple(value.astype(self.result.dtype) for value in self.inputs)


Gradient = Callable[[], Value]
Rule = Callable[[Adjoint], Sequence[Gradient | None]]


def apply(op: str, *values: Value, **attrs: Any) -> Value:
    """The result of an operator of graphs."""
    return values[0].tracer.emit(op, *values, **attrs)


def zeros(like: Value, *shape: int) -> Value:
    """A tensor of zeros of the type of another."""
    return like.like(0).expand(*shape)


def summed_to(value: Value, shape: tuple[int, ...]) -> Value:
    """The gradient of what was broadcast from this shape: sums along the axes that were repeated.
    """
    more = value.rank - len(shape)
    axes = [axis for axis, extent in enumerate(value.shape)
            if axis < more or extent > shape[axis - more]]
    return (value.sum(*axes, keepdims=1) if axes else value).reshape(*shape)


def padded(value: Value, before: Sequence[int], after: Sequence[int],
           between: Sequence[int] = (), fill: float = 0) -> Value:
    """The value with elements around it and between them; below zero they crop, perhaps all."""
    between = tuple(between) or (0,) * value.rank
    if not any((*before, *after, *between)):
        return value
    reach = [(n - 1) * (gap + 1) + 1 for n, gap in zip(value.shape, between, strict=True)]
    if any(min(low, high) <= -n for low, high, n in zip(before, after, reach, strict=True)):
        return value.like(fill).expand(*map(sum, zip(before, reach, after, strict=True)))
    return apply("pad", value, value.like(fill), mode="constant", before=tuple(before),
                 after=tuple(after), between=between)


def to_front(value: Value, axis: int) -> Value:
    """The value with an axis before all others."""
    return value.transpose(axis, *(place for place in range(value.rank) if place != axis))


def from_front(value: Value, axis: int) -> Value:
    """The value with its first axis in this place."""
    rest = iter(range(1, value.rank))
    return value.transpose(*(0 if place == axis else next(rest) for place in range(value.rank)))
