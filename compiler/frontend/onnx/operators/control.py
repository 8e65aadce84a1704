"""Control flow, resolved while a network is built: branches are chosen and loops unrolled.

A condition is a constant, or, where a network runs while it is built, any value; else both branches
are computed. How often a loop turns at most must be known.
"""

import numpy as np

from compiler.frontend.building.branches import MOST_TURNS, both, either, never, one_bool
from compiler.frontend.building.values import NodeRefused, Value, axes_of
from compiler.frontend.onnx.nodes.importer import element_type
from compiler.frontend.onnx.nodes.registry import operator

MOST_TIMES = 20_000


@operator("If")
def if_(t, condition, *, then_branch, else_branch):
    if condition.array is None and t.run is None:
        holds = one_bool(condition)
        return tuple(either(holds, t.graph(then_branch, []), t.graph(else_branch, [])))
    chosen = bool(t.demand(condition, "condition").reshape(-1)[0])
    return tuple(t.graph(then_branch if chosen else else_branch, []))


@operator("Loop")
def loop(t, trip_count=None, condition=None, *state, body):
    """Unrolled. Where data end it, all turns that there may be are computed, and the results are
    those of the last turn that takes place.
    """
    most, state, rows, time = _most(t, trip_count), list(state), [], 0
    last = state
    goes_on, going = _known(t, t.constant(np.array(True)) if condition is None else condition)
    condition = t.constant(np.array(True)) if condition is None else condition
    masked = going is not None
    while goes_on and (most is None or time < most):
        _require_end(time, most, going)
        within = both(going, _earlier(t, time, trip_count))
        condition, *results = t.graph(body, [t.constant(np.array(time)), condition, *state])
        state, time = results[:len(state)], time + 1
        masked = masked or within is not None
        last = state if within is None else either(within, state, last)
        rows.append(results[len(state):])
        if condition.array is None and t.run is not None:
            t.settle([condition, *(value for value in state if isinstance(value, Value))])
        goes_on, told = _known(t, condition)
        going = both(within, told)
    kinds = body.output[1 + len(state):]
    if kinds and masked:
        raise NodeRefused(f"its result {kinds[0].name!r} has a row for each turn, and data decide "
                          "how many there are")
    return (*last, *(_stacked(t, [row[place] for row in rows], 0, False, kind)
                     for place, kind in enumerate(kinds)))


def _known(t, condition: Value) -> tuple[bool, Value | None]:
    """True if the condition may hold, and the condition itself where data decide."""
    if condition.array is None and t.run is None:
        return not never(condition), one_bool(condition)
    return bool(t.demand(condition, "condition").reshape(())), None


def _most(t, trip_count: Value | None) -> int | None:
    """The most turns: the trip count, or what it cannot exceed."""
    if trip_count is None:
        return None
    greatest = t.greatest(trip_count)
    return t.integer(trip_count, "trip count") if greatest is None else greatest


def _earlier(t, time: int, trip_count: Value | None) -> Value | None:
    """The condition of a turn by a trip count that is computed."""
    if trip_count is None or trip_count.array is not None:
        return None
    return trip_count.reshape() > time


def _require_end(time: int, most: int | None, going: Value | None) -> None:
    """Refuses loops that take too many turns to be unrolled."""
    if time == MOST_TIMES:
        raise NodeRefused(f"must end after {MOST_TIMES} times")
    if going is not None and time == MOST_TURNS and (most is None or most > MOST_TIMES):
        raise NodeRefused(f"its condition {going.role!r} depends on data, so its trip count must "
                          f"be {MOST_TIMES:,} at most, not {'left out' if most is None else most}, "
                          f"or a count in the condition must end it after {MOST_TURNS:,} turns")


def _stacked(t, parts: list[Value], axis: int, backwards: bool, kind) -> Value:
    """Stacks values along a new axis."""
    if not parts:
        type_ = kind.type.tensor_type
        extents = [dim.dim_value for dim in type_.shape.dim]
        return t.constant(np.empty((0, *extents), element_type(type_.elem_type)))
    place, = axes_of((axis,), parts[0].rank + 1)
    rows = [part.unsqueeze(place) for part in (reversed(parts) if backwards else parts)]
    return rows[0] if len(rows) == 1 else t.emit("concat", *rows, axis=place)


def require_turns(count: int) -> None:
    """Refuses loops with more iterations than are unrolled."""
    if count > MOST_TIMES:
        raise NodeRefused(f"must take {MOST_TIMES:,} turns at most, not {count:,}")


@operator("Scan", since=8)
def scan_8(t, sequence_lens, *inputs, body, directions=None, num_scan_inputs):
    """Scans each image of a batch by itself, as many steps as its length."""
    batch = inputs[0].shape[0]
    require_turns(batch)
    if sequence_lens is not None and any(directions or ()):
        raise NodeRefused("sequence_lens must be left out where a direction is reverse")
    lengths = None if sequence_lens is None else sequence_lens.reshape(batch)
    rows = [_scanned(t, [sequence.cut(0, image, image + 1).reshape(*sequence.shape[1:])
                         for sequence in inputs], body, num_scan_inputs, turned=directions,
                     length=None if lengths is None else lengths.cut(0, image, image + 1).reshape())
            for image in range(batch)]
    return tuple(_stacked(t, [row[place] for row in rows], 0, False, None)
                 for place in range(len(body.output)))


@operator("Scan", since=9)
def scan(t, *inputs, body, num_scan_inputs, scan_input_axes=None, scan_input_directions=None,
         scan_output_axes=None, scan_output_directions=None):
    return _scanned(t, inputs, body, num_scan_inputs, scan_input_axes, scan_input_directions,
                    scan_output_axes, scan_output_directions)


def _scanned(t, inputs, body, num_scan_inputs: int, in_axes=None, turned=None, out_axes=None,
             out_turned=None, length: Value | None = None) -> tuple[Value, ...]:
    """The last state and all rows. From step `length` on the state stays, and rows are zero."""
    state, series = list(inputs[:-num_scan_inputs]), inputs[-num_scan_inputs:]
    outputs = len(body.output) - len(state)
    axes = [axes_of((axis,), sequence.rank)[0] for axis, sequence
            in zip(in_axes or [0] * len(series), series, strict=True)]
    times = series[0].shape[axes[0]]
    require_turns(times)
    rows: list[list[Value]] = []
    for time in range(times):
        slices = [_row(sequence, axis, times - 1 - time if backwards else time)
                  for sequence, axis, backwards
                  in zip(series, axes, turned or (0,) * len(series), strict=True)]
        results = t.graph(body, [*state, *slices])
        new, row = results[:len(state)], results[len(state):]
        if length is not None:
            within = length > time
            new = either(within, new, state)
            row = [within.where(value, 0) for value in row]
        state = new
        rows.append(row)
    return (*state, *(_stacked(t, [row[place] for row in rows], axis, bool(backwards),
                               body.output[len(state) + place])
                      for place, (axis, backwards) in enumerate(zip(
                          out_axes or [0] * outputs, out_turned or [0] * outputs, strict=True))))


def _row(sequence: Value, axis: int, place: int) -> Value:
    rest = sequence.shape[:axis] + sequence.shape[axis + 1:]
    return sequence.cut(axis, place, place + 1).reshape(*rest)
