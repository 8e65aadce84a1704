"""What the windows of a layer's tiles hold of a tensor in memory, by the sizes of tiles.

A tile loads the pixels that its windows see. Those outside of the tensor are padding, which moves
no byte. Rows and columns are cut apart, so the pixels of all tiles are the product of two sums.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from accel.machine.config import AccelConfig, element_bytes
from accel.mapping.lowering.nest import Interval, NotAffine, affine, at_least_zero, conjuncts, solve
from accel.mapping.operators.blocked import AROUND, BlockedOperator
from compiler.te import Expr, Read, Select, Tensor, Var

__all__ = ["Line", "Packed", "Source", "packed_source", "source_of"]


@dataclass(frozen=True)
class Line:
    """Rows (or columns) of windows: `count` windows of `kernel` taps, over a padded line of which
    the places `there` are in memory.
    """

    count: int
    kernel: int
    stride: int
    dilation: int
    there: Interval

    def loaded(self, size: int, taps: int) -> tuple[int, ...]:
        """For tiles of `size` windows, in pieces of `taps`: the places that all of them load; those
        of these that are in memory; the latter of the first tile's first piece; the pieces that
        have any; the places before the first in memory of every piece.
        """
        starts = np.arange(0, self.count, size)[:, None]
        begin, end = np.arange(0, self.kernel, taps), self.kernel
        low = starts * self.stride + begin * self.dilation
        high = ((np.minimum(starts + size, self.count) - 1) * self.stride
                + (np.minimum(begin + taps, end) - 1) * self.dilation + 1)
        moved = np.maximum(np.minimum(high, self.there[1]) - np.maximum(low, self.there[0]), 0)
        before = np.maximum(np.minimum(high, self.there[0]) - low, 0)
        return (int((high - low).sum()), int(moved.sum()), int(moved[0, 0]),
                int(np.count_nonzero(moved)), int(before.sum()))


@dataclass(frozen=True)
class Source:
    """A tensor that a layer loads into inp or res, pixel by pixel: `pixel_bytes` of each pixel of
    all blocks are in memory.
    """

    rows: Line
    columns: Line
    pixel_bytes: int

    @property
    def bytes_once(self) -> int:
        """The bytes of all places that are in memory."""
        (top, bottom), (left, right) = self.rows.there, self.columns.there
        return max(bottom - top, 0) * max(right - left, 0) * self.pixel_bytes


def source_of(operator: BlockedOperator, role: str, count: tuple[int, int],
              window: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]) -> Source | None:
    """The tensor that a stage copies, for windows (kernel, strides, dilations) of `count` pixels;
    None where it is not certain that each element moves by itself.
    """
    stage = operator[role]
    there = _there(stage)
    around = sum(axis in AROUND for axis in operator.axes["quantized"])
    inner = len(stage.shape) - around
    if there is None or inner not in (5, 6):
        return None
    kernel, strides, dilations = window
    rows, columns, *planes = (there[at] for at in range(around, len(there)))
    if inner == 6:                          # planes of a product of matrices: its window's columns
        kernel, strides = (kernel[0], 1), (strides[0], 1)
    across = prod(high - low for low, high in planes)
    lines = (Line(size, taps, stride, dilation, within) for size, taps, stride, dilation, within
             in zip(count, kernel, strides, dilations, (rows, columns), strict=True))
    return Source(*lines, across * element_bytes(stage.dtype))


def _there(stage: Tensor) -> list[Interval] | None:
    """Where a stage that copies reads memory, as a box of its axes; None where it is no box, or
    where two places may read the same element.
    """
    box = {axis.var: (0, axis.extent) for axis in stage.axes}
    body = stage.body
    try:
        if isinstance(body, Select):
            found = solve(body.condition, {}, box)
            body = body.a
            box = found if found is not None else dict.fromkeys(box, (0, 0))
        if not isinstance(body, Read) or not _apart(body, box):
            return None
    except NotAffine:
        return None
    return [box[axis.var] for axis in stage.axes]


def _apart(read: Read, box: Mapping[Var, Interval]) -> bool:
    """Whether all places in a box read elements of their own."""
    step, steps = 1, dict.fromkeys(box, 0)
    for index, extent in reversed(list(zip(read.indices, read.buffer.shape, strict=True))):
        for var, factor in affine(index, {}).coefficients.items():
            steps[var] += factor * step
        step *= extent
    reach = 1
    for stride, (low, high) in sorted((abs(steps[var]), box[var]) for var in box):
        if high - low > 1:
            if stride < reach:
                return False
            reach += stride * (high - low - 1)
    return True


@dataclass(frozen=True)
class Packed:
    """A plain image whose windows are loaded row by row, each row's bytes together: so many
    `lines` of the first row of windows, of the first two, and so on, are in the image; `starts` are
    the first bytes of the windows of a line, `row` how many each has, `width` those of the image.
    """

    lines: np.ndarray
    starts: np.ndarray
    row: int
    width: int
    shares: bool

    def columns(self, size: int) -> tuple[int, int]:
        """Bytes of a line that tiles of so many windows read, and those of the first tile. What
        neighbouring windows share moves once, where load keeps it.
        """
        low, high = np.maximum(self.starts, 0), np.minimum(self.starts + self.row, self.width)
        if self.shares:
            low, high = low[::size], np.maximum.reduceat(high, np.arange(0, len(high), size))
            moved = np.maximum(high - low, 0)
            return int(moved.sum()), int(moved[0])
        moved = np.maximum(high - low, 0)
        return int(moved.sum()), int(moved[:size].sum())

    def chunks(self, bus_bytes: int) -> int:
        """Steps of load for the windows of a line, at least."""
        low, high = np.maximum(self.starts, 0), np.minimum(self.starts + self.row, self.width)
        return int((-(-np.maximum(high - low, 0) // bus_bytes)).sum())


def packed_source(config: AccelConfig, operator: BlockedOperator) -> Packed | None:
    """The image of a `packed_convolution`; None where its stage is not as expected."""
    stage = operator["input"]
    body, axes = stage.body, [axis.var for axis in stage.axes]
    n, h, w, c, b, i = axes
    condition = body.condition if isinstance(body, Select) else None
    read = body.a if isinstance(body, Select) else body
    if not isinstance(read, Read):
        return None
    zero = dict.fromkeys(axes, 0)
    _, line, byte = read.indices
    size, count = stage.shape[-1], stage.shape[3]
    used = count * size
    for one in conjuncts(condition) if condition is not None else ():
        try:
            form, = at_least_zero(one, {})
        except NotAffine:
            continue
        if set(form.coefficients) == {c, i} or set(form.coefficients) == {c}:
            used = min(used, form.offset + 1)
    top, left = _at(line, zero), _at(byte, zero)
    down, across = _at(line, zero | {h: 1}) - top, operator.step
    _, height, width = operator["x"].shape
    item = element_bytes(stage.dtype)
    taps = top + np.arange(used // operator.row)
    inside = [int(np.count_nonzero((taps + y * down >= 0) & (taps + y * down < height)))
              for y in range(stage.shape[1])]
    starts = (left + np.arange(stage.shape[2]) * across) * item
    row = operator.row * item
    return Packed(np.cumsum(inside), starts, row, width * item,
                  operator.step < operator.row and row <= config.kept_beats * config.bus_bytes)


def _at(expr: Expr, values: Mapping[Var, int]) -> int:
    return affine(expr, values).offset
