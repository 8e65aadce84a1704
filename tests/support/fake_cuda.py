"""A stand-in for cuda-core and the driver's bindings: records what is asked of it, and executes
kernels by the emulation of CUDA, in the host's memory.

Machine code is that of NVRTC, as `runtime.devices.cuda` hands it over; `Cuda.texts` says of which
text it was made, so that it can be emulated.
"""

import ctypes
from functools import partial
from types import SimpleNamespace

import numpy as np

from compiler.cpu_gpu_backends.gpu.emulate import emulation
from runtime.devices.emulated import EmulatedDevice, tensor_map

__all__ = ["Array", "Cuda"]


class Cuda:
    """A GPU of architecture `major`.`minor`. `calls` are the names of what was called, in order;
    `images` the machine code that was loaded.
    """

    def __init__(self, major: int = 9, minor: int = 0):
        self.memory, self.calls = EmulatedDevice(), []
        self.images: list[bytes] = []
        self.builders: dict[int, _Builder] = {}
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
        self.driver = SimpleNamespace(
            CUresult=success, cuMemcpyHtoDAsync=self._copy("in"),
            cuMemcpyDtoHAsync=self._copy("out"), cuuint32_t=int, cuuint64_t=int,
            cuKernelSetAttribute=self._set, cuTensorMapEncodeTiled=_encoded,
            cuLaunchKernel=self._launch_mapped, **{name: _Words() for name in (
                "CUfunction_attribute", "CUtensorMapDataType", "CUtensorMapInterleave",
                "CUtensorMapSwizzle", "CUtensorMapL2promotion", "CUtensorMapFloatOOBfill")})

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
        return SimpleNamespace(get_kernel=lambda name: SimpleNamespace(handle=(text, name)))

    def _set(self, attribute: str, value: int, kernel, device: int) -> tuple[int]:
        assert attribute == "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
        self.shared_bytes = value
        return (0,)

    def _launch_mapped(self, kernel, *numbers: int) -> tuple[int]:
        """With places of arguments in memory, as the driver takes them."""
        (text, name), grid, block = kernel, numbers[:3], numbers[3:6]
        shared_bytes, stream, places, _ = numbers[6:]
        assert shared_bytes == self.shared_bytes
        run = partial(emulation(text).launch_at, name, grid, block, places)
        if builder := self.builders.get(stream):
            builder.calls.append(run)
        else:
            self.calls.append("launch mapped")
            run()
        return (0,)

    def _launch(self, to, config, kernel, *arguments) -> None:
        text, name = kernel.handle
        grid, block = config
        run = partial(emulation(text).launch, name, grid, block, *map(int, arguments))
        if isinstance(to, _Builder):
            to.calls.append(run)
        else:
            self.calls.append("launch")
            run()


class _Words:
    """Names of the driver's constants, as they are spelled."""

    def __getattr__(self, name: str) -> str:
        return name


def _encoded(kind, rank, address, sizes, strides, box, steps, interleave, swizzle, promotion, fill):
    assert (interleave, swizzle, fill) == (
        "CU_TENSOR_MAP_INTERLEAVE_NONE", "CU_TENSOR_MAP_SWIZZLE_128B",
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE") and steps == [1] * rank
    width = int(kind.removeprefix("CU_TENSOR_MAP_DATA_TYPE_UINT")) // 8
    data = ctypes.create_string_buffer(tensor_map(address, width, sizes, box, (width, *strides)))
    return 0, SimpleNamespace(getPtr=lambda: ctypes.addressof(data))


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
        self.stream = SimpleNamespace(handle=100 + len(cuda.builders))
        cuda.builders[self.stream.handle] = self

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
        for run in self.calls:
            run()
