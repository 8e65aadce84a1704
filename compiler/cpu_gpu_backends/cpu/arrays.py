"""Memory for kernels."""

from collections.abc import Mapping

import numpy as np

from compiler.te import numpy_dtype

__all__ = ["aligned", "on_cache_lines"]

_LINE = 64              # bytes of a cache line


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
    made = aligned(array.shape, array.dtype.name)
    made[...] = array
    return made


def on_cache_lines(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays, each in row-major order from the beginning of a cache line on."""
    return {name: _on_lines(array) for name, array in arrays.items()}
