"""Builders of convolutions and dense layers of floats that are stored in few bits."""

from accel.mapping.builders.layer import MappedLayer, in_line, stage_of
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.layout import pack_records, pack_weights
from accel.mapping.operators import floats
from accel.mapping.operators.blocked import Activation, Blocks, Window
from compiler.graph.graph import Graph, Node
from compiler.ops.records.stored_floats import AFFINE, FLOAT_PRODUCTS

OPERATORS = FLOAT_PRODUCTS


def refusal(node: Node, blocks: Blocks) -> str | None:
    """The reason why a machine cannot have a product of floats; None where it can."""
    attrs = node.attrs
    for role, mine in (("element", blocks.element), ("weight", blocks.weight)):
        if attrs[role] != mine:
            return f"its {role}s are {attrs[role]}; gemm of the machine takes {mine}"
    if attrs["lanes"] != blocks.block_in:
        return (f"it sums {attrs['lanes']} products at once; gemm of the machine sums "
                f"{blocks.block_in}, and the order of sums is part of what it means")
    return None


def convolution(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps a convolution."""
    attrs, weights = node.attrs, graph.constants[node.inputs[1]]
    window = Window(weights.shape[2:], attrs["strides"], attrs["pads"],
                    attrs.get("dilations", (1, 1)))
    return _layer(node, graph, known[node.inputs[0]], window, blocks)


def dense(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps rows times a matrix to a convolution of single pixels, which share the weights that a
    tile loads."""
    return _layer(node, graph, in_line(known[node.inputs[0]], blocks), Window((1, 1)), blocks)


def _layer(node: Node, graph: Graph, x: Activation, window: Window, blocks: Blocks) -> MappedLayer:
    weights, scale, offset = (graph.constants[value] for value in node.inputs[1:])
    weights = weights.reshape(len(weights), -1, *window.kernel)
    operator = floats.convolution(stage_of(node), x, len(weights), window,
                                  bool(node.attrs["relu"]), blocks)
    records = pack_records(AFFINE, {"scale": scale, "offset": offset}, len(weights), blocks)
    height, width = window.outputs(x)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {
        "w": pack_weights(weights, x, blocks), "params": records},
        x.n * height * width * weights.size)
