"""The device `cuda` without a GPU: kernels through the C++ emulation, in the host's memory."""

import struct
from collections.abc import Callable, Sequence

import numpy as np

from compiler.cpu_gpu_backends.gpu.emulate import emulation
from compiler.cpu_gpu_backends.simt.code import Code, TensorMap
from compiler.te import numpy_dtype

ALIGNMENT = 256


class EmulatedDevice:
    """See `runtime.devices.device.KernelDevice`. Raises BuildError without a C++ compiler, and
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
                  *one.numbers, *(_map(each, at[each.buffer]) for each in one.maps))
                 for one in code.launches]

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


def _map(one: TensorMap, address: int) -> bytes:
    width = numpy_dtype(one.buffer.dtype).itemsize
    sizes, box, pitches = (tuple(reversed(extents)) for extents in (
        one.buffer.shape, one.box, one.buffer.pitches))
    return tensor_map(address, width, sizes, box, tuple(pitch * width for pitch in pitches))


def tensor_map(address: int, width: int, sizes: Sequence[int], box: Sequence[int],
               strides: Sequence[int]) -> bytes:
    """``TensorMap`` of ``emulation.h``: bytes of an element, and of each dimension, the last one
    first, the elements, those of the box that is copied, and bytes from one to the next.
    """
    none = (0,) * (5 - len(sizes))
    return struct.pack("<QII5I5I5Q", address, len(sizes), width, *sizes, *none, *box, *none,
                       *strides, *none)
