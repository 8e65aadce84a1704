"""The convolutions that compute on images in blocks of 16 channels."""

from collections.abc import Collection, Mapping, Sequence

from compiler.graph.graph import Graph, Node
from compiler.ops.records.planes import are_planes
from compiler.ops.records.blocks import LANES
from compiler.ops.registry import find

FEW = 4                 # channels of an image that are convolved as they lie, and of joined groups


def is_convolution(graph: Graph, node: Node, dtypes: Collection[str]) -> bool:
    """True if it computes on blocks: groups are of whole blocks, of one channel each, or so many
    make up a block.
    """
    if not find(node.op).convolved or not _is_packable(graph, node, dtypes):
        return False
    outputs, depth, *_ = graph.values[node.inputs[1]].shape
    group = node.attrs.get("group", 1)
    if group == 1 or group == outputs and depth == 1:
        return True
    count = max(LANES // depth, 1)
    return (depth * count % LANES == 0 and outputs // group * count % LANES == 0
            and group % count == 0 and depth >= FEW)


def _is_packable(graph: Graph, node: Node, dtypes: Collection[str]) -> bool:
    """True if weights and parameters are constants, and products float32 or of bytes in int32, of
    one of these types.
    """
    x, weight = (graph.values[value].dtype for value in node.inputs[:2])
    return (all(value in graph.constants for value in node.inputs[1:]) and x == weight
            and not are_planes(node) and x in dtypes and node.attrs.get("sums", "int32") == "int32")


def is_spread(graph: Graph, node: Node, dtypes: Collection[str]) -> bool:
    """True if it is a transposed convolution that computes each pixel from one of its input."""
    if node.op not in ("convtranspose2d", "qconvtranspose2d") or not _is_packable(graph, node,
                                                                                  dtypes):
        return False
    kernel, strides = graph.values[node.inputs[1]].shape[2:], tuple(node.attrs["strides"])
    plain = {"pads": (0,) * 4, "dilations": (1, 1), "output_padding": (0, 0), "group": 1}
    return strides == kernel and all(
        node.attrs.get(name, usual) in (usual, list(usual) if name != "group" else usual)
        for name, usual in plain.items())


def skips(attrs: Mapping, weight: Sequence[int]) -> bool:
    """True if there are pixels that a convolution does not see: those that it sees are few, and
    side by side they are one row.
    """
    return (tuple(weight[2:]) == (1, 1) and tuple(attrs["strides"]) != (1, 1)
            and not any(attrs["pads"]))
