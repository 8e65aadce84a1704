"""The steps that decide how the values of a graph lie in memory, before any layer is built."""

from collections.abc import Callable, Iterable

from accel.mapping.memory.forms import Forms
from accel.mapping.memory.parts import cut, joined
from accel.mapping.memory.placing import placed
from accel.mapping.memory.wishes import wished
from accel.mapping.operators.blocked import Blocks
from compiler.graph.graph import Graph

STEPS: tuple[Callable[[Forms], Forms], ...] = (wished, placed, joined, cut)
"""In order; each reads only what those before it have decided."""


def decided(graph: Graph, blocks: Blocks, operators: Iterable[str]) -> Forms:
    """Decides how the values of a graph lie in memory where the accelerator makes the results of
    these `operators`.
    """
    forms = Forms(graph, blocks, frozenset(operators), graph.consumers(), graph.producers())
    for step in STEPS:
        forms = step(forms)
    return forms
