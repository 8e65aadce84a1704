"""Products on the array, or on vector: convolutions, dense layers, products of matrices."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from accel.mapping.builders.layer import (MappedLayer, in_line, plane_note, plane_records,
                                          planes_within, quantization_of, rows_within, stage_of)
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.grouping import Grouped, grouped
from accel.mapping.memory.layout import pack_params, pack_weights, pack_windows
from accel.mapping.memory.views import View
from accel.mapping.memory.weights import in_entries
from accel.mapping.operators import blocked, convolutions, products, windows
from accel.mapping.operators.blocked import Activation, BlockedOperator, Blocks, Window
from accel.mapping.operators.convolutions import ConvolutionForm
from accel.mapping.operators.products import Planes
from accel.mapping.operators.transposed import Phases, phases
from compiler.graph.graph import Graph, Node
from compiler.ops.records.planes import PLANES, are_planes
from compiler.ops.integers.arithmetic import PARAM
from compiler.te import bits, numpy_dtype
from compiler.tensorize import Intrinsic


def convolution(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps a convolution, of groups too."""
    x, weights = known[node.inputs[0]], graph.constants[node.inputs[1]]
    window = window_of(node, graph)
    whole = grouped(weights, node.attrs.get("group", 1), blocks, are_planes(node))
    pad_value, channels = node.attrs["pad_value"], len(weights)
    if whole.groups == 1:
        dense = whole.weights[0, :channels, :x.c]
        layer = _products(node, graph, x, dense, window, pad_value, blocks)
    else:
        bias = _bias(node, graph)
        layer = _of_form(node, graph, x, window, blocks, [(whole, bias)], (1, 1))
    macs = x.n * int(np.prod(window.outputs(x))) * weights.size
    return _placed(replace(layer, macs=macs, note=whole.note), known, blocks)


def _placed(layer: MappedLayer, known: Forms, blocks: Blocks) -> MappedLayer:
    """The layer with the places of its planes, where it has such."""
    node, operator = layer.node, layer.operator
    if not are_planes(node):
        return layer
    places = planes_within(node, operator, known[node.outputs[0]], blocks)
    note = "; ".join(filter(None, (layer.note, plane_note(node, blocks))))
    return replace(layer, note=note, **places)


def _bias(node: Node, graph: Graph) -> np.ndarray:
    """The bias of each channel, none where sums stay as they are."""
    return np.zeros(0) if are_planes(node) else graph.constants[node.inputs[2]]


def _of_form(node: Node, graph: Graph, x: Activation, window: Window, blocks: Blocks,
             kernels: Sequence[tuple[Grouped, np.ndarray]], phases: tuple[int, int]) -> MappedLayer:
    """Maps a convolution with groups or phases, each with its weights and its bias."""
    channels, first = len(graph.constants[node.inputs[1]]), kernels[0][0]
    form = ConvolutionForm(first.groups, first.diagonal, phases)
    weights, blocks = in_entries(np.stack([weights.packed(blocks) for weights, _ in kernels]),
                                 blocks)
    operator = convolutions.convolution(
        stage_of(node), x, channels, window, node.attrs["pad_value"], quantization_of(node), blocks,
        form)
    params = [_records(node, graph, blocks, bias) for _, bias in kernels]
    stacked = {role: np.array([records[role] for records in params], numpy_dtype(PARAM))
               for role in params[0]}
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {"w": weights, **stacked})


def _records(node: Node, graph: Graph, blocks: Blocks, bias: np.ndarray) -> dict[str, np.ndarray]:
    """The records of channels, by role: two where what is below zero has its own. Or those of
    planes."""
    if are_planes(node):
        return {"params": plane_records(node, blocks)}
    factors = [graph.constants[value] for value in node.inputs[3:]]
    return {f"params_{place}" if place else "params": pack_params(bias, mult, shift, len(mult),
                                                                  blocks)
            for place, (mult, shift) in enumerate(zip(factors[::2], factors[1::2], strict=True))}


def transposed_convolution(node: Node, graph: Graph, known: Forms,
                            blocks: Blocks) -> tuple[MappedLayer, ...]:
    """One layer for each pair of row phases and column phases that see one window."""
    sizes = graph.values[node.outputs[0]].shape[2:]
    kernel = graph.constants[node.inputs[1]].shape[2:]
    rows, columns = (phases(*axis) for axis in zip(
        sizes, kernel, node.attrs["strides"], node.attrs["pads"][:2],
        node.attrs.get("dilations", (1, 1)), (blocks.phases, blocks.phases), strict=True))
    first, *others = (_part(node, graph, known[node.inputs[0]], sizes, down, across, blocks)
                      for down, across in product(rows, columns))
    return (first, *others) if others else (replace(first, part=""),)


def _part(node: Node, graph: Graph, x: Activation, sizes: tuple[int, ...], down: Phases,
          across: Phases, blocks: Blocks) -> MappedLayer:
    """Maps some phases of a transposed convolution to one convolution."""
    weights, bias = (graph.constants[value] for value in node.inputs[1:3])
    outputs = (down.outputs, across.outputs)
    window = Window((down.kernel, across.kernel), (1, 1), (down.before, across.before, 0, 0),
                    (down.dilation, across.dilation))
    after = (extent - 1 + reach - size - before for extent, reach, size, before
             in zip(outputs, window.reach, (x.h, x.w), window.pads[:2], strict=True))
    window = replace(window, pads=(*window.pads[:2], *after))
    kernels, taps = [], 0
    for tall, wide in product(down.taps, across.taps):
        kernel = np.zeros((*weights.shape[:2], *window.kernel), weights.dtype)
        if tall and wide:
            kernel[...] = weights[:, :, tall][..., wide]
            taps += len(tall) * len(wide)
        whole = grouped(kernel, node.attrs.get("group", 1), blocks)
        kernels.append((whole, _bias_of_phase(node, weights, bias, kernel)))
    layer = _of_form(node, graph, x, window, blocks, kernels, (len(down.taps), len(across.taps)))
    result = Activation(x.n, len(weights), sizes[0], sizes[1])
    pixels = x.n * down.outputs * across.outputs
    return replace(layer, part=f"{down.first},{across.first}",
                   macs=pixels * taps * len(weights) * weights.shape[1],
                   note=kernels[0][0].note, **_pitches(node, layer.operator, result, down, across,
                                                     blocks))


def _bias_of_phase(node: Node, weights: np.ndarray, bias: np.ndarray,
                   kernel: np.ndarray) -> np.ndarray:
    """The bias, plus the products of the other phases' taps with the padding between pixels."""
    total, mine = (w.sum(axis=(1, 2, 3), dtype=np.int64) for w in (weights, kernel))
    total_bias = bias + node.attrs["pad_value"] * (total - mine)
    if np.any(total_bias != total_bias.astype(np.int32)):
        raise LoweringError("Bias of every phase must fit int32")
    return total_bias.astype(np.int32)


def _pitches(node: Node, operator: BlockedOperator, result: Activation, down: Phases,
             across: Phases, blocks: Blocks) -> dict[str, Any]:
    """Offset and pitches of the phases' pixels among those of the result."""
    *_, batch, channels = result.stored_shape(blocks)
    return {"offset": (down.first * result.w + across.first) * batch * channels,
            "pitches": _of_phases(operator, result, node.attrs["strides"], blocks)}


def _of_phases(operator: BlockedOperator, result: Activation, pixels: tuple[int, int],
               blocks: Blocks) -> tuple[int, ...]:
    """Pitches of a result of which positions are so many rows and columns of pixels apart."""
    (down, across), (*_, batch, channels) = pixels, result.stored_shape(blocks)
    column = batch * channels
    row = result.w * column
    block = operator.output.shape[-2] * blocks.block_out
    apart = {"n": result.h * row, "y": down * row, "p": row, "x": across * column, "q": column,
             "b": channels, "g": block, "c": blocks.block_out, "o": 1}
    return tuple(apart[axis] for axis in operator.axes["output"])


def dense(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    """Maps a dense layer to a convolution whose kernel is the whole image, so a flattened image
    keeps its layout. Images of one pixel become pixels of one image and share the weights that a
    tile loads.
    """
    x, matrix = known[node.inputs[0]], graph.constants[node.inputs[1]]
    weights = matrix.reshape(len(matrix), x.c, x.h, x.w)
    layer = _products(node, graph, in_line(x, blocks), weights, Window((x.h, x.w)), 0, blocks)
    return _placed(replace(layer, macs=x.n * weights.size), known, blocks)


def shared_windows(node: Node, graph: Graph, x: Activation, blocks: Blocks, pixels: windows.Pixels
                   ) -> MappedLayer:
    """Maps a convolution of few channels in which windows of so many pixels share entries."""
    weights, window = graph.constants[node.inputs[1]], window_of(node, graph)
    packed = np.stack([pack_windows(each, blocks)
                       for each in windows.spread_weights(weights, window, pixels)])
    packed, blocks = in_entries(packed, blocks)
    operator = windows.shared_windows(
        stage_of(node), x, len(weights), window, node.attrs["pad_value"], quantization_of(node),
        blocks, pixels)
    records = _records(node, graph, blocks, _bias(node, graph))
    stacked = {role: np.broadcast_to(one, (len(packed), *one.shape))
               for role, one in records.items()}
    result = Activation(x.n, len(weights), *window.outputs(x))
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {"w": packed, **stacked},
                       x.n * result.h * result.w * weights.size,
                       note=f"{pixels[0]} x {pixels[1]} windows share entries",
                       pitches=_of_phases(operator, result, pixels, blocks))


def window_of(node: Node, graph: Graph) -> Window:
    """The window of a convolution."""
    return Window(graph.constants[node.inputs[1]].shape[2:], node.attrs["strides"],
                  node.attrs["pads"], node.attrs.get("dilations", (1, 1)))


def _products(node: Node, graph: Graph, x: Activation, weights: np.ndarray, window: Window,
              pad_value: int, blocks: Blocks) -> MappedLayer:
    channels, (height, width) = len(weights), window.outputs(x)
    packed = blocked.packed_blocks(x, window, blocks) > 0
    form = blocked.packed_convolution if packed else blocked.convolution
    w = pack_windows(weights, blocks) if packed else pack_weights(weights, x, blocks)
    w, blocks = in_entries(w, blocks)
    operator = form(stage_of(node), x, channels, window, pad_value, quantization_of(node), blocks)
    params = _records(node, graph, blocks, _bias(node, graph))
    return MappedLayer(node, operator, {"x": node.inputs[0]}, {"w": w, **params},
                       x.n * height * width * weights.size)


def depthwise(node: Node, graph: Graph, known: Forms, blocks: Blocks,
               body: Intrinsic) -> MappedLayer:
    """Maps a depthwise convolution to an instruction of vector."""
    x, (weights, bias) = known[node.inputs[0]], (graph.constants[value]
                                                 for value in node.inputs[1:3])
    window = window_of(node, graph)
    operator = blocked.depthwise(stage_of(node), x, window, node.attrs["pad_value"],
                                 quantization_of(node), blocks, body)
    channels = len(weights)
    taps = np.array([pack_params(tap, 0, 0, channels, blocks)
                     for tap in weights.reshape(channels, -1).T], numpy_dtype(PARAM))
    taps = taps.swapaxes(0, 1).reshape(-1, *window.kernel, blocks.block_out)
    return MappedLayer(node, operator, {"x": node.inputs[0]},
                       {"params_taps": taps,
                        **_records(node, graph, blocks, bias)},
                       x.n * int(np.prod(window.outputs(x))) * weights.size,
                       note=f"by {body.name}")


def matrix_product(node: Node, graph: Graph, known: Forms, blocks: Blocks) -> MappedLayer:
    x, y, z = (known.view(value) for value in (*node.inputs, *node.outputs))
    if x is None or y is None or z is None:
        raise LoweringError("batches of images are no rows of matrices")
    x, y, z = _one_matrix(x, y, z)
    a, b, shape, trans_b = x.shape, y.shape, z.shape, bool(node.attrs["trans_b"])
    planes = Planes(a[-1], node.attrs.get("a_zp", 0), node.attrs.get("b_zp", 0))
    _check_planes(planes, blocks)
    operator = products.matrix_product(stage_of(node), a, b, trans_b, planes,
                                       quantization_of(node), blocks, planes.bias(blocks))
    result = known.of(node).stored
    padded = isinstance(result, Activation) and not result.plain
    if are_planes(node):
        return MappedLayer(node, operator, {"x": node.inputs[0], "y": node.inputs[1]},
                           {"params": plane_records(node, blocks)},
                           math.prod(shape) // node.attrs[PLANES] * a[-1],
                           views={"x": x, "y": y}, note=plane_note(node, blocks),
                           **rows_within(operator, z, blocks, padded, node.attrs[PLANES]))
    bias = node.attrs["bias"] + planes.bias(blocks)
    params = pack_params(bias, node.attrs["mult"], node.attrs["shift"], shape[-1], blocks)
    return MappedLayer(node, operator, {"x": node.inputs[0], "y": node.inputs[1]},
                       {"params": params}, math.prod(shape) * a[-1], views={"x": x, "y": y},
                       **rows_within(operator, z, blocks, padded))


def _one_matrix(a: View, b: View, z: View) -> tuple[View, View, View]:
    """Merge all rows of `a` into one matrix where all meet the same `b` and strides allow it."""
    if math.prod(b.shape[:-2]) == 1 and len(a.shape) > 2:
        flat = [view.reshaped((math.prod(view.shape[:-1]), view.shape[-1])) for view in (a, z)]
        matrix = b.reshaped(b.shape[-2:])
        if flat[0] and flat[1] and matrix:
            return flat[0], matrix, flat[1]
    return a, b, z


def _check_planes(planes: Planes, blocks: Blocks) -> None:
    worst = 128 * 128 * planes.count * planes.blocks(blocks) * blocks.block_in
    most = 2**(min(bits(blocks.accumulator), 32) - 1)
    if worst + abs(planes.bias(blocks)) >= most:
        raise LoweringError(f"its accumulator could reach {worst} with the zero points "
                            f"{planes.a_zp} and {planes.b_zp}, beyond {most - 1}")
