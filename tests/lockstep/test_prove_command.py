"""``lockstep prove``, and what `isa` tells of it."""

import json

import pytest

from accel.datapath.plan import plan
from accel.formal import datapaths, waves
from accel.hw.compute.datapath import Datapath
from accel.machine.loading import load_machine
from lockstep.cli import main
from tests.accel.formal.faults import BODIES, DATAPATH, Fault

MACHINE = "ecp5-1x2x2"


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "cache"))


def test_what_is_proved_is_told_and_remembered(own_cache, tmp_path, capsys):
    report = tmp_path / "r.json"
    assert main(["isa", "--machine", MACHINE, "--proved"]) == 0
    assert "not proved; not tested here" in capsys.readouterr().out
    assert main(["prove", "--machine", MACHINE, "--only", "clamp", "--json", str(report)]) == 0
    said = capsys.readouterr().out
    assert "clamp: the datapath of vector computes what is declared" in said
    assert "1 proved of 1 claims" in said
    (claim,) = json.loads(report.read_text())["claims"]
    assert (claim["instruction"], claim["proved"]) == ("clamp", True)
    assert main(["isa", "--machine", MACHINE, "--proved"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("clamp ")][0].split()[1:4] == [
        "proved", "by", "Bitwuzla"]
    assert any(line.startswith("sub ") and "not proved" in line for line in lines)


@pytest.mark.slow
def test_a_fault_is_told_with_a_waveform(own_cache, monkeypatch, tmp_path, capsys):
    """And the simulator of Amaranth gives another value than the hardware without the fault."""
    made = Fault(DATAPATH, *BODIES[3][1:]).module_with_it()
    monkeypatch.setattr(datapaths, "Datapath", made.Datapath)
    monkeypatch.setattr(waves, "Datapath", made.Datapath)
    report = tmp_path / "r.json"
    assert main(["prove", "--machine", MACHINE, "--only", "sub: ", "--json", str(report), "--waves",
                 str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "REFUTED" in said and "for example a[0]" in said
    assert "value" in (tmp_path / "sub.vcd").read_text()
    (claim,) = json.loads(report.read_text())["claims"]
    vector = plan(load_machine(MACHINE), "vector")
    number = [body.name for body in vector.bodies].index("sub")
    wrong = waves.computed(vector, number, claim["values"])
    monkeypatch.setattr(waves, "Datapath", Datapath)
    assert waves.computed(vector, number, claim["values"]) != wrong


def test_no_such_claim(own_cache, capsys):
    assert main(["prove", "--machine", MACHINE, "--only", "divide"]) == 2
    assert "--only must be in the name of a claim, not 'divide'" in capsys.readouterr().err


def test_codes_are_not_proved(capsys):
    assert main(["isa", "--status", "--proved"]) == 2
    assert "--proved must be left out with --status" in capsys.readouterr().err


def test_what_a_check_ran_is_remembered(own_cache, capsys):
    from accel.formal.known import keep_runs, known

    machine = load_machine(MACHINE)
    for _ in range(2):
        keep_runs(machine, {"add": 3})
    assert (known(machine)["add"].ran, known(machine)["sub"].ran) == (6, 0)
    assert main(["isa", "--machine", MACHINE, "--proved"]) == 0
    assert "ran 6 times in checks" in capsys.readouterr().out


def test_what_is_proved_stays_so_until_it_is_refuted(own_cache):
    from accel.formal.known import keep_proofs, known
    from accel.formal.logic import Answer
    from accel.formal.proving import Proof, Proofs, claims_of

    machine = load_machine(MACHINE)
    claim = next(claim for claim in claims_of(machine) if claim.instruction == "add")
    told = []
    for proved in (True, None, False):
        keep_proofs(Proofs(machine, (Proof(claim, Answer(proved, 0.0)),), (), 0.0))
        told.append((bool(known(machine)["add"].proved), bool(known(machine)["add"].refuted)))
    assert told == [(True, False), (True, False), (False, True)]


def test_without_a_cache_that_can_be_written_nothing_is_lost(monkeypatch):
    from accel.formal import known
    from compiler.kept import CacheError

    def full(*_):
        raise CacheError("no room")

    monkeypatch.setattr(known, "note", full)
    known.keep_runs(load_machine(MACHINE), {"add": 1})
