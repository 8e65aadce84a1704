"""The orders of images in memory with the fewest bytes to convert: a minimum cut.

Every *point* of a network, where tensors are made or read, has one of two orders: NCHW or NHWC.
Some are fixed; an operator that computes alike on both is one point, free, with all that it reads
and makes. A tensor is made in the order of its maker and converted, once, where a reader has the
other::

    bytes * [maker NCHW, some reader NHWC]  +  bytes * [maker NHWC, some reader NCHW]

Each term is a capacity to a node of its own, which infinite capacities hold to the readers: so the
sum over all tensors is the capacity of a cut between NCHW and NHWC, and a minimum cut is an optimum
(the terms are submodular; a third order would make the problem a multiway cut, which is NP-hard).
Of several optima the one with the fewest points in NHWC is taken.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Order = Literal["NCHW", "NHWC"]
NCHW: Order = "NCHW"
NHWC: Order = "NHWC"


@dataclass(frozen=True, slots=True)
class OrderedTensor:
    """`maker` and `readers` are points: names of free ones, or the order of fixed ones. `size` is
    what a conversion moves, in bytes; 0 where both orders are one in memory.
    """

    maker: str
    readers: frozenset[str]
    size: int


def bytes_to_convert(tensors: Iterable[OrderedTensor], orders: Mapping[str, Order]) -> int:
    """The bytes that conversions move when the free points have these orders."""
    known = {NCHW: NCHW, NHWC: NHWC, **orders}
    return sum(tensor.size for tensor in tensors
               if any(known[reader] != known[tensor.maker] for reader in tensor.readers))


def cheapest_orders(tensors: Collection[OrderedTensor]) -> dict[str, Order]:
    """The order of each free point such that `bytes_to_convert` is the least."""
    points = dict.fromkeys(point for tensor in tensors for point in (tensor.maker, *tensor.readers))
    orders: dict[str, Order] = {point: NCHW for point in points if point not in (NCHW, NHWC)}
    if not any(NHWC in (tensor.maker, *tensor.readers) for tensor in tensors if tensor.size):
        return orders
    import networkx         # which takes a third of a second, and most networks do not need it

    graph = networkx.DiGraph()
    graph.add_nodes_from((NCHW, NHWC))
    for number, tensor in enumerate(tensors):
        if not tensor.size:
            continue
        some_last, some_first = (number, NHWC), (number, NCHW)
        graph.add_edge(tensor.maker, some_last, capacity=tensor.size)
        graph.add_edge(some_first, tensor.maker, capacity=tensor.size)
        for reader in tensor.readers:          # edges without a capacity are never cut
            graph.add_edge(some_last, reader)
            graph.add_edge(reader, some_first)
    _, (_, last) = networkx.minimum_cut(graph, NCHW, NHWC)
    return {point: NHWC if point in last else NCHW for point in orders}
