"""Networks: the graph, its meaning, its passes, its division between targets."""

from compiler.graph.division.partition import Copy, Partition, Segment, divide, partition, subgraph
from compiler.graph.graph import Attrs, Graph, Node, TensorType
from compiler.graph.passes.pipeline import dump_into, optimize, standard_passes
from compiler.graph.reference import evaluate, evaluate_node
from compiler.graph.rewrite import Builder, eliminate_dead_code, replace_nodes, with_nodes
from compiler.graph.verify import GraphRefused, verify
from compiler.ops.integers.fixed_point import (ScaleRefused, add_multipliers, quantize_multiplier,
                                               requantize)
from compiler.ops.records.rules import TypeRefused
from compiler.ops.registry import infer

__all__ = [
    "Attrs", "Builder", "Copy", "Graph", "GraphRefused", "Node",
    "Partition", "ScaleRefused", "Segment", "TensorType", "TypeRefused", "add_multipliers",
    "divide", "dump_into", "eliminate_dead_code", "evaluate", "evaluate_node", "infer", "optimize",
    "partition", "quantize_multiplier", "replace_nodes", "requantize", "standard_passes",
    "subgraph", "verify", "with_nodes",
]
