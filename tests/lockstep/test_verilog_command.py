"""``lockstep verilog``: what it refuses, and what it says."""

import re

import pytest

from lockstep.cli import main


@pytest.fixture
def quick(monkeypatch):
    """Without an emission, which takes seconds."""
    monkeypatch.setattr("fpga.verilog.export._files",
                        lambda machine, bus, clock_mhz: {f"{bus}{clock_mhz}.v": machine.hash})


def test_it_lists_the_files(quick, tmp_path, capsys):
    folder = tmp_path / "made"
    assert main(["verilog", "--machine", "tiny-1x4x4", "-o", str(folder)]) == 0
    assert re.sub(r"\s+", " ", capsys.readouterr().out) == f"{folder}/native100.v: 64 bytes "
    assert [path.name for path in folder.iterdir()] == ["native100.v"]


def test_scripts_for_vivado(quick, tmp_path, capsys):
    assert main(["verilog", "--machine", "tiny-1x4x4", "--bus", "axi4", "--clock-mhz", "50",
                 "--vivado", "-o", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"axi450.v", "settings.tcl", "build.tcl"}
    assert "vivado -mode batch" in capsys.readouterr().out


@pytest.mark.parametrize("arguments, text", [
    (["--clock-mhz", "50"], "--clock-mhz must come with --bus axi4, not native"),
    (["--vivado"], "--vivado must come with --bus axi4, not native"),
    (["--bus", "axi4", "--vivado", "--clock-mhz", "400"],
     "--clock-mhz must be 10 to 250 on a Zynq, not 400"),
    (["--machine", "nope"], "Machine must be one of "),
    (["--bus", "apb"], "'apb'")])
def test_wrong_requests(quick, tmp_path, capsys, arguments, text):
    folder = tmp_path / "made"
    assert main(["verilog", "-o", str(folder), *arguments]) == 2
    assert text in capsys.readouterr().err
    assert not folder.exists()


def test_a_file_is_no_folder(quick, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["verilog", "-o", str(tmp_path / "file")]) == 2
    assert "--output must name a folder that can be written, not " in capsys.readouterr().err
