"""Float functions of a tensor and constants of channels: what `integerize` makes of products and
sums with vectors, batch norms among them, and of activations with a slope of each channel.

As for tables, no operator is known by name: functions are evaluated for each channel, of a
quantized tensor for all its values. What lies on a line is a factor and an offset; what is x above
zero, and a part of x below, has a slope.
"""

from collections.abc import Callable, Mapping

import numpy as np

from compiler.graph.graph import Node
from compiler.graph.integerize.quantized import QuantizedView
from compiler.graph.reference import evaluate_node
from compiler.ops.families.affine import affine
from compiler.ops.families.integer_maps import BYTES
from compiler.ops.records.integer_forms import (Bounds, IntegerNode, Stored, check_accumulator,
                                                clamp_to, multiplier_of)
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find

NEAR = 1 / 64
"""The most that a function may be off its line, in steps of the result."""

LARGEST = 127
FINE = 2**20            # steps of an offset that stands alone
POINTS = np.array([-1e6, -70, -3, -1, -0.02, 0, 0.02, 1, 3, 70, 1e6], np.float32)


def affine_of_channels(view: QuantizedView, core: Node, out: Stored, bounds: Bounds
                       ) -> IntegerNode | None:
    """The `qaffine` of the elementwise operators that end with `core`, or the `qdense` where they
    make a row of each element; None where they compute from anything but one tensor of int8 and
    constants that differ along one axis, or are not affine. Raises StaysFloat where sums of 32 bits
    cannot hold them.
    """
    found = _behind(view, core, view.is_computed)
    if found is None or out.dtype != "int8":
        return None
    nodes, source = found
    x, shape = view.activation(source), view.shape(source)
    axes, whole = _axes(view, nodes, shape), view.shape(core.outputs[0])
    if axes is None or len(axes) != 1 or x.dtype != "int8":
        return None
    axis, = axes
    rows = whole != shape == (*whole[:-1], 1) and axis == len(shape) - 1
    if whole != shape and not rows:
        return None
    steps = (BYTES.astype(np.float32) - np.float32(x.zp)) * np.float32(x.scale)
    numbers = _evaluated(view, nodes, source, steps, len(shape))
    lines = _lines(np.moveaxis(numbers, (0, axis), (1, 0)).reshape(-1, len(BYTES)), out.scale)
    if lines is None:
        return None
    factors, offsets = (np.broadcast_to(line, whole[axis]) for line in lines)
    if rows:
        return IntegerNode("qdense", (x.value,), clamp_to(out, bounds), tuple(
            _weights(factors, offsets, out).items()))
    made = _requantized(x, factors, offsets, out, bounds)
    return IntegerNode(made.op, made.inputs, {**made.attrs, "axis": axis}, made.constants)


def slopes_of_channels(view: QuantizedView, core: Node) -> tuple[str, np.ndarray] | None:
    """The product that elementwise operators which end with `core` compute from, and its parts
    below zero, one for all or one for each channel, 0 to 1; None where they are anything else.
    """
    def is_source(value: str) -> bool:
        node = view.producers.get(value)
        return node is not None and not view.is_constant(value) and (
            find(node.op).kind is not Kind.ELEMENTWISE)

    found = _behind(view, core, is_source)
    if found is None:
        return None
    nodes, source = found
    shape, weights = view.shape(source), find(view.producers[source].op).weights
    if weights is None:
        return None
    channel = weights.axis % len(shape)
    axes = _axes(view, nodes, shape)
    if axes is None or not axes <= {channel} or view.shape(core.outputs[0]) != shape:
        return None
    numbers = np.moveaxis(_evaluated(view, nodes, source, POINTS, len(shape)), (0, channel),
                          (1, 0)).reshape(-1, len(POINTS))
    slopes = numbers[:, 0] / POINTS[0]
    with np.errstate(invalid="ignore"):                 # of infinite slopes at 0
        line = np.where(POINTS > 0, POINTS, POINTS * slopes[:, None])
    fits = np.isclose(numbers, line, rtol=1e-6, atol=0).all() and (
        (slopes >= 0) & (slopes <= 1)).all()
    return (source, slopes) if fits else None


def _behind(view: QuantizedView, core: Node, is_source: Callable[[str], bool]
            ) -> tuple[list[Node], str] | None:
    """The elementwise nodes before a value, in order, dequantized constants among them, and the
    only source that they compute from.
    """
    sources, nodes = set[str](), dict[str, Node]()
    waiting = [(core.outputs[0], False)]
    while waiting:
        value, ready = waiting.pop()
        node = view.producers.get(value)
        if value in nodes or value in view.graph.constants:
            continue
        if is_source(value):
            sources.add(value)
            continue
        if node is None or find(node.op).kind is not Kind.ELEMENTWISE or view.is_computed(value):
            return None
        if ready or node.op == "dequantizelinear":
            nodes[value] = node
        else:
            waiting += [(value, True), *((read, False) for read in node.inputs)]
    return (list(nodes.values()), sources.pop()) if len(sources) == 1 and nodes else None


def _axes(view: QuantizedView, nodes: list[Node], shape: tuple[int, ...]) -> set[int] | None:
    """The axes, but for the first, along which constants have several elements; None where these
    are along others, too.
    """
    axes = set[int]()
    for node in nodes:
        for value in node.inputs[:1] if node.op == "dequantizelinear" else node.inputs:
            if value in view.graph.constants:
                own = view.graph.constants[value].shape
                if len(own) > len(shape):
                    return None
                axes |= {axis + len(shape) - len(own) for axis, extent in enumerate(own)
                         if extent > 1}
    return None if 0 in axes else axes


def _evaluated(view: QuantizedView, nodes: list[Node], source: str, numbers: np.ndarray, rank: int
               ) -> np.ndarray:
    """The results of the nodes for numbers of the source, which stand along the first axis."""
    known: dict[str, np.ndarray] = {source: numbers.reshape(-1, *[1] * (rank - 1))}
    constants: Mapping[str, np.ndarray] = view.graph.constants
    for node in nodes:
        known[node.outputs[0]] = np.asarray(evaluate_node(node, [
            known[value] if value in known else constants[value] for value in node.inputs]))
    return known[nodes[-1].outputs[0]]


def _lines(numbers: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Factor and offset of each row of numbers, one for each of `BYTES`; None where they are on no
    line.
    """
    if not np.isfinite(numbers).all():
        return None
    numbers, places = numbers.astype(np.float64), BYTES.astype(np.float64)
    first, last = int(places.argmin()), int(places.argmax())
    factors = (numbers[:, last] - numbers[:, first]) / (places[last] - places[first])
    offsets = numbers[:, first] - factors * places[first]
    few = np.abs(factors) * len(places) < NEAR * step       # as good as none
    factors, offsets = np.where(few, 0, factors), np.where(few, numbers.mean(axis=1), offsets)
    off = np.abs(numbers - factors[:, None] * places - offsets[:, None])
    return (factors, offsets) if off.max() <= NEAR * step else None


def _requantized(x: Stored, factors: np.ndarray, offsets: np.ndarray, out: Stored, bounds: Bounds
                 ) -> IntegerNode:
    """Stored integers times the factors plus the offsets, in steps of the result."""
    constants = _weights(factors, offsets, out)
    weight = constants.pop("weight").reshape(-1)
    return affine(x, weight, _steps(factors, offsets, out) / out.scale, constants, out, bounds)


def _weights(factors: np.ndarray, offsets: np.ndarray, out: Stored) -> dict[str, np.ndarray]:
    """The weight [channels, 1] of stored integers, bias, multiplier and shift of each channel."""
    weight = (LARGEST * np.sign(factors)).astype(np.int8)
    steps = _steps(factors, offsets, out)
    bias = np.rint(offsets / steps)
    sums = 128.0 * np.abs(weight) + np.abs(bias)
    check_accumulator(sums)
    pairs = [multiplier_of(float(step) / out.scale, float(bound))
             for step, bound in zip(steps, sums, strict=True)]
    mult, shift = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    return {"weight": weight.reshape(-1, 1), "bias": bias.astype(np.int32), "mult": mult,
            "shift": shift}


def _steps(factors: np.ndarray, offsets: np.ndarray, out: Stored) -> np.ndarray:
    """The number that an integer of the sums stands for, in each channel."""
    return np.where(factors == 0, np.maximum(np.abs(offsets), out.scale) / FINE,
                    np.abs(factors) / LARGEST)
