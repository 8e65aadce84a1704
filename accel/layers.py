"""Nodes of an integer graph as layers of the accelerator: operator, constants, connections."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from accel.layout import pack_params, pack_pixel_params, pack_weights, pack_windows
from compiler.graph.graph import Graph, Node
from compiler.ops import blocked
from compiler.ops.blocked import Activation, Blocks, Operator, Quantization, Window

__all__ = ["LAYERS", "Layer", "PARTS", "activation_of", "build_layers", "is_view", "refusal",
           "view_of"]


@dataclass(frozen=True)
class Layer:
    """One node, ready to be scheduled.

    Parameters
    ----------
    operator : its stages.
    inputs : role of each activation it reads, and the value's name in the graph.
    constants : role of each constant, and its packed bytes.
    macs : useful multiply-accumulates.
    part : which of the layers that a node becomes together, from 0; None where it is one layer.
    at, channels : where the channels of the part lie in the node's result, and how many it writes.
    """

    node: Node
    operator: Operator
    inputs: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    result: Activation
    macs: int = 0
    part: int | None = None
    at: int = 0
    channels: int = 0

    @property
    def name(self) -> str:
        return self.node.name if self.part is None else f"{self.node.name}[{self.part}]"


Activations = Mapping[str, Activation]
"""What every value looks like in memory: views share the activation that they show."""

Builder = Callable[[Node, Graph, Activations, Blocks], Layer]
Parts = Callable[[Node, Graph, Activations, Blocks], tuple[Layer, ...]]


def refusal(graph: Graph, node: Node) -> str | None:
    """None when the accelerator can run the node, else the reason why not."""
    if is_view(graph, node):
        return _view_refusal(graph, node)
    if node.op not in LAYERS and node.op not in PARTS:
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
    window = Window(weights.shape[2:], node.attrs["strides"], node.attrs["pads"])
    return _products(node, graph, x, weights, window, node.attrs["pad_value"], blocks)


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
    return Layer(node, operator, {"x": node.inputs[index]}, {"params": params}, result,
                 part=index, at=at, channels=channels)


def _stage(node: Node) -> str:
    """The node's name as a prefix of identifiers."""
    return "".join(c if c.isalnum() else "_" for c in node.name)


LAYERS: dict[str, Builder] = {
    "qconv2d": _convolution,
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
}


PARTS: dict[str, Parts] = {
    "qconcat": _concat,
}
"""Nodes that become several layers, each of which writes a part of the result."""


REFUSALS: dict[str, Callable[[Graph, Node], str | None]] = {
    "slice": _slice_refusal,
    "qmatmul": _matrix_product_refusal,
}
"""What the accelerator cannot do of an operator that it has."""


def build_layers(node: Node, graph: Graph, known: Activations,
                 blocks: Blocks) -> tuple[Layer, ...]:
    """What the node becomes, in order."""
    if node.op in PARTS:
        return PARTS[node.op](node, graph, known, blocks)
    return (LAYERS[node.op](node, graph, known, blocks),)
