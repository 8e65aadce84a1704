"""Float functions of a quantized tensor and constants of channels, as one factor and one offset a
channel: what `integerize` makes of products and sums with vectors, batch norms among them.

As for tables, no operator is known by name: the function is evaluated for all values of the tensor
and for each channel, and what lies on a line is affine.
"""

from collections.abc import Mapping

import numpy as np

from compiler.graph.graph import Node
from compiler.graph.passes.quantized import QuantizedView
from compiler.graph.reference import evaluate_node
from compiler.ops.affine import affine
from compiler.ops.integer_forms import (Bounds, IntegerNode, Stored,
                                        check_accumulator, multiplier_of)
from compiler.ops.integer_maps import BYTES
from compiler.ops.operator import Kind
from compiler.ops.registry import find

__all__ = ["affine_of_channels"]

NEAR = 1 / 64
"""The most that a function may be off its line, in steps of the result."""

LARGEST = 127
FINE = 2**20            # steps of an offset that stands alone


def affine_of_channels(view: QuantizedView, core: Node, out: Stored, bounds: Bounds
                       ) -> IntegerNode | None:
    """The `qaffine` of the elementwise operators that end with `core`; None where they compute from
    anything but one tensor of int8 and constants that differ along one axis, or are not affine.
    Raises StaysFloat where sums of 32 bits cannot hold them.
    """
    found = _behind(view, core)
    if found is None or out.dtype != "int8":
        return None
    nodes, source = found
    x, shape = view.activation(source), view.shape(source)
    axis = _axis(view, nodes, shape)
    if axis is None or x.dtype != "int8" or view.shape(core.outputs[0]) != shape:
        return None
    numbers = _evaluated(view, nodes, source, x, len(shape))
    lines = _lines(np.moveaxis(numbers, (0, axis), (1, 0)).reshape(-1, len(BYTES)), out.scale)
    if lines is None:
        return None
    factors, offsets = (np.broadcast_to(line, shape[axis]) for line in lines)
    made = _requantized(x, factors, offsets, out, bounds)
    return IntegerNode(made.op, made.inputs, {**made.attrs, "axis": axis}, made.constants)


def _behind(view: QuantizedView, core: Node) -> tuple[list[Node], str] | None:
    """The elementwise nodes before a value, in order, dequantized constants among them, and the
    dequantized tensor that they compute from.
    """
    sources, nodes = set[str](), dict[str, Node]()
    waiting = [core.outputs[0]]
    while waiting:
        value = waiting.pop()
        node = view.producers.get(value)
        if value in nodes or value in view.graph.constants:
            continue
        if node is None or node.op != "dequantizelinear" and (
                find(node.op).kind is not Kind.ELEMENTWISE):
            return None
        if view.is_computed(value):
            sources.add(value)
        else:
            nodes[value] = node
            waiting += node.inputs if node.op != "dequantizelinear" else ()
    order = [node for node in view.graph.nodes if node.outputs[0] in nodes]
    return (order, sources.pop()) if len(sources) == 1 else None


def _axis(view: QuantizedView, nodes: list[Node], shape: tuple[int, ...]) -> int | None:
    """The only axis, but for the first, along which constants have several elements."""
    axes = set[int]()
    for node in nodes:
        for value in node.inputs[:1] if node.op == "dequantizelinear" else node.inputs:
            if value in view.graph.constants:
                own = view.graph.constants[value].shape
                if len(own) > len(shape):
                    return None
                axes |= {axis + len(shape) - len(own) for axis, extent in enumerate(own)
                         if extent > 1}
    return axes.pop() if len(axes) == 1 and min(axes) > 0 else None


def _evaluated(view: QuantizedView, nodes: list[Node], source: str, x: Stored, rank: int
               ) -> np.ndarray:
    """What the nodes make of all values of the tensor, which stand along the first axis."""
    steps = (BYTES.astype(np.float32) - np.float32(x.zp)) * np.float32(x.scale)
    known: dict[str, np.ndarray] = {source: steps.reshape(-1, *[1] * (rank - 1))}
    constants: Mapping[str, np.ndarray] = view.graph.constants
    for node in nodes:
        known[node.outputs[0]] = np.asarray(evaluate_node(node, [
            known[value] if value in known else constants[value] for value in node.inputs]))
    return known[nodes[-1].outputs[0]]


def _lines(numbers: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Factor and offset of each row of numbers, one for each of `BYTES`; None where they are on no
    line.
    """
    numbers, places = numbers.astype(np.float64), BYTES.astype(np.float64)
    first, last = int(places.argmin()), int(places.argmax())
    factors = (numbers[:, last] - numbers[:, first]) / (places[last] - places[first])
    offsets = numbers[:, first] - factors * places[first]
    few = np.abs(factors) * len(places) < NEAR * step       # as good as none
    factors, offsets = np.where(few, 0, factors), np.where(few, numbers.mean(axis=1), offsets)
    off = np.abs(numbers - factors[:, None] * places - offsets[:, None])
    return (factors, offsets) if np.isfinite(off).all() and off.max() <= NEAR * step else None


def _requantized(x: Stored, factors: np.ndarray, offsets: np.ndarray, out: Stored, bounds: Bounds
                 ) -> IntegerNode:
    """Stored integers times the factors plus the offsets, in steps of the result."""
    alone = factors == 0
    weight = (LARGEST * np.sign(factors)).astype(np.int8)
    steps = np.where(alone, np.maximum(np.abs(offsets), out.scale) / FINE,
                     np.abs(factors) / LARGEST)
    bias = np.rint(offsets / steps)
    sums = 128.0 * np.abs(weight) + np.abs(bias)
    check_accumulator(sums)
    pairs = [multiplier_of(float(step) / out.scale, float(bound))
             for step, bound in zip(steps, sums, strict=True)]
    mult, shift = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    constants = {"bias": bias.astype(np.int32), "mult": mult, "shift": shift}
    return affine(x, weight, steps / out.scale, constants, out, bounds)
