"""Recurrent layers, unrolled over time.

ATen gives the parameters of a stack of layers in one list: for each layer and direction the
weights of input and state, then their biases if there are any, then the projection of an LSTM's
shown state if it has one. Gates stand in the order of ATen: of an LSTM input, forget, cell, output;
of a GRU reset, update, new.
"""

from collections.abc import Callable, Sequence

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.operators.elementwise import sigmoid
from compiler.frontend.onnx.operators.recurrent import gates_of, joined, part_of
from compiler.frontend.pytorch.aten.matrix import linear
from compiler.frontend.pytorch.aten.registry import aten, refuse

State = tuple[Value, ...]
Cell = Callable[[Value, State, Sequence[Value]], State]
"""The next state from the input's part of the gates, the state, and the parameters of the state."""


def _lstm_cell(inner: Value, state: State, parameters: Sequence[Value]) -> State:
    t, (h, c) = inner.tracer, state
    i, f, g, o = gates_of(inner + linear(t, h, *_of_state(parameters)), 4)
    c = sigmoid(t, f) * c + sigmoid(t, i) * g.tanh()
    shown = sigmoid(t, o) * c.tanh()
    return shown if len(parameters) % 2 == 0 else linear(t, shown, parameters[-1]), c


def _gru_cell(inner: Value, state: State, parameters: Sequence[Value]) -> State:
    t, (h,) = inner.tracer, state
    xr, xz, xn = gates_of(inner, 3)
    hr, hz, hn = gates_of(linear(t, h, *_of_state(parameters)), 3)
    z = sigmoid(t, xz + hz)
    return ((1 - z) * (xn + sigmoid(t, xr + hr) * hn).tanh() + z * h,)


def _plain_cell(function: Callable[[Value], Value]) -> Cell:
    def cell(inner: Value, state: State, parameters: Sequence[Value]) -> State:
        return (function(inner + linear(inner.tracer, state[0], *_of_state(parameters))),)
    return cell


def _of_state(parameters: Sequence[Value]) -> tuple[Value, Value | None]:
    return parameters[1], parameters[3] if len(parameters) > 3 else None


def _direction(t, x: Value, state: State, parameters: Sequence[Value], cell: Cell,
               backwards: bool) -> tuple[Value, State]:
    """Returns all states [T,B,H] and the last one; one product serves the inputs of all times."""
    inner = linear(t, x, parameters[0], parameters[2] if len(parameters) > 3 else None)
    times = range(x.shape[0])
    each: dict[int, Value] = {}
    for time in reversed(times) if backwards else times:
        state = cell(inner.cut(0, time, time + 1).reshape(*inner.shape[1:]), state, parameters)
        each[time] = state[0].unsqueeze(0)
    return joined(t, [each[time] for time in times], 0), state


def _stack(t, x: Value, first: Sequence[Value], parameters: Sequence[Value], has_biases: bool,
           num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
           cell: Cell) -> tuple[Value, ...]:
    if train and dropout:
        raise NodeRefused("it drops elements at random in training mode; call eval() before "
                          "export")
    directions = 1 + bidirectional
    each, rest = divmod(len(parameters), num_layers * directions)
    if rest or each - (4 if has_biases else 2) not in (0, 1):
        raise NodeRefused(f"it must have as many parameters for each of {num_layers} layers, not "
                          f"{len(parameters)}")
    alone = x.rank == 2                         # one sequence without a batch
    if alone:
        x, first = x.unsqueeze(1), [state.unsqueeze(1) for state in first]
    elif batch_first:
        x = x.transpose(1, 0, 2)
    ends: list[State] = []
    for _ in range(num_layers):
        rows = []
        for backwards in (False, True)[:directions]:
            number = len(ends)
            begin = tuple(part_of(state, number) for state in first)
            row, end = _direction(t, x, begin, parameters[number * each:(number + 1) * each],
                                  cell, backwards)
            rows.append(row)
            ends.append(end)
        x = joined(t, rows, 2)
    last = [joined(t, [end[kind].unsqueeze(0) for end in ends], 0) for kind in range(len(first))]
    if alone:
        return tuple(state.reshape(state.shape[0], state.shape[2]) for state in (x, *last))
    return (x.transpose(1, 0, 2) if batch_first else x, *last)


@aten("lstm.input")
def lstm(t, x, hx, params, *options):
    return _stack(t, x, hx, params, *options, cell=_lstm_cell)


@aten("gru.input")
def gru(t, x, hx, params, *options):
    return _stack(t, x, [hx], params, *options, cell=_gru_cell)


@aten("rnn_tanh.input")
def rnn_tanh(t, x, hx, params, *options):
    return _stack(t, x, [hx], params, *options, cell=_plain_cell(lambda state: state.tanh()))


@aten("rnn_relu.input")
def rnn_relu(t, x, hx, params, *options):
    return _stack(t, x, [hx], params, *options, cell=_plain_cell(lambda state: state.maximum(0)))


refuse("lstm.data", "gru.data", "rnn_tanh.data", "rnn_relu.data",
       why="packed sequences are not supported; give a padded batch")
