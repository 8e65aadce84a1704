"""``lockstep check``: what it prints, writes and returns."""

import json
import re
from dataclasses import replace

import pytest

from accel.machine.config import preset
from accel.machine.machine import Machine
from accel.machine.status import Run, Status
from accel.sim.checking import check
from accel.sim.meaning import functional
from lockstep.cli import main

MACHINE = Machine(preset("tiny-1x4x4"))


@pytest.fixture
def only_functional(monkeypatch):
    """Without the RTL: what `check` finds is not the matter here."""
    monkeypatch.setattr(check, "default_simulators", lambda: {
        "functional": lambda machine, case: functional.simulate(machine, case.program,
                                                                case.memory)})


def test_the_rtl_and_the_functional_simulator_agree(capsys, tmp_path):
    path = tmp_path / "report.json"
    assert main(["check", "--count", "3", "--seed", "7", "--json", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"tiny-1x4x4 ({MACHINE.hash[:12]}), seed 7"
    assert any(line.split()[1:2] + line.split()[4:6] == ["token", "of", "16"] for line in lines)
    assert lines[-2] == "the simulators agree"
    assert lines[-1].startswith("load ran ") and lines[-1].endswith(" times, every form")
    report = json.loads(path.read_text())
    assert report["ok"] and report["difference"] is None and report["seed"] == 7
    assert report["machine_hash"] == MACHINE.hash and report["programs"] == 23 + 3 + 1 + 10
    assert report["cycles"] > 10_000 and report["coverage"]["pad"].keys() >= {"before in loop 0"}


@pytest.mark.slow
def test_every_program_may_be_a_line(capsys, monkeypatch, only_functional):
    """Where there is no terminal, a line says how far it is, at intervals."""
    monkeypatch.setattr("lockstep.commands.machine.check.INTERVAL_SECONDS", 0.0)
    assert main(["check", "--count", "2"]) == 0
    first, *lines = capsys.readouterr().err.splitlines()
    total = 23 + 2 + 1 + 10
    assert re.fullmatch(" *[0-9]+ s  tiny-1x4x4, the RTL is built", first)
    assert [line.partition(" s  ")[2] for line in lines] == [
        f"tiny-1x4x4, program {done} of {total}" for done in range(total + 1)]


@pytest.mark.slow
def test_a_configuration_of_ones_own(capsys, tmp_path, only_functional):
    own = replace(preset("tiny-1x4x4"), name="own", block_in=8)
    (tmp_path / "own.toml").write_text(own.to_toml())
    assert main(["check", "--machine", str(tmp_path / "own.toml"), "--count", "2"]) == 0
    assert capsys.readouterr().out.startswith(f"own ({Machine(own).hash[:12]}), seed 0\n")


def test_a_difference_is_printed_and_is_status_1(capsys, monkeypatch):
    monkeypatch.setattr(check, "default_simulators", lambda: {
        "functional": lambda machine, case: functional.simulate(machine, case.program,
                                                                case.memory),
        "broken": lambda machine, case: Run(Status.DEADLOCK, "gemm", 3)})
    assert main(["check", "--count", "2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "NOT OK"
    told = " ".join(lines[-6:])
    assert "functional and broken differ: instruction 0 `load" in told
    assert "deadlock: gemm, instruction 3" in told


@pytest.mark.slow
def test_empty_bins_are_printed_and_are_status_1(capsys, monkeypatch, only_functional):
    monkeypatch.setattr(check, "COUNT", 1)
    assert main(["check", "--count", "1"]) == 1
    out = capsys.readouterr().out
    assert "never covered: stall: vector for bank\n" in out and "\nNOT OK\n" in out


def test_a_form_that_never_ran_is_printed_and_is_status_1(capsys, monkeypatch, only_functional):
    monkeypatch.setattr(check, "directed", lambda machine: [])
    assert main(["check", "--count", "1"]) == 1
    _, counts = capsys.readouterr().out.split("\nNOT OK\n")
    assert re.fullmatch(r"load ran \d+ times, .*, never ran: .*mul acc,acc to acc.*",
                        " ".join(counts.split()))


@pytest.mark.parametrize(("arguments", "message"), [
    (["--machine", "nope"], "Machine must be one of ecp5-1x16x16, "),
    (["--count", "0"], "argument --count: must be at least 1, not 0 (see lockstep check --help)"),
    (["--json", "/no/such/folder/r.json"], "'/no/such/folder/r.json' must name a file in a folder "
     "that exists")])
def test_wrong_requests_are_one_line(capsys, arguments, message):
    assert main(["check", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"lockstep: error: {message}") and said.count("\n") == 1


@pytest.mark.slow
def test_random_geometries(capsys, tmp_path, monkeypatch):
    from accel.sim.checking import geometries

    monkeypatch.setattr(geometries, "quick_simulators", lambda machine: {
        name: simulator for name, simulator in check.default_simulators().items()
        if name not in ("verilated", "slice")})
    path = tmp_path / "report.json"
    assert main(["check", "--geometries", "2", "--count", "5", "--json", str(path)]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-2] == "the simulators agree"
    lines = [re.sub("^ *[0-9]+ s  |[0-9]+ s$", "", line) for line in said.err.splitlines()]
    report = json.loads(path.read_text())
    first, second = counts = [one["programs"] for one in report["geometries"]]
    wanted = ["1 of 2: random-0 (1x1x7, bus 32), the RTL is built",
              f"1 of 2: random-0 (1x1x7, bus 32), program 0 of {first}",
              f"random-0: {first} programs agree, ",
              "2 of 2: random-1 (1x4x8, bus 1), the RTL is built",
              f"2 of 2: random-1 (1x4x8, bus 1), program 0 of {second}",
              f"random-1: {second} programs agree, "]
    assert [line for line in lines if line in wanted] == wanted
    assert all(0 < one["seconds"] < 1000 for one in report["geometries"])
    assert report["ok"] and min(counts) > 30
    assert report["geometries"][0]["geometry"] != report["geometries"][1]["geometry"]


def test_geometries_and_a_machine_are_refused(capsys):
    assert main(["check", "--geometries", "2", "--machine", "tiny-1x4x4"]) == 2
    assert capsys.readouterr().err == (
        "lockstep: error: --machine must be left out with --geometries: its machines are random\n")
