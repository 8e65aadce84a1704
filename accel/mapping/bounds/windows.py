"""The elements of a tensor in memory that the windows of tiles hold, by the sizes of tiles.

A tile loads the pixels that its windows see. Those outside of the tensor are padding, which moves
no byte. Rows and columns are cut apart, so the pixels of all tiles are the product of two sums.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accel.machine.config import AccelConfig, element_bytes
from accel.mapping.lowering.nest import Interval, NotAffine, affine, at_least_zero, conjuncts, solve
from accel.mapping.operators.blocked import AROUND, BlockedOperator
from compiler.te import Expr, Read, Select, Tensor, Var


@dataclass(frozen=True)
class WindowLine:
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
class LoadedSource:
    """A tensor that a layer loads into inp or res, pixel by pixel: `pixel_bytes` of each pixel of
    all blocks are in memory.
    """

    rows: WindowLine
    columns: WindowLine
    pixel_bytes: int

    @property
    def bytes_once(self) -> int:
        """The bytes of all places that are in memory."""
        (top, bottom), (left, right) = self.rows.there, self.columns.there
        return max(bottom - top, 0) * max(right - left, 0) * self.pixel_bytes


def source_of(operator: BlockedOperator, role: str, count: tuple[int, int],
              window: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
              ) -> LoadedSource | None:
    """The tensor that a stage copies, for windows (kernel, strides, dilations) of `count` pixels;
    None where it is not certain that each element moves by itself.
    """
    stage = operator[role]
    around = sum(axis in AROUND for axis in operator.axes["quantized"])
    inner = [axis.var for axis in stage.axes[around:]]
    there = _there(stage) if len(inner) in (5, 6) else None
    if there is None:
        return None
    rows, columns, *planes, blocks, images, lanes = inner
    steps = there.steps
    if not _apart(steps, there.box, planes) or set(there.ends) - {(blocks, lanes)}:
        return None
    kernel, strides, dilations = window
    across = _size(there.box[images]) * there.size(blocks, lanes)
    for plane in planes:                    # of a product of matrices: its window's columns
        kernel, strides = (kernel[0], 1), (strides[0], 1)
        across *= _size(there.box[plane]) if steps[plane] else 1
    down, right = (WindowLine(count[at], kernel[at], strides[at], dilations[at], there.box[var])
                   for at, var in enumerate((rows, columns)))
    return LoadedSource(down, right, across * element_bytes(stage.dtype))


def computed_weights(operator: BlockedOperator) -> tuple[int, int, int]:
    """The bytes of one matrix of computed weights, as far as they are certain; how many of them a
    step of load moves at most (0: as many as the bus), since where lanes do not lie together, a run
    is one element; and how many bytes it is then from one run to the next.
    """
    stage = operator["w"]
    there = _there(stage)
    if there is None or len(stage.axes) < 5:
        return 0, 0, 0
    channels, planes, depth, outs, lanes = (axis.var for axis in stage.axes[-5:])
    steps = there.steps
    if not _apart(steps, there.box, [planes, *(axis.var for axis in stage.axes[:-5])]) or (
            set(there.ends) - {(channels, outs), (depth, lanes)}):
        return 0, 0, 0
    again = _size(there.box[planes]) if steps[planes] else 1
    item = element_bytes(stage.dtype)
    return (there.size(channels, outs) * there.size(depth, lanes) * again * item,
            0 if steps[lanes] == 1 or stage.shape[-1] == 1 else item, abs(steps[lanes]) * item)


def _size(interval: Interval) -> int:
    return max(interval[1] - interval[0], 0)


@dataclass(frozen=True)
class _There:
    """The box of axes in which a stage that copies reads memory.

    Two axes that are one index, as blocks and lanes are, may end within a block: `ends` has how
    many of these there are. `steps` says how many elements further an axis reads.
    """

    box: dict[Var, Interval]
    ends: dict[tuple[Var, Var], int]
    steps: Mapping[Var, int]

    def size(self, outer: Var, inner: Var) -> int:
        """The elements along two axes that are one index."""
        size = _size(self.box[outer]) * _size(self.box[inner])
        return min(size, self.ends.get((outer, inner), size))


def _there(stage: Tensor) -> _There | None:
    """None where it is no box."""
    extents = {axis.var: axis.extent for axis in stage.axes}
    box: dict[Var, Interval] = {var: (0, extent) for var, extent in extents.items()}
    ends: dict[tuple[Var, Var], int] = {}
    body = stage.body
    try:
        for one in conjuncts(body.condition) if isinstance(body, Select) else ():
            form, *others = at_least_zero(one, {})
            match list(form.coefficients.items()):
                case [(outer, step), (inner, -1)] if not others and step == -extents[inner]:
                    ends[outer, inner] = max(form.offset + 1, 0)
                    continue
            found = solve(one, {}, box)
            box = dict.fromkeys(box, (0, 0)) if found is None else found
        read = body.a if isinstance(body, Select) else body
        return _There(box, ends, _steps(read)) if isinstance(read, Read) else None
    except NotAffine:
        return None


def _steps(read: Read) -> Mapping[Var, int]:
    step, steps = 1, defaultdict[Var, int](int)
    for index, extent in reversed(list(zip(read.indices, read.buffer.shape, strict=True))):
        for var, factor in affine(index, {}).coefficients.items():
            steps[var] += factor * step
        step *= extent
    return steps


def _apart(steps: Mapping[Var, int], box: Mapping[Var, Interval], again: Sequence[Var]) -> bool:
    """True if all places in a box read different elements, but for axes that may read the same
    `again`.
    """
    reach = 1
    for stride, size in sorted((abs(steps[var]), _size(box[var])) for var in box
                               if steps[var] or var not in again):
        if size > 1:
            if stride < reach:
                return False
            reach += stride * (size - 1)
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
