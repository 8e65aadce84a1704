"""Operators that move elements, to places that shapes and constants decide."""

from math import prod

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value, axes_of, require_parts
from compiler.frontend.onnx.nodes.registry import operator
from compiler.te import numpy_dtype


@operator("Transpose")
def transpose(t, x, *, perm=None):
    return x.transpose(*(perm or reversed(range(x.rank))))


@operator("Reshape")
def reshape(t, x, shape, *, allowzero=0):
    if declared := t.declared(shape, "shape"):
        return t.emit("reshape", x, shape=declared)
    wanted = tuple(t.integers(shape, "shape"))
    beyond = 0 in wanted[x.rank:] and not allowzero
    if wanted.count(-1) > 1 or min(wanted, default=1) < -1 or beyond:
        raise NodeRefused(f"shape must hold extents, 0 for a kept one and one -1, not {wanted}")
    kept = [x.shape[axis] if extent == 0 and not allowzero else extent
            for axis, extent in enumerate(wanted)]
    if -1 in kept:
        kept[kept.index(-1)] = x.size // max(1, prod(e for e in kept if e != -1))
    return t.emit("reshape", x, shape=tuple(kept))


@operator("Flatten")
def flatten(t, x, *, axis):
    if not -x.rank <= axis <= x.rank:
        raise NodeRefused(f"axis must be -{x.rank} to {x.rank}, not {axis}")
    axis += x.rank if axis < 0 else 0
    return t.emit("reshape", x, shape=(prod(x.shape[:axis]), prod(x.shape[axis:])))


@operator("Squeeze")
def squeeze(t, x, axes=None):
    if axes is None:
        return x.reshape(*(extent for extent in x.shape if extent != 1))
    if declared := t.declared(axes, "axes"):
        return _with_ones(x, declared)
    places = axes_of(t.integers(axes, "axes"), x.rank)
    for axis in places:
        if x.shape[axis] != 1:
            raise NodeRefused(f"axis {axis} must have the extent 1, not {x.shape[axis]}")
    return x.reshape(*(extent for axis, extent in enumerate(x.shape) if axis not in places))


def _with_ones(x: Value, shape: tuple[int, ...]) -> Value:
    """The value in a shape that differs in extents of 1."""
    if [extent for extent in shape if extent > 1] != [extent for extent in x.shape if extent > 1]:
        raise NodeRefused(f"its result must have the extents of {x.shape} but for 1, not {shape}")
    return x.reshape(*shape)


@operator("Unsqueeze")
def unsqueeze(t, x, axes):
    if declared := t.declared(axes, "axes"):
        return _with_ones(x, declared)
    return x.unsqueeze(*t.integers(axes, "axes"))


@operator("Expand")
def expand(t, x, shape):
    wanted = t.declared(shape, "shape") or t.integers(shape, "shape")
    return x.expand(*np.broadcast_shapes(x.shape, tuple(wanted)))


def tile(t, x, repeats):
    if declared := t.declared(repeats, "repeats"):
        times = _quotients(declared, x.shape)
    else:
        times = t.integers(repeats, "repeats")
    if len(times) != x.rank:
        raise NodeRefused(f"repeats must have {x.rank} numbers, not {len(times)}")
    apart = x.reshape(*(side for extent in x.shape for side in (1, extent)))
    pairs = zip(times, x.shape, strict=True)
    wide = apart.expand(*(side for pair in pairs for side in pair))
    return wide.reshape(*(count * extent for count, extent in zip(times, x.shape, strict=True)))


def _quotients(wide: tuple[int, ...], extents: tuple[int, ...]) -> list[int]:
    if len(wide) != len(extents) or any(w % e for w, e in zip(wide, extents, strict=True)):
        raise NodeRefused(f"its result must be a multiple of {extents}, not {wide}")
    return [w // e for w, e in zip(wide, extents, strict=True)]


@operator("Tile", since=1)
def tile_along(t, x, tiles, axis):
    """Repeats along one axis; both numbers come as floats, too."""
    place, = axes_of((t.integer(axis.astype("int64"), "axis"),), x.rank)
    times = [1] * x.rank
    times[place] = t.integer(tiles.astype("int64"), "tiles")
    return tile(t, x, t.constant(np.array(times)))


operator("Tile", since=6)(tile)


def concat(t, *inputs, axis):
    place, = axes_of((axis,), inputs[0].rank)
    full = [value for value in inputs if value.shape[place]] or [inputs[0]]
    if len(full) == 1 and len(inputs) > 1:
        return full[0]
    return t.emit("concat", *full, axis=place)


@operator("Concat", since=1)
def concat_channels(t, *inputs, axis=1):
    return concat(t, *inputs, axis=axis)


operator("Concat", since=4)(concat)


@operator("Split")
def split(t, x, split=None, *, axis, num_outputs=None):
    place, = axes_of((axis,), x.rank)
    if split is not None:
        sizes = _declared_sizes(t, split, place) or t.integers(split, "split")
    else:
        count = num_outputs or len(t.outputs)
        each = -(-x.shape[place] // count)
        require_parts(count)
        sizes = [each] * (count - 1) + [x.shape[place] - each * (count - 1)]
    if sum(sizes) != x.shape[place] or min(sizes) < 0:
        told = sizes if len(sizes) <= 8 else f"{len(sizes):,} sizes such as {sizes[-1]}"
        raise NodeRefused(f"split must divide the extent {x.shape[place]}, not {told}")
    starts = [sum(sizes[:part]) for part in range(len(sizes))]
    return tuple(x.cut(place, start, start + size)
                 for start, size in zip(starts, sizes, strict=True))


def _declared_sizes(t, split: Value, axis: int) -> list[int] | None:
    shapes = [t.declared(split, "split", part) for part in range(len(t.outputs))]
    known = [shape[axis] for shape in shapes if shape is not None and axis < len(shape)]
    return known if len(known) == len(shapes) else None


@operator("Slice")
def slice_(t, x, starts, ends, axes=None, steps=None):
    first, last = t.integers(starts, "starts"), t.integers(ends, "ends")
    places = axes_of(range(len(first)) if axes is None else t.integers(axes, "axes"), x.rank)
    strides = [1] * len(first) if steps is None else t.integers(steps, "steps")
    if not len(first) == len(last) == len(places) == len(strides):
        raise NodeRefused("starts, ends, axes and steps must have as many numbers, not "
                          f"{len(first)}, {len(last)}, {len(places)} and {len(strides)}")
    if 0 in strides:
        raise NodeRefused("steps must not be 0")
    begin, end, step, turned = [0] * x.rank, list(x.shape), [1] * x.rank, []
    for axis, *sides in zip(places, first, last, strides, strict=True):
        there = range(*slice(*sides).indices(x.shape[axis]))
        if not there:
            begin[axis], end[axis], step[axis] = 0, 0, 1
            continue
        low, high = sorted((there[0], there[-1]))
        begin[axis], end[axis], step[axis] = low, high + 1, abs(there.step)
        turned += [axis] if there.step < 0 else []
    if 0 in (high - low for low, high in zip(begin, end, strict=True)):
        shape = [len(range(*sides)) for sides in zip(begin, end, step, strict=True)]
        return t.constant(np.empty(shape, object if x.dtype == "string" else
                                   numpy_dtype(x.dtype)))
    cut = t.emit("slice", x, begin=begin, end=end, step=step)
    return t.emit("reverse", cut, axes=tuple(turned)) if turned else cut


def pad(t, x, pads, constant_value=None, axes=None, *, mode):
    sides = t.integers(pads, "pads")
    places = range(x.rank) if axes is None else axes_of(t.integers(axes, "axes"), x.rank)
    if len(sides) != 2 * len(places):
        raise NodeRefused(f"pads must have {2 * len(places)} numbers, not {len(sides)}")
    before, after = [0] * x.rank, [0] * x.rank
    for axis, low, high in zip(places, sides[:len(places)], sides[len(places):], strict=True):
        before[axis], after[axis] = low, high
    value = x.like(0) if constant_value is None else constant_value.reshape().astype(x.dtype)
    inputs = (x, value) if mode == "constant" else (x,)
    return t.emit("pad", *inputs, mode=mode, before=before, after=after)


@operator("Pad", since=1)
def pad_by_paddings(t, x, *, mode, paddings, value=0.0):
    return pad_by_attributes(t, x, mode=mode, pads=paddings, value=value)


@operator("Pad", since=2)
def pad_by_attributes(t, x, *, mode, pads, value=0.0):
    return pad(t, x, t.constant(np.array(pads, np.int64)), x.like(value), mode=mode)


operator("Pad", since=11)(pad)


@operator("Gather")
def gather(t, x, indices, *, axis):
    place, = axes_of((axis,), x.rank)
    return t.emit("gather", x, indices, axis=place)


@operator("GatherElements")
def gather_elements(t, x, indices, *, axis):
    place, = axes_of((axis,), x.rank)
    return t.emit("gather_elements", x, indices, axis=place)


@operator("GatherND")
def gather_nd(t, x, indices, *, batch_dims=0):
    return t.emit("gather_nd", x, indices, batch_dims=batch_dims)


@operator("DepthToSpace")
def depth_to_space(t, x, *, blocksize, mode="DCR"):
    n, c, h, w = x.shape
    rest = c // blocksize ** 2
    if mode == "DCR":
        apart, perm = (n, blocksize, blocksize, rest, h, w), (0, 3, 4, 1, 5, 2)
    else:
        apart, perm = (n, rest, blocksize, blocksize, h, w), (0, 1, 4, 2, 5, 3)
    return x.reshape(*apart).transpose(*perm).reshape(n, rest, h * blocksize, w * blocksize)


@operator("SpaceToDepth")
def space_to_depth(t, x, *, blocksize, mode="DCR"):
    n, c, h, w = x.shape
    apart = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize)
    perm = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return apart.transpose(*perm).reshape(n, c * blocksize ** 2, h // blocksize, w // blocksize)


@operator("Trilu")
def trilu(t, x, k=None, *, upper):
    t.check_size(x.shape[-2:], "bool")
    if k is not None and k.array is None and t.run is None:
        below = t.constant(np.subtract.outer(*map(np.arange, x.shape[-2:])))    # row - column
        offset = -k.reshape()
        return ((below <= offset) if upper else (below >= offset)).where(x, 0)
    offset = 0 if k is None else t.integer(k, "k")
    ones = np.ones(x.shape[-2:], bool)
    kept = np.triu(ones, offset) if upper else np.tril(ones, offset)
    return t.constant(kept).where(x, 0) if x.size else x


@operator("OneHot")
def one_hot(t, indices, depth, values, *, axis):
    place, = axes_of((axis,), indices.rank + 1)
    declared = t.declared(depth, "depth")
    count = declared[place] if declared else t.integer(depth.astype("int64"), "depth")
    whole = indices.astype("int64").unsqueeze(place)
    wrapped = (whole < 0).where(whole + count, whole)
    t.check_size((count,), "int64")
    numbers = np.arange(count).reshape([-1 if axis == place else 1
                                        for axis in range(indices.rank + 1)])
    off, on = (values.cut(0, which, which + 1).reshape() for which in (0, 1))
    return wrapped.equal(t.constant(numbers)).where(on, off)


@operator("ReverseSequence")
def reverse_sequence(t, x, sequence_lens, *, batch_axis, time_axis):
    """Reverses the first elements of each sequence, as many as its length says."""
    def extents(axis):
        return [x.shape[axis] if place == axis else 1 for place in range(x.rank)]
    time = t.constant(np.arange(x.shape[time_axis]).reshape(extents(time_axis)))
    length = sequence_lens.astype("int64").reshape(*extents(batch_axis))
    place = (time < length).where(length - 1 - time, time)
    return t.emit("gather_elements", x, place.expand(*x.shape), axis=time_axis)
