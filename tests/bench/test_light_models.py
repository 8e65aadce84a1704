"""ONNX's light models with random weights: float on the host, int8 on the accelerator."""

from contextlib import nullcontext

import numpy as np
import pytest
from onnx import numpy_helper

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.mapping.target import AccelTarget
from bench.networks import light_models
from bench.networks.light_models import BENCH, Figures, compare_float, compare_int8
from bench.inputs.light_weights import NAMES, images, light_model
from lockstep.testing.models import DIGITS
from runtime import compile as compile_model

PYNQ = "pynq-1x16x16"


def stage(name: str):
    return nullcontext()


@pytest.fixture(scope="module")
def squeezenet():
    return light_model("squeezenet", size=64)


def test_weights_differ_and_are_the_same_every_time(squeezenet) -> None:
    arrays = {one.name: numpy_helper.to_array(one) for one in squeezenet.graph.initializer}
    assert len(arrays) == 52
    again = light_model("squeezenet", size=64)
    for one in again.graph.initializer:
        np.testing.assert_array_equal(numpy_helper.to_array(one), arrays[one.name])
    deviations = {name: array.std() * np.sqrt(np.prod(array.shape[1:]) / 2)
                  for name, array in arrays.items() if array.ndim == 4}
    assert all(0.6 < one < 1.1 for name, one in deviations.items() if name != "conv10_w_0")
    assert deviations["conv10_w_0"] < 0.02


@pytest.mark.slow
def test_float_agrees_with_onnx_runtime(squeezenet) -> None:
    pytest.importorskip("onnxruntime")
    assert compare_float(squeezenet, images(squeezenet, 1), stage) < 1e-5


@pytest.mark.slow
def test_int8_is_the_reference_on_the_accelerator(squeezenet) -> None:
    found = Figures("squeezenet")
    compare_int8(squeezenet, images(squeezenet, 2, seed=2), images(squeezenet, 1),
                 AccelTarget(Machine(preset(PYNQ))), found, stage)
    assert (found.convolutions, found.accel_convolutions, found.segments) == (26, 26, 1)
    assert found.int8_is_right and found.accel_macs_percent == 100
    assert found.decibels is not None and found.decibels > 15


def test_a_wrong_segment_is_seen(monkeypatch) -> None:
    """Nothing that the accelerator makes is taken on trust."""
    real = light_models.evaluate
    monkeypatch.setattr(light_models, "evaluate", lambda graph, given: {
        name: array + 1 for name, array in real(graph, given).items()})
    found = Figures("digits")
    module = compile_model(DIGITS, "accel:tiny-1x4x4")
    light_models.run_segments(found, module, {"image": np.zeros((1, 1, 8, 8), np.float32)}, stage)
    assert found.differing and not found.int8_is_right


def test_an_unknown_name_is_refused(capsys) -> None:
    assert BENCH.main(["--only", "vgg"]) == 2
    said = capsys.readouterr().err
    assert "--only must be of " in said and all(name in said for name in NAMES)


@pytest.mark.slow
def test_all_models() -> None:
    pytest.importorskip("onnxruntime")
    assert BENCH.main([]) == 0
