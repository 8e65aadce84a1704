"""The device `cuda` without a GPU: kernels through the C++ emulation, in the host's memory."""

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

    def launch(self, code: Code, *addresses: int) -> None:
        code.require("cuda")
        at = dict(zip((*code.inputs, *code.outputs, *code.temporaries), addresses, strict=True))
        library = emulation(code.text)
        for launch in code.launches:
            library.launch(launch.kernel, launch.grid, launch.block,
                           *(at[buffer] for buffer in launch.arguments), *launch.numbers)

    def wait(self) -> None:
        pass

    def _bytes(self, address: int, size: int) -> np.ndarray:
        base = max(begin for begin in self._memory if begin <= address)
        room = self._memory[base]
        first = address - room.ctypes.data
        return room[first:first + size]
