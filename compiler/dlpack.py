"""Arrays of other libraries as NumPy's, in the same memory."""

from typing import Any

import numpy as np

CPU = 1                             # a type of device of DLPack


def shared(name: str, array: Any) -> np.ndarray:
    """The array itself, or a view of the memory that another library shares through DLPack.

    Raises ValueError, with the name, for what shares none, for memory of another device, and for
    what the library does not hand out or NumPy has no type for.
    """
    if isinstance(array, np.ndarray):
        return array
    if not hasattr(array, "__dlpack__") or not hasattr(array, "__dlpack_device__"):
        raise ValueError(f"Array {name} must be of NumPy or of a library with DLPack, "
                         f"not {type(array).__name__}")
    device = int(array.__dlpack_device__()[0])
    if device != CPU:
        raise ValueError(f"Array {name} must be in the host's memory, not on a device of DLPack's "
                         f"type {device}")
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"Array {name} cannot be taken as it is: "
                         f"{' '.join(str(error).split())}") from None
