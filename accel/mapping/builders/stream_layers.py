"""Builders of functions of rows that an instruction of a stream unit computes."""

from collections.abc import Callable, Mapping, Sequence
from math import inf

from accel.machine.machine import Machine
from accel.machine.structure import UnitKind
from accel.mapping.builders.layer import MappedLayer, in_line, stage_of
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.layout import blocks_of
from accel.mapping.operators.streams import stream_function
from accel.mapping.schedules import cost_of, shape_of, tiles_of
from accel.mapping.selecting.stream_selection import (StreamSelection, computed_within,
                                                      stream_selections)
from accel.mapping.selecting.stream_trials import require_meaning
from compiler.graph.graph import Graph, Node

THREADS = 2
"""Virtual threads for which layers are compared."""

Cycles = Callable[[Node], float]
"""The cycles that the layers of a node take without stream units; LoweringError where it has none.
"""


def streamed(node: Node, graph: Graph, known: Forms, machine: Machine, others: Cycles
             ) -> tuple[MappedLayer, ...] | None:
    """The layer by an instruction of a stream unit where that takes fewer cycles, as tiles are
    priced, than `others` for all nodes that it computes; () for a node that the layer of a later
    one computes as well. None where no such instruction computes it. Refuses an instruction that
    does not compute what its declaration says.
    """
    for last in computed_within(machine, graph, node):
        best = _cheapest(last, graph, known, machine, others)
        if best and node in best[0].nodes:
            return ()
    best = _cheapest(node, graph, known, machine, others)
    return best and (best[1],)


def _cheapest(node: Node, graph: Graph, known: Forms, machine: Machine, others: Cycles
              ) -> tuple[StreamSelection, MappedLayer] | None:
    """The instruction with which the fewest cycles go to a node, and the nodes before it that the
    instruction computes as well."""
    best, least = None, inf
    for selection in stream_selections(machine, graph, node):
        try:
            layer = _layer(known, selection, machine)
            tiles, threads = tiles_of(machine, layer.operator, THREADS, only=False)
        except LoweringError:
            continue
        cycles = cost_of(machine.config, shape_of(layer.operator), tiles, threads).cycles
        if cycles < min(least, _taken(selection.nodes, others)):
            best, least = (selection, layer), cycles
    if best:
        require_meaning(best[0], graph)
    return best


def _taken(nodes: Sequence[Node], cycles: Cycles) -> float:
    try:
        return sum(map(cycles, nodes))
    except LoweringError:
        return inf


def _layer(known: Forms, selection: StreamSelection, machine: Machine) -> MappedLayer:
    """The layer of all nodes that an instruction computes at once."""
    first, last = selection.nodes[0], selection.nodes[-1]
    blocks, value = blocks_of(machine.config), first.inputs[0]
    if not known.values[value].as_rows:
        raise LoweringError("its input lies in memory as images, not as rows")
    operator = stream_function(stage_of(last), in_line(known[value], blocks), selection,
                               _buffers(machine, selection), blocks)
    table = {} if selection.table is None else {"table": selection.table}
    whole = " and ".join(node.op for node in selection.nodes)
    return MappedLayer(last, operator, {"x": value}, table, note=(
        f"{whole} by {selection.form.name}, in rows of {selection.entries} entries"))


def _buffers(machine: Machine, selection: StreamSelection) -> Mapping[str, str]:
    """The buffers of a layer's stages: those that load and store reach."""
    structure = machine.structure
    unit = structure.unit(machine.unit_of(selection.form.name))
    loaded, stored = (structure.of_kind(kind)[0].buffers
                      for kind in (UnitKind.LOAD, UnitKind.STORE))
    operands = {"input": ("a", loaded), "quantized": ("dst", stored)}
    if selection.table is not None:
        operands["table"] = "table", loaded
    found = {}
    for role, (operand, reached) in operands.items():
        names = [name for name in unit.at(operand) if name in reached]
        if not names:
            raise LoweringError(f"no buffer of {operand} of {selection.form.name} is in reach of "
                                f"{'store' if operand == 'dst' else 'load'}")
        found[role] = names[0]
    return found
