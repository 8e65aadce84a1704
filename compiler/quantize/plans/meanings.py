"""The meaning in integers of layers that a pattern matches, from their scales."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from compiler.ops.patterns import Meaning, Pattern
from compiler.ops.records.integer_forms import StaysFloat, Stored
from compiler.ops.term_patterns import TermPattern
from compiler.quantize.networks.matching import Match
from compiler.quantize.networks.network import LayeredNetwork
from compiler.quantize.plans.plan import Plan
from compiler.quantize.ranges.scales import Scale

Scales = Mapping[str, Scale]


def meaning(match: Match, value: str, scales: Scales) -> Meaning:
    """The function of the layer that makes `value`, as `qmap` has it. Raises StaysFloat."""
    assert isinstance(match.pattern, Pattern)
    return match.pattern.function(*_stored(match, value, scales), match.numbers)


def sum_meaning(match: Match, value: str, scales: Scales, depth: int) -> Mapping[str, Any]:
    """The attributes of the layer that makes `value` by sums of so many terms, as `qterms` has
    them. Raises StaysFloat."""
    assert isinstance(match.pattern, TermPattern)
    (x,), out = _stored(match, value, scales)
    return match.pattern.attributes(x, _as_stored(match.weight, scales[match.weight]), out, depth)


def steps_off(match: Match, value: str, scales: Scales) -> int:
    """The most steps of the result by which that is off from the real expression; of sums, which
    are exact, what their multiplier is off."""
    if isinstance(match.pattern, TermPattern):
        return 1
    return match.pattern.steps_off(*_stored(match, value, scales), match.numbers)


def usable(network: LayeredNetwork, plan: Plan, scales: Scales
           ) -> tuple[dict[str, Match], dict[str, str]]:
    """The matches of the network that have a meaning with these scales, and why others have none,
    by the value that they make. Those of layers in float are left as they are.
    """
    matched, reasons = dict(network.matched), dict[str, str]()
    for value, match in network.matched.items():
        if value in plan.quantized:
            try:
                if match.weight:
                    sum_meaning(match, value, scales, network.tensors[match.weight].shape[-1])
                else:
                    meaning(match, value, scales)
            except StaysFloat as reason:
                reasons[value] = str(reason)
                del matched[value]
    return matched, reasons


def _stored(match: Match, value: str, scales: Scales) -> tuple[list[Stored], Stored]:
    inputs = [_as_stored(source, scales[source]) for source in match.sources]
    return inputs, _as_stored(value, scales[value])


def _as_stored(value: str, scale: Scale) -> Stored:
    half = 128 if scale.zero.dtype == np.uint8 else 0
    return Stored(value, float(scale.scale), int(scale.zero) - half,
                  "int8" if half else scale.zero.dtype.name)
