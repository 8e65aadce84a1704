"""`lockstep inspect`: the file's spellings, and the fates of layers, which are those of a run."""

import json
from pathlib import Path

import onnx
import pytest

from lockstep.cli import main

HEAD = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'
MIXED = HEAD + """
g (float[1,4] x) => (float[1,4] y)
<float s = {0.1}, uint8 z = {128}, int8 zero = {0},
 int8[4,4] w = {1,2,3,4, 5,6,7,8, 1,2,3,4, 5,6,7,8}> {
  xq = QuantizeLinear (x, s, z)
  xd = DequantizeLinear (xq, s, z)
  wd = DequantizeLinear (w, s, zero)
  a = MatMul (xd, wd)
  aq = QuantizeLinear (a, s, z)
  ad = DequantizeLinear (aq, s, z)
  e = Erf (ad)
  b = MatMul (e, wd)
  y = Erf (b)
}"""
FLOAT = HEAD + """
g (float[1,4] x) => (float[1,4] y)
<float[4,4] w = {1,2,3,4, 5,6,7,8, 1,2,3,4, 5,6,7,8}> { y = MatMul (x, w) }"""
FLOAT8 = HEAD + """
g (float[1,4] x) => (float[1,2] y)
<float s = {0.1}, float8e4m3fn z = {0}, float8e4m3fn[4,2] w = {56,57, 58,59, 60,61, 62,63}> {
  xq = QuantizeLinear (x, s, z)
  xd = DequantizeLinear (xq, s, z)
  wd = DequantizeLinear (w, s, z)
  a = MatMul (xd, wd)
  aq = QuantizeLinear (a, s, z)
  y = DequantizeLinear (aq, s, z)
}"""
REFUSED = HEAD + """
g (float[1,4] x) => (float[1,4] y)
<float s = {0.1}, uint8 z = {128}> {
  xq = QuantizeLinear (x, s, z)
  a = DequantizeLinear (xq, s, z)
  b = com.microsoft.QOrderedGelu (a)
  y = com.microsoft.QOrderedGelu (b)
}"""


def saved(folder: Path, text: str) -> str:
    path = folder / "net.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return str(path)


def inspected(path: str, folder: Path, *options: str) -> dict:
    assert main(["inspect", path, "--json", str(folder / "i.json"), *options]) == 0
    return json.loads((folder / "i.json").read_text())


@pytest.mark.parametrize("text", [MIXED, FLOAT, "digits"])
def test_it_says_what_run_says(tmp_path: Path, text: str, capsys) -> None:
    """The same targets, reasons and notes, and the same lines about them."""
    path = text if text == "digits" else saved(tmp_path, text)
    figures = inspected(path, tmp_path, "--machine", "tiny-1x4x4")
    lines = capsys.readouterr().out.splitlines()
    assert main(["run", path, "--machine", "tiny-1x4x4", "--json", str(tmp_path / "r.json")]) == 0
    told = json.loads((tmp_path / "r.json").read_text())
    assert figures["host"] == told["host"]
    assert figures["notes"] == [note for note in told["notes"] if note in figures["notes"]]
    assert [(one["device"], one["nodes"], one["operators"]) for one in figures["segments"]] == [
        (one["device"], one["nodes"], one["operators"]) for one in told["segments"]]
    about = ("on the host", "stays in float", "nothing runs")
    assert [line for line in lines if line.startswith(about)] == [
        line for line in capsys.readouterr().out.splitlines() if line.startswith(about)]


def test_each_layer_has_types_a_target_and_its_products(tmp_path: Path, capsys) -> None:
    figures = inspected(saved(tmp_path, MIXED), tmp_path)
    fates = {fate["op"]: fate for fate in figures["fates"]}
    assert fates["qdense"]["target"] == "accel" and fates["qdense"]["multiplications"] == 16
    assert fates["qdense"]["inputs"] == ["int8", "int8"] and fates["qdense"]["output"] == "int8"
    assert fates["qdense"]["reason"] == ""
    assert fates["matmul"]["target"] == "host" and "operator matmul" in fates["matmul"]["reason"]
    out = capsys.readouterr().out
    assert "products: 50.0% in float on host, 50.0% in integers on accel\n" in out


def test_what_cannot_be_imported_is_listed(tmp_path: Path, capsys) -> None:
    """The tool and the spellings are told all the same."""
    path = saved(tmp_path, REFUSED)
    assert main(["inspect", path, "--json", str(tmp_path / "i.json")]) == 2
    out, err = capsys.readouterr()
    assert "QOperator of com.microsoft" in out and "QuantizeLinear" in out
    assert ("not supported: com.microsoft.QOrderedGelu: 2 layers (operator is not supported)\n"
            in out)
    assert err == (f"lockstep: error: {path}: cannot be imported: 2 of its operators are not "
                   f"supported\n")
    figures = json.loads((tmp_path / "i.json").read_text())
    assert len(figures["refusals"]) == 2 and len(figures["spellings"]) == 3
    assert figures["provenance"]["command"][0] == "inspect"


def test_another_machine_has_other_reasons(tmp_path: Path) -> None:
    figures = inspected(saved(tmp_path, MIXED), tmp_path, "--machine",
                        "examples/machines/int16_deep.py")
    assert all(fate["target"] == "host" for fate in figures["fates"] if fate["op"] == "qdense")


def test_floats_of_few_bits_are_no_integers(tmp_path: Path, capsys) -> None:
    """The graph carries them by their codes, which are bytes."""
    figures = inspected(saved(tmp_path, FLOAT8), tmp_path, "--machine",
                        "examples/machines/fp8.py")
    lines = capsys.readouterr().out.splitlines()
    assert "products: 100.0% in float on accel" in lines
    assert [(fate["op"], fate["inputs"], fate["output"]) for fate in figures["fates"]] == [
        ("encodefloat", ["float32", "float32"], "float8_e4m3fn"),
        ("fdense", ["float8_e4m3fn", "float8_e4m3fn"], "float8_e4m3fn"),
        ("decodefloat", ["float8_e4m3fn", "float32"], "float32")]


def test_an_open_dimension_is_asked_for(tmp_path: Path, capsys) -> None:
    path = saved(tmp_path, FLOAT.replace("float[1,4] x", "float[N,4] x").replace(
        "float[1,4] y", "float[N,4] y"))
    assert main(["inspect", path]) == 2
    assert "--shape N=1" in capsys.readouterr().err
    assert inspected(path, tmp_path, "--shape", "N=3")["fates"][0]["multiplications"] == 48
