"""All gradients by the name of the operator, and why an operator has none."""

from compiler.gradients.rules import (activations, convolutions, elementwise, gathers, movement,
                                      pools, products, quantization, reductions)
from compiler.gradients.rules.adjoint import Rule
from compiler.ops.families import small_types
from compiler.ops.packed import channel_blocks, last_convolutions, winograd
from compiler.ops.records.operator import Numbers, Operator
from compiler.ops.registry import OPERATORS

FAMILIES = (convolutions, pools, products, activations, elementwise, reductions, movement, gathers,
            quantization)

GRADIENTS: dict[str, Rule] = {
    name: rule for family in FAMILIES for name, rule in family.GRADIENTS.items()}

ON_INTEGERS = "it rounds to integers or computes with them; differentiate the network in float"
LOWERED = "only the compiler makes it; differentiate the network as it was imported"
MISSING = "it has no rule in compiler/gradients/rules"

PACKED = {operator.name for family in (channel_blocks, winograd, last_convolutions)
          for operator in family.OPERATORS} | {"packed_matmul", "block_columns"}


CONSTANT = {"equal", "less", "less_equal", "is_nan", "and", "or", "xor", "not", "shl", "shr",
            "argmax", "argmin", "pool_place", "sorted_places", "last_places", "joined_bytes",
            "numbers_in_bytes"}
"""Operators whose results are integers or truth values: constant between steps, without a slope."""


def hindrance(op: str) -> str | None:
    """Why the operator has no gradient where its result depends on what is differentiated by; None
    where it has one, or is constant.
    """
    if op in GRADIENTS or op in CONSTANT:
        return None
    return ON_INTEGERS if _is_quantized(OPERATORS[op]) else LOWERED if op in PACKED else MISSING


def _is_quantized(operator: Operator) -> bool:
    return (operator.numbers in (Numbers.INTEGER, Numbers.CONVERSION)
            or operator in small_types.OPERATORS
            or operator.name in ("quantizelinear", "dequantizelinear"))
