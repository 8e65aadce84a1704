"""Any function of int8 elements: by a table, or by an expression of integers.

`qtable` reads table[x & 255]: the result for every byte. `qmap` computes its `function`, a text of
the language of `compiler/ops/integer_text.py` over ``x0``, ``x1`` and ``x2``; ranges prove that
nothing on the way leaves int32.
"""

from collections.abc import Sequence

import numpy as np

from compiler import te
from compiler.ops.broadcasting import broadcast, broadcast_shape
from compiler.ops.integer_text import (INT8, OPERANDS, IntegerRange, computed, expression,
                                       operands, range_of)
from compiler.ops.node import Node, TensorType
from compiler.ops.operator import Array, Attributes, Inputs, Kind, Numbers, Operator, Range
from compiler.ops.rules import TypeRefused, Types, need, need_arity, need_dtype
from compiler.te import Tensor

__all__ = ["BYTES", "OPERATORS"]

BYTES = np.arange(256).astype(np.uint8).view(np.int8)
"""The int8 of every place of a table."""
RANGES = {"int8": INT8, "int16": (-2**15, 2**15 - 1)}


# Types


def _qtable_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2)
    need_dtype(node, types, "int8")
    need(types[1].shape == (256,), node, f"table must have 256 elements, not {types[1]}")
    return types[0]


def _qmap_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1, 2, 3)
    for name, type_ in zip(node.inputs, types, strict=True):
        need(type_.dtype in RANGES, node,
             f"input {name!r} must be {' or '.join(RANGES)}, not {type_.dtype}")
    try:
        made = _range(node.attrs["function"], types)
        shape = broadcast_shape(*(type_.shape for type_ in types))
    except ValueError as reason:
        raise TypeRefused(f"{node.name}: {reason}") from None
    need(made.within(INT8), node, f"function must give int8, not {made.low} to {made.high}")
    return TensorType(shape, "int8")


def _range(text: str, types: Types) -> IntegerRange:
    read = OPERANDS[:len(types)]
    if operands(text) != set(read):
        raise ValueError(f"function must read {', '.join(read)}, not {text!r}")
    return range_of(text, [RANGES[type_.dtype] for type_ in types])


# Expressions


def _qtable(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The element of ``table`` [256] for every element of ``x``."""
    x, table = inputs
    return te.compute(x.shape, lambda *indices: table[x[indices].astype(te.INDEX) & 255], name)


def _qmap(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """Elements at the same place, as NumPy broadcasts them, in int32."""
    shape = broadcast_shape(*(x.shape for x in inputs))
    return te.compute(shape, lambda *indices: expression(attrs["function"], [
        broadcast(x, indices).astype("int32") for x in inputs]).astype("int8"), name)


# Records


def _any_table(parameters: Sequence[Array]) -> Sequence[Range]:
    """A table must be a constant; its elements may be any."""
    return ()


OPERATORS = (
    Operator(
        name="qtable", summary="table[x & 255]", inputs="x, table int8 [256]", define=_qtable,
        meaning=lambda attrs, x, table: table[x.view(np.uint8)], type=_qtable_type,
        numbers=Numbers.INTEGER, kind=Kind.ELEMENTWISE, data_inputs=1, parameters=_any_table),
    Operator(
        name="qmap", summary="the function of x0, x1? and x2?", inputs="x0, x1?, x2?",
        attributes="function: its text", define=_qmap,
        meaning=lambda attrs, *arrays: computed(attrs["function"], arrays).astype(np.int8),
        type=_qmap_type, numbers=Numbers.INTEGER, kind=Kind.ELEMENTWISE),
)
