"""`simulators.exact --only geometries`: the list, and what is told of a geometry."""

import json

import pytest

from accel.machine.config import ConfigError, preset
from bench.simulators import exact
from bench.simulators.exact import BENCH, GEOMETRIES, configured, judge, title


def test_all_but_the_last_can_be_built_and_differ() -> None:
    made = [json.dumps(configured(changes).geometry()) for changes in GEOMETRIES[:-1]]
    assert len(set(made)) == len(made) == 23
    assert configured({}).geometry() == preset("tiny-1x4x4").geometry()
    sizes = [configured({"memory": quarters}).inp_bytes for quarters in (1, 16)]
    assert sizes[1] == 16 * sizes[0]
    with pytest.raises(ConfigError, match="^vector_beats must be at most the 4 lanes"):
        configured(GEOMETRIES[-1])


def test_a_refusal_names_the_field() -> None:
    assert judge({"vector_beats": 8}, 1) == {
        "ok": True, "refused": "vector_beats must be at most the 4 lanes of an entry, not 8"}


def test_what_was_judged_is_kept(tmp_path, monkeypatch) -> None:
    asked = []

    def judged(changes, count):
        asked.append(changes)
        return {"ok": len(asked) < 3, "refused": "told"}

    monkeypatch.setattr(exact, "judge", judged)
    file, first = tmp_path / "g.json", [*map(title, GEOMETRIES[:3])]
    assert BENCH.main(["--only", "geometries", *first[:2], "--json", str(file)]) == 0
    assert BENCH.main(["--only", "geometries", first[2]]) == 1
    assert asked == list(GEOMETRIES[:3])
    assert [row["name"] for row in json.loads(file.read_text())["rows"]] == first[:2]
