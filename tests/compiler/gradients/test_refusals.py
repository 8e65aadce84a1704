"""What has no gradient is refused in one line: name, operator, reason."""

import re
from dataclasses import replace

import numpy as np
import pytest

import lockstep
from compiler.errors import ArgumentError
from compiler.frontend.models import graph_of
from compiler.gradients import GradientRefused, cross_entropy, grad, mean_squared_error
from compiler.graph import Builder, Graph, TensorType, evaluate
from compiler.ops.registry import OPERATORS, find

FLOATS = TensorType((2, 3), "float32")


def one_node(op: str, *inputs: str, **attrs) -> Graph:
    """x, and other inputs, through a node and into a sum of all that is float32."""
    net = Builder("net")
    for name in ("x", *inputs):
        net.add_input(name, FLOATS)
    net.emit(op, "it", ["x", *inputs], "y", **attrs)
    net.emit("cast", "cast", ["y"], "z", to="float32")
    net.emit("reduce_sum", "sum", ["z"], "loss",
             axes=tuple(range(len(net.values["z"].shape))), keepdims=0)
    return net.finish(["loss"])


def refused(message: str):
    return pytest.raises(GradientRefused, match=f"^{re.escape(message)}$")


def test_a_quantization_is_refused() -> None:
    with refused("net: it (quantize) has no gradient: it rounds to integers or computes with them; "
                 "differentiate the network in float"):
        grad(one_node("quantize", scale=0.1, zp=0, dtype="int8"), "loss", "x")


def test_what_lowering_makes_is_refused() -> None:
    with refused("net: it (block_columns) has no gradient: only the compiler makes it; "
                 "differentiate the network as it was imported"):
        grad(one_node("block_columns"), "loss", "x")


def test_an_operator_without_a_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATORS, "own", replace(find("exp"), name="own"))
    with refused("net: it (own) has no gradient: it has no rule in compiler/gradients/rules"):
        grad(one_node("own"), "loss", "x")


def test_a_product_that_is_scattered_is_refused() -> None:
    net = Builder("net")
    for name, type_ in (("x", TensorType((1, 2, 1), "float32")),
                        ("at", TensorType((1, 2, 1), "int64"))):
        net.add_input(name, type_)
    net.emit("scatter_reduced", "it", ["x", "at", "x"], "y", reduction="mul")
    net.emit("reduce_sum", "sum", ["y"], "loss", axes=(0, 1, 2), keepdims=0)
    with refused("net: it (scatter_reduced) has no gradient: its reduction is mul: only add, max "
                 "and min have a gradient"):
        grad(net.finish(["loss"]), "loss", "x")


def test_what_the_number_does_not_depend_on_is_not_refused() -> None:
    """A node beside the way, and one whose inputs stay as they are."""
    graph = one_node("quantize", scale=0.1, zp=0, dtype="int8")
    graph = replace(graph, outputs=("loss", "y"))
    net = Builder.like(graph)
    for node in graph.nodes:
        net.add(node)
    net.emit("reduce_sum", "other", ["x"], "size", axes=(0, 1), keepdims=0)
    made = grad(net.finish(["size", "loss"]), "size", "x")
    x = np.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(evaluate(made, {"x": x})["x_gradient"], x + 1)


def test_comparisons_and_places_have_no_gradient() -> None:
    """What they give is constant between steps: the gradient is 0."""
    for op, attrs in (("is_nan", {}), ("argmax", {"axis": 1, "keepdims": 0}),
                      ("cast", {"to": "int32"})):
        made = grad(one_node(op, **attrs), "loss", "x")
        found = evaluate(made, {"x": np.ones((2, 3), np.float32)})["x_gradient"]
        assert found.shape == (2, 3) and not found.any()


@pytest.mark.parametrize(("of", "wrt", "message"), [
    ("loss", "w", "net: wrt must be a value of the network, not 'w'; its inputs are x"),
    ("lost", "x", "net: of must be a value of the network, not 'lost'; its inputs are x"),
    ("y", "x", "net: of must have 1 element, not 'y': float32[2,3]"),
    ("loss", [], "net: wrt must be different names, at least one, not none"),
    ("loss", ["x", "x"], "net: wrt must be different names, at least one, not x, x")])
def test_wrong_names_are_refused(of: str, wrt: str | list[str], message: str) -> None:
    with refused(message):
        grad(one_node("exp"), of, wrt)


def test_integers_are_refused() -> None:
    net = Builder("net")
    net.add_input("x", TensorType((2,), "int64"))
    net.emit("reduce_sum", "sum", ["x"], "loss", axes=(0,), keepdims=0)
    with refused("net: of must be floats, not 'loss': int64[]"):
        grad(net.finish(["loss"]), "loss", "x")


@pytest.mark.parametrize("lossy", [mean_squared_error, cross_entropy])
def test_losses_refuse_names(lossy) -> None:
    graph = one_node("exp")
    with refused("net: of must be a value of the network, not 'w'; its outputs are loss"):
        lossy(graph, "w")
    with refused("net: loss must be a new name, not 'loss'"):
        lossy(graph, "y")
    with refused("net: target must be a new name, not 'x'"):
        lossy(graph, "y", target="x", loss="error")
    with refused("net: of must be float32 or float64, not 'n': bool[2,3]"):
        net = Builder("net")
        net.add_input("n", TensorType((2, 3), "bool"))
        lossy(net.finish(["n"]), "n")


def test_cross_entropy_needs_classes() -> None:
    with pytest.raises(ArgumentError, match="^smoothing must be from 0 to below 1, not 1$"):
        cross_entropy(one_node("exp"), "y", loss="error", smoothing=1)
    with refused("net: 'loss' must have an axis of classes, not float32[]"):
        cross_entropy(one_node("exp"), "loss", loss="error")


def test_losses_are_those_of_the_books(rng: np.random.Generator) -> None:
    """Rows of which the label is no class do not count."""
    logits, target = rng.standard_normal((2, 2, 3)).astype(np.float32)
    net = Builder("net")
    net.add_input("x", FLOATS)
    squares = evaluate(mean_squared_error(net.finish([]), "x"), {"x": logits, "target": target})
    assert squares["loss"] == pytest.approx(np.mean((logits - target) ** 2))
    graph = cross_entropy(net.finish(["x"]), "x")
    assert graph.outputs == ("x", "loss")
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for labels, wanted in (([2, 0], -np.log(chances[[0, 1], [2, 0]]).mean()),
                           ([-1, 1], -np.log(chances[1, 1])), ([3, -1], 0)):
        found = evaluate(graph, {"x": logits, "labels": np.array(labels)})["loss"]
        assert found == pytest.approx(wanted)
    smooth = cross_entropy(net.finish(["x"]), "x", smoothing=0.3)
    wanted = -0.7 * np.log(chances[1, 2]) - 0.1 * np.log(chances[1]).sum()
    found = evaluate(smooth, {"x": logits, "labels": np.array([-1, 2])})["loss"]
    assert found == pytest.approx(wanted)


def test_the_front_door_takes_files() -> None:
    """A network in a file, whose weights are constants."""
    graph = cross_entropy("examples/digits/digits-float.onnx", "logits")
    made = lockstep.grad(graph, "loss", ["dense.bias", "conv1.weight"])
    assert made.outputs == ("loss", "dense.bias_gradient", "conv1.weight_gradient")
    assert [str(made.values[name]) for name in made.outputs] == [
        "float32[]", "float32[10]", "float32[16,1,3,3]"]
    assert graph_of(graph) is graph
