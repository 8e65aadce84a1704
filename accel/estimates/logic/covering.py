"""The number of lookup tables of a network of bits, as technology mapping makes them.

A table computes a node from a cut: at most seven nodes that its literals depend on alone. Beyond
four inputs it is made of tables of four, twice as many for every input more. As synthesis does, the
depth of the network is as small as can be first, by cuts of few inputs, and then tables become
fewer where that leaves time. Of each node those cuts are kept that take the fewest tables, each
table of a node shared among what reads it: the area flow of Manohararajah, Brown and Vranesic,
*Heuristics for Area Minimization in LUT-Based FPGA Technology Mapping* (2006), with priority cuts
as Mishchenko and others have them, *Combinational and Sequential Mapping with Priority Cuts*
(2007). As in ABC, three passes make tables fewer, and what reads a node is partly what reads it in
the tables of the pass before.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from accel.estimates.logic.network import BitNetwork

INPUTS = 4
"""Inputs of a lookup table."""

WIDEST = 7
"""Inputs of a table that is made of several."""

_KEPT = 3                   # cuts of a node

_PASSES = 3                 # that make tables fewer

_ANY = 1 << 30              # a depth that no network has

Cut = tuple[int, ...]
Price = tuple[int, float]
"""The depth of a node by a cut, and the tables that it takes, those of the nodes of the cut in part
included."""


def tables(network: BitNetwork, roots: Iterable[int]) -> Counter[str]:
    """The lookup tables that compute these literals, by the owners of their nodes. Inversions are
    part of the tables that read them."""
    found: Counter[str] = Counter()
    for node, cut in cover(network, roots).items():
        found[network.owners[node]] += tables_of(len(cut))
    return found


def cover(network: BitNetwork, roots: Iterable[int]) -> dict[int, Cut]:
    """The node of each table that computes some of these literals, and its inputs."""
    wanted = {root >> 1 for root in roots}
    readers: Mapping[int, float] = _readers(network, wanted)
    order = sorted(readers)
    best = _best_cuts(network, order, readers, dict.fromkeys(order, 0), {})
    for _ in range(_PASSES):
        uses = _uses(order, best, wanted)
        readers = {node: (2 * readers[node] + max(uses[node], 1)) / 3 for node in order}
        best = _best_cuts(network, order, readers, _slack(order, best, wanted), best)
    uses = _uses(order, best, wanted)
    return {node: cut for node, cut in best.items() if uses[node]}


def tables_of(inputs: int) -> int:
    """The tables of four inputs that one of so many is made of."""
    return 1 << max(inputs - INPUTS, 0)


def _uses(order: Sequence[int], best: Mapping[int, Cut], roots: Iterable[int]) -> Counter[int]:
    """The number of tables and roots that read each node."""
    uses = Counter(roots)
    for node in reversed(order):
        if uses[node] and node in best:
            uses.update(best[node])
    return uses


def _readers(network: BitNetwork, roots: Iterable[int]) -> Counter[int]:
    """The number of nodes and roots that read each node that roots depend on."""
    readers = Counter(roots)
    todo, seen = list(readers), set(readers)
    while todo:
        for literal in network.operands[todo.pop()]:
            node = literal >> 1
            readers[node] += 1
            if node not in seen:
                seen.add(node)
                todo.append(node)
    return readers


def _slack(order: Sequence[int], best: Mapping[int, Cut], roots: Iterable[int]) -> dict[int, int]:
    """The depth that each node may have, so that that of the roots stays."""
    depth = dict.fromkeys(order, 0)
    for node in order:
        if node in best:
            depth[node] = 1 + max([depth[other] for other in best[node]], default=0)
    latest = dict.fromkeys(order, _ANY)
    latest.update(dict.fromkeys(roots, max(depth.values(), default=0)))
    for node in reversed(order):
        if latest[node] != _ANY:
            for other in best.get(node, ()):
                latest[other] = min(latest[other], latest[node] - 1)
    return latest


def _best_cuts(network: BitNetwork, order: Sequence[int], readers: Mapping[int, float],
               latest: Mapping[int, int], before: Mapping[int, Cut]) -> dict[int, Cut]:
    """The cut of each node that is no input: that of the fewest tables of those by which the node
    has at most a depth, as it has by its cut `before`; where that is empty, the fastest. Nodes come
    after those they read."""
    flow, depth = dict.fromkeys(order, 0.0), dict.fromkeys(order, 0)
    cuts: dict[int, Sequence[Cut]] = {}
    best: dict[int, Cut] = {}
    for node in order:
        itself = (node,)
        if not network.operands[node]:
            cuts[node] = itself,
            continue
        prices: dict[Cut, Price] = {}
        for cut in (*([before[node]] if before else []), *_joined(
                [cuts[literal >> 1] for literal in network.operands[node]])):
            if cut not in prices:
                prices[cut] = (1 + max([depth[other] for other in cut]),
                               tables_of(len(cut)) + sum([flow[other] for other in cut]))
        kept = _kept(prices, latest[node], bool(before))
        best[node] = kept[0]
        depth[node], flow[node] = prices[kept[0]]
        flow[node] /= readers[node]
        cuts[node] = *kept, itself
    return best


def _kept(prices: Mapping[Cut, Price], latest: int, few: bool) -> list[Cut]:
    """The best cuts of a node first, the fastest among them: of equal depth those of few tables, or
    those of few inputs, which leave room for more logic before them."""
    def rank(cut: Cut) -> tuple[float, float, float]:
        deep, size = prices[cut]
        return (max(deep - latest, 0), size, len(cut)) if few else (deep, len(cut), size)

    kept = sorted(prices, key=rank)[:_KEPT]
    fastest = min(prices, key=prices.__getitem__)
    return kept if fastest in kept else [*kept[:_KEPT - 1], fastest]


def _joined(choices: Sequence[Sequence[Cut]]) -> Iterator[Cut]:
    """The unions of one cut of each operand, as far as a table has inputs for them."""
    for chosen in product(*choices):
        union = {node for cut in chosen for node in cut}
        if len(union) <= WIDEST:
            yield tuple(sorted(union))
