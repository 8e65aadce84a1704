"""Intervals that a model's values must lie in, propagated node by node.

The middle is what ONNX's reference computes. An interval grows by what a node's own rounding may
add (`ROUNDING` of what was added up, and for a quantization the steps of its integer form) and by
what its inputs' intervals may make of it; rules are in `bench.values.spread`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import onnx
from onnx import numpy_helper

from bench.values.reference import computed
from bench.values.rules import RULES
from bench.values.intervals import Array, Interval
from bench.values.spread import spread

ADDED_STEPS = 5
"""Steps that a sum of 16 bits may be off, whose multipliers have 16 bits, too (docs/int16.md)."""

MOVERS = {rule.op for rule in RULES.values() if rule.moves}


@dataclass(frozen=True, slots=True)
class _Known:
    """An interval; whether it is what a network was given or a sum of two tensors, and which
    quantization it has been."""

    interval: Interval
    given: bool = False
    steps: tuple[float, int, str] | None = None
    added: bool = False


def bounded(model: onnx.ModelProto, inputs: Mapping[str, Array], steps: int
            ) -> dict[str, Interval]:
    """The interval of each value of the model. `steps`: those of its result that the integer form
    of an operator may be off.
    """
    opset = next(one.version for one in model.opset_import if one.domain == "")
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    known = {name: _Known(Interval.exact(array), True)
             for name, array in {**constants, **inputs}.items()}
    for node in model.graph.node:
        read = [known[name] if name else None for name in node.input]
        for name, made in zip(node.output, _bounded(node, read, opset, steps), strict=False):
            known[name] = made
    return {name: one.interval for name, one in known.items()}


def _bounded(node: onnx.NodeProto, read: Sequence[_Known | None], opset: int, steps: int
             ) -> list[_Known]:
    intervals = [None if one is None else one.interval for one in read]
    middles = computed(node, [None if one is None else one.middle for one in intervals], opset)
    made = [_Known(one) for one in spread(node, intervals, middles, opset)]
    first = read[0]
    if first is None:
        return made
    match node.op_type:
        case "DequantizeLinear" if (numbers := _steps_of(intervals)) is not None:
            return [replace(one, steps=numbers) for one in made]
        case "QuantizeLinear":
            kept = first.steps is not None and first.steps == _steps_of(intervals)
            if first.given or kept or not steps:
                return [_Known(one.interval, first.given) for one in made]
            wide = first.added and made[0].interval.middle.dtype.itemsize == 2
            return [_Known(one.interval.widened(ADDED_STEPS if wide else steps)) for one in made]
        case "QLinearConv" | "QLinearMatMul":
            return [_Known(one.interval.widened(steps)) for one in made]
        case "Add" if not any(one is not None and one.given for one in read):
            return [replace(one, added=True) for one in made]
        case "Relu" | "Clip" | "Min" | "Max":
            return [replace(one, added=first.added) for one in made]
        case op if op in MOVERS:
            others = all(one is None or one.given for one in read[1:])
            same = op not in ("Concat", "Pad")
            return [replace(one, given=first.given and others, steps=first.steps if same else None)
                    for one in made]
    return made


def _steps_of(intervals: Sequence[Interval | None]) -> tuple[float, int, str] | None:
    """Scale, zero point and type of a quantization that has one scale."""
    zero = intervals[2] if len(intervals) > 2 else None
    scale = intervals[1]
    if scale is None or zero is None or scale.middle.size != 1:
        return None
    return scale.middle.item(), zero.middle.item(), zero.middle.dtype.name
