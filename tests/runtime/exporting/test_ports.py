"""Modules as people know them: ports, inputs by keyword, outputs into arrays, times."""

from typing import Any

import numpy as np
import pytest

import lockstep
from accel.mapping.target import AccelTarget
from accel.sim.meaning.functional import simulate
from compiler.errors import ArgumentError
from compiler.graph import Graph, TensorType
from lockstep import testing
from runtime import InputError, Module, SimulatedDevice, compile_graph
from runtime.exporting.ports import NetworkPort, inputs_of, outputs_of, random_inputs
from runtime.pricing.timing import Spread, spread
from tests.support.integer_graphs import Net
from tests.support.machines import TINY

IMAGE = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)


@pytest.fixture(scope="module")
def digits() -> Module:
    return lockstep.compile(testing.digits(), "cpu")


@pytest.fixture(scope="module")
def pair() -> Module:
    """Inputs `x` and `array`, whose name is that of a parameter of `set_input`."""
    net = Net(6)
    return module_of(net.graph(net.add(net.input(1, 4), net.input(1, 4, name="array"))))


def module_of(graph: Graph) -> Module:
    return compile_graph(graph, AccelTarget(TINY), SimulatedDevice(TINY, simulate))


def refused(act, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refusal:
        act()
    assert str(refusal.value) == message


def test_ports_have_names_shapes_types_and_scales(digits: Module) -> None:
    assert digits.inputs == (NetworkPort("image", (1, 1, 8, 8), "float32", 1 / 128, -128),)
    (logits,) = digits.outputs
    assert (logits.name, logits.shape, logits.dtype, logits.zero_point) == (
        "logits", (1, 10), "float32", -33)
    steps = digits({"image": IMAGE})["logits"] / np.float32(logits.scale)
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-4)


def test_ports_print_in_one_line(digits: Module) -> None:
    assert str(digits.inputs[0]) == ("image: float32[1,1,8,8], scale 0.0078125, zero point -128")
    assert str(NetworkPort("x", (), "bool")) == "x: bool[]"


def test_ports_stand_in_order_and_what_is_not_quantized_has_no_scale(pair: Module) -> None:
    assert [(port.name, port.dtype, port.scale) for port in pair.inputs] == [
        ("x", "int8", None), ("array", "int8", None)]


def test_an_input_that_is_quantized_in_two_ways_has_no_scale() -> None:
    net = Net(1)
    x = net.input(1, 4, dtype="float32")
    one, other = (net.add_node("quantize", x, scale=scale, zp=0) for scale in (1.0, 0.5))
    graph = net.graph(one, other)
    assert inputs_of(graph)[0].scale is None
    assert [port.scale for port in outputs_of(graph)] == [1.0, 0.5]


def test_an_output_that_is_an_input_has_no_scale() -> None:
    kind = TensorType((2,), "float32")
    graph = Graph("same", ("x",), ("x",), (), {"x": kind})
    assert outputs_of(graph) == (NetworkPort("x", (2,), "float32"),)


def test_inputs_are_set_in_every_form(digits: Module) -> None:
    wanted = digits({"image": IMAGE})["logits"]
    for set_input in (lambda a: digits.set_input("image", a),
                      lambda a: digits.set_input(image=a),
                      lambda a: digits.set_input("image", array=a),
                      lambda a: digits.set_input(name="image", array=a)):
        digits.set_input(image=np.zeros_like(IMAGE))
        given = IMAGE.copy()
        set_input(given)
        given[:] = 7                                # what is set is a copy
        digits.run()
        np.testing.assert_array_equal(digits.get_output(0), wanted)


def test_an_input_may_have_the_name_of_a_parameter(pair: Module) -> None:
    x, other = np.full((1, 4), 3, np.int8), np.full((1, 4), 5, np.int8)
    pair.set_input(x=x, array=other)
    pair.run()
    wanted = pair({"x": x, "array": other})
    (only,) = wanted.values()
    np.testing.assert_array_equal(pair.get_output(0), only)


def test_of_several_inputs_all_are_set_or_none(pair: Module) -> None:
    zeros, ones = np.zeros((1, 4), np.int8), np.ones((1, 4), np.int8)
    pair.set_input(x=zeros, array=zeros)
    pair.run()
    before = pair.get_output(0)
    refused(lambda: pair.set_input(x=ones, array=np.ones(3, np.int8)), InputError,
            "Input array must be int8 of shape (1, 4), not int8 of shape (3,)")
    pair.run()
    np.testing.assert_array_equal(pair.get_output(0), before)


def test_set_input_without_an_array_is_refused(pair: Module) -> None:
    refused(lambda: pair.set_input("x"), InputError, "set_input must be given an array for x")
    refused(lambda: pair.set_input(), InputError, "set_input must be given an array for an input")


def test_outputs_are_copied_into_arrays(digits: Module) -> None:
    digits.set_input(image=IMAGE)
    digits.run()
    keys: tuple[Any, ...] = (0, np.int64(0), "logits")
    for key in keys:
        place = np.full((1, 20), 7, np.float32)[:, ::2]         # strides of its own
        assert digits.get_output(key, out=place) is place
        np.testing.assert_array_equal(place, digits.get_output("logits"))


def test_outputs_are_copied_into_tensors_of_torch(digits: Module) -> None:
    torch = pytest.importorskip("torch")
    digits.set_input(image=torch.from_numpy(IMAGE))
    digits.run()
    out = torch.zeros(1, 10)
    assert digits.get_output(0, out=out) is out
    np.testing.assert_array_equal(out.numpy(), digits.get_output(0))


def read_only() -> np.ndarray:
    array = np.zeros((1, 10), np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(("out", "message"), [
    (np.zeros(10, np.float32), "Output logits must be copied into float32 of shape (1, 10), not "
                               "float32 of shape (10,)"),
    (np.zeros((1, 10)), "Output logits must be copied into float32 of shape (1, 10), not "
                        "float64 of shape (1, 10)"),
    (read_only(), "Output logits must be copied into an array that is writeable"),
    ([0.0] * 10, "Output logits cannot be copied: Array out must be of NumPy or of a library with "
                 "DLPack, not list"),
])
def test_an_array_that_an_output_does_not_fit_is_refused(digits: Module, out, message) -> None:
    digits.set_input(image=IMAGE)
    digits.run()
    refused(lambda: digits.get_output("logits", out=out), InputError, message)


@pytest.mark.parametrize("place", [1, -1, True, 0.0, None])
def test_an_output_of_no_place_is_refused(digits: Module, place) -> None:
    refused(lambda: digits.get_output(place), InputError,
            f"Output must be a name or 0 to 0, not {place!r}")


def test_time_is_of_so_many_runs(digits: Module) -> None:
    times = digits.time(runs=3)
    assert times.runs == 3 and times.calls >= 1
    assert 0 < times.lower_quartile <= times.median <= times.upper_quartile
    assert digits.time({"image": IMAGE}, runs=1).runs == 1


def test_time_takes_random_inputs_of_its_seed(digits: Module, monkeypatch) -> None:
    seen = []
    monkeypatch.setattr(Module, "run_many", lambda self, inputs: seen.extend(inputs) or [{}])
    for seed in (0, 0, 1):
        seen.append(None)
        digits.time(runs=1, seed=seed)
    first, again, other = (seen[i + 1]["image"] for i, one in enumerate(seen) if one is None)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(other, random_inputs(digits.graph, 1)["image"])


def test_what_cannot_be_timed_is_refused(digits: Module) -> None:
    refused(lambda: digits.time(runs=0), ArgumentError,
            "runs must be an integer of 1 or more, not 0")
    half: Any = 1.5
    refused(lambda: digits.time(seed=half), ArgumentError,
            "seed must be an integer of 0 or more, not 1.5")
    refused(lambda: digits.time({}, runs=1), InputError,
            "Input image must be set before the network runs")


def test_a_spread_is_of_its_samples(monkeypatch) -> None:
    walls = iter([8.0, 5.0, 1.0, 2.0, 3.0, 4.0])    # the first tells how long a call is
    calls = []
    monkeypatch.setattr("runtime.pricing.timing._sample",
                        lambda run, count, clock: (0.0, next(walls)))
    found = spread(lambda: calls.append(1), 5)
    assert found == Spread(3.0, 2.0, 4.0, 5, 1) and calls == [1]
    assert str(found) == "3000 ms (quartiles 2000 and 4000, 5 runs)"
