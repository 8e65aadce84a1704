"""Quantized networks in training: to the bit what the written file and its integers compute."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import lockstep
from compiler.gradients import GradientRefused, cross_entropy
from compiler.graph import Graph, evaluate, optimize
from compiler.ops.integers.fixed_point import multiplier_error
from compiler.quantize import quantize
from compiler.quantize.quantizer import Quantized
from compiler.quantize.ranges.refusal import QuantizeRefused
from compiler.quantize.training.form import QuantizedTraining
from compiler.quantize.training.writer import LEAST, StepSize

Array = np.ndarray
ROWS = 2
SIDE = 6


@pytest.fixture(scope="module")
def images() -> Array:
    return np.random.default_rng(5).standard_normal((8, 3, SIDE, SIDE)).astype(np.float32)


def many_layers(float_model) -> onnx.ModelProto:
    """Clamps, groups, a function, a residual, what moves elements, a transposed convolution of two
    groups, a join, products of computed values, a shared weight, a constant that is added.
    """
    net = float_model()
    x = net.conv(net.input("x", 1, 3, SIDE, SIDE), 3, 8)
    six = [net.constant(np.array(number, np.float32)) for number in (0, 1.5)]
    y = net.conv(net.add("Clip", x, *six), 8, 8, group=4)
    y = net.add("Relu", net.add("Add", y, net.add("Sigmoid", net.conv(y, 8, 8))))
    y = net.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    z = net.add("ConvTranspose", y, net.random(8, 2, 2, 2), net.random(4), strides=[1, 1], group=2)
    y = net.add("Concat", z, net.conv(y, 8, 4, 2, pads=[1] * 4), axis=1)
    rows = net.add("Reshape", y, net.constant(np.array([1, 8, 16])))
    rows = net.add("Add", rows, net.random(8, 16, scale=0.2))
    w = net.random(16, 16, scale=0.3)
    a, b = net.add("MatMul", rows, w), net.add("MatMul", net.add("Neg", rows), w)
    y = net.add("MatMul", a, net.add("Transpose", b, perm=[0, 2, 1]))
    return net.model(net.dense(net.add("Flatten", y), 64, 5))


def plain(float_model, rows: int | str = 1) -> onnx.ModelProto:
    """Products alone, whose integers have one multiplier each, a Relu, a pool by maximum."""
    net = float_model()
    x = net.add("Relu", net.conv(net.input("x", rows, 3, SIDE, SIDE), 3, 8, name="first"))
    x = net.conv(net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), 8, 4, group=2,
                 name="second")
    return net.model(net.dense(net.add("Flatten", x, name="flat"), 36, 5, name="last"))


def one_row(float_model) -> onnx.ModelProto:
    """All that was computed in one row, whatever the number of rows."""
    net = float_model()
    x = net.conv(net.input("x", 1, 3, SIDE, SIDE), 3, 4)
    return net.model(net.add("Reshape", x, net.constant(np.array([1, -1]))))


def dense(float_model) -> onnx.ModelProto:
    net = float_model()
    x = net.add("Relu", net.dense(net.input("x", "rows", 8), 8, 8))
    x = net.add("Relu", net.dense(x, 8, 8))
    return net.model(net.dense(x, 8, 3))


def moved(net: QuantizedTraining[Quantized], rng: np.random.Generator, way: int = 1
          ) -> dict[str, Array]:
    """The parameters after some training, as it were: other weights, step sizes that grow or
    shrink.
    """
    first = {name: net.graph.constants[name] for name in net.parameters}
    return {name: (array + (way * 0.1 * rng.random(array.shape) if name.endswith("_step")
                            else 0.05 * rng.standard_normal(array.shape))).astype(np.float32)
            for name, array in first.items()}


def with_parameters(graph: Graph, parameters: Mapping[str, Array]) -> Graph:
    return Graph(graph.name, graph.inputs, graph.outputs, graph.nodes, graph.values,
                 {**graph.constants, **parameters}, graph.notes)


def by_rows(graph: Graph, images: Array) -> Array:
    """The only result for images one by one."""
    return np.concatenate([next(iter(evaluate(graph, {"x": image[None]}).values()))
                           for image in images])


@pytest.mark.parametrize("options", [*(
    pytest.param(one, marks=pytest.mark.slow) for one in (
        {"weight_bits": 4, "activation_bits": 4}, {"bias_correction": False},
        {"weight_bits": 2, "activation_bits": 2, "observer": "mse"}, {"keep_float": ["conv0"]}))],
    ids=str)
def test_the_file_computes_what_training_did(float_model, images, rng, options: dict) -> None:
    """Layers of all kinds, to the bit."""
    quantized = quantize(many_layers(float_model), images, **options)
    assert sum(layer.quantized for layer in quantized.layers) > 12
    net = quantized.trainable()
    for way in (1, -1):
        parameters = moved(net, rng, way)
        made = net.trained(parameters)
        found = by_rows(made.graph, images[:3])
        np.testing.assert_array_equal(
            found, by_rows(with_parameters(net.graph, parameters), images[:3]))
        assert np.abs(found - by_rows(quantized.graph, images[:3])).max() > 0.01
    assert [layer.weight_bits for layer in made.layers] == [
        layer.weight_bits for layer in quantized.layers]


def test_constants_are_those_of_the_file(float_model, images, rng) -> None:
    """Weights and biases, to the bit."""
    net = quantize(plain(float_model), images[:4], weight_bits=4).trainable()
    parameters = moved(net, rng)
    made, form = net.trained(parameters).graph, with_parameters(net.graph, parameters)
    names = [name for name in net.parameters if not name.endswith("_step")]
    assert len(names) == 6
    for name in names:
        found, wanted = (evaluate(replace(graph, outputs=(value,)), {"x": images[:1]})[value]
                         for graph, value in ((made, f"{name}_DequantizeLinear_Output"),
                                              (form, f"{name}_fake_quantize")))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("bits", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_integers_round_the_same_numbers(float_model, images, rng, bits: int) -> None:
    """Multipliers of products are exact, so the accelerator computes what training did."""
    quantized = quantize(plain(float_model), images, weight_bits=bits, activation_bits=bits)
    net = quantized.trainable(ROWS)
    parameters = moved(net, rng)
    made = net.trained(parameters)
    plan, scales = made.forms.attempt.plan, made.forms.attempt.scales
    for layer in made.forms.attempt.network.layers:
        if layer.inner in made.forms.attempt.network.rounded:
            weight = made.forms.attempt.network.rounded[layer.inner].scale
            real = (float(scales[layer.read[0]].scale) / float(scales[layer.value].scale)
                    * weight.astype(np.float64))
            assert max(multiplier_error(number) for number in real) < 2**-21
    assert plan.quantized >= {layer.value for layer in made.forms.attempt.network.layers}
    module = lockstep.compile(made.graph, "accel:tiny-1x4x4")
    form = with_parameters(net.graph, parameters)
    wanted = next(iter(evaluate(form, {"x": images[:ROWS]}).values()))
    found = np.concatenate([next(iter(module({"x": image[None]}).values()))
                            for image in images[:ROWS]])
    np.testing.assert_array_equal(found, wanted)
    assert len(module.accelerated) == 1


def test_a_trainer_trains_it(float_model, rng) -> None:
    """Weights and every step size; the file has rows that are open, as the model has them."""
    rows, labels = rng.standard_normal((12, 8)).astype(np.float32), np.arange(12) % 3
    quantized = quantize(dense(float_model), rows, weight_bits=2, activation_bits=4)
    net = quantized.trainable(4)
    trainer = lockstep.Trainer(cross_entropy(net.graph, net.graph.outputs[0]),
                               parameters=net.parameters, optimizer=lockstep.Adam(0.02))
    losses = trainer.fit(lockstep.batches({"x": rows, "labels": labels}, 4, epochs=30))
    assert np.mean(losses[-3:]) < 0.3 * np.mean(losses[:3])
    assert all(np.any(array != net.graph.constants[name])
               for name, array in trainer.parameters.items())
    made = net.trained(trainer.parameters).model
    assert made.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"


def test_what_is_frozen_stays(float_model, images) -> None:
    quantized = quantize(plain(float_model), images[:4])
    net = quantized.trainable(ROWS, freeze=["*_step", "k0"])
    assert net.parameters == ("first.bias", "k2", "second.bias", "k4", "last.bias")
    made, first = (net.trained({name: net.graph.constants[name] * factor
                                for name in net.parameters}) for factor in (-1, 1))
    assert made.forms.attempt.scales == quantized.forms.attempt.scales
    arrays = [{tensor.name: numpy_helper.to_array(tensor)
               for tensor in each.model.graph.initializer} for each in (made, first, quantized)]
    changed = {name for name, array in arrays[1].items()
               if not np.array_equal(arrays[0][name], array)}
    assert changed == {f"{name}_quantized" for name in net.parameters}
    np.testing.assert_array_equal(arrays[0]["k0_quantized"], arrays[2]["k0_quantized"])


def test_a_step_size_keeps_a_part_of_its_start() -> None:
    size = StepSize("s", "v", np.array([0.5, 2], np.float32))
    assert size.of({"s": np.array([-3, 0.5], np.float32)}).tolist() == [0.5 * float(LEAST), 3]


@pytest.mark.parametrize(("options", "message"), [
    ({"activation_bits": 16}, "model: a network with activations of 16 bits cannot be trained"),
    ({"weight_bits": {"last": 4}, "weight_groups": 16},
     "model: a network with weights with scales of groups cannot be trained"),
    ({"accumulator_bits": 24},
     "model: a network with accumulators of other than 32 bits cannot be trained"),
    ({"sparsity": "2:4"}, "model: a network with sparse weights cannot be trained"),
    ({"keep_float": ["first", "second", "flat", "last"]},
     "model: nothing runs on the accelerator: the quantizer left every layer in float: first "
     "(conv2d): kept in float on request (3 layers like this)")])
def test_refusals(float_model, images, options: dict, message: str) -> None:
    with pytest.raises(QuantizeRefused) as refusal:
        quantize(plain(float_model), images[:4], **options).trainable(ROWS)
    assert str(refusal.value) == message


def test_parameters_that_do_not_fit_are_refused(float_model, images) -> None:
    net = quantize(plain(float_model), images[:4]).trainable(ROWS, freeze=["k*"])
    whole = {name: net.graph.constants[name] for name in net.parameters}
    first, *others = whole
    for given, said in (({name: whole[name] for name in others}, f"{first!r} is missing"),
                        ({**whole, "other": np.zeros(1, np.float32)}, "'other' is none"),
                        ({**whole, first: np.zeros(99, np.float32)},
                         f"{first!r} has the shape [99], not {list(whole[first].shape)}")):
        with pytest.raises(QuantizeRefused) as refusal:
            net.trained(given)
        assert str(refusal.value) == f"model: parameters must be those of the training: {said}"


def test_a_batch_that_does_not_fit_is_refused(float_model, images) -> None:
    graph = optimize(quantize(plain(float_model), images[:4]).forms.source.graph({}))
    with pytest.raises(QuantizeRefused, match="^model: must be an ONNX model for a batch of 4; "
                                              "leave the batch out$"):
        quantize(graph, images[:4]).trainable(4)
    with pytest.raises(GradientRefused, match="must have 2 rows, as a batch has"):
        quantize(one_row(float_model), images[:4]).trainable(2)
    with pytest.raises(GradientRefused, match="^model: freeze must name parameters, not 'w'"):
        quantize(plain(float_model), images[:4]).trainable(freeze=["w"])
