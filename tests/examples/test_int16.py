"""The machine of int16 activations, with the digits network."""

import numpy as np
import pytest

import lockstep
from accel.machine.loading import load_machine
from accel.sim.checking.check import check
from examples.digits.data import HERE, held_out

FILE = HERE.parent / "machines" / "int16.py"


def test_its_buffers_hold_what_is_declared() -> None:
    config = load_machine(str(FILE)).config
    assert {name: config.elements[name] for name in ("inp", "wgt", "res", "acc", "out")} == {
        "inp": "int16", "wgt": "int8", "res": "int16", "acc": "int32", "out": "int16"}


@pytest.mark.slow
def test_a_network_on_all_simulators() -> None:
    images, _ = held_out()
    graph = lockstep.quantize(HERE / "digits-float.onnx", images[:64], activation_bits=16).graph
    wanted = lockstep.compile(graph, "cpu")({"image": images[:1]})["logits"]
    assert np.abs(wanted).max() > 1
    for sim in ("functional", "cycle", "verilator"):
        module = lockstep.compile(graph, "accel", machine=str(FILE), sim=sim)
        np.testing.assert_array_equal(module({"image": images[:1]})["logits"], wanted, sim)
        assert len(module.accelerated) == 1 and len(module.accelerated[0].program.layers) == 7


@pytest.mark.slow
def test_random_programs() -> None:
    report = check(load_machine(str(FILE)), 20)
    assert report.ok, report.difference
