"""What an operator of any shape and element type is: its expression and its meaning in NumPy.

The type of the result is that of the expression, so nothing else says it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.te import Tensor, is_float

__all__ = ["Attrs", "Define", "Inputs", "Meaning", "Operator", "kept", "sum_dtype"]

Attrs = Mapping
Inputs = Sequence[Tensor]
Define = Callable[[Attrs, Inputs, str], Tensor]
Meaning = Callable[..., np.ndarray]


@dataclass(frozen=True, slots=True)
class Operator:
    """`define(attrs, inputs, name)` is the result as a tensor called `name`; it refuses with
    ValueError or TypeError what does not fit. `meaning(attrs, *arrays)` is the same in NumPy, of
    the same type, for tensors without elements too.
    """

    define: Define
    meaning: Meaning


def sum_dtype(dtype: str) -> str:
    """The type in which values of `dtype` are summed: halves in float32, all others in their own.
    """
    return "float32" if is_float(dtype) and dtype not in ("float32", "float64") else dtype


def kept(meaning: Meaning) -> Meaning:
    """A meaning whose result has the type of its first array, or is bool."""
    def typed(attrs: Attrs, *arrays: np.ndarray) -> np.ndarray:
        made = np.asarray(meaning(attrs, *arrays))
        return made if made.dtype.kind == "b" else made.astype(arrays[0].dtype)
    return typed
