"""The device `cuda`: kernels through NVRTC and cuda-core, on the GPU of this machine."""

import ctypes
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda
from compiler.cpu_gpu_backends.simt.code import Code, Launch, TensorMap
from compiler.te import Buffer, numpy_dtype
from runtime.devices.device import DeviceMissing

DLPACK_CUDA = 2             # a type of device

_log = logging.getLogger(__name__)


class CudaDevice:
    """GPU number `ordinal`, with a stream of its own unless it is told to use another.

    Raises DeviceMissing when cuda-core, the driver or the GPU is missing. See
    `runtime.devices.device.KernelDevice`. Addresses are the driver's own.
    """

    def __init__(self, ordinal: int = 0):
        self._core, self._driver = _libraries()
        self._ordinal = ordinal
        try:
            self._device = self._core.Device(ordinal)
            self._device.set_current()
        except Exception as error:           # the libraries share no class of errors
            raise DeviceMissing(f"GPU {ordinal} must be there, with its driver, for the device "
                                f"'cuda': {error}") from error
        self.name = self._device.name
        major, minor = self._device.compute_capability
        self.arch = f"sm_{major}{minor}"
        self._stream = self._device.create_stream()
        self._buffers: dict[int, Any] = {}
        self._modules: dict[str, Any] = {}

    def allocate(self, size_bytes: int) -> int:
        buffer = self._device.allocate(max(size_bytes, 1), stream=self._stream)
        address = int(buffer.handle)
        self._buffers[address] = buffer
        return address

    def free(self, address: int) -> None:
        self._buffers.pop(address).close(self._stream)

    def copy_in(self, address: int, data: np.ndarray) -> None:
        data = np.ascontiguousarray(data)
        self._require(self._driver.cuMemcpyHtoDAsync(address, data.ctypes.data, data.nbytes,
                                                     int(self._stream.handle)))
        self._stream.sync()                 # `data` may be freed now

    def copy_out(self, address: int, size_bytes: int) -> np.ndarray:
        data = np.empty(size_bytes, np.uint8)
        self._require(self._driver.cuMemcpyDtoHAsync(data.ctypes.data, address, size_bytes,
                                                     int(self._stream.handle)))
        self._stream.sync()
        return data

    def record(self, code: Code, *addresses: int) -> Callable[[], None]:
        code.require("cuda")
        module = self._module(code)
        at = dict(zip((*code.inputs, *code.outputs, *code.temporaries), addresses, strict=True))
        starts = [(self._mapped if launch.maps else self._plain)(launch, module, at)
                  for launch in code.launches]

        def start(to: Any = None) -> None:
            for one in starts:
                one(to)
        return start

    def _plain(self, launch: Launch, module: Any, at: Mapping[Buffer, int]) -> Callable[..., None]:
        call = (self._core.LaunchConfig(grid=launch.grid, block=launch.block),
                module.get_kernel(launch.kernel), *map(at.__getitem__, launch.arguments),
                *map(np.int32, launch.numbers))
        return lambda to: self._core.launch(to or self._stream, *call)

    def _mapped(self, launch: Launch, module: Any, at: Mapping[Buffer, int]) -> Callable[..., None]:
        """By the driver: cuda-core has no arguments of 128 bytes, but those that it encodes."""
        driver, kernel = self._driver, module.get_kernel(launch.kernel).handle
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._require(driver.cuKernelSetAttribute(attribute, launch.shared_bytes, kernel,
                                                  self._ordinal))
        maps = [self._map(one, at[one.buffer]) for one in launch.maps]
        words = [*(ctypes.c_uint64(at[buffer]) for buffer in launch.arguments),
                 *map(ctypes.c_int32, launch.numbers)]
        places = (ctypes.c_void_p * (len(words) + len(maps)))(
            *map(ctypes.addressof, words), *(one.getPtr() for one in maps))

        def start(to: Any, _alive: Any = (words, maps)) -> None:
            stream = to.stream if to else self._stream
            self._require(driver.cuLaunchKernel(
                kernel, *launch.grid, *launch.block, launch.shared_bytes, int(stream.handle),
                ctypes.addressof(places), 0))
        return start

    def _map(self, one: TensorMap, address: int) -> Any:
        """``CUtensorMap``: the last dimension first, strides in bytes. Types say widths alone."""
        driver, width = self._driver, numpy_dtype(one.buffer.dtype).itemsize
        rank = len(one.box)
        answer = driver.cuTensorMapEncodeTiled(
            getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_UINT{8 * width}"), rank,
            address, [driver.cuuint64_t(size) for size in reversed(one.buffer.shape)],
            [driver.cuuint64_t(pitch * width) for pitch in reversed(one.buffer.pitches[:-1])],
            [driver.cuuint32_t(size) for size in reversed(one.box)],
            [driver.cuuint32_t(1)] * rank,
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
        self._require(answer)
        return answer[1]

    def imported(self, array: Any) -> Any:
        """A view of another library's array on this GPU, through DLPack, without a copy. Raises
        ValueError for one that lies elsewhere, or not in rows without gaps.
        """
        kind, number = array.__dlpack_device__()
        if (int(kind), number) != (DLPACK_CUDA, self._ordinal):
            raise ValueError(f"it must be on GPU {self._ordinal} of CUDA, not on device {number} "
                             f"of DLPack's type {int(kind)}")
        view = self._core.utils.StridedMemoryView.from_dlpack(
            array, stream_ptr=int(self._stream.handle))
        if view.strides is not None and tuple(view.strides) != _dense(view.shape):
            raise ValueError("it must be dense, in row-major order")
        return view

    def address_of(self, array: Any) -> int | None:
        """The address of what `imported` gave; None where vectors may not begin there."""
        return None if isinstance(array, np.ndarray) or array.ptr % 16 else array.ptr

    def result(self, size_bytes: int, foreign: bool) -> tuple[Any, int] | None:
        if not foreign:
            return None
        buffer = self._device.allocate(max(size_bytes, 1), stream=self._stream)
        return buffer, int(buffer.handle)

    def array(self, result: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return self._core.utils.StridedMemoryView.from_buffer(result, shape, dtype=dtype)

    def captured(self, starts: Sequence[Callable[..., None]]) -> Callable[[], None]:
        """A CUDA graph, captured when it is started for the first time."""
        graphs: list[Any] = []

        def start() -> None:
            if not graphs:
                builder = self._device.create_graph_builder().begin_building()
                for one in starts:
                    one(builder)
                graphs.append(builder.end_building().complete())
            graphs[0].launch(self._stream)
        return start

    def use_stream(self, handle: int) -> None:
        """Put what follows on an existing stream of this GPU, which must outlive the device."""
        self._stream.sync()
        self._stream = self._core.Stream.from_handle(handle)

    def wait(self) -> None:
        self._stream.sync()

    def _module(self, code: Code) -> Any:
        if code.text not in self._modules:
            self._modules[code.text] = self._core.ObjectCode.from_cubin(self._image(code))
        return self._modules[code.text]

    def _image(self, code: Code) -> bytes:
        """Machine code for this GPU: what came with the text, else compiled now."""
        images = code.images or {}
        for arch in (self.arch, f"{self.arch}a"):
            if arch in images:
                return images[arch]
        if code.images is not None:
            _log.warning("The kernels are compiled for %s: there is machine code for %s", self.arch,
                         ", ".join(images) or "no architecture")
        own = f"{self.arch}a" if self.arch == "sm_90" else self.arch
        return compile_cuda(code.text, own).image

    def _require(self, answer: tuple) -> None:
        if answer[0] != self._driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"The driver of {self.name} failed: {answer[0]}")


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(prod(shape[place + 1:]) for place in range(len(shape)))


def _libraries() -> tuple[Any, Any]:
    try:
        return import_module("cuda.core"), import_module("cuda.bindings.driver")
    except ImportError as error:
        raise DeviceMissing("cuda-core must be installed for the device 'cuda': install the "
                            "extra 'gpu'") from error
