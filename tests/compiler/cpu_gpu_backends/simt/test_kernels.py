"""Shipped schedules on devices: PoCL, the emulation of CUDA, NVRTC for what it takes."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.gpu import resources as gpu_resources
from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda, nvrtc_version
from compiler.cpu_gpu_backends.simt.code import Code
from compiler.cpu_gpu_backends.simt.generate import generate, generate_all
from compiler.native import BuildError
from runtime.devices.device import DeviceMissing
from runtime.devices.emulated import EmulatedDevice
from tests.support.kernels import compute
from runtime.devices.opencl import OpenClDevice
from tests.support.effort import Effort
from tests.support.gpu_cases import CASES, CUDA_CASES, DTYPES, GpuCase, random_inputs
from tests.support.metal import computed_as_cxx


def test_there_are_enough_combinations() -> None:
    assert len(CASES) >= 120 and len({str(case) for case in CASES}) == len(CASES)
    for dtype in DTYPES:
        assert sum(dtype in str(case) for case in CASES) >= 35


def codes(dialect: str, cases: tuple[GpuCase, ...]) -> dict[str, Code]:
    """All cases, in one text, by their names."""
    return dict(zip(map(str, cases), generate_all([case.program for case in cases], dialect)))


def some_of_each_kind(cases: tuple[GpuCase, ...]) -> Iterator[GpuCase]:
    """Keeps the last of each kind, whose sizes are odd, and each 13th before it; each seventh of
    tensor cores, whose types differ.
    """
    kinds: dict[str, list[GpuCase]] = {}
    for case in reversed(cases):
        kinds.setdefault(str(case).split("_")[0], []).append(case)
    for kind, of_kind in kinds.items():
        yield from of_kind[::7 if kind == "mma" else 13]


QUICK = {str(case) for case in some_of_each_kind(CASES + CUDA_CASES)}


def compiled(cases: tuple[GpuCase, ...]) -> tuple[GpuCase, ...]:
    """Those that run: compiling the others' kernels takes as long as theirs."""
    return tuple(case for case in cases if not Effort.quick or str(case) in QUICK)


def each(cases: Sequence[GpuCase]) -> Any:
    return pytest.mark.parametrize("case", [
        pytest.param(case, marks=() if str(case) in QUICK else pytest.mark.slow)
        for case in cases], ids=str)


@pytest.fixture(scope="module")
def opencl():
    try:
        device = OpenClDevice()
    except DeviceMissing as error:
        pytest.skip(str(error))
    return device, codes("opencl", compiled(CASES))


@pytest.fixture(scope="module")
def cuda():
    return EmulatedDevice(), codes("cuda", compiled(CASES + CUDA_CASES))


@pytest.mark.one_in(3)
@each(CASES)
def test_opencl(opencl, rng: np.random.Generator, case: GpuCase) -> None:
    device, codes = opencl
    inputs = random_inputs(case.program, rng)
    case.check(inputs, compute(device, codes[str(case)], inputs))


@pytest.mark.one_in(4)
@each(CASES + CUDA_CASES)
def test_cuda_without_a_gpu(cuda, rng: np.random.Generator, case: GpuCase) -> None:
    device, codes = cuda
    inputs = random_inputs(case.program, rng)
    case.check(inputs, compute(device, codes[str(case)], inputs))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", CASES[::-17])
def test_metal_as_cxx(rng: np.random.Generator, case: GpuCase) -> None:
    inputs = random_inputs(case.program, rng)
    case.check(inputs, computed_as_cxx(generate(case.program, "metal"), inputs))


def test_intrinsics_that_opencl_lacks_are_run_as_their_nests(rng: np.random.Generator) -> None:
    (case,) = (case for case in CUDA_CASES if str(case) == "mma_tf32_20_36_30_3")
    try:
        device = OpenClDevice()
    except DeviceMissing as error:
        pytest.skip(str(error))
    inputs = random_inputs(case.program, rng)
    case.check(inputs, compute(device, generate(case.program, "opencl"), inputs))


def kernels() -> str:
    """The text of all kernels; in the quick run, of those that run."""
    cases = compiled(CASES + CUDA_CASES)
    return codes("cuda", cases)[str(cases[0])].text


def or_skip(compile_all: Callable[..., Any], *arguments: str) -> Any:
    """What NVRTC makes of a text."""
    try:
        return compile_all(*arguments)
    except BuildError as error:
        if "must be installed" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("arch", [
    one if one == gpu_resources.ARCHITECTURES[-1] else pytest.param(one, marks=pytest.mark.slow)
    for one in gpu_resources.ARCHITECTURES])
def test_cuda_is_compiled_without_spills(arch: str) -> None:
    taken = or_skip(compile_cuda, kernels(), arch).resources
    own = {name for name in taken if name.startswith("k0_")}        # others follow on the first
    assert own == {f"k0_{case}" for case in compiled(CASES + CUDA_CASES)}
    for kernel, resources in taken.items():
        assert resources.spill_bytes == resources.local_bytes == 0, kernel
        most = 255 if "_mma_" in kernel else 128         # fragments live in registers
        assert 0 < resources.registers <= most and resources.shared_bytes <= 48 * 1024, kernel


PAGE = (Path(__file__).parents[4] / "docs" / "gpu.md").read_text()


def test_every_kernel_is_on_the_page() -> None:
    kinds = Counter(" ".join(str(case).split("_")[:2]) for case in CASES + CUDA_CASES)
    assert [kind for kind, count in kinds.items() if f"| {kind} | {count} |" not in PAGE] == []


@pytest.mark.slow
def test_what_kernels_take_is_on_the_page() -> None:
    taken = or_skip(gpu_resources.resources, kernels())
    version = nvrtc_version()
    if f"NVRTC {version};" not in PAGE:
        pytest.skip(f"docs/gpu.md is of another NVRTC than {version}, which may take more or less")
    assert gpu_resources.table(taken, version) in PAGE, "as python -m bench gpu.resources prints it"
