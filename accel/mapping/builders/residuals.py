"""Builders of products whose sums meet a residual."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from accel.machine.machine import Machine
from accel.mapping.builders.layer import Builder, MappedLayer, in_line, quantization_of
from accel.mapping.lowering.nest import LoweringError
from accel.mapping.memory.forms import Forms
from accel.mapping.memory.layout import pack_records
from accel.mapping.operators.blocked import Activation, BlockedOperator, Blocks
from accel.mapping.operators.elementwise import numbers_of, parameters_of, record_read
from accel.mapping.operators.residuals import with_residual
from accel.mapping.selecting.selection import INPUTS, RESULTS, covered
from compiler.graph.graph import Graph, Node
from compiler.ops.sums.residuals import WITH_RESIDUAL, met
from compiler.ops.integers.arithmetic import requantize
from compiler.te import Expr
from compiler.tensorize.cover import COMPUTED, CONSTANTS, CoverStep, leaf

PRODUCT = {with_: product for product, with_ in WITH_RESIDUAL.items()}
"""The product in each operator that adds a residual to its sums."""

RECORD = {"bias": "int32", "mult": "uint16", "shift": "uint8", "factor": "int16"}
"""Numbers of a channel, in the order of a node's inputs, and their types."""


def product_with_residual(node: Node, graph: Graph, known: Forms, machine: Machine, blocks: Blocks,
                          build: Builder) -> MappedLayer:
    """Maps the product by its own builder, and what its sums meet to the instructions of vector
    that compute it."""
    x, residual, *parameters = node.inputs
    product = replace(node, op=PRODUCT[node.op], inputs=(x, *parameters[:4]))
    layer = build(product, graph, known, blocks)
    assert isinstance(layer, MappedLayer)
    steps = covered(machine, _element(node, blocks), RESULTS)
    r = as_result(known[residual], layer.operator, blocks)
    operator = with_residual(layer.operator, r, steps, blocks)
    numbers = {name: graph.constants[value]
               for name, value in zip(RECORD, parameters[1:], strict=True)}
    return replace(layer, node=node, operator=operator, inputs={"x": x, "r": residual},
                   constants={"w": layer.constants["w"],
                              **records_of(steps, numbers, operator, blocks)})


def records_of(steps: Sequence[CoverStep], numbers: Mapping[str, np.ndarray],
               operator: BlockedOperator, blocks: Blocks) -> dict[str, np.ndarray]:
    """The records of steps that read some, by role, of the numbers of channels."""
    channels = len(numbers["bias"])
    return {role: pack_records(record_read(step), numbers_of(step, numbers), channels, blocks
                               ).reshape(operator[role].shape)
            for step, role in parameters_of(steps).items()}


def _element(node: Node, blocks: Blocks) -> Expr:
    """The result from the sums, in acc, and the residual, in res."""
    q, wide = quantization_of(node), blocks.accumulator
    bias, mult, shift, factor = (leaf(name, dtype, CONSTANTS) for name, dtype in RECORD.items())
    residual = leaf("r", blocks.element, INPUTS).astype(wide)
    total = leaf("acc", wide, COMPUTED) + met(node.attrs, residual, factor.astype(wide))
    return requantize(total, bias, mult, shift, q.zp, q.lo, q.hi).astype(blocks.element)


def as_result(r: Activation, product: BlockedOperator, blocks: Blocks) -> Activation:
    """The residual with the images, rows and columns that the result has."""
    size = product.extents("acc")
    for form in (r, in_line(r, blocks)):
        if (-(-form.n // blocks.batch), form.h, form.w) == (size["n"], size["y"], size["x"]):
            return form
    raise LoweringError("its residual lies in memory in other images and rows than its result")
