"""Weights of few bits rounded with feedback."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend.onnx.importing import convert
from compiler.graph import evaluate
from compiler.graph.graph import Node
from compiler.graph.reference import evaluate_node
from compiler.quantize import quantize
from compiler.quantize.improve import error_feedback
from compiler.quantize.ranges.refusal import QuantizeRefused
from lockstep.cli import main

BITS = {"weight_bits": 4, "weight_rounding": "feedback"}


def correlated(rng, count: int, width: int) -> np.ndarray:
    """Samples that have few directions and a little noise."""
    mixed = rng.standard_normal((count, width // 6)) @ rng.standard_normal((width // 6, width))
    return (mixed + 0.1 * rng.standard_normal((count, width))).astype(np.float32)


def dense_layers(rng, width: int, count: int = 4) -> onnx.ModelProto:
    weights = [numpy_helper.from_array((rng.standard_normal((width, width)) / np.sqrt(width))
                                       .astype(np.float32), f"w{place}") for place in range(count)]
    nodes = [helper.make_node(op, inputs, [output]) for place in range(count) for op, inputs, output
             in (("MatMul", [f"r{place}", f"w{place}"], f"m{place}"),
                 ("Relu", [f"m{place}"], f"r{place + 1}"))]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "m", [info("r0", TensorProto.FLOAT, ["N", width])],
                              [info(f"r{count}", TensorProto.FLOAT, ["N", width])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


# The rounding itself

def test_it_is_near_the_best_of_all_integers(rng) -> None:
    inputs = correlated(rng, 60, 6)
    squares = inputs.T.astype(float) @ inputs
    weight, scale, none = rng.standard_normal((5, 6)), np.full(5, 0.9), np.zeros((5, 6))
    steps, unit = error_feedback.fitted(weight, np.ones((5, 6)), scale, squares, none, 2)
    assert set(np.unique(steps)) <= {-2, -1, 0, 1}
    every = np.array(list(itertools.product(range(-2, 2), repeat=6)))

    def error(real: np.ndarray, row: int) -> np.ndarray:
        return np.square((real - weight[row]) @ inputs.T).sum(axis=-1)

    nearest = np.clip(np.rint(weight / 0.9), -2, 1) * 0.9
    found = [error(steps[row] * unit[row], row) for row in range(5)]
    best = [error(every * 0.9, row).min() for row in range(5)]
    assert sum(found) < 1.3 * sum(best)
    assert sum(found) < 0.5 * sum(error(nearest[row], row) for row in range(5))


@pytest.mark.parametrize("together", [3, 128])
def test_columns_behind_take_the_error_that_least_squares_says(together, rng, monkeypatch) -> None:
    """Each column is rounded beside the best real ones for all that are rounded before it."""
    monkeypatch.setattr(error_feedback, "TOGETHER", together)
    squares = np.cov(rng.standard_normal((8, 40))) + 0.3
    weight, scale, order = rng.standard_normal((1, 8)), np.full((1, 8), 0.3), rng.permutation(8)
    steps = error_feedback._in_turn(weight, scale, squares, order, 4)
    for place, column in enumerate(order):
        done, rest = order[:place], order[place:]
        error = (weight - steps * scale)[0, done]
        best = weight[0, rest] + np.linalg.solve(squares[np.ix_(rest, rest)],
                                                 squares[np.ix_(rest, done)] @ error)
        assert steps[0, column] == np.clip(np.rint(best[0] / 0.3), -8, 7)


@pytest.mark.parametrize("together", [3, 128])
def test_in_the_end_no_single_integer_is_better(together, rng, monkeypatch) -> None:
    monkeypatch.setattr(error_feedback, "TOGETHER", together)
    squares = np.cov(rng.standard_normal((8, 40))) + 0.3
    ideal, scale = rng.standard_normal((4, 8)), np.full((4, 8), 0.8)
    steps = error_feedback._improved(np.zeros((4, 8)), ideal, scale, squares, 4)

    def error(steps: np.ndarray) -> np.ndarray:
        rest = ideal - steps * scale
        return ((rest @ squares) * rest).sum(axis=1)

    for place, change in itertools.product(range(8), (-1, 1)):
        other = steps.copy()
        other[:, place] += change
        assert (error(other) >= error(steps) - 1e-9).all()


def test_missing_sums_are_made_up_for(rng) -> None:
    """What layers before have lost is a part of the weight that is rounded."""
    inputs = rng.standard_normal((400, 12))
    squares = inputs.T @ inputs
    weight, wanted = rng.standard_normal((2, 3, 12))
    missing = (inputs @ (wanted - weight).T).T @ inputs
    steps, unit = error_feedback.fitted(weight, np.ones((3, 12)), np.full(3, 0.01), squares,
                                        missing, 12)
    damped = squares + error_feedback.DAMPING * np.trace(squares) / 12 * np.eye(12)
    best = weight + np.linalg.solve(damped, missing.T).T
    np.testing.assert_allclose(steps * unit[:, None], best, atol=0.02)
    assert np.abs(best - wanted).max() < 0.1 * np.abs(weight - wanted).max()


@pytest.mark.parametrize(("groups", "attrs"), [
    (1, {"strides": (1, 1), "pads": (0, 0, 0, 0)}),
    (1, {"strides": (2, 1), "pads": (1, 0, 2, 1)}),
    (3, {"strides": (1, 2), "pads": (1, 1, 1, 1), "dilations": (2, 1)}),
    (6, {"strides": (1, 1), "pads": (1, 1, 1, 1)})])
def test_columns_are_what_sums_read(groups, attrs, rng) -> None:
    node = Node("conv2d", "c", ("x", "w"), ("y",), {**attrs, "group": groups})
    weight = rng.standard_normal((12, 6 // groups, 3, 2)).astype(np.float32)
    data = rng.standard_normal((2, 6, 9, 8)).astype(np.float32)
    wanted = error_feedback._rows(node, evaluate_node(node, [data, weight]), groups)
    columns = error_feedback._columns(node, data, weight)
    found = columns @ weight.reshape(groups, 12 // groups, -1).swapaxes(1, 2)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


# In networks

@pytest.mark.one_in(2)
@pytest.mark.parametrize("more", [{}, {"weight_groups": 16}, *(
    pytest.param(more, marks=pytest.mark.slow) for more in (
        {"weight_bits": 2}, {"bias_correction": False}))])
def test_samples_that_it_has_not_seen_have_less_noise(more, rng) -> None:
    model, samples = dense_layers(rng, 48), correlated(rng, 256, 48)
    graph = convert(model, "m", {"N": 64})
    wanted = evaluate(graph, {"r0": samples[192:]})["r4"]

    def decibels(rounding: str) -> float:
        quantized = quantize(model, samples[:192],
                             **{**BITS, **more, "weight_rounding": rounding})
        found = evaluate(quantized.graph_of({"N": 64}), {"r0": samples[192:]})["r4"]
        return 10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum())

    assert decibels("feedback") > decibels("nearest") + 3


def test_the_file_has_the_integers_that_were_chosen(rng) -> None:
    model, samples = dense_layers(rng, 48), correlated(rng, 64, 48)
    quantized = quantize(model, samples, **BITS, weight_groups=16)
    read = convert(quantized.model, "m", {"N": 64})
    ours, own = (evaluate(graph, {"r0": samples})["r4"]
                 for graph in (read, quantized.graph_of({"N": 64})))
    np.testing.assert_array_equal(ours, own)
    plain = quantize(model, samples, weight_bits=4, weight_groups=16)
    assert quantized.model.SerializeToString() != plain.model.SerializeToString()
    assert [layer.weight_bits for layer in quantized.layers] == [8, 4, 4, 8]


def test_weights_that_layers_share_stay_shared(rng) -> None:
    model, samples = dense_layers(rng, 48), correlated(rng, 64, 48)
    model.graph.node[4].input[1] = "w1"
    del model.graph.initializer[2]
    given, plain = (quantize(model, samples, weight_bits=4, weight_rounding=rounding).model
                    for rounding in ("feedback", "nearest"))
    assert given.SerializeToString() == plain.SerializeToString()


@pytest.mark.parametrize(("more", "shown"), [
    ({"weight_rounding": "adaptive"}, "weight rounding must be nearest or feedback, not "
                                      "'adaptive'"),
    ({"weight_bits": 8}, "weight rounding by feedback must come with weight bits of 4 or 2"),
    ({"sparsity": "2:4"}, "weight rounding by feedback must come without sparse weights, whose "
                          "zeros it would not keep: --sparsity none"),
    ({"activation_bits": 16}, "weight rounding by feedback must come with activations of 8 bits "
                              "and sums of 32, not 16 and 32"),
    ({"accumulator_bits": 24}, "weight rounding by feedback must come with activations of 8 bits "
                               "and sums of 32, not 8 and 24")])
def test_other_options_are_refused(more, shown, rng) -> None:
    with pytest.raises(QuantizeRefused) as refusal:
        quantize(dense_layers(rng, 32, 1), correlated(rng, 4, 32), **{**BITS, **more})
    assert str(refusal.value) == shown


def test_the_command_takes_it(tmp_path, rng, capsys) -> None:
    onnx.save(dense_layers(rng, 32), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", correlated(rng, 32, 32))
    command = ["quantize", str(tmp_path / "m.onnx"), "--calibration", str(tmp_path / "x.npy"),
               "--weight-rounding", "feedback", "-o", str(tmp_path / "q.onnx")]
    assert main([*command, "--weight-bits", "4"]) == 0
    assert "2 of 4 layers with weights of fewer than 8 bits; rounded with feedback" in (
        capsys.readouterr().out)
    assert main(command) == 2
    assert "must come with weight bits of 4 or 2" in capsys.readouterr().err
