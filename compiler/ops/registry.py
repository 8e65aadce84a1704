"""All operators of networks: the records of every family, by name.

>>> from compiler import te
>>> from compiler.ops.registry import expression
>>> x = te.placeholder((1, 3, 8, 8), "float32", "x")
>>> expression("relu", {}, [x], "y").shape
(1, 3, 8, 8)
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from compiler import te
from compiler.ops.families import (activations, affine, convolutions, elementwise, gathers,
                                   integer_maps, joins, movement, orders, piecewise, pooling,
                                   products, quantization, reductions, row_functions, scatters,
                                   small_types)
from compiler.ops.packed import (channel_blocks, integer_winograd, last_convolutions,
                                 quantized_blocks, winograd)
from compiler.ops.records.node import Attrs, Node, TensorType
from compiler.ops.records.operator import Operator
from compiler.ops.records.rules import TypeRefused, Types, need
from compiler.ops.sums import residuals, terms
from compiler.te import Tensor

FAMILIES = (convolutions, pooling, products, residuals, activations, elementwise, reductions,
            movement, joins, gathers, scatters, quantization, affine, integer_maps, piecewise,
            terms, row_functions, orders, small_types, channel_blocks, quantized_blocks, winograd,
            integer_winograd, last_convolutions)


def collected(families: Iterable[Any]) -> dict[str, Operator]:
    """The records of these modules by name. Refuses with ValueError two of one name."""
    operators: dict[str, Operator] = {}
    for operator in (operator for family in families for operator in family.OPERATORS):
        if operator.name in operators:
            raise ValueError(f"Operator must be declared once, not twice {operator.name!r}")
        operators[operator.name] = operator
    return operators


OPERATORS: dict[str, Operator] = collected(FAMILIES)


def find(op: str) -> Operator:
    """The record of an operator. Refuses with ValueError one that there is not."""
    if op not in OPERATORS:
        raise ValueError(f"Operator must be one of {', '.join(OPERATORS)}, not {op!r}")
    return OPERATORS[op]


def expression(op: str, attrs: Mapping, inputs: Sequence[Tensor], name: str) -> Tensor:
    """The result of the operator, a tensor called `name`; inputs as the operator's type rule wants
    them. Tensors computed on the way are called `name` and a suffix.
    """
    return find(op).define(attrs, inputs, name)


def infer(node: Node, types: Types) -> TensorType:
    """The type of the node's only output, or TypeRefused with one sentence that names the node."""
    if node.op not in OPERATORS:
        raise TypeRefused(f"{node.name}: operator must be one of {', '.join(OPERATORS)}, "
                          f"not {node.op!r}")
    if len(node.outputs) != 1:
        raise TypeRefused(f"{node.name}: {node.op} must have 1 output, not {len(node.outputs)}")
    operator = OPERATORS[node.op]
    _require_numbers(operator, node, types)
    try:
        return _type_of(operator, Attrs(node.attrs), tuple(types))
    except TypeRefused:                 # once more, for a sentence with the node's own names
        return _judged(operator, node, types)


def _require_numbers(operator: Operator, node: Node, types: Types) -> None:
    """Refuses inputs of a type that no operator computes with."""
    for name, type_ in zip(node.inputs, types, strict=False):
        need(type_.dtype not in te.SMALL or operator.reads_small, node,
             f"input {name!r} must be of a type that operators compute with, not {type_.dtype}")


@lru_cache(4096)
def _type_of(operator: Operator, attrs: Attrs, types: tuple[TensorType, ...]) -> TensorType:
    """The type for nodes of any names."""
    names = tuple(f"x{position}" for position in range(len(types)))
    return _judged(operator, Node(operator.name, operator.name, names, ("y",), attrs), types)


def _judged(operator: Operator, node: Node, types: Types) -> TensorType:
    try:
        return operator.type(node, types) if operator.type else _defined(operator, node, types)
    except KeyError as missing:
        raise TypeRefused(f"{node.name}: {node.op} needs the attribute {missing}") from None


def _defined(operator: Operator, node: Node, types: Types) -> TensorType:
    """The type of the tensor that the expression gives."""
    inputs = [te.placeholder(type_.shape, type_.dtype, f"x{position}")
              for position, type_ in enumerate(types)]
    try:
        tensor = operator.define(node.attrs, inputs, "y")
        return TensorType(tensor.shape, tensor.dtype)
    except (ValueError, TypeError) as error:
        raise TypeRefused(f"{node.name}: {error}") from None
