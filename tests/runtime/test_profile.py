"""`Module.profile`: a row for each operator, in order, and their times."""

from pathlib import Path

import numpy as np
import pytest

import lockstep
from compiler.cpu_gpu_backends.cpu.segment import HostSegment
from accel.machine.config import preset
from runtime import InputError

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"
PIXELS = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)


def test_rows_of_both_devices() -> None:
    module = lockstep.compile(DIGITS, "accel:tiny-1x4x4", sim="cycle")
    rows = module.profile({"image": PIXELS})
    assert [(row["device"], row["name"]) for row in rows] == [
        ("host", "image_QuantizeLinear"),
        *(("accel", name) for name in ("conv1", "conv2", "conv3", "conv4 + add", "pool",
                                       "conv5 + average", "dense", "finish")),
        ("host", "logits_DequantizeLinear")]
    module.set_input("image", PIXELS)
    run, = module.run()
    assert sum(row["cycles"] for row in rows) == run.cycles
    clock = preset("tiny-1x4x4").clock_mhz * 1e6
    for row in rows:
        assert row["seconds"] > 0
        assert row["device"] == "host" or row["seconds"] == pytest.approx(row["cycles"] / clock)


def test_without_cycles() -> None:
    rows = lockstep.compile(DIGITS, "accel:tiny-1x4x4").profile({"image": PIXELS})
    assert {row["cycles"] for row in rows} == {0}
    assert all((row["seconds"] > 0) == (row["device"] == "host") for row in rows)


def test_the_host_alone_computes_what_it_always_does() -> None:
    module = lockstep.compile(DIGITS, "cpu")
    before = module({"image": PIXELS})["logits"]
    rows = module.profile({"image": PIXELS})
    nodes = " + ".join(row["name"] for row in rows).split(" + ")
    host = module.steps[0].compiled         # has changes of the image's order, too
    assert isinstance(host, HostSegment)
    assert sorted(nodes) == sorted(node.name for node in host.graph.nodes)
    assert {node.name for node in module.graph.nodes} <= set(nodes)
    np.testing.assert_array_equal(module({"image": PIXELS})["logits"], before)


def test_inputs_are_checked() -> None:
    with pytest.raises(InputError, match="^Input image must be set before the network runs$"):
        lockstep.compile(DIGITS, "cpu").profile({})
