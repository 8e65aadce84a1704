"""`lockstep run` on files whose inputs decide about shapes, or have no elements."""

import numpy as np
import onnx
import pytest

from lockstep.cli import main

TEXT = """<ir_version: 8, opset_import: ["" : 18]>
g (float[2,3] x, float[2,0] e, int64[2] n) => (float[3,2] y) {
  a = Concat <axis = 1> (x, e)
  y = Reshape (a, n) }"""


@pytest.fixture
def folder(tmp_path):
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=np.arange(6, dtype=np.float32).reshape(2, 3),
             e=np.zeros((2, 0), np.float32), n=np.array([3, 2]))
    return tmp_path


def test_an_array_without_elements_says_nothing(folder, capsys) -> None:
    """The network has no such input; what is taken for granted of the shape is told."""
    arguments = ["run", str(folder / "net.onnx"), "--target", "cpu", "--input",
                 str(folder / "x.npz"), "--output", str(folder / "y.npz")]
    assert main(arguments) == 0
    with np.load(folder / "y.npz") as outputs:
        assert outputs["y"].tolist() == [[0, 1], [2, 3], [4, 5]]
    told = " ".join(capsys.readouterr().out.split())
    assert "Reshape_1: its result has the declared shape [3, 2], whatever 'n' (shape) holds" in told


def test_an_array_with_elements_must_be_an_input(folder, capsys) -> None:
    np.savez(folder / "x.npz", x=np.zeros((2, 3), np.float32), n=np.array([3, 2]),
             z=np.ones(1, np.float32))
    assert main(["run", str(folder / "net.onnx"), "--target", "cpu", "--input",
                 str(folder / "x.npz")]) == 2
    assert "Input must be one of x, n, not 'z'" in capsys.readouterr().err
