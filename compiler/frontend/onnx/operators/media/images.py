"""Sampling of images: at computed places, in regions, along deformed kernels, from columns."""

from collections.abc import Sequence
from itertools import product as combinations
from math import prod

import numpy as np

from compiler.frontend.building.values import NodeRefused, Value
from compiler.frontend.onnx.nodes.registry import operator
from compiler.frontend.onnx.operators.resize import rounded, widened
from compiler.frontend.onnx.operators.windows import check_window

MODES = {"linear": "linear", "bilinear": "linear", "nearest": "nearest", "cubic": "cubic",
         "bicubic": "cubic"}


@operator("GridSample")
def grid_sample(t, x, grid, *, align_corners=0, mode="linear", padding_mode="zeros"):
    if mode not in MODES or padding_mode not in ("zeros", "border", "reflection"):
        raise NodeRefused("mode must be linear, nearest or cubic and padding_mode zeros, border or "
                          f"reflection, not {mode} and {padding_mode}")
    batch, channels, *size = x.shape
    places = grid.shape[1:-1]
    wide = x if MODES[mode] == "nearest" else widened(x)        # one tap of weight 1 is exact
    flat = wide.reshape(batch, channels, prod(size)).transpose(0, 2, 1)
    taps = [_taps(t, _place(grid, axis, len(size), extent, align_corners), MODES[mode])
            for axis, extent in enumerate(size)]
    total: Value | None = None
    for chosen in combinations(*taps):
        where, weight = None, None
        for (index, share), extent in zip(chosen, size, strict=True):
            index, inside = _within(t, index, extent, padding_mode, align_corners)
            share = share if inside is None else inside.where(share, 0)
            where = index if where is None else where * extent + index
            weight = share if weight is None else weight * share
        assert where is not None and weight is not None
        numbers = where.astype("int64").reshape(batch, prod(places), 1)
        tap = t.emit("gather_nd", flat, numbers, batch_dims=1)
        tap = tap * weight.astype(wide.dtype).reshape(batch, prod(places), 1)
        total = tap if total is None else total + tap
    assert total is not None
    return rounded(t, total, x.dtype).transpose(0, 2, 1).reshape(batch, channels, *places)


def _place(grid: Value, axis: int, rank: int, extent: int, align_corners: int) -> Value:
    """Pixel coordinates along one axis; the grid has the last axis first, from -1 to 1."""
    column = rank - 1 - axis
    places = grid.cut(grid.rank - 1, column, column + 1).reshape(*grid.shape[:-1])
    if align_corners:
        return (places + 1) * ((extent - 1) / 2)
    return ((places + 1) * extent - 1) / 2


def _taps(t, place: Value, mode: str) -> list[tuple[Value, Value]]:
    """Neighbouring pixels, as integral floats, and their weights."""
    if mode == "nearest":
        return [(t.emit("rint", place), place * 0 + 1)]
    base = t.emit("floor", place)
    part = place - base
    if mode == "linear":
        return [(base, 1 - part), (base + 1, part)]
    return [(base + tap, _keys((part - tap).abs(), tap)) for tap in range(-1, 3)]


def _keys(distance: Value, tap: int, a: float = -0.75) -> Value:
    """Weights of Keys' kernel: one formula for the two nearest taps, another for the outer ones."""
    d = distance
    if tap in (0, 1):
        return ((d * (a + 2) - (a + 3)) * d) * d + 1
    return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a


def _within(t, index: Value, extent: int, padding: str,
            align_corners: int) -> tuple[Value, Value | None]:
    """An index within the image and, where pads are zeros, whether it was there before."""
    clamped = index.maximum(0).minimum(extent - 1)
    if padding == "zeros":
        return clamped, index.equal(clamped)
    if padding == "reflection":
        low, span = (0.0, extent - 1) if align_corners else (-0.5, extent)
        turn = t.emit("mod", index - low, float(2 * span)) if span else index * 0
        mirrored = turn.minimum(2 * span - turn) + low
        return mirrored.maximum(0).minimum(extent - 1), None
    return clamped, None


@operator("RoiAlign")
def roi_align(t, x, rois, batch_indices, *, coordinate_transformation_mode="output_half_pixel",
              mode="avg", output_height=1, output_width=1, sampling_ratio=0, spatial_scale=1.0):
    shift = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0

    def align(images: np.ndarray, regions: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        shape = (len(regions), images.shape[1], output_height, output_width)
        t.check_size(shape, images.dtype.name)
        pooled = np.empty(shape, images.dtype)
        for region_index, (region, number) in enumerate(zip(regions, numbers, strict=True)):
            x1, y1, x2, y2 = region * spatial_scale - shift
            least = 0.0 if shift else 1.0
            sides = [(y1, max(y2 - y1, least) / output_height, output_height),
                     (x1, max(x2 - x1, least) / output_width, output_width)]
            pooled[region_index] = _pooled(images[number], sides, sampling_ratio, mode)
        return pooled

    return t.computed(align, x, rois, batch_indices)


def _pooled(image: np.ndarray, sides: Sequence[tuple[float, float, int]], ratio: int,
            mode: str) -> np.ndarray:
    """One region [C,H,W] of an image: the mean or the maximum of samples in each bin."""
    axes = []
    for (start, size, bins), extent in zip(sides, image.shape[1:], strict=True):
        count = ratio or max(int(np.ceil(size)), 1)
        at = start + (np.arange(bins)[:, None] + (np.arange(count) + 0.5) / count) * size
        outside = (at < -1) | (at > extent)
        at = at.clip(0, extent - 1)
        low = at.astype(np.int64)
        part = at - low
        axes.append([(low, np.where(outside, 0, 1 - part)),
                     (np.minimum(low + 1, extent - 1), np.where(outside, 0, part))])
    corners = np.array([image[:, y[:, :, None, None], x] * (wy[:, :, None, None] * wx)
                        for y, wy in axes[0] for x, wx in axes[1]])
    if mode == "max":
        return corners.max((0, 3, 5))
    return corners.sum(0).mean((2, 4))


@operator("Col2Im")
def col2im(t, x, image_shape, block_shape, *, dilations=None, pads=None, strides=None):
    size = t.integers(image_shape, "image shape")
    block = t.integers(block_shape, "block shape")
    rank = len(size)
    dilations, strides = dilations or (1,) * rank, strides or (1,) * rank
    pads = pads or (0,) * (2 * rank)
    check_window(rank, dilations=dilations, strides=strides, pads=pads)
    wide = [size[axis] + pads[axis] + pads[rank + axis] for axis in range(rank)]
    counts = [(wide[axis] - (block[axis] - 1) * dilations[axis] - 1) // strides[axis] + 1
              for axis in range(rank)]

    def gather(columns: np.ndarray) -> np.ndarray:
        n = columns.shape[0]
        parts = columns.reshape(n, -1, *block, *counts)
        t.check_size((n, parts.shape[1], *wide), columns.dtype.name)
        image = np.zeros((n, parts.shape[1], *wide), columns.dtype)
        for tap in combinations(*map(range, block)):
            where = tuple(slice(tap[axis] * dilations[axis], tap[axis] * dilations[axis]
                                + (counts[axis] - 1) * strides[axis] + 1, strides[axis])
                          for axis in range(rank))
            image[(slice(None), slice(None), *where)] += parts[(slice(None), slice(None), *tap)]
        inner = tuple(slice(pads[axis], pads[axis] + size[axis]) for axis in range(rank))
        return image[(slice(None), slice(None), *inner)]

    return t.computed(gather, x)


@operator("DeformConv")
def deform_conv(t, x, w, offset, b=None, mask=None, *, dilations=None, group=1, kernel_shape=None,
                offset_group=1, pads=None, strides=None):
    """Convolves with taps that the offsets move and the mask weighs."""
    rows, columns = w.shape[2:]
    dilations, strides, pads = dilations or (1, 1), strides or (1, 1), pads or (0,) * 4
    check_window(2, kernel_shape=kernel_shape, dilations=dilations, strides=strides, pads=pads)

    def convolve(image: np.ndarray, weight: np.ndarray, moved: np.ndarray,
                 *weights: np.ndarray) -> np.ndarray:
        n, channels, *_ = image.shape
        height, width = moved.shape[2:]
        moved = moved.reshape(n, offset_group, rows, columns, 2, height, width)
        base = [np.arange(rows)[:, None, None, None] * dilations[0] - pads[0]
                + np.arange(height)[:, None] * strides[0],
                np.arange(columns)[:, None, None] * dilations[1] - pads[1]
                + np.arange(width) * strides[1]]
        taps = _bilinear(image.reshape(n, offset_group, -1, *image.shape[2:]),
                         base[0] + moved[..., 0, :, :], base[1] + moved[..., 1, :, :])
        if weights:
            taps = taps * weights[0].reshape(n, offset_group, 1, rows, columns, height, width)
        taps = taps.reshape(n, group, channels // group, rows, columns, height, width)
        grouped = weight.reshape(group, -1, *weight.shape[1:])
        sums = np.einsum("ngcijhw,gocij->ngohw", taps, grouped)
        return sums.reshape(n, -1, height, width).astype(image.dtype)

    result = t.computed(convolve, x, w, offset, *([] if mask is None else [mask]))
    return result if b is None else result + b.reshape(1, b.size, 1, 1)


def _bilinear(image: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Elements of image [N,G,C,H,W] at places [N,G,...], zero outside: [N,G,C,...]."""
    n, groups, _, height, width = image.shape
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    total: np.ndarray | float = 0.0
    numbers = np.ix_(range(n), range(groups))
    first = [number.reshape(n if axis == 0 else 1, -1, *[1] * (y.ndim - 2))
             for axis, number in enumerate(numbers)]
    for row, column in combinations((0, 1), (0, 1)):
        at_y, at_x = top + row, left + column
        share = (1 - np.abs(y - at_y)) * (1 - np.abs(x - at_x))
        inside = (at_y >= 0) & (at_y < height) & (at_x >= 0) & (at_x < width)
        pixels = image[first[0], first[1], :, at_y.clip(0, height - 1), at_x.clip(0, width - 1)]
        total = total + np.moveaxis(pixels, -1, 2) * np.where(inside, share, 0)[:, :, None]
    return np.asarray(total)
