"""Memory for kernels."""

from collections.abc import Mapping
from math import ceil

import numpy as np

from compiler.te import numpy_dtype

_LINE = 64              # bytes of a cache line
_FAR = 64 << 20         # bytes of which the caches near a core hold few
_COPIES = 16            # at most


def aligned(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """A new array that begins where a cache line does. Its elements are undefined.

    Tiles that straddle lines load at half the rate, and NumPy aligns to 16 bytes only.
    """
    size = int(np.prod(shape)) * numpy_dtype(dtype).itemsize
    memory = np.empty(size + _LINE, np.uint8)
    begin = -memory.ctypes.data % _LINE
    return memory[begin:begin + size].view(numpy_dtype(dtype)).reshape(shape)


def _on_lines(array: np.ndarray) -> np.ndarray:
    """The array in row-major order from the beginning of a cache line on; itself where it lies so.
    """
    if array.flags.c_contiguous and array.ctypes.data % _LINE == 0:
        return array
    return _copy(array)


def _copy(array: np.ndarray) -> np.ndarray:
    made = aligned(array.shape, array.dtype.name)
    made[...] = array
    return made


def on_cache_lines(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays, each in row-major order from the beginning of a cache line on."""
    return {name: _on_lines(array) for name, array in arrays.items()}


def far_copies(arrays: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Copies of the arrays: as many as make each one leave the near caches before its turn comes
    again, where they are read one after the other; at least one, and at most 16.
    """
    size = sum(array.nbytes for array in arrays.values())
    count = min(_COPIES, ceil(_FAR / size) + 1) if size else 1
    return [{name: _copy(array) for name, array in arrays.items()} for _ in range(count)]
