"""Which instruction of a stream unit computes a function of rows: one operator, or several of which
each reads the result of the one before.

The declarations say what they compute (`accel.machine.streams.Computes`); nothing here knows an
operator or an instruction by name.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from accel.machine.config import padded_channels
from accel.machine.machine import Machine
from accel.machine.streams import Applied, Computes, StreamForm
from accel.mapping.lowering.nest import LoweringError
from compiler.graph.graph import Graph, Node
from compiler.te import numpy_dtype


@dataclass(frozen=True)
class StreamSelection:
    """An instruction for a function of rows.

    nodes : the operators that it computes, in order.
    entries : entries of a row of the result.
    fields : its immediates.
    table : the entries that its component reads of a table; None without one.
    cycles : from one row to the next.
    repeats : the input has one entry a row, which each entry of the result reads.
    """

    form: StreamForm
    nodes: tuple[Node, ...]
    entries: int
    fields: Mapping[str, int]
    table: np.ndarray | None
    cycles: int
    repeats: bool


def stream_selections(machine: Machine, graph: Graph, node: Node) -> Iterator[StreamSelection]:
    """The instructions that compute a node, with those before it that only it reads, as a layer.
    """
    for form, computes in machine.of_rows:
        nodes = follows(graph, node, computes.operators)
        found = _selected(machine, graph, form, computes, nodes) if nodes else None
        if found:
            yield found


def computed_within(machine: Machine, graph: Graph, node: Node) -> Iterator[Node]:
    """The nodes whose layers, by an instruction of a stream unit, may compute this one as well."""
    readers, _ = _neighbours(graph)
    for _, computes in machine.of_rows:
        for place, name in enumerate(computes.operators[:-1]):
            last: Node | None = node if name == node.op else None
            for _ in computes.operators[place + 1:]:
                following = readers[last.outputs[0]] if last else ()
                last = following[0] if len(following) == 1 else None
            if last and any(node in found.nodes
                            for found in stream_selections(machine, graph, last)):
                yield last


def computed_together(machine: Machine, graph: Graph, nodes: Iterable[Node]
                      ) -> Iterator[tuple[Node, ...]]:
    """What each layer by an instruction of a stream unit may compute that computes some of these
    nodes."""
    for node in nodes:
        for last in (node, *computed_within(machine, graph, node)):
            for found in stream_selections(machine, graph, last):
                if node in found.nodes:
                    yield found.nodes


def follows(graph: Graph, node: Node, operators: tuple[str, ...]) -> tuple[Node, ...]:
    """The nodes that apply these operators one after the other, the last of them `node`; none
    where others read, or are, what is between them."""
    nodes, (readers, makers) = [node], _neighbours(graph)
    for name in reversed(operators):
        if nodes[0].op != name:
            return ()
        if len(nodes) == len(operators):
            return tuple(nodes)
        value = nodes[0].inputs[0]
        if value not in makers or value in graph.outputs or len(readers[value]) > 1:
            return ()
        nodes.insert(0, makers[value])
    return ()


@lru_cache(2)
def _neighbours(graph: Graph) -> tuple[Mapping[str, tuple[Node, ...]], Mapping[str, Node]]:
    """The readers and the makers of values, once for all nodes of a graph and its last segment."""
    return graph.consumers(), graph.producers()


def _selected(machine: Machine, graph: Graph, form: StreamForm, computes: Computes,
              nodes: tuple[Node, ...]) -> StreamSelection | None:
    config, x = machine.config, graph.values[nodes[0].inputs[0]]
    result = graph.values[nodes[-1].outputs[0]]
    entry = (config.batch, config.block_out), config.output
    others = [value for node in nodes for value in node.inputs[1:]]
    if (x.dtype != config.output or (form.shape.a, form.shape.dst) != (entry, entry)
            or nodes[0].inputs[0] in graph.constants
            or not all(value in graph.constants for value in others)
            or x.shape[:-1] != result.shape[:-1]
            or (x.shape[-1] > config.block_out if computes.repeats else x.shape != result.shape)):
        return None
    entries = padded_channels(result.shape[-1], config.block_in, config.block_out
                              ) // config.block_out
    bound = computes.bind(x.shape[-1], config.block_out, *(
        Applied(node.attrs, tuple(graph.constants[value] for value in node.inputs[1:]))
        for node in nodes))
    if bound is None or entries > form.longest:
        return None
    fields, table = bound
    return StreamSelection(form, nodes, entries, dict(fields), _whole(form, table),
                           max(1, round(computes.cycles(entries))), computes.repeats)


def _whole(form: StreamForm, table: np.ndarray | None) -> np.ndarray | None:
    """The elements of a table as entries of its buffer, a power of two of them."""
    if form.shape.table is None:
        return None
    most, shape, dtype = form.shape.table
    size = 0 if table is None else table.size
    count, rest = divmod(size, prod(shape))
    if table is None or rest or not 1 <= count <= most or count & (count - 1):
        raise LoweringError(f"{form.name} reads a power of two of entries of {prod(shape)} "
                            f"elements from a table, at most {most}; a layer has {size} elements")
    return table.reshape(count, *shape).astype(numpy_dtype(dtype))
