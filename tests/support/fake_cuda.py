"""A stand-in for cuda-core and the driver's bindings: records what is asked of it, and executes
kernels by the emulation of CUDA, in the host's memory.

Machine code is that of NVRTC, as `runtime.cuda` hands it over; `Cuda.texts` says of which text it
was made, so that it can be emulated.
"""

import ctypes
from types import SimpleNamespace

import numpy as np

from compiler.cpu_gpu_backends.gpu.emulate import emulation
from runtime.emulated import EmulatedDevice

__all__ = ["Array", "Cuda"]


class Cuda:
    """A GPU of architecture `major`.`minor`. `calls` are the names of what was called, in order;
    `images` the machine code that was loaded.
    """

    def __init__(self, major: int = 9, minor: int = 0):
        self.memory, self.calls = EmulatedDevice(), []
        self.images: list[bytes] = []
        self.texts: dict[bytes, str] = {}
        self.stream = SimpleNamespace(handle=7, sync=lambda: self.calls.append("sync"))
        self.device = SimpleNamespace(
            name="fake", compute_capability=(major, minor), set_current=lambda: None,
            create_stream=lambda: self.stream, allocate=self._allocate,
            create_graph_builder=lambda: _Builder(self))
        self.core = SimpleNamespace(
            Device=lambda ordinal: self.device, LaunchConfig=lambda grid, block: (grid, block),
            ObjectCode=SimpleNamespace(from_cubin=self._load), launch=self._launch,
            Stream=SimpleNamespace(from_handle=self._foreign),
            utils=SimpleNamespace(StridedMemoryView=SimpleNamespace(
                from_dlpack=lambda array, stream_ptr: array.view, from_buffer=_shown)))
        success = SimpleNamespace(CUDA_SUCCESS=0)
        self.driver = SimpleNamespace(CUresult=success, cuMemcpyHtoDAsync=self._copy("in"),
                                      cuMemcpyDtoHAsync=self._copy("out"))

    @property
    def libraries(self) -> tuple[SimpleNamespace, SimpleNamespace]:
        return self.core, self.driver

    def _foreign(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(handle=handle, sync=lambda: self.calls.append(f"sync {handle}"))

    def _allocate(self, size_bytes: int, stream) -> SimpleNamespace:
        address = self.memory.allocate(size_bytes)
        return SimpleNamespace(handle=address, close=lambda stream: self.memory.free(address),
                               memory=self.memory)

    def _copy(self, way: str):
        def copy(to: int, source: int, size_bytes: int, stream: int) -> tuple[int]:
            self.calls.append(f"copy {way}")
            ctypes.memmove(to, source, size_bytes)
            return (0,)
        return copy

    def _load(self, image: bytes) -> SimpleNamespace:
        self.images.append(image)
        text = self.texts[image]
        return SimpleNamespace(get_kernel=lambda name: (text, name))

    def _launch(self, to, config, kernel, *arguments) -> None:
        text, name = kernel
        grid, block = config
        if isinstance(to, _Builder):
            to.calls.append((text, name, grid, block, arguments))
        else:
            self.calls.append("launch")
            emulation(text).launch(name, grid, block, *map(int, arguments))


class Array:
    """Another library's array on the GPU; its elements are those of `values`."""

    def __init__(self, values: np.ndarray, device: tuple[int, int] = (2, 0), strides=None):
        self.values, self.device = values, device
        self.view = SimpleNamespace(ptr=values.ctypes.data, shape=values.shape, dtype=values.dtype,
                                    strides=strides)

    def __dlpack__(self, **options):
        raise NotImplementedError

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def _shown(buffer, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    data = buffer.memory._bytes(buffer.handle, int(np.prod(shape)) * dtype.itemsize)
    return Array(data.view(dtype).reshape(shape))


class _Builder:
    """What is launched into it is executed when the graph is launched."""

    def __init__(self, cuda: Cuda):
        self.cuda, self.calls, self.is_building = cuda, [], False

    def begin_building(self) -> "_Builder":
        self.cuda.calls.append("capture")
        self.is_building = True
        return self

    def end_building(self) -> "_Builder":
        self.is_building = False
        return self

    def complete(self) -> "_Builder":
        assert not self.is_building
        return self

    def launch(self, stream) -> None:
        self.cuda.calls.append(f"graph on {stream.handle}")
        for text, name, grid, block, arguments in self.calls:
            emulation(text).launch(name, grid, block, *map(int, arguments))
