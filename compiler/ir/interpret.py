"""The meaning of loop programs: a reference interpreter on NumPy arrays, exact to the bit.

Lanes
-----
Statements run for a list of *lanes*, each with its own values of the loop variables, in the order
of the program. A perfect nest of loops around one store widens the lanes and then runs the store
once, for all; every other loop runs as written. That changes the speed and nothing else: a store
that depends on what another lane writes runs lane by lane.

Loops whose iterations are declared to have no order run backwards: a dependence between them would
show. Threads that reduce together do not, the first one begins. Barriers mean nothing here, since
threads run one after the other.

What a program must not do is found, not computed around: an index outside its buffer, a read of
an element that nothing wrote, an output element that nothing wrote.
"""

from dataclasses import dataclass, field

import numpy as np

from compiler.te import (Binary, Buffer, Call, Cast, Const, Expr, Extern, Field, Read, Select, Var,
                         numpy_dtype)

from .arithmetic import FOLDS, apply_binary, apply_call, apply_cast, apply_fold, cut
from .nodes import (UNORDERED_KINDS, Alloc, Barrier, Combine, For, If, Program, Seq, Stmt, Store,
                    Tensorized, Update, Write)
from .printer import expr_text
from .specialize import specialize, values_in
from .visit import reads, writes

_LANES = 1 << 17                    # more at a time would only cost memory

Env = dict[Var, np.ndarray]


def interpret(program: Program, inputs: dict[str, np.ndarray],
              symbols: dict[str, int] | None = None) -> dict[str, np.ndarray]:
    """Outputs by name. `inputs` hold an array for every input of the program, of its type.

    Records are structured arrays. Raises ValueError for inputs that do not fit, IndexError for an
    index outside its buffer, LookupError for an element that is read or returned unwritten.
    Parameters of the program take their values from the shapes of the inputs, or from `symbols`.
    """
    if program.parameters:
        return interpret(specialize(program, **values_in(program.inputs, inputs, symbols or {})),
                         inputs)
    memory = _Memory()
    for buffer in program.inputs:
        memory.bind(buffer, _checked(buffer, inputs, program))
    for buffer in program.outputs:
        memory.allocate(buffer)
    _run(program.body, {}, 1, memory)
    for buffer in program.outputs:
        if not memory.written[buffer.name].all():
            place = np.argwhere(~memory.written[buffer.name].reshape(buffer.shape))[0].tolist()
            raise LookupError(f"Output {buffer.name}{place} was never written")
    return {b.name: memory.data[b.name].reshape(b.shape) for b in program.outputs}


def evaluate(expr: Expr, env: Env, lanes: int) -> np.ndarray:
    """Values of an expression that reads nothing, for `lanes` values of its variables each."""
    return _eval(expr, env, lanes, _Memory())


def _checked(buffer: Buffer, inputs: dict[str, np.ndarray], program: Program) -> np.ndarray:
    if buffer.name not in inputs:
        raise ValueError(f"Inputs of {program.name} must hold {buffer.name!r}, "
                         f"not only {sorted(inputs)}")
    array = np.asarray(inputs[buffer.name])
    if array.shape != buffer.shape or array.dtype != numpy_dtype(buffer.dtype):
        raise ValueError(f"Input {buffer.name} must be {buffer.dtype}{list(buffer.shape)}, "
                         f"not {array.dtype}{list(array.shape)}")
    return array


@dataclass(slots=True)
class _Memory:
    """Flat arrays of all live buffers, and which of their elements hold a value; `_widths` are
    what `width` has found, by the identity of loops of the program.
    """

    data: dict[str, np.ndarray] = field(default_factory=dict)
    written: dict[str, np.ndarray] = field(default_factory=dict)
    _widths: dict[int, int] = field(default_factory=dict)

    def bind(self, buffer: Buffer, array: np.ndarray):
        self.data[buffer.name] = array.reshape(-1)
        self.written[buffer.name] = np.ones(array.size, bool)

    def allocate(self, buffer: Buffer):
        self.data[buffer.name] = np.zeros(buffer.size, numpy_dtype(buffer.dtype))
        self.data[buffer.name].view(np.uint8)[:] = 0xA5
        self.written[buffer.name] = np.zeros(buffer.size, bool)

    def free(self, buffer: Buffer):
        del self.data[buffer.name], self.written[buffer.name]

    def width(self, loop: For) -> int:
        """`_width` of a loop of the program, which runs many times."""
        found = self._widths.get(id(loop))
        if found is None:
            found = self._widths[id(loop)] = _width(loop)
        return found


def _run(stmt: Stmt, env: Env, lanes: int, memory: _Memory):
    match stmt:
        case For(var, extent, body):
            order = np.arange(extent)[::-1 if _has_no_order(stmt) else 1]
            if lanes * memory.width(stmt) <= _LANES:
                wide = {v: np.repeat(values, extent) for v, values in env.items()}
                wide[var] = np.tile(order, lanes)
                _run(body, wide, lanes * extent, memory)
            else:
                for value in order:
                    _run(body, {**env, var: np.array([value])}, 1, memory)
        case Seq(stmts):
            for child in stmts:
                _run(child, env, lanes, memory)
        case Alloc(buffer, body):
            memory.allocate(buffer)
            _run(body, env, lanes, memory)
            memory.free(buffer)
        case If(condition, body):
            where = np.flatnonzero(_eval(condition, env, lanes, memory))
            if where.size:
                _run(body, _chosen(env, where), where.size, memory)
        case Tensorized():
            _run(stmt.body, env, lanes, memory)
        case Store() | Update():
            _write(stmt, env, lanes, memory)
        case Combine():
            _combine(stmt, env, lanes, memory)
        case Barrier():
            return
        case _:
            raise TypeError(f"Statement must be of a known kind, not {stmt!r}")


def _has_no_order(loop: For) -> bool:
    return loop.kind in UNORDERED_KINDS and not any(
        isinstance(write, Update | Combine) and loop.var in write.axes for write in writes(loop))


def _width(loop: For) -> int:
    """The lanes of the loop, if all that it does is one store whose lanes do not depend on each
    other, else more than there may be at a time.
    """
    node: Stmt = loop
    lanes = 1
    while isinstance(node, For | If | Tensorized):
        lanes *= node.extent if isinstance(node, For) else 1
        node = node.body
    is_wide = isinstance(node, Write) and all(
        read.buffer not in node.buffers for read in reads(node))
    return lanes if is_wide else _LANES + 1


def _chosen(env: Env, where: np.ndarray) -> Env:
    return {var: values[where] for var, values in env.items()}


def _write(stmt: Store | Update, env: Env, lanes: int, memory: _Memory):
    value = _eval(stmt.value, env, lanes, memory)
    place = _address(stmt.buffer, stmt.indices, env, lanes, memory)
    data, written = memory.data[stmt.buffer.name], memory.written[stmt.buffer.name]
    if isinstance(stmt, Store):
        data[place] = value                     # of lanes with one place, the last remains
        written[place] = True
        return
    begin = _begins(stmt, env, lanes)
    first = np.unique(place, return_index=True)[1]
    if np.isin(np.flatnonzero(begin), first).all():
        data[place[begin]] = value[begin]
        written[place[begin]] = True
        _require_written(stmt.buffer, place, written)
        with np.errstate(all="ignore"):         # floats follow IEEE 754, silently
            FOLDS[stmt.op].at(data, place[~begin], value[~begin])    # in the order of the lanes
        data[place] = cut(data[place], stmt.buffer.dtype)
    else:
        for lane in range(lanes):
            _update_one(stmt, place[lane:lane + 1], value[lane:lane + 1], begin[lane], memory)


def _begins(stmt: Update | Combine, env: Env, lanes: int) -> np.ndarray:
    """The lanes in which the reduction begins."""
    begin = np.full(lanes, stmt.begins)
    for var in stmt.axes:
        begin &= env[var] == 0
    return begin


def _update_one(stmt: Update, place: np.ndarray, value: np.ndarray, begin: bool, memory: _Memory):
    data, written = memory.data[stmt.buffer.name], memory.written[stmt.buffer.name]
    if not begin:
        _require_written(stmt.buffer, place, written)
        value = cut(apply_fold(stmt.op, data[place], value), stmt.buffer.dtype)
    data[place], written[place] = value, True


def _combine(stmt: Combine, env: Env, lanes: int, memory: _Memory):
    """Combines at once all lanes that are the first, the second, ... to touch their element."""
    values = [_eval(value, env, lanes, memory) for value in stmt.values]
    place = _address(stmt.buffers[0], stmt.indices, env, lanes, memory)
    begin = _begins(stmt, env, lanes)
    turn = _turns(place)
    for number in range(turn.max() + 1):
        now = turn == number
        first, later = np.flatnonzero(now & begin), np.flatnonzero(now & ~begin)
        _assign(stmt.buffers, place[first], [value[first] for value in values], memory)
        if later.size:
            _assign(stmt.buffers, place[later],
                    _combined(stmt, place[later], [v[later] for v in values], memory), memory)


def _turns(place: np.ndarray) -> np.ndarray:
    """For each lane, how many lanes before it have the same place."""
    order = np.argsort(place, kind="stable")
    ordered = place[order]
    turn = np.empty(place.size, np.int64)
    turn[order] = np.arange(place.size) - np.searchsorted(ordered, ordered)
    return turn


def _combined(stmt: Combine, place: np.ndarray, values: list[np.ndarray],
              memory: _Memory) -> list[np.ndarray]:
    env: Env = dict(zip(stmt.reducer.right, values, strict=True))
    for var, buffer in zip(stmt.reducer.left, stmt.buffers, strict=True):
        _require_written(buffer, place, memory.written[buffer.name])
        env[var] = memory.data[buffer.name][place]
    return [_eval(value, env, place.size, memory) for value in stmt.reducer.combined]


def _assign(buffers: tuple[Buffer, ...], place: np.ndarray, values: list[np.ndarray],
            memory: _Memory):
    for buffer, value in zip(buffers, values, strict=True):
        memory.data[buffer.name][place] = value
        memory.written[buffer.name][place] = True


def _require_written(buffer: Buffer, place: np.ndarray, written: np.ndarray):
    if not written[place].all():
        wrong = place[~written[place]][0]
        at = []
        for pitch in buffer.pitches:
            at.append(int(wrong // pitch))
            wrong %= pitch
        raise LookupError(f"{buffer.name}{at} is read before it is written")


def _address(buffer: Buffer, indices: tuple[Expr, ...], env: Env, lanes: int,
             memory: _Memory) -> np.ndarray:
    place = np.zeros(lanes, np.int64)
    for dimension, (index, extent, pitch) in enumerate(
            zip(indices, buffer.shape, buffer.pitches, strict=True)):
        value = _eval(index, env, lanes, memory)
        outside = (value < 0) | (value >= extent)
        if outside.any():
            raise IndexError(f"Index {dimension} of {buffer.name}, {expr_text(index)}, must be "
                             f"from 0 to {extent - 1}, not {value[outside][0]}")
        place = place + pitch * value
    return place


def _eval(expr: Expr, env: Env, lanes: int, memory: _Memory) -> np.ndarray:
    """Values of all lanes: an array of one dimension."""
    def go(child: Expr) -> np.ndarray:
        return _eval(child, env, lanes, memory)

    match expr:
        case Const(value, dtype):
            return np.full(lanes, value, numpy_dtype(dtype))
        case Var():
            return env[expr]
        case Read(buffer, indices):
            place = _address(buffer, indices, env, lanes, memory)
            _require_written(buffer, place, memory.written[buffer.name])
            return memory.data[buffer.name][place]
        case Field(base, name):
            return go(base)[name]
        case Binary(op, a, b):
            return cut(apply_binary(op, go(a), go(b)), expr.dtype)
        case Call(function, args):
            return cut(apply_call(function, *map(go, args)), expr.dtype)
        case Cast(value, dtype):
            return apply_cast(go(value), dtype)
        case Select():
            return _select(expr, env, lanes, memory)
        case Extern(function):
            raise TypeError(f"{function} must be performed by an instruction: no expression says "
                            f"what it computes")
        case _:
            raise TypeError(f"Expression must be of a known kind, not {expr!r}")


def _select(expr: Select, env: Env, lanes: int, memory: _Memory) -> np.ndarray:
    """Each side is evaluated for the lanes that choose it, and for no others."""
    condition = _eval(expr.condition, env, lanes, memory)
    result = np.empty(lanes, numpy_dtype(expr.dtype))
    for side, where in ((expr.a, np.flatnonzero(condition)), (expr.b, np.flatnonzero(~condition))):
        if where.size:
            result[where] = _eval(side, _chosen(env, where), where.size, memory)
    return result
