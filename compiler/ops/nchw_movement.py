"""Operators that move elements: where each element of the result comes from.

An expression in a branch that is not taken may read outside of a tensor: it is not evaluated.
"""

from collections.abc import Callable, Mapping, Sequence

from compiler import te
from compiler.ops.nchw_elementwise import rescaled
from compiler.te import Expr, Tensor

__all__ = ["concat", "qconcat"]


def concat(attrs: Mapping, inputs: Sequence[Tensor], name: str) -> Tensor:
    """The inputs one after the other along ``axis``."""
    return _joined(attrs["axis"], inputs, lambda _, element: element, name)


def qconcat(attrs: Mapping, inputs: Sequence[Tensor], name: str) -> Tensor:
    """The inputs one after the other along the channels, each requantized by itself."""
    scales = [dict(zip(("bias", "mult", "shift"), row, strict=True))
              for row in zip(attrs["bias"], attrs["mult"], attrs["shift"], strict=True)]
    return _joined(1, inputs, lambda which, x: rescaled({**attrs, **scales[which]}, x), name)


def _joined(axis: int, inputs: Sequence[Tensor], value: Callable[[int, Expr], Expr],
            name: str) -> Tensor:
    starts = [sum(x.shape[axis] for x in inputs[:which]) for which in range(len(inputs))]
    shape = list(inputs[0].shape)
    shape[axis] = starts[-1] + inputs[-1].shape[axis]

    def element(*indices: Expr) -> Expr:
        place, found = indices[axis], None
        for which in reversed(range(len(inputs))):
            inner = (*indices[:axis], place - starts[which], *indices[axis + 1:])
            one = value(which, inputs[which][inner])
            end = starts[which] + inputs[which].shape[axis]
            found = one if found is None else te.select(place < end, one, found)
        assert found is not None
        return found

    return te.compute(tuple(shape), element, name)
