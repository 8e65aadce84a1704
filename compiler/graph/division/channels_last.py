"""Images of a graph with their channels last: which nodes compute on them alike.

How each operator says the same on the other order, its record has
(`compiler.ops.records.channels_last`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from compiler.graph.graph import Graph, Node, TensorType
from compiler.ops.records.channels_last import FROM_LAST, TO_LAST, ChannelsLast, last
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find

__all__ = ["FROM_LAST", "TO_LAST", "images", "is_indifferent", "last_array", "last_nodes",
           "last_type", "moves"]


def moves(type_: TensorType) -> bool:
    """True if NCHW and NHWC differ in memory: there are several channels of several pixels."""
    return len(type_.shape) == 4 and type_.shape[1] > 1 and prod(type_.shape[2:]) > 1


def last_type(type_: TensorType) -> TensorType:
    return TensorType(last(type_.shape), type_.dtype)


def last_array(array: np.ndarray) -> np.ndarray:
    """A constant of at most four dimensions, as it meets images by broadcasting."""
    image = array.reshape((1,) * (4 - array.ndim) + array.shape)
    return np.ascontiguousarray(image.transpose(TO_LAST))


def images(node: Node) -> tuple[str, ...]:
    """The inputs whose order matters: parameters along one axis are not among them."""
    return node.inputs[:find(node.op).data_inputs]


def is_indifferent(graph: Graph, node: Node) -> bool:
    """True if the node computes the same on NHWC: it maps elements, moves whole axes or looks for
    maxima; its result is an image, and so are its inputs, but for those of one element and
    constants.
    """
    values, operator = graph.values, find(node.op)
    if len(node.outputs) != 1 or len(values[node.outputs[0]].shape) != 4:
        return False
    if operator.kind is Kind.ELEMENTWISE:
        return all(len(values[value].shape) == 4 or prod(values[value].shape) == 1
                   or value in graph.constants for value in images(node))
    if any(len(values[value].shape) != 4 for value in images(node)):
        return False
    form = operator.channels_last
    return form is not None and form.attrs(node.attrs) is not None


def last_nodes(graph: Graph, node: Node, inputs: Sequence[str], output: str,
               fresh: Callable[[str], str]) -> tuple[Node, ...]:
    """An indifferent node of the graph with NHWC inputs and result, which are called so; `fresh`
    gives names of values that nothing else has.
    """
    form = find(node.op).channels_last or ChannelsLast()
    attrs = form.attrs(node.attrs)
    assert attrs is not None
    if not form.pixels:
        return (replace(node, inputs=tuple(inputs), outputs=(output,), attrs=attrs),)
    (n, h, w, c), shape = (last(graph.values[value].shape)
                           for value in (node.inputs[0], *node.outputs))
    source, *parameters = inputs
    seen, pixels = fresh(f"{source}.pixels"), fresh(f"{output}.pixels")
    return (Node("reshape", seen, (source,), (seen,), {"shape": (n, 1, h, w, c)}),   # views
            Node(form.pixels, node.name, (seen, *parameters), (pixels,), attrs),
            Node("reshape", pixels, (pixels,), (output,), {"shape": shape}))
