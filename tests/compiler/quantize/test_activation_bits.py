"""Activations of 16 bits: what the file holds, what becomes of it, how well it agrees."""

import numpy as np
import onnx
import onnxruntime
import pytest

import lockstep
from accel.machine.intrinsics import instructions
from accel.machine.machine import Machine
from compiler.errors import ArgumentError
from compiler.graph import optimize
from compiler.quantize import quantize
from compiler.quantize.ranges.scales import Scale, quantized_weight
from examples.digits.data import HERE, held_out
from tests.support.machines import LONG

FLOAT = HERE / "digits-float.onnx"


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return held_out()[0][:16]


@pytest.fixture(scope="module")
def made(samples):
    return quantize(FLOAT, samples, activation_bits=16)


def test_every_activation_has_them(made, samples) -> None:
    """A layer is an integer operator of int16; what was lost to 8 bits is won."""
    onnx.checker.check_model(made.model)
    assert made.model.opset_import[0].version == 21
    kinds = {node.op: made.graph.values[node.outputs[0]].dtype for node in made.graph.nodes
             if node.op == "quantizelinear"}
    assert kinds == {"quantizelinear": "int16"} and all(layer.quantized for layer in made.layers)
    graph = optimize(made.graph)
    assert {graph.values[node.outputs[0]].dtype for node in graph.nodes
            if node.op.startswith("q")} == {"int16"}
    short = quantize(FLOAT, samples)
    assert made.decibels and short.decibels and made.decibels > short.decibels + 3


@pytest.mark.slow
def test_it_is_what_onnx_runtime_computes(made, samples) -> None:
    """All on the accelerator, to some steps of the output."""
    session = onnxruntime.InferenceSession(made.model.SerializeToString())
    module = lockstep.compile(made.graph, "accel", machine=LONG, sim="cycle")
    for image in samples[:2]:
        wanted = np.asarray(session.run(None, {"image": image[None]})[0])
        found, = module({"image": image[None]}).values()
        np.testing.assert_allclose(found, wanted, atol=1e-3)
        assert np.abs(wanted).max() > 1
    assert len(module.accelerated) == 1


def test_functions_and_computed_factors_stay_in_float(float_model, rng) -> None:
    one = float_model()
    x = one.conv(one.input("x", 1, 4, 6, 6), 4, 4)
    y = one.conv(one.add("Sigmoid", x), 4, 4)
    z = one.add("MatMul", y, y)
    made = quantize(one.model(z), rng.standard_normal((4, 4, 6, 6)).astype(np.float32),
                    activation_bits=16)
    reasons = {layer.op: layer.reason for layer in made.layers if layer.reason}
    assert set(reasons.values()) == {
        "functions of elements are of 8 bits, and activations have 16",
        "products of computed values are of 8 bits, and activations have 16"}


@pytest.mark.parametrize("bits", [7, 12, "16", 16.5])
def test_other_bits_are_refused(bits, samples) -> None:
    with pytest.raises(ArgumentError) as refusal:
        quantize(FLOAT, samples, activation_bits=bits)
    assert str(refusal.value) == f"activation_bits must be 8 or 16, not {bits!r}"


def test_accumulators_of_other_bits_are_refused(samples) -> None:
    with pytest.raises(ArgumentError, match="^accumulator_bits must be 16, 24, 32, 40 or 48, "
                                            "not 20$"):
        quantize(FLOAT, samples, accumulator_bits=20)


@pytest.mark.slow
def test_a_machine_of_24_bits_takes_what_is_quantized_for_it(samples) -> None:
    """Every layer, as the weights leave room for sums; with 16 bits those whose weights do."""
    for accumulator, layers in (("int24", 7), ("int16", 4)):
        machine = Machine(LONG.config, instructions(accumulator=accumulator))
        made = lockstep.quantize(FLOAT, samples, machine=machine)
        module = lockstep.compile(made.graph, "accel", machine=machine)
        assert sum(len(one.program.layers) for one in module.accelerated) == layers
        found, = module({"image": samples[:1]}).values()
        wanted, = lockstep.compile(made.graph, "cpu")({"image": samples[:1]}).values()
        np.testing.assert_array_equal(found, wanted)


def test_sums_fit_the_accumulator() -> None:
    """However many weights of one sign a channel has, and however large its bias."""
    for count in (9, 3000, 40000):
        weight = np.ones((2, count), np.float32)
        weight[1] /= 7
        source, bias = Scale.of(-1, 1, bits=16).scale, np.array([3, 1e5], np.float32)
        steps, scale = quantized_weight(weight, 0, bias, source, activation_bits=16)
        worst = 2**15 * np.abs(steps.astype(np.int64)).sum(axis=1) + np.abs(bias / (scale * source))
        assert worst.max() < 2**31 - 1 and np.abs(steps[0]).max() > 0, count
