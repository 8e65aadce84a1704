"""Any function of int8 elements: by a table, or by an expression of integers.

`qtable` reads table[x & 255]: the result for every byte. `qmap` computes its `function`, a text of
the language of `compiler/ops/integers/integer_text.py` over ``x0``, ``x1``, ...; ranges prove that
nothing on the way leaves its type. Inputs of int32 are constants of channels. `quantized_map` is
the same between quantizations: what the quantizer puts where a machine's instruction stands for
operators in float (docs/quantize.md).
"""

from collections.abc import Iterable, Sequence

import numpy as np

from compiler import te
from compiler.ops.records.broadcasting import broadcast, broadcast_shape
from compiler.ops.integers.integer_text import (INT8, OPERANDS, IntegerRange, computed, expression,
                                                operands, range_of)
from compiler.ops.records.blocks import BlockForm
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Array, Attributes, Inputs, Kind, Numbers, Operator, Range
from compiler.ops.records.rules import TypeRefused, Types, need, need_arity, need_dtype
from compiler.te import Tensor

BYTES = np.arange(256).astype(np.uint8).view(np.int8)
"""The int8 of every place of a table."""
RANGES = {"int8": INT8, "int16": (-2**15, 2**15 - 1), "int32": (-2**31, 2**31 - 1)}
HALVES = {"uint8": 128, "uint16": 32768, "int8": 0, "int16": 0, "int32": 0}
"""What a number of the type is less in stored form."""


# Types


def _qtable_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 2)
    need_dtype(node, types, "int8")
    need(types[1].shape == (256,), node, f"table must have 256 elements, not {types[1]}")
    return types[0]


def _qmap_type(node: Node, types: Types) -> TensorType:
    return _map_type(node, types, tuple(RANGES), _narrowest(type_.dtype for type_ in types))


def _quantized_map_type(node: Node, types: Types) -> TensorType:
    for name, type_ in zip(node.inputs, types, strict=True):
        need(type_.dtype in (types[0].dtype, "int32"), node,
             f"input {name!r} must be {types[0].dtype}, not {type_.dtype}")
    return _map_type(node, types, tuple(HALVES), types[0].dtype if types else "")


def _map_type(node: Node, types: Types, taken: Sequence[str], dtype: str) -> TensorType:
    need_arity(node, types, *range(1, len(OPERANDS) + 1))
    for place, (name, type_) in enumerate(zip(node.inputs, types, strict=True)):
        known = [dtype for dtype in taken if place or dtype != "int32"]
        need(type_.dtype in known, node,
             f"input {name!r} must be {' or '.join(known)}, not {type_.dtype}")
    stored = dtype.removeprefix("u")
    try:
        made = _range(node.attrs["function"], types)
        shape = broadcast_shape(*(type_.shape for type_ in types))
    except ValueError as reason:
        raise TypeRefused(f"{node.name}: {reason}") from None
    need(made.within(RANGES[stored]), node,
         f"function must give {stored}, not {made.low} to {made.high}")
    return TensorType(shape, dtype)


def _range(text: str, types: Types) -> IntegerRange:
    read = OPERANDS[:len(types)]
    if operands(text) != set(read):
        raise ValueError(f"function must read {', '.join(read)}, not {text!r}")
    return range_of(text, [RANGES[type_.dtype.removeprefix("u")] for type_ in types])


def _narrowest(dtypes: Iterable[str]) -> str:
    """The type of a result: int16 where all tensors are."""
    return "int16" if {*dtypes} - {"int32"} == {"int16"} else "int8"


# Expressions


def _qtable(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The element of ``table`` [256] for every element of ``x``."""
    x, table = inputs
    return te.compute(x.shape, lambda *indices: table[x[indices].astype(te.INDEX) & 255], name)


def _qmap(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """Elements at the same place, as NumPy broadcasts them, in int32."""
    dtype = _narrowest(x.dtype for x in inputs)
    shape = broadcast_shape(*(x.shape for x in inputs))
    return te.compute(shape, lambda *indices: expression(attrs["function"], [
        broadcast(x, indices).astype("int32") for x in inputs]).astype(dtype), name)


def _quantized_map(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The map of numbers less half their range, if they have no sign."""
    dtype = inputs[0].dtype
    half, shape = HALVES[dtype], broadcast_shape(*(x.shape for x in inputs))
    return te.compute(shape, lambda *indices: (expression(attrs["function"], [
        broadcast(x, indices).astype("int32") - HALVES[x.dtype] for x in inputs]).astype("int32")
        + half).astype(dtype), name)


# Meanings


def _qmap_meaning(attrs: Attributes, *arrays: Array) -> Array:
    return computed(attrs["function"], arrays).astype(_narrowest(
        array.dtype.name for array in arrays))


def _quantized_map_meaning(attrs: Attributes, *arrays: Array) -> Array:
    dtype = arrays[0].dtype
    stored = [array.astype(np.int64) - HALVES[array.dtype.name] for array in arrays]
    return (computed(attrs["function"], stored) + HALVES[dtype.name]).astype(dtype)


# Records


def _any_table(parameters: Sequence[Array]) -> Sequence[Range]:
    """A table must be a constant; its elements may be any."""
    return ()


OPERATORS = (
    Operator(
        name="qtable", summary="table[x & 255]", inputs="x, table int8 [256]", define=_qtable,
        meaning=lambda attrs, x, table: table[x.view(np.uint8)], type=_qtable_type,
        numbers=Numbers.INTEGER, kind=Kind.ELEMENTWISE, data_inputs=1, parameters=_any_table,
        blocks=BlockForm("qtable", lambda attrs: attrs)),
    Operator(
        name="qmap", summary="the function of x0, x1?, ...", inputs="x0, x1?, ...",
        attributes="function: its text", define=_qmap,
        meaning=_qmap_meaning, type=_qmap_type, numbers=Numbers.INTEGER, kind=Kind.ELEMENTWISE),
    Operator(
        name="quantized_map", summary="qmap of quantized tensors, which uint8 and uint16 are as "
                                      "they are stored", inputs="x0, x1?, ...",
        attributes="function: its text", define=_quantized_map,
        meaning=_quantized_map_meaning, type=_quantized_map_type,
        numbers=Numbers.CONVERSION,
        kind=Kind.INJECTIVE),   # not elementwise: nothing else may become one table with it
)
