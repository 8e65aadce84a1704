"""Products that are computed with the elementwise operator that alone reads them, where a declared
instruction computes both from the sums, and that takes fewer cycles than one after the other.
"""

from collections.abc import Callable
from functools import lru_cache

from accel.machine.machine import Machine
from accel.mapping.builders.joined import Joined, joined_step, products_before, readers_of
from accel.mapping.builders.layer import MappedLayer
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.memory.forms import Forms
from compiler.graph.graph import Graph, Node

Layers = tuple[MappedLayer, ...]

Apart = Callable[[Node], Layers]
"""The layers of a node alone."""

Together = Callable[[Joined], Layers]
"""The layers of both."""

Cycles = Callable[[Layers], int]


def joined(node: Node, graph: Graph, known: Forms, machine: Machine, apart: Apart,
           together: Together, cycles: Cycles) -> Layers | None:
    """The layer of an operator and a product before it; () for a product that the layer of its
    reader computes as well. None where a node is computed alone."""
    def best(reader: Node) -> tuple[Joined, Layers] | None:
        found = _kept(known, machine)
        if reader.name not in found:
            found[reader.name] = _best(reader, graph, known, machine, apart, together, cycles)
        return found[reader.name]

    for reader in readers_of(graph, known, node):
        found = best(reader)
        if found and found[0].product == node:
            return ()
    found = best(node)
    return found and found[1]


@lru_cache(4)
def _kept(known: Forms, machine: Machine) -> dict[str, tuple[Joined, Layers] | None]:
    """Answers for the operators of a graph, by name."""
    return {}


def _best(reader: Node, graph: Graph, known: Forms, machine: Machine, apart: Apart,
          together: Together, cycles: Cycles) -> tuple[Joined, Layers] | None:
    """The product before an operator with which it gains most, and the layer of both."""
    best, most = None, 0
    for product in products_before(graph, known, reader):
        pair = joined_step(machine, graph, product, reader, known.blocks.accumulator)
        if pair is None:
            continue
        try:
            layers = together(pair)
            gain = cycles((*apart(product), *apart(reader))) - cycles(layers)
        except LoweringError:
            continue
        if gain > most:
            best, most = (pair, layers), gain
    return best
