"""Images with their channels last where tensor cores convolve them, or processors without vectors
(`compiler.ops.packed.last_convolutions`).

A convolution that these take reads and makes such images, and so does one of each channel by
itself. For tensor cores an image of few channels gets some that are zero, and the rows of its
windows are one axis; processors without vectors read any image where it lies.
Which of the other operators go on so is decided as in the layout pass
(`compiler.graph.division.layout`): these convolutions are its bound segments, all else is free.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.graph.division.channels_last import FROM_LAST, TO_LAST, moves
from compiler.graph.division.cheapest_orders import (NCHW, NHWC, Order, OrderedTensor,
                                                     cheapest_orders)
from compiler.graph.division.layout import RELAYOUT, lay_out
from compiler.graph.division.partition import HOST, Segment, assembled
from compiler.graph.graph import Graph, Node, TensorType
from compiler.graph.rewrite import Builder, eliminate_dead_code
from compiler.ops.records.planes import are_planes
from compiler.ops.registry import find

LAST = "channels last"      # a target
LEAST_BYTES = 16            # of a pixel that are worth a product
FEW = 4                     # channels


@dataclass(frozen=True, slots=True)
class PutChannelsLast:
    """conv2d(image [N,C,H,W]) -> conv2d_last(image [N,H,W,C]), and what goes on so.

    Before: any graph. After: the same values of inputs and outputs; convolutions of images of these
    types, with constant weights, compute on images with channels last. The graph itself where
    tensor cores would take none of them. Where `pieces` of channels need not suit these, all
    convolutions without groups are taken, and pixels are as they were; with `lanes` for a processor
    that adds up so many outputs at a time, whose weights lie side by side.
    """

    dtypes: Collection[str]
    pieces: bool = True
    lanes: int = 0
    name: ClassVar[str] = "put-channels-last"

    def __call__(self, graph: Graph) -> Graph:
        taken = {node.name for node in graph.nodes
                 if _is_taken(graph, node, self.dtypes, self.pieces)}
        if not taken or self.pieces and all(_is_depthwise(graph, node) for node in graph.nodes
                                            if node.name in taken):
            return graph
        parts = assembled(graph, list(_parts(graph, taken)), {})
        return _rewritten(lay_out(parts, _borders, _orders).partition.graph, taken, self.pieces,
                          self.lanes)


def _is_taken(graph: Graph, node: Node, dtypes: Collection[str], pieces: bool) -> bool:
    if not find(node.op).convolved or are_planes(node) or any(value not in graph.constants
                                          for value in node.inputs[1:]):
        return False
    x, weight = (graph.values[value] for value in node.inputs[:2])
    if x.dtype not in dtypes or weight.dtype != x.dtype or node.attrs.get("sums", "int32") != (
            "int32"):
        return False
    if _is_depthwise(graph, node):
        return True
    pixel = x.shape[1] * np.dtype(x.dtype).itemsize
    return node.attrs.get("group", 1) == 1 and (
        not pieces or pixel % 4 == 0 and pixel >= LEAST_BYTES or _has_rows(graph, node))


def _has_rows(graph: Graph, node: Node) -> bool:
    """True if the rows of its windows are one axis: there are few channels and an odd number of
    columns, so that no vector begins in the middle of a pixel.
    """
    outputs, depth, _, columns = graph.values[node.inputs[1]].shape
    return depth <= FEW < outputs and columns % 2 == 1 < columns


def _is_depthwise(graph: Graph, node: Node) -> bool:
    """True if each channel is convolved by itself into one."""
    outputs, depth, *_ = graph.values[node.inputs[1]].shape
    return depth == 1 and node.attrs.get("group", 1) == outputs > 1


def _parts(graph: Graph, taken: Collection[str]) -> Iterator[tuple[str, list[Node]]]:
    """Convolutions one by one, and what stands between them."""
    others: list[Node] = []
    for node in graph.nodes:
        if node.name not in taken:
            others.append(node)
            continue
        if others:
            yield HOST, others
        yield LAST, [node]
        others = []
    if others:
        yield HOST, others


def _borders(segment: Segment) -> dict[str, Order | None] | None:
    if segment.target == HOST:
        return None
    return dict.fromkeys((*segment.inputs, *segment.outputs), NHWC)


def _orders(tensors: Collection[OrderedTensor]) -> Mapping[str, Order]:
    """The cheapest orders; where they do not matter otherwise, nothing is converted behind a
    convolution or between what maps its result: these are computed together.
    """
    def is_inside(tensor: OrderedTensor) -> bool:
        fixed = {NCHW, NHWC}
        return tensor.maker in fixed or not tensor.readers <= fixed
    return cheapest_orders([replace(tensor, size=16 * tensor.size + tensor.size * is_inside(tensor))
                            for tensor in tensors])


def _rewritten(graph: Graph, taken: Collection[str], pieces: bool, lanes: int) -> Graph:
    """The graph of the layout pass with these convolutions on the images that lie in memory: what
    it says at their borders goes, and a node converts what would be converted there.
    """
    builder, last = Builder.like(graph), dict[str, str]()
    renamed: dict[str, str] = {}
    first = {*graph.outputs, *(value for node in graph.nodes for value in node.inputs
                               if _order(node) != NHWC)}
    for node in graph.nodes:
        node = replace(node, inputs=tuple(renamed.get(value, value) for value in node.inputs))
        source, result = node.inputs[0], node.outputs[0]
        if _order(node) == NHWC and source in last and result not in graph.outputs:
            renamed[result] = last[source]
            continue
        if _order(node) == NCHW:
            last[result] = source
        if node.name not in taken:
            builder.add(node)
            continue
        if source not in last:
            last[source] = _turned(builder, source, TO_LAST, builder.fresh(f"{source}.nhwc"))
        last[result] = _convolved(builder, graph, node, last[source], pieces, lanes)
        if result in first:
            _turned(builder, last[result], FROM_LAST, result)
    return eliminate_dead_code(builder.finish(graph.outputs))


def _order(node: Node) -> Order | None:
    """The order into which the layout pass converts by this node."""
    orders: dict[tuple[int, ...], Order] = {TO_LAST: NHWC, FROM_LAST: NCHW}
    return orders.get(tuple(node.attrs["perm"])) if node.op == RELAYOUT else None


def _turned(builder: Builder, source: str, perm: tuple[int, ...], result: str) -> str:
    shape = builder.values[source].shape
    turned = tuple(shape[axis] for axis in perm)
    first = TensorType(shape if perm == TO_LAST else turned, builder.values[source].dtype)
    name = builder.fresh_node(result)
    if not moves(first):
        return builder.emit("reshape", name, [source], result, shape=turned)
    return builder.emit(RELAYOUT, name, [source], result, perm=perm)


def _convolved(builder: Builder, graph: Graph, node: Node, image: str, pieces: bool, lanes: int
               ) -> str:
    weight = graph.constants[node.inputs[1]]
    attrs = {key: number for key, number in node.attrs.items() if key != "group"}
    forms = find(node.op).convolved
    assert forms is not None
    if _is_depthwise(graph, node):
        op, turned = forms.apart, weight[:, 0].transpose(1, 2, 0)
    elif lanes:
        op, turned = forms.direct, _by_lanes(weight, lanes)
        attrs["channels"] = len(weight)
    elif pieces and _has_rows(graph, node):
        rest = ((0, 0),) * 3 + ((0, FEW - weight.shape[1]),)
        turned = np.pad(weight.transpose(TO_LAST), rest).reshape(*weight.shape[:1],
                                                                 weight.shape[2], -1)
        op, image = forms.every, _widened(builder, image)
    else:
        op, turned = forms.every, weight.transpose(TO_LAST)
    name = builder.add_constant(builder.fresh(f"{node.inputs[1]}.last"),
                                np.ascontiguousarray(turned))
    return builder.add(Node(op, node.name, (image, name, *node.inputs[2:]),
                            (builder.fresh(f"{node.outputs[0]}.last"),), attrs))


def _by_lanes(weight: np.ndarray, lanes: int) -> np.ndarray:
    """[Co,Ci,kh,kw] as [Co/k,kh,kw,Ci,k], zeros where there is no output."""
    wide = np.pad(weight.transpose(TO_LAST), ((0, -len(weight) % lanes), *((0, 0),) * 3))
    return np.moveaxis(wide.reshape(-1, lanes, *wide.shape[1:]), 1, -1)


def _widened(builder: Builder, image: str) -> str:
    """The image with so many channels as `FEW`."""
    *_, channels = builder.values[image].shape
    if channels == FEW:
        return image
    zero = builder.add_constant(builder.fresh(f"{image}.zero"),
                                np.zeros((), np.dtype(builder.values[image].dtype)))
    return builder.emit("pad", builder.fresh_node(f"{image}.wide"), [image, zero],
                        builder.fresh(f"{image}.wide"), mode="constant", before=(0, 0, 0, 0),
                        after=(0, 0, 0, FEW - channels))
