"""Strides of tensors in memory, and how reshapes and transposes change them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from accel.mapping.operators.blocked import Activation, Blocks


@dataclass(frozen=True, slots=True)
class View:
    """The strides in elements of a tensor's dimensions, in a value of `size` elements, from its
    element `offset` on.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    size: int
    offset: int = 0

    def transposed(self, perm: Sequence[int]) -> "View":
        return replace(self, shape=tuple(self.shape[axis] for axis in perm),
                       strides=tuple(self.strides[axis] for axis in perm))

    def reshaped(self, shape: tuple[int, ...]) -> "View | None":
        """View the same elements, in their order, in another shape; None where strides cannot."""
        strides: list[int] = []
        for before, after in _groups(self.shape, shape):
            merged = _merged([(self.shape[axis], self.strides[axis]) for axis in before])
            if merged is None:
                return None
            cut = [shape[axis] for axis in after]
            strides += [merged * math.prod(cut[at + 1:]) for at in range(len(cut))]
        return replace(self, shape=shape, strides=tuple(strides))

    def sliced(self, begin: Sequence[int], end: Sequence[int], step: Sequence[int]) -> "View":
        """View each `step`-th element of every dimension, from `begin` to before `end`."""
        return replace(
            self, shape=tuple(len(range(*side)) for side in zip(begin, end, step, strict=True)),
            strides=tuple(map(math.prod, zip(self.strides, step, strict=True))),
            offset=self.offset + sum(map(math.prod, zip(begin, self.strides, strict=True))))

    def part(self, axis: int, extent: int) -> "View":
        """The first elements along an axis."""
        return replace(self, shape=(*self.shape[:axis], extent, *self.shape[axis + 1:]))

    def equals(self, other: "View") -> bool:
        """True where each element lies in the same place; strides of one element do not count."""
        same = (self.shape, self.size, self.offset) == (other.shape, other.size, other.offset)
        return same and all(
            stride == other_stride for extent, stride, other_stride
            in zip(self.shape, self.strides, other.strides, strict=True) if extent > 1)


Stored = Activation | View
"""The form of a tensor in memory: as operators write it, or some view of that."""


def _groups(before: tuple[int, ...], after: tuple[int, ...]) -> Iterator[tuple[range, range]]:
    """The shortest runs of dimensions, before and after, that have equally many elements."""
    left_end = right_end = 0
    while left_end < len(before) or right_end < len(after):
        first, second = left_end, right_end
        left = right = 1
        while True:
            if left <= right and left_end < len(before):
                left, left_end = left * before[left_end], left_end + 1
            elif right_end < len(after):
                right, right_end = right * after[right_end], right_end + 1
            if left == right:
                break
        yield range(first, left_end), range(second, right_end)


def _merged(axes: list[tuple[int, int]]) -> int | None:
    """The stride of one dimension that replaces `axes` (extent, stride); None without one."""
    several = [axis for axis in axes if axis[0] > 1]
    for (_, outer), (extent, inner) in zip(several, several[1:], strict=False):
        if outer != extent * inner:
            return None
    return several[-1][1] if several else 0


def rows(shape: tuple[int, ...], plain: bool = False) -> Activation:
    """The form of a tensor of any rank as the rows of one matrix: images of one pixel."""
    return Activation(math.prod(shape[:-1]), shape[-1], 1, 1, plain)


def images(shape: tuple[int, ...], plain: bool = False) -> Activation:
    """The form of a tensor as images where it has four dimensions, else as rows."""
    return Activation(*shape, plain) if len(shape) == 4 else rows(shape, plain)


def view_of(x: Activation, shape: tuple[int, ...], blocks: Blocks) -> View | None:
    """The strides of a tensor of this shape that lies in memory as `x`; None where it has none."""
    size = math.prod(x.stored_shape(blocks))
    width = x.c if x.plain else blocks.padded(x.c)
    if (x.n, x.c, x.h, x.w) == (math.prod(shape[:-1]), shape[-1], 1, 1):
        strides = [width * math.prod(shape[axis + 1:-1]) for axis in range(len(shape) - 1)]
        return View(shape, (*strides, 1), size)
    lanes = 1 if x.plain else blocks.batch
    if shape != (x.n, x.c, x.h, x.w) or (x.n > 1 and x.h * x.w > 1 and lanes > 1):
        return None
    apart = width if x.h * x.w == 1 else x.h * x.w * width
    return View(shape, (apart, 1, x.w * lanes * width, lanes * width), size)


def activation_of(view: View, blocks: Blocks, as_rows: bool = False) -> Activation | None:
    """The view as images or rows, for operators that need these, as rows first if told; None where
    it is neither.
    """
    forms = (images, rows) if len(view.shape) == 4 else (rows,)
    forms = forms[::-1] if as_rows else forms
    for form in forms:
        for plain in (False, True):
            x = form(view.shape, plain)
            known = view_of(x, view.shape, blocks)
            if known is not None and view.equals(known):
                return x
    return None
