"""`lockstep quantize`: what it writes and prints, and one line for every wrong request."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from accel.machine.config import preset
from examples.digits.data import held_out
from lockstep.cli import main
from tests.support.grouped_layers import network

FLOAT = Path(__file__).parents[2] / "examples" / "digits" / "digits-float.onnx"
INT8 = FLOAT.with_name("digits-int8.onnx")


@pytest.fixture
def samples(tmp_path) -> Path:
    path = tmp_path / "x.npz"
    np.savez(path, image=held_out()[0][:8])
    return path


def test_writes_model_figures_and_page(tmp_path, samples, capsys) -> None:
    out, figures_file, page = (tmp_path / name for name in ("q.onnx", "r.json", "r.html"))
    status = main(["quantize", str(FLOAT), "--calibration", str(samples), "--observer", "mse",
                   "--equalize", "--bias-correction", "--keep-float", "conv3", "--json",
                   str(figures_file), "--report", str(page), "-o", str(out)])
    printed = capsys.readouterr()
    assert (status, printed.err) == (0, "")
    onnx.checker.check_model(str(out), full_check=True)
    figures = json.loads(figures_file.read_text())
    layers = {layer["name"]: layer for layer in figures["layers"]}
    assert not layers["conv3"]["quantized"] and layers["conv3"]["alone_db"] is None
    assert layers["conv1"]["alone_db"] > 30 and figures["samples"] == 8
    assert figures["sqnr_db"] == layers["dense"]["accumulated_db"] > 25
    assert f"{figures['sqnr_db']:.1f} dB, 100.00% of the largest outputs" in printed.out
    assert "in float: conv3 (kept in float on request)" in printed.out
    assert "9 of 10 layers in int8, observer mse, 8 samples, no random numbers" in printed.out
    text = page.read_text()
    assert "Plotly.newPlot" in text and 'name="viewport"' in text
    assert re.search(r"<td[^>]*>conv3</td><td>-</td><td>[-\d.]+</td><td[^>]*>float</td>"
                     r"<td[^>]*>conv2d</td><td[^>]*>kept in float on request</td>", text)
    assert not re.search(r"<script[^>]+src=", text)


@pytest.mark.slow
def test_weights_of_few_bits(tmp_path, samples, capsys) -> None:
    """The file compiles to packed weights, and so does the float network with the same options."""
    out, figures_file = tmp_path / "q.onnx", tmp_path / "r.json"
    options = ["--calibration", str(samples), "--weight-bits", "4", "--weight-bits", "conv3=2"]
    status = main(["quantize", str(FLOAT), *options, "--json", str(figures_file), "-o", str(out)])
    printed = capsys.readouterr().out
    assert status == 0
    figures = json.loads(figures_file.read_text())
    assert figures["weight_bits"] == ["4", "conv3=2"]
    bits = {layer["name"]: layer["weight_bits"] for layer in figures["layers"]}
    assert [bits[name] for name in ("conv1", "conv2", "conv3", "dense")] == [8, 4, 2, 8]
    assert "4 of 10 layers with weights of fewer than 8 bits" in printed
    assert re.search(r"conv3 +conv2d +int8, weights int2 ", printed)
    config = replace(preset("tiny-1x4x4"), name="packed", weight_bits=(8, 4, 2))
    (tmp_path / "packed.toml").write_text(config.to_toml())
    machine = ["--target", f"accel:{tmp_path / 'packed.toml'}"]
    for model, more in ((out, []), (FLOAT, options)):
        assert main(["run", str(model), *more, *machine, "--sim", "functional"]) == 0
        said = capsys.readouterr().out
        assert "weights of 4 bits in memory" in said


def test_a_machine_that_stores_floats(tmp_path, samples, capsys) -> None:
    out, figures_file = tmp_path / "q.onnx", tmp_path / "r.json"
    command = ["quantize", str(FLOAT), "--calibration", str(samples), "--machine",
               "examples/machines/fp8.py", "--keep-float", "conv3", "-o", str(out)]
    assert main([*command, "--json", str(figures_file)]) == 0
    said, figures = capsys.readouterr().out, json.loads(figures_file.read_text())
    assert "5 of 6 layers in float8_e4m3fn, 8 samples, no random numbers" in said
    assert "in float32: conv3 (kept in float on request)" in said
    assert f"output: {figures['sqnr_db']:.1f} dB" in said and figures["sqnr_db"] > 20
    assert {layer["name"]: layer["quantized"] for layer in figures["layers"]}["conv3"] is False
    assert {node.op_type for node in onnx.load(out).graph.node} >= {
        "QuantizeLinear", "DequantizeLinear", "Conv"}
    assert figures["hindrance"] == ""
    kept = [word for layer in figures["layers"] for word in ("--keep-float", layer["name"])]
    assert main([*command, *kept]) == 0
    assert ("nothing runs on the accelerator: the quantizer left every layer in float: kept in "
            "float on request") in capsys.readouterr().out.splitlines()
    assert main([*command, "--weight-bits", "4"]) == 2
    assert capsys.readouterr().err == (
        "lockstep: error: weight_bits must be left out for machine tiny-1x4x4, which stores "
        "float8_e4m3fn: it is of integers\n")
    assert main([*command, "--report", str(tmp_path / "r.html")]) == 2
    assert capsys.readouterr().err == ("lockstep: error: --report must be left out: there is no "
                                       "page of networks in floats\n")


def test_scales_of_groups(tmp_path, rng, capsys) -> None:
    onnx.save(network(rng), tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", rng.standard_normal((4, 96)).astype(np.float32))
    status = main(["quantize", str(tmp_path / "net.onnx"), "--calibration",
                   str(tmp_path / "x.npy"), "--weight-bits", "4", "--weight-groups", "32",
                   "--scale-bits", "16", "-o", str(tmp_path / "q.onnx")])
    assert status == 0
    assert ("2 of 4 layers with weights of fewer than 8 bits; matrices have scales of 16 bits for "
            "groups of 32") in capsys.readouterr().out
    config = replace(preset("tiny-1x4x4"), name="packed", weight_bits=(8, 4))
    (tmp_path / "packed.toml").write_text(config.to_toml())
    assert main(["run", str(tmp_path / "q.onnx"), "--target", f"accel:{tmp_path / 'packed.toml'}",
                 "--shape", "N=2", "--sim", "functional"]) == 0
    said = capsys.readouterr().out
    assert "scales of 16 bits for groups of 32; weights of 4 bits in memory" in said


def test_files_are_joined_and_the_budget_is_reported(tmp_path, capsys) -> None:
    images = held_out()[0][:6]
    for place in (0, 3):
        np.save(tmp_path / f"{place}.npy", images[place:place + 3])
    status = main(["quantize", str(FLOAT), "--calibration", str(tmp_path / "0.npy"),
                   str(tmp_path / "3.npy"), "--budget", "45dB", "-o", str(tmp_path / "q.onnx")])
    printed = capsys.readouterr().out
    assert status == 0 and ", 6 samples, no random numbers" in printed
    assert "fell back to float for the budget of 45 dB" in printed
    assert re.search(r"layer +operator +numbers +alone +accumulated +at output", printed)


def test_layers_at_fault_are_named(tmp_path, samples, capsys) -> None:
    """One channel is large and then nearly ignored."""
    network = onnx.load(FLOAT)
    for tensor in network.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor).copy()
        if tensor.name in ("conv3.weight", "conv3.bias"):
            array[3] = np.abs(array[3]) * 3000
        if tensor.name == "conv4.weight":
            array[:, 3] /= 3000
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    model, report = tmp_path / "net.onnx", tmp_path / "r.json"
    onnx.save(network, model)
    assert main(["quantize", str(model), "--calibration", str(samples), "--json", str(report),
                 "-o", str(tmp_path / "q.onnx")]) == 0
    figures = json.loads(report.read_text())
    needed, layers = figures["needed"], figures["layers"]
    assert needed and figures["sqnr_db"] < 15
    assert (f"below 15 dB outputs are of little use; --budget 15dB keeps {len(needed)} of "
            f"{len(layers)} layers in float, those that hurt most: {', '.join(needed[:6])}"
            ) in capsys.readouterr().out


def test_a_dimension_that_the_file_fixes_is_told(tmp_path, capsys) -> None:
    """Expand to two images does nothing to two samples, and something to one."""
    constants = {"w": np.ones((2, 3, 1, 1), np.float32), "s": np.array([2, 3, 4, 4])}
    nodes = [onnx.helper.make_node("Expand", ["x", "s"], ["e"], "expand"),
             onnx.helper.make_node("Conv", ["e", "w"], ["y"], "conv")]
    typed = [onnx.helper.make_tensor_value_info(name, 1, ("n", channels, 4, 4))
             for name, channels in (("x", 3), ("y", 2))]
    graph = onnx.helper.make_graph(nodes, "g", typed[:1], typed[1:], [
        onnx.numpy_helper.from_array(array, name) for name, array in constants.items()])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]),
              tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones((2, 3, 4, 4), np.float32))
    assert main(["quantize", str(tmp_path / "m.onnx"), "--calibration", str(tmp_path / "x.npy"),
                 "-o", str(tmp_path / "q.onnx")]) == 0
    assert f"n is 2 in {tmp_path / 'q.onnx'}: the network depends on it" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "message"), [
    (["{float}", "--calibration", "{tmp}/none.npz"], "'.*/none.npz' must be a file that exists"),
    (["{tmp}/none.onnx"], ".*/none.onnx: no such file; give the path of an ONNX model"),
    (["{int8}"], r".*digits-int8.onnx: is quantized already: .*; give the float model"),
    (["{float}", "--calibration", "{float}"],
     "'.*digits-float.onnx' must be an .npz archive or an .npy array of numbers: it begins as .*"),
    (["{float}", "--calibration", "{tmp}/x.npz", "{tmp}/y.npy"],
     "calibration samples must all be arrays by name, as .npz archives have them, .*, not both"),
    (["{float}", "--calibration", "{tmp}/x.npz", "{tmp}/z.npz"],
     "calibration samples must have arrays of the same names in every part, .* no 'image'"),
    (["{float}", "--calibration", "{tmp}/y.npy", "{tmp}/w.npy"],
     "calibration samples must fit together: .*"),
    (["{float}", "--calibration", "{tmp}/z.npz"],
     ".*digits-float.onnx: calibration set must hold image, not other"),
    (["{float}", "--calibration", "{tmp}/y.npy"],
     r".*: calibration set must fit input 'image' \[1,1,8,8\], not \[N,8\]"),
    (["{float}", "--calibration", "{tmp}/p.npy"], "'.*/p.npy' must be an .npz archive or .*"),
    (["{float}", "--keep-float", "conv"], ".*--keep-float must name a layer, one of conv1, .*, "
                                          "not 'conv'"),
    (["{float}", "--weight-bits", "conv1=5"], "weight bits of conv1 must be 8, 4 or 2, not 5"),
    (["{float}", "--weight-bits", "4", "--weight-bits", "pool=4"],
     ".*: --weight-bits must name a layer with constant weights, one of conv1, .*, not 'pool'"),
    (["{float}", "--budget", "x"], "budget must be percentage points .*, not 'x'"),
    (["{float}", "--observer", "percentile", "--percentile", "12"],
     "percentile must be above 50 and at most 100, not 12"),
    (["{float}", "--observer", "max"], "argument --observer: invalid choice: 'max' .*"),
    (["{float}", "-o", "{tmp}/none/q.onnx"],
     "'.*/none/q.onnx' must name a file in a folder that exists"),
    (["{float}", "--report", "{tmp}"], "'.*' must name a file in a folder that exists"),
])
def test_requests_wrong(arguments, message, tmp_path, samples, capsys) -> None:
    np.save(tmp_path / "y.npy", np.zeros((3, 8), np.float32))
    np.save(tmp_path / "w.npy", np.zeros((3, 8, 8), np.float32))
    np.save(tmp_path / "p.npy", np.array([{}]), allow_pickle=True)
    np.savez(tmp_path / "z.npz", other=np.zeros(3, np.float32))
    given = [one.format(float=FLOAT, int8=INT8, tmp=tmp_path) for one in arguments]
    given += [] if "--calibration" in given else ["--calibration", str(samples)]
    given += [] if "-o" in given else ["-o", str(tmp_path / "q.onnx")]
    before = sorted(tmp_path.iterdir())
    assert main(["quantize", *given]) == 2
    out, err = capsys.readouterr()
    assert out == "" and sorted(tmp_path.iterdir()) == before
    line, = err.splitlines()
    assert re.fullmatch(message, line.removeprefix("lockstep: error: "))


def test_a_report_needs_plotly(tmp_path, samples, capsys, monkeypatch) -> None:
    monkeypatch.setattr("lockstep.report.page.find_spec", lambda name: None)
    assert main(["quantize", str(FLOAT), "--calibration", str(samples), "--report",
                 str(tmp_path / "r.html"), "-o", str(tmp_path / "q.onnx")]) == 2
    assert capsys.readouterr().err.startswith("lockstep: error: --report needs plotly")
