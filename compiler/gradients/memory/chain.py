"""A network's forward part as a chain of links, with what each link keeps, needs and costs.

Between two links lies a cut: a place in the order of nodes where the values that later nodes read
take no more bytes than at the places around it. In a network of blocks these are the results of
blocks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.memory import LINE
from compiler.te import numpy_dtype

MOST_LINKS = 400
PRODUCTS = ("conv2d", "conv", "convtranspose2d", "dense", "matmul", "einsum")
TRANSIENT = 2       # gradients that live beside the activations of a link, of its largest value


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Links of a chain, L of them. All are bytes, but for `cost`.

    cuts : [L + 1], the number of nodes before each cut.
    saved : [L + 1], what gradients read of the links before a cut.
    kept : [L], what stays of a link that is not computed again.
    crossing : [L, L + 1], what of the links from the first to before the second is read behind
        that; it stays in any case.
    transient : [L], room for gradients.
    cost : [L + 1], what it takes to compute the links before a cut again, in operations.
    """

    cuts: np.ndarray
    saved: np.ndarray
    kept: np.ndarray
    crossing: np.ndarray
    transient: np.ndarray
    cost: np.ndarray


def links(graph: Graph, forward: int, gradient: int) -> Links:
    """The links of the first `forward` nodes, whose values are read by the nodes from there to
    before `gradient`, which compute gradients.
    """
    nodes = graph.nodes[:forward]
    sizes = np.array([size_of(graph, node.outputs[0]) for node in nodes], np.int64)
    made = {node.outputs[0]: place for place, node in enumerate(nodes)}
    last = np.arange(forward)
    for place, node in enumerate(nodes):
        for name in node.inputs:
            if name in made:
                last[made[name]] = place
    is_saved = np.zeros(forward, bool)
    is_saved[[made[name] for node in graph.nodes[forward:gradient]
              for name in node.inputs if name in made]] = True
    cuts = _cuts(sizes, last)
    inside = np.searchsorted(cuts, np.arange(forward), "right") - 1
    until = np.searchsorted(cuts, last, "right") - 1
    return _links(graph, nodes, cuts, sizes, is_saved, inside, until)


def size_of(graph: Graph, name: str) -> int:
    """Bytes of a value, in whole lines."""
    type_ = graph.values[name]
    return -(-prod(type_.shape) * numpy_dtype(type_.dtype).itemsize // LINE) * LINE


def _cuts(sizes: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The numbers of nodes before each cut, from 0 to all of them."""
    count = len(sizes)
    change = np.zeros(count + 2, np.int64)
    np.add.at(change, np.arange(count) + 1, sizes)      # lives at the cuts behind its node
    np.add.at(change, last + 1, -sizes)                 # to that before its last reader
    live = np.cumsum(change)[1:count]                   # at the cuts 1 to count - 1
    around = np.pad(live, 1, constant_values=np.iinfo(np.int64).max)
    least = np.flatnonzero((live <= around[:-2]) & (live <= around[2:])) + 1
    if len(least) >= MOST_LINKS:        # the narrowest of so many neighbours
        least = [group[np.argmin(live[group - 1])] for group in np.array_split(least, MOST_LINKS)]
    return np.array([0, *least, count])


def _links(graph: Graph, nodes: Sequence[Node], cuts: np.ndarray, sizes: np.ndarray,
           is_saved: np.ndarray, inside: np.ndarray, until: np.ndarray) -> Links:
    count = len(cuts) - 1
    alive, others = np.zeros((count, count + 1)), np.zeros((count, count + 1))
    np.add.at(alive, (inside, until), sizes)
    np.add.at(others, (inside[~is_saved], until[~is_saved]), sizes[~is_saved])
    behind = np.cumsum(alive[:, ::-1], 1)[:, ::-1]      # [link, cut]: read at that cut or behind
    apart = np.cumsum(others[:, ::-1], 1)[:, ::-1]
    saved = np.bincount(inside, sizes * is_saved, count)
    places = np.arange(count)
    total = np.cumsum(behind, 0)
    before = np.pad(total, ((1, 0), (0, 0)))
    crossing = total[np.maximum(np.arange(count + 1) - 1, 0), np.arange(count + 1)] - before[:-1]
    largest = np.zeros(count)
    np.maximum.at(largest, inside, sizes)
    return Links(cuts, _summed(saved), saved + apart[places, places + 1], crossing,
                 TRANSIENT * largest,
                 _summed(np.bincount(inside, [*_costs(graph, nodes)], count)))


def _summed(each: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(each)])


def _costs(graph: Graph, nodes: Iterable[Node]) -> Iterable[float]:
    """Operations of each node: products, or elements."""
    for node in nodes:
        elements = prod(graph.values[node.outputs[0]].shape)
        if node.op not in PRODUCTS:
            yield float(elements)
            continue
        factors, channels = graph.values[node.inputs[1]].shape, graph.values[node.outputs[0]].shape
        outer = channels[1] if node.op.startswith("conv") else channels[-1]
        yield float(elements * max(prod(factors) // max(outer, 1), 1))
