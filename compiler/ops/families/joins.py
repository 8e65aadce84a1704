"""Tensors one after the other along an axis, one in the place of a part of another, and integers of
the elements that they are cut into.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from compiler import te
from compiler.ops.families.requantization import check_clamp, check_multiplier, clamp_of, rescaled
from compiler.ops.integers.fixed_point import STORED, limits_of, requantize
from compiler.ops.records.blocks import BlockForm
from compiler.ops.records.channels_last import ChannelsLast, by_axis
from compiler.ops.records.integer_forms import (Bounds, IntegerNode, QuantizedInputs, StaysFloat,
                                                Stored, clamp_to, scaled)
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import (Algebra, Array, Attributes, Inputs, Kind, Numbers,
                                           Operator)
from compiler.ops.records.planes import (arrays_in_planes, cut_type, in_planes, joined,
                                         joined_array, joined_type)
from compiler.ops.records.rules import Types, need, need_arity
from compiler.te import Expr, Tensor


def _concat_type(node: Node, types: Types) -> TensorType:
    """The type of inputs joined along the axis; their types differ only in their extent there."""
    first, axis = types[0], node.attrs["axis"]
    need(0 <= axis < len(first.shape), node,
         f"axis must be 0 to {len(first.shape) - 1}, not {axis}")
    for name, type_ in zip(node.inputs, types, strict=True):
        need(_without(type_, axis) == _without(first, axis), node,
             f"input {name!r} must be {first} but for axis {axis}, not {type_}")
    shape = list(first.shape)
    shape[axis] = sum(type_.shape[axis] for type_ in types)
    return TensorType(tuple(shape), first.dtype)


def _without(type_: TensorType, axis: int) -> tuple:
    return type_.shape[:axis], type_.shape[axis + 1:], type_.dtype


def _qconcat_type(node: Node, types: Types) -> TensorType:
    """The type of inputs joined along an axis, each requantized by itself."""
    for name, type_ in zip(node.inputs, types, strict=True):
        need(type_.dtype in STORED, node,
             f"input {name!r} must be {' or '.join(STORED)}, not {type_.dtype}")
    for name in ("bias", "mult", "shift"):
        need(len(node.attrs[name]) == len(types), node,
             f"{name} must have a number for each of {len(types)} inputs, "
             f"not {node.attrs[name]!r}")
    for bias, mult, shift in zip(*(node.attrs[k] for k in ("bias", "mult", "shift")), strict=True):
        check_multiplier(node, bias, mult, shift)
    check_clamp(node, types[0].dtype)
    return _concat_type(replace(node, attrs={"axis": node.attrs.get("axis", 1)}), types)


def _concat(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The inputs one after the other along ``axis``."""
    return _joined(attrs["axis"], inputs, lambda _, element: element, name)


def _qconcat(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The inputs one after the other along ``axis``, each requantized by itself."""
    scales = [dict(zip(("bias", "mult", "shift"), row, strict=True))
              for row in zip(attrs["bias"], attrs["mult"], attrs["shift"], strict=True)]
    axis = attrs.get("axis", 1)
    return _joined(axis, inputs, lambda which, x: rescaled({**attrs, **scales[which]}, x), name)


def _joined(axis: int, inputs: Inputs, value: Callable[[int, Expr], Expr],
            name: str) -> Tensor:
    starts = [sum(x.shape[axis] for x in inputs[:which]) for which in range(len(inputs))]
    shape = list(inputs[0].shape)
    shape[axis] = starts[-1] + inputs[-1].shape[axis]

    def element(*indices: Expr) -> Expr:
        return among(0, len(inputs), indices)

    def among(first: int, end: int, indices: Sequence[Expr]) -> Expr:
        """Selects by halves, so that the expression of many inputs is not deep."""
        if end - first > 1:
            middle = (first + end) // 2
            return te.select(indices[axis] < starts[middle], among(first, middle, indices),
                             among(middle, end, indices))
        inner = (*indices[:axis], indices[axis] - starts[first], *indices[axis + 1:])
        return value(first, inputs[first][inner])

    return te.compute(tuple(shape), element, name)


def _qconcat_meaning(attrs, *parts: Array) -> Array:
    scales = zip(attrs["bias"], attrs["mult"], attrs["shift"], strict=True)
    pieces = [requantize(part.astype(np.float64) + bias, mult, shift, *clamp_of(attrs), part.dtype)
              for part, (bias, mult, shift) in zip(parts, scales, strict=True)]
    return np.concatenate(pieces, axis=attrs.get("axis", 1))


def _concat_integer(view: QuantizedInputs, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    parts = [scaled("qrescale", view.operand(value), 1, out, bounds) for value in node.inputs]
    scales = {name: tuple(part.attrs[name] for part in parts)
              for name in ("bias", "mult", "shift")}
    axis = {} if node.attrs["axis"] == 1 else {"axis": node.attrs["axis"]}
    return IntegerNode("qconcat", tuple(part.inputs[0] for part in parts),
                       scales | clamp_to(out, bounds) | axis)


def _qput_type(node: Node, types: Types) -> TensorType:
    need(types[0].dtype in STORED, node,
         f"input {node.inputs[0]!r} must be {' or '.join(STORED)}, not {types[0].dtype}")
    return _put_type(node, types)


def _put_type(node: Node, types: Types) -> TensorType:
    """The type of a tensor of which one place along the axis is put."""
    need_arity(node, types, 3)
    x, row, position = types
    axis, rank = node.attrs["axis"], len(x.shape)
    need(0 <= axis < rank, node, f"axis must be 0 to {rank - 1}, not {axis}")
    wanted = TensorType((*x.shape[:axis], 1, *x.shape[axis + 1:]), x.dtype)
    need(row == wanted, node, f"input {node.inputs[1]!r} must be {wanted}, not {row}")
    need((position.dtype, position.shape) == ("int64", (1,)), node,
         f"input {node.inputs[2]!r} must be int64 (1,), not {position}")
    return x


def _put(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """``x`` with ``row`` at the place ``position`` of the axis, if there is such a place."""
    (x, row, position), axis = inputs, attrs["axis"]

    def element(*indices: Expr) -> Expr:
        inner = (*indices[:axis], te.const(0, te.INDEX), *indices[axis + 1:])
        at = position[(te.const(0, te.INDEX),)]
        return te.select(indices[axis].astype("int64").equal(at), row[inner], x[indices])

    return te.compute(x.shape, element, name)


def _put_meaning(attrs: Attributes, x: Array, row: Array, position: Array) -> Array:
    made, at = x.copy(), int(position.item())
    if 0 <= at < x.shape[attrs["axis"]]:
        np.moveaxis(made, attrs["axis"], 0)[at] = np.moveaxis(row, attrs["axis"], 0)[0]
    return made


def _put_integer(view: QuantizedInputs, node: Node, out: Stored, bounds: Bounds) -> IntegerNode:
    x, row = (view.activation(value) for value in node.inputs[:2])
    low, high = limits_of(out.dtype)
    clamp = clamp_to(out, bounds)
    if {(x.scale, x.zp), (row.scale, row.zp)} != {(out.scale, out.zp)} or (
            clamp["lo"], clamp["hi"]) != (low, high):
        raise StaysFloat("what is put has another scale than what is around it")
    return IntegerNode("qput", (x.value, row.value, node.inputs[2]), node.attrs)


OPERATORS = (
    Operator(
        name="concat", summary="the inputs one after the other", inputs="any number of tensors",
        attributes="axis", define=_concat,
        meaning=lambda attrs, *parts: np.concatenate(parts, attrs["axis"]), type=_concat_type,
        numbers=Numbers.FLOAT, kind=Kind.INJECTIVE, joins=True,
        channels_last=ChannelsLast(by_axis), integer=_concat_integer,
        blocks=BlockForm("concat", lambda attrs: {"axis": 1} if attrs["axis"] in (1, -3) else None,
                         whole=True),
        constants=lambda shape: None,
        algebra=Algebra(unchanged=lambda attrs, types, result: len(types) == 1)),
    Operator(
        name="qconcat", summary="the inputs one after the other, each requantized by itself",
        inputs="any number of tensors",
        attributes="bias, mult, shift: one for each input; zp, lo, hi; axis (1)", define=_qconcat,
        meaning=_qconcat_meaning, type=_qconcat_type, numbers=Numbers.INTEGER,
        kind=Kind.INJECTIVE, joins=True, channels_last=ChannelsLast(by_axis),
        blocks=BlockForm("qconcat", lambda attrs: {**attrs, "axis": 1}
                         if attrs.get("axis", 1) in (1, -3) else None, whole=True)),
    Operator(
        name="put_place", summary="x with a row at the place `position` of the axis",
        inputs="x, row, position int64 [1]", attributes="axis", define=_put,
        meaning=_put_meaning, type=_put_type, kind=Kind.INJECTIVE, data_inputs=2,
        integer=_put_integer),
    Operator(
        name="qput", summary="put_place of a quantized tensor",
        inputs="x, row, position int64 [1]", attributes="axis", define=_put,
        meaning=_put_meaning, type=_qput_type, numbers=Numbers.INTEGER, kind=Kind.INJECTIVE,
        data_inputs=2),
    Operator(
        name="cut_planes", summary="the elements of a type that int32 are cut into, the lowest of "
        "all along an axis first", inputs="x int32", attributes="axis, planes, dtype",
        define=lambda attrs, inputs, name: in_planes(attrs, inputs[0], attrs["axis"],
                                                     attrs["dtype"], name),
        meaning=lambda attrs, x: arrays_in_planes(attrs, x, attrs["axis"],
                                                  np.dtype(attrs["dtype"])),
        type=cut_type, numbers=Numbers.CONVERSION, kind=Kind.INJECTIVE,
        channels_last=ChannelsLast(by_axis)),
    Operator(
        name="joined_planes", summary="int32 of the planes along an axis, the lowest first",
        inputs="x int8|int16", attributes="axis, planes", define=joined, meaning=joined_array,
        type=joined_type, numbers=Numbers.CONVERSION, kind=Kind.INJECTIVE,
        channels_last=ChannelsLast(by_axis)),
)
