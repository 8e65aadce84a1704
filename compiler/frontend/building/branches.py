"""Choices that data make between what two branches compute. A graph has no side effects, so both
are computed, and each element is taken from one of them.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value

Axes = tuple[int, ...]

MOST_TURNS = 1_000
"""Turns of a loop that data may end and that no trip count limits."""

MOST_CHOICES = 12
"""Axes that are computed with where data choose between them."""


def one_bool(condition: Value) -> Value:
    """The condition without dimensions."""
    if condition.dtype != "bool" or condition.size != 1:
        raise NodeRefused(f"its condition must be one bool, not {condition!r}")
    return condition.reshape()


def either(condition: Value, yes: Sequence[Any], no: Sequence[Any]) -> list[Any]:
    """The results of one branch where the condition holds, else those of the other."""
    return [_either(condition, a, b) for a, b in zip(yes, no, strict=True)]


def _either(condition: Value, yes: Any, no: Any) -> Any:
    if yes is no or not isinstance(yes, Value) and yes == no:
        return yes
    if not isinstance(yes, Value) or not isinstance(no, Value):
        raise NodeRefused(f"its condition {condition.role!r} depends on data, so its results must "
                          "be tensors")
    if (yes.shape, yes.dtype) != (no.shape, no.dtype):
        raise NodeRefused(f"its condition {condition.role!r} depends on data, so each result must "
                          f"have one type, not {yes!r} and {no!r}")
    return condition.where(yes, no) if yes.size else yes


def both(first: Value | None, second: Value | None) -> Value | None:
    """The condition that both hold; None stands for what surely does."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def never(condition: Any) -> bool:
    """True if a condition is false whatever the data are: a constant, or one of what must hold
    together is.
    """
    if not isinstance(condition, Value):
        return not condition
    if condition.array is not None:
        return not condition.array.any()
    builder, waiting = condition.tracer.builder, {condition.name or ""}
    for node in reversed(builder.nodes):
        if any(not array.any() for name in waiting
               if (array := builder.constants.get(name)) is not None):
            return True
        waiting -= {*builder.constants, *builder.inputs}
        if not waiting:
            break
        if node.outputs[0] in waiting:
            waiting.remove(node.outputs[0])
            waiting |= {*node.inputs} if node.op in ("and", "reshape", "identity") else set()
    return False


def by_computed_axes(t, axes: Value, rank: int, shape: Callable[[Axes], Axes],
                     rule: Callable[[Axes], Value]) -> Value:
    """The results of `rule` for axes of axes that data say: of all that give the declared shape,
    and a choice. `shape` is that of the rule's result.
    """
    choices = list(combinations(range(rank), axes.size))
    if len(set(map(shape, choices))) > 1:
        declared = t.declared(axes, "axes")
        choices = [choice for choice in choices if shape(choice) == declared]
    if not 1 <= len(choices) <= MOST_CHOICES:
        raise NodeRefused(f"its axes {axes.role!r} must be a constant")
    flat = axes.astype("int64").reshape(axes.size, 1)
    counted = (flat < 0).where(flat + rank, flat)
    found = counted.equal(t.constant(np.arange(rank))).astype("int32").max(0)
    result = rule(choices[-1])
    for choice in choices[:-1]:
        chosen = t.emit("gather", found, t.constant(np.array(choice)), axis=0)
        result = t.emit("reduce_min", chosen, axes=(0,), keepdims=0).equal(1).where(rule(choice),
                                                                                  result)
    return result
