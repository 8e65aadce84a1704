"""Divides a network between targets: by order of preference, or by cost. `auto` chooses among the
division that `compiler.graph.division.placement` finds by estimates, the greedy one, which gives
each node to the first target of the list that can have it, and those that prefer one of the other
targets, such as the host alone. Each is compiled and priced exactly, and the cheapest wins; so
`auto` never costs more than the better of greedy and host. The price of a proposal corrects the
estimates, and the search repeats until it proposes nothing new. Then single nodes, layers or
segments of the cheapest division move to another target: promising moves are compiled and priced
too, until none makes it cheaper.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from compiler.graph.division.partition import ACCEL, HOST, Partition, Takes, by_preference, subgraph
from compiler.graph.division.placement import Pins, Placement, moves, pinned, place, prefer
from compiler.graph.division.placement import price as estimate
from compiler.graph.division.protocols import CannotCompile, RefusesInside
from compiler.graph.graph import Graph, Node
from runtime.driver.costs import CopyPrice, Price, Pricing
from runtime.driver.targets import Targets

NO_TARGET = "the network is not compiled for it"

OBJECTIVES = ("latency", "throughput")
"""The objectives: the seconds of one inference alone, or of one among many that are pipelined."""

ROUNDS = 4
"""The most corrections of estimates."""

DOUBT = 0.1
"""The error of a move's estimate, as a share of the whole price: a move that seems dearer by less
is priced exactly.
"""

TRIES = 16
"""The most moves in a row that are priced without finding a cheaper one."""


Refused = Mapping[tuple[str, str], str]
"""Reasons why nodes are not on targets, by the names of both, besides those of the targets."""

Key = frozenset[tuple[str, str]]
"""Targets by name of node."""


@dataclass(frozen=True)
class Choice:
    """The chosen division, and the figures behind the choice. Parameters ---------- name : of the
    chosen candidate.
    price : of its steps.
    candidates : the cost of each, by name: seconds of one inference, or of one of many.
    exact : whether the search saw all divisions; else it kept the best of a bounded number.
    notes : candidates that could not be compiled.
    """

    name: str
    price: Price
    pricing: Pricing
    candidates: Mapping[str, float]
    exact: bool
    notes: tuple[str, ...] = ()

    def figures(self) -> dict[str, Any]:
        """The choice as plain data for reports; times in seconds."""
        return {
            "chosen": self.name, "seconds": self.price.seconds,
            "pipelined_seconds": self.price.pipelined_seconds,
            "objective": OBJECTIVES[self.price.pipelined],
            "candidates": dict(self.candidates), "exact": self.exact,
            "assumed": self.pricing.assumed(),
            "copies": [{"value": step.copy.value, "source": step.copy.source,
                        "target": step.copy.target, "bytes": step.size_bytes,
                        "seconds": step.seconds, "layout_seconds": step.layout_seconds}
                       for step in self.price.steps if isinstance(step, CopyPrice)],
            "segments": [{"device": step.segment.target, "cycles": step.cycles,
                          "seconds": step.seconds,
                          "nodes": [node.name for node in step.segment.nodes]}
                         for step in self.price.steps if not isinstance(step, CopyPrice)],
            "nodes": {node.name: {target: self.pricing.node(node, target)
                                  for target in self.pricing.targets}
                      for node in self.pricing.graph.nodes},
            "notes": list(self.notes),
        }


def choose(pricing: Pricing, pins: Pins | None = None) -> Choice:
    """Chooses the cheapest candidate for a graph; `pins` are by names of nodes or operators. Raises
    PinRefused for impossible pins.
    """
    return _Candidates(pricing, pins or {}).chosen()


def greedy(graph: Graph, targets: Targets, pins: Pins | None = None,
           refused: Refused = MappingProxyType({})) -> Partition:
    """Puts each node on the first of the targets that can have it, unless it is pinned; a target
    may refuse it in the graph, or in its segment. Raises PinRefused for impossible pins.
    """
    known = dict(refused)
    while True:
        parts = _by_order(graph, targets, pins, known)
        more = _refused_inside(graph, parts, targets)
        if not more:
            return parts
        known |= more


def _refused_inside(graph: Graph, parts: Partition, targets: Targets) -> Refused:
    """The refusals of targets inside the segments that they got."""
    return {(name, segment.target): reason for segment in parts.segments
            for target in [targets[segment.target].target] if isinstance(target, RefusesInside)
            for name, reason in target.refusals_inside(subgraph(graph, segment), graph).items()}


def _by_order(graph: Graph, targets: Targets, pins: Pins | None, refused: Refused) -> Partition:
    def refusal(node: Node, name: str) -> str | None:
        if name not in targets.names:
            return f"the target is {_the(HOST)}" if targets.names == (HOST,) else NO_TARGET
        return refused.get((node.name, name)) or targets[name].target.refusal(graph, node)

    fixed = pinned(graph, pins or {}, refusal)

    def takes(name: str) -> Takes:
        def asked(node: Node) -> str | None:
            elsewhere = fixed.get(node.name, name) != name
            return _pinned(fixed[node.name]) if elsewhere else refusal(node, name)
        return asked
    order = targets.names if len(targets.names) > 1 else (ACCEL, HOST)
    return by_preference(graph, {name: takes(name) for name in order})


def _pinned(name: str) -> str:
    return f"it is pinned to {_the(name)}"


def _the(name: str) -> str:
    return {HOST: "the host", ACCEL: "the accelerator"}.get(name, name)


class _Candidates:
    def __init__(self, pricing: Pricing, pins: Pins):
        self.pricing, self.graph = pricing, pricing.graph
        self.pins = pinned(self.graph, pins, pricing.refusal)
        self.placements: dict[str, Placement] = {}
        self.prices: dict[str, Price] = {}
        self.notes: list[str] = []

    def chosen(self) -> Choice:
        order = self.pricing.placed.names
        self._add("greedy", prefer(self.graph, order, self.pricing, self.pins))
        for name in order[1:]:
            self._add(name, prefer(self.graph, (name,), self.pricing, self.pins))
        exact = True
        for number in range(1, ROUNDS + 1):
            proposed = place(self.graph, self.pricing, self.pins)
            exact = exact and proposed.exact
            if any(proposed.targets == known.targets for known in self.placements.values()):
                break
            self._add(f"proposal {number}", proposed)
        if not self.prices:
            raise CannotCompile(self.notes[0])
        name = self._moved(min(self.prices, key=lambda candidate: self.prices[candidate].cost))
        parts = self.pricing.divided(self.placements[name].targets,
                                     self._reasons(self.placements[name].targets))
        return Choice(name, replace(self.prices[name], partition=parts), self.pricing,
                      {candidate: price.cost for candidate, price in self.prices.items()}, exact,
                      tuple(self.notes))

    def _add(self, name: str, placement: Placement) -> None:
        self.placements[name] = placement
        try:
            self.prices[name] = self.pricing.division(
                self.pricing.divided(placement.targets, {}))
        except CannotCompile as error:
            self.notes.append(f"{name} cannot be compiled: {error}")

    def _moved(self, best: str) -> str:
        """The name of the candidate that no move makes cheaper, from `best` on."""
        tried = {_key(placement.targets) for placement in self.placements.values()}
        number = 0
        while True:
            for placement in self._promising(best, tried):
                tried.add(_key(placement.targets))
                name = f"move {number + 1}"
                self._add(name, placement)
                if name in self.prices and _is_less(self.prices[name], self.prices[best]):
                    best, number = name, number + 1
                    break
                self.placements.pop(name)
                self.prices.pop(name, None)
            else:
                return best

    def _promising(self, best: str, tried: set[Key]) -> list[Placement]:
        """Moves that may be cheaper than the candidate, the most promising first. The estimate of
        each exceeds that of the candidate by less than a share of the price.
        """
        targets, least = self.placements[best].targets, self.prices[best].cost
        options = {node.name: self._allowed(node) for node in self.graph.nodes}
        limit = self._estimated(targets) + DOUBT * least
        promising = [Placement(other, seconds, exact=False)
                     for other in moves(self.graph, targets, options, self.pricing)
                     if _key(other) not in tried
                     and (seconds := self._estimated(other)) < limit
                     and self._least(other) < least]
        return sorted(promising, key=lambda placement: placement.seconds)[:TRIES]

    def _allowed(self, node: Node) -> list[str]:
        if node.name in self.pins:
            return [self.pins[node.name]]
        return [target for target in self.pricing.targets
                if self.pricing.refusal(node, target) is None]

    def _least(self, targets: Mapping[str, str]) -> float:
        """A lower bound on the price of these targets; it compiles nothing."""
        steps = self.pricing.divided(targets, {}).steps
        return self.pricing.together(steps, map(self.pricing.least, steps))

    def _estimated(self, targets: Mapping[str, str]) -> float:
        """The cost by the prices of nodes alone."""
        if not self.pricing.pipelined:
            return estimate(self.graph, targets, self.pricing)
        steps = self.pricing.divided(targets, {}).steps
        return self.pricing.together(steps, map(self.pricing.estimate, steps))

    def _reasons(self, targets: Mapping[str, str]) -> dict[str, str]:
        """The reason for each node on the host."""
        chosen = estimate(self.graph, targets, self.pricing)
        return {node.name: self._reason(node, targets, chosen) for node in self.graph.nodes
                if targets[node.name] == HOST}

    def _reason(self, node: Node, targets: Mapping[str, str], chosen: float) -> str:
        """Why the node is on none of the other targets."""
        others = [name for name in self.pricing.placed.names if name != HOST]
        reasons = {name: self._against(node, name, targets, chosen) for name in others}
        if len(set(reasons.values())) == 1:
            return reasons[others[0]]
        return "; ".join(f"{name}: {reason}" for name, reason in reasons.items())

    def _against(self, node: Node, other: str, targets: Mapping[str, str], chosen: float) -> str:
        refused = self.pricing.refusal(node, other)
        if refused is not None:
            return refused
        if node.name in self.pins:
            return _pinned(HOST)
        moved = estimate(self.graph, {**targets, node.name: other}, self.pricing) - chosen
        here, there = (self.pricing.node(node, target) or 0.0 for target in (HOST, other))
        way = moved - (there - here)
        slower = f"slower by {_time(moved)}" if moved > 0 else "no faster beside its neighbours"
        return (f"{slower} on {_the(other)}: {_time(there)} there, {_time(here)} on the host, "
                f"copies and starts {'+' if way >= 0 else ''}{_time(way)}")


def _key(targets: Mapping[str, str]) -> Key:
    return frozenset(targets.items())


def _is_less(price: Price, other: Price) -> bool:
    """True if one price is less than the other by more than the rounding of sums."""
    return price.cost < other.cost * (1 - 1e-9)


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if abs(seconds) < 1e-3 else f"{seconds * 1e3:.2f} ms"
