"""Choices that data make between what two branches compute. A graph has no side effects, so both
are computed, and each element is taken from one of them.
"""

from collections.abc import Sequence
from typing import Any

from compiler.frontend.values import NodeRefused, Value

__all__ = ["both", "either", "one_bool"]


def one_bool(condition: Value) -> Value:
    """The condition without dimensions."""
    if condition.dtype != "bool" or condition.size != 1:
        raise NodeRefused(f"its condition must be one bool, not {condition!r}")
    return condition.reshape()


def either(condition: Value, yes: Sequence[Any], no: Sequence[Any]) -> list[Any]:
    """The results of one branch where the condition holds, else those of the other."""
    return [_either(condition, a, b) for a, b in zip(yes, no, strict=True)]


def _either(condition: Value, yes: Any, no: Any) -> Any:
    if yes is no:
        return yes
    if not isinstance(yes, Value) or not isinstance(no, Value):
        raise NodeRefused(f"its condition {condition.role!r} depends on data, so its results must "
                          "be tensors")
    if (yes.shape, yes.dtype) != (no.shape, no.dtype):
        raise NodeRefused(f"its condition {condition.role!r} depends on data, so each result must "
                          f"have one type, not {yes!r} and {no!r}")
    return condition.where(yes, no) if yes.size else yes


def both(first: Value | None, second: Value | None) -> Value | None:
    """Whether both hold; None stands for what surely does."""
    if first is None or second is None:
        return second if first is None else first
    return first & second
