"""Builders of a product and the elementwise operator that alone reads it, as one layer.

The sums stay in acc, and the other tensor that the operator reads comes to res, where one
instruction of vector computes both from them: requantization, and what the operator makes of its
result. Nothing here knows an instruction or the operator by name.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from accel.machine.machine import Machine
from accel.mapping.builders.layer import Builder, MappedLayer, quantization_of
from accel.mapping.builders.residuals import RECORD, as_result, records_of
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.memory.forms import Forms
from accel.mapping.operators.blocked import Blocks
from accel.mapping.operators.residuals import with_residual
from accel.mapping.selecting.selection import INPUTS, at_once, element_of, is_elementwise
from compiler.graph.graph import Graph, Node
from compiler.ops.integers.arithmetic import requantize
from compiler.ops.records.planes import are_planes
from compiler.te import Expr, rewrite
from compiler.tensorize.cover import COMPUTED, CONSTANTS, CoverStep, leaf

PRODUCTS = ("qconv2d", "qdense")
"""Products that may be joined; the first four of `RECORD` are their parameters."""


@dataclass(frozen=True)
class Joined:
    """A product, the operator that alone reads it, the value that this reads beside it, and the
    instruction that computes the result from the sums and that value."""

    product: Node
    reader: Node
    residual: str
    step: CoverStep


def products_before(graph: Graph, known: Forms, node: Node) -> Iterator[Node]:
    """The products of which an elementwise operator of two tensors reads one alone."""
    first, second = node.inputs if is_elementwise(node) and len(node.inputs) == 2 else ("", "")
    for value in dict.fromkeys((first, second)) if first != second else ():
        product = known.producers.get(value)
        if (product is not None and product.op in PRODUCTS and not are_planes(product)
                and len(product.inputs) == 5 and known.readers[value] == (node,)
                and value not in graph.outputs):
            yield product


def readers_of(graph: Graph, known: Forms, product: Node) -> Iterator[Node]:
    """The operator that might be computed with a product."""
    readers = known.readers[product.outputs[0]] if product.op in PRODUCTS else ()
    yield from (reader for reader in readers[:1]
                if product in products_before(graph, known, reader))


def joined_step(machine: Machine, graph: Graph, product: Node, reader: Node, accumulator: str
                ) -> Joined | None:
    """The instruction that computes both; None where the machine has none."""
    element, inputs, constants, tables = element_of(graph, reader)
    other = next((value for value in reader.inputs if value != product.outputs[0]), "")
    if constants or tables or {*inputs.values()} != {product.outputs[0], other} or (
            graph.values[other] != graph.values[reader.outputs[0]]):
        return None
    name = next(name for name, value in inputs.items() if value == product.outputs[0])
    result = _product(product, graph.values[reader.outputs[0]].dtype, accumulator)

    def rule(node: Expr) -> Expr | None:
        return result if node == leaf(name, result.dtype, INPUTS) else None

    step = at_once(machine, rewrite(element, rule))
    return step and Joined(product, reader, other, step)


def _product(node: Node, element: str, accumulator: str) -> Expr:
    """The element of a product, from the sums in acc."""
    q = quantization_of(node)
    bias, mult, shift = (leaf(name, RECORD[name], CONSTANTS) for name in ("bias", "mult", "shift"))
    return requantize(leaf("acc", accumulator, COMPUTED), bias, mult, shift, q.zp, q.lo, q.hi
                      ).astype(element)


def joined_layer(joined: Joined, graph: Graph, known: Forms, blocks: Blocks, build: Builder
                 ) -> MappedLayer:
    """The layer of both, of the product as its own builder maps it."""
    layer, names = build(joined.product, graph, known, blocks), ("bias", "mult", "shift")
    if not isinstance(layer, MappedLayer) or layer.pitches:
        raise LoweringError("its product has several layers")
    residual = as_result(known[joined.residual], layer.operator, blocks)
    operator = with_residual(layer.operator, residual, (joined.step,), blocks)
    numbers = {name: graph.constants[value]
               for name, value in zip(names, joined.product.inputs[2:], strict=True)}
    note = f"with {joined.product.name}, {joined.product.op}, by {joined.step.intrinsic.name}"
    return replace(layer, node=joined.reader, operator=operator,
                   inputs={**layer.inputs, "r": joined.residual}, note=note,
                   constants={"w": layer.constants["w"], **records_of(
                       (joined.step,), numbers, operator, blocks)})
