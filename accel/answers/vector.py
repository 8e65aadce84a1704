"""Why an instruction of vector computes no layer: each element's expression is covered once more,
with the instruction as one of the steps.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from accel.machine.machine import Machine
from accel.answers.texts import short_text
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.selecting.row_selection import is_row_function, select_rows
from accel.mapping.selecting.selection import (RESULTS, covered, element_of, is_elementwise,
                                               step_cost)
from compiler.graph.graph import Graph, Node
from compiler.te import Expr, Reduce
from compiler.tensorize import Intrinsic
from compiler.tensorize.cover import (COMPUTED, CoverStep, Mismatch, Uncovered, Unmatched,
                                      cover_with, is_lanewise, plain_text)

SLOWER = "slower at "
TOTALS = {"sum": "sums", "max": "takes the greatest of", "min": "takes the least of"}


@dataclass(frozen=True, slots=True)
class _Part:
    """An expression of a node that vector computes; a `total` of it where one is named."""

    node: Node
    value: Expr
    scope: str
    total: str
    names: dict[str, str]


def why_no_element(machine: Machine, name: str, graph: Graph) -> str:
    """The reason of an instruction that reads and assigns elements, or reduces rows of them."""
    body = machine.intrinsic(name)
    if body.update != "assign" and not body.reduce_axes:
        return _why_no_sum(machine, body)
    if not body.reduce_axes and not is_lanewise(body):
        return ("it computes lanes from other lanes, and layers compute each element from those at "
                "its own place")
    parts = _different_parts(machine, graph)
    if not parts and not body.reduce_axes:
        return "no layer of the network is elementwise"
    slower, left = list[tuple[int, str]](), list[str]()
    nearest: list[tuple[Mismatch, _Part]] = []
    for part in parts:
        try:
            slower.append(_dearer(machine, body, graph, part))
        except Uncovered as error:
            left.append(f"at {part.node.name} ({part.node.op}) no instruction computes what is "
                        f"left beside it: {short_text(error.value, part.names)}")
        except Unmatched as error:
            if error.mismatch:
                nearest.append((error.mismatch, part))
    if slower:
        return min(slower)[1]
    if left:
        return left[0]
    return _unlike(name, body, nearest)


def _unlike(name: str, body: Intrinsic, nearest: list[tuple[Mismatch, _Part]]) -> str:
    value = body.value.value if isinstance(body.value, Reduce) else body.value
    reason = (f"no layer {TOTALS[body.update]} {short_text(value)} over a row" if body.reduce_axes
              else f"no layer computes {short_text(value)}")
    if not nearest:
        return reason
    (depth, mine, other, why), part = max(nearest, key=lambda pair: pair[0][0])
    other = short_text(other, part.names)
    why = why or (f"which computes {other}" if depth == 1 else
                  f"which has {other} where {name} has {short_text(mine)}")
    return f"{reason}; nearest is {part.node.name} ({part.node.op}), {why}"


def _why_no_sum(machine: Machine, body: Intrinsic) -> str:
    alike = next((other for other in machine.of_unit("vector") if other.name != body.name
                  and (other.update, other.value) == (body.update, body.value)), None)
    if alike is not None:
        return f"{alike.name} computes the same, and comes first"
    return f"no layer {TOTALS[body.update]} {short_text(body.value)} over the pixels of windows"


def _parts(machine: Machine, graph: Graph) -> Iterator[_Part]:
    for node in graph.nodes:
        try:
            if is_elementwise(node):
                value, inputs, *_ = element_of(graph, node)
                yield _Part(node, value, RESULTS, "", dict(inputs))
            elif is_row_function(node):
                found = select_rows(machine, graph, node)
                for stage in found.stages:
                    yield _Part(node, stage.steps[-1].value, COMPUTED if stage.name else RESULTS,
                                "" if found.across else stage.total, {"x": node.inputs[0]})
        except LoweringError:           # no expression of elements
            continue


@lru_cache(2)
def _different_parts(machine: Machine, graph: Graph) -> tuple[_Part, ...]:
    """Parts of a graph for vector; the first of those parts that differ in numbers alone."""
    found: dict[tuple[str, ...], _Part] = {}
    for part in _parts(machine, graph):
        key = part.node.op, part.total, part.scope, re.sub(r"\d+", "#", plain_text(part.value))
        found.setdefault(key, part)
    return tuple(found.values())


def _dearer(machine: Machine, body: Intrinsic, graph: Graph, part: _Part) -> tuple[int, str]:
    """The cycles by which a part is slower by the instruction, and the reason."""
    node, others = part.node, machine.of_unit("vector")
    steps = cover_with(body, part.value, others, part.scope, step_cost, part.total)
    place = f"{node.name} ({node.op})"
    try:
        best = covered(machine, part.value, part.scope, part.total)
    except LoweringError:
        return 0, f"{place} is not on the accelerator"
    more = (_cycles(steps) - _cycles(best)) * _entries(machine, graph, node)
    if more > 0:
        return more, (f"{SLOWER}{place} by {more:,} cycles: {_named(steps)} instead of "
                      f"{_named(best)}")
    if body in (step.intrinsic for step in best):
        return 0, f"{place} would be computed by it, and is not on the accelerator"
    return 0, f"at {place} {_named(best)} takes as few cycles, and comes first"


def _named(steps: Sequence[CoverStep]) -> str:
    return ", ".join(step.intrinsic.name for step in steps)


def _cycles(steps: Sequence[CoverStep]) -> int:
    return sum(step_cost(step)[0] for step in steps)


def _entries(machine: Machine, graph: Graph, node: Node) -> int:
    """The entries that hold a result: blocks of channels, times the beats of each."""
    config, shape = machine.config, graph.values[node.outputs[0]].shape
    axis = 1 if len(shape) == 4 else len(shape) - 1
    others = prod(extent for place, extent in enumerate(shape) if place != axis)
    return -(-shape[axis] // config.block_out) * -(-others // config.batch) * config.vector_beats
