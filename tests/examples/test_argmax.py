"""A network that ends with ArgMax over channels, on a machine with an instruction for it."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import lockstep
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from examples import argmax
from lockstep.cli import main
from tests.support.onnx_runtime import run_onnx

MACHINE = Path(__file__).parents[2] / "examples" / "machines" / "argmax.py"


@pytest.fixture
def network(tmp_path: Path) -> Path:
    onnx.save(argmax.network(), tmp_path / "net.onnx")
    np.savez(tmp_path / "samples.npz", x=argmax.samples())
    quantized = tmp_path / "net8.onnx"
    assert main(["quantize", str(tmp_path / "net.onnx"), "--calibration",
                 str(tmp_path / "samples.npz"), "-o", str(quantized)]) == 0
    return quantized


def classes(network: Path, sim: str, target: str = "accel,cpu",
            machine: Machine | None = None) -> np.ndarray:
    return lockstep.compile(network, target=target, sim=sim, machine=machine)(
        {"x": argmax.samples(1)})["class"]


@pytest.mark.slow
def test_the_network_runs_on_the_accelerator(network) -> None:
    own = load_machine(MACHINE)
    found = classes(network, "functional", machine=own)
    assert (found.dtype, found.shape) == (np.int64, (1, 12, 12))
    first, second = argmax.TWINS
    assert (found == first).any() and not (found == second).any()
    np.testing.assert_array_equal(classes(network, "cycle", machine=own), found)
    np.testing.assert_array_equal(classes(network, "functional", "cpu"), found)
    theirs = run_onnx(onnx.load(network), {"x": argmax.samples(1)})["class"]
    assert np.mean(found == theirs) > 0.95      # convolutions differ by a step now and then
    module = lockstep.compile(network, target="accel,cpu", sim="functional", machine=own)
    assert any(one.name == "argmax" for segment in module.accelerated
               for one in segment.program.instructions(own))


@pytest.mark.slow
def test_the_network_runs_in_rtl(network) -> None:
    own = load_machine(MACHINE)
    np.testing.assert_array_equal(classes(network, "verilator", machine=own),
                                  classes(network, "functional", machine=own))
