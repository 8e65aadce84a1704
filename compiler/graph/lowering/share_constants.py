"""Constants that are equal, kept once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph

SAMPLES = 64            # elements that are compared before all are


@dataclass(frozen=True, slots=True)
class ShareConstants:
    """f(x, a), g(x, b) -> f(x, a), g(x, a) for constants a and b that are equal to the bit, as
    unrolled loops have one for each turn.

    Before: any graph. After: the same graph, whose nodes read the first of equal constants. The
    graph itself where all differ. Exact.
    """

    name: ClassVar[str] = "share-constants"

    def __call__(self, graph: Graph) -> Graph:
        first = _first_of_equals(graph.constants)
        if all(value == other for value, other in first.items()):
            return graph
        outputs = set(graph.outputs)
        nodes = tuple(replace(node, inputs=tuple(first.get(value, value) for value in node.inputs))
                      for node in graph.nodes)
        kept = {value: array for value, array in graph.constants.items()
                if first[value] == value or value in outputs}
        values = {value: type_ for value, type_ in graph.values.items()
                  if value in kept or value not in graph.constants}
        return replace(graph, nodes=nodes, constants=kept, values=values)


def _first_of_equals(constants: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Each constant's first equal."""
    first: dict[str, str] = {}
    known: dict[tuple, list[str]] = {}
    for value, array in constants.items():
        step = max(1, array.size // SAMPLES)
        sample = array.reshape(-1)[::step].tobytes()
        alike = known.setdefault((array.dtype.str, array.shape, sample), [])
        first[value] = next((other for other in alike if _equal(array, constants[other])), value)
        if first[value] == value:
            alike.append(value)
    return first


def _equal(array: np.ndarray, other: np.ndarray) -> bool:
    return array is other or array.tobytes() == other.tobytes()
