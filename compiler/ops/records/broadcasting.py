"""NumPy's broadcasting, of shapes and of expressions."""

from collections.abc import Sequence

import numpy as np

from compiler import te
from compiler.te import Expr, Tensor


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of all together; refuses with ValueError those that have none."""
    return tuple(map(int, np.broadcast_shapes(*shapes)))


def common_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of both together, or None."""
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def broadcast(tensor: Tensor, indices: Sequence[Expr]) -> Expr:
    """The element that NumPy's broadcasting puts at `indices`."""
    own = indices[len(indices) - len(tensor.shape):]
    return tensor[tuple(te.const(0, te.INDEX) if extent == 1 else index
                        for index, extent in zip(own, tensor.shape, strict=True))]


def along(vector: np.ndarray, rank: int, axis: int) -> np.ndarray:
    """A vector as it meets a tensor of `rank` dimensions along one axis; a scalar as it is."""
    return vector.reshape([-1 if i == axis else 1 for i in range(rank)]) if vector.ndim else vector
