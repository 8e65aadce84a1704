"""The work of layers, independent of its cost: reports compare the two."""

from dataclasses import dataclass

from compiler.graph.graph import Node


@dataclass(frozen=True, slots=True)
class Bound:
    """The least that a layer takes, over all tilings that its template offers.

    Parameters
    ----------
    cycles : of a program of this layer alone, from start to end.
    busy : cycles that the unit works which works longest, with the bus at its full width.
    dram_bytes : that loads and stores move.
    gemm, vector : cycles that these units work.
    loaded : bytes that loads move.
    moved : bytes of the bus, those of instructions included.
    """

    cycles: int
    busy: int
    dram_bytes: int
    gemm: int
    vector: int
    loaded: int
    moved: int


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
    bound : what it takes at least, with the fastest memory; None if nobody has asked.
    """

    node: Node
    macs: int
    products: int
    input_bytes: int
    other_bytes: int
    note: str = ""
    bound: Bound | None = None
