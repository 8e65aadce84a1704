"""Images with their channels last: which operators compute on them alike, and how they say it.

A tensor of four dimensions lies in memory as NCHW, which is the order of its dimensions, or as
NHWC. The same operator on the other order is one of the same name whose attributes name axes by
their new places::

    add(x [1,64,8,8], k [64,1,1])         ->  add(x [1,8,8,64], k [1,1,1,64])
    concat(x, y) {axis=1}                 ->  concat(x, y) {axis=3}
    slice(x) {begin=(0,8,0,0), ...}       ->  slice(x) {begin=(0,0,0,8), ...}
    maxpool(x) {kernel=(3,3), ...}        ->  pool_max(x as [N,1,H,W,C]) {kernel=(3,3,1), ...}

Elements are computed from the same elements by the same arithmetic, sums in the same order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from compiler.graph.graph import Graph, Node, TensorType
from compiler.graph.kinds import Kind, kind

__all__ = ["FROM_LAST", "TO_LAST", "images", "is_indifferent", "last_array", "last_nodes",
           "last_type", "moves"]

TO_LAST, FROM_LAST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Permutations of NCHW that give NHWC, and of NHWC that give NCHW."""

_PARAMETERS = ("quantizelinear", "dequantizelinear", "pad")     # what follows x is no image
_ONE_AXIS = ("concat", "qconcat", "quantizelinear", "dequantizelinear")
_PER_AXIS: Mapping[str, tuple[str, ...]] = {
    "slice": ("begin", "end", "step"), "pad": ("before", "after", "between"), "expand": ("shape",)}
_MAX_POOLS = ("maxpool", "qmaxpool")
_AXES = ("reverse", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod")


def moves(type_: TensorType) -> bool:
    """Whether NCHW and NHWC differ in memory: there are several channels of several pixels."""
    return len(type_.shape) == 4 and type_.shape[1] > 1 and prod(type_.shape[2:]) > 1


def last_type(type_: TensorType) -> TensorType:
    return TensorType(_last(type_.shape), type_.dtype)


def last_array(array: np.ndarray) -> np.ndarray:
    """A constant of at most four dimensions, as it meets images by broadcasting."""
    image = array.reshape((1,) * (4 - array.ndim) + array.shape)
    return np.ascontiguousarray(image.transpose(TO_LAST))


def images(node: Node) -> tuple[str, ...]:
    """The inputs whose order matters: parameters along one axis are not among them."""
    return node.inputs[:1] if node.op in _PARAMETERS else node.inputs


def is_indifferent(graph: Graph, node: Node) -> bool:
    """Whether the node computes the same on NHWC: it maps elements, moves whole axes or looks for
    maxima; its result is an image, and so are its inputs, but for those of one element and
    constants.
    """
    values = graph.values
    if len(node.outputs) != 1 or len(values[node.outputs[0]].shape) != 4:
        return False
    if kind(node.op) is Kind.ELEMENTWISE:
        return all(len(values[value].shape) == 4 or prod(values[value].shape) == 1
                   or value in graph.constants for value in images(node))
    if any(len(values[value].shape) != 4 for value in images(node)):
        return False
    if node.op in _AXES:        # in another order sums, and the least of 0 and -0, may differ
        axes = [TO_LAST.index(axis) for axis in node.attrs["axes"]]
        return axes == sorted(axes) and bool(node.attrs.get("keepdims", 1))
    return node.op in (*_ONE_AXIS, *_PER_AXIS, *_MAX_POOLS)


def last_nodes(graph: Graph, node: Node, inputs: Sequence[str], output: str,
               fresh: Callable[[str], str]) -> tuple[Node, ...]:
    """An indifferent node of the graph with NHWC inputs and result, which are called so; `fresh`
    gives names of values that nothing else has.
    """
    if node.op in _MAX_POOLS:
        return _pool(graph, node, inputs[0], output, fresh)
    attrs = dict(node.attrs)
    if node.op in _ONE_AXIS and (axis := attrs.get("axis", 1)) >= 0:
        attrs["axis"] = TO_LAST.index(axis)
    for name in _PER_AXIS.get(node.op, ()):
        if name in attrs:
            attrs[name] = _last(attrs[name])
    if node.op in _AXES:
        attrs["axes"] = tuple(TO_LAST.index(axis) for axis in attrs["axes"])
    return (replace(node, inputs=tuple(inputs), outputs=(output,), attrs=attrs),)


def _pool(graph: Graph, node: Node, source: str, output: str,
          fresh: Callable[[str], str]) -> tuple[Node, ...]:
    """Channels as a third axis of pixels, with windows of one: reshapes are views."""
    (n, h, w, c), made = (_last(graph.values[value].shape)
                          for value in (*node.inputs, *node.outputs))
    top, left, bottom, right = node.attrs["pads"]
    seen, pooled = fresh(f"{source}.pixels"), fresh(f"{output}.pixels")
    attrs = {"kernel": (*node.attrs["kernel"], 1), "strides": (*node.attrs["strides"], 1),
             "pads": (top, left, 0, bottom, right, 0), "dilations": (1, 1, 1)}
    return (Node("reshape", seen, (source,), (seen,), {"shape": (n, 1, h, w, c)}),
            Node("pool_max", node.name, (seen,), (pooled,), attrs),
            Node("reshape", pooled, (pooled,), (output,), {"shape": made}))


def _last(numbers: Sequence[int]) -> tuple[int, ...]:
    return tuple(numbers[axis] for axis in TO_LAST)
