"""Facts about nodes that decide how values lie in memory; the graph alone says them."""

from compiler.graph.graph import Graph, Node
from compiler.ops.integers.fixed_point import STORED, limits_of
from compiler.ops.registry import find


def is_view(graph: Graph, node: Node) -> bool:
    """True for an operator that may only say where elements of its input lie."""
    return node.op in ("reshape", "transpose") and graph.values[node.inputs[0]].dtype in STORED


def data_of(node: Node) -> tuple[str, ...]:
    """The inputs of a node that are data, not parameters."""
    return node.inputs[:find(node.op).data_inputs]


def is_of_rows(graph: Graph, node: Node) -> bool:
    """True for an operator that reads a tensor of any rank as the rows of matrices."""
    if node.op == "qmean":
        return (len(graph.values[node.inputs[0]].shape), *node.attrs["axes"]) != (4, 2, 3)
    return node.op in ("qmatmul", "qdense", "qdense_add", "qterms", "fdense")


def keeps_scale(node: Node, index: int, element: str) -> bool:
    """True where a concatenation leaves the values of this input as they are."""
    bias, mult, shift = (node.attrs[name][index] for name in ("bias", "mult", "shift"))
    zp, lo, hi = (node.attrs[name] for name in ("zp", "lo", "hi"))
    return mult == 1 << shift and bias == -zp and (lo, hi) == limits_of(element)
