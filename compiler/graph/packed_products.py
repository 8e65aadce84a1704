"""Float products with constant matrices, whose columns are packed into blocks of 16."""

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.blocks import LANES

__all__ = ["with_packed_products"]


def with_packed_products(graph: Graph) -> Graph:
    """Before: any graph. After: the same values of inputs and outputs; products of float32 with a
    constant matrix of whole blocks of columns read it packed: [N/16,K,16]. The graph itself where
    there are none.
    """
    if not any(_is_packable(graph, node) for node in graph.nodes):
        return graph
    builder, packed = Builder.like(graph), {}
    for node in graph.nodes:
        if not _is_packable(graph, node):
            builder.add(node)
            continue
        x, w, *bias = node.inputs
        turned = bool(node.attrs.get("trans_b", 0))
        if (w, turned) not in packed:
            packed[w, turned] = builder.add_constant(
                builder.fresh(f"{w}.packed"), _packed(graph.constants[w], turned))
        output = node.outputs[0]
        product = builder.fresh(f"{output}.product") if bias else output
        builder.emit("packed_matmul", node.name, [x, packed[w, turned]], product)
        if bias:
            builder.emit("add", builder.fresh_node(f"{node.name}.bias"), [product, *bias], output)
    return eliminate_dead_code(builder.finish(graph.outputs))


def _is_packable(graph: Graph, node: Node) -> bool:
    if node.op not in ("dense", "matmul") or node.inputs[1] not in graph.constants:
        return False
    x, w = (graph.values[value] for value in node.inputs[:2])
    columns = w.shape[0 if node.attrs.get("trans_b", 0) else -1]
    return (len(w.shape) == 2 and len(x.shape) >= 2 and x.dtype == w.dtype == "float32"
            and columns % LANES == 0 and columns > 0 and 0 not in x.shape)


def _packed(weight: np.ndarray, turned: bool) -> np.ndarray:
    """[K,N], or [N,K] where it is turned, as [N/16,K,16]."""
    matrix = weight.T if turned else weight
    depth, columns = matrix.shape
    return np.ascontiguousarray(matrix.reshape(depth, columns // LANES, LANES).transpose(1, 0, 2))
