"""Shipped schedules on devices: PoCL, the emulation of CUDA, NVRTC for what it takes."""

from pathlib import Path

import numpy as np
import pytest

from bench import gpu_resources
from compiler.cpu_gpu_backends.gpu.nvrtc import nvrtc_version
from compiler.cpu_gpu_backends.simt.code import Code
from compiler.cpu_gpu_backends.simt.generate import generate, generate_all
from compiler.native import BuildError
from runtime.device import DeviceMissing
from runtime.emulated import EmulatedDevice
from runtime.kernels import compute
from runtime.opencl import OpenClDevice
from tests.support.gpu_cases import CASES, CUDA_CASES, DTYPES, GpuCase, random_inputs


def test_there_are_enough_combinations() -> None:
    assert len(CASES) >= 120 and len({str(case) for case in CASES}) == len(CASES)
    for dtype in DTYPES:
        assert sum(dtype in str(case) for case in CASES) >= 35


def codes(dialect: str, cases: tuple[GpuCase, ...]) -> dict[str, Code]:
    """All cases, in one text, by their names."""
    return dict(zip(map(str, cases), generate_all([case.program for case in cases], dialect)))


@pytest.fixture(scope="module")
def opencl():
    try:
        device = OpenClDevice()
    except DeviceMissing as error:
        pytest.skip(str(error))
    return device, codes("opencl", CASES)


@pytest.fixture(scope="module")
def cuda():
    return EmulatedDevice(), codes("cuda", CASES + CUDA_CASES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_opencl(opencl, rng: np.random.Generator, case: GpuCase) -> None:
    device, codes = opencl
    inputs = random_inputs(case.program, rng)
    case.check(inputs, compute(device, codes[str(case)], inputs))


@pytest.mark.parametrize("case", CASES + CUDA_CASES, ids=str)
def test_cuda_without_a_gpu(cuda, rng: np.random.Generator, case: GpuCase) -> None:
    device, codes = cuda
    inputs = random_inputs(case.program, rng)
    case.check(inputs, compute(device, codes[str(case)], inputs))


def test_intrinsics_that_opencl_lacks_are_run_as_their_nests(rng: np.random.Generator) -> None:
    (case,) = (case for case in CUDA_CASES if str(case) == "mma_s8_32_64_128_1")
    try:
        device = OpenClDevice()
    except DeviceMissing as error:
        pytest.skip(str(error))
    inputs = random_inputs(case.program, rng)
    case.check(inputs, compute(device, generate(case.program, "opencl"), inputs))


@pytest.fixture(scope="module")
def taken(cuda):
    try:
        return gpu_resources.resources(next(iter(cuda[1].values())).text)
    except BuildError as error:
        if "must be installed" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("arch", gpu_resources.ARCHITECTURES)
def test_cuda_is_compiled_without_spills(cuda, taken, arch: str) -> None:
    assert set(taken[arch]) == set(cuda[1])
    for kernel, resources in taken[arch].items():
        assert resources.spill_bytes == resources.local_bytes == 0, kernel
        assert 0 < resources.registers <= 128 and resources.shared_bytes <= 48 * 1024, kernel


def test_what_kernels_take_is_on_the_page(taken) -> None:
    page = (Path(__file__).parents[4] / "docs" / "gpu.md").read_text()
    version = nvrtc_version()
    if f"NVRTC {version};" not in page:
        pytest.skip(f"docs/gpu.md is of another NVRTC than {version}, which may take more or less")
    assert gpu_resources.table(taken, version) in page, "as python -m bench.gpu_resources prints it"
