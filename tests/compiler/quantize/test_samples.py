"""Calibration of networks with inputs that have no batch: states, scalars, bound inputs."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from compiler.frontend import convert
from compiler.graph.room import RoomRefused
from compiler.quantize import QuantizeRefused, quantize

RUNS, LAYERS, WIDTH = 6, 2, 4


def recurrent(float_model, batch: int | str = 1, state_batch: int | str = 1) -> onnx.ModelProto:
    """x [batch, 4] and a state [2, state_batch, 4], and a rate that scales."""
    one = float_model()
    x, state = one.input("x", batch, WIDTH), one.input("state", LAYERS, state_batch, WIDTH)
    rate = one.input("rate", code=TensorProto.INT64)
    first = one.add("Gather", state, one.constant(np.array(0)), axis=0)
    scale = one.add("Div", one.add("Cast", rate, to=TensorProto.FLOAT),
                    one.constant(np.float32(16000)))
    y = one.add("Add", one.add("MatMul", x, one.random(WIDTH, WIDTH)),
                one.add("MatMul", first, one.random(WIDTH, WIDTH)), name="sum")
    return one.model(one.add("Mul", one.add("Sigmoid", y), scale))


FORMS = {
    "a state for each run": (RUNS, LAYERS, 1, WIDTH),
    "one state after the other": (RUNS * LAYERS, 1, WIDTH),
    "the same state in all runs": (LAYERS, 1, WIDTH),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rate", [(), (RUNS,)])
@pytest.mark.parametrize("batch", [1, "n"])
@pytest.mark.parametrize("form", FORMS)
def test_states_and_scalars(float_model, rng, form, batch, rate) -> None:
    made = quantize(recurrent(float_model, batch), {
        "x": rng.standard_normal((RUNS, WIDTH)).astype(np.float32),
        "state": rng.standard_normal(FORMS[form]).astype(np.float32),
        "rate": np.full(rate, 16000)})
    assert (made.samples, [one.name for one in made.layers if one.quantized]) == (
        RUNS, ["gather0.slice", "gather0", "matmul3", "matmul4", "sum"])
    assert made.decibels is not None and made.decibels > 30
    convert(made.model, shapes={"n": 1} if batch == "n" else None)


def test_samples_are_not_mixed(float_model, rng) -> None:
    """Each run has its own state: the sums' range is that of x plus state, both known."""
    one = float_model()
    x, state = one.input("x", 1, 2), one.input("state", 2, 1, 2)
    summed = one.add("Add", x, one.add("ReduceSum", state, one.constant(np.array([0])),
                                       keepdims=0))
    model = one.model(summed)
    xs = np.array([[1, 1], [-5, -5], [7, 7]], np.float32)
    states = np.stack([np.full((2, 1, 2), value, np.float32) for value in (2, 1, -3)])
    made = quantize(model, {"x": xs, "state": states})
    scale, zero = (onnx.numpy_helper.to_array(next(
        tensor for tensor in made.model.graph.initializer if tensor.name == f"{summed}{role}"))
        for role in ("_scale", "_zero_point"))
    low, high = (0 - float(zero)) * scale, (255 - float(zero)) * scale
    assert (low, high) == pytest.approx((-3, 5), abs=0.05)


def test_an_open_batch_and_a_state_with_it(float_model, rng) -> None:
    """The state's batch is its second dimension: an element a run."""
    made = quantize(recurrent(float_model, "n", "n"), {
        "x": rng.standard_normal((RUNS, WIDTH)).astype(np.float32),
        "state": rng.standard_normal((RUNS, LAYERS, 1, WIDTH)).astype(np.float32),
        "rate": np.array(16000)})
    assert made.samples == RUNS
    convert(made.model, shapes={"n": 3})


def test_open_dimensions_that_must_be_alike_are_one(float_model, rng) -> None:
    """As exporters write a batch that they give no name."""
    one = float_model()
    x, y = (one.input(name, dim, 6) for name, dim in (("x", "n"), ("y", "m")))
    length = one.input("length", "t", 6)
    total = one.add("Add", one.dense(x, 6, 4), one.dense(y, 6, 4))
    square = one.add("Reshape", one.dense(length, 6, 4), one.constant(np.array([5, 4])))
    given = {"x": (3, 6), "y": (3, 6), "length": (5, 6)}
    made = quantize(one.model(total, square), {
        name: rng.standard_normal((2, *shape)).astype(np.float32)
        for name, shape in given.items()})
    assert made.fixed == {"t": 5}
    dims = [one.type.tensor_type.shape.dim[0] for one in made.model.graph.input]
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["n", "n", 5]
    convert(made.model, shapes={"n": 7})


def test_bound_inputs_vanish(float_model, rng) -> None:
    made = quantize(recurrent(float_model), {
        "x": rng.standard_normal((RUNS, WIDTH)).astype(np.float32)},
        bind={"state": 0, "rate": 16000})
    assert [value.name for value in made.model.graph.input] == ["x"]


def test_control_flow_that_a_bound_input_decides(float_model, rng) -> None:
    one, inner = float_model(), float_model(seed=2)
    x = one.input("x", "n", 3, 6, 6)
    inner.conv(x, 3, 4, name="then")
    branches = []
    for output in ("then.out", "x2"):
        nodes = inner.nodes if output == "then.out" else [onnx.helper.make_node(
            "Concat", ["x", "x"], ["x2"], axis=1)]
        branches.append(onnx.helper.make_graph(
            nodes, output, [], [onnx.helper.make_tensor_value_info(output, 1, None)],
            [onnx.numpy_helper.from_array(array, name) for name, array in inner.constants.items()]
            if output == "then.out" else []))
    rate = one.input("rate", code=TensorProto.INT64)
    condition = one.add("Equal", rate, one.constant(np.array(16000)))
    y = one.add("If", condition, then_branch=branches[0], else_branch=branches[1])
    model = one.model(one.conv(y, 4, 2, name="last"))
    samples = rng.standard_normal((4, 3, 6, 6)).astype(np.float32)
    made = quantize(model, samples, bind={"rate": 16000})
    assert [layer.op for layer in made.layers if layer.quantized].count("conv2d") == 2
    assert made.decibels is not None and made.decibels > 25
    with pytest.raises(QuantizeRefused, match="its condition 'equal.*' depends on data"):
        quantize(model, {"x": samples, "rate": np.array(16000)})


@pytest.mark.parametrize(("shapes", "message"), [
    ({"state": (5, LAYERS, 1, WIDTH)}, "runs of every input, not 6 of 'x', 5 of 'state'"),
    ({"state": (5, 1, WIDTH)}, "a multiple of the 2 that the model takes at a time of 'state', "
                               "not 5")])
def test_samples_wrong(float_model, shapes, message) -> None:
    shapes = {"x": (RUNS, WIDTH), **shapes}
    given = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(QuantizeRefused) as refused:
        quantize(recurrent(float_model), given | {"rate": np.array(1)})
    assert str(refused.value).endswith(message)


def test_results_that_no_memory_holds_are_refused(float_model) -> None:
    one = float_model()
    flat = one.dense(one.input("x", "n", 4), 4, 1)
    y = one.add("Expand", flat, one.constant(np.array([4, 1 << 40], np.int64)))
    with pytest.raises(RoomRefused, match="all inputs and outputs.* takes 16,384.0 GiB of memory"):
        quantize(one.model(y), np.ones((4, 4), np.float32))
