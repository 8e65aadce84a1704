"""No output takes the place of an input or of another output: refused before any work."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.frontend.onnx.nodes.external import external_files
from lockstep import cli
from lockstep.options.paths import (MachineName, ModelFile, OutputFile, OutputFolder, input_file,
                                    model_file, output_file, require_files)

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits-int8.onnx"


@pytest.fixture
def there(tmp_path, monkeypatch) -> Path:
    """The working directory, with a network, inputs and a geometry."""
    monkeypatch.chdir(tmp_path)
    Path("d").mkdir()
    Path("m.onnx").write_bytes(DIGITS.read_bytes())
    np.savez("x.npz", image=np.zeros((1, 1, 8, 8), np.float32))
    Path("own.toml").write_text("batch = 1\n")
    Path("own").mkdir()
    for name in ("own.py", "own/__init__.py", "own/ops.py"):
        Path(name).write_text("raise SystemExit\n")
    os.link("m.onnx", "hard.onnx")
    os.symlink("m.onnx", "soft.onnx")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


RUN = ["run", "m.onnx"]
QUANTIZE = ["quantize", "m.onnx", "--calibration", "x.npz", "-o"]


@pytest.mark.parametrize(("line", "message"), [
    ([*RUN, "--output", "m.onnx"], "--output 'm.onnx' must be another file than 'm.onnx', which "
                                   "is read"),
    ([*RUN, "--output", "./m.onnx"], "--output 'm.onnx' must be another file than 'm.onnx', which "
                                     "is read"),
    ([*RUN, "--json", "hard.onnx"], "--json 'hard.onnx' must be another file than 'm.onnx', which "
                                    "is read"),
    ([*RUN, "--output", "soft.onnx"], "--output 'soft.onnx' must be another file than 'm.onnx', "
                                      "which is read"),
    (["run", "soft.onnx", "--report", "m.onnx"], "--report 'm.onnx' must be another file than "
                                                 "'soft.onnx', which is read"),
    ([*RUN, "--input", "x.npz", "--output", "x.npz"], "--output 'x.npz' must be another file than "
                                                      "'x.npz', which is read"),
    ([*RUN, "--output", "y", "--json", "y"], "--output 'y' and --json 'y' must be different files"),
    ([*RUN, "--json", "y.json", "--trace", "./y.json"], "--json 'y.json' and --trace 'y.json' must "
                                                        "be different files"),
    ([*RUN, "--target", "accel:own.toml", "--json", "own.toml"],
     "--json 'own.toml' must be another file than 'own.toml', which is read"),
    (["compile", "m.onnx", "-o", "m.onnx"], "--output 'm.onnx' must be another file than 'm.onnx', "
                                            "which is read"),
    (["compile", "m.onnx", "-o", "y", "--dump", "y"], "--output 'y' and --dump 'y' must be "
                                                      "different files"),
    (["compile", "m.onnx", "-o", "d/00-import.txt", "--dump", "d"],
     "--output 'd/00-import.txt' and --dump 'd' must be different files"),
    ([*QUANTIZE, "m.onnx"], "--output 'm.onnx' must be another file than 'm.onnx', which is read"),
    ([*QUANTIZE, "x.npz"], "--output 'x.npz' must be another file than 'x.npz', which is read"),
    ([*QUANTIZE, "q", "--report", "q"], "--report 'q' and --output 'q' must be different files"),
    (["run", "m.onnx", "--machine", "own.py", "--output", "own.py"],
     "--output 'own.py' must be another file than 'own.py', which is read"),
    (["run", "m.onnx", "--target", "auto:accel:own,cpu", "--output", "own/ops.py"],
     "--output 'own/ops.py' must be another file than 'own/ops.py', which is read"),
    (["check", "--config", "own.toml", "--json", "own.toml"],
     "--json 'own.toml' must be another file than 'own.toml', which is read"),
    (["fpga", "run", "m.onnx", "--emulated", "--output", "hard.onnx"],
     "--output 'hard.onnx' must be another file than 'm.onnx', which is read"),
    ([*RUN, "--output", "no/y"], "'no/y' must name a file in a folder that exists"),
])
def test_files_that_meet_are_refused(there, monkeypatch, capsys, line: list[str],
                                     message: str) -> None:
    monkeypatch.setattr("accel.machine.machine.Machine.__post_init__",
                        lambda machine: pytest.fail("it began"))
    before = contents(there)
    assert cli.main(line) == 2
    assert capsys.readouterr() == ("", f"lockstep: error: {message}\n")
    assert contents(there) == before


def external(path: Path, where: str) -> None:
    """A network whose weights lie in another file, one of them in a subgraph."""
    def tensor(name: str, location: str) -> TensorProto:
        made = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[1])
        made.data_location = TensorProto.EXTERNAL
        made.external_data.add(key="location", value=location)
        return made

    inner = helper.make_graph([helper.make_node("Constant", [], ["c"], value=tensor("", "inner"))],
                              "inner", [], [helper.make_tensor_value_info("c", 1, [1])])
    node = helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)
    onnx.save(helper.make_model(helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])], [tensor("w", where)])), path)


def test_external_data_are_found(tmp_path) -> None:
    external(tmp_path / "m.onnx", "m.data")
    assert external_files(tmp_path / "m.onnx") == [tmp_path / "inner", tmp_path / "m.data"]


@pytest.mark.parametrize("data", [b"", b"no model", b"\xff" * 100])
def test_what_is_no_model_has_no_external_data(tmp_path, data: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(data)
    assert external_files(tmp_path / "m.onnx") == []
    assert external_files(tmp_path / "none.onnx") == []


def test_weights_beside_the_network_are_inputs(there, capsys) -> None:
    external(there / "m.onnx", "m.data")
    (there / "m.data").write_bytes(b"1234")
    assert cli.main(["compile", "m.onnx", "-o", "m.data"]) == 2
    assert capsys.readouterr() == ("", "lockstep: error: --output 'm.data' must be another file "
                                       "than 'm.data', which is read\n")
    assert (there / "m.data").read_bytes() == b"1234"


@pytest.mark.parametrize("name", ["n" * 5000, "n/" * 2500, "\0", "m" * 256])
def test_weights_in_a_file_whose_name_is_too_long(there, capsys, name: str) -> None:
    external(there / "m.onnx", name)
    Path("y").touch()
    for line in (["run", "m.onnx"], ["compile", "m.onnx", "-o", "y"],
                 ["quantize", "m.onnx", "--calibration", "x.npz", "-o", "y"]):
        assert cli.main(line) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("lockstep: error: m.onnx: ") and err.count("\n") == 1
        assert len(err) < 1000


@pytest.mark.parametrize("path", ["/dev/null", "/dev/stdout", "/dev/fd/1"])
def test_devices_take_any_number_of_outputs(path: str) -> None:
    require_files({"output": OutputFile(path), "json": OutputFile(path)})


def test_a_pipe_is_an_input_and_two_outputs(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    require_files({"model": ModelFile(tmp_path / "pipe"), "output": OutputFile(tmp_path / "pipe"),
                   "json": OutputFile(tmp_path / "pipe")})


def test_outputs_may_replace_what_they_made_before(there) -> None:
    arguments = {"model": model_file("m.onnx"), "output": output_file("y"),
                 "dump": OutputFolder("d"), "input": [input_file("x.npz")],
                 "target": MachineName("accel:own.toml")}
    for _ in range(2):
        require_files(arguments)
        Path("y").write_text("made")
        Path("d").mkdir(exist_ok=True)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("line", [
    ["run", "N"], ["run", "m.onnx", "--input", "N"], ["run", "m.onnx", "--output", "N"],
    ["run", "m.onnx", "--json", "N"], ["run", "m.onnx", "--trace", "N.json"],
    ["run", "m.onnx", "--report", "N"], ["run", "m.onnx", "--target", "accel:N.toml"],
    ["run", "m.onnx", "--target", "accel:N"], ["run", "m.onnx", "--calibration", "N"],
    ["run", "N.pt2"], ["compile", "N", "-o", "y"], ["compile", "m.onnx", "-o", "N"],
    ["compile", "m.onnx", "-o", "y", "--dump", "N"], ["quantize", "N", "--calibration", "x.npz",
                                                      "-o", "y"],
    ["quantize", "m.onnx", "--calibration", "N", "-o", "y"],
    ["quantize", "m.onnx", "--calibration", "x.npz", "-o", "N"],
    ["check", "--config", "N.toml"], ["check", "--json", "N"], ["configs", "N"],
    ["configs", "N.toml"], ["isa", "--config", "N.toml"],
    ["isa", "--machine", "N.py"], ["isa", "--machine", "N"], ["fpga", "program", "N"],
    ["fpga", "build", "--board", "ulx3s-12f", "--config", "N.toml"],
    ["fpga", "build", "--board", "ulx3s-12f", "--out", "N"],
    ["fpga", "build", "--board", "N"], ["fpga", "run", "N", "--emulated"],
    ["fpga", "run", "m.onnx", "--port", "N"], ["fpga", "selftest", "--emulated", "--config",
                                               "N.toml"],
])
@pytest.mark.parametrize("name", ["n" * 300, "n" * 5000, "n/" * 3000])
def test_a_name_that_is_too_long_is_one_line(there, capsys, line: list[str], name: str) -> None:
    pytest.importorskip("torch") if "N.pt2" in line else None
    assert cli.main([word.replace("N", name) for word in line]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("lockstep: error: ") and err.count("\n") == 1


@pytest.mark.parametrize("line", [["run", "/dev/zero"], ["compile", "/dev/null", "-o", "y"],
                                  ["quantize", "/dev/zero", "--calibration", "x.npz", "-o", "y"]])
def test_a_device_is_no_network(there, capsys, line: list[str]) -> None:
    assert cli.main(line) == 2
    assert capsys.readouterr() == ("", f"lockstep: error: {line[1]!r} must be a file, not a "
                                       f"device\n")


@pytest.mark.parametrize("line", [
    ["run", "M"], ["run", "m.onnx", "--input", "M"], ["compile", "M", "-o", "y"],
    ["quantize", "M", "--calibration", "x.npz", "-o", "y"],
    ["quantize", "m.onnx", "--calibration", "M", "-o", "y"], ["fpga", "run", "M", "--emulated"],
    ["fpga", "program", "M"]])
def test_a_file_that_cannot_be_read_is_one_line(there, capsys, line: list[str]) -> None:
    """The memory of this process at address 0."""
    assert cli.main([word.replace("M", "/proc/self/mem") for word in line]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("lockstep: error: ") and err.count("\n") == 1


@pytest.mark.parametrize("command", [["run", "m.onnx"], ["compile", "m.onnx", "-o", "y"],
                                     ["fpga", "run", "m.onnx", "--emulated"]])
@pytest.mark.parametrize("target", ["", "cpu:", "accel:", "gpu", "accelerator"])
def test_a_target_that_is_none(there, capsys, command: list[str], target: str) -> None:
    assert cli.main([*command, "--target", target]) == 2
    assert capsys.readouterr() == ("", f"lockstep: error: Target must be accel:MACHINE, "
                                       f"auto:MACHINE, cpu, cpu:THREADS, cpu:plain, "
                                       f"cuda, opencl, metal, or "
                                       "a list of "
                                       f"targets, not {target!r}; a machine is a preset "
                                       f"or a file\n")


@pytest.mark.parametrize("text", ["x=" + "[" * 2000 + "]" * 2000, "x=" + "{a=" * 2000 + "1"])
@pytest.mark.parametrize("line", [["run", "m.onnx", "--target", "accel:own.toml"],
                                  ["check", "--config", "own.toml"], ["configs", "own.toml"]])
def test_a_geometry_of_many_brackets(there, capsys, line: list[str], text: str) -> None:
    Path("own.toml").write_text(text)
    assert cli.main(line) == 2
    assert capsys.readouterr() == ("", "lockstep: error: Configuration own.toml nests values too "
                                       "deeply; a geometry has numbers and names alone\n")
