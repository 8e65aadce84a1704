"""The types in which elements are summed, and results in the type of what was read."""

from collections.abc import Callable, Sequence

import numpy as np

from compiler import te
from compiler.te import Expr, Tensor, is_float


def sum_dtype(dtype: str) -> str:
    """The type in which values of `dtype` are summed: halves in float32, all others in their own.
    """
    return "float32" if is_float(dtype) and dtype not in ("float32", "float64") else dtype


def narrowed(shape: Sequence[int], element: Callable[..., Expr], dtype: str,
             name: str) -> Tensor:
    """Computed in the type of sums, and rounded to `dtype` where that is another."""
    if sum_dtype(dtype) == dtype:
        return te.compute(tuple(shape), element, name)
    acc = te.compute(tuple(shape), element, f"{name}_acc")
    return te.compute(acc.shape, lambda *indices: acc[indices].astype(dtype), name)


def kept(meaning: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A meaning whose result has the type of its first array, or is bool."""
    def typed(attrs, *arrays: np.ndarray) -> np.ndarray:
        result = np.asarray(meaning(attrs, *arrays))
        return result if result.dtype.kind == "b" else result.astype(arrays[0].dtype)
    return typed
