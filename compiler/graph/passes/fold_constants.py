"""Constant folding."""

from dataclasses import dataclass
from typing import ClassVar

from compiler.graph.graph import Graph, Node
from compiler.graph.reference import evaluate_node
from compiler.graph.rewrite import Builder


DEQUANTIZED = ("dequantizelinear", "decodefloat")
"""What makes floats of quantized constants."""


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """Before: any graph. After: no node reads constants only.

    With `dequantize` False, dequantized constants stay nodes, so that `integerize` still sees the
    integers of weights and biases.
    """

    name: ClassVar[str] = "fold-constants"
    dequantize: bool = True

    def __call__(self, graph: Graph) -> Graph:
        if not any(self._folds(node, graph) for node in graph.nodes):
            return graph
        builder = Builder.like(graph)
        for node in graph.nodes:
            if self._folds(node, builder):
                inputs = [builder.constants[value] for value in node.inputs]
                builder.add_constant(node.outputs[0], evaluate_node(node, inputs))
            else:
                builder.add(node)
        return builder.finish(graph.outputs)

    def _folds(self, node: Node, among: Builder | Graph) -> bool:
        kept = node.op in DEQUANTIZED and not self.dequantize
        return not kept and all(value in among.constants for value in node.inputs)
