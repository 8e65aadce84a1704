"""Reducers that several tests use."""

import numpy as np

from compiler import te
from compiler.te import Reducer


def argmax(dtype: str = "int32") -> Reducer:
    """Largest value and its first index."""
    def combine(left, right):
        better = te.any_of(right[0] > left[0],
                           te.all_of(right[0].equal(left[0]), right[1] < left[1]))
        return te.select(better, right[0], left[0]), te.select(better, right[1], left[1])

    lowest = -float("inf") if te.is_float(dtype) else int(np.iinfo(dtype).min)
    return te.reducer("argmax", combine, (te.const(lowest, dtype), te.const(2**63 - 1, te.INDEX)))
