"""Copies: reshapes, slices, pads, repeated pixels and concatenations."""

import math
from dataclasses import replace

import numpy as np

from accel.mapping.builders.layer import MappedLayer, quantization_of, rows_within, stage_of
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.layout import pack_params
from accel.mapping.memory.nodes import keeps_scale
from accel.mapping.operators import blocked, movement, products
from accel.mapping.operators.blocked import Activation, Blocks
from compiler.graph.graph import Graph, Node
from compiler.graph.passes.pads import sides_of


def copy(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps a reshape, transpose or slice that strides cannot express."""
    form = known.of(node)
    assert form.copy
    source, target = form.copy
    operator = products.moved(stage_of(node), source.shape, blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {}, views={"x": source},
                       **rows_within(operator, target, blocks, False))


def upsample(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps repeated pixels."""
    x, factors = known[node.inputs[0]], node.attrs["factors"]
    return MappedLayer(node, movement.upsample(stage_of(node), x, factors, blocks),
                       {"x": node.inputs[0]}, {})


def pad(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps a pad of rows and columns."""
    x, sides = known[node.inputs[0]], sides_of(graph, node)
    assert sides is not None
    value = int(graph.constants[node.inputs[1]].item())
    return MappedLayer(node, movement.surrounded(stage_of(node), x, sides, value, blocks),
                       {"x": node.inputs[0]}, {})


def pad_refusal(graph: Graph, node: Node) -> str | None:
    """Why a pad is none of rows and columns."""
    return None if sides_of(graph, node) else (
        "it is no pad of rows and columns with one number; the accelerator has no other")


def cut(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps a slice of images that is not read where it lies."""
    x = known[node.inputs[0]]
    n, c, h, w = (*graph.values[node.outputs[0]].shape, 1, 1)[:4]
    result = Activation(n, c, h, w)
    image, channel, row, column = (*node.attrs["begin"], 0, 0)[:4]
    apart, _, down, across = (*node.attrs["step"], 1, 1)[:4]
    if (image, n) != (0, x.n) and blocks.batch > 1 and not x.plain:
        raise LoweringError(f"it takes {n} of {x.n} images; with batches of {blocks.batch} the "
                            "accelerator takes them all")
    operator = movement.crop(stage_of(node), x, result, (image, channel, row, column),
                            (apart, down, across), blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {})


def cut_refusal(graph: Graph, node: Node) -> str | None:
    """Why a slice of images is none of neighbours."""
    step, channels = node.attrs["step"][1], graph.values[node.outputs[0]].shape[1]
    if step != 1 and channels > 1:
        return f"it takes one of {step} channels; the accelerator takes neighbours"
    return None


def concat(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> tuple[MappedLayer, ...]:
    """One layer for each input that does not lie in the result already; it writes the input's
    channels, and the last one pads the result. Along other axes each writes whole pixels.
    """
    if node.name in known.by_strides:
        return _joined_rows(node, graph, known, blocks)
    if node.attrs.get("axis", 1) != 1:
        return _joined_images(node, known, blocks)
    parts = [known[value] for value in node.inputs]
    result = replace(parts[0], c=sum(x.c for x in parts), plain=False)
    layers: list[MappedLayer] = []
    at = 0
    for index, x in enumerate(parts):
        last = index == len(parts) - 1
        channels = known.room(node.outputs[0]) - at if last else x.c
        if node.inputs[index] not in known.of(node).holds:
            layers.append(_piece(node, index, x, channels, blocks, result, at))
        at += x.c
    return tuple(layers)


def _piece(node: Node, index: int, x: Activation, channels: int, blocks: Blocks,
           result: Activation, at: int) -> MappedLayer:
    operator = blocked.rescale(f"{stage_of(node)}_{index}", x, quantization_of(node), blocks,
                               channels)
    params = _params_of(node, index, operator["params"].shape[0], blocks)
    shape = result.stored_shape(blocks)
    pixels = (math.prod(shape[axis + 1:]) for axis in range(len(shape) - 1))
    return MappedLayer(node, operator, {"x": node.inputs[index]}, {"params": params},
                       part=str(index), offset=at, pitches=(*pixels, blocks.block_out, 1),
                       bounds=((-2, -1, channels),))


def _joined_rows(node: Node, graph: Graph, known: Forms, blocks: Blocks
                 ) -> tuple[MappedLayer, ...]:
    """A layer for each input that does not lie in the result already, which writes it among the
    rows of the result by strides.
    """
    axis, at = node.attrs.get("axis", 1), 0
    value, = node.outputs
    result = known.view(value)
    layers: list[MappedLayer] = []
    for index, source in enumerate(node.inputs):
        x = known.view(source)
        if x is None or result is None:
            raise LoweringError("batches of images are no rows of matrices")
        if node.inputs[index] in known.of(node).holds:
            at += x.shape[axis]
            continue
        q = None if keeps_scale(node, index, blocks.element) else quantization_of(node)
        operator = products.moved(f"{stage_of(node)}_{index}", x.shape, blocks, q)
        params = {} if q is None else {"params": _params_of(
            node, index, operator["params"].shape[0], blocks)}
        target = result.part(axis, x.shape[axis])
        layers.append(MappedLayer(
            node, operator, {"x": source}, params, part=str(index),
            offset=at * result.strides[axis], views={"x": x},
            **rows_within(operator, target, blocks, False)))
        at += x.shape[axis]
    return tuple(layers)


def put(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps a row that is put at the first place of a cache; the driver moves it to another."""
    (row, value), axis = (node.inputs[1], node.outputs[0]), node.attrs["axis"]
    x, result = known.view(row), known.view(value)
    if x is None or result is None:
        raise LoweringError("batches of images are no rows of matrices")
    operator = products.moved(stage_of(node), x.shape, blocks)
    return MappedLayer(node, operator, {"x": row}, {}, views={"x": x},
                       **rows_within(operator, result.part(axis, 1), blocks, False))


def _joined_images(node: Node, known: Forms, blocks: Blocks) -> tuple[MappedLayer, ...]:
    """A layer for each input, which writes whole pixels of images, rows or columns."""
    axis, at = node.attrs["axis"], 0
    result = known[node.outputs[0]]
    image, height, width, lane, channels = result.stored_shape(blocks)
    column = lane * channels
    apart = {0: height * width * column // blocks.batch, 2: width * column, 3: column}[axis]
    layers: list[MappedLayer] = []
    for index, x in enumerate(map(known.__getitem__, node.inputs)):
        if axis == 0 and at % blocks.batch:
            raise LoweringError(f"image {at} of its result does not begin a batch of "
                                f"{blocks.batch}")
        operator = blocked.rescale(f"{stage_of(node)}_{index}", x, quantization_of(node), blocks)
        params = _params_of(node, index, operator["params"].shape[0], blocks)
        layers.append(MappedLayer(
            node, operator, {"x": node.inputs[index]}, {"params": params}, part=str(index),
            offset=at * apart, pitches=(height * width * column, width * column, column, channels,
                                        blocks.block_out, 1)))
        at += (x.n, x.c, x.h, x.w)[axis]
    return tuple(layers)


def _params_of(node: Node, index: int, count: int, blocks: Blocks) -> np.ndarray:
    """The records by which an input of a concatenation is requantized, for blocks of channels."""
    bias, mult, shift = (node.attrs[name][index] for name in ("bias", "mult", "shift"))
    return pack_params(bias, mult, shift, count * blocks.block_out, blocks)[:count]
