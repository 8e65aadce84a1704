"""Operators of higher order: branches are chosen or computed both, loops are unrolled.

Bodies are programs of their own, `t.body(program, operands)` gives their results.
"""

from collections.abc import Sequence
from typing import Any

from compiler.frontend.building.branches import MOST_TURNS, both, either, never, one_bool
from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.pytorch.aten.registry import aten


@aten("cond")
def cond(t, condition, yes, no, operands=()):
    if isinstance(condition, Value) and condition.array is None:
        holds = one_bool(condition)
        return tuple(either(holds, t.body(yes, operands), t.body(no, operands)))
    return tuple(t.body(yes if _holds(condition) else no, operands))


@aten("wrap_with_set_grad_enabled")
def without_gradients(t, enabled, body, *operands):
    return tuple(t.body(body, operands))


def _holds(condition: Any) -> bool:
    return bool(condition.array if isinstance(condition, Value) else condition)


@aten("while_loop")
def while_loop(t, condition, step, carried, additional=()):
    """Unrolled. Where data end it, all turns that there may be are computed, and the results are
    those of the last turn that takes place.
    """
    state = last = list(carried)
    within: Value | None = None
    for _ in range(MOST_TURNS + 1):
        told, = t.body(condition, [*state, *additional])
        if never(told):
            return tuple(last)
        if isinstance(told, Value) and told.array is None:
            within = both(within, one_bool(told))
        state = t.body(step, [*state, *additional])
        last = state if within is None else either(within, state, last)
    raise NodeRefused(f"must end after {MOST_TURNS:,} turns whatever the data are: a comparison of "
                      "a count with a constant must be a part of its condition")


@aten("scan")
def scan(t, step, first, series, additional=()):
    """The last state, and the results of all turns, stacked."""
    state, rows = list(first), []
    for time in range(series[0].shape[0]):
        results = t.body(step, [*state, *_slices(series, time), *additional])
        state = results[:len(state)]
        rows.append(results[len(state):])
    return (*state, *_stacked(t, rows))


@aten("map_impl")
def map_impl(t, step, series, additional=()):
    return tuple(_stacked(t, [t.body(step, [*_slices(series, time), *additional])
                              for time in range(series[0].shape[0])]))


def _slices(series: Sequence[Value], time: int) -> list[Value]:
    return [value.cut(0, time, time + 1).reshape(*value.shape[1:]) for value in series]


def _stacked(t, rows: Sequence[Sequence[Value]]) -> list[Value]:
    columns = [[value.unsqueeze(0) for value in column] for column in zip(*rows, strict=True)]
    return [column[0] if len(column) == 1 else t.emit("concat", *column, axis=0)
            for column in columns]
