"""The device `opencl`: kernels through pyopencl, on a GPU or, without one, on the processor.

There PoCL runs them, whose compiler knows the processors of its time; on younger ones Oclgrind
does, which interprets them: slowly, but anywhere.
"""

import warnings
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from compiler.cpu_gpu_backends.simt.code import Code
from runtime.devices.device import DeviceMissing

ALIGNMENT = 256


INTERPRETER = "Oclgrind"


class OpenClDevice:
    """The first device that compiles kernels, of all platforms or of those whose names hold
    `platform`. An interpreter comes last.

    Raises DeviceMissing when pyopencl or a platform is missing. See
    `runtime.devices.device.KernelDevice`.
    """

    def __init__(self, platform: str = ""):
        self._cl = _pyopencl()
        device = _device(self._cl, platform)
        self.name = device.name.strip()
        self._options = _options(device)
        self._context = self._cl.Context([device])
        self._queue = self._cl.CommandQueue(self._context)
        self._bases: list[int] = []         # ascending; buffer i begins at address i
        self._buffers: list[Any] = []
        self._end = 0
        self._programs: dict[str, Any] = {}

    def allocate(self, size_bytes: int) -> int:
        address, size = self._end, max(size_bytes, 1)
        self._bases.append(address)
        flags = self._cl.mem_flags.READ_WRITE
        self._buffers.append(self._cl.Buffer(self._context, flags, size))
        self._end += -(-size // ALIGNMENT) * ALIGNMENT
        return address

    def free(self, address: int) -> None:
        place = self._bases.index(address)
        self._buffers.pop(place).release()
        self._bases.pop(place)

    def copy_in(self, address: int, data: np.ndarray) -> None:
        buffer, offset = self._place(address)
        if data.size:
            self._cl.enqueue_copy(self._queue, buffer, np.ascontiguousarray(data),
                                  dst_offset=offset)

    def copy_out(self, address: int, size_bytes: int) -> np.ndarray:
        buffer, offset = self._place(address)
        data = np.empty(size_bytes, np.uint8)
        if size_bytes:
            self._cl.enqueue_copy(self._queue, data, buffer, src_offset=offset)
        return data

    def record(self, code: Code, *addresses: int) -> Callable[[], None]:
        code.require("opencl")
        program = self._program(code)
        at = dict(zip((*code.inputs, *code.outputs, *code.temporaries), addresses, strict=True))
        calls = []
        for launch in code.launches:
            kernel = self._cl.Kernel(program, launch.kernel)
            parts = [self._part(at[buffer], buffer.size_bytes) for buffer in launch.arguments]
            kernel.set_args(*parts, *map(np.int32, launch.numbers))
            threads = tuple(g * b for g, b in zip(launch.grid, launch.block))
            calls.append((kernel, parts, threads, launch.block))    # which do not hold each other

        def start() -> None:
            for kernel, _, threads, block in calls:
                self._cl.enqueue_nd_range_kernel(self._queue, kernel, threads, block)
        return start

    def address_of(self, array: Any) -> int | None:
        return None                     # buffers of OpenCL have no addresses to share

    def result(self, size_bytes: int, foreign: bool) -> tuple[Any, int] | None:
        return None

    def array(self, result: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        raise AssertionError("no result of OpenCL stays on its device: `result` gives none")

    def captured(self, starts: Sequence[Callable[..., None]]) -> Callable[[], None]:
        def start() -> None:
            for one in starts:
                one()
        return start

    def wait(self) -> None:
        self._queue.finish()

    def _place(self, address: int) -> tuple[Any, int]:
        place = bisect_right(self._bases, address) - 1
        return self._buffers[place], address - self._bases[place]

    def _part(self, address: int, size_bytes: int) -> Any:
        """The argument of a kernel for these bytes: a buffer, or a region of one."""
        buffer, offset = self._place(address)
        return buffer.get_sub_region(offset, max(size_bytes, 1)) if offset else buffer

    def _program(self, code: Code) -> Any:
        if code.text not in self._programs:
            with warnings.catch_warnings():         # the compiler's remarks are not failures
                warnings.simplefilter("ignore")
                self._programs[code.text] = self._cl.Program(self._context, code.text).build(
                    self._options)
        return self._programs[code.text]


def _options(device: Any) -> list[str]:
    """Compiler options. PoCL 3 drops guarded stores after a loop with barriers when it optimizes,
    so it must not: ``tests/runtime/test_kernel_devices.py`` has such a kernel.
    """
    broken = device.platform.version.startswith("OpenCL 3.0 PoCL 3.")
    return ["-cl-opt-disable"] if broken else []


def _pyopencl() -> Any:
    try:
        return import_module("pyopencl")
    except ImportError as error:
        raise DeviceMissing("pyopencl must be installed for the device 'opencl': install the "
                            "extra 'gpu'") from error


@lru_cache(8)
def _device(cl: Any, platform: str) -> Any:
    try:
        platforms = cl.get_platforms()
    except cl.Error:                                # without a platform the loader raises
        platforms = []
    chosen = sorted((candidate for candidate in platforms if platform in candidate.name),
                    key=lambda candidate: candidate.name == INTERPRETER)
    if not chosen:
        known = ", ".join(candidate.name for candidate in platforms) or "none"
        raise DeviceMissing(f"An OpenCL device of a platform named {platform!r} must be "
                            f"installed; platforms here: {known}")
    for device in (device for candidate in chosen for device in candidate.get_devices()):
        if _compiles(cl, device):
            return device
    raise DeviceMissing(f"A device of OpenCL must compile kernels, and no one here does for this "
                        f"processor ({', '.join(candidate.version for candidate in chosen)}): "
                        f"install the extra 'gpu', which brings the interpreter {INTERPRETER}")


def _compiles(cl: Any, device: Any) -> bool:
    """Try the smallest kernel: PoCL 3 offers a device and then refuses every kernel where its LLVM
    (14) takes the processor for a generic one."""
    try:
        cl.Program(cl.Context([device]), "kernel void nothing() {}").build()
    except cl.Error:
        return False
    return True
