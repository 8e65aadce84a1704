"""Commands with a machine of one's own: a file of Python code."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import lockstep
from accel.machine.loading import load_machine
from accel.sim.checking import check
from accel.sim.meaning import functional
from examples import distance
from lockstep.cli import main
from tests.support.effort import Effort

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"
OWN = """
import lockstep
from accel.machine.intrinsics import SHIPPED
from compiler import te

absdiff = lockstep.vector_op("absdiff", lambda a, b: te.abs(a - b))
machine = lockstep.Machine(lockstep.preset("tiny-1x4x4"), (*SHIPPED, absdiff))
"""


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", [
    ["--machine", "mine.py"], ["--target", "accel:mine.py"],
    ["--target", "accel,cpu", "--machine", "mine.py"]])
def test_run(target: list[str], capsys) -> None:
    assert main(["run", str(DIGITS), *target, "--json", "r.json"]) == 0
    figures = json.loads(Path("r.json").read_text())
    assert figures["machine_hash"] == load_machine("mine.py").hash
    assert figures["target"].startswith("accel:mine.py")


def test_auto(capsys) -> None:
    assert main(["compile", str(DIGITS), "--target", "auto:accel,cpu", "--machine", "mine.py",
                 "-o", "y"]) == 0
    assert "for auto:accel:mine.py,cpu, " in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_the_width_of_the_bus(capsys) -> None:
    assert main(["run", str(DIGITS), "--machine", "mine.py", "--bus-bytes", "16", "--sim",
                 "functional", "--json", "r.json"]) == 0
    assert json.loads(Path("r.json").read_text())["machine_hash"] != load_machine("mine.py").hash


@pytest.mark.slow
@pytest.mark.parametrize("geometry", [
    "tiny-1x4x4", pytest.param("pynq-1x16x16", marks=pytest.mark.slow)])
def test_an_imported_network_uses_the_instruction(geometry: str, capsys) -> None:
    """HardSwish, Abs(Sub) and Max in functional and cycle simulation, and in the slow run on the
    RTL: what the shipped machine computes too.
    """
    Path("mine.py").write_text(OWN.replace("tiny-1x4x4", geometry))
    onnx.save(distance.network(), "net.onnx")
    x = distance.samples()
    np.savez("samples.npz", x=x)
    np.savez("x.npz", x=x[:1])
    assert main(["quantize", "net.onnx", "--calibration", "samples.npz", "-o", "net8.onnx"]) == 0
    told: dict[str, dict] = {}
    runs = [("mine.py", "functional"), ("mine.py", "cycle"), (geometry, "functional")]
    if geometry == "tiny-1x4x4" and not Effort.quick:
        runs.append(("mine.py", "verilator"))
    for machine, simulator in runs:
        assert main(["run", "net8.onnx", "--machine", machine, "--target", "accel,cpu", "--sim",
                     simulator, "--input", "x.npz", "--json", "r.json"]) == 0
        told[f"{machine} {simulator}"] = json.loads(Path("r.json").read_text())
    assert len({figures["outputs"][0]["sha256"] for figures in told.values()}) == 1
    for figures in told.values():
        assert [one["operators"] for one in figures["segments"] if one["device"] == "accel"] == [
            ["qconv2d", "qtable", "qconv2d", "qconv2d", "qmap", "qmap", "qglobalavgpool",
             "reshape", "qdense"]]
    by = [note for note in told["mine.py cycle"]["notes"] if "absdiff" in note]
    assert len(by) == 1 and by[0].startswith("distance (qmap): by absdiff on the accelerator; ")
    assert not any(" by " in note for note in told[f"{geometry} functional"]["notes"])
    assert "distance (by absdiff on the accelerator; without: " in " ".join(
        capsys.readouterr().out.split())


def test_a_compiled_module_is_run_on_the_same_machine(capsys) -> None:
    assert main(["compile", str(DIGITS), "--machine", "mine.py", "-o", "d.lockstep"]) == 0
    assert main(["run", "d.lockstep", "--machine", "mine.py", "--sim", "functional"]) == 0
    capsys.readouterr()
    assert main(["run", "d.lockstep", "--sim", "functional"]) == 2
    assert capsys.readouterr().err.endswith(
        "instruction absdiff is one more; compile the network again, or give its machine if it has "
        "instructions of your own: --machine M\n")
    assert main(["run", "d.lockstep", "--machine", "tiny-1x4x4", "--sim", "functional"]) == 2
    loaded = lockstep.load("d.lockstep", machine="mine.py")
    found, wanted = (logits(module) for module in (loaded, lockstep.compile(DIGITS, "cpu")))
    np.testing.assert_array_equal(found, wanted)


def test_a_module_of_the_host_alone_has_no_machine(capsys) -> None:
    assert main(["compile", str(DIGITS), "--target", "cpu", "-o", "d.lockstep"]) == 0
    capsys.readouterr()
    assert main(["run", "d.lockstep", "--machine", "mine.py"]) == 2
    assert capsys.readouterr() == ("", "lockstep: error: --machine must be left out for "
                                       "'d.lockstep': it is compiled for the host alone\n")


def logits(module) -> np.ndarray:
    module.set_input("image", np.full((1, 1, 8, 8), 0.5, np.float32))
    module.run()
    return module.get_output("logits")


@pytest.mark.parametrize("machine", ["mine.py", Path("mine.py"), "object"])
def test_compile_takes_a_machine(machine: str | Path) -> None:
    given = load_machine("mine.py") if machine == "object" else machine
    module = lockstep.compile(DIGITS, machine=given)
    assert module.accelerated[0].program.machine_hash == load_machine("mine.py").hash


def test_isa(capsys) -> None:
    assert main(["isa", "--machine", "mine.py"]) == 0
    assert "absdiff      vector  dst = abs(" in capsys.readouterr().out


@pytest.mark.slow
def test_check(capsys, monkeypatch) -> None:
    monkeypatch.setattr(check, "default_simulators", lambda: {
        "functional": lambda machine, case: functional.simulate(machine, case.program,
                                                                case.memory)})
    main(["check", "--machine", "mine.py", "--count", "2"])
    assert "absdiff ran " in capsys.readouterr().out


COMMANDS = pytest.mark.parametrize("command", [
    ["run", str(DIGITS)], ["compile", str(DIGITS), "-o", "y"], ["isa"], ["check"],
    ["fpga", "build", "--board", "ulx3s-85f"], ["fpga", "selftest", "--emulated"],
    ["fpga", "run", str(DIGITS), "--emulated"]])


@COMMANDS
def test_a_machine_without_a_name(command: list[str], capsys) -> None:
    assert main([*command, "--machine", ""]) == 2
    assert capsys.readouterr() == ("", "lockstep: error: --machine must name a machine, not ''\n")


@COMMANDS
def test_code_that_fails_is_one_line(command: list[str], capsys) -> None:
    Path("mine.py").write_text("machine = lockstep\n")
    assert main([*command, "--machine", "mine.py"]) == 2
    assert capsys.readouterr() == ("", "lockstep: error: Machine mine.py, line 1: NameError: name "
                                       "'lockstep' is not defined\n")
