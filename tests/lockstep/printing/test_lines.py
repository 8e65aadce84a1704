"""What people read: the width of a terminal, long names, reasons that repeat."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from accel.sim.checking import check
from compiler.graph.notes import Note
from lockstep.cli import main
from lockstep.printing.lines import counted, say, shortened
from lockstep.printing.table import show_columns, show_table
from lockstep.commands.fpga import _show_build

ROOT = Path(__file__).parents[3]
INT8 = ROOT / "examples" / "digits" / "digits-int8.onnx"
FLOAT = ROOT / "examples" / "digits" / "digits-float.onnx"
LAYERS = 60


@pytest.fixture(autouse=True)
def terminal(monkeypatch, tmp_path) -> None:
    """A terminal of 80 columns; paths are short, as people write them."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


def printed(capsys, *arguments: str) -> list[str]:
    """The lines of a command, none wider than the terminal but for single words, such as paths."""
    assert main([*arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line.rstrip()) > 80 and len(line.split()) > 1] == []
    return lines


def renamed(model: Path, name: str) -> str:
    """A copy of a network whose layers have the long names of exporters."""
    proto = onnx.load(model)
    for node in proto.graph.node:
        node.name = f"/model/encoder/layers.0/self_attention/projection/output/{node.name}"
    onnx.save(proto, name)
    return name


def deep() -> str:
    """A float network of 60 convolutions, each with a Relu, and one Sigmoid."""
    kind = [TensorProto.FLOAT, [1, 2, 4, 4]]
    names = ["x", *(f"v{number}" for number in range(2 * LAYERS + 1))]
    nodes = []
    for number, (before, after) in enumerate(zip(names, names[1:])):
        op = "Conv" if number % 2 == 0 else "Relu"
        inputs = [before, "w"] if op == "Conv" else [before]
        nodes.append(helper.make_node(op, inputs, [after], f"/blocks.{number // 2}/{op}"))
    nodes[-1] = helper.make_node("Sigmoid", [names[-2]], [names[-1]], "/last")
    weights = helper.make_tensor("w", TensorProto.FLOAT, [2, 2, 1, 1], [.5] * 4)
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", *kind)],
                              [helper.make_tensor_value_info(names[-1], *kind)], [weights])
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)]),
              "deep.onnx")
    return "deep.onnx"


# ---- the parts ---------------------------------------------------------------------------------

def test_reasons_that_repeat_are_counted() -> None:
    entries = [("a", "relu", "no such operator"), ("b", "conv1d", "slower by 3.1 us: 2 us there"),
               ("c", "conv1d", "slower by 1,204.0 ms: 7.25 us there"),
               ("d", "add", "slower by 2 us: 9 us there"),
               ("e", "conv1d", "'x.y' is not quantized"), ("f", "conv1d", "'z' is not quantized")]
    assert list(counted("on the host", entries, verbose=False)) == [
        "on the host: conv1d: 2 layers, add: 1 layer (such as: slower by 3.1 us: 2 us there)",
        "on the host: conv1d: 2 layers (such as: 'x.y' is not quantized)",
        "on the host: a (no such operator)"]
    assert list(counted("on the host", entries, verbose=True)) == [
        f"on the host: {name} ({reason})" for name, _, reason in entries]


def test_layers_of_one_reason_are_counted_by_operator() -> None:
    entries = [(name, operator, "it is slow") for name, operator in
               [("a", "add"), ("b", "conv1d"), ("c", "conv1d")]]
    assert list(counted("in float", entries, verbose=False)) == [
        "in float: conv1d: 2 layers, add: 1 layer (it is slow)"]


def test_long_names_lose_their_middle() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghijk", 10) == "abcde…hijk"
    assert shortened("abcdefghijk", 1) == "…"


def test_lines_are_wrapped_and_paths_stay_whole(capsys) -> None:
    path = "/" + "x" * 100
    say(f"{'word ' * 20}{path} end")
    first, second, third, fourth = capsys.readouterr().out.splitlines()
    assert len(first) < 80 and second.startswith("  word") and third == f"  {path}"
    assert fourth == "  end"


@pytest.mark.parametrize("note", [
    Note("conv1", "conv2d", "stays in float", "why: 'x'"), Note("a (b): c", "add", "", "costs"),
    Note("/a b/c", "qconv2d", "", "2 groups of 3 (of 4)")])
def test_notes_are_read_back(note: Note) -> None:
    assert Note.of(str(note)) == note


def test_other_sentences_are_no_notes() -> None:
    assert Note.of("nothing runs on the accelerator: it computes int8") is None


@pytest.mark.parametrize("number", ["1,234", "1,234,567,890"])
def test_tables_fit(capsys, number: str) -> None:
    row = ["/model/encoder/layers.0/attention/MatMul", "qglobalavgpool", *[number] * 4, "gemm: x"]
    show_table("t" * 100, ["layer", "operator", "a", "b", "c", "d", "stall"], [row], 2, True)
    title, heads, cells = capsys.readouterr().out.splitlines()
    assert max(map(len, (title, heads, cells))) <= 80 and "…" in title
    assert re.match(r"/mod\S*…\S*Mul ", cells) and cells.rstrip().endswith("gemm: x")
    assert ("operator" in heads) == (number == "1,234") == (" qg" in cells)


# ---- the commands ------------------------------------------------------------------------------

def test_a_float_network_says_first_what_to_do(capsys) -> None:
    lines = printed(capsys, "run", deep(), "--json", "r.json")
    assert lines[0].startswith("nothing runs on the accelerator: it computes int8, ")
    figures = json.loads(Path("r.json").read_text())
    assert len(figures["host"]) > 100 and len(figures["notes"]) > 100
    assert f"on the host: all {len(figures['host'])} operators (--verbose lists them)" in lines
    assert len(lines) < 10
    lines = printed(capsys, "run", "deep.onnx", "--verbose")
    text = " ".join(" ".join(lines).split())
    assert lines[0].startswith("nothing runs on the accelerator: ")
    assert all(f"on the host: {name} (" in text for name in figures["host"])
    assert "stays in float: /blocks.59/Conv (" in text
    lines = printed(capsys, "compile", "deep.onnx", "-o", "m.lockstep")
    assert lines[0].startswith("nothing runs on the accelerator: ") and len(lines) < 10


def test_a_run_fits(capsys) -> None:
    lines = printed(capsys, "run", renamed(INT8, "long.onnx"), "--no-values")
    table = [line for line in lines if line.startswith("/model/")]
    assert len(table) == 7 and all(re.match(r"/model\S*…\S+ ", line) for line in table)
    assert table[0].rstrip().endswith("%")      # the largest stall
    assert printed(capsys, "run", "long.onnx", "--sim", "functional")
    assert printed(capsys, "compile", "long.onnx", "-o", "m.lockstep", "--verbose")


def test_a_quantization_fits(capsys) -> None:
    np.save("x.npy", np.random.default_rng(0).random((2, 1, 8, 8), np.float32))
    lines = printed(capsys, "quantize", renamed(FLOAT, "long.onnx"), "--calibration", "x.npy",
                    "--budget", "60dB", "-o", "q.onnx")
    assert any(re.match(r"in float: conv2d: \d layers", line) for line in lines)
    more = printed(capsys, "quantize", "long.onnx", "--calibration", "x.npy", "--budget", "60dB",
                   "-o", "q.onnx", "--verbose")
    assert len(more) > len(lines)


@pytest.mark.parametrize("command", [
    ("configs",), ("configs", "pynq-1x16x16"), ("isa",), ("isa", "--status"),
    *((name, "--help") for name in (
        "run", "compile", "quantize", "check", "configs", "isa", "fpga"))])
def test_it_fits(capsys, command: tuple[str, ...]) -> None:
    assert printed(capsys, *command)


@pytest.mark.slow
def test_a_check_fits(capsys, monkeypatch) -> None:
    monkeypatch.setattr(check, "default_simulators", lambda every=check.default_simulators: {
        "functional": every()["functional"]})
    assert printed(capsys, "check", "--count", "1")


def test_a_build_fits(capsys) -> None:
    from fpga.building.build import NAMES

    used = dict.fromkeys(NAMES, 12_345)
    _show_build({"used": used, "available": dict.fromkeys(NAMES, 83_640),
                 "critical_path": [(unit, 1.25) for unit in ("load", "gemm", "vector")] * 4,
                 "clock_hz": 6.25e7, "mhz": 62.55, "seed": 3, "peak_gops": 32, "baud": 3_000_000,
                 "tools": ["yosys 0.50 (wheel)", "nextpnr-ecp5 0.10 (wheel)", "ecppack 1.4"]})
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80




def test_without_a_terminal_nothing_is_wrapped(monkeypatch, capsys) -> None:
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("os.get_terminal_size", lambda *_: (_ for _ in ()).throw(OSError))
    say("word " * 100)
    show_columns("t" * 100, ["machine", *map(str, range(30))], [["m" * 50, *["1,000"] * 30]])
    line, title, _, cells = capsys.readouterr().out.splitlines()
    assert title == "t" * 100 and cells.count("1,000") == 30 and "m" * 50 in cells


def test_columns_fit(capsys) -> None:
    """Words are shortened first; then columns at the right are left out, and named."""
    row = ["*", "block_out 32, wgt_bytes 131072", "71.02 ±6% (-25%)", "96,972 ±5% (+70%)",
           "gemm 92%, load 8%"]
    heads = ["", "machine", "ms", "luts", "bound by"]
    show_columns("machines", heads, [row], 2, True)
    *_, cells = capsys.readouterr().out.splitlines()
    assert len(cells) <= 80 and "block_out …tes 131072" in cells
    assert cells.endswith("gemm 92%, load 8%")
    show_columns("machines", [*heads, "more"], [[*row, "123,456,789"]], 2)
    *_, cells, told = capsys.readouterr().out.splitlines()
    assert len(cells) <= 80 and "96,972 ±5% (+70%)" in cells
    assert told == "no room for more"
