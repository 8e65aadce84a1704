"""Arrays as bytes, and networks that were sent: what the process that runs them answers."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import lockstep
from accel.machine.status import Status
from runtime.module import Module
from runtime.tuning import sent
from runtime.tuning.sent import INPUTS, MODULE, OUTPUTS, called, packed, run_of, unpacked

DIGITS = "examples/digits/digits-int8.onnx"
ACCEL = "accel:tiny-1x4x4"


@pytest.fixture
def place(tmp_path) -> Path:
    """The folder of a call, in that of its network."""
    (place := tmp_path / "call").mkdir()
    sent._module.cache_clear()
    return place


def send(place: Path, target: str, inputs: dict[str, np.ndarray]) -> Module:
    module = lockstep.compile(DIGITS, target, sim="cycle") if "accel" in target else (
        lockstep.compile(DIGITS, target))
    module.save(place.parent / MODULE)
    (place / INPUTS).write_bytes(packed(inputs))
    return module


@pytest.fixture
def image(rng) -> np.ndarray:
    return rng.random((1, 1, 8, 8), np.float32)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, np.float32, bool,
                                   ml_dtypes.bfloat16])
def test_arrays_come_back_as_they_were(rng, dtype) -> None:
    arrays = {"a": (rng.random((2, 3, 4)) * 3).astype(dtype), "a scalar": np.ones((), dtype),
              "none": np.zeros((0, 5), dtype), "of strides": np.arange(12).astype(dtype)[::3]}
    found = unpacked(packed(arrays))
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)
        found[name].flags.writeable = True              # they are nobody else's memory


def test_bytes_are_little_endian() -> None:
    big = np.array([1], ">i4")
    assert packed({"a": big}).endswith(b"\1\0\0\0")
    assert unpacked(packed({"a": big}))["a"].tolist() == [1]


@pytest.mark.parametrize("target", ["cpu", ACCEL])
def test_a_network_runs(place, image, target: str) -> None:
    module = send(place, target, {"image": image})
    answer = called(str(place), target)
    module.set_input("image", image)
    runs = module.run()
    outputs = unpacked((place / OUTPUTS).read_bytes())
    np.testing.assert_array_equal(outputs["logits"], module.get_output("logits"))
    assert answer["error"] == "" and len(answer["runs"]) == len(runs)
    for number, (entry, run) in enumerate(zip(answer["runs"], runs)):
        found = run_of(entry, outputs[f"start {number}"], outputs[f"retire {number}"])
        assert (found.status, found.cycles) == (Status.DONE, run.cycles)
        assert found.counters == run.counters
        np.testing.assert_array_equal(found.retire, run.retire)


@pytest.mark.parametrize(("inputs", "device", "kind", "error"), [
    ({"x": np.zeros(1)}, "cpu", "InputError", "Input must be one of image, not 'x'"),
    ({}, "cpu", "InputError", "Input image must be set before the network runs"),
    ({}, "nothing", "TargetError", "Target must be accel:MACHINE, "),
    ({}, "cpu,cpu", "TargetError", "Target must name each of its targets once, not 'cpu,cpu'"),
])
def test_refusals_are_answers(place, inputs, device: str, kind: str, error: str) -> None:
    send(place, "cpu", inputs)
    answer = called(str(place), device)
    assert answer["kind"] == kind and answer["error"].startswith(error)
    assert not (place / OUTPUTS).exists()


def test_a_file_that_is_none_is_refused_without_its_place(place) -> None:
    (place.parent / MODULE).write_bytes(b"PK")
    (place / INPUTS).write_bytes(packed({}))
    answer = called(str(place), "cpu")
    assert answer["kind"] == "ArtifactError"
    assert answer["error"].startswith("The network is not a compiled module")


@pytest.mark.parametrize(("target", "device", "error"), [
    (ACCEL, "cpu", "Device cpu must be an accelerator, for which the network was compiled"),
    ("cuda:emulated", "cpu", "Device cpu must be cuda:emulated, for which the network was "
                             "compiled"),
    (ACCEL, "accel:pynq-1x16x16", "The network was compiled for machine "),
])
def test_a_network_needs_its_device(place, image, target: str, device: str, error: str) -> None:
    send(place, target, {"image": image})
    assert called(str(place), device)["error"].startswith(error)
