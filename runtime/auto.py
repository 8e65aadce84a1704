"""The target `auto`: which parts of a network go to the accelerator, decided by what they cost.

Candidates are the division that `compiler.graph.placement` finds by estimates, the greedy one,
which gives the accelerator all that it can have, and the host alone. Each is compiled and priced as
it is, and the cheapest is taken; so `auto` is never dearer than the better of greedy and host. The
price of what was proposed corrects the estimates, and the search is repeated until it proposes
nothing new. Then one node, one layer or one segment of the cheapest is moved to the other target:
what may gain by that is compiled and priced too, until no move makes it cheaper.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accel.mapping.lowering.nest import LoweringError
from accel.mapping.target import AccelTarget
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.graph.graph import Graph, Node
from compiler.graph.partition import ACCEL, HOST, Partition, Target, partition
from compiler.graph.placement import Pins, Placement, moves, pinned, place, prefer
from compiler.graph.placement import price as estimate
from runtime.costs import CopyPrice, Price, Pricing

__all__ = ["ROUNDS", "Choice", "choose", "greedy"]

PINNED = "it is pinned to the host"

ROUNDS = 4
"""How often estimates are corrected at most."""

DOUBT = 0.1
"""Estimates of a move may be wrong by so much of the whole price: what is dearer by less is priced
as it is."""

TRIES = 16
"""How many moves in a row are priced at most without one that is cheaper."""


@dataclass(frozen=True)
class Choice:
    """The division that was taken, and the figures that it was taken from.

    Parameters
    ----------
    name : of the candidate that was taken.
    price : of its steps.
    candidates : seconds of each, by name.
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
        """As plain data for reports; times in seconds."""
        return {
            "chosen": self.name, "seconds": self.price.seconds,
            "candidates": dict(self.candidates), "exact": self.exact,
            "assumed": self.pricing.link.assumptions(),
            "copies": [{"value": one.copy.value, "source": one.copy.source,
                        "target": one.copy.target, "bytes": one.size_bytes,
                        "seconds": one.seconds, "layout_seconds": one.layout_seconds}
                       for one in self.price.steps if isinstance(one, CopyPrice)],
            "segments": [{"device": one.segment.target, "cycles": one.cycles,
                          "seconds": one.seconds,
                          "nodes": [node.name for node in one.segment.nodes]}
                         for one in self.price.steps if not isinstance(one, CopyPrice)],
            "nodes": {node.name: {target: self.pricing.node(node, target)
                                  for target in (HOST, ACCEL)}
                      for node in self.pricing.graph.nodes},
            "notes": list(self.notes),
        }


def choose(pricing: Pricing, pins: Pins | None = None) -> Choice:
    """The cheapest candidate for a graph; `pins` by names of nodes or operators.

    Raises PinRefused for pins that cannot be.
    """
    return _Candidates(pricing, pins or {}).chosen()


def greedy(graph: Graph, accel: AccelTarget | None, pins: Pins | None = None) -> Partition:
    """The accelerator gets all that it can have and that is not pinned to the host. Raises
    PinRefused for pins that cannot be.
    """
    host = CpuTarget()

    def refusal(node: Node, target: Target) -> str | None:
        if target == HOST:
            return host.refusal(graph, node)
        return accel.refusal(graph, node) if accel else "the target is the host"

    fixed = pinned(graph, pins or {}, refusal)
    return partition(graph, lambda node: PINNED if fixed.get(node.name) == HOST
                     else refusal(node, ACCEL))


class _Candidates:
    def __init__(self, pricing: Pricing, pins: Pins):
        self.pricing, self.graph = pricing, pricing.graph
        self.pins = pinned(self.graph, pins, pricing.refusal)
        self.placements: dict[str, Placement] = {}
        self.prices: dict[str, Price] = {}
        self.notes: list[str] = []

    def chosen(self) -> Choice:
        self._add("greedy", prefer(self.graph, (ACCEL,), self.pricing, self.pins))
        self._add("host", prefer(self.graph, (HOST,), self.pricing, self.pins))
        exact = True
        for number in range(1, ROUNDS + 1):
            proposed = place(self.graph, self.pricing, self.pins)
            exact = exact and proposed.exact
            if any(proposed.targets == one.targets for one in self.placements.values()):
                break
            self._add(f"proposal {number}", proposed)
        if not self.prices:
            raise LoweringError(self.notes[0])
        name = self._moved(min(self.prices, key=lambda one: self.prices[one].seconds))
        parts = self.pricing.divided(self.placements[name].targets,
                                     self._reasons(self.placements[name].targets))
        return Choice(name, Price(parts, self.prices[name].steps), self.pricing,
                      {one: price.seconds for one, price in self.prices.items()}, exact,
                      tuple(self.notes))

    def _add(self, name: str, placement: Placement) -> None:
        self.placements[name] = placement
        try:
            self.prices[name] = self.pricing.division(
                self.pricing.divided(placement.targets, {}))
        except LoweringError as error:
            self.notes.append(f"{name} cannot be compiled: {error}")

    def _moved(self, best: str) -> str:
        """The name of the candidate that no move makes cheaper, from `best` on."""
        tried = {_key(one.targets) for one in self.placements.values()}
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

    def _promising(self, best: str, tried: set[frozenset[str]]) -> list[Placement]:
        """Moves that may be cheaper than the candidate, those that promise most first: no others
        than such as the estimate does not call dearer by more than a share of the price.
        """
        targets, least = self.placements[best].targets, self.prices[best].seconds
        options = {node.name: self._allowed(node) for node in self.graph.nodes}
        limit = estimate(self.graph, targets, self.pricing) + DOUBT * least
        found = [Placement(other, seconds, exact=False)
                 for other in moves(self.graph, targets, options, self.pricing)
                 if _key(other) not in tried
                 and (seconds := estimate(self.graph, other, self.pricing)) < limit
                 and self._least(other) < least]
        return sorted(found, key=lambda one: one.seconds)[:TRIES]

    def _allowed(self, node: Node) -> list[Target]:
        if node.name in self.pins:
            return [self.pins[node.name]]
        return [one for one in self.pricing.targets if self.pricing.refusal(node, one) is None]

    def _least(self, targets: Mapping[str, Target]) -> float:
        """A bound on the price, for which nothing is compiled."""
        return sum(map(self.pricing.least, self.pricing.divided(targets, {}).steps))

    def _reasons(self, targets: Mapping[str, Target]) -> dict[str, str]:
        """Why each node on the host is there."""
        chosen = estimate(self.graph, targets, self.pricing)
        return {node.name: self._reason(node, targets, chosen) for node in self.graph.nodes
                if targets[node.name] == HOST}

    def _reason(self, node: Node, targets: Mapping[str, Target], chosen: float) -> str:
        refused = self.pricing.refusal(node, ACCEL)
        if refused is not None:
            return refused
        if node.name in self.pins:
            return PINNED
        moved = estimate(self.graph, {**targets, node.name: ACCEL}, self.pricing) - chosen
        here, there = (self.pricing.node(node, target) or 0.0 for target in (HOST, ACCEL))
        way = moved - (there - here)
        slower = f"slower by {_time(moved)}" if moved > 0 else "no faster beside its neighbours"
        return (f"{slower} on the accelerator: {_time(there)} there, {_time(here)} on the host, "
                f"copies and starts {'+' if way >= 0 else ''}{_time(way)}")


def _key(targets: Mapping[str, Target]) -> frozenset[str]:
    return frozenset(name for name, target in targets.items() if target == ACCEL)


def _is_less(one: Price, other: Price) -> bool:
    """By more than sums of floats differ."""
    return one.seconds < other.seconds * (1 - 1e-9)


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if abs(seconds) < 1e-3 else f"{seconds * 1e3:.2f} ms"
