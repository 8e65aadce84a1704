"""Recurrent layers, unrolled over time."""

from collections.abc import Callable, Sequence

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.nodes.registry import operator
from compiler.frontend.onnx.operators import elementwise
from compiler.frontend.onnx.operators.control import require_turns

Step = Callable[[Value, tuple[Value, ...]], tuple[Value, ...]]
Product = Callable[[Value], Value]
"""The product of rows with the weights of all gates."""


def _activation(t, name: str, alpha: float | None, beta: float | None) -> Callable:
    known = {
        "Sigmoid": lambda x: elementwise.sigmoid(t, x), "Tanh": lambda x: x.tanh(),
        "Relu": lambda x: x.maximum(0), "Softplus": lambda x: elementwise.softplus(t, x),
        "Softsign": lambda x: elementwise.softsign(t, x),
        "Affine": lambda x: x * (1.0 if alpha is None else alpha) + (beta or 0.0),
        "LeakyRelu": lambda x: (x < 0).where(x * (0.01 if alpha is None else alpha), x),
        "ThresholdedRelu": lambda x: (x > (1.0 if alpha is None else alpha)).where(x, 0),
        "ScaledTanh": lambda x: (x * (1.0 if beta is None else beta)).tanh()
        * (1.0 if alpha is None else alpha),
        "HardSigmoid": lambda x: elementwise.hard_sigmoid(
            t, x, alpha=0.2 if alpha is None else alpha, beta=0.5 if beta is None else beta),
        "Elu": lambda x: elementwise.elu(t, x, alpha=1.0 if alpha is None else alpha)}
    if name not in known:
        raise NodeRefused(f"activation must be one of {', '.join(known)}, not {name}")
    return known[name]


def activations_of(t, names: Sequence[str] | None, alphas: Sequence[float] | None,
                   betas: Sequence[float] | None, usual: Sequence[str], directions: int) -> list:
    """The functions of all directions in order, with their numbers."""
    chosen = list(names or list(usual) * directions)
    alpha, beta = iter(alphas or ()), iter(betas or ())
    taking = {"Affine": (1, 1), "LeakyRelu": (1, 0), "ThresholdedRelu": (1, 0),
              "ScaledTanh": (1, 1), "HardSigmoid": (1, 1), "Elu": (1, 0)}
    functions = []
    for name in chosen:
        takes = taking.get(name, (0, 0))
        functions.append(_activation(t, name, next(alpha, None) if takes[0] else None,
                                     next(beta, None) if takes[1] else None))
    return functions


def _clipped(x: Value, limit: float) -> Value:
    return x.maximum(-limit).minimum(limit) if limit else x


def _by(w: Value, number: int) -> Product:
    """The product with the weights of one direction."""
    own = part_of(w, number)
    return lambda x: _matrix(x, own)


def _matrix(x: Value, w: Value) -> Value:
    """x [B,I] times the transposed w [O,I]."""
    return x.tracer.emit("matmul" if x.dtype == "float32" else "einsum", x, w.transpose(1, 0),
                         **({} if x.dtype == "float32" else {"equation": "ab,bc->ac"}))


def part_of(value: Value, direction: int) -> Value:
    return value.cut(0, direction, direction + 1).reshape(*value.shape[1:])


def gates_of(value: Value, count: int) -> list[Value]:
    """Splits the last dimension into equal parts, one for each gate."""
    size = value.shape[-1] // count
    return [value.cut(value.rank - 1, gate * size, (gate + 1) * size) for gate in range(count)]


def _split(value: Value, at: int) -> tuple[Value, Value]:
    """The columns before this one, and those from it on."""
    return value.cut(1, 0, at), value.cut(1, at, value.shape[1])


def _turned(x: Value, layout: int) -> Value:
    """The input as [T,B,I]."""
    return x.transpose(1, 0, 2) if layout else x


def _given(x: Value, times: Product, bias: Value | None) -> Value:
    """The part of the input [T,B,I] to the sums of all gates in all steps: [T*B,G]."""
    rows = times(x.reshape(x.shape[0] * x.shape[1], x.shape[2]))
    return rows if bias is None else rows + bias


def _recur(t, x: Value, hidden: int, lengths: Value | None, first: list[Value | None],
           direction: str, layout: int, way: Callable[[int], tuple[Value, Step]]
           ) -> tuple[Value, ...]:
    """Returns all states of the first kind, [T,D,B,H] or [B,T,D,H], and the last state of each
    kind. A way has what the input [T,B,I] gives to all steps, [T*B,G], and the step.
    """
    times, batch = x.shape[:2]
    require_turns(times)
    ways = [way(number) for number in range(directions_of(direction))]
    limits = None if lengths is None else lengths.astype("int64").reshape(batch, 1)
    rows, ends = [], []
    for number, (given, step) in enumerate(ways):
        backwards = direction == "reverse" or number == 1
        state = tuple(_beginning(t, initial, number, layout, batch, hidden, x.dtype)
                      for initial in first)
        each: dict[int, Value] = {}
        for time in reversed(range(times)) if backwards else range(times):
            after = step(given.cut(0, time * batch, (time + 1) * batch), state)
            shown = after[0]
            if limits is not None:
                within = limits > time
                shown = within.where(after[0], 0)
                after = tuple(within.where(new, old) for new, old in zip(after, state, strict=True))
            state, each[time] = after, shown
        states = joined(t, [each[time] for time in range(times)], 0)
        rows.append(states.reshape(times, 1, batch, hidden))
        ends.append(state)
    whole = joined(t, rows, 1)
    last = [joined(t, [end[kind].unsqueeze(0) for end in ends], 0) for kind in range(len(first))]
    if layout:
        return whole.transpose(2, 0, 1, 3), *(state.transpose(1, 0, 2) for state in last)
    return whole, *last


def joined(t, parts: list[Value], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else t.emit("concat", *parts, axis=axis)


def _beginning(t, given: Value | None, number: int, layout: int, batch: int, hidden: int,
               dtype: str) -> Value:
    if given is None:
        return t.constant(np.zeros((batch, hidden), dtype))
    return part_of(given.transpose(1, 0, 2) if layout else given, number)


def directions_of(direction: str) -> int:
    if direction not in ("forward", "reverse", "bidirectional"):
        raise NodeRefused(f"direction must be forward, reverse or bidirectional, not {direction}")
    return 2 if direction == "bidirectional" else 1


def _biases(b: Value | None, number: int) -> tuple[Value | None, Value | None]:
    """The biases of the input's gates and of the state's, and None where there are none."""
    if b is None:
        return None, None
    of_input, of_state = gates_of(part_of(b, number), 2)
    return of_input, of_state


def _bias(b: Value | None, number: int) -> Value | None:
    """The sum of both."""
    of_input, of_state = _biases(b, number)
    return None if of_input is None or of_state is None else of_input + of_state


def require_shapes(x: Value, gates: int, directions: int, hidden: int, layout: int,
                   sequence_lens: Value | None, **operands: Value | None) -> None:
    """Refuses operands of other shapes or another type than ONNX asks for."""
    rows, batch = gates * hidden, x.shape[0 if layout else 1]
    state = (batch, directions, hidden) if layout else (directions, batch, hidden)
    wanted = {"W": (directions, rows, x.shape[2]), "R": (directions, rows, hidden),
              "B": (directions, 2 * rows), "P": (directions, 3 * hidden),
              "initial_h": state, "initial_c": state, "sequence_lens": (batch,)}
    for name, value in {"sequence_lens": sequence_lens, **operands}.items():
        dtype = "int32" if name == "sequence_lens" else x.dtype
        if value is not None and (value.shape, value.dtype) != (wanted[name], dtype):
            raise NodeRefused(f"{name} must be {dtype} of shape {wanted[name]}, not "
                              f"{value.dtype} of shape {value.shape}")


@operator("RNN")
def rnn(t, x, w, r, b=None, sequence_lens=None, initial_h=None, *, activation_alpha=None,
        activation_beta=None, activations=None, clip=0.0, direction="forward", hidden_size,
        layout=0):
    count = directions_of(direction)
    require_shapes(x, 1, count, hidden_size, layout, sequence_lens, W=w, R=r, B=b,
                   initial_h=initial_h)
    functions = activations_of(t, activations, activation_alpha, activation_beta, ["Tanh"], count)

    x = _turned(x, layout)

    def way(number: int) -> tuple[Value, Step]:
        wh, function = part_of(r, number), functions[number]

        def step(now: Value, state: tuple[Value, ...]) -> tuple[Value, ...]:
            return (function(_clipped(now + _matrix(state[0], wh), clip)),)
        return _given(x, _by(w, number), _bias(b, number)), step

    return _recur(t, x, hidden_size, sequence_lens, [initial_h], direction, layout, way)


@operator("GRU")
def gru(t, x, w, r, b=None, sequence_lens=None, initial_h=None, *, activation_alpha=None,
        activation_beta=None, activations=None, clip=0.0, direction="forward", hidden_size,
        layout=0, linear_before_reset=0):
    count = directions_of(direction)
    require_shapes(x, 3, count, hidden_size, layout, sequence_lens, W=w, R=r, B=b,
                   initial_h=initial_h)
    functions = activations_of(t, activations, activation_alpha, activation_beta,
                               ["Sigmoid", "Tanh"], count)

    x = _turned(x, layout)

    def way(number: int) -> tuple[Value, Step]:
        wh, (of_input, of_state) = part_of(r, number), _biases(b, number)
        f, g = functions[2 * number:2 * number + 2]
        first, new = (wh.cut(0, begin * hidden_size, end * hidden_size)
                      for begin, end in ((0, 2), (2, 3)))

        def gates(sums: Value) -> tuple[Value, Value]:
            update, reset = gates_of(f(_clipped(sums, clip)), 2)
            return update, reset

        def step(now: Value, state: tuple[Value, ...]) -> tuple[Value, ...]:
            h, = state
            begin, inner = _split(now, 2 * hidden_size)
            if linear_before_reset:
                moved = _matrix(h, wh)
                moved = moved if of_state is None else moved + of_state
                head, tail = _split(moved, 2 * hidden_size)
                z, reset = gates(begin + head)
                inner = inner + reset * tail
            else:
                z, reset = gates(begin + _matrix(h, first))
                inner = inner + _matrix(reset * h, new)
            return ((1 - z) * g(_clipped(inner, clip)) + z * h,)
        bias = of_input if linear_before_reset else _bias(b, number)
        return _given(x, _by(w, number), bias), step

    return _recur(t, x, hidden_size, sequence_lens, [initial_h], direction, layout, way)


@operator("LSTM")
def lstm(t, x, w, r, b=None, sequence_lens=None, initial_h=None, initial_c=None, p=None, *,
         activation_alpha=None, activation_beta=None, activations=None, clip=0.0,
         direction="forward", hidden_size, input_forget=0, layout=0):
    count = directions_of(direction)
    require_shapes(x, 4, count, hidden_size, layout, sequence_lens, W=w, R=r, B=b, P=p,
                   initial_h=initial_h, initial_c=initial_c)
    if t.current in t.arranged:
        return _arranged(t, x, w, r, b, direction)
    functions = activations_of(t, activations, activation_alpha, activation_beta,
                               ["Sigmoid", "Tanh", "Tanh"], count)
    return unrolled_lstm(t, x, lambda number: (_by(w, number), _by(r, number)), b, sequence_lens,
                         (initial_h, initial_c), p, functions, clip, direction, hidden_size,
                         input_forget, layout)


def unrolled_lstm(t, x: Value, products: Callable[[int], tuple[Product, Product]], b: Value | None,
                  sequence_lens: Value | None, initial: Sequence[Value | None], p: Value | None,
                  functions: Sequence[Callable], clip: float, direction: str, hidden_size: int,
                  input_forget: int, layout: int = 0) -> tuple[Value, ...]:
    """The results of an LSTM whose `products` are of a direction's inputs and of its states."""
    x = _turned(x, layout)

    def way(number: int) -> tuple[Value, Step]:
        of_input, of_state = products(number)
        peep = None if p is None else gates_of(part_of(p, number), 3)
        f, g, h_of = functions[3 * number:3 * number + 3]

        def step(now: Value, state: tuple[Value, ...]) -> tuple[Value, ...]:
            h, c = state
            first, new = _split(now + of_state(h), 3 * hidden_size)
            if peep is None:
                i, o, forget = gates_of(f(_clipped(first, clip)), 3)
            else:
                i, o, forget = gates_of(first, 3)
                i, forget = (f(_clipped(gate + weights * c, clip))
                             for gate, weights in ((i, peep[0]), (forget, peep[2])))
            forget = 1 - i if input_forget else forget
            c = forget * c + i * g(_clipped(new, clip))
            if peep is not None:
                o = f(_clipped(o + peep[1] * c, clip))
            return o * h_of(c), c
        return _given(x, of_input, _bias(b, number)), step

    return _recur(t, x, hidden_size, sequence_lens, [*initial], direction, layout, way)


def _arranged(t, x: Value, w: Value, r: Value, b: Value | None, direction: str
              ) -> tuple[Value, Value, Value]:
    """A plain LSTM in the form that can be quantized: one product for the inputs of all steps, and
    one for the state of each but the first, whose state is zero.
    """
    ways = [_arranged_direction(t, x, part_of(w, number), part_of(r, number),
                                None if b is None else part_of(b, number),
                                direction == "reverse" or number == 1)
            for number in range(directions_of(direction))]
    whole, state, cell = zip(*ways, strict=True)
    return (joined(t, list(whole), 1), joined(t, list(state), 0), joined(t, list(cell), 0))


def _arranged_direction(t, x: Value, w: Value, r: Value, b: Value | None, backwards: bool
                        ) -> tuple[Value, Value, Value]:
    """Returns all states [T,1,B,H], the last state [1,B,H], and the last cell."""
    turned, hidden = r.transpose(1, 0), r.shape[1]
    product = given = _named(t, "inputs", lambda: t.emit("matmul", x, w.transpose(1, 0)))
    if b is not None:
        bias = b.reshape(2, b.size // 2).sum(0)
        given = _named(t, "bias", lambda: product + bias)
    state: Value | None = None
    cell: Value | None = None
    states: dict[int, Value] = {}
    times = range(x.shape[0])
    for time in reversed(times) if backwards else times:
        sums = _sums(t, given, time, state, turned)
        state, cell = _arranged_cell(t, sums, cell, hidden)
        states[time] = state
    assert state is not None and cell is not None
    stacked = _named(t, "stacked", lambda: joined(t, [states[time] for time in times], 0))
    return _named(t, "direction", lambda: stacked.unsqueeze(1)), state, cell


def _sums(t, given: Value, time: int, state: Value | None, turned: Value) -> Value:
    """The sums of products that all gates of a step read."""
    now = _named(t, "slice", lambda: given.cut(0, time, time + 1))
    if state is None:
        return now
    moved = _named(t, "recurrent", lambda: t.emit("matmul", state, turned))
    return _named(t, "sums", lambda: moved + now)


def _arranged_cell(t, sums: Value, cell: Value | None, hidden: int) -> tuple[Value, Value]:
    """The next state and cell; gates are input, output, forget, and the new value."""
    def part(value: Value, begin: int, end: int) -> Value:
        return _named(t, "slice", lambda: value.cut(2, begin * hidden, end * hidden))

    first = part(sums, 0, 3)
    gates = _named(t, "gates", lambda: elementwise.sigmoid(t, first))
    last = part(sums, 3, 4)
    new = _named(t, "new", lambda: last.tanh())
    enter, leave, keep = (part(gates, gate, gate + 1) for gate in range(3))
    entered = _named(t, "entered", lambda: enter * new)
    if cell is not None:
        kept = _named(t, "kept", lambda: keep * cell)
        entered = _named(t, "cell", lambda: kept + entered)
    shown = _named(t, "shown", lambda: entered.tanh())
    return _named(t, "state", lambda: leave * shown), entered


def _named(t, role: str, make: Callable[[], Value]) -> Value:
    """The result of `make`, named with its node after the layer and this role."""
    layer, start = t.current, len(t.builder.nodes)
    value = t.builder.fresh(f"{layer}.{role}")
    t.current = t.builder.fresh_node(value)
    try:
        result = make()
        nodes = {node.name: t.current for node in t.builder.nodes[start:]
                 if node.outputs[0] == result.name}
    finally:
        t.current = layer
    if nodes:
        t.builder.rename(start, {result.name: value}, nodes)
        result.name = result.role = value
    return result
