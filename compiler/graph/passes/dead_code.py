"""Dead code elimination."""

from dataclasses import dataclass
from typing import ClassVar

from compiler.graph.graph import Graph
from compiler.graph.rewrite import eliminate_dead_code


@dataclass(frozen=True, slots=True)
class EliminateDeadCode:
    """Before: any graph. After: every node and constant is needed by an output; inputs stay."""

    name: ClassVar[str] = "eliminate-dead-code"

    def __call__(self, graph: Graph) -> Graph:
        return eliminate_dead_code(graph)
