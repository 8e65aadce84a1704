"""Nodes of an integer graph as layers of the accelerator: operator, constants, connections."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from accel.grouping import Grouped, grouped
from accel.layout import pack_params, pack_pixel_params, pack_weights, pack_windows
from accel.lowering.nest import LoweringError
from compiler.graph.graph import Graph, Node
from compiler.ops import blocked, blocked_convolutions
from compiler.ops.arithmetic import PARAM
from compiler.ops.blocked import Activation, Blocks, Operator, Quantization, Window
from compiler.ops.blocked_convolutions import Form
from compiler.ops.transposed import Phases, phases
from compiler.te import numpy_dtype

__all__ = ["LAYERS", "Layer", "activation_of", "build_layers", "is_view", "refusal", "view_of"]


@dataclass(frozen=True)
class Layer:
    """One node, or a part of it that writes some of its result, ready to be scheduled.

    Parameters
    ----------
    operator : its stages.
    inputs : role of each activation it reads, and the value's name in the graph.
    constants : role of each constant, and its packed bytes.
    macs : useful multiply-accumulates.
    part : which part; "" when the layer is the whole node.
    offset, pitches : where a part writes: bytes from the start of the result, and how many bytes
        neighbours are apart in each dimension of the operator's output.
    channels : how many a part writes, blocks and lanes being the last dimensions; 0: all there are.
    note : what the user should know about how it is computed.
    """

    node: Node
    operator: Operator
    inputs: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    result: Activation
    macs: int = 0
    part: str = ""
    offset: int = 0
    pitches: tuple[int, ...] = ()
    channels: int = 0
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.node.name}:{self.part}" if self.part else self.node.name


Activations = Mapping[str, Activation]
"""What every value looks like in memory: views share the activation that they show."""

Builder = Callable[[Node, Graph, Activations, Blocks], Layer | tuple[Layer, ...]]


def refusal(graph: Graph, node: Node) -> str | None:
    """None when the accelerator can run the node, else the reason why not."""
    if is_view(graph, node):
        return _view_refusal(graph, node)
    if node.op not in LAYERS:
        return f"the accelerator has no operator {node.op}"
    rank = len(graph.values[node.inputs[0]].shape)
    if rank not in (2, 4):
        return f"its input has {rank} dimensions; the accelerator takes NCHW or NC"
    if graph.values[node.inputs[0]].dtype != "int8":
        return f"its input is {graph.values[node.inputs[0]].dtype}; the accelerator takes int8"
    return REFUSALS[node.op](graph, node) if node.op in REFUSALS else None


def activation_of(graph: Graph, value: str, plain: bool = False) -> Activation:
    """What an int8 value of two or four dimensions looks like in the accelerator's memory; a view
    that the accelerator takes looks like what it shows.
    """
    node = graph.producers().get(value)
    if node and is_view(graph, node) and _view_refusal(graph, node) is None:
        return view_of(activation_of(graph, node.inputs[0]), graph, node)
    n, c, h, w = (*graph.values[value].shape, 1, 1)[:4]
    return Activation(n, c, h, w, plain)


def is_view(graph: Graph, node: Node) -> bool:
    return node.op == "reshape" and graph.values[node.inputs[0]].dtype == "int8"


def view_of(x: Activation, graph: Graph, node: Node) -> Activation:
    """What a view shows of `x`: other rows and columns of the same pixels, or a flattened image,
    which keeps its layout.
    """
    shape = graph.values[node.outputs[0]].shape
    return replace(x, h=shape[2], w=shape[3]) if len(shape) == 4 else x


def _view_refusal(graph: Graph, node: Node) -> str | None:
    before, after = (graph.values[v].shape for v in (node.inputs[0], node.outputs[0]))
    if len(before) in (2, 4) and len(after) == 4 and before[:2] == after[:2]:
        return None
    if len(before) not in (2, 4) or len(after) != 2 or before[0] != after[0]:
        return f"reshape from {before} to {after} neither keeps nor flattens the channels"
    if len(before) == 4 and before[2:] != (1, 1):
        readers = [n for n in graph.nodes if node.outputs[0] in n.inputs]
        if node.outputs[0] in graph.outputs or any(n.op != "qdense" for n in readers):
            return "a flattened image can be read by dense layers only"
    return None


def _quantization(node: Node) -> Quantization:
    return Quantization(node.attrs["zp"], node.attrs["lo"], node.attrs["hi"])


def _convolution(node: Node, graph: Graph, known: Activations, blocks: Blocks) -> Layer:
    x, weights = known[node.inputs[0]], graph.constants[node.inputs[1]]
    window = Window(weights.shape[2:], node.attrs["strides"], node.attrs["pads"],
                    node.attrs.get("dilations", (1, 1)))
    whole = grouped(weights, node.attrs.get("group", 1), blocks)
    pad_value, channels = node.attrs["pad_value"], len(weights)
    if whole.groups == 1:
        dense = whole.weights[0, :channels, :x.c]
        layer = _products(node, graph, x, dense, window, pad_value, blocks)
    else:
        bias = graph.constants[node.inputs[2]]
        layer = _of_form(node, graph, x, window, blocks, [(whole, bias)], (1, 1))
    macs = x.n * int(np.prod(window.outputs(x))) * weights.size
    return replace(layer, macs=macs, note=whole.note)


def _of_form(node: Node, graph: Graph, x: Activation, window: Window, blocks: Blocks,
             kernels: Sequence[tuple[Grouped, np.ndarray]], phases: tuple[int, int]) -> Layer:
    """A convolution with groups or phases, of which each has its weights and its bias."""
    mult, shift = (graph.constants[value] for value in node.inputs[3:5])
    channels, first = len(mult), kernels[0][0]
    form = Form(first.groups, first.diagonal, phases)
    operator = blocked_convolutions.convolution(
        _stage(node), x, channels, window, node.attrs["pad_value"], _quantization(node), blocks,
        form)
    params = np.array([pack_params(bias, mult, shift, channels, blocks) for _, bias in kernels],
                      numpy_dtype(PARAM))
    weights = np.stack([weights.packed(blocks) for weights, _ in kernels])
    return Layer(node, operator, {"x": node.inputs[0]}, {"w": weights, "params": params},
                 Activation(x.n, channels, *window.outputs(x)))


def _transposed_convolution(node: Node, graph: Graph, known: Activations,
                            blocks: Blocks) -> tuple[Layer, ...]:
    """A layer for each choice of phases of rows and of columns that see one window."""
    sizes = graph.values[node.outputs[0]].shape[2:]
    kernel = graph.constants[node.inputs[1]].shape[2:]
    rows, columns = (phases(*axis) for axis in zip(
        sizes, kernel, node.attrs["strides"], node.attrs["pads"][:2],
        node.attrs.get("dilations", (1, 1)), strict=True))
    first, *others = (_part(node, graph, known[node.inputs[0]], sizes, down, across, blocks)
                      for down, across in product(rows, columns))
    return (first, *others) if others else (replace(first, part=""),)


def _part(node: Node, graph: Graph, x: Activation, sizes: tuple[int, ...], down: Phases,
          across: Phases, blocks: Blocks) -> Layer:
    """Some phases of a transposed convolution, as a convolution."""
    weights, bias = (graph.constants[value] for value in node.inputs[1:3])
    outputs = (down.outputs, across.outputs)
    window = Window((down.kernel, across.kernel), (1, 1), (down.before, across.before, 0, 0),
                    (down.dilation, across.dilation))
    after = (made - 1 + reach - size - before for made, reach, size, before
             in zip(outputs, window.reach, (x.h, x.w), window.pads[:2], strict=True))
    window = replace(window, pads=(*window.pads[:2], *after))
    kernels, taps = [], 0
    for tall, wide in product(down.taps, across.taps):
        kernel = np.zeros((*weights.shape[:2], *window.kernel), np.int8)
        if tall and wide:
            kernel[...] = weights[:, :, tall][..., wide]
            taps += len(tall) * len(wide)
        whole = grouped(kernel, node.attrs.get("group", 1), blocks)
        kernels.append((whole, _bias_of_phase(node, weights, bias, kernel)))
    layer = _of_form(node, graph, x, window, blocks, kernels, (len(down.taps), len(across.taps)))
    result = Activation(x.n, len(weights), sizes[0], sizes[1])
    pixels = x.n * down.outputs * across.outputs
    return replace(layer, result=result, part=f"{down.first},{across.first}",
                   macs=pixels * taps * len(weights) * weights.shape[1],
                   note=kernels[0][0].note, **_place(node, layer.operator, result, down, across,
                                                     blocks))


def _bias_of_phase(node: Node, weights: np.ndarray, bias: np.ndarray,
                   kernel: np.ndarray) -> np.ndarray:
    """The bias, and the products of the other taps with what is between pixels."""
    total, mine = (w.sum(axis=(1, 2, 3), dtype=np.int64) for w in (weights, kernel))
    made = bias + node.attrs["pad_value"] * (total - mine)
    if np.any(made != made.astype(np.int32)):
        raise LoweringError("Bias of every phase must fit int32")
    return made.astype(np.int32)


def _place(node: Node, operator: Operator, result: Activation, down: Phases, across: Phases,
           blocks: Blocks) -> dict[str, Any]:
    """Where the pixels of the phases lie among those of the result."""
    (sh, sw), (*_, batch, channels) = node.attrs["strides"], result.stored_shape(blocks)
    column = batch * channels
    row = result.w * column
    block = operator.output.shape[-2] * blocks.block_out
    apart = {"n": result.h * row, "y": sh * row, "p": row, "x": sw * column, "q": column,
             "b": channels, "g": block, "c": blocks.block_out, "o": 1}
    return {"offset": down.first * row + across.first * column,
            "pitches": tuple(apart[axis.var.name[-1]] for axis in operator.output.axes)}


def _dense(node: Node, graph: Graph, known: Activations, blocks: Blocks) -> Layer:
    """A convolution whose kernel is the whole image: a flattened one keeps its layout. Images of
    one pixel become pixels of one image, which share the weights that a tile loads.
    """
    x, matrix = known[node.inputs[0]], graph.constants[node.inputs[1]]
    weights = matrix.reshape(len(matrix), x.c, x.h, x.w)
    one = Activation(blocks.batch, x.c, 1, -(-x.n // blocks.batch), x.plain)
    same = (x.h, x.w) == (1, 1) and (not x.plain or blocks.batch == 1)
    layer = _products(node, graph, one if same else x, weights, Window((x.h, x.w)), 0, blocks)
    return replace(layer, result=Activation(x.n, len(matrix), 1, 1), macs=x.n * weights.size)


def _products(node: Node, graph: Graph, x: Activation, weights: np.ndarray, window: Window,
              pad_value: int, blocks: Blocks) -> Layer:
    channels, (height, width) = len(weights), window.outputs(x)
    packed = blocked.packed_blocks(x, window, blocks) > 0
    form = blocked.packed_convolution if packed else blocked.convolution
    operator = form(_stage(node), x, channels, window, pad_value, _quantization(node), blocks)
    bias, mult, shift = (graph.constants[v] for v in node.inputs[2:5])
    params = pack_params(bias, mult, shift, channels, blocks)
    w = pack_windows(weights, blocks) if packed else pack_weights(weights, x, blocks)
    return Layer(node, operator, {"x": node.inputs[0]}, {"w": w, "params": params},
                 Activation(x.n, channels, height, width),
                 x.n * height * width * weights.size)


def _matrix_product(node: Node, graph: Graph, known: Activations, blocks: Blocks) -> Layer:
    x, y = (known[value] for value in node.inputs)
    trans_b = bool(node.attrs["trans_b"])
    operator = blocked.matrix_product(_stage(node), x, y, trans_b, _quantization(node), blocks)
    rows, columns = graph.values[node.outputs[0]].shape
    result = Activation(rows, columns, 1, 1)
    return Layer(node, operator, {"x": node.inputs[0], "y": node.inputs[1]},
                 {"params": _scalars(node, result.c, blocks)}, result, x.n * x.c * result.c)


def _matrix_product_refusal(graph: Graph, node: Node) -> str | None:
    ranks = [len(graph.values[value].shape) for value in node.inputs]
    if ranks != [2, 2]:
        return (f"its inputs have {ranks[0]} and {ranks[1]} dimensions; the accelerator takes "
                "products of matrices")
    return None


def _max_pool(node: Node, graph: Graph, known: Activations, blocks: Blocks) -> Layer:
    x = known[node.inputs[0]]
    window = Window(node.attrs["kernel"], node.attrs["strides"], node.attrs["pads"])
    operator = blocked.max_pool(_stage(node), x, window, blocks)
    return Layer(node, operator, {"x": node.inputs[0]}, {},
                 Activation(x.n, x.c, *window.outputs(x)))


def _average_pool(node: Node, graph: Graph, known: Activations, blocks: Blocks) -> Layer:
    x, (mult, shift) = known[node.inputs[0]], (graph.constants[v] for v in node.inputs[1:])
    window = Window(node.attrs["kernel"], node.attrs["strides"], node.attrs["pads"])
    pixelwise = mult.shape != (1, 1)
    operator = blocked.average_pool(_stage(node), x, window, node.attrs["pad_value"],
                                    _quantization(node), blocks, pixelwise)
    pack = pack_pixel_params if pixelwise else partial(pack_params, channels=x.c)
    params = pack(node.attrs["bias"], mult, shift, blocks=blocks)
    return Layer(node, operator, {"x": node.inputs[0]}, {"params": params},
                 Activation(x.n, x.c, *window.outputs(x)))


def _scalars(node: Node, channels: int, blocks: Blocks) -> np.ndarray:
    bias, mult, shift = (node.attrs[k] for k in ("bias", "mult", "shift"))
    return pack_params(bias, mult, shift, channels, blocks)


def _global_average_pool(node: Node, graph: Graph, known: Activations, blocks: Blocks) -> Layer:
    x = known[node.inputs[0]]
    operator = blocked.global_average_pool(_stage(node), x, _quantization(node), blocks)
    return Layer(node, operator, {"x": node.inputs[0]}, {"params": _scalars(node, x.c, blocks)},
                 Activation(x.n, x.c, 1, 1))


def _upsample(node: Node, graph: Graph, known: Activations, blocks: Blocks) -> Layer:
    x, factors = known[node.inputs[0]], node.attrs["factors"]
    return Layer(node, blocked.upsample(_stage(node), x, factors, blocks), {"x": node.inputs[0]},
                 {}, Activation(x.n, x.c, x.h * factors[0], x.w * factors[1]))


def _slice(node: Node, graph: Graph, known: Activations, blocks: Blocks) -> Layer:
    x = known[node.inputs[0]]
    n, c, h, w = (*graph.values[node.outputs[0]].shape, 1, 1)[:4]
    result = Activation(n, c, h, w)
    _, channel, row, column = (*node.attrs["begin"], 0, 0)[:4]
    steps = (*node.attrs["step"], 1, 1)[2:4]
    operator = blocked.crop(_stage(node), x, result, (channel, row, column),
                            (steps[0], steps[1]), blocks)
    return Layer(node, operator, {"x": node.inputs[0]}, {}, result)


def _slice_refusal(graph: Graph, node: Node) -> str | None:
    begin, end, step = (node.attrs[name] for name in ("begin", "end", "step"))
    images = graph.values[node.inputs[0]].shape[0]
    if (begin[0], end[0], step[0]) != (0, images, 1):
        return (f"it takes images {begin[0]} to {end[0]} of {images} with step {step[0]}; "
                "the accelerator takes them all")
    if step[1] != 1:
        return f"it takes one of {step[1]} channels; the accelerator takes neighbours"
    return None


def _rescale(node: Node, graph: Graph, known: Activations, blocks: Blocks) -> Layer:
    x = known[node.inputs[0]]
    operator = blocked.rescale(_stage(node), x, _quantization(node), blocks)
    return Layer(node, operator, {"x": node.inputs[0]}, {"params": _scalars(node, x.c, blocks)},
                 Activation(x.n, x.c, x.h, x.w))


def _leaky_relu(node: Node, graph: Graph, known: Activations, blocks: Blocks) -> Layer:
    x = known[node.inputs[0]]
    params = {f"params{side}": pack_params(node.attrs["bias"], node.attrs[f"mult{side}"],
                                           node.attrs[f"shift{side}"], x.c, blocks)
              for side in ("", "_below")}
    return Layer(node, blocked.leaky_relu(_stage(node), x, _quantization(node), blocks),
                 {"x": node.inputs[0]}, params, replace(x, plain=False))


def _add(node: Node, graph: Graph, known: Activations, blocks: Blocks) -> Layer:
    x, y = (known[value] for value in node.inputs)
    ma, mb, c, shift = (node.attrs[k] for k in ("ma", "mb", "c", "shift"))
    operator = blocked.add(_stage(node), x, y, ma, mb, c, shift, _quantization(node), blocks)
    return Layer(node, operator, {"x": node.inputs[0], "y": node.inputs[1]}, {},
                 Activation(x.n, x.c, x.h, x.w))


def _concat(node: Node, graph: Graph, known: Activations, blocks: Blocks) -> tuple[Layer, ...]:
    """A layer for each input, which writes its channels; the last one pads the result."""
    parts = [known[value] for value in node.inputs]
    result = replace(parts[0], c=sum(x.c for x in parts), plain=False)
    layers: list[Layer] = []
    at = 0
    for index, x in enumerate(parts):
        last = index == len(parts) - 1
        channels = blocks.padded(result.c) - at if last else x.c
        layers.append(_piece(node, index, x, channels, blocks, result, at))
        at += x.c
    return tuple(layers)


def _piece(node: Node, index: int, x: Activation, channels: int, blocks: Blocks,
           result: Activation, at: int) -> Layer:
    operator = blocked.rescale(f"{_stage(node)}_{index}", x, _quantization(node), blocks, channels)
    bias, mult, shift = (node.attrs[name][index] for name in ("bias", "mult", "shift"))
    count = operator["params"].shape[0]
    params = pack_params(bias, mult, shift, count * blocks.block_out, blocks)[:count]
    shape = result.stored_shape(blocks)
    pixels = (math.prod(shape[axis + 1:]) for axis in range(len(shape) - 1))
    return Layer(node, operator, {"x": node.inputs[index]}, {"params": params}, result,
                 part=str(index), offset=at, pitches=(*pixels, blocks.block_out, 1),
                 channels=channels)


def _stage(node: Node) -> str:
    """The node's name as a prefix of identifiers."""
    return "".join(c if c.isalnum() else "_" for c in node.name)


LAYERS: dict[str, Builder] = {
    "qconv2d": _convolution,
    "qconvtranspose2d": _transposed_convolution,
    "qdense": _dense,
    "qmaxpool": _max_pool,
    "qavgpool": _average_pool,
    "qglobalavgpool": _global_average_pool,
    "qrescale": _rescale,
    "qleakyrelu": _leaky_relu,
    "qmatmul": _matrix_product,
    "qadd": _add,
    "upsample": _upsample,
    "slice": _slice,
    "qconcat": _concat,
}


REFUSALS: dict[str, Callable[[Graph, Node], str | None]] = {
    "slice": _slice_refusal,
    "qmatmul": _matrix_product_refusal,
}
"""What the accelerator cannot do of an operator that it has."""


def build_layers(node: Node, graph: Graph, known: Activations,
                 blocks: Blocks) -> tuple[Layer, ...]:
    """One layer for most nodes; several that write parts of one result for some."""
    made = LAYERS[node.op](node, graph, known, blocks)
    return made if isinstance(made, tuple) else (made,)
