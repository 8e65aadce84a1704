"""Which target computes which node: the cheapest division of a graph between targets.

What a division costs is the sum of

* the time of every node on its target,
* a copy of every value to each target that needs it and has not made it: inputs are made by the
  home, outputs are needed there, constants are known to all. What one target makes and another
  needs goes over the home, once,
* a start of every segment. Nodes of one target share a segment as their data allow
  (`compiler.graph.division.partition.runs`).

`place` finds the cheapest by dynamic programming over the nodes in topological order. A state has
the targets of the segments so far and, for each live value, the segment that makes it and the
targets that have it. Of two states that `_Search.compared` calls alike, one goes where the other
costs no more, has every value no later and wherever the first one has it: it cannot end cheaper.
What remains grows with the number of values that are live at once; only beyond `STATES` of them the
cheapest are kept and the rest given up, and the result says so. What is left then is moved, as
`moves` says, for as long as that makes it cheaper: so in any case no division that differs by one
node, one layer or one segment costs less.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Protocol

import numpy as np

from compiler.errors import Error
from compiler.graph.division.partition import earliest, runs
from compiler.graph.fusion import fuse
from compiler.graph.graph import Graph, Node

STATES = 512

Pins = Mapping[str, str]
"""The target of a node, by the node's name, or of all nodes of an operator, by the operator's."""

Options = Mapping[str, Mapping[str, float]]
"""Seconds of each node, by name, on the targets that may have it."""


class PinRefused(Error, ValueError):
    """A pin that names nothing in the network, or a target that cannot take the node."""


class Costs(Protocol):
    """The costs of nodes, copies and starts of segments, in seconds."""

    @property
    def targets(self) -> Sequence[str]:
        """The names of all targets. The first is the home: there inputs begin and outputs end."""
        ...

    def node(self, node: Node, target: str) -> float | None:
        """The seconds of the node itself; None where the target cannot compute it."""
        ...

    def copy(self, value: str, source: str, target: str) -> float:
        """The seconds to copy a value from the home to another target, or from there home."""
        ...

    def start(self, target: str) -> float:
        """The seconds that a segment takes whatever it computes, at least 0."""
        ...


@dataclass(frozen=True, slots=True)
class Placement:
    """The target of every node, by name, and what that costs.

    `exact`: no division is cheaper; otherwise some were given up unseen.
    """

    targets: Mapping[str, str]
    seconds: float
    exact: bool = True


def price(graph: Graph, targets: Mapping[str, str], costs: Costs) -> float:
    """The cost that `place` minimizes, for these targets; infinite where one cannot take its node.
    """
    nodes = sum(_or_never(costs.node(node, targets[node.name])) for node in graph.nodes)
    return nodes + _copies(graph, targets, costs) + _starts(graph, targets, costs)


def _or_never(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


def _copies(graph: Graph, targets: Mapping[str, str], costs: Costs) -> float:
    home = costs.targets[0]
    maker = dict.fromkeys(graph.inputs, home)
    maker |= {value: targets[node.name] for node in graph.nodes for value in node.outputs}
    wanted = {(value, home) for value in graph.outputs}
    wanted |= {(value, targets[node.name]) for node in graph.nodes for value in node.inputs}
    copied = {(value, target) for value, target in wanted
              if value in maker and maker[value] != target}
    copied |= {(value, home) for value, _ in copied if maker[value] != home}
    return sum(costs.copy(value, maker[value] if target == home else home, target)
               for value, target in sorted(copied))


def _starts(graph: Graph, targets: Mapping[str, str], costs: Costs) -> float:
    return sum(costs.start(targets[run[0].name])
               for run in runs(graph, targets, costs.start, costs.targets[0]))


def pinned(graph: Graph, pins: Pins, refusal: Callable[[Node, str], str | None]) -> Pins:
    """The target of every node that is pinned, by its name. A pin of a node goes before one of
    its operator.

    Raises PinRefused for a pin that names neither, and for a node that its target refuses.
    """
    for name in pins:
        if not any(name in (node.name, node.op) for node in graph.nodes):
            raise PinRefused(f"Pin must name a layer or an operator of the network, not {name!r}; "
                             f"its operators are "
                             f"{', '.join(sorted({node.op for node in graph.nodes}))}")
    chosen: dict[str, str] = {}
    for node in graph.nodes:
        target = pins.get(node.name) or pins.get(node.op)
        if target is None:
            continue
        if (reason := refusal(node, target)) is not None:
            raise PinRefused(f"{node.name} ({node.op}) must not be pinned to {target}: {reason}")
        chosen[node.name] = target
    return chosen


def prefer(graph: Graph, order: Sequence[str], costs: Costs, pins: Pins | None = None) -> Placement:
    """Every node on the first target in this order that can take it; what none of them can take
    goes to the first of all targets that can. `pins` are by names of nodes.
    """
    options = _options(graph, costs, pins or {})
    targets = {name: next(target for target in (*order, *seconds) if target in seconds)
               for name, seconds in options.items()}
    return Placement(MappingProxyType(targets), price(graph, targets, costs), exact=False)


def place(graph: Graph, costs: Costs, pins: Pins | None = None,
          states: int = STATES) -> Placement:
    """The cheapest placement; `pins` are by names of nodes, as `pinned` gives them.

    `states` bounds how many are kept after each node. Raises ValueError for a node that no target
    can take.
    """
    options = _options(graph, costs, pins or {})
    known = min((prefer(graph, (target,), costs, pins) for target in costs.targets),
                key=lambda placement: placement.seconds)
    rest = _rest(graph, options)
    search = _Search(graph, costs, options)
    exact, frontier = True, search.begin()
    for position, node in enumerate(graph.nodes):
        grown = [search.grown(state, position, target, seconds) for state in frontier
                 for target, seconds in options[node.name].items()]
        most = known.seconds * (1 + 1e-9) - rest[position + 1]
        grown = [state for state in grown if state.seconds <= most]
        frontier = _undominated(grown, states + 1, partial(search.compared, position=position))
        exact = exact and len(frontier) <= states
        frontier = frontier[:states]
    best = min(frontier, key=lambda state: state.seconds, default=None)
    targets = known.targets
    if best is not None and best.seconds < known.seconds:
        targets = dict(zip((node.name for node in graph.nodes), best.chosen(), strict=True))
    if not exact:
        targets = _settled(graph, targets, costs, options)
    return Placement(MappingProxyType(dict(targets)), price(graph, targets, costs), exact)


def moves(graph: Graph, targets: Mapping[str, str], options: Mapping[str, Iterable[str]],
          costs: Costs) -> Iterator[Mapping[str, str]]:
    """The placements that differ by one segment, one layer or one node: each of it that another
    target may have, by `options`, moves there. A layer is what the host computes with one kernel.
    """
    together = [*runs(graph, targets, costs.start, costs.targets[0]),
                *(group.nodes for group in fuse(graph).groups), *((node,) for node in graph.nodes)]
    seen: set[tuple[str, frozenset[str]]] = set()
    for nodes in together:
        for target in costs.targets:
            names = frozenset(node.name for node in nodes if targets[node.name] != target
                              and target in options[node.name])
            if names and (target, names) not in seen:
                seen.add((target, names))
                yield {**targets, **dict.fromkeys(names, target)}


def _settled(graph: Graph, targets: Mapping[str, str], costs: Costs,
             options: Options) -> Mapping[str, str]:
    """The placement moved until no move makes it cheaper."""
    least = price(graph, targets, costs)
    while True:
        for other in moves(graph, targets, options, costs):
            seconds = price(graph, other, costs)
            if seconds < least * (1 - 1e-9):
                targets, least = other, seconds
                break
        else:
            return targets


def _options(graph: Graph, costs: Costs, pins: Pins) -> Options:
    options: dict[str, dict[str, float]] = {}
    for node in graph.nodes:
        allowed = [pins[node.name]] if node.name in pins else costs.targets
        options[node.name] = {target: seconds for target in allowed
                              if (seconds := costs.node(node, target)) is not None}
        if not options[node.name]:
            *others, last = allowed
            names = f"{', '.join(others)} and {last}" if others else last
            raise ValueError(f"{node.name} ({node.op}): {names} cannot take it")
    return options


def _rest(graph: Graph, options: Options) -> list[float]:
    """A lower bound on the cost of the nodes from each position on."""
    rest = [0.0]
    for node in reversed(graph.nodes):
        rest.append(rest[-1] + min(options[node.name].values()))
    return rest[::-1]


Mark = tuple[int, ...]
"""The segment that makes a live value; then for each target, the home first, 1 where it does not
have the value, else 0. Less is better."""


@dataclass(frozen=True, slots=True)
class _State:
    """`order` are the targets of the segments, `target` that of the node that led here."""

    seconds: float
    order: tuple[str, ...]
    marks: dict[str, Mark]
    before: "_State | None" = None
    target: str = ""

    def chosen(self) -> list[str]:
        """Targets of the nodes so far."""
        targets, state = [], self
        while state.before:
            targets.append(state.target)
            state = state.before
        return targets[::-1]


class _Search:
    """Derives states from states. The mark of "" is that of a value without a producer."""

    def __init__(self, graph: Graph, costs: Costs, options: Options):
        self.graph, self.costs, self.home = graph, costs, costs.targets[0]
        self.column = {target: 1 + number for number, target in enumerate(costs.targets)}
        used = {target for seconds in options.values() for target in seconds}
        self.firsts = [target for target in costs.targets if target in used]
        self.outputs = frozenset(graph.outputs)
        self.last_use = {value: position for position, node in enumerate(graph.nodes)
                         for value in self._read(node)}
        self.last_alone = _last_alone(graph, self._read)
        self._copies: dict[tuple[str, str, str], float] = {}

    def _read(self, node: Node) -> list[str]:
        return list(dict.fromkeys(v for v in node.inputs if v not in self.graph.constants)) or [""]

    def begin(self) -> list[_State]:
        """The first states: each begins with a segment of one of the targets."""
        marks = {value: self._made(0, self.home) for value in self.graph.inputs
                 if value in self.last_use}
        if "" in self.last_use:
            marks[""] = (0,) * (1 + len(self.column))
        return [_State(self.costs.start(target), (target,), marks) for target in self.firsts]

    def grown(self, state: _State, position: int, target: str, seconds: float) -> _State:
        """The state after the node at `position` runs on `target`, which takes `seconds` for it."""
        node, marks, order = self.graph.nodes[position], dict(state.marks), state.order
        total, read = state.seconds + seconds, self._read(node)
        segment = earliest(order, target, max(marks[value][0] for value in read))
        for value in read:
            copied, marks[value] = self._fetched(value, marks[value], target)
            total += copied
        if segment == len(order):
            total, order = total + self.costs.start(target), (*order, target)
        for value in node.outputs:
            marks[value] = self._made(segment, target)
            if value in self.outputs:
                copied, marks[value] = self._fetched(value, marks[value], self.home)
                total += copied
        live = {value: mark for value, mark in marks.items()
                if self.last_use.get(value, -1) > position}
        return _State(total, order, live, state, target)

    def _made(self, segment: int, target: str) -> Mark:
        return segment, *(int(column != target) for column in self.column)

    def _fetched(self, value: str, mark: Mark, target: str) -> tuple[float, Mark]:
        """The seconds until `target` has a value too, and the mark after that."""
        seconds = 0.0
        for reader in dict.fromkeys((self.home, target)):
            if mark[self.column[target]] and mark[self.column[reader]]:
                maker = next(value for value, column in self.column.items() if not mark[column])
                seconds += self._copy(value, maker if reader == self.home else self.home, reader)
                column = self.column[reader]
                mark = (*mark[:column], 0, *mark[column + 1:])
        return seconds, mark

    def _copy(self, value: str, source: str, target: str) -> float:
        key = value, source, target
        if key not in self._copies:
            self._copies[key] = self.costs.copy(*key)
        return self._copies[key]

    def compared(self, state: _State, position: int) -> tuple[Hashable, list[int]]:
        """The facts that two states must have in common so that one may go, and the figures that
        decide: the one that stays has none that is greater.

        With two targets each new segment is of the other one. So a value is never worse if it is
        there earlier, counted from the last segment. With more targets a node that joins an earlier
        segment may save a start now and cost two later. So all segments must be alike that a node
        can still join, and the values made at the same places in them.
        """
        marks, last = [state.marks[value] for value in sorted(state.marks)], len(state.order)
        if len(self.firsts) <= 2:
            return state.order[-1], [n for mark in marks for n in (mark[0] - last, *mark[1:])]
        alone = [state.marks[value][0] for value in sorted(state.marks)
                 if self.last_alone[value] > position]
        first = min(alone, default=last)
        return ((state.order[first:], tuple(position - first for position in alone)),
                [n for mark in marks for n in mark[1:]])


def _last_alone(graph: Graph, read: Callable[[Node], list[str]]) -> dict[str, int]:
    """For each value, the last node, or -1, that reads it and nothing that is made from it. Any
    other reader must come after what is made from it, wherever the value itself is made.
    """
    bit = {value: 1 << number for number, value in enumerate(("", *graph.values))}
    sources = dict.fromkeys(bit, 0)
    last: dict[str, int] = {}
    for position, node in enumerate(graph.nodes):
        values, behind = read(node), 0
        for value in values:
            behind |= sources[value]
        for value in values:
            last[value] = last.get(value, -1) if behind & bit[value] else position
        sources |= dict.fromkeys(node.outputs, behind | sum(bit[value] for value in values))
    return last


def _undominated(states: Sequence[_State], most: int,
                 compared: Callable[[_State], tuple[Hashable, list[int]]]) -> list[_State]:
    """The states that no other makes superfluous, the cheapest first, at most so many."""
    kept: list[_State] = []
    states = sorted(states, key=lambda state: state.seconds)
    figures = [compared(state) for state in states]
    sizes, taken = Counter(key for key, _ in figures), Counter[Hashable]()
    tables: dict[Hashable, np.ndarray] = {}
    for state, (key, figure) in zip(states, figures, strict=True):
        row = np.array(figure, np.int32)
        if key not in tables:
            tables[key] = np.zeros((sizes[key], row.size), np.int32)
        table = tables[key]
        if not (table[:taken[key]] <= row).all(axis=1).any():
            table[taken[key]] = row
            taken[key] += 1
            kept.append(state)
        if len(kept) == most:
            break
    return kept
