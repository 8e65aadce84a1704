"""The race checker: silent on what is shipped, loud when a barrier is missing."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from compiler.cpu_gpu_backends.simt.kernels import SimtProgram
from compiler.cpu_gpu_backends.simt.lowering import lower
from tests.support.races import find_races, run_kernels
from compiler.ir import Barrier, Seq, replace_stmt, walk_stmts
from tests.support.effort import Effort
from tests.support.gpu_cases import CASES, CUDA_CASES, random_inputs

BY_NAME = {str(case): case for case in CASES + CUDA_CASES}
# Both ways in which CUDA and OpenCL differ.
MODES = {"cuda": {"shuffles": True, "asynchronous": True, "intrinsics": True}, "opencl": {}}
# One of each kind of schedule and of each plan, small.
SMALL = ["relu_int8_3_7_5_4", "relu_float32_256_4", "transpose_float32_50_37",
         "transpose_int8_32_32", "matmul_int8_33_17_24_0", "matmul_int32_33_17_24_1",
         "matmul_float32_32_32_24_2", "matmul_float32_33_17_24_2", "sum_int8_4_256_1",
         "max_float32_5_200_1", "min_int32_3_33_1", "sum_int32_6_64_4", "softmax_float32_3_77",
         "argmax_int8_3_50", "dp4a_int8_20_33_10", "depthwise_int8_2_32_3",
         "depthwise_float32_2_40_3", "convolution_int32_4_8_18"]


WARPS = ["mma_f16_64_64_128_3", "mma_f16_33_20_24_2_3", "mma_s8_35_17_65_3_3"]
PLANTED = [(name, mode) for name in SMALL for mode in MODES] + [(name, "cuda") for name in WARPS]
FAST = [(name, [*MODES][place % 2]) for place, name in enumerate(SMALL)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "mode"), [
    pytest.param(*one, marks=() if one in FAST else pytest.mark.slow) for one in PLANTED])
def test_no_shipped_schedule_has_a_race(rng, name: str, mode: str) -> None:
    case = BY_NAME[name]
    kernels = lower(case.program, **MODES[mode])
    inputs = random_inputs(case.program, rng)
    assert find_races(kernels, inputs) == []
    case.check(inputs, run_kernels(kernels, inputs))


def without(kernels: SimtProgram) -> Iterator[SimtProgram]:
    """The kernels with one barrier less, for every barrier that they have."""
    for place, kernel in enumerate(kernels.kernels):
        for stmt in walk_stmts(kernel.body):
            if isinstance(stmt, Barrier):
                fewer = replace(kernel, body=replace_stmt(kernel.body, stmt, Seq(())))
                yield replace(kernels, kernels=(*kernels.kernels[:place], fewer,
                                                *kernels.kernels[place + 1:]))


@pytest.mark.slow
def test_every_missing_barrier_is_found_and_no_barrier_is_idle(rng) -> None:
    """Which says both that the checker sees and that barriers stand only where they must."""
    planted = found = 0
    for name, mode in FAST if Effort.quick else PLANTED:
        case = BY_NAME[name]
        inputs = random_inputs(case.program, rng)
        for fewer in without(lower(case.program, **MODES[mode])):
            planted += 1
            races = find_races(fewer, inputs)
            found += bool(races)
            assert races and races[0].between == "threads", (name, mode)
    print(f"{found} of {planted} missing barriers found")
    assert found == planted >= 20
