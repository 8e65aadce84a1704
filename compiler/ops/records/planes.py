"""Sums of products in planes: integers too wide for activations, cut into elements of their type.

A product with the attribute ``planes`` is not requantized: each of its channels has so many
elements, all lowest ones before all second ones, and so on: ``C`` sums become ``planes * C``
channels. `joined_planes` makes int32 of them. So sums leave an accelerator that writes nothing but
activations, to the bit.
"""

import numpy as np

from compiler import te
from compiler.ops.integers.fixed_point import STORED
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Array, Attributes, Inputs
from compiler.ops.records.rules import Types, need, need_arity
from compiler.te import Expr, Tensor, bits

PLANES = "planes"
"""Attribute: the elements of a sum; a product that has it has no bias and no multiplier."""

SUM_BITS = 32
"""Bits of a joined sum."""


def are_planes(node: Node) -> bool:
    """True for a product whose sums stay as they are."""
    return PLANES in node.attrs


def planes_for(bound: float, dtype: str) -> int:
    """The elements of a type that hold all sums of at most this magnitude."""
    return -(-(int(bound).bit_length() + 1) // bits(dtype))


def ends_of_sums(weight: Array, low: int, high: int) -> tuple[int, int]:
    """The least and the greatest sum of products of a weight [outputs, ...] with numbers from
    `low`, of at most 0, to `high`, of at least 0. So are those of any part of the products."""
    rows = weight.reshape(len(weight), -1)
    above, below = (part.sum(axis=1, dtype=np.int64) for part in (rows.clip(0), rows.clip(max=0)))
    least, greatest = low * above + high * below, high * above + low * below
    return int(least.min(initial=0)), int(greatest.max(initial=0))


def check_factors(node: Node, types: Types) -> None:
    """Data and weight of int8 or int16, and the number of planes of the data's type."""
    need_arity(node, types, 2)
    for name, type_ in zip(node.inputs, types, strict=True):
        need(type_.dtype in STORED, node,
             f"input {name!r} must be {' or '.join(STORED)}, not {type_.dtype}")
    most = SUM_BITS // bits(types[0].dtype)
    need(1 <= node.attrs[PLANES] <= most, node,
         f"planes must be 1 to {most}, not {node.attrs[PLANES]!r}")


def of_planes(node: Node, type_: TensorType, axis: int) -> TensorType:
    """The type of a product whose sums would have this one, each an element."""
    shape = list(type_.shape)
    shape[axis] *= node.attrs[PLANES]
    return TensorType(tuple(shape), type_.dtype)


def in_planes(attrs: Attributes, acc: Tensor, axis: int, dtype: str, name: str) -> Tensor:
    """The planes of int32 sums, along an axis that may be counted from the last."""
    place, width = axis % len(acc.shape), bits(dtype)
    channels = acc.shape[place]
    shape = list(acc.shape)
    shape[place] *= attrs[PLANES]

    def element(*indices: Expr) -> Expr:
        channel = indices[place]
        total = acc[(*indices[:place], channel % channels, *indices[place + 1:])]
        return (total >> (channel // channels * width).astype("int32")).astype(dtype)

    return te.compute(tuple(shape), element, name)


def arrays_in_planes(attrs: Attributes, sums: Array, axis: int, dtype: np.dtype) -> Array:
    """The planes of exact integers in float64."""
    whole = sums.astype(np.int64)
    return np.concatenate([(whole >> 8 * dtype.itemsize * plane).astype(dtype)
                           for plane in range(attrs[PLANES])], axis)


def cut_type(node: Node, types: Types) -> TensorType:
    """The type of the planes of int32."""
    need_arity(node, types, 1)
    (x,), axis, planes, dtype = types, *(node.attrs[name] for name in ("axis", PLANES, "dtype"))
    need(x.dtype == "int32", node, f"input {node.inputs[0]!r} must be int32, not {x.dtype}")
    need(dtype in STORED, node, f"dtype must be {' or '.join(STORED)}, not {dtype!r}")
    need(0 <= axis < len(x.shape), node, f"axis must be 0 to {len(x.shape) - 1}, not {axis!r}")
    most = SUM_BITS // bits(dtype)
    need(1 <= planes <= most, node, f"planes must be 1 to {most}, not {planes!r}")
    return of_planes(node, TensorType(x.shape, dtype), axis)


def joined_type(node: Node, types: Types) -> TensorType:
    """The type of the int32 that planes are."""
    need_arity(node, types, 1)
    (x,), (axis, planes) = types, (node.attrs[name] for name in ("axis", PLANES))
    need(x.dtype in STORED, node,
         f"input {node.inputs[0]!r} must be {' or '.join(STORED)}, not {x.dtype}")
    need(0 <= axis < len(x.shape), node, f"axis must be 0 to {len(x.shape) - 1}, not {axis!r}")
    most = SUM_BITS // bits(x.dtype)
    need(1 <= planes <= most and x.shape[axis] % planes == 0, node,
         f"planes must be 1 to {most} that divide the {x.shape[axis]} elements of axis {axis}, "
         f"not {planes!r}")
    return TensorType(_cut(x.shape, axis, planes), "int32")


def _cut(shape: tuple[int, ...], axis: int, planes: int) -> tuple[int, ...]:
    return (*shape[:axis], shape[axis] // planes, *shape[axis + 1:])


def joined(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The int32 that the planes along an axis are, of which all but the last have no sign."""
    (x,), axis, planes = inputs, attrs["axis"], attrs[PLANES]
    shape, width = _cut(x.shape, axis, planes), bits(x.dtype)

    def number(*indices: Expr) -> Expr:
        total: Expr | None = None
        for plane in range(planes):
            place = indices[axis] + plane * shape[axis]
            part = x[(*indices[:axis], place, *indices[axis + 1:])].astype("int32")
            part = part if plane == planes - 1 else part & ((1 << width) - 1)
            total = part if total is None else total + (part << width * plane)
        assert total is not None
        return total

    return te.compute(shape, number, name)


def joined_array(attrs: Attributes, x: Array) -> Array:
    """The int32 that planes are, in NumPy."""
    *lower, top = np.split(x, attrs[PLANES], attrs["axis"])
    width, total = 8 * x.dtype.itemsize, top.astype(np.int64)
    for part in reversed(lower):
        total = (total << width) + (part.astype(np.int64) & (1 << width) - 1)
    return total.astype(np.int32)
