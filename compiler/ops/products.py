"""Products and sums of tensors of any shape, after Einstein, and of windows in any dimensions.

| operator | inputs | attributes |
|---|---|---|
| einsum | any number | equation: letters alone, ``ab,bc->ac``; extents of 1 broadcast |
| conv | x [N,Ci,...], w [Co,Ci/group,...] | strides, pads, dilations, group |
| pool_max, pool_sum, pool_place | x [N,C,...] | kernel, strides, pads, dilations |

Pads are those before each axis and then those after. They hold what changes no result; windows may
reach into them as far as they like. `pool_place` is the number of the greatest element of each
window, the first of equals, among all of x in row-major order.
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from compiler import te
from compiler.ops.nchw_elementwise import broadcast
from compiler.ops.operator import Attrs, Inputs, Operator, kept, sum_dtype
from compiler.te import Expr, Tensor

__all__ = ["MOST_STEPS", "PRODUCTS", "windows_shape"]

MOST_STEPS = (1 << 31) - 1
"""Kernels, strides, dilations and pads: places in memory are computed with them."""


def _einsum(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    terms, result = _terms(attrs["equation"], [x.shape for x in inputs])
    extents: dict[str, int] = {}
    for term, x in zip(terms, inputs, strict=True):
        for letter, extent in zip(term, x.shape, strict=True):
            if extents.get(letter, 1) not in (1, extent) and extent != 1:
                raise ValueError(f"extents of {letter} must agree in {attrs['equation']}, not "
                                 f"{extents[letter]} and {extent}")
            extents[letter] = max(extent, extents.get(letter, 1))
    if any(x.dtype != inputs[0].dtype for x in inputs):
        raise ValueError("inputs of a product must have one type, not "
                         + " and ".join(x.dtype for x in inputs))
    over = {letter: te.reduce_axis(extent, f"{name}_{letter}")
            for letter, extent in extents.items() if letter not in result}
    wide = sum_dtype(inputs[0].dtype)

    def element(*indices: Expr):
        place = {letter: axis.var for letter, axis in over.items()}
        place |= dict(zip(result, indices, strict=True))
        product: Expr | None = None
        for term, x in zip(terms, inputs, strict=True):
            one = broadcast(x, [place[letter] for letter in term]).astype(wide)
            product = one if product is None else product * one
        assert product is not None
        return te.sum(product, tuple(over.values())) if over else product

    return _narrowed([extents[letter] for letter in result], element, inputs[0].dtype, name)


def _terms(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    left, _, result = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes) or any(len(term) != len(shape)
                                        for term, shape in zip(terms, shapes, strict=False)):
        raise ValueError(f"equation must have a letter for each dimension of {list(shapes)}, "
                         f"not {equation}")
    if not set(result) <= set(left) or len(set(result)) < len(result):
        raise ValueError(f"equation must have each letter of its result before ->, not {equation}")
    return terms, result


def _narrowed(shape: Sequence[int], element: Callable[..., Expr], dtype: str,
              name: str) -> Tensor:
    """Computed in the type of sums, and rounded to `dtype` where that is another."""
    if sum_dtype(dtype) == dtype:
        return te.compute(tuple(shape), element, name)
    acc = te.compute(tuple(shape), element, f"{name}_acc")
    return te.compute(acc.shape, lambda *indices: acc[indices].astype(dtype), name)


def _einsum_meaning(attrs: Attrs, *arrays: np.ndarray) -> np.ndarray:
    dtype = arrays[0].dtype
    wide = dtype if dtype.kind in "iub" else np.dtype(np.float64)
    return np.einsum(attrs["equation"], *(array.astype(wide) for array in arrays))


def windows_shape(size: Sequence[int], kernel: Sequence[int], attrs: Attrs) -> tuple[int, ...]:
    """Windows along each axis."""
    rank = len(size)
    pads = attrs["pads"]
    return tuple((n + pads[axis] + pads[rank + axis] - (kernel[axis] - 1) * attrs["dilations"][axis]
                  - 1) // attrs["strides"][axis] + 1 for axis, n in enumerate(size))


def _check_windows(x: Tensor, kernel: Sequence[int], attrs: Attrs) -> tuple[int, ...]:
    rank = len(x.shape) - 2
    for role, numbers, count, least in (
            ("kernel", kernel, rank, 1), ("strides", attrs["strides"], rank, 1),
            ("dilations", attrs["dilations"], rank, 1), ("pads", attrs["pads"], 2 * rank, 0)):
        if rank < 1 or len(numbers) != count or min(numbers) < least:
            raise ValueError(f"{role} must be {count} integers of at least {least} for an input "
                             f"with {rank + 2} dimensions, not {tuple(numbers)}")
        if max(numbers) > MOST_STEPS:
            raise ValueError(f"{role} must be integers of at most {MOST_STEPS:,}, not "
                             f"{tuple(numbers)}")
    made = windows_shape(x.shape[2:], kernel, attrs)
    if min(made) < 1:
        raise ValueError(f"kernel must fit the padded input, not {tuple(kernel)} in "
                         f"{x.dtype}[{','.join(map(str, x.shape))}] with pads "
                         f"{tuple(attrs['pads'])} and dilations {tuple(attrs['dilations'])}")
    return made


def _pixel(x: Tensor, outer: Sequence[Expr], places: Sequence[Expr], taps: Sequence[Expr],
           attrs: Attrs, kernel: Sequence[int], made: Sequence[int], outside: Expr) -> Expr:
    """The element of x in a window, or `outside` where that lies in the pads."""
    inside, where = [], []
    for axis, (place, tap, size) in enumerate(zip(places, taps, x.shape[2:], strict=True)):
        stride, step, low = (attrs[key][axis] for key in ("strides", "dilations", "pads"))
        index = place * stride + tap * step - low
        reach = (made[axis] - 1) * stride + (kernel[axis] - 1) * step - low
        inside += [index >= 0] if low else []
        inside += [index < size] if reach >= size else []
        where.append(index)
    found = x[(*outer, *where)]
    return te.select(te.all_of(*inside), found, outside) if inside else found


def _kernel_axes(kernel: Sequence[int], name: str) -> tuple[te.Axis, ...]:
    return tuple(te.reduce_axis(extent, f"{name}_k{axis}") for axis, extent in enumerate(kernel))


def _conv(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    x, w = inputs
    outputs, depth, *kernel = w.shape
    group, wide = attrs["group"], sum_dtype(x.dtype)
    if len(w.shape) != len(x.shape) or w.dtype != x.dtype:
        raise ValueError(f"weight must have the type and the dimensions of {x.dtype}{x.shape}, "
                         f"not {w.dtype}{w.shape}")
    if group < 1 or x.shape[1] != depth * group or outputs % group:
        raise ValueError(f"channels must be the weight's {depth} in each of {group} groups that "
                         f"divide {outputs}, not {x.shape[1]}")
    made, each = _check_windows(x, kernel, attrs), outputs // group
    rc, taps = te.reduce_axis(depth, f"{name}_rc"), _kernel_axes(kernel, name)

    def element(n: Expr, c: Expr, *places: Expr):
        channel = rc.var if group == 1 else c // each * depth + rc.var
        pixel = _pixel(x, (n, channel), places, [tap.var for tap in taps], attrs, kernel, made,
                       te.const(0, x.dtype))
        weight = w[(c, rc.var, *(tap.var for tap in taps))]
        return te.sum(pixel.astype(wide) * weight.astype(wide), (rc, *taps))

    return _narrowed((x.shape[0], outputs, *made), lambda *indices: element(*indices), x.dtype,
                     name)


def _views(attrs: Attrs, x: np.ndarray, kernel: Sequence[int], outside) -> np.ndarray:
    """The windows, [N,C,windows...,kernel...]."""
    rank = len(kernel)
    pads = [(0, 0), (0, 0), *zip(attrs["pads"][:rank], attrs["pads"][rank:], strict=True)]
    padded = np.pad(x, pads, constant_values=outside)
    reach = [(k - 1) * step + 1 for k, step in zip(kernel, attrs["dilations"], strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, 2 + rank)))
    steps = (*attrs["strides"], *attrs["dilations"])
    return views[(slice(None), slice(None), *(slice(None, None, step) for step in steps))]


def _conv_meaning(attrs: Attrs, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    wide = np.int64 if x.dtype.kind in "iu" else np.float64
    views = _views(attrs, x.astype(wide), w.shape[2:], 0)
    group, rank = attrs["group"], w.ndim - 2
    n, c, *rest = views.shape
    views = views.reshape(n, group, c // group, *rest)
    weights = w.reshape(group, -1, *w.shape[1:]).astype(wide)
    places, taps = "uvwxyz"[:rank], "defhij"[:rank]
    made = np.einsum(f"ngc{places}{taps},goc{taps}->ngo{places}", views, weights)
    return made.reshape(n, -1, *made.shape[3:])


def _pool(op: str) -> Callable[[Attrs, Inputs, str], Tensor]:
    def define(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
        x, kernel = inputs[0], attrs["kernel"]
        made, wide = _check_windows(x, kernel, attrs), sum_dtype(x.dtype)
        taps = _kernel_axes(kernel, name)
        outside = te.neutral(op, x.dtype) if op == "max" else te.const(0, x.dtype)

        def element(n: Expr, c: Expr, *places: Expr):
            pixel = _pixel(x, (n, c), places, [tap.var for tap in taps], attrs, kernel, made,
                           outside)
            return (te.max if op == "max" else te.sum)(pixel.astype(wide), taps)

        return _narrowed((*x.shape[:2], *made), lambda *indices: element(*indices), x.dtype, name)
    return define


def _outside(op: str, dtype: np.dtype):
    if op == "sum":
        return 0
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _pool_meaning(op: str) -> Callable[..., np.ndarray]:
    def meaning(attrs: Attrs, x: np.ndarray) -> np.ndarray:
        views = _views(attrs, x, attrs["kernel"], _outside(op, x.dtype))
        axes = tuple(range(-len(attrs["kernel"]), 0))
        return views.max(axes) if op == "max" else views.astype(
            x.dtype if x.dtype.kind in "iu" else np.float64).sum(axes)
    return meaning


def _pool_place(attrs: Attrs, inputs: Inputs, name: str) -> Tensor:
    x, kernel = inputs[0], attrs["kernel"]
    made = _check_windows(x, kernel, attrs)
    taps = _kernel_axes(kernel, name)
    pitches = _pitches(x.shape)

    def pick(l, r):
        first = te.all_of(r[0].equal(l[0]), r[1] < l[1])
        right = te.any_of(r[0] > l[0], first)
        return te.select(right, r[0], l[0]), te.select(right, r[1], l[1])

    nowhere = te.const(2**63 - 1, "int64")
    reducer = te.reducer("place", pick, (te.neutral("max", x.dtype), nowhere))

    def element(n: Expr, c: Expr, *places: Expr):
        at = [tap.var for tap in taps]
        pixel = _pixel(x, (n, c), places, at, attrs, kernel, made, te.neutral("max", x.dtype))
        where = n * pitches[0] + c * pitches[1]
        inside = []
        for axis, (place, tap) in enumerate(zip(places, at, strict=True)):
            stride, step, low = (attrs[key][axis] for key in ("strides", "dilations", "pads"))
            index = place * stride + tap * step - low
            inside += [index >= 0, index < x.shape[2 + axis]]
            where = where + index * pitches[2 + axis]
        return reducer((pixel, te.select(te.all_of(*inside), where, nowhere)), taps)

    return te.compute((*x.shape[:2], *made), lambda *indices: element(*indices),
                      (f"{name}_value", name))[1]


def _pitches(shape: Sequence[int]) -> list[int]:
    """How far apart neighbours are along each axis."""
    return [prod(shape[axis + 1:]) for axis in range(len(shape))]


def _pool_place_meaning(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    rank = len(attrs["kernel"])
    numbers = np.arange(x.size).reshape(x.shape)
    values = _views(attrs, x, attrs["kernel"], _outside("max", x.dtype))
    where = _views(attrs, numbers, attrs["kernel"], 2**63 - 1)
    flat = values.shape[:-rank]
    best = values.reshape(*flat, -1).argmax(-1)
    return np.take_along_axis(where.reshape(*flat, -1), best[..., None], -1)[..., 0]


PRODUCTS: dict[str, Operator] = {
    "einsum": Operator(_einsum, kept(_einsum_meaning)),
    "conv": Operator(_conv, kept(_conv_meaning)),
    "pool_max": Operator(_pool("max"), kept(_pool_meaning("max"))),
    "pool_sum": Operator(_pool("sum"), kept(_pool_meaning("sum"))),
    "pool_place": Operator(_pool_place, _pool_place_meaning),
}
