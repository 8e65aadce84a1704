"""Activations of 16 bits: what the file holds, what becomes of it, how well it agrees."""

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest

import lockstep
from accel.machine.intrinsics import instructions
from accel.machine.machine import Machine
from compiler.errors import ArgumentError
from compiler.graph import evaluate, optimize
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


@pytest.mark.parametrize("bits", [4, pytest.param(2, marks=pytest.mark.slow)])
def test_few_bits_are_few_values_on_the_accelerator(samples, bits: int) -> None:
    """All but the ends have them; the file is one of int8 like others, and the machine agrees with
    the host.
    """
    made = quantize(FLOAT, samples, activation_bits=bits)
    stored = {value: node.outputs[0] for node in made.graph.nodes if node.op == "quantizelinear"
              for value in node.outputs}
    found = evaluate(replace(made.graph, outputs=(*made.graph.outputs, *stored)),
                     {"image": samples[:1]})
    first, *inner, last = (found[name] for name in stored)
    assert max(first.max(), last.max()) > 200 and len(inner) == 9
    assert max(each.max() for each in inner) == (1 << bits) - 1
    assert all(layer.quantized for layer in made.layers)
    assert ("clip" in {node.op for node in made.graph.nodes}
            and not any(node.op == "clip" for node in optimize(made.graph).nodes))
    module = lockstep.compile(made.graph, "accel:tiny-1x4x4")
    host = lockstep.compile(made.graph, "cpu")
    found, wanted = (one({"image": samples[:1]})["logits"] for one in (module, host))
    np.testing.assert_array_equal(found, wanted)
    assert len(module.accelerated) == 1


@pytest.mark.parametrize(("span", "symmetric", "limits"), [
    ((0, 3), False, (0, 15)), ((-1, 2), False, (0, 15)), ((-2, 1), True, (120, 135))])
def test_scales_of_few_bits(span: tuple[float, float], symmetric: bool, limits: tuple[int, int]
                            ) -> None:
    """Zero is exact, the ends are as near as a step, and stored numbers stay within."""
    one = Scale.of(*span, symmetric, bits=4)
    steps = one.steps(np.array([-9, 0, 9], np.float32))
    assert (one.limits, steps.tolist()) == (limits, [limits[0], int(one.zero), limits[1]])
    assert one.bounds() == pytest.approx(one.rounded(np.array([-9, 9], np.float32)).tolist())
    np.testing.assert_allclose(one.rounded(np.array(span)), span, atol=0.51 * float(one.scale))
    assert Scale.of(*span, symmetric).limits == (0, 255)


@pytest.mark.parametrize("bits", [7, 12, "16", 16.5])
def test_other_bits_are_refused(bits, samples) -> None:
    with pytest.raises(ArgumentError) as refusal:
        quantize(FLOAT, samples, activation_bits=bits)
    assert str(refusal.value) == f"activation_bits must be 2, 4, 8 or 16, not {bits!r}"


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
