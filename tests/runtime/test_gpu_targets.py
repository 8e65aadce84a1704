"""Networks on the targets `cuda` and `opencl`, alone and among others."""

from pathlib import Path

import numpy as np
import pytest

import lockstep
from lockstep.testing import zoo
from examples.digits import data
from runtime.devices.device import DeviceMissing
from tests.support.float_graphs import assert_near

ROOT = Path(__file__).parents[2]
INT8, FLOAT = (ROOT / "examples" / "digits" / f"digits-{kind}.onnx" for kind in ("int8", "float"))
ALL = [(name, int8) for name in zoo.NETWORKS for int8 in (False, True)]


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return data.held_out()[0][:3].astype(np.float32)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", [
    "opencl", "cuda:emulated", "accel:tiny-1x4x4,opencl,cpu",
    pytest.param("auto:accel:tiny-1x4x4,opencl,cpu", marks=pytest.mark.slow)])
def test_an_integer_network_equals_that_of_the_processor(target: str, images) -> None:
    found, wanted = (lockstep.compile(INT8, one) for one in (target, "cpu"))
    for image in images:
        for module in (found, wanted):
            module.set_input("image", image[None])
            module.run()
        assert np.array_equal(found.get_output("logits"), wanted.get_output("logits"))


@pytest.mark.slow
@pytest.mark.parametrize("target", [
    "opencl", pytest.param("cuda:emulated", marks=pytest.mark.slow)])
def test_a_float_network_is_near_that_of_the_processor(target: str, images) -> None:
    found, wanted = (lockstep.compile(FLOAT, one) for one in (target, "cpu"))
    for module in (found, wanted):
        module.set_input("image", images[:1])
        module.run()
    assert_near(found.get_output("logits"), wanted.get_output("logits"))


def test_a_list_divides_between_three_targets() -> None:
    module = lockstep.compile(INT8, "accel:tiny-1x4x4,opencl,cpu")
    assert [segment.target for segment in module.partition.segments] == [
        "opencl", "accel", "opencl"]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["opencl", "cuda:emulated"])
@pytest.mark.parametrize("name, int8", ALL, ids=[f"{n}-int8" if i else n for n, i in ALL])
def test_networks_of_the_zoo(target: str, name: str, int8: bool) -> None:
    """Whole, none of it on the processor; integers equal."""
    model = zoo.build(name, {"keywords": 49}.get(name, 32), int8=int8)
    found, wanted = (lockstep.compile(model, one) for one in (target, "cpu"))
    assert [segment.target for segment in found.partition.segments] == [target]
    rng, values = np.random.default_rng(1), found.graph.values
    inputs = {name: (rng.standard_normal if values[name].dtype == "float32" else np.zeros)(
        values[name].shape).astype(values[name].dtype) for name in found.graph.inputs}
    for module in (found, wanted):
        module.set_input(**inputs)
        module.run()
    one, other = (module.get_output("logits") for module in (found, wanted))
    if int8:
        assert np.array_equal(one, other)
    else:
        assert np.abs(one - other).max() <= 1e-4 * np.abs(other).max()


def test_a_device_that_is_missing_is_said() -> None:
    with pytest.raises(DeviceMissing, match="'No such platform'"):
        lockstep.compile(FLOAT, "opencl:No such platform")
