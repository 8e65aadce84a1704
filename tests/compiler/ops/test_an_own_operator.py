"""An operator that is one record and one front-end function is imported, typed, folded, fused, run,
cleaned up, laid out and documented, quantized and run on the accelerator: nothing else in the
compiler has its name.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lockstep
from compiler import te
from compiler.frontend import convert
from compiler.frontend.onnx.nodes import registry as frontend
from compiler.graph import Graph, evaluate, optimize
from compiler.graph.division.channels_last import is_indifferent
from compiler.graph.fusion import fuse
from compiler.ops import registry
from compiler.ops.families import activations
from compiler.ops.families.elementwise import unary
from compiler.ops.records.operator import Algebra, Kind, Operator
from tests.support.operators_page import page

SQUAREPLUS = Operator(
    name="squareplus", summary="(x + sqrt(x * x + b)) / 2", inputs="x", attributes="b: above 0",
    define=unary(lambda attrs, x: (te.sqrt(x * x + attrs["b"]) + x) * 0.5),
    meaning=lambda attrs, x: (np.sqrt(x * x + np.float32(attrs["b"])) + x) * np.float32(0.5),
    kind=Kind.ELEMENTWISE, algebra=Algebra(never_minus_zero=True))


@pytest.fixture(autouse=True)
def squareplus(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a contributor writes: the record above in its family, and the function below."""
    monkeypatch.setattr(activations, "OPERATORS", (*activations.OPERATORS, SQUAREPLUS))
    for name, operator in registry.collected(registry.FAMILIES).items():
        monkeypatch.setitem(registry.OPERATORS, name, operator)
    monkeypatch.setitem(frontend.OPERATORS, ("own", "Squareplus"), [])

    @frontend.operator("Squareplus", domain="own")
    def squareplus(t, x, *, b=4.0):
        return t.emit("squareplus", x, b=b)


def model() -> onnx.ModelProto:
    """conv(x, w + squareplus(of a constant)), then squareplus, then + 0."""
    rng = np.random.default_rng(3)
    constants = {"w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
                 "raw": rng.normal(size=(4,)).astype(np.float32), "zero": np.zeros(1, np.float32)}
    nodes = [helper.make_node("Squareplus", ["raw"], ["bias"], "folded", domain="own"),
             helper.make_node("Conv", ["x", "w", "bias"], ["c"], "conv"),
             helper.make_node("Squareplus", ["c"], ["s"], "own", domain="own", b=2.0),
             helper.make_node("Add", ["s", "zero"], ["y"], "nothing")]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (("x", (1, 3, 6, 6)), ("y", (1, 4, 4, 4)))]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], [
        numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("own", 1)])


@pytest.fixture
def graph() -> Graph:
    return optimize(convert(model(), "m"))


def test_it_is_imported_and_typed() -> None:
    graph = convert(model(), "m")
    node = graph.node("own")
    assert (node.op, node.attrs["b"]) == ("squareplus", 2.0)
    assert str(graph.values[node.outputs[0]]) == "float32[1,4,4,4]"


def test_it_is_folded_and_what_its_record_promises_is_used(graph: Graph) -> None:
    """It is folded on constants; + 0 after it changes nothing, since it is never -0."""
    assert [node.op for node in graph.nodes] == ["conv2d", "squareplus"]
    raw = next(numpy_helper.to_array(one) for one in model().graph.initializer if one.name == "raw")
    bias = graph.constants[graph.nodes[0].inputs[2]]
    np.testing.assert_array_equal(bias, SQUAREPLUS.meaning({"b": 4.0}, raw))


def test_it_is_fused_and_may_have_channels_last(graph: Graph) -> None:
    assert [group.name for group in fuse(graph).groups] == ["conv2d+squareplus"]
    assert is_indifferent(graph, graph.nodes[1])


def test_it_runs(graph: Graph, rng: np.random.Generator) -> None:
    x = rng.normal(size=(1, 3, 6, 6)).astype(np.float32)
    module = lockstep.compile(model(), target="cpu", cache=False)
    wanted = evaluate(graph, {"x": x})["y"]
    np.testing.assert_allclose(module({"x": x})["y"], wanted, rtol=1e-5, atol=1e-5)


def test_it_runs_on_the_accelerator(rng: np.random.Generator) -> None:
    """Quantized, it is a table: before a layer that reads it, or it would stay in float."""
    made = model()
    made.graph.node[3].CopyFrom(helper.make_node("Conv", ["s", "v"], ["y"], "last"))
    made.graph.initializer.append(numpy_helper.from_array(
        rng.normal(size=(4, 4, 1, 1)).astype(np.float32), "v"))
    x = rng.normal(size=(4, 3, 6, 6)).astype(np.float32)
    module = lockstep.compile(made, target="accel:tiny-1x4x4,cpu", calibration=x, cache=False)
    assert [node.op for step in module.steps if step.segment.target == "accel"
            for node in step.segment.nodes] == ["qconv2d", "qtable", "qconv2d"]
    wanted = evaluate(optimize(convert(made, "m")), {"x": x[:1]})["y"]
    np.testing.assert_allclose(module({"x": x[:1]})["y"], wanted, atol=0.05 * np.ptp(wanted))


def test_it_is_documented() -> None:
    assert "- **`squareplus`** (elementwise" in page()
    assert r"(x + sqrt(x \* x + b)) / 2. Inputs: x. Attributes: b: above 0." in " ".join(
        page().split())
