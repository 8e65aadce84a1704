"""SavedModels through tf2onnx: how it is called, and what is said where it is missing or fails."""

import os
import subprocess
import sys

import numpy as np
import pytest

from compiler.frontend import ImportRefused, saved_model
from compiler.frontend.models import graph_of
from compiler.graph.reference import evaluate

REAL = os.environ.get(saved_model.VARIABLE)

STANDS_IN = """#!{python}
import sys

import onnx
from onnx import TensorProto, helper

arguments = dict(zip(sys.argv[3::2], sys.argv[4::2]))
assert sys.argv[1:3] == ["-m", "tf2onnx.convert"], sys.argv
{failure}
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["unk__0", 3]) for name in "xy"]
nodes = [helper.make_node("{op}", ["x"], ["y"], "node")]
graph = helper.make_graph(nodes, "g", values[:1], values[1:])
model = helper.make_model(graph, ir_version=9, opset_imports=[
    helper.make_opsetid("", int(arguments["--opset"]))])
onnx.save(model, arguments["--output"])
"""


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "saved"
    place.mkdir()
    (place / "saved_model.pb").write_bytes(b"")
    return place


@pytest.fixture
def python(tmp_path, monkeypatch):
    """A program in the place of the Python that has TensorFlow."""
    def written(failure="", op="Relu"):
        path = tmp_path / "python"
        path.write_text(STANDS_IN.format(python=sys.executable, failure=failure,
                                         op=op))
        path.chmod(0o755)
        monkeypatch.setenv(saved_model.VARIABLE, str(path))
        return path
    return written


def refusal(path) -> str:
    with pytest.raises(ImportRefused) as refused:
        graph_of(path)
    return str(refused.value).replace(f"{path}: ", "", 1)


def test_tf2onnx_is_run_by_the_python_that_is_told(folder, python):
    python()
    for path in (folder, folder / "saved_model.pb"):
        graph = graph_of(path)
        assert graph.values["x"].shape == (1, 3)
    assert graph_of(folder, {"x.0": 4}).values["y"].shape == (4, 3)
    assert graph_of(folder, {"unk__0": 5}).values["y"].shape == (5, 3)
    assert graph_of(folder, arrays={"x": np.zeros((6, 3))}).values["y"].shape == (6, 3)


def test_what_onnx_lacks_is_written_with_what_it_has(folder, python):
    python(op="Erfc")
    x = np.array([[-1, 0, 2]], np.float32)
    given, = evaluate(graph_of(folder), {"x": x}).values()
    np.testing.assert_allclose(given, [[1.8427008, 1, 0.0046777]], rtol=1e-4)


def test_what_tf2onnx_says_is_told_in_one_line(folder, python):
    python("print('log', file=sys.stderr); raise ValueError('no such signature')")
    assert refusal(folder) == "tf2onnx cannot convert it: ValueError: no such signature"


def test_a_python_that_is_not_there(folder, monkeypatch):
    monkeypatch.setenv(saved_model.VARIABLE, "/none/python")
    assert refusal(folder).startswith("'/none/python' cannot be run: ")


def test_a_package_that_is_missing_is_named(folder, monkeypatch):
    monkeypatch.delenv(saved_model.VARIABLE, raising=False)
    monkeypatch.setattr(saved_model.importlib.util, "find_spec", lambda name: None)
    assert refusal(folder) == (
        "a SavedModel needs tensorflow, which is not installed; install lockstep-hw[tensorflow], "
        "here or elsewhere with LOCKSTEP_TENSORFLOW as that Python")


MADE = """
import sys
import numpy as np
import tensorflow as tf

weights = np.random.default_rng(0).normal(size=(3, 3, 2, 4)).astype(np.float32)

class Network(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 2], name="image")])
    def __call__(self, image):
        return {"out": tf.nn.relu(tf.nn.conv2d(image, weights, 2, "SAME"))}

network = Network()
tf.saved_model.save(network, sys.argv[1], {"serving_default": network.__call__})
x = np.random.default_rng(1).normal(size=(1, 8, 8, 2)).astype(np.float32)
np.savez(sys.argv[1] + "/io.npz", x=x, y=network(x)["out"].numpy())
"""


@pytest.mark.slow
@pytest.mark.skipif(not REAL, reason="needs LOCKSTEP_TENSORFLOW, a Python with tensorflow and "
                                     "tf2onnx")
def test_a_real_one(tmp_path):
    subprocess.run([str(REAL), "-c", MADE, str(tmp_path)], check=True, capture_output=True)
    graph = graph_of(tmp_path)
    with np.load(tmp_path / "io.npz") as told:
        given, = evaluate(graph, {graph.inputs[0]: told["x"]}).values()
        np.testing.assert_allclose(given, told["y"], atol=1e-5)

