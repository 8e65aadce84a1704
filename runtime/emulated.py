"""The device `cuda` without a GPU: kernels through the C++ emulation, in the host's memory."""

from collections.abc import Callable, Sequence

import numpy as np

from compiler.cpu_gpu_backends.gpu.emulate import emulation
from compiler.cpu_gpu_backends.simt.code import Code

__all__ = ["EmulatedDevice"]

ALIGNMENT = 256


class EmulatedDevice:
    """See `runtime.device.KernelDevice`. Raises BuildError without a C++ compiler, and
    EmulationError for a kernel that would hang.
    """

    name = "emulated CUDA"

    def __init__(self):
        self._memory: dict[int, np.ndarray] = {}

    def allocate(self, size_bytes: int) -> int:
        room = np.empty(size_bytes + ALIGNMENT, np.uint8)
        address = -(-room.ctypes.data // ALIGNMENT) * ALIGNMENT
        self._memory[address] = room
        return address

    def free(self, address: int) -> None:
        del self._memory[address]

    def copy_in(self, address: int, data: np.ndarray) -> None:
        self._bytes(address, data.size)[:] = data

    def copy_out(self, address: int, size_bytes: int) -> np.ndarray:
        return self._bytes(address, size_bytes).copy()

    def record(self, code: Code, *addresses: int) -> Callable[[], None]:
        code.require("cuda")
        at = dict(zip((*code.inputs, *code.outputs, *code.temporaries), addresses, strict=True))
        library = emulation(code.text)
        calls = [(one.kernel, one.grid, one.block, *map(at.__getitem__, one.arguments),
                  *one.numbers) for one in code.launches]

        def launch() -> None:
            for call in calls:
                library.launch(*call)
        return launch

    def address_of(self, array: np.ndarray) -> int | None:
        """The device's memory is the host's; vectors have 16 bytes."""
        address = array.ctypes.data
        return address if array.flags.c_contiguous and address % 16 == 0 else None

    def result(self, size_bytes: int, foreign: bool) -> tuple[np.ndarray, int]:
        room = np.empty(size_bytes + ALIGNMENT, np.uint8)
        address = -(-room.ctypes.data // ALIGNMENT) * ALIGNMENT
        first = address - room.ctypes.data
        return room[first:first + size_bytes], address

    def array(self, result: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return result.view(dtype).reshape(shape)

    def captured(self, starts: Sequence[Callable[..., None]]) -> Callable[[], None]:
        def start() -> None:
            for one in starts:
                one()
        return start

    def wait(self) -> None:
        pass

    def _bytes(self, address: int, size: int) -> np.ndarray:
        base = max(begin for begin in self._memory if begin <= address)
        room = self._memory[base]
        first = address - room.ctypes.data
        return room[first:first + size]
