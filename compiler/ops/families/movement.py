"""Operators that move elements: where each element of the result comes from.

`relayout` is a transpose that the compiler made: a change of layout
(`compiler.graph.division.layout`). `pad` puts `between` elements between neighbours; its mode is
constant, edge, reflect or wrap.

An expression in a branch that is not taken may read outside of a tensor: it is not evaluated.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from compiler import te
from compiler.ops.records.broadcasting import broadcast, broadcast_shape
from compiler.ops.records.channels_last import ChannelsLast, by_axes, by_place
from compiler.ops.records.node import Node, TensorType
from compiler.ops.records.operator import Algebra, Attributes, Inputs, Kind, Numbers, Operator
from compiler.ops.records.rules import Types, need, need_arity, need_rank
from compiler.te import Expr, Tensor


# Another shape


def _reshape_type(node: Node, types: Types) -> TensorType:
    need_arity(node, types, 1)
    result = TensorType(node.attrs["shape"], types[0].dtype)
    need(prod(result.shape) == prod(types[0].shape), node,
         f"shape must keep the number of elements of {types[0]}, not {result.shape!r}")
    return result


def _reshape(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """The elements in row-major order, in another shape."""
    x = inputs[0]
    shape = tuple(attrs["shape"])
    return te.compute(shape, lambda *indices: x[_reshaped(indices, shape, x.shape)], name)


def _reshaped(indices: Sequence[Expr], written: tuple[int, ...],
              read: tuple[int, ...]) -> tuple[Expr, ...]:
    """The place in shape `read` of an element of shape `written`.

    Dimensions are taken in the smallest groups of equal size, so that those that stay as they are
    cost no division.
    """
    result: list[Expr] = []
    i = j = 0
    while i < len(written) or j < len(read):
        first, start, a, b = i, j, 1, 1
        while i == first and j == start or a != b:
            if (a <= b and i < len(written)) or j == len(read):
                a, i = a * written[i], i + 1
            else:
                b, j = b * read[j], j + 1
        result += _split(_flat(indices[first:i], written[first:i]), read[start:j])
    return tuple(result)


def _flat(indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
    place: Expr = te.const(0, te.INDEX)
    for index, extent in zip(indices, shape, strict=True):
        place = place * extent + index
    return place


def _split(place: Expr, shape: Sequence[int]) -> list[Expr]:
    """Indices into `shape` of its element number `place`."""
    result: list[Expr] = []
    for position, extent in reversed(list(enumerate(shape))):
        result.insert(0, place % extent if position else place)
        place = place // extent
    return result


def _expand(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, shape = inputs[0], tuple(attrs["shape"])
    if broadcast_shape(x.shape, shape) != shape:
        raise ValueError(f"{x.shape} must broadcast to shape {shape}")
    return te.compute(shape, lambda *indices: broadcast(x, indices), name)


# Parts and repetitions


def _slice_type(node: Node, types: Types) -> TensorType:
    """Each `step`-th element of every axis, from `begin` to before `end`."""
    need_arity(node, types, 1)
    shape, sides = types[0].shape, [node.attrs[name] for name in ("begin", "end", "step")]
    need(all(len(side) == len(shape) for side in sides), node,
         f"begin, end and step must have {len(shape)} numbers for {types[0]}")
    for axis, (extent, begin, end, step) in enumerate(zip(shape, *sides, strict=True)):
        need(0 <= begin < end <= extent and step > 0, node,
             f"slice of axis {axis} must lie in 0 to {extent} with a step of at least 1, "
             f"not {begin} to {end} with step {step}")
    return TensorType(tuple(-(-(end - begin) // step) for begin, end, step
                            in zip(*sides, strict=True)), types[0].dtype)


def _upsample_type(node: Node, types: Types) -> TensorType:
    """Each pixel repeated, in a block of whole rows and columns."""
    need_arity(node, types, 1)
    need_rank(node, 0, types[0], 4)
    factors = node.attrs["factors"]
    need(len(factors) == 2 and min(factors) > 0, node,
         f"factors must be 2 integers of at least 1, not {factors!r}")
    n, c, h, w = types[0].shape
    return TensorType((n, c, h * factors[0], w * factors[1]), types[0].dtype)


def _slice(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """Each ``step``-th element of every axis, from ``begin`` to before ``end``."""
    x, sides = inputs[0], list(zip(*(attrs[k] for k in ("begin", "end", "step")), strict=True))
    shape = tuple(-(-(end - begin) // step) for begin, end, step in sides)
    return te.compute(shape, lambda *indices: x[tuple(
        index * step + begin for index, (begin, _, step) in zip(indices, sides, strict=True))],
        name)


def _upsample(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    """Each pixel of ``x`` [N,C,H,W] in ``factors`` rows and columns."""
    x, (rows, columns) = inputs[0], attrs["factors"]
    n, c, h, w = x.shape
    return te.compute((n, c, h * rows, w * columns),
                      lambda n, c, h, w: x[n, c, h // rows, w // columns], name)


def _is_contiguous(attrs: Attributes, whole: tuple[int, ...], part: tuple[int, ...]) -> bool:
    """True if the elements of a slice lie one after the other."""
    first = next((axis for axis, extent in enumerate(part) if extent > 1), len(part))
    return (all(step == 1 or extent == 1 for step, extent
                in zip(attrs["step"], part, strict=True))
            and part[first + 1:] == whole[first + 1:])


# Another order


def _transpose(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, perm = inputs[0], tuple(attrs["perm"])
    if sorted(perm) != list(range(len(x.shape))):
        raise ValueError(f"perm must order 0 to {len(x.shape) - 1}, not {perm}")
    return te.compute(tuple(x.shape[axis] for axis in perm), lambda *indices: x[tuple(
        indices[perm.index(axis)] for axis in range(len(perm)))], name)


def _reverse(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x, axes = inputs[0], attrs["axes"]
    return te.compute(x.shape, lambda *indices: x[tuple(
        extent - 1 - index if axis in axes else index
        for axis, (index, extent) in enumerate(zip(indices, x.shape, strict=True)))], name)


# Pads


def _pad(attrs: Attributes, inputs: Inputs, name: str) -> Tensor:
    x = inputs[0]
    before, after, between = _sides(attrs, x.shape)
    shape = tuple(low + (extent - 1) * (gap + 1) + 1 + high for low, extent, gap, high
                  in zip(before, x.shape, between, after, strict=True))
    if attrs["mode"] == "constant":
        return _padded(x, inputs[1], shape, before, between, name)
    return te.compute(shape, lambda *indices: x[tuple(
        _mirrored(attrs["mode"], index - low, extent)
        for index, low, extent in zip(indices, before, x.shape, strict=True))], name)


def _sides(attrs: Attributes, shape: Sequence[int]) -> tuple[Sequence[int], ...]:
    before, after = attrs["before"], attrs["after"]
    between = attrs.get("between", (0,) * len(shape))
    if not len(before) == len(after) == len(between) == len(shape):
        raise ValueError(f"pads must have {len(shape)} numbers on each side, "
                         f"not {len(before)} and {len(after)}")
    return before, after, between


def _padded(x: Tensor, value: Tensor, shape: Sequence[int], before: Sequence[int],
            between: Sequence[int], name: str) -> Tensor:
    def element(*indices: Expr) -> Expr:
        inside, places = [], []
        for index, low, gap, extent, size in zip(indices, before, between, x.shape, shape,
                                                 strict=True):
            place = index - low if low else index
            reach = (extent - 1) * (gap + 1) + 1
            inside += [place >= 0] if low > 0 else []
            inside += [place < reach] if size - low > reach else []
            inside += [(place % (gap + 1)).equal(0)] if gap else []
            places.append(place // (gap + 1) if gap else place)
        inner = x[tuple(places)]
        return te.select(te.all_of(*inside), inner, value[()]) if inside else inner

    return te.compute(tuple(shape), element, name)


def _mirrored(mode: str, place: Expr, extent: int) -> Expr:
    """The place from which the element of a place outside of 0 .. extent - 1 comes from."""
    if mode == "edge" or extent == 1:
        return te.clamp(place, 0, extent - 1)
    if mode == "wrap":
        return place % extent
    if mode != "reflect":
        raise ValueError(f"mode must be constant, edge, reflect or wrap, not {mode}")
    period = 2 * (extent - 1)
    place = place % period
    return te.minimum(place, period - place)


def _pad_meaning(attrs: Attributes, x: np.ndarray, *values: np.ndarray) -> np.ndarray:
    before, after, between = _sides(attrs, x.shape)
    if attrs["mode"] != "constant":
        for axis, (low, high) in enumerate(zip(before, after, strict=True)):
            places = np.arange(-low, x.shape[axis] + high)
            x = x.take(_mirrored_places(attrs["mode"], places, x.shape[axis]), axis)
        return x
    value, = values
    wide = np.full([(n - 1) * (gap + 1) + 1 for n, gap in zip(x.shape, between, strict=True)],
                   value, x.dtype)
    wide[tuple(slice(None, None, gap + 1) for gap in between)] = x
    made = np.full([low + n + high for low, n, high in zip(before, wide.shape, after, strict=True)],
                   value, x.dtype)
    kept = [(max(low, 0), max(low, 0, min(low + n, extent)), low)
            for low, n, extent in zip(before, wide.shape, made.shape, strict=True)]
    made[tuple(slice(begin, end) for begin, end, _ in kept)] = wide[
        tuple(slice(begin - low, end - low) for begin, end, low in kept)]
    return made


def _mirrored_places(mode: str, places: np.ndarray, extent: int) -> np.ndarray:
    if mode == "edge" or extent == 1:
        return places.clip(0, extent - 1)
    period = extent if mode == "wrap" else 2 * (extent - 1)
    return places % period if mode == "wrap" else np.minimum(places % period, -places % period)


# Records


def _keeps_type(attrs: Attributes, types: Types, result: TensorType) -> bool:
    return types[0] == result


def _keeps_order(attrs: Attributes, types: Types, result: TensorType) -> bool:
    return tuple(attrs["perm"]) == tuple(range(len(attrs["perm"])))


def _adds_nothing(attrs: Attributes, types: Types, result: TensorType) -> bool:
    return types[0] == result and not any((*attrs["before"], *attrs["after"]))


OPERATORS = (
    Operator(
        name="reshape", summary="the elements in row-major order", inputs="x", attributes="shape",
        define=_reshape, meaning=lambda attrs, x: x.reshape(attrs["shape"]), type=_reshape_type,
        numbers=Numbers.FLOAT, kind=Kind.INJECTIVE, view=lambda attrs, whole, part: True,
        picks=True, homogeneous=True,
        algebra=Algebra(unchanged=_keeps_type, absorbs="reshape")),
    Operator(
        name="expand", summary="x, repeated along axes of one element", inputs="x",
        attributes="shape, to which x broadcasts", define=_expand,
        meaning=lambda attrs, x: np.broadcast_to(x, attrs["shape"]), kind=Kind.INJECTIVE,
        channels_last=ChannelsLast(by_place("shape")),
        algebra=Algebra(unchanged=_keeps_type, absorbs="expand")),
    Operator(
        name="upsample", summary="each pixel of x [N,C,H,W] in several rows and columns",
        inputs="x", attributes="factors: rows and columns of each pixel", define=_upsample,
        meaning=lambda attrs, x: x.repeat(attrs["factors"][0], 2).repeat(attrs["factors"][1], 3),
        type=_upsample_type, numbers=Numbers.FLOAT, kind=Kind.INJECTIVE, picks=True,
        algebra=Algebra(unchanged=_keeps_type)),
    Operator(
        name="slice", summary="each `step`-th element of every axis, from `begin` to before `end`",
        inputs="x", attributes="begin, end, step of each axis", define=_slice,
        meaning=lambda attrs, x: x[tuple(map(slice, attrs["begin"], attrs["end"], attrs["step"]))],
        type=_slice_type, numbers=Numbers.FLOAT, kind=Kind.INJECTIVE, view=_is_contiguous,
        picks=True, channels_last=ChannelsLast(by_place("begin", "end", "step")),
        algebra=Algebra(unchanged=_keeps_type)),
    Operator(
        name="transpose", summary="the dimensions in another order", inputs="x",
        attributes="perm", define=_transpose, meaning=lambda attrs, x: x.transpose(attrs["perm"]),
        kind=Kind.INJECTIVE, picks=True, algebra=Algebra(unchanged=_keeps_order)),
    Operator(
        name="relayout", summary="a transpose that changes the layout", inputs="x",
        attributes="perm", define=_transpose, meaning=lambda attrs, x: x.transpose(attrs["perm"]),
        kind=Kind.INJECTIVE),
    Operator(
        name="reverse", summary="the elements from the last to the first", inputs="x",
        attributes="axes", define=_reverse,
        meaning=lambda attrs, x: np.flip(x, tuple(attrs["axes"])), kind=Kind.INJECTIVE,
        channels_last=ChannelsLast(by_axes),
        algebra=Algebra(unchanged=lambda attrs, types, result: all(
            types[0].shape[axis] == 1 for axis in attrs["axes"]))),
    Operator(
        name="pad", summary="x with elements around it and between them",
        inputs="x, value [] where mode is constant",
        attributes="before, after (below zero they crop), between, mode", define=_pad,
        meaning=_pad_meaning, kind=Kind.INJECTIVE, data_inputs=1, fills=True,
        channels_last=ChannelsLast(by_place("before", "after", "between")),
        algebra=Algebra(unchanged=_adds_nothing)),
)
