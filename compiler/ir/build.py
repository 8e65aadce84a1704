"""Lowers tensor expressions to the plain loop program: one nest per stage, unscheduled."""

from collections.abc import Iterable, Iterator, Sequence

from compiler import te
from compiler.te import (INDEX, Axis, Buffer, Computed, Const, Expr, Extent, Read, Reducer, Scan,
                         Tensor, Var)

from .index_sets import Domain, is_implied
from .nodes import Combine, For, Program, Seq, Stmt, Store, Update
from .printer import expr_text
from .reducers import check_reducer
from .simplify import normalize_stmt
from .specialize import symbols_of
from .visit import block, loops

Definition = Computed | Scan


def lower(outputs: Sequence[Tensor], name: str) -> Program:
    """Program that computes `outputs` and whatever they read.

    Every `te.compute` becomes a loop nest over its axes, in the order of their dependence; a
    reduction becomes inner loops around an `Update`, or a `Combine` for a reducer of one's own. A
    `te.scan` becomes its beginnings, then a loop over time around what depends on it. Intermediate
    tensors are allocated in scope ``global`` around everything, those of a step inside of the loop
    over time. Inputs are the placeholders in the order in which they are met. A reduction variable
    whose name is taken gets the name of its stage in front.

    Raises ValueError for a reducer that is not what it declares to be, and for a step of a scan
    that reads its own time.
    """
    for tensor in outputs:
        if tensor.buffer.definition is None:
            raise ValueError(f"Output of {name} must be computed, not the placeholder "
                             f"{tensor.name!r}")
    parts = _Found(name)
    for tensor in outputs:
        parts.visit(tensor.buffer)
    kept = {tensor.name for tensor in outputs}
    taken: set[str] = set()
    nests = _flat(stmt for stage in parts.stages for stmt in _lowered(stage, parts, taken))
    inner = tuple(b for stage in parts.stages for b in parts.made(stage) if b.name not in kept)
    results = tuple(_plain(tensor.buffer) for tensor in outputs)
    body = normalize_stmt(block(inner, nests))
    extents = [extent for b in (*parts.inputs, *results, *inner) for extent in b.shape]
    extents += [loop.extent for loop in loops(body)]
    return Program(name, tuple(parts.inputs), results, body, tuple(symbols_of(extents)))


class _Found:
    """Collects the inputs and stages of a computation, each after what it reads."""

    def __init__(self, name: str):
        self.name = name
        self.inputs: list[Buffer] = []
        self.stages: list[Definition] = []
        self.inside: dict[str, list[Computed]] = {}     # of a scan's loop, by its first name
        self._known: dict[str, Buffer] = {}

    def made(self, stage: Definition) -> list[Buffer]:
        """The buffers that a stage writes."""
        return [_plain(self._known[name]) for name in stage.names]

    def visit(self, buffer: Buffer):
        known = self._known.get(buffer.name)
        if known is not None:
            if known != buffer or known.definition is not buffer.definition:
                raise ValueError(f"Tensors of {self.name} must have names of their own, "
                                 f"not two of them {buffer.name!r}")
            return
        definition = buffer.definition
        match definition:
            case None:
                self._know(buffer)
                self.inputs.append(_plain(buffer))
            case Computed():
                self._operands(definition.values)
                self._know(*_buffers(definition))
                self.stages.append(definition)
            case Scan():
                self._scan(definition)

    def _know(self, *buffers: Buffer):
        for buffer in buffers:
            if buffer.name in self._known:
                raise ValueError(f"Tensors of {self.name} must have names of their own, "
                                 f"not two of them {buffer.name!r}")
            self._known[buffer.name] = buffer

    def _operands(self, values: Sequence[Expr]):
        for value in values:
            for buffer in _read(value):
                self.visit(buffer)

    def _scan(self, scan: Scan):
        for first in scan.first:
            self._operands(first.values)
        self._know(*(Buffer(name, scan.shape, first.values[0].dtype, definition=scan)
                     for name, first in zip(scan.names, scan.first)))
        inside = self.inside[scan.names[0]] = []
        for step in scan.steps:
            self._in_time(step.buffer.definition, scan, inside)
            _require_earlier(step.buffer.definition, scan)
        for stage in inside:
            _require_earlier(stage, scan)
        self.stages.append(scan)

    def _in_time(self, stage: Computed, scan: Scan, inside: list[Computed]):
        """Collect what a step is computed from: in the loop what depends on time, else before."""
        for buffer in [b for value in stage.values for b in _read(value)]:
            if buffer.name in scan.names or buffer.name in self._known:
                continue
            if not _depends(buffer.definition, scan):
                self.visit(buffer)
                continue
            if not isinstance(buffer.definition, Computed):
                raise ValueError(f"Step of {scan.names[0]} must not depend on its time through the "
                                 f"scan {buffer.name}")
            self._in_time(buffer.definition, scan, inside)
            self._know(*_buffers(buffer.definition))
            inside.append(buffer.definition)


def _depends(definition: Definition | None, scan: Scan) -> bool:
    """True if it changes with the time of the scan."""
    match definition:
        case None:
            return False
        case Computed(values=values):
            return any(node == scan.time for value in values for node in te.walk(value)) or any(
                buffer.name in scan.names or _depends(buffer.definition, scan)
                for value in values for buffer in _read(value))
        case Scan(first=first, steps=steps):
            return any(_depends(stage, scan) for stage in (
                *first, *(step.buffer.definition for step in steps)))


def _require_earlier(stage: Computed, scan: Scan):
    """Refuses a step that reads states which were not computed at earlier times."""
    loops = ((scan.time, scan.shape[0] - 1), *((axis.var, axis.extent) for axis in stage.axes),
             *stage.reduce_axes)
    for node in (n for value in stage.values for n in te.walk(value)):
        if isinstance(node, Read) and node.buffer.name in scan.names and not is_implied(
                node.indices[0] <= scan.time, Domain(loops)):
            raise ValueError(f"Step of {scan.names[0]} must read earlier times than "
                             f"{expr_text(scan.time + 1)}, not {expr_text(node)}")


def _read(value: Expr) -> Iterator[Buffer]:
    return (node.buffer for node in te.walk(value) if isinstance(node, Read))


def _buffers(stage: Computed) -> list[Buffer]:
    return [Buffer(name, stage.shape, value.dtype, definition=stage)
            for name, value in zip(stage.names, stage.values)]


def _plain(buffer: Buffer) -> Buffer:
    return Buffer(buffer.name, buffer.shape, buffer.dtype, buffer.scope)


def _lowered(stage: Definition, parts: _Found, taken: set[str]) -> list[Stmt]:
    targets = tuple(parts.made(stage))
    if isinstance(stage, Computed):
        return [_nest(stage, targets, (), taken)]
    zero = Const(0, INDEX)
    firsts = [_nest(begin, (target,), (zero,), taken)
              for begin, target in zip(stage.first, targets)]
    taken.add(stage.time.name)
    inside = parts.inside[stage.names[0]]
    nests = [_nest(inner, tuple(map(_plain, _buffers(inner))), (), taken) for inner in inside]
    nests += [_nest(step.buffer.definition, (target,), (stage.time + 1,), taken)
              for step, target in zip(stage.steps, targets)]
    own = tuple(_plain(b) for inner in inside for b in _buffers(inner))
    return [*firsts, For(stage.time, stage.shape[0] - 1, block(own, _flat(nests)))]


def _flat(stmts: Iterable[Stmt]) -> tuple[Stmt, ...]:
    return tuple(child for stmt in stmts
                 for child in (stmt.stmts if isinstance(stmt, Seq) else (stmt,)))


def _nest(stage: Computed, targets: tuple[Buffer, ...], before: tuple[Expr, ...],
          taken: set[str]) -> Stmt:
    """Loops over the axes, then those of a reduction, around ``targets[before, axes] = ...``."""
    axes = tuple(Axis(_fresh(axis.var, stage.names[0], taken), axis.extent) for axis in stage.axes)
    renamed = dict(zip((axis.var for axis in stage.axes), (axis.var for axis in axes)))
    reduced = {var: _fresh(var, stage.names[0], taken) for var, _ in stage.reduce_axes}
    values = tuple(te.substitute(te.rewrite(value, _plain_read), {**renamed, **reduced})
                   for value in stage.values)
    indices = (*before, *(axis.var for axis in axes))
    inner = [(reduced[var], extent) for var, extent in stage.reduce_axes]
    write = _write(stage.reducer, targets, indices, values, tuple(reduced.values()))
    return _loops([(axis.var, axis.extent) for axis in axes] + inner, write)


def _plain_read(node: Expr) -> Expr | None:
    return Read(_plain(node.buffer), node.indices) if isinstance(node, Read) else None


def _write(reducer: str | Reducer | None, targets: tuple[Buffer, ...], indices: tuple[Expr, ...],
           values: tuple[Expr, ...], axes: tuple[Var, ...]) -> Stmt:
    if isinstance(reducer, Reducer):
        check_reducer(reducer)
        return Combine(targets, indices, reducer, values, axes)
    if reducer is not None:
        return Update(targets[0], indices, reducer, values[0], axes)
    stores = tuple(Store(target, indices, value) for target, value in zip(targets, values))
    return stores[0] if len(stores) == 1 else Seq(stores)


def _fresh(var: Var, stage: str, taken: set[str]) -> Var:
    name = var.name
    while name in taken:
        name = f"{stage}_{name}"
    taken.add(name)
    return Var(name)


def _loops(ranges: list[tuple[Var, Extent]], body: Stmt) -> Stmt:
    for var, extent in reversed(ranges):
        body = For(var, extent, body)
    return body
