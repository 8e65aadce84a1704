"""Weights of few bits with scales of groups of inputs."""

import numpy as np
import pytest

from compiler.frontend.onnx.importing import convert
from compiler.graph import evaluate, optimize
from compiler.quantize import quantize
from compiler.quantize.ranges.groups import SUMS, WeightGroups, grouped_weight
from compiler.quantize.ranges.refusal import QuantizeRefused
from compiler.quantize.ranges.scales import quantized_weight
from tests.support.grouped_layers import WIDTH, network

NOTHING, SOURCE = np.zeros(20), np.float32(0.1)


def factors_of(steps: np.ndarray, size: int, bits: int) -> np.ndarray:
    """The least factor of each group that leaves integers of so many bits."""
    rows, inputs = steps.shape
    cut = np.zeros((rows, -(-inputs // size) * size), np.int64)
    cut[:, :inputs] = steps
    cut = cut.reshape(rows, -1, size)
    divisor = np.maximum(np.gcd.reduce(cut, axis=2), 1)
    integers = cut // divisor[..., None]
    assert integers.min() >= -(1 << bits - 1) and integers.max() < 1 << bits - 1
    return divisor


@pytest.mark.parametrize("bits", [4, 2])
@pytest.mark.parametrize("groups", [
    WeightGroups(16), WeightGroups(32), WeightGroups(32, 16), WeightGroups(64)])
def test_weights_are_few_bits_times_factors(bits, groups, rng) -> None:
    weight = rng.standard_normal((20, 90)) * rng.uniform(0.2, 3, (20, 3)).repeat(30, axis=1)
    weight[4], weight[5, :32] = 0, 0
    steps, scale, _ = grouped_weight(weight.astype(np.float32), bits, groups, NOTHING, SOURCE)
    assert steps.dtype == np.int16 and scale.dtype == np.float32 and (scale > 0).all()
    assert factors_of(steps, groups.size, bits).max() <= (127, 4095)[groups.scale_bits == 16] * 8
    assert not steps[4].any() and not steps[5, :32].any()
    whole, channel = quantized_weight(weight.astype(np.float32), 0, NOTHING, SOURCE, bits)
    mine, others = (np.square(weight - integers * scales[:, None]).sum()
                    for integers, scales in ((steps, scale), (whole, channel)))
    assert mine < others


def test_scales_of_16_bits_lose_less(rng) -> None:
    """Where groups lie far apart, factors of 8 bits are coarse in the smallest."""
    weight = (rng.standard_normal((20, 4, 32)) * [[[1], [0.1], [0.03], [0.01]]]).reshape(20, -1)
    errors = [np.abs(weight - steps * scale[:, None]).reshape(20, 4, 32)[:, 3].max()
              for steps, scale, _ in (grouped_weight(weight, 4, WeightGroups(32, bits), NOTHING,
                                                  SOURCE) for bits in (8, 16))]
    assert errors[1] < 0.8 * errors[0]


def test_sums_and_biases_fit_the_accumulator(rng) -> None:
    weight = rng.choice([-1.0, 0.9, 1.0], (20, 4096))
    bias = np.full(20, 1e6)
    steps, scale, _ = grouped_weight(weight, 4, WeightGroups(32, 16), bias, SOURCE)
    assert 128 * np.abs(steps.astype(np.int64)).sum(axis=1).max() <= 1.01 * SUMS
    assert np.abs(bias / SOURCE / scale).max() <= 1.01 * SUMS


@pytest.mark.parametrize(("given", "shown"), [
    ((48, None, 4), "weight groups must be of 16, 32, 64, 128, 256, 512 or 1024 inputs, not 48"),
    ((True, None, 4), "weight groups must be of 16, 32, 64, 128, 256, 512 or 1024 inputs, not "
                      "True"),
    ((32, 4, 4), "scale bits must be 8 or 16, not 4"),
    ((None, 8, 4), "scale bits must come with weight groups"),
    ((32, None, 8), "weight groups must come with weight bits of 4 or 2"),
    ((32, None, 4, 16), "weight groups must come with activations of 8 bits and sums of 32, not 16 "
                        "and 32")])
def test_other_groups_are_refused(given, shown) -> None:
    with pytest.raises(QuantizeRefused) as refusal:
        WeightGroups.of(*given)
    assert str(refusal.value) == shown


# In networks

def test_the_file_is_read_back_to_the_same_integers(rng) -> None:
    samples = rng.standard_normal((16, WIDTH)).astype(np.float32)
    quantized = quantize(network(rng), samples, weight_bits=4, weight_groups=32)
    assert [layer.weight_bits for layer in quantized.layers] == [8, 4, 4, 8]
    read = optimize(convert(quantized.model, "m", {"N": 16}))
    dense = [node for node in read.nodes if node.op == "qdense"]
    weights = [read.constants[node.inputs[1]] for node in dense]
    assert [weight.dtype.name for weight in weights] == ["int8", "int16", "int16", "int8"]
    for weight in weights[1:3]:
        assert factors_of(weight, 32, 4).max() > 100
    assert next(one.version for one in quantized.model.opset_import if not one.domain) >= 21
    ours, own = (evaluate(graph, {"x": samples})[graph.outputs[0]] for graph in (
        read, optimize(quantized.graph_of({"N": 16}))))
    np.testing.assert_array_equal(ours, own)


def test_groups_have_less_noise_than_channels(rng) -> None:
    model, samples = network(rng), rng.standard_normal((64, WIDTH)).astype(np.float32)
    channels, groups = (quantize(model, samples, weight_bits=4, weight_groups=size).decibels
                        for size in (None, 32))
    assert channels is not None and groups is not None and groups > channels + 2
