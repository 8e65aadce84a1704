"""Networks as C computes them: orders of elements in which the last one counts inside of loops."""

from compiler.graph.channel_blocks import with_channel_blocks
from compiler.graph.graph import Graph
from compiler.graph.last_convolutions import with_channels_last
from compiler.graph.packed_products import with_packed_products
from compiler.graph.shared_constants import with_shared_constants

__all__ = ["lowered"]


def lowered(graph: Graph) -> Graph:
    """Before: any graph. After: the same values of inputs and outputs. Convolutions of int8 compute
    on images with channels last, those of float32 on blocks of 16 channels, their weights packed,
    without Winograd's products, which take more memory. Matrices of float32 are packed, too.
    """
    graph = with_channels_last(with_shared_constants(graph), ("int8",), pieces=False)
    graph = with_channel_blocks(graph, lambda _: 0, ("float32",))
    return with_packed_products(graph, ("float32",))
