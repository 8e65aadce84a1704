"""A graph made smaller: constants, names for the same thing, and what nothing reads go."""

from collections.abc import Iterable, Mapping

from accel.sim.slice.graph import (Operand, Run, SliceGraph, SliceNode, constant, joined, nodes_of,
                                   width_of)

_ROUNDS = 8


def simplified(graph: SliceGraph, values: Mapping[str, int]) -> SliceGraph:
    """A smaller graph, with some inputs constant. It takes `graph` over."""
    known: dict[SliceNode, Operand] = {
        node: constant(value >> node.info[1], node.width)
        for name, value in values.items() for node in graph.inputs.get(name, ())}
    for _ in range(_ROUNDS):
        if not _folded(graph, known) + _merged(graph, known):
            break
    _resolve(graph, known)
    return _live(graph, known)


def _folded(graph: SliceGraph, known: dict[SliceNode, Operand]) -> int:
    """Finds nodes that are other operands; how many."""
    before = len(known)
    for node in graph.nodes():
        if node in known:
            continue
        node.operands = [_resolved(operand, known) for operand in node.operands]
        found = _same_as(node)
        if found is not None and node not in nodes_of(found):
            known[node] = found
    return len(known) - before


def _merged(graph: SliceGraph, known: dict[SliceNode, Operand]) -> int:
    """Finds nodes that compute what another one does; how many."""
    first: dict[tuple, SliceNode] = {}
    before = len(known)
    for node in (*graph.order, *graph.registers):
        if node in known:
            continue
        node.operands = [_resolved(operand, known) for operand in node.operands]
        key = node.kind, node.width, str(node.info), tuple(node.operands)
        other = first.setdefault(key, node)
        if other is not node:
            known[node] = other.whole
    return len(known) - before


def _resolve(graph: SliceGraph, known: dict[SliceNode, Operand]) -> None:
    for node in graph.nodes():
        node.operands = [_resolved(operand, known) for operand in node.operands]
    graph.outputs = {name: [_resolved(operand, known) for operand in operands]
                     for name, operands in graph.outputs.items()}


def _resolved(operand: Operand, known: Mapping[SliceNode, Operand]) -> Operand:
    """An operand with what is known in the place of nodes."""
    if not any(node in known for node in nodes_of(operand)):
        return operand
    runs: list[Run] = []
    for node, low, count in operand:
        inner = None if node is None else known.get(node)
        runs += [(node, low, count)] if inner is None else _part(inner, low, count, known)
    return joined(runs)


def _part(operand: Operand, low: int, count: int, known: Mapping[SliceNode, Operand]
          ) -> Iterable[Run]:
    """Bits of an operand."""
    at, runs = 0, []
    for node, first, length in operand:
        begin, end = max(low, at), min(low + count, at + length)
        if begin < end:
            if node is None:
                runs.append((None, first >> begin - at & (1 << end - begin) - 1, end - begin))
            else:
                runs.append((node, first + begin - at, end - begin))
        at += length
    return _resolved(tuple(runs), known)


def value_of(operand: Operand) -> int | None:
    """The number that an operand always is."""
    value = at = 0
    for node, low, count in operand:
        if node is not None:
            return None
        value |= low << at
        at += count
    return value


def _same_as(node: SliceNode) -> Operand | None:
    """The operand that a node always equals, if it computes nothing."""
    values = [value_of(operand) for operand in node.operands]
    match node.kind:
        case "register":
            unchanged = node.operands[0] == node.whole or values[0] == node.info
            return constant(node.info, node.width) if unchanged else None
        case "matches": return _match(node, values[0])
        case "priority": return _priority(node, values)
        case "assign": return _assigned(node)
        case "m":
            if values[0] is not None:
                return node.operands[1 if values[0] else 2]
            return node.operands[1] if node.operands[1] == node.operands[2] else None
        case "b" | "r|" | "r&" if len(values) == 1 and width_of(node.operands[0]) == 1:
            return node.operands[0]
        case "~" if values[0] is not None: return constant(~values[0], node.width)
        case "&" | "|" | "^" | "+": return _arithmetic(node, values)
    return None


def _arithmetic(node: SliceNode, values: list[int | None]) -> Operand | None:
    full = (1 << node.width) - 1
    for value, other in zip(values, reversed(node.operands)):
        if value == 0:
            return constant(0, node.width) if node.kind == "&" else other
        if value == full and node.kind in "&|":
            return other if node.kind == "&" else constant(full, node.width)
    return None


def _match(node: SliceNode, value: int | None) -> Operand | None:
    if node.info == ("1",):
        return node.operands[0]
    if value is None:
        return None
    text = f"{value:0{width_of(node.operands[0])}b}" if node.operands[0] else ""
    like = any(all(wanted in ("-", bit) for wanted, bit in zip(pattern, text))
               for pattern in node.info)
    return constant(like, 1)


def _priority(node: SliceNode, values: list[int | None]) -> Operand | None:
    enable, *before, own = values
    if enable == 0 or own == 0 or 1 in before:
        return constant(0, 1)
    if any(value is None for value in before):
        return None
    if enable == 1:
        return node.operands[-1]
    return node.operands[0] if own == 1 else None


def _assigned(node: SliceNode) -> Operand | None:
    """Leaves out changes that never come, and what is always written over."""
    default, *changes = node.operands
    kept, info = [], []
    for place, condition, value in zip(node.info, changes[::2], changes[1::2]):
        always = value_of(condition)
        if always == 0:
            continue
        if always == 1 and place == (0, node.width):
            default, kept, info = value, [], []
        else:
            kept += [condition, value]
            info.append(place)
    node.operands, node.info = [default, *kept], info
    return None if info else default


def _live(graph: SliceGraph, known: Mapping[SliceNode, Operand]) -> SliceGraph:
    """Only nodes that outputs depend on."""
    writers: dict[tuple[int, int], list[SliceNode]] = {}
    for node in graph.writes:
        writers.setdefault(node.info, []).append(node)
    live: set[SliceNode] = set()
    todo = [node for operands in graph.outputs.values() for operand in operands
            for node in nodes_of(operand)]
    while todo:
        node = todo.pop()
        if node in live:
            continue
        live.add(node)
        todo += node.sources()
        if node.kind == "read":
            todo += writers.get(node.info, ())
    pieces = {node.info for node in live if node.kind == "read"}
    return SliceGraph([node for node in graph.order if node in live],
                 [node for node in graph.registers if node in live],
                 [node for node in graph.writes if node in live],
                 {name: [node for node in nodes if node in live]
                  for name, nodes in graph.inputs.items()},
                 graph.outputs,
                 {place: piece for place, piece in graph.pieces.items() if place in pieces})
