"""What layers have to do, whatever it costs: what reports compare with what it did cost."""

from dataclasses import dataclass

from compiler.graph.graph import Node

__all__ = ["Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a layer.

    Parameters
    ----------
    node : that it is, or is a part of.
    macs : useful multiply-accumulates.
    products : cycles of gemm at one block product a cycle; 0 for layers without products.
    input_bytes, other_bytes : what must move if all moves once: activations read; constants and
        activations written.
    note : what the user should know about how it is computed.
    """

    node: Node
    macs: int
    products: int
    input_bytes: int
    other_bytes: int
    note: str = ""
