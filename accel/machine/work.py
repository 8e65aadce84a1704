"""The work of layers, independent of its cost: reports compare the two."""

from dataclasses import dataclass

from compiler.graph.graph import Node

__all__ = ["Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a layer.

    Parameters
    ----------
    node : the node that the layer is, or is a part of.
    macs : useful multiply-accumulates.
    products : cycles of gemm at one block product a cycle; 0 for layers without products.
    input_bytes, other_bytes : bytes to move if each moves once: activations read; constants and
        activations written.
    note : what the user should know about how it is computed.
    """

    node: Node
    macs: int
    products: int
    input_bytes: int
    other_bytes: int
    note: str = ""
