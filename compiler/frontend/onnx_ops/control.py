"""Control flow, resolved while a network is built: branches are chosen and loops unrolled.

Conditions and counts must be known: constants, or, where a network runs while it is built, any
value.
"""

import numpy as np

from compiler.frontend.importer import element_type
from compiler.frontend.registry import operator
from compiler.frontend.values import NodeRefused, Value, axes_of

MOST_TIMES = 20_000


@operator("If")
def if_(t, condition, *, then_branch, else_branch):
    chosen = bool(t.demand(condition, "condition").reshape(-1)[0])
    return tuple(t.graph(then_branch if chosen else else_branch, []))


@operator("Loop")
def loop(t, trip_count=None, condition=None, *state, body):
    most = None if trip_count is None else t.integer(trip_count, "trip count")
    goes_on = condition is None or bool(t.demand(condition, "condition").reshape(()))
    condition = t.constant(np.array(True)) if condition is None else condition
    state, rows, time = list(state), [], 0
    while goes_on and (most is None or time < most):
        if time == MOST_TIMES:
            raise NodeRefused(f"must end after {MOST_TIMES} times")
        condition, *results = t.graph(body, [t.constant(np.array(time)), condition, *state])
        state, time = results[:len(state)], time + 1
        rows.append(results[len(state):])
        if condition.array is None:
            t.settle([condition, *(value for value in state if isinstance(value, Value))])
        goes_on = bool(t.demand(condition, "condition").reshape(()))
    kinds = body.output[1 + len(state):]
    return (*state, *(_stacked(t, [row[place] for row in rows], 0, False, kind)
                      for place, kind in enumerate(kinds)))


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
    """Scans each image of a batch by itself."""
    if sequence_lens is not None:
        raise NodeRefused("sequence_lens must be left out")
    batch = inputs[0].shape[0]
    require_turns(batch)
    rows = [scan(t, *(sequence.cut(0, image, image + 1).reshape(*sequence.shape[1:])
                      for sequence in inputs),
                 body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions)
            for image in range(batch)]
    return tuple(_stacked(t, [row[place] for row in rows], 0, False, None)
                 for place in range(len(body.output)))


@operator("Scan", since=9)
def scan(t, *inputs, body, num_scan_inputs, scan_input_axes=None, scan_input_directions=None,
         scan_output_axes=None, scan_output_directions=None):
    state, series = list(inputs[:-num_scan_inputs]), inputs[-num_scan_inputs:]
    outputs = len(body.output) - len(state)
    axes = [axes_of((axis,), sequence.rank)[0] for axis, sequence
            in zip(scan_input_axes or [0] * len(series), series, strict=True)]
    turned = scan_input_directions or (0,) * len(series)
    length = series[0].shape[axes[0]]
    require_turns(length)
    rows: list[list[Value]] = []
    for time in range(length):
        slices = []
        for sequence, axis, backwards in zip(series, axes, turned, strict=True):
            place = length - 1 - time if backwards else time
            rest = sequence.shape[:axis] + sequence.shape[axis + 1:]
            slices.append(sequence.cut(axis, place, place + 1).reshape(*rest))
        results = t.graph(body, [*state, *slices])
        state = results[:len(state)]
        rows.append(results[len(state):])
    return (*state, *(_stacked(t, [row[place] for row in rows], axis, bool(backwards),
                               body.output[len(state) + place])
                      for place, (axis, backwards) in enumerate(zip(
                          scan_output_axes or [0] * outputs,
                          scan_output_directions or [0] * outputs, strict=True))))
