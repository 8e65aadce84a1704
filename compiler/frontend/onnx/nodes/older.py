"""Operators of opsets 1 to 6, which say by attributes that their later versions lack."""

from collections.abc import Sequence
from typing import Any

from compiler.frontend.building.values import NodeRefused, Value

IDLE = ("consumed_inputs", "output_sequence")
"""Attributes that say where results may lie, or which of them are wanted."""

LAST = 6
"""The newest opset with such attributes."""


def older(schema: Any) -> set[str]:
    """The attributes of an `onnx.defs.OpSchema` that `as_later` takes away."""
    if schema.since_version > LAST:
        return set()
    operands = {"axis"} if {"axis", "broadcast"} <= {*schema.attributes} else set()
    return operands | {*IDLE, "is_test", "broadcast"}.intersection(schema.attributes)


def as_later(schema: Any, given: dict[str, Any], inputs: Sequence[Any]
             ) -> tuple[dict[str, Any], list[Any]]:
    """Attributes and inputs of a node as later versions of its operator have them."""
    old = older(schema)
    if "is_test" in old and given.get("is_test") == 0:
        raise NodeRefused("is_test must be 1, not 0: networks are compiled for inference")
    if "axis" in old:
        a, b = inputs
        inputs = _aligned(a, b, bool(given.get("broadcast", 0)), given.get("axis"))
    return {name: value for name, value in given.items() if name not in old}, list(inputs)


def _aligned(a: Value, b: Value, broadcast: bool, axis: int | None) -> tuple[Value, Value]:
    """Two operands of one rank: the second lies at the dimensions of the first from `axis` on, at
    its last ones unless that is told.
    """
    if not broadcast:
        if a.shape != b.shape:
            raise NodeRefused(f"its inputs must have one shape where broadcast is 0, not {a.shape} "
                              f"and {b.shape}")
        return a, b
    if b.size == 1:
        return a, b.reshape()
    first = a.rank - b.rank if axis is None else axis + (a.rank if axis < 0 else 0)
    behind = a.rank - b.rank - first
    if first < 0 or behind < 0 or any(wide not in (1, extent) for wide, extent
                                      in zip(b.shape, a.shape[first:], strict=False)):
        raise NodeRefused(f"its second input must fit the first at axis {first}, not {b.shape} and "
                          f"{a.shape}")
    return a, b.reshape(*(1,) * first, *b.shape, *(1,) * behind)
