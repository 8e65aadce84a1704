"""Chooses which links of a chain are computed a second time, by dynamic programming.

A link, or several in a row, are either kept or computed again, once, when their gradients are due;
then only what lies between them and their neighbours stays. While the gradients of a part are
computed, what stays of all before it is there too, and all of the part. Of all choices that fit
into a budget the one is taken that costs least.

A state is a cut and the bytes that stay of all links before it; for each cut only states are
followed that no other one beats in both bytes and cost. So the choice is the best of its kind,
unless a cut has more than `MOST_STATES`.

After T. Chen et al.: Training deep nets with sublinear memory cost, 2016, and O. Beaumont et al.:
Optimal checkpointing for heterogeneous chains, 2019, which recompute more than once, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.gradients.memory.chain import Links

MOST_STATES = 256
Part = tuple[int, int]
"""The nodes of a part that is computed again: from the first to before the second."""


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """The states at a cut, by rising bytes and falling cost: how each came about is the cut before
    it, the number of the state there, and if what is between is computed again.
    """

    bytes: np.ndarray
    cost: np.ndarray
    cut: np.ndarray
    state: np.ndarray
    again: np.ndarray


def chosen(links: Links, budget: float, most: int = MOST_STATES) -> list[Part] | None:
    """The parts of the cheapest choice within this many bytes, in order; None where none fits. At
    each cut `most` states are followed.
    """
    zero = np.zeros(1)
    states = [States(zero, zero, zero.astype(int), zero.astype(int), zero.astype(bool))]
    for cut in range(1, len(links.cuts)):
        states.append(_arrived(links, states, cut, budget, most))
    if not len(states[-1].bytes):
        return None
    return _traced(links, states)


def least_budget(links: Links) -> float:
    """The fewest bytes, to a hundredth, for which there is a choice: the state of fewest bytes then
    leads to it at each cut, since less stays behind it, too.
    """
    low, high = 0.0, float(links.saved[-1] + links.kept.sum() + links.transient.max(initial=0) + 1)
    while high - low > high / 100:
        middle = (low + high) / 2
        if chosen(links, middle, 1) is None:
            low = middle
        else:
            high = middle
    return high


def _arrived(links: Links, states: Sequence[States], cut: int, budget: float, most: int) -> States:
    """The states at a cut, from those at all cuts before it."""
    last = states[cut - 1]
    fits = np.count_nonzero(last.bytes + links.kept[cut - 1] + links.transient[cut - 1] <= budget)
    found = [(last.bytes[:fits] + links.kept[cut - 1], last.cost[:fits], cut - 1, False)]
    room = 0.0
    for first in range(cut - 1, -1, -1):
        room = max(room, links.transient[first])
        needed = links.saved[cut] - links.saved[first] + room
        if needed > budget:
            break
        before = states[first]
        fits = int(np.searchsorted(before.bytes, budget - needed, "right"))
        if fits:
            found.append((before.bytes[:fits] + links.crossing[first, cut],
                          before.cost[:fits] + links.cost[cut] - links.cost[first], first, True))
    return _best(found, most)


def _best(found: Sequence[tuple[np.ndarray, np.ndarray, int, bool]], most: int) -> States:
    """The states that no other one beats, that of fewest bytes among them."""
    sizes, cost = (np.concatenate([each[place] for each in found]) for place in (0, 1))
    counts = [len(each[0]) for each in found]
    cut = np.repeat([each[2] for each in found], counts)
    again = np.repeat([each[3] for each in found], counts)
    state = np.concatenate([np.arange(count) for count in counts])
    order = np.lexsort((cost, sizes))
    least = np.minimum.accumulate(np.concatenate([[np.inf], cost[order][:-1]]))
    order = order[cost[order] < least]
    if len(order) > most:
        order = order[np.linspace(0, len(order) - 1, most).astype(int)]
    return States(sizes[order], cost[order], cut[order], state[order], again[order])


def _traced(links: Links, states: Sequence[States]) -> list[Part]:
    """The parts of the cheapest state at the last cut."""
    parts: list[Part] = []
    cut, state = len(links.cuts) - 1, int(np.argmin(states[-1].cost))
    while cut:
        before = int(states[cut].cut[state])
        if states[cut].again[state]:
            parts.append((int(links.cuts[before]), int(links.cuts[cut])))
        cut, state = before, int(states[cut].state[state])
    return parts[::-1]
