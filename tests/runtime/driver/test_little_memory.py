"""Training in little memory: fewer bytes by the plan, and the same bits."""

import numpy as np
import onnx
import pytest
from onnx import helper

import lockstep
from tests.support.residual_networks import CLASSES, residual
from tests.support.training_models import model_of

ROWS = 2


def branching() -> onnx.ModelProto:
    """Two branches of several layers that meet, a value that is read far behind, and a dropout."""
    rng = np.random.default_rng(3)
    nodes, arrays = [], dict[str, np.ndarray](ratio=np.array(0.25, np.float32))

    def layer(x: str, name: str) -> str:
        arrays[f"{name}.w"] = rng.standard_normal((32, 32)).astype(np.float32) / 6
        nodes.append(helper.make_node("MatMul", [x, f"{name}.w"], [f"{name}.m"], name))
        nodes.append(helper.make_node("Tanh", [f"{name}.m"], [f"{name}.y"], f"{name}.tanh"))
        return f"{name}.y"

    x = layer("x", "first")
    left = right = x
    for number in range(8):
        left, right = layer(left, f"left{number}"), layer(right, f"right{number}")
    nodes.append(helper.make_node("Dropout", [left, "ratio"], ["kept"], "drop"))
    nodes.append(helper.make_node("Add", ["kept", right], ["met"], "meet"))
    last = "met"
    for number in range(8):
        last = layer(last, f"last{number}")
    nodes.append(helper.make_node("Mul", [last, x], ["y"], "far"))
    return model_of(nodes, (64, 32), arrays)


def trained(net, of: str, batch: dict, memory: int | None) -> lockstep.Trainer:
    loss = lockstep.cross_entropy if of == "labels" else lockstep.mean_squared_error
    trainer = lockstep.Trainer(loss(net.graph, "y"), parameters=net.parameters, memory=memory,
                               statistics=net.statistics, counter=net.counter)
    for _ in range(2):
        trainer.step(batch)
    return trainer


def same_bits(first: lockstep.Trainer, second: lockstep.Trainer) -> bool:
    return {name: array.tobytes() for name, array in first.state.items()} == {
        name: array.tobytes() for name, array in second.state.items()}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "share"), [("branching", 0.4), ("residual", 0.4)])
def test_the_plan_is_within_the_budget_and_bits_are_the_same(name: str, share: float) -> None:
    rng = np.random.default_rng(0)
    if name == "residual":
        net, of = lockstep.trainable(residual(14, size=16, stages=2), batch=ROWS), "labels"
        batch = {"x": rng.standard_normal((ROWS, 3, 16, 16)).astype(np.float32),
                 "labels": rng.integers(0, CLASSES, ROWS)}
    else:
        net, of = lockstep.trainable(branching()), "target"
        batch = {key: rng.standard_normal((64, 32)).astype(np.float32) for key in ("x", of)}
    plain = trained(net, of, batch, None)
    memory = int(share * plain.activation_bytes)
    little = trained(net, of, batch, memory)
    assert 0 < little.activation_bytes <= memory
    assert len(little.module.graph.nodes) > len(plain.module.graph.nodes)
    assert same_bits(plain, little)
    with pytest.raises(lockstep.ArgumentError, match=r"^memory must be at least the [\d,]+ bytes "
                       r"that activations of \w+ take where most is computed twice, not 1,000$"):
        trained(net, of, batch, 1000)
