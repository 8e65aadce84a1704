"""The bench of pools: what it counts, and small runs of each measurement."""

import pytest

from bench.searches import pools as bench
from bench.searches.pools import BENCH, recorded
from tests.support.extras import needs

pytestmark = needs("distributed", "the extra pool")


def figures(said: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in said.splitlines())


def test_a_record_counts_when_its_line_is_whole(tmp_path) -> None:
    records = tmp_path / "records.jsonl"
    assert recorded(records) == []
    records.write_text('{"id": "a"}\n{"id": "b"}\n{"id": "c"')
    assert recorded(records) == ["a", "b"]


def test_lost_records_and_those_there_twice_are_found(monkeypatch, capsys) -> None:
    """A search that records the first of its trials twice and leaves out the last."""
    ids = [trial.id for trial in bench.trials(3, 20.0)]
    monkeypatch.setattr(bench.Searches, "run", lambda *_: None)
    monkeypatch.setattr(bench, "recorded", lambda records: [ids[0], *ids[:-1], "other"])
    assert BENCH.main(["--only", "kills", "--trials", "3"]) == 1
    found = figures(capsys.readouterr().out)
    assert (found["lost"], found["twice"], found["foreign"]) == ("1", "1", "1")


@pytest.mark.slow
def test_kills(capsys) -> None:
    assert BENCH.main(["--only", "kills", "--trials", "300", "--every", "6"]) == 0
    found = figures(capsys.readouterr().out)
    assert (found["lost"], found["twice"], found["killed_searches"]) == ("0", "0", "2")


@pytest.mark.slow
def test_busy(capsys) -> None:
    assert BENCH.main(["--only", "busy", "--workers", "8", "--trials", "80",
                       "--milliseconds", "300"]) == 0
    assert figures(capsys.readouterr().out)["measurements"] == "80"


@pytest.mark.slow
def test_tls(capsys) -> None:
    assert BENCH.main(["--only", "tls", "--trials", "20"]) == 0
    found = figures(capsys.readouterr().out)
    assert found["trials"] == "20"
    assert "cannot be reached" in found["without_certificate"]
    assert "cannot be reached" in found["with_one_of_others"]
