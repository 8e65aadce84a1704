"""Commands about whole inferences: networks in float, accuracy, the host."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from accel.machine.loading import load_machine
from examples.digits.data import held_out
from lockstep.cli import main
from runtime.driver.calibrated import Calibration
from runtime.driver.quantization import quantize
from tests.support.whole import CHANNELS, SIZE, write_case

BASE = "tiny-1x4x4"
METRIC = """
def best(outputs, wanted):
    return len(outputs["y"]) / 16
"""


@pytest.fixture(scope="module")
def case(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("case")
    write_case(folder)
    quantize(folder / "net.onnx", folder / "x.npz", machine=folder / "addrelu.py").save(
        folder / "int8.onnx")
    with np.load(folder / "x.npz") as samples:
        np.savez(folder / "other.npz", x=3 * samples["x"])
    (folder / "metric.py").write_text(METRIC)
    return folder


def test_explore_shows_accuracy_and_the_host(case: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["explore", str(case / "net.onnx"), "--base", BASE, "--vary", "clock_mhz=50",
                 "--processes", "0", "--db", str(case / "r.sqlite"), "--no-check", "--objective",
                 "ms,accuracy", "--calibration", str(case / "x.npz"), "--held-out",
                 str(case / "x.npz"), "--json", str(case / "e.json")]) == 0
    out = capsys.readouterr().out
    assert re.search(r"machine +ms +accuracy, dB +on the host ", out)
    assert re.search(r"^\*~? +base +0\.\d+ +\d\d\.\d\d +0 layers, \d+%  ", out, re.MULTILINE)
    assert "the host is in-order core at 1 GHz, by counts; cycles are the accelerator's" in out
    answer = json.loads((case / "e.json").read_text())
    assert answer["quantized"] == [
        "net.onnx: quantized for each machine; machines here: 2, different networks: 1"]
    assert answer["host"]["name"] == "in-order core at 1 GHz"


def test_explore_marks_another_division(case: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["explore", str(case / "int8.onnx"), "--base", BASE, "--vary",
                 f"machine={BASE},{case / 'no_max.py'}", "--processes", "0", "--no-check", "--db",
                 str(case / "r.sqlite")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert re.search(r"-max .* 1 layer, \d+% ! ", out)
    assert ("! 1 machine with another division of a network than the base, such as -max: int8.onnx:"
            " relu on the host, not the accelerator; --same-division refuses these") in out
    assert "int8.onnx was quantized by Lockstep" in out


def test_run_tells_the_host_and_the_whole(case: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["run", str(case / "int8.onnx"), "--machine", str(case / "no_max.py"),
                 "--no-values", "--technology", "45nm", "--json", str(case / "r.json")]) == 0
    out, whole = capsys.readouterr().out, json.loads((case / "r.json").read_text())["whole"]
    assert re.search(r"^host 0\.\d+ ms \(1 layer: relu\), copies 0\.\d+ ms; the whole 0\.\d+ ms, "
                     r"\d+\.\d% of it beside the accelerator ", out, re.MULTILINE)
    assert re.search(r"^energy of host and copies [\d.]+ uJ; the whole [\d.]+ uJ", out,
                     re.MULTILINE)
    assert "int8.onnx was quantized by Lockstep" in out
    assert [name for name, _, _ in whole["operators"]][1] == "relu" and whole["copies"] == 5


def test_run_on_the_machine_of_the_file_says_no_more(case: Path, capsys) -> None:
    assert main(["run", str(case / "int8.onnx"), "--machine", str(case / "addrelu.py"),
                 "--sim", "functional", "--json", str(case / "f.json")]) == 0
    out = capsys.readouterr().out
    assert "was quantized" not in out and "copies" not in out       # no cycles, no whole
    assert json.loads((case / "f.json").read_text())["whole"] is None


@pytest.mark.slow
def test_run_tells_how_well_a_float_network_was_quantized(case: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(case)
    given = ["run", "net.onnx", "--machine", BASE, "--sim", "functional", "--calibration", "x.npz",
             "--json", "q.json"]
    assert main([*given, "--held-out", "other.npz"]) == 0
    told = json.loads(Path("q.json").read_text())["quantized"]
    wanted = Calibration((Path("x.npz"),), {}, (Path("other.npz"),)).quantized(
        Path("net.onnx"), load_machine(BASE))
    assert told == {"layers": 4, "quantized": 4, "accuracy": wanted.accuracy, "unit": "dB"}
    assert f"quantized: 4 of 4 layers, accuracy {wanted.accuracy:.1f} dB" in capsys.readouterr().out
    assert main(given) == 0
    assert json.loads(Path("q.json").read_text())["quantized"]["accuracy"] > wanted.accuracy
    capsys.readouterr()
    assert main([*given, "--held-out", "other.npz", "--metric", "metric.py:best"]) == 0
    assert "quantized: 4 of 4 layers, accuracy 0.25\n" in capsys.readouterr().out
    assert json.loads(Path("q.json").read_text())["quantized"]["unit"] == ""


def test_a_name_with_samples_means_the_float_network(case: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(case)
    np.savez("d.npz", image=held_out()[0][:2])
    assert main(["run", "digits", "--machine", BASE, "--sim", "functional", "--calibration",
                 "d.npz"]) == 0
    assert re.search(r"quantized: (\d+) of \1 layers, accuracy \d\d\.\d dB",
                     capsys.readouterr().out)


@pytest.mark.parametrize(("options", "message"), [
    (("--held-out", "x.npz"), "--held-out must come with --calibration FILE, which quantizes"),
    (("--metric", "metric.py:best"), "--metric must come with --calibration FILE, which quantizes"),
    (("--calibration", "x.npz", "--metric", "metric.py:none"),
     "Metric metric.py:none must name a function of metric.py, not 'none'")])
def test_run_refuses(case: Path, capsys, monkeypatch, options, message: str) -> None:
    monkeypatch.chdir(case)
    assert main(["run", "net.onnx", "--machine", BASE, *options]) == 2
    assert capsys.readouterr().err.startswith(f"lockstep: error: {message}")


def test_bench_shows_both_machines_as_a_whole(case: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["intrinsic", "bench", str(case / "net.onnx"), "--machine",
                 str(case / "addrelu.py"), "--base", BASE, "--calibration", str(case / "x.npz"),
                 "--json", str(case / "b.json")]) == 0
    out, (one, other) = capsys.readouterr().out, json.loads(
        (case / "b.json").read_text())["networks"][str(case / "net.onnx")]
    assert re.search(r"whole ms +on the host +whole uJ +accuracy dB", out)
    assert one["accuracy"] > 30 and abs(other["accuracy"] - one["accuracy"]) < 3
    assert other["executed"]["addrelu"] and one["beside"]["layers"] == []


@pytest.mark.parametrize(("options", "message"), [
    (("--held-out", "{x}"), "--held-out must come with --calibration FILE"),
    (("--observer", "mse"), "--observer must come with --calibration FILE"),
    (("--objective", "accuracy"), "Objective accuracy must come with networks in float, "),
    (("--host", "me"), "Host must be table, this or a .toml file, not 'me'"),
    (("--host", "this"), "Objective energy must have the energy of the host: the energy of this "
                         "processor is absent: ")])
def test_explore_refuses(case: Path, capsys, options, message: str) -> None:
    given = [option.format(x=case / "x.npz") for option in options]
    assert main(["explore", str(case / "int8.onnx"), "--base", BASE, "--vary", "block_out=8",
                 "--db", str(case / "none.sqlite"), "--processes", "0", *given]) == 2
    assert capsys.readouterr().err.startswith(f"lockstep: error: {message}")


def test_a_network_in_float_needs_samples(case: Path, capsys) -> None:
    assert main(["explore", str(case / "net.onnx"), "--base", BASE, "--vary", "block_out=8",
                 "--db", str(case / "none.sqlite"), "--processes", "0"]) == 2
    assert "a network in float must come with --calibration FILE" in capsys.readouterr().err


def test_a_machine_that_stores_no_integers_has_another_reason(case: Path, capsys) -> None:
    machine = Path(__file__).parents[2] / "examples" / "machines" / "bfloat16.py"
    assert main(["explore", str(case / "net.onnx"), "--base", str(machine), "--vary", "block_out=8",
                 "--db", str(case / "none.sqlite"), "--processes", "0"]) == 2
    assert re.search(r"all of the network runs on the host, such as \w+: ", capsys.readouterr().err)


@pytest.mark.slow
def test_explored_machines_have_the_bits_of_weights_that_they_load(case: Path, capsys) -> None:
    given = ["explore", str(case / "net.onnx"), "--base", BASE, "--vary", "weight_bits=8,8+4",
             "--processes", "0", "--db", str(case / "bits.sqlite"), "--no-check", "--objective",
             "ms,accuracy", "--calibration", str(case / "x.npz"), "--json", str(case / "w.json")]
    assert main([*given, "--weight-bits", "4"]) == 0
    assert "weights have 8 bits" not in capsys.readouterr().out
    answer = json.loads((case / "w.json").read_text())
    wide, narrow = (point["values"] for point in answer["points"])
    assert narrow["dram"][0] < wide["dram"][0] and narrow["accuracy"][0] < wide["accuracy"][0]
    assert main(given) == 0
    assert ("net.onnx: weights have 8 bits on all machines; --weight-bits 4 gives them fewer where "
            "machines load them") in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_open_dimensions_have_the_extents_that_are_given(case: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(case)
    model = onnx.load("net.onnx")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(model, "open.onnx")
    given = ["--base", BASE, "--calibration", "x.npz", "--shape", "n=2", "--json", "s.json"]
    assert main(["explore", "open.onnx", "--vary", "block_out=8", "--processes", "0", "--db",
                 "open.sqlite", *given]) == 0
    explored = json.loads(Path("s.json").read_text())["points"][0]["networks"]["open.onnx"]
    assert main(["intrinsic", "bench", "open.onnx", "--machine", BASE, *given]) == 0
    told = json.loads(Path("s.json").read_text())["networks"]["open.onnx"][0]
    assert explored["cycles"] == told["cycles"] and explored["macs"] == told["macs"]
    assert explored["macs"] == 2 * 3 * SIZE ** 2 * 9 * CHANNELS ** 2
    capsys.readouterr()
    assert main(["diff", BASE, "addrelu.py", "--network", "open.onnx", *given[2:4]]) == 2
    assert "no value for dimension 'n' of input 'x'; bind each with --shape" in (
        capsys.readouterr().err)
