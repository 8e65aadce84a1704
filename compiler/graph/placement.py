"""Which target computes which node: the cheapest division of a graph between two targets.

What a division costs is the sum of

* the time of every node on its target,
* a copy of every value to each target that needs it and has not made it: inputs are made by the
  host, outputs are needed there, constants are known to both,
* a start of every segment. Nodes of one target share a segment wherever their data allow
  (`compiler.graph.partition.runs`), so alternation costs, not the order in which nodes stand.

`place` finds the cheapest by dynamic programming over the nodes in topological order. A state is
the target of the last segment so far and, for each live value, the segment from which on either
target can read it, counted back from the last, and which targets have it. Of two states one goes
where the other costs no more, can read every value no later and has it wherever the first one has
it: it cannot end cheaper. What remains grows with the number of values that are live at once; only
beyond `STATES` of them the cheapest are kept and the rest given up, and the result says so. What is
left then is moved, as `moves` says, for as long as that makes it cheaper: so in any case no
division that differs by one node, one layer or one segment costs less.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np

from compiler.errors import Error
from compiler.graph.fusion import fuse
from compiler.graph.graph import Graph, Node
from compiler.graph.partition import ACCEL, HOST, Target, runs

__all__ = ["STATES", "TARGETS", "Costs", "Pins", "PinRefused", "Placement", "moves", "pinned",
           "place", "prefer", "price"]

STATES = 512
TARGETS: tuple[Target, ...] = (HOST, ACCEL)

Pins = Mapping[str, Target]
"""The target of a node, by the node's name, or of all nodes of an operator, by the operator's."""

Options = Mapping[str, Mapping[Target, float]]
"""Seconds of each node, by name, on the targets that may have it."""


class PinRefused(Error, ValueError):
    """A pin that names nothing in the network, or a target that cannot take the node."""


class Costs(Protocol):
    """All in seconds."""

    def node(self, node: Node, target: Target) -> float | None:
        """Of the node itself; None where the target cannot compute it."""
        ...

    def copy(self, value: str, target: Target) -> float:
        """Of making a value readable by `target` too."""
        ...

    def start(self, target: Target) -> float:
        """Of a segment, whatever it computes."""
        ...


@dataclass(frozen=True, slots=True)
class Placement:
    """The target of every node, by name, and what that costs.

    `exact`: no division is cheaper; otherwise some were given up unseen.
    """

    targets: Mapping[str, Target]
    seconds: float
    exact: bool = True


def price(graph: Graph, targets: Mapping[str, Target], costs: Costs) -> float:
    """What `place` minimizes, for these targets; infinite where one of them cannot take its node.

    Every target may be that of the first segment.
    """
    nodes = sum(_or_never(costs.node(node, targets[node.name])) for node in graph.nodes)
    return nodes + _copies(graph, targets, costs) + _starts(graph, targets, costs)


def _or_never(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


def _copies(graph: Graph, targets: Mapping[str, Target], costs: Costs) -> float:
    home: dict[str, Target] = dict.fromkeys(graph.inputs, HOST)
    home |= {value: targets[node.name] for node in graph.nodes for value in node.outputs}
    wanted: set[tuple[str, Target]] = {(value, HOST) for value in graph.outputs}
    wanted |= {(value, targets[node.name]) for node in graph.nodes for value in node.inputs}
    return sum(costs.copy(value, target) for value, target in sorted(wanted)
               if value in home and home[value] != target)


def _starts(graph: Graph, targets: Mapping[str, Target], costs: Costs) -> float:
    return sum(costs.start(targets[run[0].name]) for run in runs(graph, targets, costs.start))


def pinned(graph: Graph, pins: Pins, refusal: Callable[[Node, Target], str | None]) -> Pins:
    """The target of every node that is pinned, by its name. A pin of a node goes before one of
    its operator.

    Raises PinRefused for a pin that names neither, and for a node that its target refuses.
    """
    for name in pins:
        if not any(name in (node.name, node.op) for node in graph.nodes):
            raise PinRefused(f"Pin must name a layer or an operator of the network, not {name!r}; "
                             f"its operators are "
                             f"{', '.join(sorted({node.op for node in graph.nodes}))}")
    chosen: dict[str, Target] = {}
    for node in graph.nodes:
        target = pins.get(node.name) or pins.get(node.op)
        if target is None:
            continue
        if (reason := refusal(node, target)) is not None:
            raise PinRefused(f"{node.name} ({node.op}) must not be pinned to {target}: {reason}")
        chosen[node.name] = target
    return chosen


def prefer(graph: Graph, target: Target, costs: Costs, pins: Pins | None = None) -> Placement:
    """Every node on `target` that this can take; `pins` are by names of nodes."""
    options = _options(graph, costs, pins or {})
    targets: dict[str, Target] = {name: target if target in seconds else next(iter(seconds))
                                  for name, seconds in options.items()}
    return Placement(MappingProxyType(targets), price(graph, targets, costs), exact=False)


def place(graph: Graph, costs: Costs, pins: Pins | None = None,
          states: int = STATES) -> Placement:
    """The cheapest placement; `pins` are by names of nodes, as `pinned` gives them.

    `states` bounds how many are kept after each node. Raises ValueError for a node that no target
    can take.
    """
    options = _options(graph, costs, pins or {})
    known = min((prefer(graph, target, costs, pins) for target in TARGETS),
                key=lambda placement: placement.seconds)
    rest = _rest(graph, options)
    search = _Search(graph, costs)
    exact, frontier = True, search.begin()
    for position, node in enumerate(graph.nodes):
        grown = [search.grown(state, position, target, seconds) for state in frontier
                 for target, seconds in options[node.name].items()]
        most = known.seconds * (1 + 1e-9) - rest[position + 1]
        frontier = _undominated([one for one in grown if one.seconds <= most], states + 1)
        exact = exact and len(frontier) <= states
        frontier = frontier[:states]
    best = min(frontier, key=lambda state: state.seconds, default=None)
    targets = known.targets
    if best is not None and best.seconds < known.seconds:
        targets = dict(zip((node.name for node in graph.nodes), best.chosen(), strict=True))
    if not exact:
        targets = _settled(graph, targets, costs, options)
    return Placement(MappingProxyType(dict(targets)), price(graph, targets, costs), exact)


def moves(graph: Graph, targets: Mapping[str, Target], options: Mapping[str, Iterable[Target]],
          start: Callable[[Target], float]) -> Iterator[Mapping[str, Target]]:
    """The placements that differ by one segment, one layer or one node: each of it that the other
    target may have, by `options`, moves there. A layer is what the host computes with one kernel.
    """
    together = [*runs(graph, targets, start), *(group.nodes for group in fuse(graph).groups),
                *((node,) for node in graph.nodes)]
    seen: set[frozenset[str]] = {frozenset()}
    for nodes in together:
        for target in TARGETS:
            names = frozenset(node.name for node in nodes if targets[node.name] != target
                              and target in options[node.name])
            if names not in seen:
                seen.add(names)
                yield {**targets, **dict.fromkeys(names, target)}


def _settled(graph: Graph, targets: Mapping[str, Target], costs: Costs,
             options: Options) -> Mapping[str, Target]:
    """The placement moved until no move makes it cheaper."""
    least = price(graph, targets, costs)
    while True:
        for other in moves(graph, targets, options, costs.start):
            seconds = price(graph, other, costs)
            if seconds < least * (1 - 1e-9):
                targets, least = other, seconds
                break
        else:
            return targets


def _options(graph: Graph, costs: Costs, pins: Pins) -> Options:
    options: dict[str, dict[Target, float]] = {}
    for node in graph.nodes:
        allowed: Sequence[Target] = [pins[node.name]] if node.name in pins else TARGETS
        options[node.name] = {target: seconds for target in allowed
                              if (seconds := costs.node(node, target)) is not None}
        if not options[node.name]:
            raise ValueError(f"{node.name} ({node.op}): {' and '.join(allowed)} cannot take it")
    return options


def _rest(graph: Graph, options: Options) -> list[float]:
    """What the nodes from each position on cost at least."""
    rest = [0.0]
    for node in reversed(graph.nodes):
        rest.append(rest[-1] + min(options[node.name].values()))
    return rest[::-1]


Mark = tuple[int, int, int, int]
"""Of a live value: the first segment in which the host can read it, the first one of the
accelerator (0: the last segment, negative: before it); 1 where the host, the accelerator does not
have it. Less is better."""

FROM: Mapping[Target, int] = {HOST: 0, ACCEL: 1}
ABSENT: Mapping[Target, int] = {HOST: 2, ACCEL: 3}


def _mark(segment: int, home: Target, everywhere: bool = False) -> Mark:
    """Of a value that the given segment makes, which is one of its home."""
    if home == HOST:
        return segment, segment + 1, 0, int(not everywhere)
    return segment + 1, segment, int(not everywhere), 0


@dataclass(frozen=True, slots=True)
class _State:
    seconds: float
    last: Target
    marks: dict[str, Mark]
    before: "_State | None" = None
    target: Target = HOST               # of the node that led here

    def chosen(self) -> list[Target]:
        """Targets of the nodes so far."""
        found, state = [], self
        while state.before:
            found.append(state.target)
            state = state.before
        return found[::-1]


class _Search:
    """How states follow from states. The mark of "" is that of a value without a producer."""

    def __init__(self, graph: Graph, costs: Costs):
        self.graph, self.costs = graph, costs
        self.outputs = frozenset(graph.outputs)
        self.last_use = {value: position for position, node in enumerate(graph.nodes)
                         for value in self._read(node)}
        self._copies: dict[tuple[str, Target], float] = {}

    def _copy(self, value: str, target: Target) -> float:
        if (value, target) not in self._copies:
            self._copies[value, target] = self.costs.copy(value, target)
        return self._copies[value, target]

    def _read(self, node: Node) -> list[str]:
        return list(dict.fromkeys(v for v in node.inputs if v not in self.graph.constants)) or [""]

    def begin(self) -> list[_State]:
        """With a first segment of either target."""
        states = []
        for target in TARGETS:
            host, accel, *_ = _mark(0, target)
            marks: dict[str, Mark] = {value: (host, accel, 0, 1) for value in self.graph.inputs
                                      if value in self.last_use}
            if "" in self.last_use:
                marks[""] = (host, accel, 0, 0)
            states.append(_State(self.costs.start(target), target, marks))
        return states

    def grown(self, state: _State, position: int, target: Target, seconds: float) -> _State:
        """With the node at `position` on `target`, which takes it `seconds`."""
        node, marks = self.graph.nodes[position], dict(state.marks)
        total, last, read = state.seconds + seconds, state.last, self._read(node)
        segment = max(marks[value][FROM[target]] for value in read)
        for value in read:
            if marks[value][ABSENT[target]]:
                total += self._copy(value, target)
                host, accel, *_ = marks[value]
                marks[value] = (host, accel, 0, 0)
        if segment > 0:
            total, last, segment = total + self.costs.start(target), target, 0
            marks = {value: (host - 1, accel - 1, no_host, no_accel)
                     for value, (host, accel, no_host, no_accel) in marks.items()}
        for value in node.outputs:
            fetched = target == ACCEL and value in self.outputs
            total += self._copy(value, HOST) if fetched else 0
            marks[value] = _mark(segment, target, fetched)
        live = {value: mark for value, mark in marks.items()
                if self.last_use.get(value, -1) > position}
        return _State(total, last, live, state, target)


def _undominated(states: Sequence[_State], most: int) -> list[_State]:
    """The states that no other makes superfluous, the cheapest first, at most so many."""
    kept: list[_State] = []
    rows: dict[Target, np.ndarray] = {}
    count = dict.fromkeys(TARGETS, 0)
    for state in sorted(states, key=lambda one: one.seconds):
        row = np.array([state.marks[value] for value in sorted(state.marks)], np.int32).reshape(-1)
        table = rows.setdefault(state.last, np.zeros((len(states), row.size), np.int32))
        taken = count[state.last]
        if not (table[:taken] <= row).all(axis=1).any():
            table[taken] = row
            count[state.last] += 1
            kept.append(state)
        if len(kept) == most:
            break
    return kept
