"""An instruction that stands for operators of a float network: declared here, used by commands."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lockstep
from compiler.quantize import Quantized
from lockstep.cli import main

OWN = """
import lockstep
from accel.machine.config import preset
from accel.machine.intrinsics import SHIPPED, instructions, vector_op
from accel.machine.machine import Machine
from compiler import te
from compiler.ops.integers.fixed_point import add_multipliers

STORED = "int8"
LEAST, MOST = (-128, 127) if STORED == "int8" else (-32768, 32767)


def magnitude(a, b, ma, mb, s, zp, lo, hi):
    '''The greater magnitude and half the other one, of unequal scales and zero points.'''
    left = te.abs(a - lo.astype("int32")).astype("int64") * ma.astype("int64")
    right = te.abs(b - hi.astype("int32")).astype("int64") * mb.astype("int64")
    total = te.maximum(left, right) + (te.minimum(left, right) >> 1)
    steps = te.rshift_rne(total, (s & 63).astype("int64")) + zp.astype("int64")
    return te.clamp(steps, LEAST, MOST).astype("int32")


def immediates(x, y, out):
    ma, mb, s = add_multipliers(x.scale / out.scale, y.scale / out.scale)
    return {"ma": ma, "mb": mb, "s": s, "zp": out.zp, "lo": x.zp, "hi": y.zp}


own = vector_op("magnitude", magnitude, a=("res",), b=("res",), stored=STORED,
                matches=lambda x, y: te.sqrt(x * x + y * y), immediates=immediates)
others = SHIPPED if STORED == "int8" else instructions(STORED, "int8", STORED)
machine = Machine(preset("tiny-1x4x4"), (*others, own))
"""


def network() -> onnx.ModelProto:
    """Two convolutions, the root of the sum of their squares, and a convolution."""
    rng = np.random.default_rng(8)
    shapes = {"left": (6, 3, 3, 3), "right": (6, 3, 3, 3), "last": (5, 6, 1, 1)}
    constants = [numpy_helper.from_array(
        (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32), name)
        for name, shape in shapes.items()]
    constants.append(numpy_helper.from_array(np.full(6, 0.3, np.float32), "bias"))
    nodes = [helper.make_node("Conv", ["x", "left"], ["a"], "a"),
             helper.make_node("Conv", ["x", "right", "bias"], ["b"], "b"),
             helper.make_node("Mul", ["a", "a"], ["aa"], "aa"),
             helper.make_node("Mul", ["b", "b"], ["bb"], "bb"),
             helper.make_node("Add", ["bb", "aa"], ["sum"], "sum"),
             helper.make_node("Sqrt", ["sum"], ["length"], "length"),
             helper.make_node("Conv", ["length", "last"], ["y"], "y")]
    typed = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in (("x", (1, 3, 9, 9)), ("y", (1, 5, 7, 7)))]
    graph = helper.make_graph(nodes, "lengths", typed[:1], typed[1:], constants)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN)
    onnx.save(network(), "net.onnx")
    x = np.random.default_rng(9).normal(size=(8, 3, 9, 9)).astype(np.float32)
    np.savez("samples.npz", x=x)
    np.savez("x.npz", x=x[:1])


def quantized(*options: str) -> dict:
    assert main(["quantize", "net.onnx", "--calibration", "samples.npz", "-o", "q.onnx", "--json",
                 "q.json", *options]) == 0
    return json.loads(Path("q.json").read_text())


def run(*options: str) -> dict:
    assert main(["run", "q.onnx", "--input", "x.npz", "--json", "r.json", "--no-cache",
                 *options]) == 0
    return json.loads(Path("r.json").read_text())


def hash_of(figures: dict) -> str:
    return figures["outputs"][0]["sha256"]


@pytest.mark.parametrize("stored", [
    pytest.param("int8", marks=pytest.mark.slow), "int16"])
def test_a_network_uses_it_on_every_device(stored: str, capsys) -> None:
    Path("mine.py").write_text(OWN.replace('"int8"\nLEAST', f'"{stored}"\nLEAST'))
    figures = quantized("--machine", "mine.py")
    (layer,) = (layer for layer in figures["layers"] if layer["by"])
    assert (layer["name"], layer["by"], layer["quantized"]) == ("length", "magnitude", True)
    assert figures["activation_bits"] == int(stored[3:]) and figures["machine"] == "mine.py"
    off = layer["steps_off"]
    assert 20 < off < 40 if stored == "int8" else 2000 < off < 5000
    printed = capsys.readouterr().out
    assert f"1 of 4 layers by magnitude: at most {off} steps from what it matches" in printed
    accelerator = ["--target", "accel,cpu", "--machine", "mine.py", "--sim"]
    told = [run(*accelerator, "functional"), run(*accelerator, "cycle"), run("--target", "cpu")]
    assert len({hash_of(one) for one in told}) == 1
    assert [one["operators"] for one in told[0]["segments"] if one["device"] == "accel"] == [
        ["qconv2d", "qconv2d", "qmap", "qconv2d"]]
    assert any(note.startswith("length (qmap): by magnitude on the accelerator; without: ")
               for note in told[0]["notes"])


def test_commands_tell_what_it_stands_for(capsys) -> None:
    Path("mine.py").write_text(OWN.replace("=immediates)", "=immediates, tolerance=1e-6)"))
    assert main(["intrinsic", "show", "magnitude", "--machine", "mine.py"]) == 0
    assert "stands for sqrt(x * x + y * y) in float networks, up to 1e-06" in (
        capsys.readouterr().out)
    quantized("--machine", "mine.py", "--report", "q.html")
    assert "by magnitude, steps off: " in Path("q.html").read_text()


@pytest.mark.slow
def test_it_runs_in_rtl() -> None:
    quantized("--machine", "mine.py")
    accelerator = ["--target", "accel,cpu", "--machine", "mine.py", "--sim"]
    assert hash_of(run(*accelerator, "verilator")) == hash_of(run(*accelerator, "functional"))


def test_without_the_machine_nothing_is_replaced(capsys) -> None:
    figures = quantized()
    assert figures["machine"] is None and not any(layer["by"] for layer in figures["layers"])
    assert not any(node.domain for node in onnx.load("q.onnx").graph.node)


def test_in_python_and_in_one_step() -> None:
    x = np.load("samples.npz")["x"]
    made = lockstep.quantize("net.onnx", x, machine="mine.py")
    assert isinstance(made, Quantized)
    assert [layer.by for layer in made.layers] == ["", "", "magnitude", ""]
    module = lockstep.compile(made.graph, "accel,cpu", machine="mine.py", cache=False)
    whole = lockstep.compile("net.onnx", "accel,cpu", machine="mine.py", calibration=x,
                             cache=False)
    np.testing.assert_array_equal(module({"x": x[:1]})["y"], whole({"x": x[:1]})["y"])
    plain = lockstep.compile("net.onnx", "accel,cpu", calibration=x, cache=False)
    assert (plain({"x": x[:1]})["y"] != whole({"x": x[:1]})["y"]).any()


@pytest.mark.parametrize(("options", "message"), [
    (["--machine", "none.py"], "Machine none.py cannot be read: No such file or directory"),
    (["--machine", "mine.py", "--activation-bits", "16"],
     "activation bits must be 8 or 4 or 2 for machine tiny-1x4x4, whose instructions store int8, "
     "not 16"),
    (["--machine", "mine.py", "--sparsity", "2:4"],
     "sparsity must be none for machine tiny-1x4x4, which multiplies zeros like other weights, "
     "not 2:4")])
def test_refusals(options: list[str], message: str, capsys) -> None:
    assert main(["quantize", "net.onnx", "--calibration", "samples.npz", "-o", "q.onnx",
                 *options]) == 2
    assert capsys.readouterr().err == f"lockstep: error: {message}\n"


def test_scales_that_it_does_not_take_leave_an_ordinary_function(capsys) -> None:
    Path("mine.py").write_text(OWN.replace(
        "    ma, mb, s =", "    raise ValueError('not today')\n    ma, mb, s ="))
    figures = quantized("--machine", "mine.py")
    (layer,) = (layer for layer in figures["layers"] if layer["declined"])
    assert layer["declined"] == "magnitude is not used: not today"
    assert figures["unused"] == {"magnitude": "at length (sqrt) not today"}
    told = run("--target", "accel,cpu", "--machine", "mine.py", "--no-values")
    (row,) = (row for row in told["instructions"] if row["name"] == "magnitude")
    assert (row["executed"], row["reason"]) == (0, "at length (sqrt) not today")
    assert [note for note in told["notes"] if "today" in note] == [
        f"never executed: magnitude ({row['luts']:,} LUTs for nothing, estimated): "
        f"at length (sqrt) not today"]
    printed = " ".join(capsys.readouterr().out.split())
    assert "without the machine's instruction: length (magnitude is not used: not today)" in printed
