"""`lockstep run`: what it writes and prints."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from accel.machine.config import UNITS, preset
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run, Status
from accel.sim.timed import cycle
from compiler.frontend import load
from compiler.graph import evaluate, optimize
from fpga.memory import on_board
import lockstep
from lockstep.cli import main
from tests.support.operator_models import operator_model

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"
TINY = ["--target", "accel:tiny-1x4x4"]
KEYS = {"cycles", "macs", "utilization", "seconds", "wall_seconds", "machine_hash", "layers",
        "outputs"}
LAYER_KEYS = {"name", "op", "device", "cycles", "ideal_cycles", "bound_cycles", "bound_bytes",
              "macs", "utilization", "dram_bytes", "stalls"}


@pytest.fixture
def digits_input(tmp_path) -> Path:
    path = tmp_path / "x.npz"
    np.savez(path, image=np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8))
    return path


def run(*args) -> int:
    return main(["run", *map(str, args)])


def expected(path: Path) -> np.ndarray:
    with np.load(path) as archive:
        given = dict(archive)
    return evaluate(optimize(load(DIGITS)), given)["logits"]


def test_outputs_and_report(digits_input, tmp_path, capsys) -> None:
    report, outputs = tmp_path / "r.json", tmp_path / "y.npz"
    assert run(DIGITS, *TINY, "--input", digits_input, "--json", report, "--output", outputs) == 0
    with np.load(outputs) as archive:
        assert archive.files == ["logits"]
        np.testing.assert_array_equal(archive["logits"], expected(digits_input))
    figures = json.loads(report.read_text())
    assert figures.keys() >= KEYS
    assert figures["seed"] is None and figures["cycles"] > 0
    assert figures["machine_hash"] == Machine(preset("tiny-1x4x4")).hash
    assert (figures["model"], figures["target"], figures["simulator"]) == (
        str(DIGITS), TINY[1], "cycle")
    assert [row["name"] for row in figures["layers"]] == [
        "conv1", "conv2", "conv3", "conv4 + add", "pool", "conv5 + average", "dense", "finish"]
    assert all(row.keys() >= LAYER_KEYS for row in figures["layers"])
    (output,) = figures["outputs"]
    assert (output["name"], output["shape"], output["dtype"]) == ("logits", [1, 10], "float32")
    assert set(figures["host"]) == {"image_QuantizeLinear", "logits_DequantizeLinear"}
    out, err = capsys.readouterr()
    assert err == "" and "seed" not in out
    assert f"output logits float32[1, 10] sha256 {output['sha256'][:16]}" in out
    assert all(row["name"] in out for row in figures["layers"])


def test_bounds(tmp_path, capsys) -> None:
    figures = figures_of(tmp_path, "--bounds")
    out, _ = capsys.readouterr()
    *layers, finish = figures["layers"]
    assert all(0 < row["bound_bytes"] <= row["dram_bytes"] for row in layers)
    assert 0 < figures["bound_cycles"] < figures["cycles"]
    conv = next(row for row in layers if row["name"] == "conv3")
    assert conv["ideal_cycles"] <= conv["bound_cycles"] <= conv["cycles"]
    assert finish["bound_cycles"] == 0
    assert f"at least {figures['bound_cycles']:,} cycles whatever the tilings" in out
    assert f"{conv['bound_cycles']:,}  {conv['cycles'] / conv['bound_cycles']:.3f}" in out


def figures_of(tmp_path, *args) -> dict:
    report = tmp_path / "figures.json"
    assert run(DIGITS, *TINY, "--json", report, *args) == 0
    return json.loads(report.read_text())


def test_every_simulator_gives_the_same(digits_input, tmp_path) -> None:
    made = [figures_of(tmp_path, "--input", digits_input, "--sim", sim)
            for sim in ("functional", "cycle", "verilator")]
    assert all(one["outputs"] == made[0]["outputs"] for one in made)
    assert [one["cycles"] for one in made] == [0, made[2]["cycles"], made[2]["cycles"]]
    assert made[0]["layers"][0]["stalls"] == made[2]["layers"][0]["stalls"] == {}


def test_the_table_names_the_largest_stall(tmp_path, capsys) -> None:
    figures = figures_of(tmp_path, "--latency", 256)
    lines = capsys.readouterr().out.splitlines()
    rows = {layer["name"]: next(line for line in lines if line.startswith(f"{layer['name']} "))
            for layer in figures["layers"]}
    for layer in figures["layers"][:-1]:
        causes = layer["stalls"][layer["carrier"]]
        cause = max(causes, key=causes.__getitem__)
        share = causes[cause] / layer["cycles"]
        stall = f"{layer['carrier']}: {cause} {share:.1%}" if causes[cause] else "-"
        assert rows[layer["name"]].rstrip().endswith(f" {stall}")
        assert f" {layer['cycles']:,} " in rows[layer["name"]]
    assert rows["finish"].rstrip().endswith("-")


@pytest.fixture(scope="module")
def plain_cycles(tmp_path_factory) -> int:
    return figures_of(tmp_path_factory.mktemp("plain"), "--no-values")["cycles"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("options", [
    ("--latency", 200), ("--outstanding", 1), ("--bytes-per-cycle", 1.5),
    ("--row-buffer", "1024,60"), ("--refresh", "100,40"), ("--stall-seed", 3)],
    ids=lambda options: options[0])
def test_a_worse_memory_takes_longer(tmp_path, plain_cycles, options) -> None:
    assert figures_of(tmp_path, "--no-values", *options)["cycles"] > plain_cycles + 100


@pytest.mark.slow
def test_the_memory_of_a_board(tmp_path) -> None:
    """Cycles are those of its memory, seconds those of its clock; single options take the place of
    the board's.
    """
    machine = on_board(Machine(preset("tiny-1x4x4")), "ulx3s-85f")
    module = lockstep.compile(DIGITS, machine=machine, sim="cycle", values=False)
    (program,) = [segment.program for segment in module.accelerated]
    board = ("--no-values", "--memory", "board:ulx3s-85f")
    for options, changed in (((), {}), (("--latency", 100), {"latency": 100}),
                             (("--refresh", "50,9"), {"refresh_interval": 50, "refresh_cycles": 9}),
                             (("--row-buffer", "256"), {"row_bytes": 256, "row_miss": 20,
                                                        "banks": 8, "row_closed": None})):
        memory = replace(machine.config.memory, **changed)
        figures = figures_of(tmp_path, *board, *options)
        assert figures["cycles"] == cycle.simulate(machine, program, values=False,
                                                   dram=memory).cycles
        assert figures["seconds"] == figures["cycles"] / 80e6
    slower = figures_of(tmp_path, "--no-values", "--memory", "board:ulx3s-85f@50")
    assert slower["seconds"] == slower["cycles"] / 50e6


@pytest.mark.slow
def test_a_machine_has_a_memory_of_its_own(tmp_path, plain_cycles) -> None:
    path = tmp_path / "slow.toml"
    path.write_text(preset("tiny-1x4x4").to_toml() + "[memory]\nlatency = 200\n")
    module, report = tmp_path / "digits.lockstep", tmp_path / "r.json"
    assert main(["compile", str(DIGITS), "--machine", str(path), "-o", str(module)]) == 0
    slow = figures_of(tmp_path, "--no-values", "--latency", 200)["cycles"]
    assert slow > plain_cycles
    for model, options in ((DIGITS, ("--machine", path)), (module, ()),
                           (module, ("--machine", "tiny-1x4x4", "--latency", 200))):
        assert run(model, *options, "--no-values", "--json", report) == 0
        assert json.loads(report.read_text())["cycles"] == slow


def test_timing_alone_computes_nothing(tmp_path, capsys) -> None:
    plain, timed = figures_of(tmp_path), figures_of(tmp_path, "--no-values")
    assert timed["outputs"] == [] and len(plain["outputs"]) == 1
    assert timed["layers"] == plain["layers"] and timed["counters"] == plain["counters"]


@pytest.mark.parametrize("sim", ["cycle", "verilator"])
def test_a_trace_is_of_the_run(tmp_path, sim: str) -> None:
    path = tmp_path / "t.json"
    figures = figures_of(tmp_path, "--sim", sim, "--trace", path)
    document = json.loads(path.read_text())
    assert document["otherData"]["cycles"] == figures["cycles"]
    slices = {name: sum(event["dur"] for event in document["traceEvents"]
                        if event.get("cat") == "activity" and event["name"] == name)
              for name in ("busy", "memory")}
    busy, waits = (sum(row["busy"].get(unit, 0) if name == "busy"
                       else row["stalls"].get(unit, {}).get(name, 0)
                       for row in figures["layers"] for unit in UNITS) for name in slices)
    assert slices == {"busy": busy, "memory": waits}
    assert (busy > 0) == (sim == "cycle")


def test_a_run_that_fails_leaves_a_trace(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("accel.sim.timed.cycle.simulate", partial(cycle.simulate, max_cycles=500))
    path, report = tmp_path / "t.json", tmp_path / "r.json"
    assert run(DIGITS, *TINY, "--trace", path, "--json", report) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("lockstep: watchdog: ") and not report.exists()
    document = json.loads(path.read_text())
    assert document["otherData"]["cycles"] == 500
    assert {event["name"] for event in document["traceEvents"]} >= {"busy", "conv1"}


def test_a_trace_as_vcd(tmp_path) -> None:
    path = tmp_path / "t.vcd"
    figures = figures_of(tmp_path, "--trace", path)
    assert path.read_text().rstrip().endswith(f"#{figures['cycles']}")


def test_a_run_too_long_for_vcd(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("accel.sim.trace.MAX_VCD_CYCLES", 1000)
    path = tmp_path / "t.vcd"
    assert run(DIGITS, *TINY, "--trace", path) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and not list(tmp_path.iterdir())
    assert err.startswith(f"lockstep: error: Trace {str(path)!r} must be of at most 1,000 cycles")


FULL_DISK = """
import resource, sys
from accel.machine.timing import TIMING
from accel.sim.meaning import values
from accel.sim.timed import cycle
from fpga.memory import on_board
import lockstep
from lockstep.cli import main
cycle._library(TIMING), values._library()       # compiled before there is a limit
sys.dont_write_bytecode = True          # Python would keep what it can write of a module
for limit, arguments in {cases!r}:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    print("status", main(arguments), file=sys.stderr)
"""


@pytest.mark.slow
def test_a_disk_that_gets_full(tmp_path) -> None:
    limits = {"--trace": 20000, "--json": 1000, "--output": 100}
    paths = {option: str(tmp_path / f"{option[2:]}.json") for option in limits}
    script = FULL_DISK.format(cases=[
        (limit, ["run", str(DIGITS), *TINY, option, paths[option]])
        for option, limit in limits.items()])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          cwd=Path(__file__).parents[2])
    said = done.stderr.splitlines()
    assert (done.returncode, done.stdout, said[1::2]) == (0, "", ["status 2"] * 3)
    for path, line in zip(paths.values(), said[::2], strict=True):
        assert line.startswith("lockstep: error: ") and path in line and "File too large" in line
    assert not list(tmp_path.iterdir())


def digest(tmp_path, path: Path, *args) -> tuple[str, int | None]:
    report = tmp_path / "r.json"
    assert run(path, *args, "--json", report) == 0
    figures = json.loads(report.read_text())
    return figures["outputs"][0]["sha256"], figures["seed"]


def test_a_seed_is_printed_and_repeats(tmp_path, capsys) -> None:
    path = operator_model(tmp_path / "m.onnx", "Relu", [2, 3])
    first, seed = digest(tmp_path, path)
    assert seed == 0 and "random input, seed 0\n" in capsys.readouterr().out
    again, seed = digest(tmp_path, path, "--seed", 5)
    assert seed == 5 and "random input, seed 5\n" in capsys.readouterr().out
    assert again == digest(tmp_path, path, "--seed", 5)[0] != first


@pytest.mark.slow
def test_every_machine_and_the_host_agree(tmp_path) -> None:
    geometry = tmp_path / "mine.toml"
    geometry.write_text(preset("tiny-1x4x4").to_toml().replace("block_in = 4", "block_in = 8"))
    first = digest(tmp_path, DIGITS, "--target", "cpu")
    for args in ((*TINY, "--threads", 1), ("--target", f"accel:{geometry}"), ()):
        assert digest(tmp_path, DIGITS, *args) == first


def test_the_host_has_no_machine(tmp_path, capsys) -> None:
    report = tmp_path / "r.json"
    assert run(DIGITS, "--target", "cpu", "--json", report) == 0
    figures = json.loads(report.read_text())
    assert (figures["machine_hash"], figures["layers"]) == ("", [])
    assert set(figures["host"].values()) == {"the target is the host"}
    assert ("on the host: qconv2d: 5 layers, quantize: 1 layer, qadd: 1 layer, qmaxpool: 1 layer, "
            "others: 4 layers (the target is the host)\n") in capsys.readouterr().out


@pytest.mark.slow
def test_the_bus_can_be_overridden(tmp_path) -> None:
    report = tmp_path / "r.json"
    assert run(DIGITS, *TINY, "--bus-bytes", 16, "--json", report) == 0
    wide = Machine(replace(preset("tiny-1x4x4"), bus_bytes=16))
    assert json.loads(report.read_text())["machine_hash"] == wide.hash


def test_outputs_may_have_any_name(tmp_path) -> None:
    path = operator_model(tmp_path / "m.onnx", "Relu", [2, 3])
    net = onnx.load(path)
    net.graph.node[0].output[0] = net.graph.output[0].name = "file"
    onnx.save(net, path)
    assert run(path, "--target", "cpu", "--output", tmp_path / "y.npz") == 0
    with np.load(tmp_path / "y.npz") as archive:
        assert archive.files == ["file"] and archive["file"].shape == (2, 3)


@pytest.mark.parametrize("kind", [TensorProto.BOOL, TensorProto.DOUBLE, TensorProto.FLOAT16,
                                  TensorProto.INT8, TensorProto.UINT16])
def test_inputs_of_any_type_are_made_up(tmp_path, capsys, kind: int) -> None:
    info = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Where", ["c", "x", "x"], ["y"])], "g",
                              [info("c", TensorProto.BOOL, [3]), info("x", kind, [3])],
                              [info("y", kind, [3])])
    path = tmp_path / "where.onnx"
    onnx.save(helper.make_model(graph, ir_version=10,
                                opset_imports=[helper.make_opsetid("", 17)]), path)
    assert main(["run", str(path), "--target", "cpu"]) == 0
    assert "output y" in capsys.readouterr().out


def test_names_are_printed_as_they_are(tmp_path, capsys) -> None:
    path = operator_model(tmp_path / "m.onnx", "Relu", [2, 3])
    net = onnx.load(path)
    net.graph.node[0].name = "net[/red]:smile:"
    onnx.save(net, path)
    assert run(path) == 0
    assert "on the host: net[/red]:smile: (" in capsys.readouterr().out


def test_symbolic_dimensions_are_bound(tmp_path) -> None:
    path = operator_model(tmp_path / "m.onnx", "Relu", ["N", 3])
    outputs = tmp_path / "y.npz"
    assert run(path, "--target", "cpu", "--shape", "N=4", "--output", outputs) == 0
    with np.load(outputs) as archive:
        assert archive["y0"].shape == (4, 3)


def test_a_run_that_fails_is_status_1(monkeypatch, capsys, tmp_path) -> None:
    def stuck(machine: Machine, program: AccelProgram, memory: np.ndarray) -> Run:
        return Run(Status.DEADLOCK, "load", 0, memory, waiting={"load": 0})

    monkeypatch.setattr("accel.sim.meaning.functional.simulate", stuck)
    report = tmp_path / "r.json"
    assert run(DIGITS, *TINY, "--sim", "functional", "--json", report) == 1
    out, err = capsys.readouterr()
    assert out == "" and not report.exists()
    assert err.startswith("lockstep: deadlock: load, instruction 0 (waiting: load at 0) conv1")
    assert len(err.splitlines()) == 1


def test_auto_reports_its_decision(tmp_path, capsys) -> None:
    report = tmp_path / "r.json"
    assert run(DIGITS, "--target", "auto:tiny-1x4x4", "--pin", "conv3=host", "--pin", "qadd=accel",
               "--link", "1e9,1e-6,0", "--json", report) == 0
    figures = json.loads(report.read_text())
    assert [one["device"] for one in figures["segments"]] == [
        one["device"] for one in figures["auto"]["segments"]]
    assert figures["host"]["conv3"] == "it is pinned to the host"
    assert figures["auto"]["assumed"]["link.start_seconds"] == {"value": 0.0, "unit": "s"}
    assert any("add" in one["nodes"] for one in figures["segments"] if one["device"] == "accel")
    assert len(figures["copies"]) == len(figures["auto"]["copies"]) >= 2
    out = capsys.readouterr().out
    assert f"auto took {figures['auto']['chosen']} of " in out and "segment 2 on " in out
    assert "assumed: link.bytes_per_second 1e+09 B/s" in out


@pytest.mark.slow
def test_the_error_of_less_precision_is_said(tmp_path, capsys) -> None:
    network, report = DIGITS.with_name("digits-float.onnx"), tmp_path / "r.json"
    assert run(network, "--target", "cuda:emulated", "--precision", "f16", "--json", report) == 0
    figures = json.loads(report.read_text())["precision"]
    assert figures["kind"] == "f16" and 1e-6 < figures["errors"]["logits"] < 1e-2
    assert (f"logits in f16: {figures['errors']['logits']:.1e} of its greatest element from float32"
            in capsys.readouterr().out)
