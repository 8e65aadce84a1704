"""Any smooth function of int16 elements, by 256 polynomials of the second degree.

The high byte of x chooses the piece; the low one less 128 is the place u within it. Tables [256]
hold the bytes of each piece's coefficients: its value in 24 bits, its slope in 16, its bend in 8.
With f for ``fraction`` and g for ``bent``, `qpieces` is ::

    y = clamp(rhe((value 2^(f - 7) + (slope + (bend u >> g)) u) / 2^f), -32768, 32767)

in int32. A value is in steps of 1/128, so that it may lie beyond int16; a slope is in steps of
2^-f. Each byte but the highest of a coefficient is less 128 in its table, so that all fit int8.
"""

from collections.abc import Sequence

import numpy as np

from compiler import te
from compiler.ops.integers import arithmetic
from compiler.ops.integers.fixed_point import requantize
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Array, Attributes, Inputs, Kind, Numbers, Operator, Range
from compiler.ops.records.rules import Types, need, need_arity
from compiler.te import Expr, Tensor

FRACTIONS = range(8, 13)
"""The bits behind the point of sums; with more a slope would have more than 16 bits."""
MOST_BENT = 15
FINE = 7
"""The bits behind the point of a value."""
TABLES = ("value2", "value1", "value0", "slope1", "slope0", "bend")
"""The tables, the highest bytes of a coefficient first."""
INT16 = (-2**15, 2**15 - 1)

_HALF = 128             # what bytes are less, and the middle of a piece
_VALUE_OFFSET, _SLOPE_OFFSET = _HALF * 256 + _HALF, _HALF


def bytes_of(coefficients: Array, count: int) -> tuple[Array, ...]:
    """The tables of integers of so many bytes, the highest bytes first."""
    parts = [coefficients >> 8 * place & 255 for place in reversed(range(count))]
    return ((coefficients >> 8 * (count - 1)).astype(np.int8),
            *((part - _HALF).astype(np.int8) for part in parts[1:]))


def _type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1 + len(TABLES))
    need(types[0].dtype == "int16", node,
         f"input {node.inputs[0]!r} must be int16, not {types[0].dtype}")
    for role, type_ in zip(TABLES, types[1:], strict=True):
        need(type_ == TensorType((256,), "int8"), node, f"{role} must be int8[256], not {type_}")
    fraction, bent = node.attrs["fraction"], node.attrs["bent"]
    need(fraction in FRACTIONS, node, f"fraction must be {FRACTIONS[0]} to {FRACTIONS[-1]}, "
                                      f"not {fraction}")
    need(0 <= bent <= MOST_BENT, node, f"bent must be 0 to {MOST_BENT}, not {bent}")
    return types[0]


def _define(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The element of every x, of tables at the high byte of x."""
    x, *tables = inputs
    fraction, bent = attrs["fraction"], attrs["bent"]

    def element(*indices: Expr) -> Expr:
        number = x[indices].astype("int32")
        piece = number >> 8
        place = te.clamp(number - (piece * 256 + _HALF), -_HALF, _HALF - 1)     # for ranges
        read = [table[piece.astype(te.INDEX) & 255].astype("int32") for table in tables]
        high, middle, low, steep, fine, bend = read
        slope = steep * 256 + (fine + _SLOPE_OFFSET)
        value = ((high * 256 + middle) * 256 + low) * (1 << fraction - FINE)
        total = value + (slope + (bend * place >> bent)) * place
        offset = te.const(_VALUE_OFFSET << fraction - FINE, "int32")
        return arithmetic.requantize(total, offset, te.const(1, "uint16"),
                                     te.const(fraction, "uint8"), 0, *INT16).astype("int16")
    return te.compute(x.shape, element, name)


def _meaning(attrs: Attributes, x: Array, *tables: Array) -> Array:
    piece = x.astype(np.int64) >> 8
    place = x - (piece * 256 + _HALF)
    high, middle, low, steep, fine, bend = (table.astype(np.int64)[piece] for table in tables)
    slope = steep * 256 + fine + _SLOPE_OFFSET
    value = (high * 256 + middle) * 256 + low + _VALUE_OFFSET
    bent = slope + (bend * place >> attrs["bent"])
    total = value * (1 << attrs["fraction"] - FINE) + bent * place
    return requantize(total, 1, attrs["fraction"], 0, *INT16, np.int16)


def _any_tables(parameters: Sequence[Array]) -> Sequence[Range]:
    """Tables must be constants; their elements may be any."""
    return ()


OPERATORS = (
    Operator(
        name="qpieces", summary="the polynomial of x's high byte, of its low byte",
        inputs=f"x int16, {', '.join(TABLES)} int8 [256]",
        attributes=f"fraction {FRACTIONS[0]} to {FRACTIONS[-1]}, bent 0 to {MOST_BENT}",
        define=_define, meaning=_meaning, type=_type, numbers=Numbers.INTEGER,
        kind=Kind.ELEMENTWISE, data_inputs=1, parameters=_any_tables),
)
