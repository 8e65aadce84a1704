"""Proves that acc holds the sums of an operator.

An operator says in which type it sums, in int32 or in int64, and wraps there. Acc wraps at its own
width. The two agree where the widths do, and where no input makes a sum that either cannot hold.
"""

from math import prod

import numpy as np

from accel.mapping.lowering.nest import LoweringError
from compiler.graph.graph import Graph, Node
from compiler.ops.families.requantization import sums_of
from compiler.ops.integers.fixed_point import limits_of
from compiler.ops.registry import find
from compiler.te import bits


def weight_of(node: Node) -> str:
    """The second factor of a product: the weight behind its data, or a computed matrix."""
    return node.inputs[find(node.op).data_inputs or 1]


def require_sums(node: Node, graph: Graph, accumulator: str) -> None:
    """Refuses an operator whose sums could be other numbers in acc."""
    own = sums_of(node.attrs)
    if bits(own) == bits(accumulator):
        return
    if find(node.op).by_rows or node.op in ("qargmax", "qargmin", "qterms"):
        raise LoweringError(f"it is computed in {own}; acc of the machine holds {accumulator}")
    narrow = min(own, accumulator, key=bits)
    most = 2**(bits(narrow) - 1) - 1
    low, high = _range(node, graph)
    if low < -most - 1 or high > most:
        raise LoweringError(f"its sums could reach {max(high, -low)}, beyond {most} of {narrow}; "
                            f"acc of the machine holds {accumulator}")


def _range(node: Node, graph: Graph) -> tuple[int, int]:
    """The least and the greatest sum that inputs can make; 0 where nothing is summed."""
    x = graph.values[node.inputs[0]]
    if x.dtype not in ("int8", "int16"):
        return 0, 0
    ends = np.array(limits_of(x.dtype))
    match node.op:
        case "qconv2d" | "qconvtranspose2d" | "qdense" | "qconv2d_add" | "qdense_add":
            weights = graph.constants[weight_of(node)]
            rows = weights.reshape(len(weights), -1)
            if node.op.endswith("_add"):        # the residual is one product more, before it is cut
                rows = np.column_stack((rows, graph.constants[node.inputs[-1]]))
            products = rows[..., None].astype(np.int64) * ends
            return (int(products.min(axis=2).sum(axis=1).min()),
                    int(products.max(axis=2).sum(axis=1).max()))
        case "qmatmul":
            depth = x.shape[-1]
            spans = [max(abs(int(end) - node.attrs.get(zp, 0)) for end in ends)
                     for zp in ("a_zp", "b_zp")]
            return -prod(spans) * depth, prod(spans) * depth
        case "qavgpool": count = prod(node.attrs["kernel"])
        case "qglobalavgpool": count = prod(x.shape[2:])
        case "qmean": count = prod(x.shape[axis] for axis in node.attrs["axes"])
        case _: return 0, 0
    return int(ends[0]) * count, int(ends[1]) * count
