"""Pools and means."""

import math
from functools import partial

import numpy as np

from accel.mapping.builders.layer import MappedLayer, quantization_of, stage_of
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.layout import pack_params, pack_pixel_params
from accel.mapping.memory.nodes import is_of_rows
from accel.mapping.operators import pools
from accel.mapping.operators.blocked import Activation, Blocks, Window
from compiler.graph.graph import Graph, Node


def max_pool(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps a pool by maximum."""
    x = known[node.inputs[0]]
    window = Window(node.attrs["kernel"], node.attrs["strides"], node.attrs["pads"],
                    node.attrs.get("dilations", (1, 1)))
    operator = pools.max_pool(stage_of(node), x, window, blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {})


def average_pool(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps a pool by average, with one multiplier or one for each window."""
    x, (mult, shift) = known[node.inputs[0]], (graph.constants[v] for v in node.inputs[1:])
    window = Window(node.attrs["kernel"], node.attrs["strides"], node.attrs["pads"])
    pixelwise = mult.shape != (1, 1)
    operator = pools.average_pool(stage_of(node), x, window, node.attrs["pad_value"],
                                    quantization_of(node), blocks, pixelwise)
    pack = pack_pixel_params if pixelwise else partial(pack_params, channels=x.c)
    params = pack(node.attrs["bias"], mult, shift, blocks=blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {"params": params})


def global_average_pool(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps the mean of each channel."""
    x = known[node.inputs[0]]
    operator = pools.global_average_pool(stage_of(node), x, quantization_of(node), blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]},
                       {"params": _scalars(node, x.c, blocks)})


def mean(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps a mean to that of images: of one row each where it takes the rows of matrices."""
    x, shape, axes = known[node.inputs[0]], graph.values[node.inputs[0]].shape, node.attrs["axes"]
    channels = x.c
    if is_of_rows(graph, node):
        outer, count = math.prod(shape[:axes[0]]), math.prod(shape[axes[0]:-1])
        x = _in_rows(x, outer, count, blocks)
    operator = pools.global_average_pool(stage_of(node), x, quantization_of(node), blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]},
                       {"params": _scalars(node, channels, blocks)})


def _scalars(node: Node, channels: int, blocks: Blocks) -> np.ndarray:
    bias, mult, shift = (node.attrs[k] for k in ("bias", "mult", "shift"))
    return pack_params(bias, mult, shift, channels, blocks)


def _in_rows(x: Activation, images: int, columns: int, blocks: Blocks) -> Activation:
    """Turns rows of matrices into images of one row. Rows lie one after the other whatever the
    batch, as the pixels of plain images do.
    """
    if x.plain or blocks.batch == 1:
        return Activation(images, x.c, 1, columns, x.plain)
    return Activation(images, blocks.padded(x.c), 1, columns, plain=True)


def mean_refusal(graph: Graph, node: Node) -> str | None:
    """Why a mean is none of images, nor of rows that lie together."""
    shape, axes = graph.values[node.inputs[0]].shape, tuple(node.attrs["axes"])
    if len(graph.values[node.outputs[0]].shape) < 2:
        return "its result has 1 dimension; the accelerator takes 2 and more"
    if axes != tuple(range(axes[0], len(shape) - 1)) and (axes != (2, 3) or len(shape) != 4):
        return (f"it is a mean along axes {axes} of {len(shape)}; the accelerator takes rows and "
                "columns of images, or axes right before the last")
    return None
