"""What a back end must provide. The compiler knows CPU, GPU and accelerator by this alone.

A graph is divided by ``partition(graph, partial(target.refusal, graph))``; each segment, as a
graph of its own, then goes to its target's `compile`.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from compiler.graph.graph import Graph, Node

__all__ = ["Compiled", "Target"]


@runtime_checkable
class Compiled(Protocol):
    """Part of a network, ready to run."""

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Outputs by name, from an array for every input, of its declared shape and type."""
        ...


@runtime_checkable
class Target(Protocol):
    @property
    def name(self) -> str:
        """As users write it and reports show it."""
        ...

    def refusal(self, graph: Graph, node: Node) -> str | None:
        """None when the target takes `node` of `graph`, else the reason why not, one clause."""
        ...

    def compile(self, graph: Graph) -> Compiled:
        """A graph all of whose nodes it takes; ValueError names the first that it does not."""
        ...
