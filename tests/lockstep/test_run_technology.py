"""`lockstep run --technology`: clock and energy in tables and JSON, refusals."""

import json
from pathlib import Path

import pytest

from accel.estimates.energy import ENERGY_UNITS
from accel.estimates.technology_files import DATA
from lockstep.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"
TINY = ["--target", "accel:tiny-1x4x4"]


def run(*args) -> int:
    return main(["run", str(DIGITS), *map(str, args)])


def refused(capsys, message: str, *args) -> None:
    assert run(*args) == 2
    assert capsys.readouterr() == ("", f"lockstep: error: {message}\n")


def test_energy_of_each_layer(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    file = tmp_path / "r.json"
    assert run(*TINY, "--no-values", "--technology", "45nm", "--json", file) == 0
    out = capsys.readouterr().out
    figures = json.loads(file.read_text())
    used = figures["energy"]
    assert used["technology"] == "45nm" and tuple(used["units"]) == ENERGY_UNITS
    assert sum(used["units"].values()) == pytest.approx(used["joules"])
    for unit in ENERGY_UNITS:
        assert sum(row["energy"]["units"][unit] for row in figures["layers"]) == pytest.approx(
            used["units"][unit])
    assert used["counts"]["cycles"] == figures["cycles"]
    moved = figures["counters"][0]["bytes"]
    assert 4 * used["counts"]["dram.read"] == moved["load"] + moved["fetch"]
    assert used["operations"]["multiply8x8"] == 16 * used["counts"]["gemm.gemm"]
    assert "energy in nJ, in 45nm" in out
    (line,) = [line for line in out.splitlines() if line.startswith("all ")]
    assert line.split()[1] == f"{used['joules'] * 1e9:,.1f}"
    watts = used["joules"] / figures["seconds"]
    assert f"{used['joules'] * 1e9:,.1f} nJ, " in out and f"{watts * 1e3:,.2f} mW at" in out


def test_time_is_at_the_clock_of_the_technology(capsys, tmp_path) -> None:
    file = tmp_path / "r.json"
    assert run(*TINY, "--no-values", "--technology", "ecp5", "--json", file) == 0
    out, figures = capsys.readouterr().out, json.loads(file.read_text())
    clock = figures["technology"]
    assert clock["mhz_low"] < clock["mhz"] < clock["mhz_high"] and clock["mhz"] != 100
    assert figures["seconds"] == figures["cycles"] / (clock["mhz"] * 1e6)
    assert f" ms at {clock['mhz']:g} MHz ±1" in out and "energy" not in figures
    assert "ms at the clock that ecp5 is estimated to reach; absent: energy" in out


def test_a_technology_of_ones_own(capsys, tmp_path) -> None:
    table = tmp_path / "mine.toml"
    text = (DATA / "technology-45nm.toml").read_text()
    table.write_text(text.replace('name = "45nm"', 'name = "mine"').replace(
        "row_pj = 0.0", "row_pj = 500.0"))
    assert run(*TINY, "--no-values", "--technology", table, "--row-buffer", "1024") == 0
    assert ", in mine" in capsys.readouterr().out
    table.write_text(text.replace("row_pj = 0.0", "row_pj = -3"))
    refused(capsys, f"Technology {table}: dram.row_pj must be a number, at least 0, not -3",
            *TINY, "--technology", table)


def test_refusals(capsys, tmp_path) -> None:
    refused(capsys, "Technology must be one of 45nm, 7nm, ecp5 or a .toml file, not '4nm'",
            *TINY, "--technology", "4nm")
    refused(capsys, f"'{tmp_path}/none.toml' must be a file that exists",
            *TINY, "--technology", tmp_path / "none.toml")
    refused(capsys, "--technology must come with --sim cycle, not functional: the cycle simulator "
            "alone counts every access", *TINY, "--sim", "functional", "--technology", "45nm")
    refused(capsys, "--technology must be left out with --target cpu: the host has no cycles",
            "--target", "cpu", "--technology", "45nm")
    refused(capsys, "--technology must be left out with --on: the network runs elsewhere",
            *TINY, "--on", "tcp://127.0.0.1:1", "--technology", "45nm")
