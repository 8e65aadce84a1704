"""From tensor expressions to the plain loop program: one nest per stage, nothing scheduled."""

from collections.abc import Iterator, Sequence

from compiler import te
from compiler.te import Buffer, Expr, Read, Reduce, Tensor, Var

from .nodes import For, Program, Stmt, Store, Update
from .simplify import normalize_stmt
from .visit import block

__all__ = ["lower"]


def lower(outputs: Sequence[Tensor], name: str) -> Program:
    """Program that computes `outputs` and whatever they read.

    Every `te.compute` becomes a loop nest over its axes, in the order of their dependence; a
    reduction becomes inner loops around an `Update`. Intermediate tensors are allocated in scope
    ``global`` around everything. Inputs are the placeholders in the order in which they are met.
    A reduction variable whose name is taken gets the name of its stage in front.
    """
    stages = _ordered(outputs, name)
    kept = {tensor.name for tensor in outputs}
    inputs = tuple(_plain(b) for b in stages.values() if b.definition is None)
    computed = [b for b in stages.values() if b.definition is not None]
    taken: set[str] = set()
    nests = tuple(_nest(buffer, taken) for buffer in computed)
    inner = tuple(_plain(b) for b in computed if b.name not in kept)
    results = tuple(_plain(tensor.buffer) for tensor in outputs)
    return Program(name, inputs, results, normalize_stmt(block(inner, nests)))


def _ordered(outputs: Sequence[Tensor], name: str) -> dict[str, Buffer]:
    """Buffers by name, each after what it reads."""
    found: dict[str, Buffer] = {}

    def visit(buffer: Buffer):
        known = found.get(buffer.name)
        if known is not None:
            if known != buffer or known.definition is not buffer.definition:
                raise ValueError(f"Tensors of {name} must have names of their own, "
                                 f"not two of them {buffer.name!r}")
            return
        if buffer.definition is not None:
            for inner in _operands(buffer.definition[1]):
                visit(inner)
        found[buffer.name] = buffer

    for tensor in outputs:
        if tensor.body is None:
            raise ValueError(f"Output of {name} must be computed, not the placeholder "
                             f"{tensor.name!r}")
        visit(tensor.buffer)
    return found


def _operands(body: Expr) -> Iterator[Buffer]:
    return (node.buffer for node in te.walk(body) if isinstance(node, Read))


def _plain(buffer: Buffer) -> Buffer:
    return Buffer(buffer.name, buffer.shape, buffer.dtype, buffer.scope)


def _nest(buffer: Buffer, taken: set[str]) -> Stmt:
    axes, body = buffer.definition
    space = [(axis.var, axis.extent) for axis in axes]
    taken.update(var.name for var, _ in space)
    body = te.rewrite(body, lambda n: Read(_plain(n.buffer), n.indices)
                      if isinstance(n, Read) else None)
    indices = tuple(var for var, _ in space)
    if not isinstance(body, Reduce):
        return _loops(space, Store(_plain(buffer), indices, body))
    renamed = {var: _fresh(var, buffer.name, taken) for var, _ in body.axes}
    value = te.substitute(body.value, renamed)
    inner = [(renamed[var], extent) for var, extent in body.axes]
    update = Update(_plain(buffer), indices, body.op, value, tuple(renamed.values()))
    return _loops(space + inner, update)


def _fresh(var: Var, stage: str, taken: set[str]) -> Var:
    name = var.name
    while name in taken:
        name = f"{stage}_{name}"
    taken.add(name)
    return Var(name)


def _loops(ranges: list[tuple[Var, int]], body: Stmt) -> Stmt:
    for var, extent in reversed(ranges):
        body = For(var, extent, body)
    return body
