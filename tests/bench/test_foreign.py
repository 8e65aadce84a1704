"""`python -m bench networks.foreign`: verdicts about files that other tools have quantized."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.networks.foreign import BENCH, ENVIRONMENTS, SCRIPTS, TOOLS, table
from bench.support.foreign_files import MOST_STEPS, Quantized, Verdict, judged, one_up
from compiler.frontend.models import graph_of
from compiler.frontend.spellings import read_signs

MODELS = Path(__file__).parents[1] / "models"

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
CONSTANTS = """<float s = {0.1}, int8 z = {0},
 int8[4,4] w = {1,2,3,4, 5,6,7,8, 1,2,3,4, 5,6,7,8}> """
NET = HEAD + "g (float[1,4] x) => (float[1,4] y)" + CONSTANTS + """{
  xq = QuantizeLinear (x, s, z)
  xd = DequantizeLinear (xq, s, z)
  wd = DequantizeLinear (w, s, z)
  a = MatMul (xd, wd)
  aq = QuantizeLinear (a, s, z)
  y = DequantizeLinear (aq, s, z)
}"""
MOVED = HEAD + "g (float[1,4] x) => (float[1,4] y)" + CONSTANTS + """{
  xq = QuantizeLinear (x, s, z)
  xd = DequantizeLinear (xq, s, z)
  wd = DequantizeLinear (w, s, z)
  xr = Relu (xd)
  wt = Transpose <perm = [1, 0]> (wd)
  a = MatMul (xr, wt)
  b = Erf (a)
  y = MatMul (b, wt)
}"""


@pytest.fixture
def saved(tmp_path):
    def save(text: str, x0=None, y0=()):
        path = tmp_path / "net.onnx"
        onnx.save(onnx.parser.parse_model(text), path)
        if x0 is not None:
            np.savez(path.with_suffix(".npz"), x0=x0, y0=y0)
        return path
    return save


def test_a_verdict_has_steps_products_and_segments(saved) -> None:
    """The tool's output is two steps off in one element."""
    x = np.array([[1, -2, 0.5, 3]], np.float32)
    y = np.array([[0.6, 0.8, 1.1, 1.3]], np.float32)
    verdict = judged(saved(NET, x0=x, y0=y), "accel:tiny-1x4x4")
    assert not verdict.failed and verdict.spellings == "QDQ"
    assert verdict.products == verdict.accel_products == 16 and verdict.percent == 100
    assert verdict.segments == 1 and verdict.is_right
    weights = np.tile(np.arange(1, 9), 2).reshape(4, 4)
    exact = np.clip(np.rint(x @ weights), -128, 127) * 0.1
    assert verdict.tool == pytest.approx(np.abs(exact - y).max() / 0.1, abs=0.01)


def test_what_one_element_makes_is_told(saved) -> None:
    """One element of each input moves by a 255th of the range; of integers by one."""
    x = np.array([[1, -2, 0.5, 3.1]], np.float32)
    (moved,) = one_up({"x": x}, 0).values()
    assert np.sort(np.abs(moved - x).ravel()) == pytest.approx([0, 0, 0, 5.1 / 255], abs=1e-6)
    counted, = one_up({"x": np.full(3, 127, np.int8)}, 1).values()
    assert sorted(counted.tolist()) == [126, 127, 127]
    verdict = judged(saved(NET, x0=x, y0=x), "accel:tiny-1x4x4")
    assert verdict.one == 0                     # the range is 5.1, half a step 0.05
    wide = np.array([[0, 12, 0, -12]], np.float32)          # which cancel: 0.8 is 1
    verdict = judged(saved(NET, x0=wide, y0=x), "accel:tiny-1x4x4")
    assert verdict.one == 1


def test_the_table_has_a_row_for_each_mode() -> None:
    rows = [Verdict("resnet.a-b.onnx", "", cpu=0.25, accel=1, products=4, accel_products=4,
                    segments=1),
            Verdict("vit.a-b.onnx", "", failed="no"), Verdict("vit.c.pt2", "", cpu=0, accel=0),
            Verdict("other.onnx", "")]
    assert list(table(rows)) == [
        "| file | resnet | vit |", "|---|---|---|",
        "| a-b | 100 %, 1, 0.2, 1.0 | refused |", "| c-program |  | float, 0, 0.0, 0.0 |"]
    assert not list(table(rows[3:]))


def test_what_auto_chooses_is_priced_beside_the_host_alone(saved) -> None:
    path = saved(NET)
    assert judged(path, "accel:tiny-1x4x4").auto is None
    assert (judged(path, "accel:tiny-1x4x4", auto=True).auto or 0) > 0


def test_products_count_where_both_factors_are_quantized(saved) -> None:
    """Behind a relu and a transpose they still are; behind Erf without quantization no more."""
    graph = graph_of(saved(MOVED))
    assert [node.name for node in Quantized(graph).products] == ["MatMul_5"]


def test_what_fails_is_told(saved) -> None:
    verdict = judged(saved(NET.replace("y = Deq", "y = com.microsoft.Deq").replace(
        '"" : 21', '"" : 21, "com.microsoft" : 1').replace(
            "MatMul (xd, wd)", "com.microsoft.QOrderedMatMul (xd, wd)")), "accel:tiny-1x4x4")
    assert not verdict.is_right and verdict.percent is None
    assert "ImportRefused: " in verdict.failed and "QOrderedMatMul" in verdict.failed


def test_the_command_says_which_tools_are_absent(saved, tmp_path, capsys) -> None:
    assert BENCH.main(["--files", str(saved(NET)), "--machine", "tiny-1x4x4", "--auto"]) == 0
    said = capsys.readouterr().out
    assert "net.onnx" in said and "100.0 %" in said and "foreign_refused 0" in said
    assert "auto/cpu" in said and "foreign_auto_most" in said
    assert BENCH.main(["--environments", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert all(f"{tool}: absent" in said for tool in TOOLS)


def test_every_tool_has_a_script_and_an_environment() -> None:
    assert all((SCRIPTS / tool.script).exists() and tool.environment in ENVIRONMENTS
               for tool in TOOLS.values())
    assert all("==" in package for packages in ENVIRONMENTS.values() for package in packages)


KEPT = sorted(path for path in (MODELS / "foreign").iterdir() if path.suffix != ".npz")
"""Files that the tools themselves have written (``--size small``), with the tools' own outputs."""

SPELLED = {"gru.ort-dynamic-u8": "dynamic", "lstm.ort-dynamic-s8": "dynamic of com.microsoft",
           "resnet.ort-qop-u8s8": "QOperator of com.microsoft", "resnet.ort-qdq-u8u8": "QDQ",
           "resnet.torch-fx-qat": "QCDQ", "resnet.torch-pt2e-x86": "QDQ",
           "resnet.brevitas-qonnx-w4a4": "QONNX", "resnet.tflite-16x8": "TFLite 16x8",
           "resnet.tflite-edge-int4": "TFLite weights of few bits"}


def test_each_kept_file_has_its_spelling() -> None:
    assert {path.stem for path in KEPT} == {*SPELLED}
    for path in KEPT:
        assert SPELLED[path.stem] in [row.spelling for row in read_signs(path).spelled], path.name


SLOW = ("lstm.ort-dynamic-s8", "resnet.ort-qdq-u8u8", "resnet.tflite-edge-int4",
        "resnet.torch-fx-qat")
"""Files whose spellings small tests have, too."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])
    for path in KEPT])
def test_files_of_tools_are_right_and_on_the_accelerator(path: Path) -> None:
    """In integers as without, and as the tool's own runtime has it."""
    verdict = judged(path, "accel:tiny-1x4x4", "accel:examples/machines/int16_deep.py")
    assert not verdict.failed
    assert verdict.is_right and verdict.tool is not None and verdict.tool <= MOST_STEPS
    assert verdict.percent is not None and verdict.percent >= 90
