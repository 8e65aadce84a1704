"""A step of attention over caches, in integers, and its part without the host's mask."""

import numpy as np

from compiler.graph import Graph
from compiler.graph.division.partition import ACCEL, partition, subgraph
from compiler.ops.families.row_functions import RECIPROCALS, exponentials
from tests.support.integer_graphs import Net

Array = np.ndarray
GROUPS, QUERIES, DEPTH = 2, 3, 8
NOTHING = -120                      # a probability of 0


def attention(places: int, masked: bool = True, mask: tuple[int, int] = (127, -128),
              zero: int = NOTHING, batch: tuple[int, ...] = ()) -> tuple[Graph, Net]:
    """The attention of some queries over the places up to the position, of one sequence or of a
    batch. The product with values takes off `zero`, by default what the softmax gives for 0.
    """
    net, ahead = Net(1), len(batch)
    axes = (*range(ahead),)
    query = net.rescale(net.input(*batch, GROUPS, QUERIES, DEPTH, name="query"))
    at = net.input(1, name="position", dtype="int64")
    keys = _put(net, at, "keys", ahead, (*batch, places, GROUPS, DEPTH))
    values = _put(net, at, "values", ahead + 2, (*batch, GROUPS, DEPTH, places))
    scores = net.matmul(query, net.transpose(keys, *axes, ahead + 1, ahead + 2, ahead))
    seen, least = "", {"function": "min(x0, x1)"}
    if masked:
        numbers = net.constant(np.arange(places).reshape((1,) * (ahead + 2) + (places,)))
        known = net.add_node("less_equal", numbers, at)
        seen = net.add_node("where", known, *(net.constant(np.array(x, np.int8)) for x in mask))
        scores = net.add_node("qmap", scores, seen, **least)
    below = net.add_node("qbelow_max", scores)
    if masked:
        below = net.add_node("qmap", below, seen, **least)
    tables = (*exponentials(0.02, True), RECIPROCALS)
    weights = net.add_node("qsoftmax", below, *map(net.constant, tables), mult=40000, shift=35,
                           zp=NOTHING, lo=-128, hi=127)
    y = net.matmul(weights, net.transpose(values, *axes, ahead, ahead + 2, ahead + 1),
                   zeros=(zero, 0))
    return net.graph(net.rescale(y)), net


def _put(net: Net, at: str, name: str, axis: int, shape: tuple[int, ...]) -> str:
    cache = net.input(*shape, name=name)
    row = net.rescale(net.input(*(1 if place == axis else extent for place, extent
                                  in enumerate(shape)), name=f"{name}.row"))
    return net.add_node("qput", cache, row, at, axis=axis)


def on_accelerator(graph: Graph) -> Graph:
    """The part of a graph that computes in int8."""
    divided = partition(graph, lambda node: "it compares" if node.op in (
        "less_equal", "less", "equal", "where") else None)
    (segment,) = (one for one in divided.segments if one.target == ACCEL)
    return subgraph(graph, segment)


def feeds(net: Net, position: int) -> dict[str, Array]:
    given = {name: array for name, array in net.samples().items() if name != "position"}
    return given | {"position": np.array([position])}
