"""Operators that move elements, of tensors of any shape and type.

| operator | inputs | attributes |
|---|---|---|
| transpose, relayout | x | perm |
| expand | x | shape, to which x broadcasts |
| reverse | x | axes |
| pad | x, value [] where mode is constant | before, after (below zero they crop), between, mode |
| gather | x, indices | axis |
| gather_elements | x, indices | axis |
| gather_nd | x, indices | batch_dims |
| resample | x, places [n,k], weights [n,k] | axis |

`relayout` is a transpose that the compiler made: a change of layout (`compiler.graph.layout`).
`pad` puts `between` elements between neighbours; its mode is constant, edge, reflect or wrap.
Indices below zero count from the end; what still lies outside stands for the nearest element.
`resample` makes n elements of those along an axis, each a weighted sum of k of them.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from compiler import te
from compiler.ops.nchw_elementwise import broadcast, broadcast_shape
from compiler.ops.operator import Attrs, Inputs, Operator, kept, sum_dtype
from compiler.te import Expr, Tensor

__all__ = ["MOVEMENT"]


def _transpose(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    x, perm = inputs[0], tuple(attrs["perm"])
    if sorted(perm) != list(range(len(x.shape))):
        raise ValueError(f"perm must order 0 to {len(x.shape) - 1}, not {perm}")
    return te.compute(tuple(x.shape[axis] for axis in perm), lambda *indices: x[tuple(
        indices[perm.index(axis)] for axis in range(len(perm)))], name)


def _expand(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    x, shape = inputs[0], tuple(attrs["shape"])
    if broadcast_shape(x.shape, shape) != shape:
        raise ValueError(f"{x.shape} must broadcast to shape {shape}")
    return te.compute(shape, lambda *indices: broadcast(x, indices), name)


def _reverse(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    x, axes = inputs[0], attrs["axes"]
    return te.compute(x.shape, lambda *indices: x[tuple(
        extent - 1 - index if axis in axes else index
        for axis, (index, extent) in enumerate(zip(indices, x.shape, strict=True)))], name)


def _pad(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    x = inputs[0]
    before, after, between = _sides(attrs, x.shape)
    shape = tuple(low + (extent - 1) * (gap + 1) + 1 + high for low, extent, gap, high
                  in zip(before, x.shape, between, after, strict=True))
    if attrs["mode"] == "constant":
        return _padded(x, inputs[1], shape, before, between, name)
    return te.compute(shape, lambda *indices: x[tuple(
        _mirrored(attrs["mode"], index - low, extent)
        for index, low, extent in zip(indices, before, x.shape, strict=True))], name)


def _sides(attrs: Attrs, shape: Sequence[int]) -> tuple[Sequence[int], ...]:
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
        found = x[tuple(places)]
        return te.select(te.all_of(*inside), found, value[()]) if inside else found

    return te.compute(tuple(shape), element, name)


def _mirrored(mode: str, place: Expr, extent: int) -> Expr:
    """Where the element of a place outside of 0 .. extent - 1 comes from."""
    if mode == "edge" or extent == 1:
        return te.clamp(place, 0, extent - 1)
    if mode == "wrap":
        return place % extent
    if mode != "reflect":
        raise ValueError(f"mode must be constant, edge, reflect or wrap, not {mode}")
    period = 2 * (extent - 1)
    place = place % period
    return te.minimum(place, period - place)


def _pad_meaning(attrs: Attrs, x: np.ndarray, *values: np.ndarray) -> np.ndarray:
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
    sides = list(zip(before, after, strict=True))
    wide = wide[tuple(slice(max(-low, 0), n - max(-high, 0))
                      for (low, high), n in zip(sides, wide.shape, strict=True))]
    return np.pad(wide, [(max(low, 0), max(high, 0)) for low, high in sides],
                  constant_values=value)


def _mirrored_places(mode: str, places: np.ndarray, extent: int) -> np.ndarray:
    if mode == "edge" or extent == 1:
        return places.clip(0, extent - 1)
    period = extent if mode == "wrap" else 2 * (extent - 1)
    return places % period if mode == "wrap" else np.minimum(places % period, -places % period)


def _within(index: Expr, extent: int) -> Expr:
    """A place from 0 to extent - 1, whatever the data."""
    index = index.astype(te.INDEX)
    return te.clamp(te.select(index < 0, index + extent, index), 0, extent - 1)


def _placed(indices: np.ndarray, extent: int) -> np.ndarray:
    indices = indices.astype(np.int64)
    return np.where(indices < 0, indices + extent, indices).clip(0, max(extent - 1, 0))


def _gather(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    """Of x, the slices along the axis with these numbers."""
    x, at = inputs
    axis, rank = _axis(attrs, x), len(at.shape)
    shape = (*x.shape[:axis], *at.shape, *x.shape[axis + 1:])
    return te.compute(shape, lambda *indices: x[(
        *indices[:axis], _within(at[indices[axis:axis + rank]], x.shape[axis]),
        *indices[axis + rank:])], name)


def _axis(attrs: Attrs, x: Tensor) -> int:
    if not 0 <= attrs["axis"] < len(x.shape):
        raise ValueError(f"axis must be 0 to {len(x.shape) - 1}, not {attrs['axis']}")
    return attrs["axis"]


def _gather_elements(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    """Each element from its own place, but for its number along the axis."""
    x, at = inputs
    axis = _axis(attrs, x)
    return te.compute(at.shape, lambda *indices: x[(
        *indices[:axis], _within(at[indices], x.shape[axis]), *indices[axis + 1:])], name)


def _gather_nd(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    """Of x, the slices whose first indices stand in the last dimension of the second input."""
    (x, at), batch = inputs, attrs["batch_dims"]
    depth, outer = int(at.shape[-1]), len(at.shape) - 1
    if batch + depth > len(x.shape) or at.shape[:batch] != x.shape[:batch]:
        raise ValueError(f"indices must lead into {x.shape} after {batch} dimensions, "
                         f"not {at.shape}")

    def element(*indices: Expr) -> Expr:
        places = [_within(at[(*indices[:outer], te.const(k, te.INDEX))], x.shape[batch + k])
                  for k in range(depth)]
        return x[(*indices[:batch], *places, *indices[outer:])]

    return te.compute((*at.shape[:-1], *x.shape[batch + depth:]), element, name)


def _gather_nd_meaning(attrs: Attrs, x: np.ndarray, at: np.ndarray) -> np.ndarray:
    batch, depth = attrs["batch_dims"], at.shape[-1]
    count = prod(x.shape[:batch])
    flat = x.reshape(count, *x.shape[batch:])
    places = at.reshape(count, -1, depth)
    where = tuple(_placed(places[..., k], flat.shape[1 + k]) for k in range(depth))
    made = flat[(np.arange(count)[:, None], *where)]
    return made.reshape(*at.shape[:-1], *x.shape[batch + depth:])


def _resample(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    x, places, weights = inputs
    axis, wide = _axis(attrs, x), sum_dtype(inputs[0].dtype)
    tap = te.reduce_axis(places.shape[1], f"{name}_tap")
    shape = (*x.shape[:axis], places.shape[0], *x.shape[axis + 1:])

    def element(*indices: Expr):
        at = indices[axis], tap.var
        inner = (*indices[:axis], _within(places[at], x.shape[axis]), *indices[axis + 1:])
        return te.sum(x[inner].astype(wide) * weights[at].astype(wide), tap)

    if wide == x.dtype:
        return te.compute(shape, element, name)
    acc = te.compute(shape, element, f"{name}_acc")
    return te.compute(shape, lambda *indices: acc[indices].astype(x.dtype), name)


def _resample_meaning(attrs: Attrs, x: np.ndarray, places: np.ndarray,
                      weights: np.ndarray) -> np.ndarray:
    last = np.moveaxis(x, attrs["axis"], -1).astype(np.float64)
    made = (last[..., _placed(places, last.shape[-1])] * weights.astype(np.float64)).sum(-1)
    return np.moveaxis(made, -1, attrs["axis"])


MOVEMENT: dict[str, Operator] = {
    "transpose": Operator(_transpose, lambda attrs, x: x.transpose(attrs["perm"])),
    "relayout": Operator(_transpose, lambda attrs, x: x.transpose(attrs["perm"])),
    "expand": Operator(_expand, lambda attrs, x: np.broadcast_to(x, attrs["shape"])),
    "reverse": Operator(_reverse, lambda attrs, x: np.flip(x, tuple(attrs["axes"]))),
    "pad": Operator(_pad, _pad_meaning),
    "gather": Operator(_gather, lambda attrs, x, at: x.take(
        _placed(at, x.shape[attrs["axis"]]), attrs["axis"])),
    "gather_elements": Operator(_gather_elements, lambda attrs, x, at: np.take_along_axis(
        x[tuple(slice(n) if axis != attrs["axis"] else slice(None)
                for axis, n in enumerate(at.shape))],
        _placed(at, x.shape[attrs["axis"]]), attrs["axis"])),
    "gather_nd": Operator(_gather_nd, _gather_nd_meaning),
    "resample": Operator(_resample, kept(_resample_meaning)),
}
