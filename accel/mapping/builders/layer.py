"""A layer of the accelerator: what a node of an integer graph, or a part of one, becomes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from accel.mapping.memory.forms import Forms
from accel.mapping.memory.layout import pack_elements, pack_params, stored_bytes
from accel.mapping.memory.views import View
from accel.mapping.operators import blocked
from accel.mapping.operators.blocked import Activation, BlockedOperator, Blocks, Quantization
from compiler.graph.graph import Graph, Node
from compiler.ops.records.planes import PLANES, are_planes
from compiler.ops.registry import find
from compiler.te import bits


@dataclass(frozen=True)
class MappedLayer:
    """One node, or a part of it that writes some of its result, ready to be scheduled.

    Parameters
    ----------
    operator : the stages that compute it.
    inputs : the role of each activation that it reads, with the value's name in the graph.
    constants : the role of each constant, with its packed bytes.
    macs : useful multiply-accumulates.
    part : which part; "" when the layer is the whole node.
    offset, pitches : where a part writes: elements from the start of the result, and the distance
        in elements of neighbours in each dimension of the operator's output.
    bounds : where the written channels or rows end within a block, as in `TensorPlacement`.
    views : strides, by role, of inputs that are neither images nor rows.
    note : what the user should know about how it is computed.
    result, room : the value that it writes, and its elements, where that is none of the graph: a
        layer of the same node reads it.
    """

    node: Node
    operator: BlockedOperator
    inputs: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    macs: int = 0
    part: str = ""
    offset: int = 0
    pitches: tuple[int, ...] = ()
    bounds: tuple[tuple[int, int, int], ...] = ()
    views: Mapping[str, View] = field(default_factory=dict)
    note: str = ""
    result: str = ""
    room: int = 0

    @property
    def name(self) -> str:
        return f"{self.node.name}:{self.part}" if self.part else self.node.name

    @property
    def written(self) -> str:
        """The value that it writes, or writes a part of."""
        return self.result or self.node.outputs[0]

    def size(self, *roles: str) -> int:
        """The bytes of these tensors in memory."""
        stages, bits = self.operator.stages, self.operator.weight_bits
        return sum(stages[role].buffer.size_bytes * (bits if role == "w" else 8) // 8
                   for role in roles)

    def stored(self, role: str) -> np.ndarray:
        """The bytes of a constant in memory."""
        array, bits = self.constants[role], self.operator.weight_bits
        return pack_elements(array, bits) if role == "w" and bits < 8 else stored_bytes(array)


Builder = Callable[[Node, Graph, Forms, Blocks], MappedLayer | tuple[MappedLayer, ...]]


def quantization_of(node: Node) -> Quantization:
    """The zero point of a node's result, its bounds, and whether it has inputs for below zero; or
    the planes of its sums."""
    if are_planes(node):
        return Quantization(0, planes=node.attrs[PLANES])
    return Quantization(node.attrs["zp"], node.attrs["lo"], node.attrs["hi"],
                        find(node.op).below and len(node.inputs) > 5)


def stage_of(node: Node) -> str:
    """The node's name as a prefix of identifiers."""
    return "".join(c if c.isalnum() else "_" for c in node.name)


def in_line(x: Activation, blocks: Blocks) -> Activation:
    """Turns images of one pixel into the pixels of one row, so a tile can hold many of them."""
    if (x.h, x.w) != (1, 1) or (x.plain and blocks.batch > 1):
        return x
    return Activation(blocks.batch, x.c, 1, -(-x.n // blocks.batch), x.plain)


def rows_within(operator: BlockedOperator, z: View, blocks: Blocks,
                 padded: bool, planes: int = 0) -> dict[str, Any]:
    """Pitches of the rows of matrices in memory, and where they end unless they are `padded`: of
    rows in `planes` each of these."""
    *around, rows, elements = z.strides
    elements = 1 if padded else elements        # padding lies beside an only element
    several = [stride for stride, extent in zip(around, z.shape, strict=False) if extent > 1]
    columns, between = z.shape[-1] // max(planes, 1), bool(planes)
    bounds = ((-2, -1, columns), (-4 - between, -3 - between, z.shape[-2]))
    reach = (operator.output.shape[-2] * blocks.block_out,
             operator.output.shape[-4 - between] * blocks.batch)
    apart = (elements * columns,) if planes else ()
    return {"pitches": (*(several or [0]), 0, rows * blocks.batch, rows, *apart,
                        elements * blocks.block_out, elements),
            "bounds": () if padded and not planes else tuple(
                bound for bound, size in zip(bounds, reach, strict=True) if bound[2] < size)}


def plane_records(node: Node, blocks: Blocks) -> np.ndarray:
    """The record of each plane, which says how far down its elements are shifted."""
    count = node.attrs[PLANES]
    shifts = np.repeat(np.arange(count) * bits(blocks.element), blocks.block_out)
    return pack_params(shifts, 0, 0, len(shifts), blocks)[:count]


def plane_note(node: Node, blocks: Blocks) -> str:
    """The fate of sums that nothing quantizes."""
    return f"sums of {node.attrs[PLANES] * bits(blocks.element) // 8} bytes"


def planes_within(node: Node, operator: BlockedOperator, result: Activation, blocks: Blocks
                  ) -> dict[str, Any]:
    """Pitches of the planes of sums among the channels of a result, and where they end: at a
    channel that need not begin a block."""
    *_, batch, whole = result.stored_shape(blocks)
    axes, (*_, count, size) = operator.axes["output"], operator.output.shape
    channels, row = result.c // node.attrs[PLANES], result.w * batch * whole
    apart = {"n": result.h * row, "y": row, "x": batch * whole, "b": whole, "s": channels,
             "g": count * size, "c": size, "o": 1}
    return {"pitches": tuple(apart[axis] for axis in axes),
            "bounds": ((-2, -1, channels),) if "g" not in axes and count * size > channels else ()}


def leading_refusal(graph: Graph, node: Node) -> str | None:
    """Why a product, or a concatenation of rows, has too many dimensions."""
    leading = [extent for extent in graph.values[node.outputs[0]].shape[:-2] if extent > 1]
    if len(leading) > len(blocked.AROUND):
        return (f"it has {len(leading)} leading dimensions; the accelerator takes "
                f"{len(blocked.AROUND)}")
    return None
