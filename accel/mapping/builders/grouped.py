"""Builders of products whose weights are integers of few bits times factors of groups."""

import numpy as np

from accel.machine.machine import Machine
from accel.mapping.builders.layer import MappedLayer, in_line, quantization_of, stage_of
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.memory.factors import Factors, factors_of
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.layout import pack_params, pack_weights
from accel.mapping.operators.blocked import Blocks
from accel.mapping.operators.groups import GroupSteps, added, product_in_groups, scaled
from accel.mapping.selecting.selection import covered
from compiler.graph.graph import Graph, Node
from compiler.ops.records.planes import are_planes
from compiler.tensorize.cover import COMPUTED

OPERATORS = ("qdense", "qconv2d")


def product_of_groups(node: Node, graph: Graph, known: Forms, machine: Machine, blocks: Blocks
                      ) -> MappedLayer | None:
    """Maps a product of single pixels whose weights of 16 bits are integers of 8 bits, or fewer,
    times factors of groups; None of any other."""
    matrix = _matrix(node, graph, known)
    if matrix is None or blocks.weight != "int8" or blocks.product is not None:
        return None
    found = factors_of(matrix, blocks.block_in)
    if found is None:
        return None
    x, steps = in_line(known[node.inputs[0]], blocks), _steps(machine, found, blocks)
    operator = product_in_groups(stage_of(node), x, len(matrix), quantization_of(node), blocks,
                                 steps)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {
        "w": pack_weights(found.integers[:, :x.c, None, None], x, blocks),
        "factors": found.packed(blocks.block_out, blocks.padded(len(matrix))),
        **_records(node, graph, blocks)}, x.n * x.h * x.w * matrix.size, note=_note(found, blocks))


def _matrix(node: Node, graph: Graph, known: Forms) -> np.ndarray | None:
    """The weight [channels, inputs] of a product of pixels alone, of 16 bits."""
    weight = graph.constants.get(node.inputs[1]) if node.op in OPERATORS else None
    if weight is None or weight.dtype != np.int16 or are_planes(node):
        return None
    x = known[node.inputs[0]]
    alone = (x.h, x.w) == (1, 1) if node.op == "qdense" else (
        weight.shape[2:] == (1, 1) and node.attrs.get("group", 1) == 1
        and set(node.attrs["strides"]) == {1} and set(node.attrs["pads"]) == {0})
    return weight.reshape(len(weight), -1) if alone else None


def _steps(machine: Machine, found: Factors, blocks: Blocks) -> GroupSteps:
    """The instructions of vector. Refuses a machine that lacks them."""
    scale = covered(machine, scaled(found.bytes_, blocks.accumulator), COMPUTED)
    add, *others = covered(machine, added(blocks.accumulator), COMPUTED)
    if others:
        raise LoweringError("no vector instruction adds two numbers of acc")
    return GroupSteps(found.blocks, found.bytes_, scale, add)


def _records(node: Node, graph: Graph, blocks: Blocks) -> dict[str, np.ndarray]:
    """The records of channels, by role."""
    bias, *factors = (graph.constants[value] for value in node.inputs[2:])
    return {f"params_{place}" if place else "params": pack_params(bias, mult, shift, len(mult),
                                                                  blocks)
            for place, (mult, shift) in enumerate(zip(factors[::2], factors[1::2], strict=True))}


def _note(found: Factors, blocks: Blocks) -> str:
    """The form of its weights."""
    return f"scales of {8 * found.bytes_} bits for groups of {found.blocks * blocks.block_in}"
