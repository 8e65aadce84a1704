"""Arrays of other libraries that go into networks on GPUs, and come out, without a copy."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lockstep
from compiler.cpu_gpu_backends.gpu.nvrtc import Cubin
from compiler.cpu_gpu_backends.gpu.segment import GpuSegment
from compiler.cpu_gpu_backends.gpu.target import GpuTarget
from compiler.graph import Builder, TensorType
from runtime import InputError, Module
from runtime.devices import cuda
from runtime.devices.emulated import EmulatedDevice
from tests.support.fake_cuda import Array, Cuda

INT8 = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"
IMAGE = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)


@pytest.fixture(scope="module")
def wanted() -> np.ndarray:
    return lockstep.compile(INT8, "cpu")({"image": IMAGE})["logits"]


def aligned(array: np.ndarray, offset: int = 0) -> np.ndarray:
    """The array at a multiple of 64 bytes, and `offset`."""
    room = np.empty(array.nbytes + 128, np.uint8)
    first = -room.ctypes.data % 64 + offset
    place = room[first:first + array.nbytes].view(array.dtype).reshape(array.shape)
    place[...] = array
    return place


def test_host_arrays_are_read_and_written_where_they_lie(monkeypatch, wanted) -> None:
    """On the emulation, whose memory is the host's: after the first call nothing is copied."""
    torch = pytest.importorskip("torch")
    module = lockstep.compile(INT8, "cuda:emulated")
    first = module({"image": IMAGE})["logits"]
    for way in ("copy_in", "copy_out"):
        monkeypatch.setattr(EmulatedDevice, way, None)
    image = torch.from_numpy(aligned(IMAGE))
    for array in (aligned(IMAGE), image):
        result = module({"image": array})["logits"]
        np.testing.assert_array_equal(result, wanted)
    assert torch.from_dlpack(result).data_ptr() == result.ctypes.data
    image += 1                              # a call reads what is there when it is made
    assert not np.array_equal(module({"image": image})["logits"], wanted)
    np.testing.assert_array_equal(first, wanted)        # nobody else writes what was given out


def test_an_array_that_vectors_cannot_read_is_copied(wanted) -> None:
    module = lockstep.compile(INT8, "cuda:emulated")
    np.testing.assert_array_equal(module({"image": aligned(IMAGE, 4)})["logits"], wanted)


def test_opencl_takes_arrays_of_the_host(wanted) -> None:
    torch = pytest.importorskip("torch")
    found = lockstep.compile(INT8, "opencl")({"image": torch.from_numpy(IMAGE)})["logits"]
    np.testing.assert_array_equal(torch.from_dlpack(found).numpy(), wanted)


@pytest.fixture(scope="module")
def on_gpu() -> Iterator[tuple[Cuda, Module]]:
    """A network on a stand-in for a GPU, which calls are recorded of."""
    gpu = Cuda(8, 0)

    def compiled(text: str, arch: str):
        gpu.texts[text.encode()] = text
        return Cubin(arch, text.encode(), "", {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "_libraries", lambda: gpu.libraries)
        patch.setattr(cuda, "compile_cuda", compiled)
        yield gpu, lockstep.compile(INT8, "cuda", cache=False)


def test_arrays_of_the_gpu_stay_there(on_gpu, wanted) -> None:
    """After the first call, which copies weights, nothing is copied."""
    gpu, module = on_gpu
    np.testing.assert_array_equal(module({"image": IMAGE})["logits"], wanted)
    gpu.calls.clear()
    result = module({"image": Array(aligned(IMAGE))})["logits"]
    assert isinstance(result, Array)
    np.testing.assert_array_equal(result.values, wanted)
    assert not [call for call in gpu.calls if call.startswith("copy")]
    other = module({"image": Array(aligned(1 - IMAGE))})["logits"]
    np.testing.assert_array_equal(result.values, wanted)
    assert not np.array_equal(other.values, wanted)


@pytest.mark.parametrize(("array", "message"), [
    (Array(aligned(IMAGE), (2, 1)), "Input image cannot be taken as it is: it must be on GPU 0 of "
     "CUDA, not on device 1 of DLPack's type 2"),
    (Array(aligned(IMAGE), strides=(64, 64, 1, 8)), "Input image cannot be taken as it is: it must "
     "be dense, in row-major order"),
    (Array(aligned(IMAGE[0])), r"Input image must be float32 of shape \(1, 1, 8, 8\), not float32 "
     r"of shape \(1, 8, 8\)"),
    (Array(aligned(IMAGE, 4)), "Input image must begin at a multiple of 16 bytes")])
def test_wrong_arrays_of_the_gpu(on_gpu, array: Array, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}$"):
        on_gpu[1]({"image": array})


def test_arrays_of_a_gpu_need_a_network_on_it() -> None:
    with pytest.raises(InputError, match="^Input image must be an array in the host's memory, "
                                         "unless the whole network is one segment on cuda$"):
        lockstep.compile(INT8, "cpu")({"image": Array(aligned(IMAGE))})


class Watched(EmulatedDevice):
    """What lies behind each result is filled, and looked at."""

    def __init__(self):
        super().__init__()
        self.behind: list[np.ndarray] = []

    def result(self, size_bytes: int, foreign: bool) -> tuple[np.ndarray, int]:
        room, address = super().result(size_bytes + 512, foreign)
        self.behind.append(room[size_bytes:])
        self.behind[-1][:] = 0xA5
        return room[:size_bytes], address


def test_a_result_that_is_part_of_a_larger_value_has_no_memory_of_its_own() -> None:
    """The kernel writes the whole value."""
    net = Builder("net")
    net.add_input("x", TensorType((1, 8, 3), "float32"))
    net.emit("relu", "relu", ["x"], "r")
    net.emit("slice", "first", ["r"], "f", begin=(0, 0, 0), end=(1, 4, 3), step=(1, 1, 1))
    net.emit("neg", "neg", ["r"], "n")
    graph, device = net.finish(["f", "n"]), Watched()
    x = np.arange(24, dtype=np.float32).reshape(1, 8, 3)
    found = GpuTarget("cuda", "cuda").compile(graph).on(device)({"x": x}).values
    np.testing.assert_array_equal(found["f"], x[:, :4])
    np.testing.assert_array_equal(found["n"], -x)
    assert len(device.behind) == 1 and all((room == 0xA5).all() for room in device.behind)


class Counted(EmulatedDevice):
    """Counts what is launched."""

    launched = 0

    def record(self, code, *addresses: int):
        start = super().record(code, *addresses)

        def counted() -> None:
            self.launched += 1
            start()
        return counted


def test_everything_is_launched_again(wanted) -> None:
    module, device = lockstep.compile(INT8, "cuda:emulated"), Counted()
    step, = module.steps
    assert isinstance(step.compiled, GpuSegment)
    executable = step.compiled.on(device)
    first, = executable({"image": IMAGE}).values.values()
    once = device.launched
    executable.again()
    np.testing.assert_array_equal(first, wanted)
    assert device.launched == 2 * once > 0
