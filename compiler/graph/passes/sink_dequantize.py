"""Moves dequantization below operators that only move or select elements."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.quantized import QUANTIZED
from compiler.graph.rewrite import Builder
from compiler.ops.registry import find


@dataclass(frozen=True, slots=True)
class SinkDequantize:
    """maxpool(dequantize(q)) -> dequantize(maxpool(q)), and what only moves elements alike: exact,
    since a positive scale keeps order. A number that `fills` places between elements is quantized
    where that is exact, as 0 always is. concat(dequantize(p), dequantize(q)) of one scale and zero
    point is quantized with these, and dequantized, which changes nothing.

    Before: any graph. After: no operator that `picks` elements reads a per-tensor dequantized
    activation, nor does one that fills with such a number; what joins some of one scale is read by
    quantizations alone; dequantizations that nobody reads any more are left to dead code
    elimination.
    """

    name: ClassVar[str] = "sink-dequantize"

    def __call__(self, graph: Graph) -> Graph:
        builder = Builder.like(graph)
        dequantized: dict[str, Node] = {}
        readers = graph.consumers()
        for node in graph.nodes:
            above = dequantized.get(node.inputs[0]) if node.inputs else None
            if above is not None and (find(node.op).picks or _fills(builder, node, above)):
                node = _sunk(builder, node, above)
            elif above is not None and node.op == "concat" and _are_alike(
                    builder, [dequantized.get(value) for value in node.inputs]) and any(
                    reader.op != "quantizelinear" for reader in readers[node.outputs[0]]):
                node = _quantized_behind(builder, node, above)
            builder.add(node)
            if _sinks(builder, node):
                dequantized[node.outputs[0]] = node
        same = tuple(builder.nodes) == graph.nodes
        return graph if same else builder.finish(graph.outputs)


def _sinks(builder: Builder, node: Node) -> bool:
    if node.op != "dequantizelinear" or node.inputs[0] in builder.constants:
        return False
    typed = builder.values
    return typed[node.inputs[1]].shape == () and typed[node.inputs[0]].dtype in QUANTIZED


def _are_alike(builder: Builder, nodes: Sequence[Node | None]) -> bool:
    """True for dequantizations of one type, scale and zero point."""
    steps = {tuple((constant.item(), constant.dtype.name) for constant in (
        builder.constants[value] for value in node.inputs[1:])) if node else None for node in nodes}
    return len(steps) == 1 and None not in steps


def _quantized_behind(builder: Builder, node: Node, dequantize: Node) -> Node:
    """Adds what joins dequantized tensors, and its quantization; the dequantization of that."""
    value, (_, *steps) = node.outputs[0], dequantize.inputs
    whole = builder.add(replace(node, outputs=(builder.fresh(f"{value}_joined"),)))
    stored = builder.emit("quantizelinear", builder.fresh_node(f"{node.name}_quantize"),
                          [whole, *steps], builder.fresh(f"{value}_quantized"), **dequantize.attrs)
    return Node("dequantizelinear", builder.fresh_node(f"{node.name}_dequantize"),
                (stored, *steps), node.outputs, dequantize.attrs)


def _fills(builder: Builder, node: Node, dequantize: Node) -> bool:
    return find(node.op).fills and (
        len(node.inputs) == 1 or _stored(builder, node.inputs[1], dequantize) is not None)


def _stored(builder: Builder, value: str, dequantize: Node) -> np.ndarray | None:
    """The integer that is dequantized to exactly this number; None where there is none."""
    scale, zero = (builder.constants[name] for name in dequantize.inputs[1:])
    number = builder.constants.get(value)
    if number is None or not np.isfinite(number).all():
        return None
    steps = np.rint(number / scale) + zero.astype(np.float32)
    limits = np.iinfo(zero.dtype)
    exact = (steps - zero.astype(np.float32)) * scale == number
    return steps.astype(zero.dtype) if exact and limits.min <= steps <= limits.max else None


def _sunk(builder: Builder, node: Node, dequantize: Node) -> Node:
    """Adds the operator on integers; the dequantization that now follows it."""
    source, scale, zero = dequantize.inputs
    inputs = [source]
    for value in node.inputs[1:]:
        number = _stored(builder, value, dequantize)
        assert number is not None
        inputs.append(builder.add_constant(builder.fresh(f"{node.name}:value"), number))
    below = builder.emit(node.op, node.name, inputs,
                         builder.fresh(f"{node.outputs[0]}_quantized"), **node.attrs)
    return Node("dequantizelinear", builder.fresh_node(f"{node.name}_dequantize"),
                (below, scale, zero), node.outputs, dequantize.attrs)
