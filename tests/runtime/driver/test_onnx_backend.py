"""ONNX's backend interface: what is bound, what is staged, what is refused."""

import importlib
import pkgutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.networks import onnx_nodes
from bench.scoreboard import read_table
from compiler.frontend import ImportRefused
from runtime.driver import onnx_backend

COUNT = 40


def model(nodes, inputs, outputs, opset: int = 21, constants=()) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(constants))
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset)])


def info(name: str, *shape, dtype: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def array(*values, dtype: str = "float32") -> np.ndarray:
    return np.array(values, dtype)


def test_a_sample_of_the_node_tests(monkeypatch) -> None:
    """Makes the cases of every third file of onnx's alone: all of them take seconds."""
    def some(package) -> None:
        for found in [*pkgutil.iter_modules(package.__path__)][::3]:
            importlib.import_module(f"{package.__name__}.{found.name}")

    monkeypatch.setattr("onnx.backend.test.loader.import_recursive", some)
    outcomes = onnx_nodes.run(onnx_nodes.sample(onnx_nodes.cases(), COUNT))
    assert len(outcomes) == COUNT
    assert {one.name: one.reason for one in outcomes if not one.passed} == {}


@pytest.mark.slow
def test_all_node_tests() -> None:
    """The counts do not fall below their floors, and the page says what does not pass, and why."""
    cases, floors = onnx_nodes.cases(), {one.name: one.floor for one in read_table()}
    outcomes, alone = (onnx_nodes.run(cases, without_data=without) for without in (False, True))
    for name, each in (("onnx_node_tests", outcomes), ("onnx_node_tests_without_data", alone)):
        floor = floors[name]
        assert floor is not None and sum(one.passed for one in each) >= floor
    text = onnx_nodes.PAGE.read_text()
    assert text == onnx_nodes.page(outcomes, alone, text), (
        "docs/onnx.md must be made again: python -m bench networks.onnx_nodes --only write")


def test_code_is_made_once_for_types() -> None:
    prepared = onnx_backend.prepare(model(
        [helper.make_node("Exp", ["x"], ["y"])], [info("x", "N")], [info("y", "N")]))
    for values, count in ((array(1), 1), (array(2), 1), (array(1, 2), 2)):
        np.testing.assert_allclose(prepared.run([values])[0], np.exp(values), 1e-6)
        assert len(prepared._made) == count


def test_an_input_that_decides_a_shape_is_bound() -> None:
    prepared = onnx_backend.prepare(model(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        [info("x", 6), info("s", 2, dtype=TensorProto.INT64)], [info("y", None, None)]))
    x = np.arange(6, dtype=np.float32)
    for shape, count in (((2, 3), 1), ((3, 2), 2), ((2, 3), 2)):
        found, = prepared.run({"x": x, "s": np.array(shape)})
        assert found.tolist() == x.reshape(shape).tolist()
        assert len(prepared._made) == count


def test_computed_elements_that_decide_are_staged() -> None:
    """A loop that doubles until the sum is large enough: no two runs need be alike."""
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["w"]),
         helper.make_node("ReduceSum", ["w"], ["total"], keepdims=0),
         helper.make_node("Less", ["total", "limit"], ["again"])],
        "body", [info("i", dtype=TensorProto.INT64), info("c", dtype=TensorProto.BOOL),
                 info("v", 2)],
        [info("again", dtype=TensorProto.BOOL), info("w", 2)])
    prepared = onnx_backend.prepare(model(
        [helper.make_node("Loop", ["", "", "x"], ["y"], body=body)], [info("x", 2)],
        [info("y", 2)], constants=[numpy_helper.from_array(np.array(100, np.float32), "limit")]))
    assert prepared.run([array(1, 2)])[0].tolist() == [64, 128]
    assert prepared.run([array(60, 0)])[0].tolist() == [120, 0]
    assert prepared._made == []


def test_functions_of_the_model() -> None:
    square = helper.make_function(
        "own", "Power", ["a"], ["b"],
        [helper.make_node("Constant", [], ["n"]), helper.make_node("Pow", ["a", "n"], ["b"])],
        [helper.make_opsetid("", 21)], ["exponent"])
    square.node[0].attribute.add(name="value_float", type=onnx.AttributeProto.FLOAT,
                                 ref_attr_name="exponent")
    made = model([helper.make_node("Power", ["x"], ["y"], domain="own", exponent=2.5)],
                 [info("x", 2)], [info("y", 2)])
    made.functions.append(square)
    made.opset_import.append(helper.make_opsetid("own", 1))
    np.testing.assert_allclose(onnx_backend.run_model(made, [array(4, 9)])[0], [32, 243], 1e-6)


def test_sequences_and_optionals_are_lists_and_none() -> None:
    type_ = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    sequence = helper.make_value_info("s", type_)
    nodes = [helper.make_node("Neg", ["x"], ["n"]),
             helper.make_node("SequenceInsert", ["s", "n"], ["t"])]
    prepared = onnx_backend.prepare(model(nodes, [sequence, info("x", 1)],
                                          [helper.make_value_info("t", type_)]))
    for given in ([array(1), array(2, 3)], []):
        found, = prepared.run([given, array(5)])
        assert [one.tolist() for one in found] == [*(one.tolist() for one in given), [-5]]


def test_results_are_not_those_of_the_reference() -> None:
    """Nothing in the compiler imports ONNX's own evaluator."""
    found = subprocess.run([sys.executable, "-c", "import sys, runtime.driver.onnx_backend; "
                            "print('onnx.reference' in sys.modules)"], capture_output=True,
                           text=True, check=True)
    assert found.stdout == "False\n"


def test_random_numbers_come_from_their_seed() -> None:
    node = helper.make_node("RandomNormal", [], ["y"], shape=[1000], mean=2.0, scale=3.0, seed=7.0)
    made = model([node], [], [info("y", 1000)])
    first, second = (onnx_backend.run_model(made, [])[0] for _ in range(2))
    assert first.tolist() == second.tolist()
    assert abs(first.mean() - 2) < 0.3 and abs(first.std() - 3) < 0.3


def test_refusals() -> None:
    made = model([helper.make_node("Mystery", ["x"], ["y"])], [info("x", 1)], [info("y", 1)])
    with pytest.raises(ImportRefused) as refused:
        onnx_backend.prepare(made).run([array(1)])
    assert str(refused.value) == "g: cannot run Mystery_0 (Mystery): operator is not supported"
    with pytest.raises(ImportRefused, match="^device must be CPU, CUDA or OPENCL, not TPU$"):
        onnx_backend.prepare(made, "TPU")
    with pytest.raises(ImportRefused, match="^inputs must be 1, not 2$"):
        onnx_backend.prepare(made).run([array(1), array(1)])
    assert not onnx_backend.supports_device("OPENCL:no such platform")
    assert not onnx_backend.supports_device("TPU:0")


@pytest.mark.parametrize("device", [
    "CPU", "OPENCL", pytest.param("CUDA:EMULATED", marks=pytest.mark.slow)])
def test_devices(device: str) -> None:
    """`LogSoftmax` in float32, and what OpenCL leaves to the processor, a sum of float16."""
    assert onnx_backend.supports_device(device)
    for dtype, op in (("float32", "LogSoftmax"), ("float16", "ReduceSum")):
        made = _one(op, dtype)
        x = np.arange(6, dtype=dtype).reshape(2, 3)
        found, = onnx_backend.prepare(made, device).run([x])
        wanted = x.sum(keepdims=True) if op == "ReduceSum" else x - np.log(
            np.exp(x).sum(1, keepdims=True))
        np.testing.assert_allclose(found, wanted, 1e-5)


def _one(op: str, dtype: str) -> onnx.ModelProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = (helper.make_tensor_value_info(name, kind, None) for name in "xy")
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"])], "one", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
