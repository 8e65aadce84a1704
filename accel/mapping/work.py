"""What layers have to do, whatever it costs: what reports compare with what it did cost."""

from dataclasses import dataclass

import numpy as np

from accel.mapping.layers import Layer
from compiler.graph.graph import Node

__all__ = ["Work", "block_products", "work_of"]


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


def work_of(layer: Layer) -> Work:
    def size(*roles: str) -> int:
        return sum(layer.operator.stages[role].buffer.size_bytes for role in roles)

    return Work(layer.node, layer.macs, block_products(layer), size(*layer.inputs),
                size(*layer.constants, "output"), layer.note)


def block_products(layer: Layer) -> int:
    """Cycles that gemm needs at one block product a cycle; 0 for layers without products."""
    if "w" not in layer.operator.stages:
        return 0
    acc = layer.operator["acc"]
    *steps, _ = (axis.extent for axis in acc.reduce_axes)       # without the lanes of a product
    return int(np.prod(acc.shape[:-2]) * np.prod(steps))
