"""Constants that are computed from quantized ones, as quantized constants."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.graph.graph import Graph, Node
from compiler.graph.integerize.constants import QuantizedConstant, moved
from compiler.graph.reference import evaluate_node
from compiler.graph.rewrite import Builder, eliminate_dead_code


@dataclass(frozen=True, slots=True)
class QuantizedConstants:
    """transpose(dequantize(q)) -> dequantize(transpose(q)) for a constant q, and so all that only
    moves elements; dequantize(q) * k -> dequantize(q) with other scales, for a constant k, q
    negated where k is negative and all zero points where k is 0; quantize(dequantize(q)) becomes a
    constant, and in float does what would have scales that vary along several axes. Products with
    [1,K,N] read [K,N].

    Before: dequantized constants are still nodes. After: no such operator reads one. What moves is
    exact, scales are rounded once.
    """

    name: ClassVar[str] = "quantized-constants"

    def __call__(self, graph: Graph) -> Graph:
        builder = Builder.like(graph)
        known: dict[str, QuantizedConstant] = {}
        for node in graph.nodes:
            _visit(builder, known, node)
        same = tuple(builder.nodes) == graph.nodes
        return graph if same else eliminate_dead_code(builder.finish(graph.outputs))


def _visit(builder: Builder, known: dict[str, QuantizedConstant], node: Node) -> None:
    output = node.outputs[0]
    made = QuantizedConstant.of(builder.constants, node)
    if made is not None:
        known[output] = made
        builder.add(node)
    elif not any(value in known for value in node.inputs):
        builder.add(node)
    elif (made := _computed(builder, known, node)) is not None:
        known[output] = made
        if len(made.axes()) < 2:
            made.add_to(builder, output, node.name, output)
        else:
            builder.add_constant(output, made.numbers())
    elif (array := _quantized(builder, known, node)) is not None:
        builder.add_constant(output, array)
    else:
        builder.add(_with_matrix(builder, known, node))


def _quantized(builder: Builder, known: Mapping[str, QuantizedConstant], node: Node
               ) -> np.ndarray | None:
    """The constant that a quantization of a constant is."""
    if node.op != "quantizelinear" or node.inputs[0] not in known:
        return None
    return evaluate_node(node, [known[node.inputs[0]].numbers(), *(
        builder.constants[value] for value in node.inputs[1:])])


def _with_matrix(builder: Builder, known: Mapping[str, QuantizedConstant], node: Node) -> Node:
    """A product with a constant [1,K,N] reads [K,N], which broadcasts alike."""
    weight = known.get(node.inputs[-1]) if node.op == "matmul" else None
    rank = len(builder.values[node.inputs[0]].shape)
    if weight is None or not 2 < weight.integers.ndim <= rank or (
            set(weight.integers.shape[:-2]) != {1}):
        return node
    matrix = QuantizedConstant(*(array.reshape(array.shape[-2:]) for array in (
        weight.integers, weight.scale, weight.zero)))
    value = builder.fresh(f"{node.inputs[-1]}_matrix")
    matrix.add_to(builder, value, builder.fresh_node(value), value)
    return replace(node, inputs=(node.inputs[0], value))


def _computed(builder: Builder, known: Mapping[str, QuantizedConstant], node: Node
              ) -> QuantizedConstant | None:
    """The quantized constant that the node's result is, if there is one."""
    if all(value in known for value in node.inputs):
        made = moved(node, [known[value] for value in node.inputs])
        if made is not None:
            return made
    factors = _factors(builder, known, node)
    if factors is None:
        return None
    source, numbers = known[factors[0]], factors[1]
    shape = source.integers.shape
    return source.times(numbers) if np.broadcast_shapes(numbers.shape, shape) == shape else None


def _factors(builder: Builder, known: Mapping[str, QuantizedConstant], node: Node
             ) -> tuple[str, np.ndarray] | None:
    """The dequantized constant that the node multiplies by known numbers, and these."""
    if node.op == "neg":
        return node.inputs[0], np.array(-1, np.float32)
    if node.op not in ("mul", "div"):
        return None
    first, second = node.inputs
    if node.op == "mul" and first not in known:
        first, second = second, first
    numbers = _numbers(builder, known, second)
    if first not in known or numbers is None:
        return None
    with np.errstate(all="ignore"):
        return first, numbers if node.op == "mul" else 1 / numbers.astype(np.float64)


def _numbers(builder: Builder, known: Mapping[str, QuantizedConstant], value: str
             ) -> np.ndarray | None:
    return known[value].numbers() if value in known else builder.constants.get(value)
