"""Inputs that are bound on import, and dimensions by name, place, or what arrays have."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.frontend import ImportRefused
from compiler.frontend.models import graph_of
from compiler.graph.reference import evaluate


def info(name: str, *shape: int | str | None, code: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, code, shape)


def branched(condition: str = "Equal") -> onnx.ModelProto:
    """x + 1 where rate is 16000, else x - 1."""
    def branch(op: str):
        return helper.make_graph([helper.make_node(op, ["x", "one"], [op])], op, [],
                                 [helper.make_tensor_value_info(op, TensorProto.FLOAT, None)])
    nodes = [helper.make_node(condition, ["rate", "usual"], ["c"]),
             helper.make_node("If", ["c"], ["y"], then_branch=branch("Add"),
                              else_branch=branch("Sub"))]
    constants = [onnx.numpy_helper.from_array(np.array(array, dtype), name) for name, array, dtype
                 in (("one", 1, np.float32), ("usual", 16000, np.int64))]
    inputs = [info("x", "n", 2), info("rate", code=TensorProto.INT64)]
    graph = helper.make_graph(nodes, "g", inputs, [info("y", "n", 2)], constants)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])


def open_model(*dims: int | str | None) -> onnx.ModelProto:
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [info("x", *dims)],
                              [info("y", *dims)])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(("rate", "added"), [(16000, 1), (8000, -1), (np.array(16000), 1)])
def test_a_branch_is_chosen_by_a_bound_input(rate, added) -> None:
    model = branched()
    graph = graph_of(model, {"n": 3}, bind={"rate": rate})
    assert graph.inputs == ("x",)
    assert len(model.graph.input) == 2                          # the model stays as it is
    x = np.ones((3, 2), np.float32)
    assert evaluate(graph, {"x": x})["y"].tolist() == (x + added).tolist()


def test_a_graph_is_bound_too() -> None:
    graph = graph_of(graph_of(branched(), {"n": 1}, bind={"rate": 1}), bind={"x": [[3, 4]]})
    assert graph.inputs == () and graph.constants["y"].tolist() == [[2, 3]]


def test_a_number_fills_an_input() -> None:
    graph = graph_of(open_model("n", 3), {"n": 2}, bind={"x": 7})
    assert evaluate(graph, {})["y"].tolist() == [[7] * 3] * 2


@pytest.mark.parametrize(("dims", "shapes"), [
    (("?", "?", "?"), {"x.0": 2, "x.1": 3, "x.2": 48}),
    ((None, None, 48), {"x.0": 2, "x.1": 3}),
    (("n", "n", "n"), {"n": 2, "x.1": 3, "x.2": 48}),
    (("n", "m", 48), {"x.0": 2, "x.1": 3})])
def test_every_open_dimension_can_be_set_by_its_place(dims, shapes) -> None:
    assert graph_of(open_model(*dims), shapes).values["y"].shape == (2, 3, 48)


def test_an_extent_below_zero_is_open_and_one_of_zero_is_not() -> None:
    below = open_model(-1, 3, 48)
    assert graph_of(below, {"x.0": 2}).values["y"].shape == (2, 3, 48)
    with pytest.raises(ImportRefused, match="shape must hold integers of at least 1, not "
                                            r"\(0, 3, 48\)"):
        graph_of(open_model(0, 3, 48))


@pytest.mark.parametrize("dims", [("?", "?", "?"), (None, None, 48), ("n", "m", "k")])
def test_arrays_tell_open_dimensions(dims) -> None:
    arrays = {"x": np.zeros((2, 3, 48), np.float32)}
    assert graph_of(open_model(*dims), arrays=arrays).values["y"].shape == (2, 3, 48)
    assert graph_of(open_model(*dims), {"x.0": 5}, arrays=arrays).values["y"].shape == (5, 3, 48)


@pytest.mark.parametrize(("bind", "message"), [
    ({"r": 1}, "model: --bind r=VALUE names no input; the inputs are: x, rate"),
    ({"rate": [1, 2]}, "model: --bind rate must have the input's shape [], not [2]"),
    ({"rate": 1.5}, "model: --bind rate must be numbers of type int64, not 1.5"),
    ({"rate": "fast"}, "model: --bind rate must be numbers of type int64, not 'fast'"),
    ({"rate": 1, "x": 2.0}, "model: --bind x must have the input's shape [n,2], not []"),
    ({"rate": 1, "x": [[1, 2, 3]]}, "model: --bind x must have the input's shape [n,2], not [1,3]"),
])
def test_binding_wrong(bind, message) -> None:
    with pytest.raises(ImportRefused) as refused:
        graph_of(branched(), {"n": 1} if "x" not in bind else None, bind=bind)
    assert str(refused.value) == message


def test_open_dimensions_wrong() -> None:
    with pytest.raises(ImportRefused) as refused:
        graph_of(open_model("?", "?", 3), {"x.0": 1})
    assert str(refused.value) == ("model: no value for dimension 'x.1' of input 'x'; bind each "
                                  "with --shape NAME=N, for example --shape x.1=1")
