"""`lockstep train`: what it writes and prints, the same bits when killed, and its refusals."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import lockstep
from lockstep.cli import main
from tests.support.training_models import model_of

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"

HOUSE = Path(__file__).parents[2]
BATCHES = '''
import os, signal
import numpy as np

def batches():
    rng = np.random.default_rng(3)
    for number in range(9):
        x = rng.standard_normal((4, 3)).astype(np.float32)
        if os.path.exists("kill") and number == 6:
            os.remove("kill")
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"x": x, "target": x @ np.array([[1], [2], [3]], np.float32)}

def failing():
    yield next(batches())
    raise KeyError("row 17")

def broken():
    yield next(batches())
    raise KeyError("row")

def nothing():
    return []
'''


@pytest.fixture
def place(tmp_path: Path, monkeypatch) -> Path:
    """A folder with a linear network of one row, rows of data, and a module of batches."""
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "dense")]
    onnx.save(model_of(nodes, (1, 3), {"w": np.zeros((3, 1), np.float32),
                                       "b": np.array([0, 0], np.float32)[:1]}),
              tmp_path / "line.onnx")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 3)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, target=x @ np.array([[1], [-2], [3]], np.float32))
    np.savez(tmp_path / "wrong.npz", x=x.astype(np.float64), target=x[:, :1])
    np.savez(tmp_path / "few.npz", x=x[:3], target=x[:3, :1])
    np.savez(tmp_path / "other.npz", x=x, labels=x)
    (tmp_path / "some_batches.py").write_text(BATCHES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "some_batches", raising=False)
    return tmp_path


COMMON = ["train", "line.onnx", "--loss", "mean_squared_error", "--batch", "4", "-o", "out.onnx"]
ROWS = [*COMMON, "--data", "d.npz"]
GENERATED = [*COMMON, "--data", "some_batches:batches", "--checkpoint", "c", "--every", "2"]


def weights(path: Path) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor)
            for tensor in onnx.load(path).graph.initializer}


def test_writes_network_figures_and_page(place: Path, capsys) -> None:
    status = main([*ROWS, "--epochs", "30", "--optimizer", "sgd", "--rate", "0.1", "--schedule",
                   "cosine", "--warm-up", "3", "--json", "r.json", "--page", "p.html"])
    printed = capsys.readouterr()
    assert (status, printed.err) == (0, "")
    assert re.search(r"^1 weights of 3 numbers; activations take [\d,]+ bytes\n"
                     r"loss [\d.]+ in the first step, [\d.e-]+ in the last 10 of 300\n"
                     r"out.onnx: sha256 [0-9a-f]{16}\n$", printed.out)
    found = weights(place / "out.onnx")
    np.testing.assert_allclose(found["w"].ravel(), [1, -2, 3], atol=1e-3)
    assert onnx.load(place / "out.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1
    figures = json.loads((place / "r.json").read_text())
    assert len(figures["losses"]) == len(figures["rates"]) == figures["steps"] == 300
    assert figures["rates"][:4] == pytest.approx([0.025, 0.05, 0.075, 0.1])
    assert figures["losses"][-1] < 1e-4 < figures["losses"][0]
    text = (place / "p.html").read_text()
    assert "Plotly.newPlot" in text and "<h1>Training of line.onnx</h1>" in text
    assert not re.search(r"<script[^>]+src=", text)


def test_killed_and_continued_it_gives_the_same_bits(place: Path, capsys) -> None:
    assert main(GENERATED) == 0
    undisturbed = (place / "out.onnx").read_bytes()
    for name in ("out.onnx", "c"):
        os.remove(place / name)
    (place / "kill").touch()
    killed = subprocess.run([sys.executable, "-m", "lockstep", *GENERATED], check=False,
                            env={**os.environ, "PYTHONPATH": str(HOUSE)})
    assert killed.returncode == -signal.SIGKILL and not (place / "out.onnx").exists()
    capsys.readouterr()
    assert main([*GENERATED, "--resume"]) == 0
    assert "in the last 9 of 9, continued from step 6" in capsys.readouterr().out
    assert (place / "out.onnx").read_bytes() == undisturbed


def test_a_network_is_trained_as_it_is_quantized(place: Path, capsys) -> None:
    """It is written so; from a checkpoint the same request gives the same file."""
    words = [*ROWS, "--quantize", "--activation-bits", "4", "--epochs", "4", "--rate", "0.05",
             "--checkpoint", "c", "--json", "r.json"]
    assert main([*words, "--steps", "12"]) == 0
    undisturbed = (place / "out.onnx").read_bytes()
    assert re.search(r"^5 weights of 7 numbers; .*\nloss .*\n1 of 1 layers are quantized\nout.onnx",
                     capsys.readouterr().out)
    figures = json.loads((place / "r.json").read_text())
    assert figures["quantize"] == {"activation_bits": 4}
    assert figures["losses"][-1] < figures["losses"][0] / 2
    quantized = lockstep.compile(place / "out.onnx", "accel:tiny-1x4x4")
    with np.load(place / "d.npz") as data:
        x, target = data["x"], data["target"]
    apart = [quantized({"x": row[None]})["y"] - wanted
             for row, wanted in zip(x, target, strict=True)]
    assert np.mean(np.square(apart)) < figures["losses"][0] / 2 and len(quantized.accelerated) == 1
    os.remove(place / "out.onnx")
    assert main([*words, "--steps", "12", "--resume"]) == 0
    assert (place / "out.onnx").read_bytes() == undisturbed
    capsys.readouterr()
    assert main([*words, "--calibrate", "8", "--steps", "12", "--resume"]) == 2
    assert capsys.readouterr().err == (
        "lockstep: error: 'c' is of a training with quantize 256 rows, {'activation_bits': 4}, not "
        "8 rows, {'activation_bits': 4}\n")


def test_ranges_are_of_as_many_rows_as_the_network_takes_at_a_time(place: Path, capsys) -> None:
    """A batch of training may be another; rows that remain are left out."""
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "dense")]
    onnx.save(model_of(nodes, (3, 3), {"w": np.ones((3, 1), np.float32),
                                       "b": np.zeros(1, np.float32)}), place / "line.onnx")
    assert main([*ROWS, "--quantize"]) == 0
    assert main([*ROWS, "--quantize", "--calibrate", "4"]) == 0
    assert "1 of 1 layers are quantized" in capsys.readouterr().out
    os.remove(place / "out.onnx")
    assert main([*ROWS, "--quantize", "--calibrate", "2"]) == 2
    assert capsys.readouterr().err == (
        "lockstep: error: --calibrate must be at least the 3 rows that 'line.onnx' takes at a "
        "time, not 2\n")
    assert not (place / "out.onnx").exists()


def test_data_that_fail_are_one_line(place: Path, capsys) -> None:
    words = ["some_batches:failing" if word == "some_batches:batches" else word
             for word in GENERATED]
    assert main([*words, "--every", "1"]) == 2
    assert capsys.readouterr().err == (
        "lockstep: error: the data failed in batch 2: KeyError: 'row 17'; 'c' has the training "
        "after 1 steps\n")
    assert not (place / "out.onnx").exists()


@pytest.mark.parametrize(("words", "message"), [
    (["--data", "wrong.npz"], "--data 'wrong.npz': x must be float32 of shape (rows, 3), not "
                              "float64 of shape (40, 3)"),
    (["--data", "other.npz"], "--data 'other.npz' must have the arrays x, target, not x, labels"),
    (["--data", "few.npz"], "--data 'few.npz' must have as many rows in each array, at least the 4 "
                            "of a batch, not {'x': 3, 'target': 3}"),
    (["--data", "line.onnx"], "--data 'line.onnx' cannot be read as .npz: "),
    (["--data", "no_such:f"], "--data no_such:f: the module 'no_such' cannot be imported: "
                              "ModuleNotFoundError: No module named 'no_such'"),
    (["--data", "some_batches:f"], "--data some_batches:f: the module 'some_batches' must have a "
                                   "function 'f'"),
    (["--data", "some_batches:nothing"], "--data some_batches:nothing must have a batch, and has "
                                         "none"),
    (["--data", "some_batches:batches", "--schedule", "cosine"],
     "--schedule cosine needs --steps N where a function gives the data"),
    (["--data", "d.npz", "--steps", "11"], "--steps 11 must be at most the 10 of --epochs 1"),
    (["--data", "d.npz", "--resume"], "--resume needs --checkpoint FILE, from which to continue"),
    (["--data", "d.npz", "--resume", "--checkpoint", "none"],
     "--resume needs the checkpoint 'none', which is not there; leave --resume out to begin"),
    (["--data", "d.npz", "--checkpoint", "some_batches.py"],
     "--checkpoint 'some_batches.py' is there already; give --resume to continue, or remove it to "
     "begin anew"),
    (["--data", "d.npz", "--of", "z"], "line: of must be a value of the network, not 'z'; its "
                                       "outputs are y"),
    (["--data", "d.npz", "--optimizer", "sgd", "--momentum", "1"],
     "Sgd: momentum must be a number of at least 0, below 1, not 1.0"),
    (["--data", "d.npz", "--memory", "1B"], "memory must be at least the "),
    (["--data", "d.npz", "--memory", "much"],
     "argument --memory: must be bytes above 0, such as 200MB, not 'much' (see lockstep train "),
    (["--data", "d.npz", "--observer", "mse"], "--observer needs --quantize"),
    (["--data", "d.npz", "--quantize", "--activation-bits", "16"],
     "line.onnx: a network with activations of 16 bits cannot be trained"),
    (["--data", "d.npz", "--calibrate", "256"], "--calibrate needs --quantize"),
    (["--data", "d.npz", "--quantize", "--freeze", "*"],
     "line.onnx: it must have constants that are learned, and has none that are not frozen"),
    (["--data", "d.npz", "--quantize", "--freeze", "v"], "line.onnx: freeze must name parameters"),
    (["--data", "some_batches:nothing", "--quantize"], "--data some_batches:nothing must have a "
                                                       "batch, and has none"),
    (["--data", "some_batches:broken", "--quantize"],
     "the data failed in batch 2: KeyError: 'row'"),
    (["--data", "d.npz", "--schedule", "step"], "every must be at least 1 step, not 0"),
])
def test_wrong_requests_are_one_line(place: Path, capsys, words: list[str], message: str) -> None:
    assert main([*COMMON, *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith(f"lockstep: error: {message}")
    assert printed.err.count("\n") == 1 and not (place / "out.onnx").exists()


@pytest.mark.parametrize("words", [[], ["--quantize"]])
def test_a_network_that_is_quantized_already_is_refused(place: Path, capsys, words: list[str]
                                                        ) -> None:
    shutil.copy(DIGITS, place)
    assert main(["train", "digits-int8.onnx", "--data", "d.npz", "-o", "out.onnx", *words]) == 2
    assert capsys.readouterr().err == (
        "lockstep: error: 'digits-int8.onnx' is quantized already, and integers are not learned; "
        "give the network in float, with --quantize\n")
