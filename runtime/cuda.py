"""The device `cuda`: kernels through NVRTC and cuda-core, on the GPU of this machine."""

import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda
from compiler.cpu_gpu_backends.simt.code import Code
from runtime.device import DeviceMissing

__all__ = ["CudaDevice"]

DLPACK_CUDA = 2             # a type of device

_log = logging.getLogger(__name__)


class CudaDevice:
    """GPU number `ordinal`, with a stream of its own unless it is told to use another.

    Raises DeviceMissing when cuda-core, the driver or the GPU is missing. See
    `runtime.device.KernelDevice`. Addresses are the driver's own.
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
        calls = [(self._core.LaunchConfig(grid=launch.grid, block=launch.block),
                  module.get_kernel(launch.kernel), *map(at.__getitem__, launch.arguments),
                  *map(np.int32, launch.numbers)) for launch in code.launches]

        def start(to: Any = None) -> None:
            for call in calls:
                self._core.launch(to or self._stream, *call)
        return start

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
        return compile_cuda(code.text, self.arch).image

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
