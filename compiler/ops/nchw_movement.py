"""Operators that move elements: where each element of the result comes from.

An expression in a branch that is not taken may read outside of a tensor: it is not evaluated.
"""

from collections.abc import Callable, Mapping, Sequence

from compiler import te
from compiler.ops.nchw_elementwise import rescaled
from compiler.te import Expr, Tensor

__all__ = ["concat", "qconcat", "slice_", "upsample"]


def concat(attrs: Mapping, inputs: Sequence[Tensor], name: str) -> Tensor:
    """The inputs one after the other along ``axis``."""
    return _joined(attrs["axis"], inputs, lambda _, element: element, name)


def qconcat(attrs: Mapping, inputs: Sequence[Tensor], name: str) -> Tensor:
    """The inputs one after the other along the channels, each requantized by itself."""
    scales = [dict(zip(("bias", "mult", "shift"), row, strict=True))
              for row in zip(attrs["bias"], attrs["mult"], attrs["shift"], strict=True)]
    axis = attrs.get("axis", 1)
    return _joined(axis, inputs, lambda which, x: rescaled({**attrs, **scales[which]}, x), name)


def upsample(attrs: Mapping, inputs: Sequence[Tensor], name: str) -> Tensor:
    """Each pixel of ``x`` [N,C,H,W] in ``factors`` rows and columns."""
    x, (rows, columns) = inputs[0], attrs["factors"]
    n, c, h, w = x.shape
    return te.compute((n, c, h * rows, w * columns),
                      lambda n, c, h, w: x[n, c, h // rows, w // columns], name)


def slice_(attrs: Mapping, inputs: Sequence[Tensor], name: str) -> Tensor:
    """Of every axis, each ``step``-th element from ``begin`` to before ``end``."""
    x, sides = inputs[0], list(zip(*(attrs[k] for k in ("begin", "end", "step")), strict=True))
    shape = tuple(-(-(end - begin) // step) for begin, end, step in sides)
    return te.compute(shape, lambda *indices: x[tuple(
        index * step + begin for index, (begin, _, step) in zip(indices, sides, strict=True))],
        name)


def _joined(axis: int, inputs: Sequence[Tensor], value: Callable[[int, Expr], Expr],
            name: str) -> Tensor:
    starts = [sum(x.shape[axis] for x in inputs[:which]) for which in range(len(inputs))]
    shape = list(inputs[0].shape)
    shape[axis] = starts[-1] + inputs[-1].shape[axis]

    def element(*indices: Expr) -> Expr:
        return among(0, len(inputs), indices)

    def among(first: int, end: int, indices: Sequence[Expr]) -> Expr:
        """By halves, so that the expression of many inputs is not deep."""
        if end - first > 1:
            middle = (first + end) // 2
            return te.select(indices[axis] < starts[middle], among(first, middle, indices),
                             among(middle, end, indices))
        inner = (*indices[:axis], indices[axis] - starts[first], *indices[axis + 1:])
        return value(first, inputs[first][inner])

    return te.compute(tuple(shape), element, name)
