"""`lockstep configs`: the shipped geometries as a table, one geometry as TOML that reads back."""

import pytest

from accel.machine.config import load, preset, preset_names
from lockstep.cli import main


def test_every_preset_is_listed(capsys) -> None:
    assert main(["configs"]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["name", "array", "macs/cycle"]
    assert [row.split()[0] for row in rows] == preset_names()
    assert len({len(line) for line in (heading, *rows)}) == 1
    config = preset("pynq-1x16x16")
    (row,) = [row.split() for row in rows if row.startswith(config.name)]
    assert row[1:] == ["1x16x16", "256", "32K", "256K", "32K", "8K", "128K", "32K", "2K", "8",
                       "100"]


@pytest.mark.parametrize("name", preset_names())
def test_one_geometry_reads_back(capsys, tmp_path, name: str) -> None:
    assert main(["configs", name]) == 0
    text = capsys.readouterr().out
    (tmp_path / "mine.toml").write_text(text)
    assert load(tmp_path / "mine.toml") == preset(name)
    assert main(["configs", str(tmp_path / "mine.toml")]) == 0
    assert capsys.readouterr().out == text


def test_derived_sizes_are_shown(capsys) -> None:
    assert main(["configs", "tiny-1x4x4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# array 1x4x4: 16 multiply-accumulates a cycle"
    assert "# wgt: 256 entries of 16 bytes" in lines


def test_an_unknown_preset_is_one_line(capsys) -> None:
    assert main(["configs", "pynk"]) == 2
    names = ", ".join(preset_names())
    message = f"lockstep: error: Preset must be one of {names}, not 'pynk'\n"
    assert capsys.readouterr() == ("", message)


def test_a_wrong_file_is_one_line(capsys, tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(preset("tiny-1x4x4").to_toml().replace("block_in = 4", "block_in = 300"))
    assert main(["configs", str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"lockstep: error: Configuration {path}: block_in must be from 1 to "
                              "256, not 300: none that are larger have been compared with the "
                              "RTL\n")
