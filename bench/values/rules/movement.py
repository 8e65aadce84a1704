"""Operators that move elements, on floats and on quantized tensors as they are."""

import numpy as np

from bench.values.draw import Drawer, Unfit, Value
from bench.values.rules.registry import ALL_RANKS, MATRICES, ROWS, rule


def _kept(x: Value) -> tuple[float | None, int]:
    return x.scale, x.zero


def _axis(d: Drawer, x: Value, least: int = 1) -> int:
    axes = [axis for axis, extent in enumerate(x.shape) if extent >= least]
    if not axes:
        raise Unfit("no axis is long enough")
    return d.choice(axes)


def _signed(d: Drawer, axis: int, rank: int) -> int:
    return axis - rank if d.chance(0.3) else axis


def factored(d: Drawer, size: int, rank: int) -> list[int]:
    """A shape of so many elements."""
    shape = [1] * rank
    factor, left = 2, size
    while left > 1:
        while left % factor == 0:
            shape[d.below(rank)] *= factor
            left //= factor
        factor += 1
    return shape


@rule("Transpose", moves=True)
def transpose(d: Drawer, x: Value, op: str) -> Value:
    perm = [int(axis) for axis in d.rng.permutation(x.rank)]
    return d.emit(op, x, perm=perm, steps=_kept(x))


@rule("Reshape", moves=True, gives=ALL_RANKS)
def reshape(d: Drawer, x: Value, op: str) -> Value:
    shape = list(x.shape)
    match d.below(4):
        case 0 if x.rank > 1:               # pixels as rows, heads apart and together
            place = d.below(x.rank - 1)
            shape[place:place + 2] = [shape[place] * shape[place + 1]]
        case 1 if x.rank:
            place = d.below(x.rank)
            parts = [part for part in range(1, shape[place] + 1) if shape[place] % part == 0]
            first = d.choice(parts)
            shape[place:place + 1] = [first, shape[place] // first]
        case 2 if x.rank > 2:               # the last axes together
            place = d.below(x.rank - 1, 1)
            shape[place:] = [int(np.prod(shape[place:]))]
        case _:
            shape = factored(d, x.array.size, d.below(6) if x.array.size == 1 else d.below(5, 1))
    if shape and d.chance(0.3):
        shape[d.below(len(shape))] = -1
    return d.emit(op, x, d.constant(shape, "int64"), steps=_kept(x))


@rule("Flatten", moves=True, gives=(2,))
def flatten(d: Drawer, x: Value, op: str) -> Value:
    return d.emit(op, x, axis=d.below(x.rank + 1), steps=_kept(x))


@rule("Squeeze", moves=True, ranks=ROWS, gives=ALL_RANKS)
def squeeze(d: Drawer, x: Value, op: str) -> Value:
    ones = [axis for axis, extent in enumerate(x.shape) if extent == 1]
    if not ones:
        raise Unfit("no axis is 1")
    axes = [axis for axis in ones if d.chance(0.6)] or ones[:1]
    return d.emit(op, x, d.constant(axes, "int64"), steps=_kept(x))


@rule("Unsqueeze", moves=True, ranks=(0, 1, 2, 3, 4, 5), gives=ROWS)
def unsqueeze(d: Drawer, x: Value, op: str) -> Value:
    count = 1 if d.chance(0.7) else 2
    axes = [int(axis) for axis in d.rng.choice(x.rank + count, count, replace=False)]
    return d.emit(op, x, d.constant(axes, "int64"), steps=_kept(x))


@rule("Slice", moves=True, ranks=ROWS)
def slice_(d: Drawer, x: Value, op: str) -> Value:
    axes = [axis for axis in range(x.rank) if d.chance(0.5)] or [d.below(x.rank)]
    begins, ends, steps = [], [], []
    for axis in axes:
        extent = x.shape[axis]
        begin = d.below(extent)
        end = d.below(extent + 1, begin + 1)
        step = d.choice((1, 1, 1, 2))
        if d.chance(0.2):
            begin, end, step = end - 1, (begin - 1 if begin else -extent - 1), -step
        begins.append(begin)
        ends.append(end)
        steps.append(step)
    return d.emit(op, x, *(d.constant(one, "int64") for one in (begins, ends, axes, steps)),
                  steps=_kept(x))


@rule("Split", moves=True, ranks=ROWS)
def split(d: Drawer, x: Value, op: str) -> Value:
    axis = _axis(d, x, 2)
    first = d.below(x.shape[axis], 1)
    sizes = d.constant([first, x.shape[axis] - first], "int64")
    return d.choice(d.emit_all(op, x, sizes, outputs=2, axis=_signed(d, axis, x.rank),
                               steps=_kept(x)))


@rule("Concat", moves=True, ranks=ROWS)
def concat(d: Drawer, x: Value, op: str) -> Value:
    axis = _axis(d, x)
    parts: list[Value | str] = [x]
    for _ in range(d.below(3, 1)):
        same = [one for one in d.values if one.dtype == x.dtype and one.rank == x.rank
                and (one.scale, one.zero) == _kept(x)
                and all(one.shape[place] == x.shape[place] for place in range(x.rank)
                        if place != axis)]
        other: Value | str = d.choice(same) if same and d.chance(0.8) else x
        if d.chance(0.2):
            shape = [d.below(3, 1) if place == axis else x.shape[place] for place in range(x.rank)]
            other = d.constant(d.rng.choice(x.array.reshape(-1), shape))
        parts.insert(d.below(len(parts) + 1), other)
    return d.emit(op, *parts, axis=_signed(d, axis, x.rank), steps=_kept(x))


@rule("Tile", moves=True)
def tile(d: Drawer, x: Value, op: str) -> Value:
    repeats = [d.choice((1, 1, 2, 3)) for _ in x.shape]
    return d.emit(op, x, d.constant(repeats, "int64"), steps=_kept(x))


@rule("Expand", moves=True, gives=ALL_RANKS)
def expand(d: Drawer, x: Value, op: str) -> Value:
    shape = [d.below(4, 1) if extent == 1 else extent for extent in x.shape]
    if d.chance(0.3) and x.rank < 5:
        shape.insert(0, d.below(3, 1))
    return d.emit(op, x, d.constant(shape, "int64"), steps=_kept(x))


@rule("Gather", moves=True, ranks=ROWS, gives=ALL_RANKS)
def gather(d: Drawer, x: Value, op: str) -> Value:
    axis = _axis(d, x)
    extent = x.shape[axis]
    shape = d.choice(((), (1,), (2,), (3,), (2, 2)))
    places = d.rng.integers(-extent, extent, shape)
    return d.emit(op, x, d.constant(places, d.choice(("int64", "int32"))), axis=axis,
                  steps=_kept(x))


@rule("Gather:end", moves=True, ranks=ROWS, gives=ALL_RANKS)
def gather_end(d: Drawer, x: Value, op: str) -> Value:
    """The first or last of an axis, which is dropped, more often that of a row or a column."""
    places = d.constant(d.choice((-1, -1, 0)), "int64")
    axis = d.below(0, -2) if x.rank > 2 and d.chance(0.5) else d.below(x.rank, -x.rank)
    return d.emit(op, x, places, axis=axis, steps=_kept(x))


@rule("GatherElements", moves=True, ranks=ROWS)
def gather_elements(d: Drawer, x: Value, op: str) -> Value:
    axis = _axis(d, x)
    shape = [d.below(4, 1) if place == axis else extent for place, extent in enumerate(x.shape)]
    places = d.rng.integers(0, x.shape[axis], shape)
    return d.emit(op, x, d.constant(places, "int64"), axis=axis, steps=_kept(x))


@rule("GatherND", moves=True, ranks=ROWS, gives=ALL_RANKS)
def gather_nd(d: Drawer, x: Value, op: str) -> Value:
    depth = d.below(x.rank + 1, 1)
    shape = [d.below(4, 1) for _ in range(d.below(3, 1))]
    places = np.stack([d.rng.integers(0, x.shape[axis], shape) for axis in range(depth)], -1)
    return d.emit(op, x, d.constant(places, "int64"), steps=_kept(x))


@rule("Pad", moves=True, ranks=ROWS)
def pad(d: Drawer, x: Value, op: str) -> Value:
    mode = d.choice(("constant", "constant", "constant", "edge", "reflect", "wrap"))
    most = [2 if mode in ("constant", "edge") else extent - 1 for extent in x.shape]
    sides = [d.below(min(end, 2) + 1) if d.chance(0.5) else 0 for end in (*most, *most)]
    if mode == "constant" and d.chance(0.15):
        sides[0] = -1 if x.shape[0] > 1 else 0
    number = [] if mode != "constant" or d.chance(0.3) else [
        d.constant(d.rng.choice(x.array.reshape(-1)))]
    return d.emit(op, x, d.constant(sides, "int64"), *number, mode=mode, steps=_kept(x))


@rule("Resize:nearest", moves=True, ranks=(4,))
def resize(d: Drawer, x: Value, op: str) -> Value:
    factors = [1, 1, d.below(3, 1), d.below(3, 1)]
    return d.emit(op, x, None, d.constant(factors, "float32"), mode="nearest", steps=_kept(x),
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@rule("DepthToSpace", moves=True, ranks=(4,))
def depth_to_space(d: Drawer, x: Value, op: str) -> Value:
    if x.shape[1] % 4:
        raise Unfit("images with channels for 2 x 2 pixels alone")
    return d.emit(op, x, blocksize=2, mode=d.choice(("DCR", "CRD")), steps=_kept(x))


@rule("SpaceToDepth", moves=True, ranks=(4,))
def space_to_depth(d: Drawer, x: Value, op: str) -> Value:
    if x.shape[2] % 2 or x.shape[3] % 2:
        raise Unfit("images of even sides alone")
    return d.emit(op, x, blocksize=2, steps=_kept(x))


@rule("Identity", "Dropout", moves=True)
def identity(d: Drawer, x: Value, op: str) -> Value:
    return d.emit(op, x, steps=_kept(x))


@rule("Trilu", moves=True, ranks=MATRICES)
def trilu(d: Drawer, x: Value, op: str) -> Value:
    return d.emit(op, x, d.constant(d.below(3, -1), "int64"), upper=d.below(2), steps=_kept(x))


@rule("ReverseSequence", moves=True, ranks=MATRICES)
def reverse_sequence(d: Drawer, x: Value, op: str) -> Value:
    batch = d.below(2)
    lengths = d.rng.integers(1, x.shape[1 - batch] + 1, x.shape[batch])
    return d.emit(op, x, d.constant(lengths, "int64"), batch_axis=batch, time_axis=1 - batch,
                  steps=_kept(x))


@rule("MaxPool", moves=True, ranks=(4, 4, 4, 3, 5))
def max_pool(d: Drawer, x: Value, op: str) -> Value:
    spatial = x.shape[2:]
    kernel = [d.below(min(extent, 3) + 1, 1) for extent in spatial]
    pads = [d.below(size) if d.chance(0.3) else 0 for size in (*kernel, *kernel)]
    return d.emit(op, x, kernel_shape=kernel, strides=[d.below(3, 1) for _ in spatial], pads=pads,
                  steps=_kept(x))


@rule("TopK", moves=True, ranks=ROWS)
def top_k(d: Drawer, x: Value, op: str) -> Value:
    axis = _axis(d, x)
    count = d.constant([d.below(x.shape[axis] + 1, 1)], "int64")
    return d.emit_all(op, x, count, outputs=2, axis=axis, largest=d.below(2), sorted=1,
                      steps=_kept(x))[0]


@rule("ScatterElements", "ScatterND", moves=True, ranks=ROWS)
def scatter(d: Drawer, x: Value, op: str) -> Value:
    axis = _axis(d, x)
    if op == "ScatterND":
        depth = d.below(x.rank + 1, 1)
        places = np.array([[d.below(x.shape[place]) for place in range(depth)]])
        parts = d.rng.choice(x.array.reshape(-1), (1, *x.shape[depth:]))
        return d.emit(op, x, d.constant(places, "int64"), d.constant(parts), steps=_kept(x))
    count = d.below(x.shape[axis] + 1, 1)
    shape = [count if place == axis else extent for place, extent in enumerate(x.shape)]
    order = d.rng.permutation(x.shape[axis])[:count]
    places = np.broadcast_to(order.reshape([-1 if place == axis else 1
                                            for place in range(x.rank)]), shape)
    return d.emit(op, x, d.constant(places, "int64"),
                  d.constant(d.rng.choice(x.array.reshape(-1), shape)), axis=axis, steps=_kept(x))


@rule("TensorScatter", moves=True, ranks=(3, 4))
def cache(d: Drawer, x: Value, op: str) -> Value:
    if x.shape[-2] < 2:
        raise Unfit("caches alone")
    row = d.rng.choice(x.array.reshape(-1), (*x.shape[:-2], 1, x.shape[-1]))
    places = d.constant([d.below(x.shape[-2]) for _ in range(x.shape[0])], "int64")
    return d.emit(op, x, d.constant(row), places, steps=_kept(x))
