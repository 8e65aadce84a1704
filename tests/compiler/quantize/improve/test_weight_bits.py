"""Weights of fewer bits: which layers have them, how well they are rounded, and what a budget does.
"""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from compiler.graph import evaluate
from compiler.quantize import quantize
from compiler.quantize.ranges.refusal import QuantizeRefused
from compiler.quantize.ranges.scales import WEIGHT_BITS, quantized_weight
from compiler.quantize.improve.weight_bits import bits_by_name
from examples.digits.data import HERE, held_out

FLOAT = HERE / "digits-float.onnx"
LAYERS = ("conv1", "conv2", "conv3", "conv4", "conv5", "dense")


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return held_out()[0][:16]


def bits(quantized) -> dict[str, int]:
    return {layer.name: layer.weight_bits for layer in quantized.layers
            if layer.weight_bits is not None}


def needed(model: onnx.ModelProto) -> list[int]:
    """The least bits that hold the weights of each layer in the file."""
    found = []
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.int8 and array.ndim > 1:
            found.append(min(bits for bits in WEIGHT_BITS
                             if array.min() >= -(1 << bits - 1) and array.max() < 1 << bits - 1))
    return found


# ---- which layers ------------------------------------------------------------------------------

@pytest.mark.one_in(3)
@pytest.mark.parametrize(("given", "wanted"), [
    (4, [8, 4, 4, 4, 4, 8]), ({"*": 4, "conv3": 2, "dense": 4}, [8, 4, 2, 4, 4, 4]),
    (["4", "conv2=8", "conv3=2", "conv3=4"], [8, 8, 4, 4, 4, 8]), *(
        pytest.param(*one, marks=pytest.mark.slow) for one in (
            (8, [8] * 6), ("4", [8, 4, 4, 4, 4, 8]), (["conv2=4"], [8, 4, 8, 8, 8, 8]),
            ({}, [8] * 6)))])
def test_layers_have_the_bits_that_they_are_given(samples, given, wanted) -> None:
    quantized = quantize(FLOAT, samples, weight_bits=given)
    assert bits(quantized) == dict(zip(LAYERS, wanted, strict=True))
    assert needed(quantized.model) == wanted


def test_layers_without_weights_and_in_float_have_no_bits(samples) -> None:
    """The first layer in float leaves its place to the second, which keeps 8 bits then."""
    quantized = quantize(FLOAT, samples, weight_bits=4, keep_float=["conv1"])
    assert bits(quantized) == dict(zip(LAYERS[1:], (8, 4, 4, 4, 8), strict=True))


@pytest.mark.parametrize(("given", "shown"), [
    (3, "weight bits must be 8, 4 or 2, not 3"), (True, "weight bits must be 8, 4 or 2, not True"),
    (None, "weight bits must be 8, 4 or 2, not None"),
    ("four", "weight bits must be 8, 4 or 2, not 'four'"),
    (4.0, "weight bits must be 8, 4 or 2, not 4.0"),
    ({"conv1": "4"}, "weight bits of conv1 must be 8, 4 or 2, not '4'"),
    (["4", "a=b=5"], "weight bits of a=b must be 8, 4 or 2, not 5"),
    (["conv1="], "weight bits of conv1 must be 8, 4 or 2, not ''")])
def test_other_bits_are_refused(given, shown) -> None:
    with pytest.raises(QuantizeRefused) as refusal:
        bits_by_name(given)
    assert str(refusal.value) == shown


def test_names_of_no_layer_with_weights_are_refused(samples) -> None:
    with pytest.raises(QuantizeRefused) as refusal:
        quantize(FLOAT, samples, weight_bits={"conv9": 4})
    assert str(refusal.value).endswith(
        "digits-float.onnx: --weight-bits must name a layer with constant weights, one of "
        "conv1, conv2, conv3, conv4, conv5, dense, not 'conv9'")


def test_a_layer_that_is_named_and_stays_in_float_is_refused(samples) -> None:
    with pytest.raises(QuantizeRefused) as refusal:
        quantize(FLOAT, samples, weight_bits={"conv2": 4}, keep_float=["conv2"])
    assert str(refusal.value).endswith(
        "digits-float.onnx: --weight-bits must name layers in int8, but conv2 stays in float: "
        "kept in float on request")


# ---- rounding ----------------------------------------------------------------------------------

def error(weight, steps, scale) -> np.ndarray:
    return ((weight - steps * scale[:, None]) ** 2).sum(axis=1)


@pytest.mark.parametrize("count", [4, 2])
def test_scales_have_the_least_squared_error(count, rng) -> None:
    """No channel is worse than with the scale that spans its weights, or with any of many others;
    of an exact grid nothing is lost."""
    low, high = -(1 << count - 1), (1 << count - 1) - 1
    weight = rng.standard_normal((20, 90)).astype(np.float32)
    exact = rng.integers(low, high + 1, 90)
    exact[:2] = low, high
    weight[3], weight[7] = 0.25 * exact, 0
    steps, scale = quantized_weight(weight, 0, np.zeros(20), np.float32(0.1), count)
    assert steps.dtype == np.int8 and steps.min() >= low and steps.max() <= high
    found = error(weight, steps, scale)
    for share in np.linspace(0.1, 1.2, 300):
        other = share * np.maximum(np.abs(weight).max(axis=1), 1e-9) / max(high, 1)
        rounded = np.rint(weight / other[:, None]).clip(low, high)
        assert (found <= 1.005 * error(weight, rounded, other) + 1e-9).all()
    assert found[3] < 1e-9 and scale[3] == np.float32(0.25)
    assert not steps[7].any()


def test_other_axes_are_as_the_first(rng) -> None:
    weight = rng.standard_normal((3, 5, 2, 2)).astype(np.float32)
    steps, scale = quantized_weight(weight, 1, np.zeros(5), np.float32(1), 4)
    turned, same = quantized_weight(weight.swapaxes(0, 1), 0, np.zeros(5), np.float32(1), 4)
    np.testing.assert_array_equal(steps, turned.swapaxes(0, 1))
    np.testing.assert_array_equal(scale, same)


# ---- the network -------------------------------------------------------------------------------

def test_four_bits_cost_little_and_bias_correction_helps(samples) -> None:
    eight, four, corrected = (quantize(FLOAT, samples, weight_bits=count, bias_correction=better)
                              for count, better in ((8, False), (4, False), (4, True)))
    noises = [one.decibels or 0 for one in (eight, four, corrected)]
    assert noises[0] > 35 > 20 < noises[1] < noises[2]
    assert corrected.agreement == 1


def test_onnx_runtime_runs_it_alike(samples) -> None:
    runtime = pytest.importorskip("onnxruntime")
    quantized = quantize(FLOAT, samples, weight_bits={"*": 4, "conv2": 2})
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(quantized.model.SerializeToString(), options,
                                       providers=["CPUExecutionProvider"])
    for image in samples[:8]:
        ours = evaluate(quantized.graph, {"image": image[None]})["logits"]
        theirs, = session.run(["logits"], {"image": image[None]})
        assert np.abs(ours - theirs).max() < 0.02 * np.abs(theirs).max()


# ---- budgets -----------------------------------------------------------------------------------

@pytest.mark.slow
def test_a_budget_widens_the_worst_layers_before_any_falls_back(samples) -> None:
    """The more is asked, the more layers get 8 bits; with all of them it is as without."""
    eight, counts = quantize(FLOAT, samples).decibels, []
    assert eight is not None
    for wanted in (15, 24, eight - 0.1):
        quantized = quantize(FLOAT, samples, weight_bits=4, budget=f"{wanted:.1f}dB")
        assert (quantized.decibels or 0) >= wanted - 0.05 and quantized.fell_back == ()
        counts.append(sum(count < 8 for count in bits(quantized).values()))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 4 and 0 < counts[1] < 4 and counts[-1] == 0


@pytest.mark.slow
def test_a_budget_that_eight_bits_miss_leaves_none_with_fewer(samples) -> None:
    quantized = quantize(FLOAT, samples, weight_bits=4, budget="60dB")
    assert quantized.fell_back and set(bits(quantized).values()) <= {8}


@pytest.mark.parametrize("order", "CF")
def test_scales_of_many_channels_are_those_of_few(order) -> None:
    """Channels are tried together, as many as a cache holds."""
    weight = np.random.default_rng(6).standard_normal((18, 4200), np.float32)
    weight = np.asarray(weight, order=order)
    _, scale = quantized_weight(weight, 0, np.zeros(18), np.float32(1), 4)
    few = [quantized_weight(weight[at:at + 2], 0, np.zeros(2), np.float32(1), 4)[1]
           for at in range(0, 18, 2)]
    assert np.array_equal(scale, np.concatenate(few))
