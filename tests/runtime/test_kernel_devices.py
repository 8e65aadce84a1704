"""Devices that execute kernels, on text written by hand: one case for every device that is here."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from compiler.cpu_gpu_backends.gpu.nvrtc import Resources, compile_cuda
from compiler.cpu_gpu_backends.simt.code import Code, Launch
from compiler.native import BuildError
from compiler.te import Buffer
from runtime.devices.cuda import CudaDevice
from runtime.devices.device import DeviceMissing
from runtime.devices.emulated import EmulatedDevice
from runtime.devices.opencl import OpenClDevice, _device
from tests.support.kernels import compute

X, T = (Buffer(name, (256,), "float32") for name in "xt")
Y = Buffer("y", (4, 64), "float32")
CUDA = """
extern "C" __global__ void __launch_bounds__(64) twice(const float* x, float* t) {
  t[blockIdx.x * 64 + threadIdx.x] = 2.0f * x[blockIdx.x * 64 + threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(64) turned(const float* t, float* y) {
  __shared__ float tile[64];
  tile[threadIdx.x] = t[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
}
"""
OPENCL = """
__kernel void twice(__global const float* x, __global float* t) {
  t[get_global_id(0)] = 2.0f * x[get_global_id(0)];
}
__kernel void turned(__global const float* t, __global float* y) {
  __local float tile[64];
  tile[get_local_id(0)] = t[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = tile[63 - get_local_id(0)];
}
"""
LAUNCHES = (Launch("twice", (4, 1, 1), (64, 1, 1), (X, T)),
            Launch("turned", (4, 1, 1), (64, 1, 1), (T, Y)))
CODES = {"cuda": Code("both", "cuda", CUDA, LAUNCHES, (X,), (Y,), (T,)),
         "opencl": Code("both", "opencl", OPENCL, LAUNCHES, (X,), (Y,), (T,))}
DEVICES = {"emulated": (EmulatedDevice, "cuda"), "opencl": (OpenClDevice, "opencl"),
           "cuda": (CudaDevice, "cuda")}


@pytest.fixture(params=DEVICES)
def device(request):
    make, dialect = DEVICES[request.param]
    try:
        return make(), CODES[dialect]
    except DeviceMissing as error:
        pytest.skip(str(error))


def test_kernels_run_in_order_with_temporaries_between(device, rng) -> None:
    x = rng.normal(size=256).astype(np.float32)
    device, code = device
    for given in (x, -x):
        found = compute(device, code, {"x": given})["y"]
        np.testing.assert_array_equal(found, 2 * given.reshape(4, 64)[:, ::-1])


def test_memory_is_kept_and_freed(device) -> None:
    device, _ = device
    first, second = device.allocate(70), device.allocate(0)
    third = device.allocate(10)
    assert len({first, second, third}) == 3 and device.name
    device.copy_in(first, np.arange(70, dtype=np.uint8))
    device.copy_in(third, np.full(10, 7, np.uint8))
    device.copy_in(first + 5, np.full(2, 9, np.uint8))
    device.free(second)
    wanted = [0, 1, 2, 3, 4, 9, 9, 7]
    np.testing.assert_array_equal(device.copy_out(first, 8), wanted)
    np.testing.assert_array_equal(device.copy_out(first + 4, 3), wanted[4:7])
    np.testing.assert_array_equal(device.copy_out(third, 10), [7] * 10)


def test_a_device_runs_its_own_dialect(device) -> None:
    device, code = device
    other = CODES["opencl" if code.dialect == "cuda" else "cuda"]
    with pytest.raises(ValueError, match=f"Text of both must be {code.dialect}, "
                                         f"not {other.dialect}"):
        compute(device, other, {"x": np.zeros(256, np.float32)})


@pytest.mark.parametrize(("inputs", "message"), [
    ({}, r"^Inputs of both must hold 'x', not only \[\]$"),
    ({"x": np.zeros(255, np.float32)},
     r"^Input x must be float32\[256\], not float32\[255\]$"),
    ({"x": np.zeros(256)}, r"^Input x must be float32\[256\], not float64\[256\]$")])
def test_wrong_inputs(inputs, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compute(EmulatedDevice(), CODES["cuda"], inputs)


def test_wrong_dialect() -> None:
    with pytest.raises(ValueError, match="^Dialect of both must be one of cuda, opencl, "
                                         "metal, not 'sycl'$"):
        replace(CODES["cuda"], dialect="sycl")


def nvrtc(text: str, arch: str = "sm_80"):
    try:
        return compile_cuda(text, arch)
    except BuildError as error:
        if "must be installed" in str(error):
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_machine_code_and_what_it_takes(arch: str) -> None:
    cubin = nvrtc(CUDA, arch)
    assert cubin.image[:4] == b"\x7fELF" and f".target {arch}" in cubin.ptx
    assert set(cubin.resources) == {"twice", "turned"}
    assert cubin.resources["turned"].shared_bytes == 256
    assert cubin.resources["twice"].shared_bytes == 0
    assert all(0 < r.registers < 64 and r.spill_bytes == 0 for r in cubin.resources.values())


def test_spilled_registers_are_counted() -> None:
    body = "".join(f"float a{i} = x[threadIdx.x + {i} * n];" for i in range(80))
    text = (f'extern "C" __global__ void __launch_bounds__(1024, 2) f(float* x, int n) {{ {body} '
            f"__syncthreads(); x[0] = {' + '.join(f'a{i} * a{(7 * i) % 80}' for i in range(80))};"
            f"{''.join(f'x[{i}] = a{i};' for i in range(80))} }}")
    resources: Resources = nvrtc(text).resources["f"]
    assert resources.spill_bytes > 0 and resources.local_bytes > 0


def test_arrays_with_unknown_indices_are_in_local_memory() -> None:
    text = """
extern "C" __global__ void f(const int* at, float* y) {
  float held[32];
  for (int i = 0; i < 32; ++i) held[at[i]] = y[i];
  for (int i = 0; i < 32; ++i) y[i] = held[at[32 + i]];
}
"""
    resources = nvrtc(text).resources["f"]
    assert resources.local_bytes == 128 and resources.spill_bytes == 0


def test_refused_text_is_one_line() -> None:
    nvrtc(CUDA)
    with pytest.raises(BuildError, match=r"^NVRTC refused the kernels for sm_80: kernels.cu\(1\): "
                                         r"error: .*$"):
        compile_cuda('extern "C" __global__ void f() { y = 1; }')


@pytest.mark.parametrize(("module", "make", "message"), [
    ("pyopencl", OpenClDevice, "pyopencl must be installed for the device 'opencl': install the "
                               "extra 'gpu'"),
    ("cuda.core", CudaDevice, "cuda-core must be installed for the device 'cuda': install the "
                              "extra 'gpu'"),
    ("cuda.bindings.nvrtc", lambda: compile_cuda("// nothing"),
     r"NVRTC must be installed to compile CUDA: install the extra 'gpu' \(cuda-bindings, "
     "nvidia-cuda-nvrtc\\)")])
def test_without_the_libraries(monkeypatch, module: str, make, message: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises((DeviceMissing, BuildError), match=f"^{message}$"):
        make()


GUARDED = """
__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void guarded(__global const float* restrict x, __global float* restrict y) {
  const int bx = get_group_id(0), by = get_group_id(1);
  const int tx = get_local_id(0), ty = get_local_id(1);
  __local float tile[16][8];
  float acc = 0;
  for (int k_o = 0; k_o < 2; ++k_o) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (bx * 16 + ty < 33 && tx < 8 && k_o * 8 + tx < 10)
      tile[ty][tx] = x[(bx * 16 + ty) * 10 + k_o * 8 + tx];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (by * 16 + ty < 20 && bx * 16 + tx < 33)
      for (int k_i = 0; k_i < 8; ++k_i) if (k_o * 8 + k_i < 10) acc += tile[tx][k_i];
  }
  if (by * 16 + ty < 20 && bx * 16 + tx < 33) y[(by * 16 + ty) * 33 + bx * 16 + tx] = acc;
}
"""


def test_guarded_stores_after_a_loop_with_barriers(rng) -> None:
    """Which an optimizer of PoCL loses."""
    x, y = Buffer("x", (33, 10), "float32"), Buffer("y", (20, 33), "float32")
    launch = Launch("guarded", (3, 2, 1), (16, 16, 1), (x, y))
    try:
        device = OpenClDevice()
    except DeviceMissing as error:
        pytest.skip(str(error))
    values = rng.integers(-9, 9, (33, 10)).astype(np.float32)
    code = Code("guarded", "opencl", GUARDED, (launch,), (x,), (y,))
    found = compute(device, code, {"x": values})["y"]
    np.testing.assert_array_equal(found, np.tile(values.sum(1), (20, 1)))


def test_an_unknown_platform() -> None:
    pytest.importorskip("pyopencl")
    with pytest.raises(DeviceMissing, match="^An OpenCL device of a platform named 'no such' must "
                                            "be installed; platforms here: "):
        OpenClDevice("no such")


@pytest.mark.parametrize(("broken", "chosen"), [
    ((), "GPU"), (("GPU",), "pthread"), (("GPU", "pthread"), "simulator")])
def test_the_interpreter_comes_last(broken: tuple[str, ...], chosen: str) -> None:
    """PoCL offers a device on processors that its compiler does not know."""
    device = _device.__wrapped__(_loader(broken), "")
    assert device.name == chosen


def test_no_device_that_compiles_is_told() -> None:
    with pytest.raises(DeviceMissing, match=r"^A device of OpenCL must compile kernels, and no one "
                                            r"here does for this processor \(PoCL 3\.0\): "):
        _device.__wrapped__(_loader(("pthread",)), "Portable")


def _loader(broken: tuple[str, ...]) -> SimpleNamespace:
    """pyopencl with three platforms, on which the devices `broken` refuse kernels."""
    class Error(Exception):
        pass

    class Program:
        def __init__(self, context, text: str):
            self._devices = context

        def build(self) -> None:
            if self._devices[0].name in broken:
                raise Error

    def platform(name: str, version: str, device: str) -> SimpleNamespace:
        return SimpleNamespace(name=name, version=version,
                               get_devices=lambda: [SimpleNamespace(name=device)])

    platforms = [platform("Oclgrind", "Oclgrind 21.10", "simulator"),
                 platform("A maker", "3.0", "GPU"),
                 platform("Portable Computing Language", "PoCL 3.0", "pthread")]
    return SimpleNamespace(Error=Error, Program=Program, Context=list,
                           get_platforms=lambda: platforms)


def test_no_gpu_is_one_clear_line() -> None:
    try:
        CudaDevice(99)
    except DeviceMissing as error:
        assert "\n" not in str(error)


def test_what_is_recorded_holds_its_parts_of_buffers(monkeypatch) -> None:
    """A kernel of OpenCL does not: a part that nobody holds is gone before it is launched."""
    try:
        device = OpenClDevice()
    except DeviceMissing as error:
        pytest.skip(str(error))
    base, parts, part = device.allocate(4096), [object()], device._part
    monkeypatch.setattr(device, "_part", lambda *a: parts.append(part(*a)) or parts[-1])
    start = device.record(CODES["opencl"], base + 256, base + 1280, base + 2304)
    loose, *held = map(sys.getrefcount, parts)
    assert len(held) == 4 and min(held) > loose
    start()
