"""`accelerator.partition`: networks with units of one's own."""

import onnx
import pytest

from accel.machine.config import preset
from accel.machine.machine import Machine
from bench.accelerator.partition import BENCH, greedy_price, quantized, told
from bench.inputs.stream_networks import ranker
from runtime.driver.costs import SegmentPrice


@pytest.mark.slow
def test_what_an_inference_takes() -> None:
    floats, samples = ranker(90)
    onnx.checker.check_model(floats)
    price = greedy_price(quantized(floats, samples)[0], Machine(preset("tiny-1x4x4")))
    steps = [told(step) for step in price.steps]
    assert [step.split()[0] for step in steps] == ["host", "copy", "accel", "copy", "host"]
    assert "sorted_places" in steps[-1] and steps[1].endswith(" 64 bytes")
    assert sum(step.cycles for step in price.steps if isinstance(step, SegmentPrice)) > 1000


@pytest.mark.slow
def test_the_rtl_agrees_on_networks_with_own_units(capsys) -> None:
    assert BENCH.main(["--only", "rtl"]) == 0
    assert capsys.readouterr().out.count("equal") == 2
