"""Each layer on the accelerator against ONNX Runtime, on some images (the bench takes all)."""

import onnx
import pytest

from accel.machine.config import preset
from accel.machine.machine import Machine
from bench.networks.light_models import compare
from examples.digits.data import held_out
from lockstep.testing.models import DIGITS

pytest.importorskip("onnxruntime")


@pytest.mark.slow
def test_every_layer_of_digits_is_within_one_and_nearly_all_equal():
    feeds = [{"image": image[None]} for image in held_out()[0][:12]]
    differences = compare(Machine(preset("tiny-1x4x4")), onnx.load(DIGITS), feeds)
    assert set(differences) == {"conv1", "conv2", "conv3", "conv4", "conv5", "add", "pool",
                                "average", "dense"}
    for name, one in differences.items():
        assert one.largest <= 1 and one.equal >= 0.995, (name, one)
