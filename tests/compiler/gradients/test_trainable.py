"""Networks in training: norms as ONNX's reference has them, masks as Philox is published."""

import re

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import lockstep
from compiler.frontend.building.training import random_words
from compiler.frontend.building.values import Tracer
from compiler.gradients.steps import training_step
from compiler.gradients.trainable import parameters_of, with_initializers
from compiler.graph import Builder, TensorType, evaluate
from tests.support.training_models import CLASSES, ROWS, dropping, model_of, normed

ALL = (1 << 32) - 1


def philox(place: int, time: int, key: int) -> int:
    """Philox 2x32 with 10 rounds, as published, in integers of Python."""
    for _ in range(10):
        product = place * 0xD256D193
        place, time = product >> 32 ^ key ^ time, product & ALL
        key = key + 0x9E3779B9 & ALL
    return place


@pytest.mark.parametrize(("place", "time", "key", "word"), [        # of Random123's known answers
    (0, 0, 0, 0xFF1DAE59), (ALL, ALL, ALL, 0x2C3F628B),
    (0x243F6A88, 0x85A308D3, 0x13198A2E, 0xDD7CE038)])
def test_words_are_those_that_are_published(place: int, time: int, key: int, word: int) -> None:
    net = Builder("words")
    t = Tracer(net)
    values = [t.input(name, TensorType((2,), "uint64")) for name in ("places", "times")]
    name = t.enter(random_words(values[0], values[1], key))
    given = {"places": np.array([place, 7], np.uint64), "times": np.array([time, 9], np.uint64)}
    made = evaluate(net.finish([name]), given)[name]
    assert made.tolist() == [word, philox(7, 9, key)] and philox(place, time, key) == word


@pytest.mark.parametrize("opset", [10, 17])
def test_a_dropout_drops_by_seed_step_and_place(opset: int, rng: np.random.Generator) -> None:
    model = dropping(0.25, opset)
    nets = [lockstep.trainable(model, seed=seed) for seed in (1, 1, 2)]
    x = rng.uniform(1, 2, (ROWS, 64)).astype(np.float32)

    def kept(net, step: int) -> np.ndarray:
        return evaluate(net.graph, {"x": x, net.counter: np.array(step)})["y"]

    first = kept(nets[0], 3)
    np.testing.assert_array_equal(first, kept(nets[1], 3))
    assert 0.1 < (first == 0).mean() < 0.4
    np.testing.assert_allclose(first[first != 0], (x * np.float32(1 / 0.75))[first != 0], rtol=1e-6)
    for other in (kept(nets[0], 4), kept(nets[2], 3)):
        assert (0.2 < ((other == 0) != (first == 0)).mean() < 0.6)
    compiled = lockstep.compile(nets[0].graph, "cpu")({"x": x, nets[0].counter: np.array(3)})["y"]
    np.testing.assert_array_equal(compiled == 0, first == 0)


def test_the_share_that_is_dropped_is_that_of_the_ratio() -> None:
    nodes = [helper.make_node("Mul", ["x", "w"], ["m"]),
             helper.make_node("Dropout", ["m", "ratio"], ["y"])]
    model = model_of(nodes, (200, 500), {"w": np.ones(500, np.float32),
                                         "ratio": np.array(0.3, np.float32)})
    net = lockstep.trainable(model)
    x = np.ones((200, 500), np.float32)
    dropped = evaluate(net.graph, {"x": x, net.counter: np.array(0)})["y"] == 0
    assert abs(dropped.mean() - 0.3) < 0.01
    assert abs(dropped.mean(0) - 0.3).max() < 0.15 and abs(dropped.mean(1) - 0.3).max() < 0.1


def test_a_gradient_goes_through_what_is_kept(rng: np.random.Generator) -> None:
    net = lockstep.trainable(dropping(0.5))
    step = training_step(lockstep.mean_squared_error(net.graph, "y"), "loss", net.parameters,
                         lockstep.Sgd(rate=1.0, momentum=0.0), counter=net.counter)
    given = {"x": rng.standard_normal((ROWS, 64)).astype(np.float32),
             "target": np.zeros((ROWS, 64), np.float32), **step.first}
    given |= {step.rate: np.array(1, np.float32), step.time: np.array(5)}
    y = evaluate(net.graph, {"x": given["x"], net.counter: np.array(5)})["y"]
    slope = 2 * (y * np.where(y != 0, given["x"] * 2, 0)).sum(0) / y.size
    moved = evaluate(step.graph, given)[step.next["w"]]
    np.testing.assert_allclose(moved, 1 - slope, rtol=1e-4, atol=1e-5)


def in_training(model: onnx.ModelProto) -> ReferenceEvaluator:
    """ONNX's reference of the model, its batch norm in training, with the running statistics."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    norm = next(node for node in copy.graph.node if node.op_type == "BatchNormalization")
    norm.attribute.append(helper.make_attribute("training_mode", 1))
    norm.output.extend(("next.mean", "next.variance"))
    copy.graph.input[0].type.tensor_type.shape.dim[0].dim_value = ROWS
    copy.graph.output.extend(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
                             for name in norm.output[1:])
    return ReferenceEvaluator(copy)


def test_running_statistics_are_those_of_onnx(rng: np.random.Generator) -> None:
    """Over three steps, through the trainer; what it learned gives the same in inference."""
    model = normed(rng)
    net = lockstep.trainable(model, batch=ROWS)
    assert net.statistics.keys() == {"norm.mean", "norm.variance"} and not net.counter
    trainer = lockstep.Trainer(lockstep.cross_entropy(net.graph, "y"), parameters=net.parameters,
                               optimizer=lockstep.Sgd(rate=0.1), statistics=net.statistics)
    x = np.zeros((ROWS, 2, 4, 4), np.float32)
    for _ in range(3):
        now = with_initializers(model, trainer.parameters | trainer.statistics)
        x = rng.standard_normal((ROWS, 2, 4, 4)).astype(np.float32) + 1
        mean, variance = map(np.asarray, [*in_training(now).run(None, {"x": x})][1:])
        trainer.step({"x": x, "labels": rng.integers(0, CLASSES, ROWS)})
        np.testing.assert_allclose(trainer.statistics["norm.mean"], mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(trainer.statistics["norm.variance"], variance, rtol=1e-5)
    learned = with_initializers(model, trainer.parameters | trainer.statistics)
    made = lockstep.compile(learned, "cpu")({"x": x[:1]})["y"]
    wanted, = map(np.asarray, ReferenceEvaluator(learned).run(None, {"x": x[:1]}))
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)


def test_weights_are_learned_and_other_constants_are_not(rng: np.random.Generator) -> None:
    arrays = parameters_of(normed(rng))
    assert [*arrays] == ["conv.weight", "norm.scale", "norm.bias", "dense.weight", "dense.bias"]
    nodes = [helper.make_node("Add", ["x", "bias"], ["a"]),
             helper.make_node("Mul", ["a", "half"], ["b"]),
             helper.make_node("Add", ["b", "mask"], ["c"]),
             helper.make_node("Pow", ["c", "powers"], ["y"])]
    model = model_of(nodes, (2, 3), {
        "bias": np.ones(3, np.float32), "half": np.array(0.5, np.float32),
        "mask": np.array([0, 0, -np.inf], np.float32), "powers": np.ones(3, np.float32)})
    assert [*parameters_of(model)] == ["bias"]


def test_frozen_weights_stay_constants(rng: np.random.Generator) -> None:
    net = lockstep.trainable(normed(rng), freeze=["conv.*", "*.bias"])
    assert net.parameters == ("norm.scale", "dense.weight")


@pytest.mark.parametrize(("options", "message"), [
    ({"freeze": ["nothing*"]}, "model: freeze must name parameters, not 'nothing*'; there are w"),
    ({"freeze": ["w"]}, "model: it must have constants that are learned, and has none that are not "
                        "frozen")])
def test_wrong_requests_are_refused(options: dict, message: str) -> None:
    with pytest.raises(lockstep.GradientRefused, match=f"^{re.escape(message)}$"):
        lockstep.trainable(dropping(0.5), **options)


def test_a_batch_that_does_not_go_through_is_refused() -> None:
    nodes = [helper.make_node("Mul", ["x", "w"], ["m"]),
             helper.make_node("Reshape", ["m", "shape"], ["y"])]
    model = model_of(nodes, (1, 4), {"w": np.ones(4, np.float32), "shape": np.array([1, -1])})
    message = ("model: output 'y' must have 3 rows, as a batch has, not float32[1,12]; the network "
               "fixes its number of rows: leave the batch out")
    with pytest.raises(lockstep.GradientRefused, match=f"^{re.escape(message)}$"):
        lockstep.trainable(model, batch=3)


def test_a_ratio_of_one_is_refused() -> None:
    with pytest.raises(lockstep.ImportRefused,
                       match="its ratio must be from 0 to below 1 in training, not 1"):
        lockstep.trainable(dropping(1.0))
