"""Products on tensor cores: what their kernels take, and how sums are divided."""

import pytest

from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda
from tests.support.gpu_schedules import matmul_tensor_cores, schedule_tensor_cores
from compiler.cpu_gpu_backends.gpu.tensor_tiles import OFFERED
from compiler.cpu_gpu_backends.simt.generate import generate
from tests.support.nvrtc import require_nvrtc


@pytest.mark.slow
def test_rows_that_are_copied_element_by_element_spill_nothing() -> None:
    """Rows of 59 elements: a thread makes 32 copies in each step, 4 of which are written out."""
    product = matmul_tensor_cores(59, 58, 59, "tf32", 2, transposed="b")
    text = generate(schedule_tensor_cores(product, "p", OFFERED[1]).program).text
    assert text.count("#pragma unroll 4\n") == 2       # before the steps, and in them
    require_nvrtc()
    resources = compile_cuda(text).resources["k0_p"]
    assert resources.spill_bytes == resources.local_bytes == 0


@pytest.mark.parametrize("terms, size", [(77, 4), (70, 8)])
def test_many_copies_are_a_loop(terms: int, size: int) -> None:
    """Copies of 4 or 8 bytes: 16 or 8 of each operand in a step, before the steps and in them."""
    product = matmul_tensor_cores(64, 64, terms, "tf32")
    text = generate(schedule_tensor_cores(product, "p").program).text
    assert text.count(f"async_copy<{size}, ") == 4
    assert text.count("#pragma unroll 4\n") == 5       # and that of the steps, of four stages


def test_four_copies_are_written_out() -> None:
    product = matmul_tensor_cores(64, 64, 80, "tf32")
    text = generate(schedule_tensor_cores(product, "p").program).text
    assert text.count("#pragma unroll 4\n") == 1 and text.count("async_copy<16, ") == 16
