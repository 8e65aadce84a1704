"""Settles which matches of a machine's instructions a network keeps, so that none costs a layer its
integers.

Operators that a pattern matches are one layer. Where this cannot be of integers, or keeps another
layer from it, the match is dropped, and its operators are tried alone, as those of a machine
without the instruction; smaller matches among them, too.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Protocol, TypeVar

from compiler.graph.graph import Graph
from compiler.graph.passes.pipeline import optimize
from compiler.quantize.networks.network import LayeredNetwork
from compiler.quantize.plans.plan import Plan

Declined = Mapping[tuple[str, str], str]
"""Why a pattern is not used, by its name and the value that it would make."""


class Attempt(Protocol):
    """A network with some of its matches, and the layers of integers that it would have.

    `planned` and `integers` are the names of the float network's nodes whose layers are planned to
    be of integers, and of those whose layers are.
    """

    @property
    def network(self) -> LayeredNetwork: ...

    @property
    def planned(self) -> frozenset[str]: ...

    def integers(self) -> frozenset[str]: ...

    def refused(self) -> Mapping[str, str]:
        """Why matches cannot be layers of integers, by the value that they make."""
        ...


Chosen = TypeVar("Chosen", bound=Attempt)


def settled(make: Callable[[Declined], Chosen], plain: Callable[[], Attempt]) -> Chosen:
    """The candidate that is left; `make` gives that without some matches, `plain` the one of a
    machine without the instructions.
    """
    declined: Declined = {}
    plain = cache(plain)
    while True:
        candidate = make(declined)
        matched = candidate.network.matched
        reasons = dict(_hindered(candidate, plain)) if matched else {}
        if not reasons:
            return candidate
        declined = {**declined, **{(matched[value].pattern.name, value): reason
                               for value, reason in reasons.items()}}


def _hindered(candidate: Attempt, plain: Callable[[], Attempt]) -> Mapping[str, str]:
    """Why matches are not kept, by the value that they make; none where all are."""
    refused = candidate.refused()
    if refused:
        return refused
    integers = candidate.integers()
    if plain().planned <= integers:                 # most often, and cheap to know
        return {}
    lost = plain().integers() - integers
    return dict(_blamed(candidate.network, plain().network, lost)) if lost else {}


def _blamed(network: LayeredNetwork, plain: LayeredNetwork, lost: frozenset[str]
            ) -> Iterator[tuple[str, str]]:
    """The matches that keep nodes from integers: those that share a layer with one of them where
    there is no match, else those next to it, else all.
    """
    layers = [layer for layer in plain.layers if lost.intersection(layer.names)]
    names = {name for layer in layers for name in layer.names}
    values = {value for layer in layers for value in (layer.value, *layer.read)}
    inside = [value for value, match in network.matched.items()
              if any(node.name in names for node in match.nodes)]
    beside = [value for value, match in network.matched.items()
              if values.intersection((value, *match.sources))]
    first = next(node for node in network.graph.nodes if node.name in lost)
    for value in inside or beside or network.matched:
        yield value, f"with it {first.name} ({first.op}) would stay in float"


def planned_nodes(network: LayeredNetwork, plan: Plan) -> frozenset[str]:
    """The names of the float network's nodes whose layers are planned to be of integers."""
    return frozenset(name for layer in network.layers if layer.value in plan.quantized
                     for name in layer.names)


def integer_nodes(network: LayeredNetwork, plan: Plan, written: Graph) -> frozenset[str]:
    """The names of those nodes whose layers are of integers, in the written QDQ form, for whoever
    imports it.
    """
    graph = optimize(written)
    left = {node.name for node in graph.nodes if node.op not in ("quantize", "dequantize")
            and any(graph.values[value].dtype == "float32" for value in node.outputs)}
    return frozenset(name for layer in network.layers if layer.value in plan.quantized
                     and left.isdisjoint(node.name for node in layer.nodes())
                     for name in layer.names)
