"""Depthwise convolution with two tilings: its CUDA after every step, executed without a GPU."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.cpu_gpu_backends.simt.generate import generate, generate_all
from compiler.cpu_gpu_backends.simt.kernels import SimtError
from compiler.cpu_gpu_backends.simt.lowering import lower
from tests.support.races import find_races
from compiler.ir import Program
from examples.schedules.__main__ import EXAMPLES
from runtime.devices.emulated import EmulatedDevice
from tests.support.kernels import compute

TILINGS = ("depthwise_channels", "depthwise_squares")


def steps(name: str) -> list[tuple[str, Program]]:
    example = EXAMPLES[name]
    return [("algorithm", example.program()), *example.scheduled().steps]


@pytest.mark.parametrize("name", TILINGS)
def test_the_text_of_every_step(golden, name: str) -> None:
    parts = []
    for step, program in steps(name):
        try:
            parts.append(f"// {step}\n{generate(program).text}")
        except SimtError as error:
            parts.append(f"// {step}\n// no kernel yet: {str(error).splitlines()[0]}\n")
    golden(f"simt/{name}.cu", "\n".join(parts))


@pytest.mark.slow
@pytest.mark.parametrize("name", TILINGS)
def test_every_step_that_is_for_a_gpu_is_right(name: str) -> None:
    """The steps before everything has a place on the GPU are refused, the rest run."""
    example, chosen = EXAMPLES[name], []
    for number, (_, program) in enumerate(steps(name)):
        named = replace(program, name=f"{name}_{number}")
        try:
            lower(named)
        except SimtError:
            continue
        chosen.append(named)
    inputs = example.inputs()
    wanted = example.reference(inputs)["y"]
    for code in generate_all(chosen):
        found = compute(EmulatedDevice(), code, inputs)["y"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=code.name)
    assert chosen[-1].name == f"{name}_{len(steps(name)) - 1}"


@pytest.mark.parametrize("name", TILINGS)
def test_the_last_step_has_no_race(name: str) -> None:
    example = EXAMPLES[name]
    kernels = lower(example.scheduled().program, shuffles=True, asynchronous=True)
    assert find_races(kernels, example.inputs()) == []
