"""Generated kernels on a device that executes them, with NumPy arrays in and out."""

from collections.abc import Mapping

import numpy as np

from compiler.cpu_gpu_backends.simt.code import Code
from compiler.ir import values_in
from compiler.te import Buffer, numpy_dtype
from runtime.devices.device import KernelDevice

__all__ = ["compute"]


def compute(device: KernelDevice, code: Code, inputs: Mapping[str, np.ndarray],
            **symbols: int) -> dict[str, np.ndarray]:
    """Outputs by name, like `compiler.ir.interpret`. Outputs start as 0xA5, so that an element that
    no thread writes is noticed. Parameters take their values from the shapes of the inputs, or from
    `symbols`. Raises ValueError for inputs that do not fit.
    """
    code = code.at(**values_in(code.inputs if code.parameters else (), inputs, symbols))
    buffers = (*code.inputs, *code.outputs, *code.temporaries)
    places = {buffer.name: device.allocate(buffer.size_bytes) for buffer in buffers}
    try:
        for buffer in code.inputs:
            array = _checked(buffer, inputs, code.name)
            device.copy_in(places[buffer.name], array.reshape(-1).view(np.uint8))
        for buffer in (*code.outputs, *code.temporaries):
            device.copy_in(places[buffer.name], np.full(buffer.size_bytes, 0xA5, np.uint8))
        device.record(code, *(places[buffer.name] for buffer in buffers))()
        device.wait()
        return {b.name: device.copy_out(places[b.name], b.size_bytes)
                .view(numpy_dtype(b.dtype)).reshape(b.shape) for b in code.outputs}
    finally:
        for address in places.values():
            device.free(address)


def _checked(buffer: Buffer, inputs: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    if buffer.name not in inputs:
        raise ValueError(f"Inputs of {name} must hold {buffer.name!r}, not only {sorted(inputs)}")
    array = inputs[buffer.name]
    if array.shape != buffer.shape or array.dtype != numpy_dtype(buffer.dtype):
        raise ValueError(f"Input {buffer.name} must be {buffer.dtype}{list(buffer.shape)}, "
                         f"not {array.dtype}{list(array.shape)}")
    return np.ascontiguousarray(array)
